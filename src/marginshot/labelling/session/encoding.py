"""Embeddings of a session's items, which grow while a thread encodes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.embed import Batch, embed_batches
from marginshot.labelling.items.embed import Progress as OnProgress
from marginshot.labelling.items.encoders import ItemEncoder
from marginshot.labelling.items.lights import find_lights
from marginshot.labelling.items.store import Store

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Progress:
    """How far the encoding is.

    Parameters
    ----------
    phase : str
        ``reading``, ``loading the encoder`` or ``encoding``; empty when nothing is left to do.
    done, total : int
        Items of this phase.
    seconds_left : float or None
        At the speed so far; None where it is not known.
    error : str
        Why the encoding ended before all items were encoded; empty where it did not.
    """

    phase: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    error: str = ""


class _StoppedError(Exception):
    """The session was closed while items were encoded."""


class Encoding:
    """Embeddings of the items of a session, added batch by batch.

    Parameters
    ----------
    collection : Collection
        All items.
    encoder : ItemEncoder or None
        None where the contents are embeddings.
    store : Store or None
        The cache.
    on_progress : callable
        Called with a phase, the number of items done, and of all.
    on_read : callable
        Called once with the hash of every content that could be opened, by row.
    """

    def __init__(
        self,
        collection: Collection,
        encoder: ItemEncoder | None,
        store: Store | None,
        on_progress: OnProgress,
        on_read: Callable[[Mapping[int, str]], None],
    ) -> None:
        self.problems: dict[str, str] = {}
        #: Light of each item, (n_items,), where there are enough of either; known before the first embedding is.
        self.domains: NDArray[np.int64] | None = None
        self.progress = Progress("reading", 0, len(collection))
        self._work = (collection, encoder, store)
        self._on_progress, self._on_read = on_progress, on_read
        self._lock = threading.Lock()
        self._ready = np.zeros(len(collection), dtype=bool)
        self._X: NDArray[np.float32] | None = None
        self._packed: tuple[Rows, NDArray[np.float32]] | None = None
        self._began = time.monotonic(), 0
        self._stopped = False
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    @property
    def ready(self) -> NDArray[np.bool_]:
        """Items, (n_items,), whose embedding is there."""
        with self._lock:
            return self._ready.copy()

    def snapshot(self) -> tuple[Rows, NDArray[np.float32]]:
        """Rows (n_ready,) with an embedding, and these (n_ready, n_features); raises what ended the encoding early."""
        if self._error is not None:
            raise self._error
        with self._lock:
            if self._packed is None:
                rows = np.flatnonzero(self._ready)
                X = np.empty((0, 0), dtype=np.float32) if self._X is None else self._X
                self._packed = rows, X if len(rows) == len(X) else X[rows]
            return self._packed

    def run(self) -> None:
        """Encode all items, here and now."""
        collection, encoder, store = self._work
        if encoder is None:
            self._take(Batch(list(range(len(collection))), np.asarray(collection.contents, dtype=np.float32), {}))
        else:
            self.domains = find_lights(collection, store, self._tell)
            for batch in embed_batches(collection, encoder, store, self._tell, defaultdict(float)):
                if batch.digests:
                    self._on_read(batch.digests)
                self._take(batch)
        self.progress = Progress()

    def start(self) -> None:
        """Encode all items in a thread."""
        self._thread = threading.Thread(target=self._run_apart, name="marginshot-encoding", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the encoding thread, if there is one, has ended."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """End the thread after its batch."""
        self._stopped = True
        self.wait()

    def _run_apart(self) -> None:
        try:
            self.run()
        except _StoppedError:
            pass
        except Exception as error:  # raised again by `snapshot`
            self._error = error
            self.progress = Progress(error=str(error))
            return
        self.progress = Progress()

    def _take(self, batch: Batch) -> None:
        with self._lock:
            self.problems = self.problems | batch.problems
            if not batch.rows:
                return
            if self._X is None:
                self._X = np.zeros((len(self._ready), batch.X.shape[1]), dtype=np.float32)
            self._X[batch.rows] = batch.X
            self._ready[batch.rows] = True
            self._packed = None

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._stopped:
            raise _StoppedError
        if phase != self.progress.phase:
            self._began = time.monotonic(), done  # a phase is first reported after its first batch
        began, first = self._began
        left = (time.monotonic() - began) / (done - first) * (total - done) if done > first else None
        self.progress = Progress(phase, done, total, left)
        self._on_progress(phase, done, total)
