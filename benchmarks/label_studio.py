"""Try `marginshot label-studio` against a running Label Studio: connect, annotate, predict, compare with the truth.

    python -m venv elsewhere && elsewhere/bin/pip install label-studio
    LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=$PWD \\
        elsewhere/bin/label-studio start --no-browser --port 8080 --username me@example.org --password secret123
    marginshot label-studio --url http://localhost:8080 --files . --token TOKEN     # in another terminal
    python benchmarks/label_studio.py http://localhost:8080 TOKEN photos --backend http://localhost:9090

``photos``, in the document root, holds class folders. A project is made with a task for every picture, as local files;
a few of each class are annotated one by one, which Label Studio tells the backend; then it asks for predictions
for all tasks.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from pathlib import Path
from urllib.parse import quote

import numpy as np


class Client:
    """The interface of Label Studio for programs."""

    def __init__(self, url: str, token: str) -> None:
        from marginshot.studio.label_studio.contents import LabelStudio

        self.server, self.url = LabelStudio(url, token), url

    def call(self, path: str, body: object = None, method: str = "POST") -> dict:
        headers = {"Content-Type": "application/json", **self.server._headers()}
        held = json.dumps(body).encode() if method == "POST" else None
        with urllib.request.urlopen(urllib.request.Request(self.url + path, held, headers, method=method)) as answer:
            return json.loads(answer.read() or b"{}")


def config(classes: list[str]) -> str:
    choices = "".join(f'<Choice value="{name}"/>' for name in classes)
    return f'<View><Image name="image" value="$image"/><Choices name="kind" toName="image">{choices}</Choices></View>'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("photos", type=Path, help="class folders, in the document root of local files")
    parser.add_argument("--backend", default="http://localhost:9090")
    parser.add_argument("--shot", type=int, default=3, help="pictures of each class that are annotated")
    parser.add_argument("--most", type=int, default=20, help="pictures of each class")
    given = parser.parse_args()
    client = Client(given.url.rstrip("/"), given.token)
    classes = sorted(path.name for path in given.photos.iterdir() if path.is_dir())
    pictures = [path for name in classes for path in sorted((given.photos / name).iterdir())[: given.most]]
    project = client.call("/api/projects", {"title": "marginshot", "label_config": config(classes)})["id"]
    client.call(
        "/api/storages/localfiles", {"project": project, "path": str(given.photos.resolve()), "use_blob_urls": True}
    )
    tasks = [
        {"data": {"image": f"/data/local-files/?d={quote(path.relative_to(given.photos.parent).as_posix())}"}}
        for path in pictures
    ]
    client.call(f"/api/projects/{project}/import", tasks)
    found = client.call(f"/api/tasks?project={project}&page_size=10000&fields=all", method="GET")["tasks"]
    ids = {one["data"]["image"]: one["id"] for one in found}
    truth = {ids[task["data"]["image"]]: path.parent.name for task, path in zip(tasks, pictures, strict=True)}
    ml = client.call("/api/ml", {"url": given.backend, "project": project, "title": "marginshot"})
    print(f"project {project}: {len(truth)} tasks of {len(classes)} classes; backend {ml.get('state', ml)}")
    rng = np.random.default_rng(0)
    asked = [
        task
        for name in classes
        for task in rng.permutation([t for t, own in truth.items() if own == name])[: given.shot]
    ]
    for task in map(int, asked):
        answer = {"from_name": "kind", "to_name": "image", "type": "choices", "value": {"choices": [truth[task]]}}
        client.call(f"/api/tasks/{task}/annotations", {"result": [answer]})
    started = time.perf_counter()
    client.call(
        f"/api/dm/actions?id=retrieve_tasks_predictions&project={project}",
        {"selectedItems": {"all": True, "excluded": []}},
    )
    predicted: list[dict] = []
    while len(predicted) < len(truth) and time.perf_counter() - started < 300:
        predicted = client.call(f"/api/predictions?project={project}", method="GET")  # type: ignore[assignment]
        time.sleep(2)
    answers = {
        one["task"]: (one["result"][0]["value"]["choices"][0], one["score"]) for one in predicted if one["result"]
    }
    open_tasks = [task for task in answers if task not in set(map(int, asked))]
    right = np.mean([answers[task][0] == truth[task] for task in open_tasks])
    print(
        f"{len(asked)} annotated; {len(predicted)} predictions, {len(answers)} with a label, "
        f"{time.perf_counter() - started:.0f} s"
    )
    print(f"right of the others: {right:.1%}; promised {np.mean([answers[task][1] for task in open_tasks]):.1%}")
    print(f"model version: {predicted[0]['model_version']}")


if __name__ == "__main__":
    main()
