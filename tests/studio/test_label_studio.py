"""The backend of Label Studio: its protocol, who may ask, and where pictures come from."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="the backend needs the extra studio")

from marginshot.cli.app import main
from marginshot.studio import connections
from marginshot.studio.label_studio.app import Backend, make_server
from marginshot.studio.label_studio.config import read_config
from marginshot.studio.label_studio.contents import LabelStudio, Pictures, UnavailableError
from marginshot.studio.server import listen
from workplaces import draw_picture, encoded, workplace  # noqa: F401

TEXTS = """<View><Text name="text" value="$body"/><Choices name="kind" toName="text" choice="single">
<Choice value="travel"/><Choice value="food"/></Choices></View>"""
IMAGES = """<View><Image name="img" value="$image"/><Choices name="kind" toName="img">
<Choice value="Red" alias="red"/><Choice value="Blue" alias="blue"/></Choices></View>"""

TASKS = [
    {"id": number, "data": {"body": text}}
    for number, text in enumerate(("late train", "train is late", "sweet cake", "cake is sweet"), start=1)
]


@pytest.fixture(autouse=True)
def quick_encoder(encoded):  # noqa: F811
    return encoded


def annotation(number, *chosen, name="kind"):
    answer = {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": list(chosen)}}
    return {"id": number, "result": [answer]}


@contextmanager
def serving(password="", server=None, root=None):
    server = server or LabelStudio()
    backend = Backend(server, Pictures(server, root))
    listener = listen("127.0.0.1", 0)
    running = make_server(backend, password)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(30)
        backend.close()


def ask(url, body=None, **headers):
    held = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **headers}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, held, sent), timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def event(action, config=TEXTS, **more):
    return {"action": action, "project": {"id": 3, "label_config": config}, **more}


def test_the_protocol_from_nothing_to_predictions():
    with serving() as url:
        assert ask(f"{url}/health")[1]["status"] == "UP"
        first = ask(f"{url}/setup", {"project": "3.17", "schema": TEXTS})[1]["model_version"]
        predict = {"tasks": TASKS, "project": "3.17", "label_config": TEXTS}
        assert len(ask(f"{url}/predict", predict)[1]["results"]) == 4
        for task, label in ((1, "travel"), (3, "food")):
            said = event("ANNOTATION_CREATED", task=TASKS[task - 1], annotation=annotation(task * 10, label))
            assert ask(f"{url}/webhook", said)[0] == 200
        answers = ask(f"{url}/predict", predict)[1]["results"]
        assert [one["result"][0]["value"]["choices"] for one in answers] == [["travel"]] * 2 + [["food"]] * 2
        assert {(one["result"][0]["from_name"], one["result"][0]["to_name"]) for one in answers} == {("kind", "text")}
        assert all(0 < one["score"] <= 1 for one in answers)
        version = ask(f"{url}/setup", {"project": "3.17", "schema": TEXTS})[1]["model_version"]
        assert version != first
        assert {one["model_version"] for one in answers} == {version}
        updated = event("ANNOTATION_UPDATED", task=TASKS[0], annotation=annotation(10, "food"))
        ask(f"{url}/webhook", updated)
        assert ask(f"{url}/predict", predict)[1]["results"][0]["result"][0]["value"]["choices"] == ["food"]
        deleted = event("ANNOTATIONS_DELETED", annotations=[{"id": 10}, {"id": 30}])
        assert ask(f"{url}/webhook", deleted)[1]["model_version"] == first


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("setup", {"project": "x", "schema": TEXTS}, 400, "have numbers"),
        ("setup", {"project": "1.2", "schema": ""}, 400, "no labelling configuration"),
        ("setup", {"project": "1.2", "schema": TEXTS.replace("single", "multiple")}, 400, "of several choices"),
        ("setup", {"project": "1.2", "schema": TEXTS.replace('toName="text"', 'toName="x"')}, 400, "are about 'x'"),
        ("setup", {"project": "1.2", "schema": '<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>'}, 400, "document type"),
        ("predict", {"project": "1.2", "label_config": TEXTS, "tasks": [1]}, 400, "needs a list of tasks"),
        ("predict", b"[1]", 400, "JSON objects"),
        ("predict", b"{" * 10, 400, "not JSON"),
        ("nowhere", {}, 404, "Not Found"),
    ],
)
def test_odd_requests_are_one_sentence(path, body, status, words):
    with serving() as url:
        found, told = ask(f"{url}/{path}", body)
        assert (found, words in told["error"]) == (status, True), told


def test_odd_tasks_and_annotations_do_no_harm():
    odd = [{}, {"id": "a", "data": {"body": "x"}}, {"id": 9, "data": {"body": 3}}, {"id": 8, "data": {"body": ""}}]
    with serving() as url:
        for more in (
            {},
            {"task": 3},
            {"task": TASKS[0], "annotation": 3},
            {"task": TASKS[0], "annotations": [None, {}]},
        ):
            assert ask(f"{url}/webhook", event("ANNOTATION_CREATED", **more))[0] == 200
        status, told = ask(f"{url}/predict", {"tasks": odd, "project": "3.1", "label_config": TEXTS})
        assert (status, [one["result"] for one in told["results"]]) == (200, [[]] * 4)


def test_a_password_is_asked_for_and_a_page_elsewhere_cannot_send():
    with serving(password="hush") as url:
        assert ask(f"{url}/health")[0] == 401
        assert ask(f"{url}/hushed/health")[0] == 401
        assert ask(f"{url}/hush/health")[0] == 200  # webhooks of Label Studio send no password but in their address
        basic = base64.b64encode(b"anyone:hush").decode()
        assert ask(f"{url}/health", Authorization=f"Basic {basic}")[0] == 200
        assert ask(f"{url}/health", Authorization="Basic !")[0] == 401
        assert ask(f"{url}/hush/webhook", {}, **{"Content-Type": "text/plain"})[0] == 415


def is_closed(opened, within):
    opened.settimeout(within)
    try:
        return not opened.recv(4096)
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_connections_are_bounded_and_half_a_request_is_given_up(monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 4)
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with serving() as url, ExitStack() as stack:
        place = ("127.0.0.1", urlsplit(url).port)
        opened = [stack.enter_context(socket.create_connection(place, timeout=10)) for _ in range(12)]
        assert sum(is_closed(one, within=0.05) for one in opened) >= 8
        assert all(is_closed(one, within=8) for one in opened)
        until, status = time.monotonic() + 10, None
        while status != 200 and time.monotonic() < until:
            try:
                status = ask(f"{url}/health")[0]
            except OSError:
                time.sleep(0.1)
        assert status == 200


def test_the_network_needs_a_password(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["label-studio", "--host", "0.0.0.0"])
    assert "a --password is needed" in capsys.readouterr().err


def test_choices_have_names_and_words():
    question = read_config(IMAGES)
    assert (question.field, question.kind.name, dict(question.classes)) == (
        "image",
        "picture",
        {"red": "Red", "blue": "Blue"},
    )


class _Server(http.server.BaseHTTPRequestHandler):
    """A Label Studio that wants a personal token's access, serves one picture, and sends some elsewhere."""

    asked: list[str]

    def do_POST(self):
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(200 if told == {"refresh": TOKEN} else 401, b'{"access": "short"}')

    def do_GET(self):
        type(self).asked.append(self.headers.get("Authorization"))
        if self.path == "/elsewhere.png":
            self.send_response(302)
            self.send_header("Location", "http://localhost:1/x.png")
            self.end_headers()
            return
        held = PICTURES.get(self.path, b"picture")
        self._answer(200 if self.headers.get("Authorization") == "Bearer short" else 401, held)

    def _answer(self, status, held):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(held)

    def log_message(self, *_):
        pass


PICTURES: dict[str, bytes] = {}  # by path
TOKEN = ".".join((base64.urlsafe_b64encode(b'{"alg":"HS256"}').decode().rstrip("="), "e30", "x"))


@pytest.fixture
def studio_server():
    handler = type("Handler", (_Server,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler.asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_uploads_are_fetched_with_either_token_and_from_nobody_else(studio_server):
    url, asked = studio_server
    pictures = Pictures(LabelStudio(url, TOKEN))
    assert pictures.find(1, "/data/upload/1/0123abcd-a.png").read_bytes() == b"picture"
    assert pictures.find(1, f"{url}/data/upload/1/0123abcd-a.png").suffix == ".png"
    for told, words in (
        ("http://example.org/a.png", "no other is asked"),
        ("//example.org/a.png", "no other is asked"),
        ("s3://bucket/a.png", "which is not asked"),
        ("file:///etc/passwd", "which is not asked"),
        ("/elsewhere.png", "only Label Studio itself"),
    ):
        with pytest.raises(UnavailableError, match=words):
            pictures.find(2, told)
    with pytest.raises(UnavailableError, match="refused by Label Studio"):
        LabelStudio(url, "0123456789abcdef").get("/data/upload/1/b.png")
    assert asked[-1] == "Token 0123456789abcdef"
    pictures.close()


def test_a_task_with_another_picture_is_not_answered_by_the_first(studio_server, workplace, monkeypatch):  # noqa: F811
    url, _ = studio_server
    for colour, seed in (("red", 2), ("blue", 4), ("red", 6), ("blue", 8)):
        name = f"{colour}-{seed}.png"
        monkeypatch.setitem(PICTURES, f"/data/upload/1/{name}", (workplace / "photos" / name).read_bytes())
    server = LabelStudio(url, TOKEN)
    backend = Backend(server, Pictures(server))
    tasks = [
        {"id": n, "data": {"image": f"/data/upload/1/{name}"}} for n, name in enumerate(("red-2.png", "blue-4.png"))
    ]
    for task, label in zip(tasks, ("red", "blue"), strict=True):
        backend.webhook(event("ANNOTATION_CREATED", IMAGES, task=task, annotation=annotation(task["id"], label)))
    labels = []
    for name in ("red-6.png", "blue-8.png"):
        tasks[2:] = [{"id": 2, "data": {"image": f"/data/upload/1/{name}"}}]
        answers = backend.predict({"tasks": tasks, "project": 3, "label_config": IMAGES})["results"]
        labels.append(answers[2]["result"][0]["value"]["choices"])
    backend.close()
    assert labels == [["red"], ["blue"]]


def test_local_files_are_read_below_their_folder_only(tmp_path):
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a b.png").write_bytes(b"")
    (tmp_path / "secret.png").write_bytes(b"")
    pictures = Pictures(LabelStudio(), tmp_path / "served")
    assert pictures.find(1, "/data/local-files/?d=a%20b.png") == tmp_path / "served" / "a b.png"
    for told in ("../secret.png", "/../secret.png", "x/../../secret.png"):
        with pytest.raises(UnavailableError, match="is not below"):
            pictures.find(2, f"/data/local-files/?d={told}")
    with pytest.raises(UnavailableError, match="give --url"):
        pictures.find(3, "/data/upload/1/a.png")
    pictures.close()


def test_pictures_that_cannot_be_had_are_told_and_the_others_labelled(workplace):  # noqa: F811
    names = [f"{colour}-{seed}.png" for colour in ("red", "blue") for seed in (2, 4, 6, 8)]
    tasks = [
        {"id": n, "data": {"image": f"/data/local-files/?d={name}"}} for n, name in enumerate([*names, "gone.png"])
    ]
    server = LabelStudio()
    told = []
    backend = Backend(server, Pictures(server, workplace / "photos"), report=told.append)
    for number, label in ((0, "red"), (4, "blue")):
        said = event("ANNOTATION_CREATED", IMAGES, task=tasks[number], annotation=annotation(number, label))
        backend.webhook(said)
    for _ in range(2):
        found = backend.predict({"tasks": tasks, "project": 3, "label_config": IMAGES})["results"]
    assert len(told) == 1  # once
    assert told[0].startswith("Task 8 ")
    labels = [one["result"][0]["value"]["choices"][0] if one["result"] else "" for one in found]
    assert labels == ["red"] * 4 + ["blue"] * 4 + [""]
    backend.close()
