"""One task larger than any machine: X as a Dask array whose blocks of rows lie on workers.

Every pass of the solver is a Dask graph: one task per block, run on the block's worker, and a tree of sums. The driver
receives a (C,) and a (P, C) array and sends planes of that size. It keeps the L-BFGS state and the labelled rows. No
array with one entry per row leaves the workers: labels are a lazy Dask array, which `write_labels` writes there as
Parquet. Dask recomputes a block that is lost with its worker. Sums are taken in the order of the rows, so the answer is
the same to the last bit.
"""

from __future__ import annotations

import copy
import os
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from marginshot._lib.files import atomic_path
from marginshot._lib.threads import one_blas_thread
from marginshot.classifier.predictor import Predictor
from marginshot.data.labels import Labelled, encode_labels, unlabelled_rows
from marginshot.data.rows import Rows, Work, add, strips
from marginshot.model.calibration import Calibration
from marginshot.model.transforms import widened

if TYPE_CHECKING:
    from marginshot.classifier.estimator import TransductiveMaxMarginClassifier as Classifier

Array = NDArray[np.float64]

_FAN_IN = 16  # sums added in one task of the tree


class DaskRows:
    """A Dask array of shape (n_rows, n_features) as a table of row blocks, one per chunk.

    Parameters
    ----------
    X : dask.array.Array
        Chunks of unknown length are measured; features split over chunks are joined. Call ``X.persist()`` first where
        the workers' memory holds it: otherwise every pass computes the blocks again.
    """

    def __init__(self, X: Any) -> None:
        if X.ndim != 2:
            raise ValueError(f"X must have shape (n_rows, n_features); got {X.ndim} dimensions.")
        if X.dtype.kind not in "fiub":
            raise ValueError(f"X must be an array of real numbers; got dtype {X.dtype}.")
        if np.isnan(X.shape[0]):
            X = X.copy().compute_chunk_sizes()
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        self.X = X if X.dtype.kind == "f" else X.astype(np.float64)
        lengths = self.X.chunks[0]
        self._blocks = list(self.X.to_delayed().ravel())
        self._starts = np.cumsum((0, *lengths))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating-point type of the blocks."""
        return np.dtype(self.X.dtype)

    def accumulate(self, work: Work) -> tuple[Array, ...]:
        """Sums of what ``work`` returns, over all blocks, in the order of the rows."""
        node = delayed(work, traverse=False)  # one copy in the graph, however many blocks
        parts = [_run(node, start, block) for start, block in self._numbered()]
        while len(parts) > 1:
            parts = [_add_all(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
        (total,) = dask.compute(parts[0])
        return tuple(total)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """Rows ``index``, from the blocks that hold any."""
        parts = []
        for start, block in self._numbered():
            low, high = np.searchsorted(index, (start, start + self._length(start)))
            if high > low:
                parts.append(_take(block, index[low:high] - start))
        nothing = np.empty((0, self.shape[1]), dtype=self.dtype)
        return np.concatenate([nothing, *dask.compute(*parts)])

    def label(self, predictor: Predictor, calibration: Calibration, known: Labelled) -> tuple[Any, Any]:
        """Lazy Dask arrays (n_rows,) of labels and (n_rows, C) of probabilities, computed on the rows' workers."""
        model, given = delayed((predictor, calibration), traverse=False), delayed(known, traverse=False)
        labels, distributions = [], []
        for start, block in self._numbered():
            n_rows = self._length(start)
            answer = _label(model, given, start, block)
            labels.append(da.from_delayed(answer[0], (n_rows,), known.classes.dtype))
            distributions.append(da.from_delayed(answer[1], (n_rows, len(known.classes)), np.float64))
        return da.concatenate(labels), da.concatenate(distributions)

    def read_labels(self, y: Any) -> Labelled:
        """The labelled rows of ``y``; of a Dask array only those come to the driver."""
        n_rows = self.shape[0]
        if not isinstance(y, da.Array):
            return Labelled.from_codes(*encode_labels(y, n_rows=n_rows))
        if y.ndim != 1 or np.isnan(y.shape[0]) or y.shape[0] != n_rows:
            raise ValueError(f"y must have shape ({n_rows},), a label for each row of X; got {y.shape}.")
        blocks = y.rechunk((self.X.chunks[0],)).to_delayed()
        found = dask.compute(*(_labelled(int(s), block) for s, block in zip(self._starts[:-1], blocks, strict=True)))
        index = np.concatenate([numbers for numbers, _ in found])
        classes, codes = encode_labels(np.concatenate([labels for _, labels in found]), n_rows=len(index))
        return Labelled(classes, index, codes)

    def _numbered(self) -> list[tuple[int, Delayed]]:
        pairs = zip(self._starts[:-1], self._blocks, strict=True)
        return [(int(start), block) for start, block in pairs if self._length(int(start))]

    def _length(self, start: int) -> int:
        return int(self._starts[np.searchsorted(self._starts, start, side="right")] - start)


def write_labels(estimator: Classifier, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the labels of a fit on a Dask array as Parquet, one file per block, from the workers that hold the rows.

    Parameters
    ----------
    estimator : TransductiveMaxMarginClassifier
        Fitted on a Dask array.
    folder : str or path
        Reached under this name by every worker; must be empty or not there yet.

    Returns
    -------
    list of Path
        ``part-00000.parquet``, … with columns ``row`` (its number in X), ``label`` and ``probability``.
    """
    labels: Any = getattr(estimator, "transduction_", None)
    if not isinstance(labels, da.Array):
        raise ValueError("write_labels needs an estimator fitted on a Dask array; others hold transduction_ in memory.")
    distributions: Any = estimator.label_distributions_
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{os.fspath(folder)!r} is not empty; name a new folder.")
    starts = np.cumsum((0, *labels.chunks[0]))
    blocks = zip(starts[:-1], labels.to_delayed(), distributions.to_delayed()[:, 0], strict=True)
    tasks = [
        _write_part(folder / f"part-{number:05}.parquet", int(start), block, probabilities)
        for number, (start, block, probabilities) in enumerate(blocks)
    ]
    return list(dask.compute(*tasks))


def map_rows(estimator: Classifier, method: str, X: Any) -> Any:
    """``estimator.method(X)`` as a lazy Dask array, computed on the rows' workers."""
    X = DaskRows(X).X
    model = _slim(estimator)
    example = getattr(model, method)(np.zeros((1, X.shape[1])))
    shape = {"drop_axis": 1} if example.ndim == 1 else {"chunks": (X.chunks[0], example.shape[1:])}
    return X.map_blocks(_call, model=model, method=method, dtype=example.dtype, meta=example[:0], **shape)


def _slim(estimator: Classifier) -> Classifier:
    """A copy that predicts, without attributes of one entry per row."""
    model = copy.copy(estimator)
    for name in ("transduction_", "_distributions", "_fitted_on"):
        model.__dict__.pop(name, None)
    model.callback = None
    return model


def _call(block: Rows, model: Any, method: str) -> NDArray[Any]:
    return np.asarray(getattr(model, method)(block))


@delayed
def _run(work: Work, start: int, block: Rows) -> tuple[Array, ...]:
    with one_blas_thread():
        return add(None, work(start, np.asarray(block)))


@delayed
def _add_all(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    return reduce(add, parts)


@delayed
def _take(block: Rows, index: NDArray[np.int64]) -> Rows:
    return np.asarray(block)[index]


@delayed
def _labelled(start: int, block: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    labelled = np.flatnonzero(~unlabelled_rows(np.asarray(block)))
    return start + labelled, np.asarray(block)[labelled]


@delayed(nout=2)
def _label(
    model: tuple[Predictor, Calibration], known: Labelled, start: int, block: Rows
) -> tuple[NDArray[Any], Array]:
    block = np.asarray(block)
    predictor, calibration = model
    codes = np.empty(len(block), dtype=np.int64)
    distributions = np.empty((len(block), len(known.classes)))
    with one_blas_thread():
        for first, strip in strips(block):
            part = slice(first, first + len(strip))
            scores = predictor.scores(widened(strip))
            codes[part] = scores.argmax(axis=1)
            distributions[part] = calibration.probabilities(scores)
    low, high = np.searchsorted(known.index, (start, start + len(block)))
    rows, labels = known.index[low:high] - start, known.labels[low:high]
    codes[rows] = labels
    distributions[rows] = np.eye(len(known.classes))[labels]
    return known.classes[codes], distributions


@delayed
def _write_part(path: Path, start: int, labels: NDArray[Any], distributions: Array) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {
            "row": pa.array(np.arange(start, start + len(labels))),
            "label": pa.array(labels),
            "probability": pa.array(distributions.max(axis=1)),
        }
    )
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)
    return path
