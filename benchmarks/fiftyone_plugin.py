"""Try the plugin of FiftyOne on features with known classes: install it, run its operator, compare with the truth.

    python benchmarks/fiftyone_plugin.py FEATURES.npz [--shot 5] [--rows 600]

Needs `fiftyone` beside marginshot; its database, plugins and configuration are in a folder that goes at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path)
    parser.add_argument("--shot", type=int, default=5, help="labels of each class")
    parser.add_argument("--rows", type=int, default=600)
    given = parser.parse_args()
    held = np.load(given.features)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(held["X"]))[: given.rows])
    X, y = held["X"][rows].astype(np.float32), held["y"][rows]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= dict.fromkeys(("HOME", "FIFTYONE_DATABASE_DIR"), folder)
        os.environ |= {"FIFTYONE_PLUGINS_DIR": f"{folder}/plugins", "FIFTYONE_DO_NOT_TRACK": "true"}
        shutil.copytree(Path(__file__).parent.parent / "examples" / "fiftyone", f"{folder}/plugins/marginshot")
        run(X, y, given.shot, rng)


def run(X: np.ndarray, y: np.ndarray, shot: int, rng: np.random.Generator) -> None:
    import fiftyone as fo
    import fiftyone.operators as foo

    asked = np.concatenate([rng.permutation(np.flatnonzero(y == own))[:shot] for own in np.unique(y)])
    samples = [
        fo.Sample(filepath=f"/nowhere/{row}.jpg", embedding=X[row].tolist(), truth=str(y[row])) for row in range(len(X))
    ]
    for row in asked.tolist():
        samples[row]["ground_truth"] = fo.Classification(label=str(y[row]))
    dataset = fo.Dataset("marginshot-try", overwrite=True)
    dataset.add_samples(samples, progress=False)
    print("operators:", [one.uri for one in foo.list_operators() if "marginshot" in one.uri])
    options = {"embeddings": "embedding", "labels": "ground_truth", "predictions": "marginshot", "target": 0.95}
    done = foo.execute_operator("@marginshot/label/label_samples", {"dataset": dataset, "params": options})
    print(done.result["summary"])
    labels, sure = (np.array(dataset.values(f"marginshot.{name}")) for name in ("label", "confidence"))
    others = np.setdiff1d(np.arange(len(y)), asked)
    right = labels[others] == y[others].astype(str)
    print(f"right of the others: {right.mean():.1%}; promised {sure[others].mean():.1%}")
    print(f"tagged: {dataset.count_sample_tags()}")
    assert dataset.values("ground_truth.label").count(None) == len(others), "labels given by hand were touched"


if __name__ == "__main__":
    main()
