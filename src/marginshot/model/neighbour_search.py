"""The nearest of unit rows: by comparing all pairs while rows are few, by NN-descent where they are many.

M rows have M² pairs. NN-descent starts from a rough guess and looks among the neighbours of neighbours until little
changes (Dong, Moses and Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW
2011); pynndescent's is used, the extra `large`.

Rows that come later are compared with every stored row, however many: the work grows with their number alone, nothing
has to be built after `load`, and pynndescent's walk over the graph, which cannot serve two threads at once, misses many
neighbours of a row from outside it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.threads import give_way, n_threads
from marginshot._lib.warn import warn_user
from marginshot.data.rows import ArrayRows

Array = NDArray[np.floating]
Indices = NDArray[np.int64]

#: Rows up to which all pairs are compared; measured in `docs/guides/scale.md`.
LARGEST_EXACT = 50_000
#: What brings the search among more.
INSTALL = "pip install 'marginshot[large]'"

_GRAPH_NEIGHBOURS = 30  # NN-descent follows more neighbours than are asked for, so that fewer of the nearest are missed
_STRIP = 256  # rows compared with all others at a time: their cosines stay in the cache
_GROUP = 32  # columns among which only the largest value is looked for at first

_ONE_DESCENT = threading.Lock()  # numba's own threads cannot be asked by two of ours at once


def search_is_fast(n_rows: int) -> bool:
    """Whether the neighbours of so many rows are found without comparing all pairs of many."""
    return n_rows <= LARGEST_EXACT or find_spec("pynndescent") is not None


def nearest_of_each(rows: Array, k: int) -> Indices:
    """Indices (M, k) of the k rows nearest to each of the unit rows (M, D), itself left out, nearest first.

    Approximate beyond `LARGEST_EXACT` rows, with the same result for the same rows and number of threads. Without
    pynndescent the search stays exact, which is slow, and a warning comes first.

    Examples
    --------
    >>> nearest_of_each(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 1)
    array([[1],
           [0],
           [1]])
    """
    everyone = np.arange(len(rows))
    if len(rows) <= LARGEST_EXACT:
        return compare_all(rows, k, everyone)
    if search_is_fast(len(rows)):
        return _descend(rows, k)
    warn_user(
        f"The neighbours of {len(rows):,} rows are searched among all pairs, which takes long beyond "
        f"{LARGEST_EXACT:,} rows; for a fast search run {INSTALL}, or set n_neighbors=0.",
        RuntimeWarning,
    )
    return compare_all(rows, k, everyone)


def nearest_stored(stored: Array, k: int, rows: Array) -> Indices:
    """Indices (n, k) into unit rows ``stored`` (M, D) of those nearest to each of other ``rows`` (n, D), nearest first.

    Examples
    --------
    >>> nearest_stored(np.array([[1.0, 0.0], [0.0, 1.0]]), 1, np.array([[0.6, 0.8]]))
    array([[1]])
    """
    return _by_strips(rows, k, lambda _, strip: strip @ stored.T)


def compare_all(rows: Array, k: int, places: Indices) -> Indices:
    """Indices (n, k) of the k unit rows (M, D) nearest to those at ``places`` (n,), themselves left out: exact."""

    def cosines(start: int, strip: Array) -> Array:
        values = strip @ rows.T
        values[np.arange(len(strip)), places[start : start + len(strip)]] = -np.inf
        return values

    return _by_strips(ArrayRows(rows).take(places), k, cosines)


def nearest_in_gram(gram: Array, k: int) -> Indices:
    """Indices (M, k) of the k rows nearest to each of unit rows with inner products (M, M), nearest first.

    A row without direction is a neighbour of no other row, and has itself for neighbours.
    """
    if not k:
        return np.empty((len(gram), 0), dtype=np.int64)
    directed = np.diagonal(gram) > 0
    values = np.where(directed, gram, -np.inf)
    np.fill_diagonal(values, -np.inf)
    nearest = _largest(values, k)
    alone = ~np.isfinite(np.take_along_axis(values, nearest, axis=1)) | ~directed[:, None]
    return np.where(alone, np.arange(len(gram))[:, None], nearest)


def _descend(rows: Array, k: int) -> Indices:
    """`compare_all` for all rows by NN-descent, approximately. pynndescent compiles it once in every process."""
    import numba
    from pynndescent import NNDescent

    with _ONE_DESCENT, warnings.catch_warnings(), _own_interrupts():
        warnings.filterwarnings("ignore", "Failed to correctly find")  # such rows are compared with all below
        graph, distances = NNDescent(
            rows,
            metric="cosine",
            n_neighbors=min(max(_GRAPH_NEIGHBOURS, 2 * k), len(rows)),
            random_state=0,
            n_jobs=min(n_threads(), numba.get_num_threads()),
        ).neighbor_graph
    # Among many copies a row may be missing from its own list. Cosines of at most 0 are not told apart: distance 1.
    near = (graph != np.arange(len(rows))[:, None]) & (distances < 1.0)
    nearest = np.take_along_axis(graph, np.argsort(~near, axis=1, kind="stable")[:, :k], axis=1).astype(np.int64)
    short = np.flatnonzero(near.sum(axis=1) < k)
    nearest[short] = compare_all(rows, k, short)
    return nearest


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where compiled code makes a SystemError of it, or a chain of them."""
    try:
        yield
    except SystemError as error:
        reason: BaseException | None = error
        while reason is not None and not isinstance(reason, KeyboardInterrupt):
            reason = reason.__cause__
        if reason is not None:
            raise KeyboardInterrupt from error
        raise


def _by_strips(rows: Array, k: int, cosines: Callable[[int, Array], Array]) -> Indices:
    """Columns (n, k) of the largest of ``cosines`` (first place, strip); a strip of their matrix is held at a time."""
    nearest = np.empty((len(rows), k), dtype=np.int64)

    def work(start: int, block: Array) -> tuple[()]:
        for first in range(start, start + len(block), _STRIP):
            give_way()
            strip = block[first - start : first - start + _STRIP]
            nearest[first : first + len(strip)] = _largest(cosines(first, strip), k)
        return ()

    if k:
        ArrayRows(rows).accumulate(work)
    return nearest


def _largest(values: Array, k: int) -> NDArray[np.int64]:
    """Columns (n, k) of the k largest values (n, M) of each row, the largest first.

    The columns are dealt into groups. No value outside the k groups with the largest maxima is among the k largest, and
    finding maxima is a tenth of the work of sorting out columns.
    """
    n_rows, n_columns = values.shape
    n_groups = n_columns // _GROUP
    if n_groups <= k:
        candidates = np.broadcast_to(np.arange(n_columns), values.shape)
    else:
        # Group g holds the columns g, g + n_groups, g + 2 n_groups...; those left over are candidates at once.
        dealt = values[:, : n_groups * _GROUP].reshape(n_rows, _GROUP, n_groups)
        groups = np.argpartition(dealt.max(axis=1), -k, axis=1)[:, -k:]
        members = (groups[:, :, None] + n_groups * np.arange(_GROUP)).reshape(n_rows, -1)
        left_over = np.arange(n_groups * _GROUP, n_columns)
        candidates = np.concatenate((members, np.broadcast_to(left_over, (n_rows, len(left_over)))), axis=1)
    held = np.take_along_axis(values, candidates, axis=1)
    best = np.argpartition(held, -k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(held, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(candidates, np.take_along_axis(best, order, axis=1), axis=1)
