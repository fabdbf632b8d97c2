"""A studio on a real server, and a client that says exactly what it is told to."""

import http.client
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs extra `studio`")
pytest.importorskip("uvicorn", reason="needs extra `studio`")

from marginshot.labelling.items.store import Store
from marginshot.studio.access import Access
from marginshot.studio.api import Studio
from marginshot.studio.server import StudioServer, listen


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)


@dataclass
class Client:
    """Requests of our own page; any header can be another, or None to be left out."""

    access: Access
    cookie: str = ""
    place: str = ""
    streams: list = field(default_factory=list)

    @property
    def host(self):
        return f"127.0.0.1:{self.access.port}"

    def request(self, method, path, body=None, headers=(), timeout=20):
        connection = http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=timeout)
        place = "" if path.startswith("/?token=") else self.place
        connection.putrequest(method, place + path, skip_host=True, skip_accept_encoding=True)
        given = {"Host": self.host, "Cookie": self.cookie}
        if body is not None:
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            given |= {"Content-Length": str(len(body)), "Content-Type": "application/json"}
            given |= {"Origin": f"http://{self.host}", "X-Marginshot": "1"}
        given |= dict(headers)
        for name, values in given.items():
            for value in [values] if isinstance(values, str) else values or []:
                connection.putheader(name, value)
        connection.endheaders(body)
        return connection, connection.getresponse()

    def get(self, path, **headers):
        return self._whole("GET", path, None, headers)

    def post(self, path, body, **headers):
        return self._whole("POST", path, body, headers)

    def _whole(self, method, path, body, headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection, response = self.request(method, path, body, given)
        answer = Answer(response.status, response.headers, response.read())
        connection.close()
        return answer

    def sign_in(self):
        answer = self.get(f"/?token={self.access.token}")
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        self.place = answer.headers["Location"].rstrip("/")
        return self

    def act(self, action, **fields):
        answer = self.post("/api/act", {"action": action, **fields})
        assert answer.status == 200, answer.content
        return answer.json

    def events(self):
        """The stream of events, as (kind, content)."""
        connection, response = self.request("GET", "/api/events")
        assert response.status == 200
        self.streams.append(connection)
        kind = None
        for line in response:
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield kind, json.loads(line[6:])

    def wait_for_answers(self, version):
        """What is told of the answers of at least ``version``."""
        for kind, content in self.events():
            assert kind != "error", content
            if kind == "answers" and content["version"] >= version:
                return content
        raise AssertionError("the stream ended")


@contextmanager
def running(session, folder, host="127.0.0.1", source=("source.npz",)):
    """A client of a studio that runs while the body does."""
    listener = listen(host, 0)
    access = Access(host=host, port=listener.getsockname()[1])
    studio = Studio(session, Store(folder), source)
    server = StudioServer(studio, access)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    client = Client(access)
    client.studio = studio
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield client.sign_in()
    finally:
        for stream in client.streams:
            stream.close()
        server.should_exit = True
        thread.join(20)
        studio.close()
        assert not thread.is_alive()


def rows_of_three_classes(n_items=60):
    """Embeddings (n_items, 8); row r belongs to class r % 3."""
    centres = 9.0 * np.eye(8)[:3]
    return centres[np.arange(n_items) % 3] + np.random.default_rng(0).normal(size=(n_items, 8))
