"""Saving a fitted classifier without pickle: arrays and a JSON header in one ``.npz`` file."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import read_npz, reading
from marginshot.classifier.predictor import Predictor
from marginshot.model.graph import LabelGraph
from marginshot.model.named_transforms import make_transform
from marginshot.model.neighbours import NeighbourSmoothing, restore_smoothing
from marginshot.model.transforms import CentreAndNormalise

if TYPE_CHECKING:
    from marginshot.classifier.estimator import TransductiveMaxMarginClassifier

Estimator = TypeVar("Estimator", bound="TransductiveMaxMarginClassifier")

FORMAT = "marginshot-classifier-7"


def save(estimator: TransductiveMaxMarginClassifier, path: str | os.PathLike[str]) -> None:
    """Write what `predict` needs: the predictor, classes and settings."""
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
    settings["callback"] = None  # a callback is not saved: it belongs to the session that fitted
    if not isinstance(settings["random_state"], Integral):
        settings["random_state"] = None  # nor is a generator
    for name in ("lambda2", "prior"):
        if settings[name] is not None and not isinstance(settings[name], str):
            settings[name] = np.asarray(settings[name], dtype=float).tolist()
    header = {"format": FORMAT, "settings": settings, "n_features_in": estimator.n_features_in_}
    with atomic_path(path, private=True) as temporary, temporary.open("wb") as file:
        np.savez(file, header=np.array(json.dumps(header, default=_plain)), **_arrays(estimator))


def _plain(value: Any) -> Any:
    """Convert a NumPy number, as a search over ``np.arange`` sets it, to Python's."""
    return np.asarray(value).item()


def _arrays(estimator: TransductiveMaxMarginClassifier) -> dict[str, Any]:
    predictor = estimator._predictor
    arrays: dict[str, Any] = {
        "classes": estimator.classes_,
        "prior": estimator.prior_,
        "planes": predictor.planes,
        "offsets": predictor.offsets,
        "score_coef": predictor.score_coef,
        "score_intercept": predictor.score_intercept,
        "graph_scale": np.array(predictor.graph_scale),
    }
    if predictor.expansion is not None:
        arrays["expansion"] = predictor.expansion
        arrays["gamma"] = np.asarray(predictor.kernel.gamma)
    if isinstance(predictor.transformer, CentreAndNormalise):
        for name in predictor.transformer.learned:
            arrays[f"transform_{name}"] = getattr(predictor.transformer, name)
    if predictor.smoothing is not None:
        arrays["neighbour_weight"] = np.array(predictor.smoothing.weight)
        arrays["neighbour_rows"] = predictor.smoothing.rows
        arrays["neighbours"] = predictor.smoothing.neighbours
        arrays["neighbour_mean"] = predictor.smoothing.finish.mean_
    if predictor.graph is not None:
        arrays["graph_reached"] = predictor.graph.reached
        arrays["graph_degrees"] = predictor.graph.degrees
        arrays["graph_numbers"] = np.array([predictor.graph.width, predictor.graph.weight])
    if hasattr(estimator, "feature_names_in_"):
        arrays["feature_names"] = np.array([str(name) for name in estimator.feature_names_in_])
    return arrays


def load(cls: type[Estimator], path: str | os.PathLike[str]) -> Estimator:
    """The estimator `save` wrote to ``path``."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no saved classifier at {os.fspath(path)!r}.")
    what = "a classifier saved by marginshot"
    arrays = read_npz(Path(path), what)
    with reading(path, what):
        header = json.loads(str(arrays.pop("header")))
        assert_format(header, FORMAT)
        return _restore(cls(**header["settings"]), header, arrays)


def assert_format(header: Any, wanted: str) -> None:
    """Raise ValueError unless ``header`` is of the format ``wanted``."""
    found = header.get("format") if isinstance(header, dict) else None
    if found != wanted:
        raise ValueError(f"its format is {found!r}, this version reads {wanted!r}.")


def _restore(estimator: Estimator, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Estimator:
    estimator.n_features_in_ = header["n_features_in"]
    estimator.classes_, estimator.prior_ = arrays["classes"], arrays["prior"]
    kernel = estimator._settings().kernel_function
    estimator._restore(
        Predictor(
            transformer=_restore_transformer(estimator.feature_transform, arrays),
            smoothing=_restore_smoothing(estimator.n_neighbors, arrays),
            graph=_restore_graph(arrays),
            kernel=replace(kernel, gamma=arrays["gamma"]) if "gamma" in arrays else kernel,
            expansion=arrays.get("expansion"),
            planes=arrays["planes"],
            offsets=arrays["offsets"],
            score_coef=arrays["score_coef"],
            score_intercept=arrays["score_intercept"],
            graph_scale=float(arrays["graph_scale"]),
        )
    )
    if "feature_names" in arrays:
        estimator.feature_names_in_ = arrays["feature_names"].astype(object)
    return estimator


def _restore_transformer(name: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if "transform_mean_" not in arrays:
        return None
    transformer = make_transform(name)
    for attribute in transformer.learned:
        setattr(transformer, attribute, arrays[f"transform_{attribute}"])
    return transformer


def _restore_smoothing(n_neighbors: int, arrays: dict[str, NDArray[Any]]) -> NeighbourSmoothing | None:
    if "neighbour_rows" not in arrays:
        return None
    return restore_smoothing(
        n_neighbors,
        float(arrays["neighbour_weight"]),
        arrays["neighbour_rows"],
        arrays["neighbours"],
        arrays["neighbour_mean"],
    )


def _restore_graph(arrays: dict[str, NDArray[Any]]) -> LabelGraph | None:
    if "graph_reached" not in arrays:
        return None
    width, weight = arrays["graph_numbers"].tolist()
    return LabelGraph(arrays["graph_reached"], arrays["graph_degrees"], width, weight)
