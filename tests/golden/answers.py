"""Answers as they are kept and compared: labels of all rows, probabilities of some, in a small ``.npz`` file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "stored"

# Other processors add in another order. What that changes was looked for with relative noise of 1e-6 in the rows and
# with one and two threads of BLAS; a change of the method moves far more than these.
DIFFERENT_LABELS = 0.005  # share of rows, rounded up: any case may hold one row between two classes
PROBABILITY = 0.02  # largest difference of a row, in all but
DIFFERENT_ROWS = 0.01  # this share of rows, rounded down
MEDIAN = 2e-3  # of the rows' largest differences
PRIOR = 5e-3

_KEPT_PROBABILITIES = 500  # of the rows of `fit`; half of it of later rows
_LEVELS = 65535


def _none() -> np.ndarray:
    return np.empty(0)


@dataclass
class Answer:
    """What the package says of one case. A batch has no prior and no later rows.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Classes of the unlabelled rows, 0 … N−1.
    probabilities : ndarray of shape (n, N)
    prior : ndarray of shape (N,)
    later_labels, later_probabilities, later_scores : ndarray
        `predict`, `predict_proba` and `decision_function` of rows that `fit` has not seen.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    prior: np.ndarray = field(default_factory=_none)
    later_labels: np.ndarray = field(default_factory=_none)
    later_probabilities: np.ndarray = field(default_factory=_none)
    later_scores: np.ndarray = field(default_factory=_none)

    def kept(self) -> dict[str, np.ndarray]:
        """The arrays of the file: probabilities of evenly chosen rows, in 65,535ths."""
        arrays = {
            "labels": self.labels.astype(np.uint8),
            "probabilities": _levels(_thinned(self.probabilities, _KEPT_PROBABILITIES)),
        }
        if len(self.prior):
            arrays["prior"] = self.prior.astype(np.float32)
            arrays["later_labels"] = self.later_labels.astype(np.uint8)
            arrays["later_probabilities"] = _levels(_thinned(self.later_probabilities, _KEPT_PROBABILITIES // 2))
            arrays["later_scores"] = _thinned(self.later_scores, _KEPT_PROBABILITIES // 4).astype(np.float32)
        return arrays


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    """Every k-th row, so that at most about ``most`` numbers are left."""
    return values[:: -(-values.size // most)]


def _levels(probabilities: np.ndarray) -> np.ndarray:
    return np.round(probabilities * _LEVELS).astype(np.uint16)


def fingerprint(table: np.ndarray) -> np.ndarray:
    """Two sums by which the rows of a case are recognised, (2,)."""
    return np.array([table.sum(dtype=np.float64), np.abs(table).sum(dtype=np.float64)])


def store(name: str, answer: Answer, table: np.ndarray) -> None:
    """Write the answer of a case, and the fingerprint of its rows (n, D)."""
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"{name}.npz", rows=fingerprint(table), **answer.kept())


def load(name: str) -> dict[str, np.ndarray]:
    """The stored arrays of a case."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)


def same_rows(stored: dict[str, np.ndarray], table: np.ndarray) -> bool:
    """Whether the rows (n, D) are those of the stored answer."""
    return bool(np.allclose(stored["rows"], fingerprint(table), rtol=1e-7, atol=1e-3))


def differences(stored: dict[str, np.ndarray], answer: Answer) -> list[str]:
    """A sentence for each part of the answer that is not the stored one; none where all agree."""
    found = answer.kept()
    if {name: array.shape for name, array in found.items()} != {
        name: array.shape for name, array in stored.items() if name != "rows"
    }:
        return ["The arrays have other names or shapes than the stored ones."]
    problems = []
    for name in ("labels", "later_labels"):
        if name in stored:
            problems += _of_labels(name, stored[name], found[name])
    for name in ("probabilities", "later_probabilities"):
        if name in stored:
            problems += _of_numbers(name, stored[name] / _LEVELS, found[name] / _LEVELS)
    if "prior" in stored:
        scale = np.maximum(1, np.abs(stored["later_scores"]))
        problems += _of_numbers("later_scores", stored["later_scores"] / scale, found["later_scores"] / scale)
        largest = float(np.abs(stored["prior"] - found["prior"]).max())
        if not largest <= PRIOR:
            problems.append(f"prior: differs by {largest:.2g}, more than {PRIOR}.")
    return problems


def _of_labels(name: str, stored: np.ndarray, found: np.ndarray) -> list[str]:
    n_different, allowed = int((stored != found).sum()), int(np.ceil(DIFFERENT_LABELS * len(stored)))
    return [f"{name}: {n_different} of {len(stored)} differ; {allowed} may."] if n_different > allowed else []


def _of_numbers(name: str, stored: np.ndarray, found: np.ndarray) -> list[str]:
    """Compare (n, N) or (n,) numbers by the largest difference of each row."""
    apart = np.abs(stored - found).reshape(len(stored), -1).max(axis=1)
    far, allowed, median = int((~(apart <= PROBABILITY)).sum()), int(DIFFERENT_ROWS * len(apart)), np.median(apart)
    if far <= allowed and median <= MEDIAN:
        return []
    largest = ", ".join(f"{value:.2g}" for value in np.sort(apart)[:-4:-1])
    return [
        f"{name}: {far} of {len(apart)} rows differ by more than {PROBABILITY} ({allowed} may), the median by "
        f"{median:.2g} (at most {MEDIAN}); the largest differences are {largest}."
    ]
