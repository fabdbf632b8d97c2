"""The nearest of unit rows: by comparing all pairs while rows are few, by comparing near cells where they are many.

M rows have M² pairs. An inverted file divides the rows into cells by k-means, and compares a row with those of the
cells whose centres are nearest to it (Jégou, Douze and Schmid, "Product quantization for nearest neighbor search",
TPAMI 2011, without the quantization). A sample of rows is compared with all others first: it shows how many cells are
needed.

Rows that come later are compared with every stored row, however many: the work grows with their number alone, and
nothing has to be built after `load`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from marginshot._lib.threads import give_way, one_blas_thread
from marginshot.data.rows import ArrayRows, map_blocks
from marginshot.model.subsets import evenly
from marginshot.model.transforms import l2_normalize

Array = NDArray[np.floating]
Indices = NDArray[np.int64]

#: Rows up to which all pairs are compared; measured in `docs/guides/scale.md`.
LARGEST_EXACT = 20_000

_STRIP = 256  # rows compared with all others at a time: their cosines stay in the cache
_GROUP = 32  # columns among which only the largest value is looked for at first

# k-means makes _CELLS sqrt(M) cells from _SAMPLE rows a cell, in _ROUNDS rounds. Chosen for time at 98 % of the
# neighbours found, on 50,000 embeddings of texts with noise. Flat in _CELLS from 2 to 3; 4 takes a third more.
_CELLS = 3.0
_SAMPLE = 20
_ROUNDS = 6
# A row is compared with as many cells as hold a _SHARE of the neighbours of _ASKED rows. At least _FEWEST, which cost
# little: few rows may lie unlike most, such as those beside many copies. At most _MOST, and at most as many as hold
# _COMPARED rows on average, so that comparing is linear in M: rows that vary alike in all of 64 directions would ask
# for nearly all cells, and no row is much nearer than another there. On generated embeddings of 64 features 4,000 find
# 98 % at 10^5 rows and 91 % at 3·10^5, 6,000 find 98.5 and 96; accuracy is no lower than with 64 cells.
_SHARE = 0.985
_ASKED = 512
_FEWEST, _MOST, _COMPARED = 8, 64, 4_000
_LARGE = 8  # cells of more than so many times the average are cut: many copies of a row would be compared in pairs
_PART = 8_192  # rows that look into cells together
_WAITING = 8  # cosines a row that are kept before they are sorted; time is flat from 4 to 16


def nearest_of_each(rows: Array, k: int) -> Indices:
    """Indices (M, k) of the k rows nearest to each of the unit rows (M, D), itself left out, nearest first.

    Approximate beyond `LARGEST_EXACT` rows. Neither the order of the rows nor the number of threads changes the
    neighbours, except where cosines are equal up to rounding.

    Examples
    --------
    >>> nearest_of_each(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 1)
    array([[1],
           [0],
           [1]])
    """
    return compare_all(rows, k, np.arange(len(rows))) if len(rows) <= LARGEST_EXACT else _compare_cells(rows, k)


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


def _compare_cells(rows: Array, k: int) -> Indices:
    """`compare_all` for all rows, approximately: each is compared with the rows of the cells nearest to it."""
    if not k:
        return np.empty((len(rows), 0), dtype=np.int64)
    spread = _spread(rows)
    n_cells = min(int(_CELLS * np.sqrt(len(rows))), len(rows))
    centres = _find_centres(rows[spread[evenly(len(rows), _SAMPLE * n_cells)]].astype(np.float32), n_cells)
    n_near = _cells_needed(rows, k, spread[evenly(len(rows), _ASKED)], centres)
    near = nearest_stored(centres, n_near, rows)
    own = near[:, 0]

    places = spread[np.argsort(own[spread], kind="stable")]  # the rows of a cell beside each other
    cells = _Cells(rows[places].astype(np.float32), np.bincount(own, minlength=n_cells))
    nearest = np.empty((len(rows), k), dtype=np.int64)

    def work(start: int, block: Array) -> tuple[()]:
        for first in range(start, start + len(block), _PART):
            part = slice(first, min(first + _PART, start + len(block)))
            nearest[places[part]] = cells.search(part, k, near[places[part], 1:])
        return ()

    ArrayRows(cells.rows).accumulate(work)
    short = np.flatnonzero((nearest < 0).any(axis=1))
    nearest = places[nearest]
    nearest[short] = compare_all(rows, k, short)
    return nearest


def _spread(rows: Array) -> Indices:
    """Places (M,) of the rows in the order of their values along a random direction, whatever their own order is."""
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    values = np.empty(len(rows))
    map_blocks(ArrayRows(rows), lambda strip: strip.astype(np.float64) @ direction, values)
    return np.argsort(values, kind="stable")


def _find_centres(sample: Array, n_cells: int) -> Array:
    """Unit centres (n_cells, D) of the cells of ``sample`` (n, D), by k-means on cosines."""
    chosen = np.random.default_rng(0).choice(len(sample), n_cells, replace=False)
    centres, rows = sample[chosen], np.arange(len(sample))
    for _ in range(_ROUNDS):
        cell = nearest_stored(centres, 1, sample)[:, 0]
        members = csr_array((np.ones(len(rows), sample.dtype), (cell, rows)), shape=(n_cells, len(rows)))
        sums = l2_normalize(members @ sample)
        centres = np.where(np.any(sums, axis=1, keepdims=True), sums, centres)
    coarse = nearest_stored(centres[:: int(np.sqrt(n_cells))], 1, centres)[:, 0]
    return centres[np.argsort(coarse, kind="stable")]  # near cells beside each other: rows ask for few at a time


def _cells_needed(rows: Array, k: int, asked: Indices, centres: Array) -> int:
    """How many of the nearest cells hold most of the neighbours of the rows at ``asked`` (n,)."""
    exact = compare_all(rows, k, asked)
    cell = nearest_stored(centres, 1, rows[exact.ravel()]).reshape(exact.shape)
    with one_blas_thread():
        cosines = rows[asked] @ centres.T
    reached = np.take_along_axis(cosines, cell, axis=1)
    before = (cosines[:, None, :] > reached[:, :, None]).sum(axis=2)
    most = min(_MOST, _COMPARED * len(centres) // len(rows), len(centres))
    return min(max(int(np.quantile(before, _SHARE)) + 1, _FEWEST), max(most, 1))


class _Cells:
    """Rows (M, D) in the order of their cells; a cell that is much larger than the others is cut into pieces.

    Parameters
    ----------
    rows : ndarray of shape (M, D)
    sizes : ndarray of int64 of shape (n_cells,)
        Rows of each cell.
    """

    def __init__(self, rows: Array, sizes: Indices) -> None:
        self.rows = rows
        most = _LARGE * -(-len(rows) // len(sizes))
        pieces = np.maximum(-(-sizes // most), 1)
        self.first = np.cumsum(pieces) - pieces
        number = np.arange(pieces.sum()) - np.repeat(self.first, pieces)
        self.begin = np.repeat(np.cumsum(sizes) - sizes, pieces) + most * number
        self.end = np.append(self.begin[1:], len(rows))

    def search(self, part: slice, k: int, near: Indices) -> Indices:
        """Places (n, k) of the rows nearest to those of ``part``, nearest first; −1 where cells hold too few.

        A row is compared with those of its own piece, and of the cells ``near`` (n, c), which are others than its own.
        """
        block, start = self.rows[part], part.start
        own = np.searchsorted(self.begin, np.arange(part.start, part.stop), side="right") - 1
        found = _Found(len(block), k)
        for piece in range(own[0], own[-1] + 1):
            self._look(piece, np.flatnonzero(own == piece), block, start, found)
        wanted = self.first[near].ravel()
        order = np.argsort(wanted, kind="stable")
        bounds = np.flatnonzero(np.diff(wanted[order], prepend=-1, append=-2))
        for low, high in pairwise(bounds):
            self._look(wanted[order[low]], order[low:high] // near.shape[1], block, start, found)
        return found.places()

    def _look(self, piece: int, askers: Indices, block: Array, start: int, found: _Found) -> None:
        begin, end = self.begin[piece], self.end[piece]
        for first in range(0, len(askers), _STRIP):
            give_way()
            strip = askers[first : first + _STRIP]
            cosines = block[strip] @ self.rows[begin:end].T
            inside = np.flatnonzero((strip + start >= begin) & (strip + start < end))
            cosines[inside, strip[inside] + start - begin] = -np.inf
            found.add(strip, begin, cosines)


class _Found:
    """The k largest cosines of each of n rows, while more are added."""

    def __init__(self, n: int, k: int) -> None:
        self.n, self.k = n, k
        self.least = np.full(n, -np.inf, dtype=np.float32)
        self.kept = np.repeat(np.arange(n), k), np.full(n * k, -1), np.full(n * k, -np.inf, dtype=np.float32)
        self.waiting: list[tuple[Indices, Indices, Array]] = []
        self.n_waiting = 0

    def add(self, rows: Indices, begin: int, cosines: Array) -> None:
        """Cosines (len(rows), m) with the rows at places ``begin`` and following."""
        least = self.least[rows]
        if np.isneginf(least).all() and cosines.shape[1] > self.k:
            best = _largest(cosines, self.k)
            row, column = np.repeat(np.arange(len(rows)), self.k), best.ravel()
        else:
            # A tenth of the time that `nonzero` takes for a table.
            row, column = np.divmod(np.flatnonzero(cosines > least[:, None]), max(cosines.shape[1], 1))
        values = cosines[row, column]
        self.waiting.append((rows[row], begin + column, values))
        self.n_waiting += len(row)
        if self.n_waiting >= _WAITING * self.n:
            self._sort()

    def _sort(self) -> None:
        rows, places, values = (np.concatenate(parts) for parts in zip(self.kept, *self.waiting, strict=True))
        # One key, because NumPy sorts one column ten times faster than three: cosines lie in −1 to 1, or are −inf.
        keys = 4.0 * rows - np.maximum(values, -1.5)
        order = np.argsort(keys)
        starts = np.searchsorted(keys[order], 4.0 * np.arange(self.n) - 2.0)
        best = order[(starts[:, None] + np.arange(self.k)).ravel()]
        self.kept = rows[best], places[best], values[best]
        self.least = self.kept[2].reshape(self.n, self.k)[:, -1]
        self.waiting, self.n_waiting = [], 0

    def places(self) -> Indices:
        """Places (n, k) of the rows with the largest cosines, the largest first."""
        self._sort()
        return np.asarray(self.kept[1].reshape(self.n, self.k))


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
