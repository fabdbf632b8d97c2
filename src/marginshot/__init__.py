"""marginshot: transductive maximum-margin few-shot classification.

`TransductiveMaxMarginClassifier` labels the rest of your rows from a few labelled ones; `solve_tasks` solves many
small few-shot tasks at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginshot.calibration import platt_probabilities
    from marginshot.engine import solve_tasks
    from marginshot.estimators import TransductiveMaxMarginClassifier
    from marginshot.settings import PRESETS

__version__ = "0.1.0"

__all__ = ["PRESETS", "TransductiveMaxMarginClassifier", "__version__", "platt_probabilities", "solve_tasks"]

# Loaded when first asked for: `marginshot --help` must not wait for scikit-learn.
_HOMES = {
    "PRESETS": "marginshot.settings",
    "TransductiveMaxMarginClassifier": "marginshot.estimators",
    "platt_probabilities": "marginshot.calibration",
    "solve_tasks": "marginshot.engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
