"""Contents to embeddings: known ones come from the cache, the others are encoded batch by batch and cached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from marginshot._lib.reading import UnreadableError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.encoders import ItemEncoder
from marginshot.labelling.items.store import Store

BATCH_SIZE = 32

#: Called with the name of a phase, the number of steps done and of all; 0 of 0 where a phase has none to count.
Progress = Callable[[str, int, int], None]


def silent(phase: str, done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass
class Embedded:
    """Embeddings of the readable items of a collection.

    Parameters
    ----------
    collection : Collection
        The readable items.
    X : ndarray of float32 of shape (n_items, n_features)
        Their embeddings.
    problems : dict of str to str
        What was wrong with each item left out.
    seconds : dict of str to float
        Time spent on the cache and the hashes, on loading the encoder, waiting for contents, and encoding.
    """

    collection: Collection
    X: NDArray[np.float32]
    problems: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def embed(
    collection: Collection, encoder: ItemEncoder | None, store: Store | None, on_progress: Progress = silent
) -> Embedded:
    """Embed every distinct content once; embeddings in the cache are reused.

    Finished batches are in the cache at once: an interrupted run resumes from there.

    Parameters
    ----------
    collection : Collection
        Pictures, texts or embeddings.
    encoder : ItemEncoder or None
        Turns contents into embeddings; None where they are embeddings already.
    store : Store or None
        The cache; None computes everything.
    on_progress : callable, optional
        Called with "reading", "loading the encoder" or "encoding", the number of items done, and of all of them.
    """
    if encoder is None:
        return Embedded(collection, np.asarray(collection.contents, dtype=np.float32))
    seconds = {"cache": 0.0, "loading": 0.0, "reading": 0.0, "encoder": 0.0}
    vectors: dict[int, NDArray[np.float32]] = {}
    problems: dict[str, str] = {}
    digests: dict[int, str] = {}
    for batch in embed_batches(collection, encoder, store, on_progress, seconds):
        vectors.update(zip(batch.rows, batch.X, strict=True))
        problems |= batch.problems
        digests |= batch.digests
    rows = sorted(vectors)
    X = np.stack([vectors[row] for row in rows]) if rows else np.empty((0, 0), dtype=np.float32)
    readable = replace(collection.select(rows), digests=tuple(digests[row] for row in rows))
    return Embedded(readable, X, problems, seconds)


@dataclass(frozen=True)
class Batch:
    """Some items of a collection: rows with an embedding in X (n, n_features), and what was wrong with others.

    The first batch has the hash of every content that can be opened, by row.
    """

    rows: list[int]
    X: NDArray[np.float32]
    problems: dict[str, str]
    digests: dict[int, str] = field(default_factory=dict)


def embed_batches(
    collection: Collection, encoder: ItemEncoder, store: Store | None, on_progress: Progress, seconds: dict[str, float]
) -> Iterator[Batch]:
    """Embeddings as they come: first what the cache has, then batch after batch; adds to ``seconds`` by phase."""
    started = time.perf_counter()
    identity = encoder.identity
    kind, (keys, problems) = collection.kind, _content_keys(collection, on_progress)
    places: dict[str, list[int]] = {}
    for row, key in keys.items():
        places.setdefault(key, []).append(row)
    known = {} if store is None else store.load([f"{key} {identity}" for key in places])
    vectors = {full.partition(" ")[0]: vector for full, vector in known.items()}
    without = [f"{key} {kind.reader}" for key in places if key not in vectors]
    unreadable = {} if store is None else store.load_unreadable(without)
    reasons = {full.partition(" ")[0]: reason for full, reason in unreadable.items()}
    problems |= {collection.items[row]: reason for key, reason in reasons.items() for row in places[key]}
    seconds["cache"] = time.perf_counter() - started

    def placed(batch: list[str], found: Sequence[NDArray[np.float32]], problems: dict[str, str]) -> Batch:
        rows = [(row, vector) for key, vector in zip(batch, found, strict=True) for row in places[key]]
        X = np.stack([vector for _, vector in rows]) if rows else np.empty((0, 0), dtype=np.float32)
        return Batch([row for row, _ in rows], X, problems)

    yield replace(placed(list(vectors), list(vectors.values()), problems), digests=keys)
    missing = {key: rows[0] for key, rows in places.items() if key not in vectors and key not in reasons}
    done = 0
    with kind.reading():
        for batch, failed, found in _encode(missing, collection.contents, encoder, seconds, on_progress):
            if store is not None and batch:
                store.keep([f"{key} {identity}" for key in batch], found)
            if store is not None:
                store.keep_unreadable({f"{key} {kind.reader}": str(e) for key, e in failed.items() if _is_lasting(e)})
            unread = {collection.items[row]: str(error) for key, error in failed.items() for row in places[key]}
            yield placed(batch, list(found), unread)
            done += len(batch) + len(failed)
            on_progress("encoding", done, len(missing))
    if store is not None:
        store.trim()


def _is_lasting(error: UnreadableError) -> bool:
    """Whether the failure is permanent: caused by the content, not by memory, the disk or the encoder."""
    cause = error.__cause__
    return (
        not isinstance(error, _UnpreparedError)
        and not isinstance(cause, MemoryError)
        and getattr(cause, "errno", None) is None
    )


def printable(item: str) -> str:
    """The name with what is not UTF-8 in it escaped: the key of its problem."""
    return item.encode("utf-8", "backslashreplace").decode()


def _content_keys(collection: Collection, on_progress: Progress) -> tuple[dict[int, str], dict[str, str]]:
    """Hash of each row's content, by row, and why the other items cannot be opened or are skipped, by item."""
    kind = collection.kind
    keys: dict[int, str] = {}
    problems = {printable(name): why for name, why in collection.skipped.items()}
    for row, (item, content) in enumerate(zip(collection.items, collection.contents, strict=True)):
        on_progress("reading", row, len(collection))
        shown = printable(item)
        if shown != item:
            problems[shown] = "has a name that is not UTF-8 and cannot be written to a table; rename it"
            continue
        if problem := kind.problem(content):
            problems[item] = problem
            continue
        try:
            keys[row] = kind.digest(content)
        except OSError as error:
            problems[item] = f"cannot be opened ({error.strerror})"
    return keys, problems


def _encode(
    missing: dict[str, int], contents: Any, encoder: ItemEncoder, seconds: dict[str, float], on_progress: Progress
) -> Iterator[tuple[list[str], dict[str, UnreadableError], NDArray[np.float32]]]:
    """Keys, failures and embeddings of one batch after the other; the next batch is read while one is encoded."""
    keys = list(missing)
    batches = [keys[start : start + BATCH_SIZE] for start in range(0, len(keys), BATCH_SIZE)]
    if not batches:
        return
    started = time.perf_counter()
    on_progress("loading the encoder", 0, 0)
    encoder.load()
    seconds["loading"] = time.perf_counter() - started
    with ThreadPoolExecutor(max(2, effective_n_jobs(-1))) as threads:

        def submit(place: int) -> list[Future[Any]]:
            batch = batches[place] if place < len(batches) else []
            return [threads.submit(_prepare, encoder, contents[missing[key]]) for key in batch]

        ahead = submit(0)
        for place, batch in enumerate(batches):
            current, ahead = ahead, submit(place + 1)
            started = time.perf_counter()
            good, prepared, failed = _collect(batch, current)
            read = time.perf_counter()
            good, found = _finite(*_encoded(encoder, good, prepared, failed), failed)
            seconds["reading"] += read - started
            seconds["encoder"] += time.perf_counter() - read
            yield good, failed, found


class _UnpreparedError(UnreadableError):
    """A content that was read, and that this encoder cannot prepare."""


def _prepare(encoder: ItemEncoder, content: Any) -> Any:
    """Prepare one content; an error of the encoder is reported for this item only, a missing library ends the run."""
    try:
        return encoder.prepare(content)
    except (UnreadableError, ImportError):
        raise
    except Exception as error:
        raise _unprepared(error) from error


def _unprepared(error: Exception) -> _UnpreparedError:
    """The problem of a content for which the encoder's libraries raise this ``error``."""
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    return _UnpreparedError(f"cannot be encoded ({reason:.200})")


def _encoded(
    encoder: ItemEncoder, keys: list[str], prepared: Sequence[Any], failed: dict[str, UnreadableError]
) -> tuple[list[str], NDArray[np.float32]]:
    """Keys and embeddings of a batch; where it fails, each is tried alone, and those that fail are in ``failed``."""
    try:
        if prepared:
            return keys, encoder.encode(prepared)
    except ImportError:
        raise
    except Exception as error:
        if len(keys) == 1:
            failed[keys[0]] = _unprepared(error)
        else:
            parts = [_encoded(encoder, [key], [one], failed) for key, one in zip(keys, prepared, strict=True)]
            if any(part for part, _ in parts):
                return [key for part, _ in parts for key in part], np.concatenate([X for part, X in parts if part])
    return [], np.empty((0, 0), dtype=np.float32)


def _finite(
    keys: list[str], X: NDArray[np.float32], failed: dict[str, UnreadableError]
) -> tuple[list[str], NDArray[np.float32]]:
    """The keys and rows of X (n, n_features) whose numbers are finite; adds the others to those ``failed``."""
    finite = [bool(np.isfinite(row).all()) for row in X]
    for key, is_good in zip(keys, finite, strict=True):
        if not is_good:
            failed[key] = _UnpreparedError("cannot be encoded (its embedding is not finite)")
    return [key for key, is_good in zip(keys, finite, strict=True) if is_good], X[np.array(finite, dtype=bool)]


def _collect(batch: list[str], futures: list[Future[Any]]) -> tuple[list[str], list[Any], dict[str, UnreadableError]]:
    """Keys of the readable contents, these prepared, and by key what was wrong with the others."""
    good: list[str] = []
    prepared: list[Any] = []
    failed: dict[str, UnreadableError] = {}
    for key, future in zip(batch, futures, strict=True):
        try:
            prepared.append(future.result())
            good.append(key)
        except UnreadableError as error:
            failed[key] = error
    return good, prepared, failed
