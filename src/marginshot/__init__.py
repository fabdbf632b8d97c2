"""marginshot: transductive maximum-margin few-shot classification.

`TransductiveMaxMarginClassifier` labels the rest of your rows from a few labelled ones; `solve_tasks` solves many
small few-shot tasks at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginshot._lib.lazy import lazy_names

if TYPE_CHECKING:
    from marginshot.batch.solve import TaskAnswers, solve_table_tasks, solve_tasks
    from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
    from marginshot.classifier.model_selection import LabelledKFold, make_labelled_scorer
    from marginshot.classifier.settings import PRESETS, Settings
    from marginshot.model.discriminant import DiscriminantTransform
    from marginshot.model.platt import platt_probabilities
    from marginshot.model.transforms import CentreAndNormalise

__version__ = "0.2.0"

__all__ = [
    "PRESETS",
    "CentreAndNormalise",
    "DiscriminantTransform",
    "LabelledKFold",
    "Settings",
    "TaskAnswers",
    "TransductiveMaxMarginClassifier",
    "__version__",
    "make_labelled_scorer",
    "platt_probabilities",
    "solve_table_tasks",
    "solve_tasks",
]

# Loaded when first asked for: `marginshot --help` must not wait for scikit-learn.
_HOMES = {
    "PRESETS": "marginshot.classifier.settings",
    "CentreAndNormalise": "marginshot.model.transforms",
    "DiscriminantTransform": "marginshot.model.discriminant",
    "LabelledKFold": "marginshot.classifier.model_selection",
    "Settings": "marginshot.classifier.settings",
    "TaskAnswers": "marginshot.batch.solve",
    "TransductiveMaxMarginClassifier": "marginshot.classifier.estimator",
    "make_labelled_scorer": "marginshot.classifier.model_selection",
    "platt_probabilities": "marginshot.model.platt",
    "solve_table_tasks": "marginshot.batch.solve",
    "solve_tasks": "marginshot.batch.solve",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
