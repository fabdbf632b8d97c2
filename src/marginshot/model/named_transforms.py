"""The transformers that ``feature_transform`` names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginshot.model.discriminant import DiscriminantTransform
from marginshot.model.transforms import CentreAndNormalise, differ_in_length

_NAMED = {
    "cl2n": CentreAndNormalise(),
    "power": CentreAndNormalise(power=0.75),
    "discriminant": DiscriminantTransform(power=0.75),
}


def make_transform(transform: Any) -> Any:
    """The transformer meant by ``feature_transform``: a name, None, or an unfitted transformer, which is cloned."""
    if transform is None:
        return None
    if isinstance(transform, str) and transform in _NAMED:
        return clone(_NAMED[transform])
    if hasattr(transform, "fit") and hasattr(transform, "transform"):
        return clone(transform)
    raise ValueError(
        'feature_transform must be "cl2n", "power", "discriminant", None or a transformer with fit and transform; got '
        f"{transform!r}."
    )


def fit_rows(transformer: Any, X: NDArray[np.floating], codes: NDArray[np.int64]) -> tuple[Any, Any]:
    """Fit a transformer; its rows of ``X`` (M, D), and the lengths (M,) they had before they were scaled, if they were.

    ``codes`` (M,) are class indices, −1 where unknown: a transformer of the user's does not see them, for it would take
    −1 for a class.
    """
    if transformer is None:
        return X, None
    if isinstance(transformer, CentreAndNormalise):
        if transformer.power != 1.0 and differ_in_length(X):
            warnings.warn(
                f"The {len(X):,} rows differ more in their lengths than in their directions, and {transformer} drops "
                "the lengths; standardise the features first.",
                stacklevel=3,
            )
        return transformer.fit_unit_rows(X, codes)
    return np.asarray(transformer.fit_transform(X)), None
