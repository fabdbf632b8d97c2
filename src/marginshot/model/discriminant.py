"""A discriminant transform: directions in which labelled rows of one class differ count less.

Not in the paper. Before any plane is fitted, the labels of a task determine two things:

- The origin. The mean of all rows lies with the classes that have most queries; the mean of the class means
  does not, but is noisy with one label a class. The origin moves from the first to the second as n grows from N to 2 N.
- The covariance within the classes. With R the differences (n, D) of the n labelled unit rows from their N class means,
  the covariance within is expected to be

      Σ = (ν λ0 I + RᵀR) / (ν + n − N),      λ0 = tr(RRᵀ) / ((n − N) d)

  where d is the effective dimension of the unit rows, as in `marginshot.model.mixture`: an inverse Wishart prior worth
  ν = 60 rows. Rows become Σ^(−½) x, up to a common factor, and are scaled to unit length again. On inner products
  this is K ← K − K_R (ν λ0 I + RRᵀ)⁻¹ K_Rᵀ with K_R = X Rᵀ.

Σ is estimated on the labelled rows, so it shortens their differences more than those of other rows. A share
h = tr(RRᵀ (ν λ0 I + RRᵀ)⁻¹) / (n − N) of their squared lengths is lost. To make up for it, labelled rows are stretched
by (1 − h)^(−½) about their class means.

With one labelled row a class, rows are only centred and scaled.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginshot.data.labels import UNLABELLED, label_codes
from marginshot.model.domains import domain_means, find_domains, nearest_domain
from marginshot.model.grams import measure
from marginshot.model.subsets import evenly
from marginshot.model.transforms import CentreAndNormalise, class_means, scale_inner_products, scale_to_unit_length

Array = NDArray[np.floating]
Grams = NDArray[np.float32]

# ν. Chosen on the worlds of benchmarks/folders.py and on validation tasks: 300 costs 1.1 points in folders, 30 half a
# point on tasks of the small ResNet.
PRIOR_ROWS = 60.0
LEAST_LENGTH = 1e-3  # of the longest row of a task; the direction of a shorter one is rounding in single precision
LEAST_SPREAD = 1e-6  # mean squared distance of labelled unit rows to their class means: less is rounding
SAMPLED_ROWS = 2000  # of a large task: those whose differences are used, and those that the dimension is estimated on


class DiscriminantTransform(CentreAndNormalise):
    """Centre between the classes, shrink directions that vary within them, scale to unit length; see the module.

    Parameters
    ----------
    power : float, default=0.75
        As in `CentreAndNormalise`.

    Attributes
    ----------
    domains_ : ndarray of int of shape (n_rows,)
        Domain of each row of `fit`, all 0 where there is one.
    domain_means_ : ndarray of shape (n_domains, n_features)
        Origins of the domains that `marginshot.model.domains` finds; of one domain, zero.
    mean_ : ndarray of shape (n_features,)
        The origin, subtracted after the mean of the row's domain.
    directions_ : ndarray of shape (n_directions, n_features)
        Orthonormal.
    shrinkage_ : ndarray of shape (n_directions,)
        Share of a row's component that is removed in each direction.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where the rows of `fit` had names of strings.

    Examples
    --------
    >>> X = np.array([[5.0, 1.0], [5.0, -1.0], [-5.0, 2.0], [-5.0, -2.0], [4.0, 3.0]])
    >>> transform = DiscriminantTransform(power=1).fit(X, np.array([0, 0, 1, 1, -1]))
    >>> plain = CentreAndNormalise().fit(X)
    >>> bool(abs(transform.transform(X)[4, 1]) < abs(plain.transform(X)[4, 1]))
    True
    """

    learned: ClassVar[tuple[str, ...]] = ("domain_means_", "mean_", "directions_", "shrinkage_")
    learns_from_labels: ClassVar[bool] = True

    def __init__(self, power: float = 0.75) -> None:
        super().__init__(power)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """``X`` (n_rows, n_features) and labels ``y`` (n_rows,), −1 where unknown (among strings also None or "")."""
        rows = self._check(X, reset=True)
        return self.learn(rows, None if y is None else label_codes(y, len(rows))[1])

    def learn(self, X: Array, codes: NDArray[np.int64] | None = None) -> Self:
        """``X`` (n_rows, n_features) and class indices ``codes`` (n_rows,), −1 where unknown."""
        self.fit_unit_rows(X, codes)
        return self

    def fit_unit_rows(
        self,
        X: Array,
        codes: NDArray[np.int64] | None = None,
        groups: NDArray[np.int64] | None = None,
        domains: NDArray[np.int64] | None = None,
    ) -> tuple[Array, Array]:
        """Fit, and return rows of unit length (n_rows, n_features) and the lengths (n_rows,) that they had before.

        Labelled rows are stretched here, but not by `fit_transform`. Rows of one of the ``groups`` (n_rows,) are one
        example. ``domains`` (n_rows,), numbered from 0, are found where they are not given.
        """
        codes = np.full(len(X), UNLABELLED) if codes is None else codes
        support = np.flatnonzero(codes >= 0)
        labels = codes[support]
        prepared = self.prepare(X)
        self.domains_ = find_domains(prepared, codes, groups) if domains is None else domains
        self.domain_means_ = np.zeros((1, prepared.shape[1]))
        if self.domains_.any():
            self.domain_means_ = domain_means(prepared, self.domains_)
            prepared = prepared - self.domain_means_.astype(prepared.dtype)[self.domains_]
        self.mean_ = prepared.mean(axis=0, dtype=np.float64)
        weight = weight_of_class_means(len(labels), labels.max(initial=-1) + 1)
        if weight:
            self.mean_ += weight * (class_means(prepared[support], labels).mean(axis=0) - self.mean_)
        rows, lengths = self._seen_from_mean(prepared)
        stretch = self._fit_directions(rows, support, labels)
        rows = self._shrink(rows)
        if stretch > 1.0:
            about = class_means(rows[support], labels).astype(rows.dtype)[labels]
            rows[support] = about + stretch * (rows[support] - about)
        rows, shorter = scale_to_unit_length(rows, 0.0)
        return rows, lengths * shorter

    def unit_rows(self, X: Array) -> tuple[Array, Array]:
        """Later rows of unit length (n_rows, n_features), and their lengths (n_rows,) before."""
        prepared = self.prepare(X)
        if len(self.domain_means_) > 1:
            means = self.domain_means_.astype(prepared.dtype)
            prepared = prepared - means[nearest_domain(prepared, self.domain_means_)]
        rows, lengths = self._seen_from_mean(prepared)
        rows, shorter = scale_to_unit_length(self._shrink(rows), 0.0)
        return rows, lengths * shorter

    def adapt_grams(self, inner: Grams, lengths: Grams, labels: NDArray[np.int64]) -> tuple[Grams, Grams]:
        """Apply `shrink_within_classes` to the inner products (T, M, M) of tasks."""
        return shrink_within_classes(inner, lengths, labels, int(labels.max()) + 1)

    def _fit_directions(self, rows: Array, support: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
        """Set what is shrunk, from unit ``rows``; returns by how much labelled rows are to be stretched."""
        self.directions_, self.shrinkage_ = np.zeros((0, rows.shape[1])), np.zeros(0)
        n_classes = int(labels.max(initial=-1)) + 1
        if len(labels) <= n_classes:
            return 1.0
        differences = rows[support] - class_means(rows[support], labels)[labels]
        chosen = evenly(len(labels), SAMPLED_ROWS)
        squares, directions = _principal_directions(differences[chosen])
        freedom = len(chosen) * (1.0 - n_classes / len(labels))
        if squares.sum() <= LEAST_SPREAD * freedom:
            return 1.0
        sample = rows[evenly(len(rows), SAMPLED_ROWS)].astype(np.float64)
        dimensions = max(measure(sample @ sample.T).dimensions, 1.0)
        expected = PRIOR_ROWS * squares.sum() / (freedom * dimensions)
        self.directions_, self.shrinkage_ = directions, 1.0 - np.sqrt(expected / (expected + squares))
        return float(_stretch((squares / (expected + squares)).sum() / freedom))

    def _shrink(self, rows: Array) -> Array:
        if not len(self.shrinkage_):
            return rows
        directions = self.directions_.astype(rows.dtype)
        return rows - ((rows @ directions.T) * self.shrinkage_.astype(rows.dtype)) @ directions


def weight_of_class_means(n_support: int, n_classes: int) -> float:
    """Weight of the mean of the class means in the origin, beside that of all rows: 0 at one shot, 1 from two on.

    Examples
    --------
    >>> weight_of_class_means(77, 77), weight_of_class_means(15, 10), weight_of_class_means(30, 10)
    (0.0, 0.5, 1.0)
    """
    return min(n_support / n_classes - 1.0, 1.0) if n_classes else 0.0


def shrink_within_classes(
    inner: Grams, lengths: Grams, labels: NDArray[np.int64], n_classes: int
) -> tuple[Grams, Grams]:
    """`DiscriminantTransform` on the inner products (T, M, M) of tasks, support rows first.

    ``inner`` are those of unit rows, centred on the mean of their task, ``lengths`` (T, M) what they were before, and
    ``labels`` (T, n) the support's. Returns the new ones of both; ``inner`` is room to work in.
    """
    n_support = labels.shape[1]
    if n_support <= n_classes:
        return inner, lengths
    members = (labels[:, :, None] == np.arange(n_classes)).astype(np.float32)
    averaging = (members / members.sum(axis=1, keepdims=True)).transpose(0, 2, 1)
    inner, lengths = _recentre(inner, lengths, weight_of_class_means(n_support, n_classes) * averaging.mean(axis=1))
    # Row i of the differences is Σ_j differences[i, j] x_j; the matrix is its own transpose and its own square.
    differences = np.eye(n_support, dtype=np.float32) - members @ averaging
    between = inner[:, :, :n_support] @ differences
    within = differences @ between[:, :n_support]
    total = np.einsum("tii->t", within, dtype=np.float64)
    spread_out = total > LEAST_SPREAD * (n_support - n_classes)
    dimensions = np.array([max(measure(task).dimensions, 1.0) for task in inner])
    expected = np.where(spread_out, PRIOR_ROWS * total / ((n_support - n_classes) * dimensions), 1.0)
    ridge = within + expected.astype(np.float32)[:, None, None] * np.eye(n_support, dtype=np.float32)
    # Never ill-conditioned, and n columns are fewer than the M of the right-hand side.
    weights = np.linalg.inv(ridge) @ between.transpose(0, 2, 1)
    seen = np.einsum("tij,tji->t", weights[:, :, :n_support], differences) / (n_support - n_classes)
    shrunk = between @ weights
    np.subtract(inner, shrunk, out=shrunk)
    stretching = differences * (_stretch(seen) - 1.0).astype(np.float32)[:, None, None]
    shrunk[:, :n_support] += stretching @ shrunk[:, :n_support]
    shrunk[:, :, :n_support] += shrunk[:, :, :n_support] @ stretching
    shrunk, shorter = _to_unit_length(shrunk, 0.0)
    if not spread_out.all():
        shrunk[~spread_out], shorter[~spread_out] = inner[~spread_out], 1.0
    return shrunk, lengths * shorter


def _recentre(inner: Grams, lengths: Grams, origin: Array) -> tuple[Grams, Grams]:
    """Move the origin to the sum of support rows with weights ``origin`` (T, n); changes ``inner``."""
    weights = np.zeros(lengths.shape, dtype=np.float32)
    weights[:, : origin.shape[1]] = origin
    inner *= lengths[:, :, None]
    inner *= lengths[:, None, :]
    shift = np.einsum("tij,tj->ti", inner, weights)
    shift -= 0.5 * np.einsum("ti,ti->t", shift, weights)[:, None]
    inner -= shift[:, :, None]
    inner -= shift[:, None, :]
    return _to_unit_length(inner, LEAST_LENGTH)


def _to_unit_length(inner: Grams, least: float) -> tuple[Grams, Grams]:
    """Inner products (T, M, M) of rows scaled to unit length, and their lengths (T, M); changes ``inner``.

    Rows not longer than ``least`` of their task's longest become zero.
    """
    lengths = np.sqrt(np.maximum(np.einsum("tii->ti", inner), 0.0))
    scale_inner_products(inner, lengths, lengths > least * lengths.max(axis=1, keepdims=True))
    return inner, lengths


def _stretch(seen: NDArray[np.floating] | float) -> NDArray[np.floating]:
    """Factor (1 − h)^(−½) by which labelled rows are stretched about their class means."""
    return np.asarray(1.0 / np.sqrt(1.0 - np.clip(seen, 0.0, 0.99)))


def _principal_directions(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Squared singular values (r,) of (n, D) differences and the directions (r, D), by the smaller Gram matrix."""
    if len(differences) > differences.shape[1]:
        squares, vectors = np.linalg.eigh(differences.T @ differences)
        directions = vectors.T
    else:
        squares, vectors = np.linalg.eigh(differences @ differences.T)
        directions = vectors.T @ differences
    kept = squares > 1e-10 * squares.max(initial=0.0)
    squares, directions = squares[kept], directions[kept]
    return squares, directions / np.linalg.norm(directions, axis=1, keepdims=True)
