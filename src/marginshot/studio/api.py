"""The endpoints of the studio."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from marginshot._lib.reading import UnreadableError
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs.formats import SessionExport
from marginshot.studio import views
from marginshot.studio.acts import act
from marginshot.studio.downloads import Download, Downloads, name_of
from marginshot.studio.exports import Wish, export, read_what
from marginshot.studio.fields import fields
from marginshot.studio.inputs import (
    Body,
    Conflict,
    path_row,
    query_integer,
    query_rows,
    query_share,
    query_text,
    read_body,
)
from marginshot.studio.responses import ASK_AGAIN, FOR_A_DAY, Json, in_part, kept, unless_known
from marginshot.studio.thumbnails import Thumbnails
from marginshot.studio.worker import Worker

if TYPE_CHECKING:
    from marginshot.labelling import Session

_STATIC = Path(__file__).parent / "static"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}

_MOST_LISTED = 500  # items named at once
_MOST_FOUND = 5_000  # rows of a search, and of what to label next
_MOST_ALIKE = 200  # rows that are like an item, or like words
_TELL_EVERY = 0.2  # seconds between two events about the progress of an export


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
    reopen : callable, optional
        Reads the source again, with what has changed in it.
    """

    def __init__(
        self,
        session: Session,
        store: Store,
        source: Sequence[str] = (),
        reopen: Callable[[], Session] | None = None,
    ) -> None:
        self.session = session
        self.new_rows = session.new_rows
        self.store = store
        self.source = source
        self.worker = Worker(session)
        self.thumbnails = Thumbnails(store.path.parent, session.kind)
        self.downloads = Downloads()
        self.run = secrets.token_hex(8)  # part of picture addresses: in another run a row may be another picture
        self._reopen = reopen
        self._acting, self._exporting = threading.Lock(), threading.Lock()
        self._asking = {name: threading.Lock() for name in ("next", "worklist", "groups", "fields")}
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

    def close(self) -> None:
        """Close the session that is open now, and remove what was written for downloads."""
        self.downloads.close()
        self.session.close()

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
            "/api/sound/{row}": self.sound,
            "/api/map": self.map,
            "/api/next": self.next,
            "/api/worklist": self.worklist,
            "/api/groups": self.groups,
            "/api/accept": self.accept,
            "/api/search": self.search,
            "/api/meaning": self.meaning,
            "/api/like": self.like,
            "/api/new": self.new,
            "/api/doubts": self.doubts,
            "/api/unlike": self.unlike,
            "/api/fields": self.fields,
            "/api/together": self.together,
            "/api/download/{token}": self.download,
            "/api/events": self.events,
        }
        writing = {
            "/api/act": self.act,
            "/api/export": self.export,
            "/api/download": self.prepare,
            "/api/rescan": self.rescan,
        }
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
        project = views.project(self.session, self.worker.answered, self.run)
        return Json(project | {"n_new": len(self.new_rows), "can_rescan": self._reopen is not None})

    def answers(self, _: Request) -> Response:
        """Class ids, confidences and flags of all rows, as typed arrays."""
        return Response(views.answers(self.session, self.worker.answered), media_type="application/octet-stream")

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
        if not self.session.kind.has_image:
            raise HTTPException(404, f"A {self.session.kind} has no picture.")
        content = self._content(row)
        caching = FOR_A_DAY if request.query_params.get("v") == self.run else ASK_AGAIN
        try:
            digest = hashlib.sha256(self.thumbnails.digest(content).encode()).hexdigest()
            etag = f"{digest[:32]}-{'small' if small else 'large'}"
            known = unless_known(request, etag, caching)
            if known is not None:
                return known
            made = self.thumbnails.thumbnail(content) if small else self.thumbnails.picture(content)
        except (UnreadableError, OSError):
            raise HTTPException(404, "This picture cannot be read.") from None
        return kept(made, "image/webp", etag, caching)

    def sound(self, request: Request) -> Response:
        """One sound, for a player, which may ask for a part of it."""
        row = self._row(request)
        if not self.session.kind.has_sound:
            raise HTTPException(404, f"A {self.session.kind} has no sound.")
        try:
            made = self.thumbnails.sound(self._content(row))
        except (UnreadableError, OSError):
            raise HTTPException(404, "This sound cannot be read.") from None
        return in_part(request, made, "audio/wav")

    def _content(self, row: int) -> Any:
        """Content of the item in a row, with the present path of its file."""
        content = self.session.contents[row]
        moved = self._moved.get(self.session.kind.file(content)) if self.session.kind.in_files else None
        return content if moved is None else self.session.kind.moved(content, moved)

    def map(self, _: Request) -> Response:
        """Points of all rows; 202 while they are computed."""
        n_ready = int(self.session.ready.sum())
        if self._map is None or (self._map[1].done() and self._map[0] != n_ready):
            self._map = n_ready, self._drawing.submit(lambda: self.session.map().astype("<f4").tobytes())
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

    def meaning(self, request: Request) -> Response:
        """Rows that the words of the query describe best."""
        return Json(self.session.lookup.described(query_text(request, "q"), _MOST_ALIKE).tolist())

    def like(self, request: Request) -> Response:
        """Rows most like a row, itself first."""
        row = query_rows(request, self.session.n_items, 1)[0]
        return Json(self.session.lookup.similar(row, _MOST_ALIKE).tolist())

    def new(self, _: Request) -> Response:
        """Rows that were not in the source when it was last opened."""
        return Json(self.new_rows)

    def doubts(self, _: Request) -> Response:
        """Labels that look wrong."""
        return Json(views.doubts(self.worker.answered))

    def unlike(self, _: Request) -> Response:
        """Rows that look unlike all examples."""
        answered = self.worker.answered
        return Json([] if answered is None else answered.answers.unlike.tolist())

    def fields(self, _: Request) -> Response:
        """What items can be filtered by."""
        return self._once("fields", None, lambda: fields(self.session))

    def together(self, _: Request) -> Response:
        """Number of the event of every row, as an array; empty where every row is its own."""
        events = self.session.item_events
        content = b"" if events is None else np.unique(events, return_inverse=True)[1].astype("<i4").tobytes()
        return Response(content, media_type="application/octet-stream")

    async def events(self, _: Request) -> Any:
        """The stream of server-sent events."""
        return self.worker.newsroom.respond

    async def act(self, request: Request) -> Response:
        """Do an act; the response comes once the act is in the log."""
        body = await read_body(request)
        done = await run_in_threadpool(self._alone, self._acting, lambda: self._act(body))
        self.worker.wake()
        return Json(done)

    def _act(self, body: Body) -> dict[str, Any]:
        """Do an act on the rows of this run; rows of an earlier one may be other items."""
        if "run" in body and body.text("run") != self.run:
            raise Conflict("The source was read again in the meantime. Load this page anew, then repeat it.")
        return act(self.session, body, self._seen())

    async def export(self, request: Request) -> Response:
        """Write the result to the path that the user typed."""
        wish = Wish.read(await read_body(request))
        done = await run_in_threadpool(self._alone, self._exporting, lambda: self._export(wish))
        return Json(done | {"command": wish.command(self.source)})

    def _export(self, wish: Wish) -> dict[str, Any]:
        exported = export(self.session, wish, self.store, self._tell_progress())
        self._moved |= exported.moved  # also where some pictures were left behind
        exported.check_complete()
        return exported.report

    async def prepare(self, request: Request) -> Response:
        """Write the result to a file for the browser; the response has its address."""
        what = read_what(await read_body(request))
        made = await run_in_threadpool(self._alone, self._exporting, lambda: self._prepare(what))
        return Json({"address": f"api/download/{made.token}", "name": made.path.name})

    def _prepare(self, what: SessionExport) -> Download:
        return self.downloads.prepare(self.session, what, name_of(self.session.source), self._tell_progress())

    def download(self, request: Request) -> Response:
        """The file that was prepared last."""
        path = self.downloads.find(request.path_params["token"])
        if path is None:
            raise HTTPException(404, "This download is no longer there; ask for it again.")
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)

    def _tell_progress(self) -> Callable[[str, int, int], None]:
        """A callback that tells the pages how far an export is, a few times a second."""
        told = 0.0

        def tell(phase: str, done: int, total: int) -> None:
            nonlocal told
            if time.monotonic() - told > _TELL_EVERY or done == total:
                told = time.monotonic()
                self.worker.newsroom.publish("export", {"phase": phase, "done": done, "total": total})

        return tell

    async def rescan(self, _: Request) -> Response:
        """Read the source again; all pages load anew."""
        if self._reopen is None:
            raise ValueError("Embeddings in memory cannot be read again.")
        found = await run_in_threadpool(self._alone, self._acting, self._rescan)
        return Json(found)

    def _rescan(self) -> dict[str, int]:
        assert self._reopen is not None
        with self._exporting:
            before, after = self.session, self._reopen()
            known = set(before.keys_of(range(before.n_items)))
            there = after.keys_of(range(after.n_items))
            self.new_rows = [row for row, key in enumerate(there) if key not in known]
            self.session, self.run = after, secrets.token_hex(8)
            self._found, self._map, self._moved = {}, None, {}
            self.worker.reopen(after, self.run)
            before.close()
        return {"new": len(self.new_rows), "gone": len(known.difference(there))}

    @staticmethod
    def _alone(lock: threading.Lock, work: Any) -> Any:
        with lock:
            return work()

    def _seen(self) -> int | None:
        """Number of the answers that pages know."""
        return None if self.worker.answered is None else self.worker.answered.number

    def _row(self, request: Request) -> int:
        return path_row(request, self.session.n_items)
