"""The endpoints of the studio."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from marginshot.data.pictures import UnreadablePictureError
from marginshot.labelling.store import Store
from marginshot.studio import views
from marginshot.studio.acts import act
from marginshot.studio.exports import Wish, export
from marginshot.studio.inputs import path_row, query_integer, query_rows, query_share, query_text, read_body
from marginshot.studio.responses import ASK_AGAIN, FOR_A_DAY, Json, kept, unless_known
from marginshot.studio.thumbnails import Thumbnails
from marginshot.studio.worker import Worker

if TYPE_CHECKING:
    from marginshot.labelling import Session

_STATIC = Path(__file__).parent / "static"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}

_MOST_LISTED = 500  # items named at once
_MOST_FOUND = 5_000  # rows of a search, and of what to label next


class Studio:
    """The endpoints on one session. Endpoints that may take long run in threads; acts and exports run one at a time.

    Parameters
    ----------
    session : Session
        The session that is labelled; the caller closes it.
    store : Store
        Records which outputs were written by marginshot. Thumbnails are kept in its folder.
    source : sequence of str
        Source and options as words of a command line, for the command that repeats an export.
    """

    def __init__(self, session: Session, store: Store, source: Sequence[str] = ()) -> None:
        self.session = session
        self.store = store
        self.source = source
        self.worker = Worker(session)
        self.thumbnails = Thumbnails(store.path.parent)
        self.run = secrets.token_hex(8)  # part of picture addresses: in another run a row may be another picture
        self._acting, self._exporting = threading.Lock(), threading.Lock()
        self._asking = {name: threading.Lock() for name in ("next", "worklist", "groups")}
        self._found: dict[str, tuple[object, Any]] = {}
        self._drawing = ThreadPoolExecutor(1, "marginshot-map")
        self._map: tuple[int, Future[bytes]] | None = None
        self._moved: dict[Path, Path] = {}
        self._static = {path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _TYPES}

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start the worker with the server, and stop it with the server."""
        self.worker.start()
        yield
        await run_in_threadpool(self.worker.stop)
        self._drawing.shutdown(wait=False, cancel_futures=True)

    def routes(self) -> list[Route]:
        """Addresses and endpoints."""
        reading = {
            "/": self.page,
            "/static/{name}": self.page,
            "/api/project": self.project,
            "/api/answers": self.answers,
            "/api/items": self.items,
            "/api/item/{row}": self.item,
            "/api/thumb/{row}": self.thumbnail,
            "/api/picture/{row}": self.picture,
            "/api/map": self.map,
            "/api/next": self.next,
            "/api/worklist": self.worklist,
            "/api/groups": self.groups,
            "/api/accept": self.accept,
            "/api/search": self.search,
            "/api/events": self.events,
        }
        writing = {"/api/act": self.act, "/api/export": self.export}
        return [Route(path, endpoint, methods=["GET"]) for path, endpoint in reading.items()] + [
            Route(path, endpoint, methods=["POST"]) for path, endpoint in writing.items()
        ]

    def page(self, request: Request) -> Response:
        """The page, or one of its files by name."""
        name = request.path_params.get("name", "index.html")
        if name not in self._static:
            raise HTTPException(404, "There is no such file.")
        content = self._static[name]
        etag = hashlib.sha256(content).hexdigest()[:32]
        return unless_known(request, etag, ASK_AGAIN) or kept(content, _TYPES[Path(name).suffix], etag, ASK_AGAIN)

    def project(self, _: Request) -> Response:
        """Classes, progress and numbers: everything but the items."""
        return Json(views.project(self.session, self.worker.answered, self.run))

    def answers(self, _: Request) -> Response:
        """Class ids, confidences and flags of all rows, as typed arrays."""
        answered = self.worker.answered
        version = "0" if answered is None else str(answered.answers.version)
        content = views.answers(self.session, answered)
        return Response(content, media_type="application/octet-stream", headers={"X-Version": version})

    def items(self, request: Request) -> Response:
        """Names and beginnings of texts of some rows."""
        return Json(views.items(self.session, query_rows(request, self.session.n_items, _MOST_LISTED)))

    def item(self, request: Request) -> Response:
        """Everything about one row."""
        return Json(views.item(self.session, self.worker.answered, self._row(request)))

    def thumbnail(self, request: Request) -> Response:
        """One picture, small."""
        return self._picture(request, small=True)

    def picture(self, request: Request) -> Response:
        """One picture, large."""
        return self._picture(request, small=False)

    def _picture(self, request: Request, *, small: bool) -> Response:
        row = self._row(request)
        if self.session.kind != "picture":
            raise HTTPException(404, "This item is not a picture.")
        path = Path(self.session.contents[row])
        path = self._moved.get(path, path)
        caching = FOR_A_DAY if request.query_params.get("v") == self.run else ASK_AGAIN
        try:
            etag = f"{self.thumbnails.digest(path)[:32]}-{'small' if small else 'large'}"
            known = unless_known(request, etag, caching)
            if known is not None:
                return known
            content = self.thumbnails.thumbnail(path) if small else self.thumbnails.picture(path)
        except (UnreadablePictureError, OSError):
            raise HTTPException(404, "This picture cannot be read.") from None
        return kept(content, "image/webp", etag, caching)

    def map(self, _: Request) -> Response:
        """Points of all rows; 202 while they are computed."""
        n_ready = int(self.session.ready.sum())
        if self._map is None or (self._map[1].done() and self._map[0] != n_ready):
            self._map = n_ready, self._drawing.submit(lambda: self.session.map.astype("<f4").tobytes())
        points = self._map[1]
        if not points.done():
            return Response(status_code=202, headers={"Retry-After": "1"})
        return Response(points.result(), media_type="application/octet-stream")

    def next(self, request: Request) -> Response:
        """Rows to label next."""
        n = query_integer(request, "n", 40, _MOST_FOUND)
        return self._once("next", n, lambda: self.session.next(n).tolist())

    def worklist(self, request: Request) -> Response:
        """Rows to check for a share of all labels to be right."""
        target = query_share(request, "target", 0.95)
        return self._once("worklist", target, lambda: views.worklist(self.session, target))

    def groups(self, _: Request) -> Response:
        """Groups of items of no class, proposed as new classes."""
        return self._once("groups", None, lambda: views.groups(self.session))

    def _once(self, name: str, option: float | None, compute: Callable[[], Any]) -> Response:
        """A result that depends on the state of the session and an option, computed once for all pages."""
        now = self.session.latest, self.session.state.version, int(self.session.ready.sum()), option
        with self._asking[name]:
            if name not in self._found or self._found[name][0] != now:
                self._found[name] = now, compute()
            return Json(self._found[name][1])

    def accept(self, request: Request) -> Response:
        """Number of items that an acceptance would label, and how many of these are expected to be wrong."""
        n_items, wrong = self.session.preview_accept(query_share(request, "at_least", 0.95))
        return Json({"n_items": n_items, "wrong": wrong})

    def search(self, request: Request) -> Response:
        """Rows whose name or text contains the query."""
        return Json(views.search(self.session, query_text(request, "q"), _MOST_FOUND))

    async def events(self, _: Request) -> Any:
        """The stream of server-sent events."""
        return self.worker.newsroom.respond

    async def act(self, request: Request) -> Response:
        """Do an act; the response comes once the act is in the log."""
        body = await read_body(request)
        done = await run_in_threadpool(self._alone, self._acting, lambda: act(self.session, body, self._seen()))
        self.worker.wake()
        return Json(done)

    async def export(self, request: Request) -> Response:
        """Write the result to the path that the user typed."""
        wish = Wish.read(await read_body(request))
        done = await run_in_threadpool(self._alone, self._exporting, lambda: self._export(wish))
        return Json(done | {"command": wish.command(self.source)})

    def _export(self, wish: Wish) -> dict[str, Any]:
        exported = export(self.session, wish, self.store)
        self._moved |= exported.moved  # also where some pictures were left behind
        exported.check_complete()
        return exported.report

    @staticmethod
    def _alone(lock: threading.Lock, work: Any) -> Any:
        with lock:
            return work()

    def _seen(self) -> int | None:
        """Number of the answers that pages know."""
        return None if self.worker.answered is None else self.worker.answered.number

    def _row(self, request: Request) -> int:
        return path_row(request, self.session.n_items)
