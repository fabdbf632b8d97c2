"""The few array operations the model is written in: in NumPy here, as compiled loops in `marginshot.batch.primitives`.

The model itself is one text of these operations, `np.dot` and numbers: NumPy runs it on one task, numba compiles it for
batches of them. The operations exist twice because numba compiles a NumPy expression with broadcasting five times as
slowly as a loop, and runs its exponential without vectors.

Matrices are (N, M), classes by rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Rows = NDArray[np.floating]

#: Bound of log-odds. A task of a few hundred rows cannot support more.
LEAST_LOGIT = -40.0
#: Keeps logarithms of probabilities finite.
LEAST_PROBABILITY = 1e-40


def multiply(coef: Matrix, gram: NDArray[np.floating]) -> Matrix:
    """Inner products (N, M) of combinations ``coef`` (N, n) of rows with rows, in the precision of ``gram`` (n, M)."""
    products: Matrix = np.dot(coef.astype(gram.dtype), gram).astype(np.float64)
    return products


def affine(matrix: Matrix, scale: Vector, shift: Vector) -> Matrix:
    """Each row of the matrix times its ``scale`` (N,), plus its ``shift`` (N,)."""
    return matrix * scale[:, None] + shift[:, None]


def add_columns(matrix: Matrix, shift: Vector) -> Matrix:
    """The matrix plus ``shift`` (M,) in every row."""
    return matrix + shift


def add(left: Matrix, right: Matrix) -> Matrix:
    """Sum of two matrices."""
    return left + right


def normalise(matrix: Matrix) -> Matrix:
    """Each column divided by its sum."""
    normalised: Matrix = matrix / matrix.sum(axis=0)
    return normalised


def sum_rows(matrix: Matrix) -> Vector:
    """Sum (N,) of each row."""
    return np.asarray(matrix.sum(axis=1))


def sum_products(left: Matrix, right: Matrix) -> Vector:
    """Inner product (N,) of each row of ``left`` with that of ``right``."""
    return np.asarray(np.einsum("ij,ij->i", left, right))


def decay(logits: Matrix) -> Matrix:
    """exp(logit − largest logit of its column), (N, M), with differences of at least `LEAST_LOGIT`.

    Examples
    --------
    >>> decay(np.array([[1.0], [-1000.0]])).ravel() == np.exp([0.0, -40.0])
    array([ True,  True])
    """
    return np.exp(np.maximum(logits - logits.max(axis=0), LEAST_LOGIT))


def responsibility_sums(likelihood: Matrix, factors: Vector) -> Vector:
    """Sums (N,) of responsibilities over the rows, each divided by the factor of its class.

    With ``likelihood`` p (N, M) and ``factors`` w (N,), these are Σ_i p_ci / Σ_k w_k p_ki.
    """
    return np.asarray(likelihood @ (1.0 / (factors @ likelihood)))


def entropy(probabilities: Matrix) -> float:
    """−Σ p log p over all entries."""
    return float(-(probabilities * np.log(np.maximum(probabilities, LEAST_PROBABILITY))).sum())


def leave_out(squares: Matrix, weights: Matrix, sizes: Vector) -> Matrix:
    """Leave-one-out squared distances (N, M) from rows to centres, from the ``squares`` (N, M) with each row left in.

    Leaving a row out of its centre scales its distance by size / (size − weight), with the ``weights`` (N, M) of rows
    in centres and the total weights ``sizes`` (N,) of centres.
    """
    return squares * (sizes[:, None] / (sizes[:, None] - weights)) ** 2


def average(rows: Rows, stored: Rows, nearest: NDArray[np.int64], weight: float) -> Rows:
    """Rows (n, D) averaged with the mean of those of ``stored`` (M, D) at ``nearest`` (n, k), which has this weight.

    One place after the other: k tables at once would not fit a cache.
    """
    if not nearest.shape[1]:
        return rows.copy()
    total = stored[nearest[:, 0]]
    for place in range(1, nearest.shape[1]):
        total += stored[nearest[:, place]]
    total *= rows.dtype.type(weight / nearest.shape[1])
    total += rows.dtype.type(1.0 - weight) * rows
    return total


def centre_and_scale(gram: Rows, least: float) -> Rows:
    """Centre rows on their mean z and scale them to unit length, in their inner products (M, M), in place.

    <x − z, y − z> = <x, y> − (<x, z> − |z|²/2) − (<y, z> − |z|²/2). A row not longer than ``least`` of the longest has
    no direction and becomes zero. Returns the lengths (M,) that the rows had.
    """
    mean = gram.mean(axis=0)
    shift = mean - 0.5 * mean.mean()
    gram -= shift
    gram -= shift[:, None]
    lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.zeros_like(lengths)
    np.divide(1.0, lengths, out=scale, where=lengths > least * lengths.max(initial=0.0))
    gram *= scale
    gram *= scale[:, None]
    return lengths


def gram_sums(gram: Rows) -> tuple[Vector, Vector, float]:
    """Diagonal (M,), means of the rows (M,) and sum of the squares of a matrix (M, M), in double precision."""
    wide = gram.astype(np.float64, copy=False)
    return np.diagonal(wide).copy(), wide.mean(axis=1), float(np.einsum("ij,ij->", wide, wide))


def edge_statistics(squares: Matrix, least: float) -> tuple[float, float]:
    """Mean squared distance to the nearest neighbour, and mean log-ratio of the farthest's distance to another's.

    Over squared distances (M, k), nearest first, of which those up to ``least`` are copies and do not count. Without
    any that count, both are 0.
    """
    apart = squares > least
    nearest = np.where(apart, squares, np.inf).min(axis=1, initial=np.inf)
    nearest = nearest[np.isfinite(nearest)]
    logs = 0.5 * np.log(np.maximum(squares, least))
    pairs = (logs[:, -1:] - logs[:, :-1])[apart[:, :-1]]
    return (float(nearest.mean()) if len(nearest) else 0.0), (float(pairs.mean()) if len(pairs) else 0.0)


def log_shares(matrix: Matrix, least: float, doubt: float) -> Matrix:
    """log(share + doubt) of each entry's share of its row.

    Negative entries count as 0, and a row whose sum is at most ``least`` has no shares.
    """
    positive = np.maximum(matrix, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    shares = np.divide(positive, total, out=np.zeros_like(positive), where=total > least)
    logs: Matrix = np.log(shares + doubt)
    return logs


def logistic_sums(
    x: Vector, targets: Vector, weights: Vector, slope: float, intercept: float
) -> tuple[float, float, float, float, float, float]:
    """Deviance of σ(slope x + intercept) from ``targets`` (n,), its two first and its three second derivatives."""
    z = slope * x + intercept
    p = expit(z)
    residual, spread = weights * (p - targets), weights * p * (1.0 - p)
    return (
        float(np.dot(weights, np.logaddexp(0.0, z) - targets * z)),
        float(np.dot(residual, x)),
        float(residual.sum()),
        float(np.dot(spread, x * x)),
        float(np.dot(spread, x)),
        float(spread.sum()),
    )
