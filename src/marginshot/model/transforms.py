"""Transformations of features before a classifier sees them."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from marginshot.model.subsets import evenly

Array = NDArray[np.floating]
#: Where the origin is put before the rows of a task are scaled to unit length: the mean of support and query together,
#: the mean of the support, nowhere ("none"), or a vector of shape (D,), usually the mean of the base classes.
Centre = Literal["task", "support", "none"] | NDArray[Any] | tuple[float, ...]

#: The power that the named transforms have, taken by square roots; batches take it in compiled code.
BY_ROOTS = 0.75
_SAMPLED_ROWS = 2000  # on which lengths and directions are compared


class CentreAndNormalise(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """CL2N: subtract the mean of the rows seen by `fit`, then scale each row to unit length (paper, section 4.4).

    A row that equals the mean has no direction and stays zero.

    `fit` and `transform` check their rows, as scikit-learn's do. `learn`, `prepare`, `unit_rows` and `fit_unit_rows`
    trust them: finite, of floats no narrower than float32, and as wide as those of `fit`.

    Parameters
    ----------
    power : float, default=1
        Other than 1, each feature x first becomes ``sign(x) |x|^power`` and the row is scaled to unit length (not in
        the paper): activations of a network have long tails, and a few large ones would decide every inner product.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where the rows of `fit` had names of strings.

    Examples
    --------
    >>> CentreAndNormalise().fit_transform(np.array([[0.0, 0.0], [2.0, 0.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    learned: ClassVar[tuple[str, ...]] = ("mean_",)  # what `learn` sets, by which a fitted one is restored
    learns_from_labels: ClassVar[bool] = False

    def __init__(self, power: float = 1.0) -> None:
        self.power = power

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Store the mean of ``X`` (n_rows, n_features); ``y`` is not used."""
        return self.learn(self._check(X, reset=True))

    def transform(self, X: ArrayLike) -> Array:
        """Centred rows of unit length, (n_rows, n_features), in the precision of ``X``."""
        check_is_fitted(self)
        return self.unit_rows(self._check(X, reset=False))[0]

    def learn(self, X: Array, codes: NDArray[np.int64] | None = None) -> Self:
        """Store the mean of ``X`` (n_rows, n_features); class indices ``codes`` (n_rows,) are ignored."""
        self.mean_ = self.prepare(X).mean(axis=0, dtype=np.float64)
        return self

    def unit_rows(self, X: Array) -> tuple[Array, Array]:
        """Centred rows of unit length, (n_rows, n_features), and the lengths (n_rows,) they had before."""
        return self._seen_from_mean(self.prepare(X))

    def fit_unit_rows(
        self,
        X: Array,
        codes: NDArray[np.int64] | None = None,
        groups: NDArray[np.int64] | None = None,
        domains: NDArray[np.int64] | None = None,
    ) -> tuple[Array, Array]:
        """`learn`, then `unit_rows` of the rows learned from; ``groups`` and ``domains`` (n_rows,) are ignored."""
        return self.learn(X, codes).unit_rows(X)

    def prepare(self, X: Array) -> Array:
        """Rows (..., n_features) after the power, before the mean is subtracted."""
        if self.power == 1.0:
            return X
        rows = widened(X)
        size = np.abs(rows)
        if self.power == BY_ROOTS:  # two square roots take a tenth of the time of a power
            root = np.sqrt(size)
            np.sqrt(root, out=size)
            size *= root
        else:
            size **= self.power
        return scale_to_unit_length(np.copysign(size, rows, out=size), 0.0)[0]

    def adapt_grams(self, inner: Array, lengths: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
        """Apply the rest of the transform to inner products (T, M, M) of centred unit rows of tasks; here nothing.

        ``lengths`` (T, M) are those of the rows before, and ``labels`` (T, n) the support's, whose rows come first.
        """
        return inner, lengths

    def _seen_from_mean(self, prepared: Array) -> tuple[Array, Array]:
        """`unit_rows` of rows that are prepared already."""
        mean = self.mean_.astype(prepared.dtype)
        return scale_to_unit_length(prepared - mean, rounding_length(mean))

    def _check(self, X: ArrayLike, *, reset: bool) -> Array:
        """A user's rows (n_rows, n_features), finite floats; their width and names are those of `fit`, or become so."""
        if reset and not (isinstance(self.power, Real) and 0 < self.power < np.inf):
            raise ValueError(f"power must be a number above 0; got {self.power!r}.")
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def transform_rows(transformer: Any, rows: Array) -> Array:
    """Checked rows (n, D) by a fitted transformer, as an array whatever scikit-learn's ``transform_output`` is.

    A transformer of this package does not check them again; a user's may.
    """
    if isinstance(transformer, CentreAndNormalise):
        return transformer.unit_rows(rows)[0]
    return np.asarray(transformer.transform(rows))


def gives_directions(transformer: Any) -> bool:
    """Whether transformed rows have unit length, so that a row of zeros has no direction and shows no class.

    Without a transformer, or with a user's, zeros are numbers like any others.
    """
    return isinstance(transformer, CentreAndNormalise)


def differ_in_length(rows: Array) -> bool:
    """Whether rows (n, D) vary more in length, as a share of it, than in direction from the origin.

    Activations of networks do not, nor do pixels or standardised columns; measurements as they come may.

    Examples
    --------
    >>> differ_in_length(np.array([[1.0, 1.1], [3.0, 3.1], [5.0, 5.0]])), differ_in_length(np.eye(3))
    (True, False)
    """
    sample = rows[evenly(len(rows), _SAMPLED_ROWS)].astype(np.float64)
    sample /= np.abs(sample).max(initial=0.0) or 1.0
    directions, lengths = scale_to_unit_length(sample, 0.0)
    spread = 1.0 - np.sum(directions.mean(axis=0) ** 2)
    return bool(lengths.var() > spread * np.mean(lengths**2))


def widened(rows: Array) -> Array:
    """The rows, their half precision made single: sums of float16 overflow."""
    return rows.astype(np.float32) if rows.dtype == np.float16 else rows


def rounding_length(mean: Array) -> Array:
    """Length that rounding alone can give to a row equal to ``mean`` (..., D); its direction means nothing."""
    size = np.abs(mean).max(axis=-1, initial=0.0) * np.sqrt(mean.shape[-1])
    return np.asarray(4.0 * np.finfo(mean.dtype).eps * size)


def l2_normalize(rows: Array) -> Array:
    """Scale each row (..., D) to unit length; a row of zeros stays zeros."""
    return scale_to_unit_length(rows.copy(), 0.0)[0]


def centre_and_normalize(support: Array, query: Array, centre: Centre) -> tuple[Array, Array]:
    """CL2N on batches of tasks: subtract each task's centre, then scale the rows to unit length.

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    query : ndarray of shape (T, n_query, D)
    centre : {"task", "support", "none"} or array-like of shape (D,)

    Returns
    -------
    support, query : ndarrays of the same shapes
    """
    origin = _origin(support, query, centre)
    if origin is None:
        return l2_normalize(support), l2_normalize(query)
    least = rounding_length(origin)
    return scale_to_unit_length(support - origin, least)[0], scale_to_unit_length(query - origin, least)[0]


def check_centre(centre: Centre) -> None:
    """Raise ValueError unless ``centre`` is one of the three words or a finite vector."""
    if isinstance(centre, str):
        if centre not in ("task", "support", "none"):
            raise ValueError(f"centre must be 'task', 'support', 'none' or a vector of shape (D,); got {centre!r}.")
        return
    try:
        vector = np.asarray(centre, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"centre must be 'task', 'support', 'none' or a vector of shape (D,); got {centre!r}."
        ) from error
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(f"centre must be a finite vector of shape (D,); got an array of shape {vector.shape}.")


def _origin(support: Array, query: Array, centre: Centre) -> Array | None:
    """Vector subtracted from the rows of each task, (T, 1, D) or (1, 1, D), or None."""
    if isinstance(centre, str):
        if centre == "none":
            return None
        total = support.sum(axis=1, keepdims=True)
        if centre == "support":
            return total / support.shape[1]
        return (total + query.sum(axis=1, keepdims=True)) / (support.shape[1] + query.shape[1])
    vector = np.asarray(centre, dtype=support.dtype)
    if vector.size != support.shape[2]:
        raise ValueError(f"centre needs one number per feature, {support.shape[2]}; got {vector.size}.")
    return vector.reshape(1, 1, -1)


def scale_to_unit_length(rows: Array, least: Array | float) -> tuple[Array, Array]:
    """Scale each row (..., D) to unit length in place, or to zero where no longer than ``least``, (...) or a number.

    Returns the rows, and the lengths (...) they had, up to a common factor where those are extreme.
    """
    lengths = np.sqrt(np.einsum("...d,...d->...", rows, rows))
    if is_extreme(lengths.max(initial=0.0)):
        # A common factor changes no direction.
        size = np.abs(rows).max(initial=0.0)
        if size > 0:
            rows /= size
            least = least / size
            lengths = np.sqrt(np.einsum("...d,...d->...", rows, rows))
    scale = np.zeros_like(lengths)
    np.divide(1.0, lengths, out=scale, where=lengths > least)
    rows *= scale[..., None]
    return rows, lengths


def scale_inner_products(inner: Array, lengths: Array, directed: NDArray[np.bool_]) -> None:
    """Make inner products (T, M, M) of rows with ``lengths`` (T, M) those of unit rows, in place.

    Rows that are not ``directed`` (T, M) become zero.
    """
    scale = np.zeros_like(lengths)
    np.divide(1.0, lengths, out=scale, where=directed)
    inner *= scale[:, :, None]
    inner *= scale[:, None, :]


def class_means(rows: Array, labels: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Means (N, D) of rows (n, D) with class indices ``labels`` (n,), of which each occurs."""
    means = np.zeros((labels.max() + 1, rows.shape[1]))
    np.add.at(means, labels, rows)
    means /= np.bincount(labels)[:, None]
    return means


def is_extreme(size: Any) -> Any:
    """Whether the squares of numbers of this size (...) may overflow or underflow in single precision."""
    return ~((size > 1e-15) & (size < 1e15))
