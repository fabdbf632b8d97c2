"""The transformers that ``feature_transform`` names. A new one is a class and a line in `TRANSFORMS`."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from marginshot.model.discriminant import DiscriminantTransform
from marginshot.model.transforms import BY_ROOTS, CentreAndNormalise

TRANSFORMS = {
    "cl2n": CentreAndNormalise(),
    "power": CentreAndNormalise(power=BY_ROOTS),
    "discriminant": DiscriminantTransform(power=BY_ROOTS),
}


def make_transform(transform: Any) -> Any:
    """The transformer meant by ``feature_transform``: a name, None, or an unfitted transformer, which is cloned."""
    if transform is None:
        return None
    if isinstance(transform, str) and transform in TRANSFORMS:
        return clone(TRANSFORMS[transform])
    if hasattr(transform, "fit") and hasattr(transform, "transform"):
        return clone(transform)
    raise ValueError(
        'feature_transform must be "cl2n", "power", "discriminant", None or a transformer with fit and transform; got '
        f"{transform!r}."
    )


def check_neighbours(n_neighbors: int, transformer: Any) -> None:
    """Neighbours are searched among rows of unit length, which only the named transforms promise."""
    if n_neighbors and not isinstance(transformer, CentreAndNormalise):
        *names, last = (f'"{name}"' for name in TRANSFORMS)
        raise ValueError(f"n_neighbors={n_neighbors} needs feature_transform={', '.join(names)} or {last}; set one.")


def name_of(transformer: Any) -> str:
    """The name of a transformer in an error: the one in `TRANSFORMS`, else its own text."""
    for name, named in TRANSFORMS.items():
        if type(transformer) is type(named) and transformer.get_params() == named.get_params():
            return f'"{name}"'
    return repr(transformer)
