"""The protocol that Label Studio speaks with a model: health, setup, predict, webhook."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from marginshot.data.pictures import pillow_silenced
from marginshot.labelling.items.store import Store
from marginshot.studio.connections import StudioProtocol
from marginshot.studio.label_studio.config import read_config
from marginshot.studio.label_studio.contents import LabelStudio, Pictures, UnavailableError
from marginshot.studio.label_studio.project import Project

_MOST_BYTES = 64 * 2**20  # of a request: thousands of tasks


class Backend:
    """The projects that this serves, each made at its first request.

    Parameters
    ----------
    server : LabelStudio
        Server that earlier tasks and annotations are read from, if its address and token are known.
    pictures : Pictures
        Where the files of tasks are.
    store : Store or None
        The cache of embeddings.
    encoder : str or None
        As in ``marginshot label``.
    report : callable
        Called with sentences about what is not available.
    """

    def __init__(
        self,
        server: LabelStudio,
        pictures: Pictures,
        store: Store | None = None,
        encoder: str | None = None,
        report: Callable[[str], object] = str,
    ) -> None:
        self._server, self._pictures, self._store, self._encoder = server, pictures, store, encoder
        self._report = report
        self._projects: dict[int, tuple[str, Project]] = {}
        self._lock = threading.Lock()

    def project(self, told: Any, config: Any) -> Project:
        """The project with this number; it begins anew when its configuration changes."""
        number = _number(told)
        if not isinstance(config, str) or not config.strip():
            raise ValueError("The project has no labelling configuration yet. Save one, then connect this again.")
        with self._lock:
            known = self._projects.get(number)
            if known is not None and known[0] == config:
                return known[1]
            made = Project(read_config(config), self._pictures, self._store, self._encoder, self._report)
            self._projects[number] = (config, made)
        if self._server.is_known:
            threading.Thread(target=self._hear_all, args=(number, made), daemon=True).start()
        return made

    def _hear_all(self, number: int, project: Project) -> None:
        try:
            project.add(self._server.tasks(number))
        except (UnavailableError, ValueError, KeyError) as error:
            self._report(f"Could not list the tasks of project {number}: {error}.")

    def setup(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Version of the model; Label Studio requests it when a project is connected and before predictions."""
        return {"model_version": self.project(body.get("project"), body.get("schema")).version}

    def predict(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Predictions for the tasks in a request of Label Studio."""
        tasks = body.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, Mapping) for task in tasks):
            raise ValueError("predict needs a list of tasks.")
        return {"results": self.project(body.get("project"), body.get("label_config")).predict(tasks)}

    def webhook(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Take in annotations that were made, changed or deleted; START_TRAINING reads all tasks from Label Studio."""
        told = body.get("project")
        if not isinstance(told, Mapping):
            return {}
        project = self.project(told.get("id"), told.get("label_config"))
        action = str(body.get("action"))
        if action.startswith("ANNOTATION") and action.endswith("DELETED"):
            project.forget(number for one in _annotations(body) if isinstance(number := one.get("id"), int))
        elif action.startswith("ANNOTATION"):
            task = body.get("task")
            if isinstance(task, Mapping) and isinstance(task.get("id"), int):
                project.add([{"id": task["id"], "data": task.get("data")}])
                for one in _annotations(body):
                    project.annotate(task["id"], one)
        elif action == "START_TRAINING" and self._server.is_known:
            self._hear_all(_number(told.get("id")), project)
        return {"model_version": project.version}

    def close(self) -> None:
        """Remove the pictures that were fetched."""
        self._pictures.close()


def create_app(backend: Backend, password: str = "") -> Starlette:
    """The application; with a ``password`` requests need it, by basic authentication or as first part of the path."""

    def answer(act: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            body = await _read(request)
            try:
                return JSONResponse(await run_in_threadpool(act, body))
            except ValueError as error:
                raise HTTPException(400, str(error)) from error

        return respond

    def health(_: Request) -> Response:
        return JSONResponse({"status": "UP", "model_class": "marginshot"})

    def told(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    return Starlette(
        routes=[
            Route("/", health),
            Route("/health", health),
            Route("/setup", answer(backend.setup), methods=["POST"]),
            Route("/predict", answer(backend.predict), methods=["POST"]),
            Route("/webhook", answer(backend.webhook), methods=["POST"]),
        ],
        middleware=[Middleware(_Password, password=password)],
        exception_handlers={HTTPException: told},
    )


def make_server(backend: Backend, password: str = "") -> uvicorn.Server:
    """The server that `serve` runs, with the studio's bounds on connections and on the time of a request."""
    return uvicorn.Server(
        uvicorn.Config(
            create_app(backend, password),
            http=StudioProtocol,
            ws="none",
            access_log=False,
            log_level="error",
            server_header=False,
        )
    )


def serve(backend: Backend, listener: socket.socket, password: str = "") -> None:
    """Serve until Ctrl-C or SIGTERM; KeyboardInterrupt is raised after the shutdown."""
    with pillow_silenced():
        make_server(backend, password).run(sockets=[listener])


class _Password:
    """Lets requests through that have the password."""

    def __init__(self, app: ASGIApp, password: str) -> None:
        self._app, self._password = app, password

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._password:
            await self._app(scope, receive, send)
            return
        first, slash, rest = scope["path"].lstrip("/").partition("/")
        if slash and _equal(first, self._password):
            await self._app({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send)
        elif _equal(_basic(dict(scope["headers"]).get(b"authorization", b"")), self._password):
            await self._app(scope, receive, send)
        else:
            headers = {"WWW-Authenticate": 'Basic realm="marginshot"'}
            refused = JSONResponse({"error": "This backend has a password."}, 401, headers)
            await refused(scope, receive, send)


async def _read(request: Request) -> Mapping[str, Any]:
    """The JSON object of a request; a page of another site cannot send one without being asked first."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise HTTPException(415, "Requests are JSON, of the type application/json.")
    held = bytearray()
    async for part in request.stream():
        held += part
        if len(held) > _MOST_BYTES:
            raise HTTPException(413, f"Requests have at most {_MOST_BYTES:,} bytes.")
    try:
        body = json.loads(held)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The request is not JSON ({error}).") from error
    if not isinstance(body, dict):
        raise HTTPException(400, "Requests are JSON objects.")
    return body


def _annotations(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Annotations in the body of a webhook: one, or several in a list."""
    several = body.get("annotations")
    held = several if isinstance(several, list) else [body.get("annotation")]
    return [one for one in held if isinstance(one, Mapping)]


def _number(told: Any) -> int:
    """The number of a project, which requests give as ``3.1700000000`` with the time of its making."""
    first = str(told).partition(".")[0]
    if not first.isdigit():
        raise ValueError(f"Projects have numbers; got {told!r:.40}.")
    return int(first)


def _basic(header: bytes) -> str:
    """The password in a header of basic authentication; empty where there is none."""
    kind, _, held = header.partition(b" ")
    try:
        return base64.b64decode(held).decode().partition(":")[2] if kind.lower() == b"basic" else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _equal(given: str, password: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), password.encode())
