"""marginshot: transductive maximum-margin few-shot classification.

`TransductiveMaxMarginClassifier` labels the rest of your rows from a few labelled ones; `solve_tasks` solves many
small few-shot tasks at once.
"""

from marginshot.calibration import platt_probabilities
from marginshot.engine import solve_tasks
from marginshot.estimators import TransductiveMaxMarginClassifier

__version__ = "0.1.0"

__all__ = ["TransductiveMaxMarginClassifier", "__version__", "platt_probabilities", "solve_tasks"]
