"""Runs methods over thousands of tasks and measures them.

`evaluate` takes a `Run`: features (`load_features`), methods (`get_method`, or objects of your own), and the shape of
the tasks (`TaskSettings`). It returns an `Evaluation`, with a `MethodResult` for each method and shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginshot._lib.lazy import lazy_names

if TYPE_CHECKING:
    from marginshot.data.features import FeatureBank, load_features
    from marginshot.data.sampler import TaskSampler, TaskSettings
    from marginshot.evaluation.checkpoint import Checkpoint
    from marginshot.evaluation.protocol import EvaluationInterrupted, evaluate
    from marginshot.evaluation.results import Evaluation, MethodResult
    from marginshot.evaluation.run import Run
    from marginshot.evaluation.statistics import (
        adjust_by_holm,
        interval_over_classes,
        mean_and_interval,
        paired_difference,
        paired_p_value,
    )
    from marginshot.evaluation.tuning import tune
    from marginshot.evaluation.whitening import WithinClassWhitening
    from marginshot.methods import get_method

__all__ = [
    "Checkpoint",
    "Evaluation",
    "EvaluationInterrupted",
    "FeatureBank",
    "MethodResult",
    "Run",
    "TaskSampler",
    "TaskSettings",
    "WithinClassWhitening",
    "adjust_by_holm",
    "evaluate",
    "get_method",
    "interval_over_classes",
    "load_features",
    "mean_and_interval",
    "paired_difference",
    "paired_p_value",
    "tune",
]

# Loaded when first asked for: commands import parts of this package, and must not wait for all of it.
_HOMES = {
    "Checkpoint": "marginshot.evaluation.checkpoint",
    "Evaluation": "marginshot.evaluation.results",
    "EvaluationInterrupted": "marginshot.evaluation.protocol",
    "FeatureBank": "marginshot.data.features",
    "MethodResult": "marginshot.evaluation.results",
    "Run": "marginshot.evaluation.run",
    "TaskSampler": "marginshot.data.sampler",
    "TaskSettings": "marginshot.data.sampler",
    "WithinClassWhitening": "marginshot.evaluation.whitening",
    "adjust_by_holm": "marginshot.evaluation.statistics",
    "evaluate": "marginshot.evaluation.protocol",
    "get_method": "marginshot.methods",
    "interval_over_classes": "marginshot.evaluation.statistics",
    "load_features": "marginshot.data.features",
    "mean_and_interval": "marginshot.evaluation.statistics",
    "paired_difference": "marginshot.evaluation.statistics",
    "paired_p_value": "marginshot.evaluation.statistics",
    "tune": "marginshot.evaluation.tuning",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
