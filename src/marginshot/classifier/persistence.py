"""Saving a fitted classifier without pickle: arrays and a JSON header in one ``.npz`` file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.files import DAMAGED_ARCHIVE, atomic_path
from marginshot.model.graph import LabelGraph
from marginshot.model.kernels import KernelFunction
from marginshot.model.named_transforms import make_transform
from marginshot.model.neighbours import restore_smoothing
from marginshot.model.transforms import CentreAndNormalise

if TYPE_CHECKING:
    from marginshot.classifier.estimator import TransductiveMaxMarginClassifier

Estimator = TypeVar("Estimator", bound="TransductiveMaxMarginClassifier")

FORMAT = "marginshot-classifier-5"


def save(estimator: TransductiveMaxMarginClassifier, path: str | os.PathLike[str]) -> None:
    """Write what `predict` needs: planes (or rows and dual coefficients), mean, calibration, settings."""
    settings = estimator.get_params(deep=False)
    if callable(settings["kernel"]):
        raise ValueError(
            "A callable kernel cannot be saved without pickle; use a named kernel or pickle the estimator."
        )
    if not isinstance(settings["feature_transform"], str | None):
        raise ValueError(
            f"The feature_transform {settings['feature_transform']!r} cannot be saved without pickle; "
            "apply it to X yourself and use feature_transform=None."
        )
    settings["callback"] = None  # belongs to the session that fitted, not to the planes
    for name in ("lambda2", "prior"):
        if settings[name] is not None and not isinstance(settings[name], str):
            settings[name] = np.asarray(settings[name], dtype=float).tolist()
    header = {"format": FORMAT, "settings": settings, "n_features_in": estimator.n_features_in_}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, header=np.array(json.dumps(header, default=_plain)), **_arrays(estimator))


def _plain(value: Any) -> Any:
    """A NumPy number, as a search over ``np.arange`` sets it, as Python's."""
    return np.asarray(value).item()


def _arrays(estimator: TransductiveMaxMarginClassifier) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "classes": estimator.classes_,
        "prior": estimator.prior_,
        "intercept": estimator.intercept_,
        "score_coef": estimator._score_coef,
        "score_intercept": estimator._score_intercept,
        "graph_scale": np.array(estimator._graph_scale),
    }
    if estimator.kernel == "linear":
        arrays["coef"] = estimator.coef_
    else:
        arrays["dual_coef"] = estimator.dual_coef_
    if estimator._kernel_function is not None:
        arrays["rows"] = estimator._rows
        arrays["gamma"] = np.asarray(estimator._kernel_function.gamma)
    if isinstance(estimator._transformer, CentreAndNormalise):
        for name in estimator._transformer.learned:
            arrays[f"transform_{name}"] = getattr(estimator._transformer, name)
    if estimator._smoothing is not None:
        arrays["neighbour_weight"] = np.array(estimator._smoothing.weight)
        arrays["neighbour_rows"] = estimator._smoothing.rows
        arrays["neighbours"] = estimator._smoothing.neighbours
        arrays["neighbour_mean"] = estimator._smoothing.finish.mean_
    if estimator._graph is not None:
        arrays["graph_reached"] = estimator._graph.reached
        arrays["graph_degrees"] = estimator._graph.degrees
        arrays["graph_numbers"] = np.array([estimator._graph.width, estimator._graph.weight])
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names"] = np.array([str(name) for name in estimator.feature_names_in_])
    return arrays


def load(cls: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """The estimator `save` wrote to ``path``."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no saved classifier at {os.fspath(path)!r}.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        assert_format(header, FORMAT)
    except (ValueError, KeyError, OSError, *DAMAGED_ARCHIVE) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a classifier saved by marginshot: {error}") from error
    return _restore(cls(**header["settings"]), header, arrays)


def assert_format(header: Any, wanted: str) -> None:
    """Raise ValueError unless ``header`` is of the format ``wanted``."""
    found = header.get("format") if isinstance(header, dict) else None
    if found != wanted:
        raise ValueError(f"its format is {found!r}, this version reads {wanted!r}.")


def _restore(estimator: Estimator, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Estimator:
    estimator.n_features_in_ = header["n_features_in"]
    estimator.classes_, estimator.prior_ = arrays["classes"], arrays["prior"]
    estimator.intercept_ = arrays["intercept"]
    estimator._score_coef, estimator._score_intercept = arrays["score_coef"], arrays["score_intercept"]
    estimator._graph_scale = float(arrays["graph_scale"])
    estimator._rows = arrays.get("rows")
    estimator._kernel_function = None
    if estimator.kernel == "linear":
        estimator.coef_ = arrays["coef"]
    else:
        estimator.dual_coef_ = arrays["dual_coef"]
    if "gamma" in arrays:
        estimator._kernel_function = KernelFunction(
            estimator.kernel, arrays["gamma"], estimator.degree, estimator.coef0
        )
    estimator._transformer = None
    if "transform_mean_" in arrays:
        estimator._transformer = make_transform(estimator.feature_transform)
        for name in estimator._transformer.learned:
            setattr(estimator._transformer, name, arrays[f"transform_{name}"])
    estimator._smoothing = None
    if "neighbour_rows" in arrays:
        estimator._smoothing = restore_smoothing(
            estimator.n_neighbors,
            float(arrays["neighbour_weight"]),
            arrays["neighbour_rows"],
            arrays["neighbours"],
            arrays["neighbour_mean"],
        )
    estimator._graph = None
    if "graph_reached" in arrays:
        width, weight = arrays["graph_numbers"].tolist()
        estimator._graph = LabelGraph(arrays["graph_reached"], arrays["graph_degrees"], width, weight)
    if "feature_names" in arrays:
        estimator.feature_names_in_ = arrays["feature_names"].astype(object)
    return estimator
