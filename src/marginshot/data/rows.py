"""Tables too large to copy, read in blocks of rows: arrays in memory or on disk, and Parquet files.

A table passes its blocks to a function and adds up the results. A table of Dask blocks is in
`marginshot.classifier.distributed`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.extras import need
from marginshot._lib.names import listed
from marginshot._lib.reading import DamagedFileError, reading
from marginshot._lib.threads import give_way, n_threads, one_blas_thread

Array = NDArray[np.float64]
Rows = NDArray[Any]
#: Takes the number of a block's first row and the block (b, n_features); returns arrays to be added up.
Work = Callable[[int, Rows], tuple[Array, ...]]

# Bytes a thread reads at a time from a table, and from a block; the latter fits in its cache.
BLOCK_BYTES = 8 * 2**20
STRIP_BYTES = 3 * 2**19

_EMBEDDING = "embedding"  # the column `FeatureBank.save` writes


class Table(Protocol):
    """Rows that are read in blocks, in memory, on disk or on workers."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating-point type of the blocks."""

    def accumulate(self, work: Work) -> tuple[Array, ...]:
        """Sums of what ``work`` returns, over all blocks, in the order of the rows."""

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Rows ``index``, which are sorted."""


class ArrayRows:
    """An array in memory, or a memory-mapped ``.npy``, of any floating-point type, never copied as a whole.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)

    Examples
    --------
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2))
    >>> rows.accumulate(lambda start, block: (block.sum(axis=0),))
    (array([6., 9.]),)
    """

    def __init__(self, X: Rows) -> None:
        self.X = X

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.X.shape[0], self.X.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating-point type of the array."""
        return self.X.dtype

    def accumulate(self, work: Work) -> tuple[Array, ...]:
        """Sums of what ``work`` returns, over all blocks, in the order of the rows."""
        return _add_up(self._blocks(), work)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Rows ``index``; the array itself, uncopied, if that is all of them."""
        return self.X if len(index) == len(self.X) else np.asarray(self.X[index])

    def _blocks(self) -> Iterator[tuple[int, Rows]]:
        yield from strips(self.X, BLOCK_BYTES)


class ParquetRows:
    """A Parquet file read in blocks of rows; only the blocks being worked on are in memory.

    Every pass of the solver decodes the file again. Where the table fits in memory, ``ParquetRows(path).load()`` is
    an array instead, and faster.

    Parameters
    ----------
    path : str or path
    columns : sequence of str, optional
        The features: one column of equally long lists, or any number of columns of numbers. By default ``embedding``
        if there is such a column, else every floating-point column.
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        need("pyarrow")
        import pyarrow.parquet as pq

        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"There is no Parquet file at {os.fspath(path)!r}.")
        with self._reading(), pq.ParquetFile(self.path) as file:
            self.columns = _feature_columns(file.schema_arrow, columns, self.path.name)
            self._n_rows = int(file.metadata.num_rows)
            if not self._n_rows:
                raise DamagedFileError(f"{self.path.name} has no rows.")
            first = next(file.iter_batches(batch_size=1, columns=self.columns))
            block = _as_block(first, self.path.name, 0, None)
        self._n_features, self._dtype = block.shape[1], block.dtype

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.path, "a readable Parquet file")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self._n_rows, self._n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating-point type of the features."""
        return self._dtype

    def accumulate(self, work: Work) -> tuple[Array, ...]:
        """Sums of what ``work`` returns, over all blocks, in the order of the rows."""
        return _add_up(self.blocks(), work)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Rows ``index``, found in one reading of the file."""
        taken = np.empty((len(index), self._n_features), dtype=self._dtype)
        for start, block in self.blocks():
            low, high = np.searchsorted(index, (start, start + len(block)))
            taken[low:high] = block[index[low:high] - start]
        return taken

    def load(self) -> Rows:
        """The whole table, (n_rows, n_features), filled block by block."""
        table = np.empty(self.shape, dtype=self._dtype)
        for start, block in self.blocks():
            table[start : start + len(block)] = block
        return table

    def column(self, name: str) -> NDArray[Any]:
        """One column, (n_rows,), such as the labels for `fit`; missing values are None."""
        import pyarrow.parquet as pq

        with self._reading(), self.path.open("rb") as file:
            held = pq.read_schema(file).names
            if name not in held:
                raise DamagedFileError(f"{self.path.name}: column {name!r} is missing; the file has {listed(held)}.")
            column = pq.read_table(file, columns=[name]).column(name)
            values = np.array(column.to_pylist(), dtype=object) if column.null_count else column.to_numpy()
        return np.asarray(values)

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """Consecutive blocks, each with the number of its first row."""
        import pyarrow.parquet as pq

        start = 0
        size = _rows_within(BLOCK_BYTES, self._n_features, self._dtype)
        with self._reading(), pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(batch_size=size, columns=self.columns):
                block = _as_block(batch, self.path.name, start, self._n_features)
                yield start, block
                start += len(block)


def strips(block: Rows, n_bytes: int = STRIP_BYTES) -> Iterator[tuple[int, Rows]]:
    """Views of at most ``n_bytes`` of consecutive rows, each with the number of its first row."""
    size = _rows_within(n_bytes, block.shape[1], block.dtype)
    for start in range(0, len(block), size):
        yield start, block[start : start + size]


def map_blocks(source: Table, of_rows: Callable[[Rows], Rows], values: Rows, check: Work | None = None) -> None:
    """Write into ``values`` (n_rows, n_columns) what ``of_rows`` makes of the rows of each block.

    ``check`` sees each block first, in the same pass, and may raise.
    """

    def work(start: int, block: Rows) -> tuple[Array, ...]:
        if check is not None:
            check(start, block)
        for first, strip in strips(block):
            values[start + first : start + first + len(strip)] = of_rows(strip)
        return ()

    source.accumulate(work)


def _rows_within(n_bytes: int, n_features: int, dtype: np.dtype[Any]) -> int:
    return max(1, n_bytes // max(1, n_features * max(4, dtype.itemsize)))  # half precision is widened


def _add_up(blocks: Iterable[tuple[int, Rows]], work: Work) -> tuple[Array, ...]:
    """Sums of ``work`` over blocks, in threads, at most two blocks a thread ahead of the sum."""
    threads = n_threads()  # read before BLAS is limited to one thread
    with one_blas_thread():
        ahead = iter(blocks)
        first = list(islice(ahead, 2))
        if len(first) < 2:  # not worth waking a thread
            return add(None, work(*first[0])) if first else ()
        return _add_up_in_threads(chain(first, ahead), work, threads)


def _add_up_in_threads(blocks: Iterable[tuple[int, Rows]], work: Work, threads: int) -> tuple[Array, ...]:
    total: tuple[Array, ...] | None = None
    waiting: deque[Future[tuple[Array, ...]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for start, block in blocks:
                give_way()
                if len(waiting) == 2 * threads:
                    total = add(total, waiting.popleft().result())
                waiting.append(pool.submit(copy_context().run, work, start, block))
            while waiting:
                total = add(total, waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()
    return () if total is None else total


def add(total: tuple[Array, ...] | None, part: tuple[Array, ...]) -> tuple[Array, ...]:
    """``total`` plus ``part``, array by array, in double precision."""
    if total is None:
        return tuple(np.asarray(array, dtype=np.float64) for array in part)
    return tuple(a + b for a, b in zip(total, part, strict=True))


def _feature_columns(held: Any, columns: Sequence[str] | None, name: str) -> list[str]:
    import pyarrow.types as kinds

    if columns is None:
        floating = [field.name for field in held if kinds.is_floating(field.type)]
        columns = [_EMBEDDING] if _EMBEDDING in held.names else floating
    missing = [column for column in columns if column not in held.names]
    if missing:
        raise DamagedFileError(f"{name}: column {missing[0]!r} is missing; the file has {listed(held.names)}.")
    if not columns:
        raise DamagedFileError(f"{name} has no column {_EMBEDDING!r} and no floating-point column; name the features.")
    return list(columns)


def _as_block(batch: Any, name: str, start: int, n_features: int | None) -> Rows:
    """A batch of Parquet rows as an array (b, n_features): a column of lists, or columns of numbers."""
    for column, label in zip(batch.columns, batch.schema.names, strict=True):
        if column.null_count:
            row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise DamagedFileError(f"{name}: row {row} has no {label!r}. Drop such rows or fill them in.")
    if len(batch.columns) == 1 and hasattr(batch.column(0), "flatten"):
        block = _stack_lists(batch.column(0), name, start, n_features)
    else:
        block = np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])
    if block.dtype.kind not in "fiub":
        raise DamagedFileError(f"{name}: the features must be numbers; got {block.dtype}.")
    return block if block.dtype.kind == "f" else block.astype(np.float64)


def _stack_lists(column: Any, name: str, start: int, n_features: int | None) -> Rows:
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    expected = int(n_features or lengths[0])
    if (lengths != expected).any():
        row = int(np.flatnonzero(lengths != expected)[0])
        raise DamagedFileError(f"{name}: row {start + row} has {lengths[row]} features, the first has {expected}.")
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(len(column), expected)
