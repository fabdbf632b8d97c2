"""How far labelled rows confirm an expert, the mixture or the graph: one rule for both.

Each labelled row of a class that has others is left out, and its class is found by the expert and by the nearest class
mean. An expert that finds fewer of them than the means do sees something else than the classes.
"""

from __future__ import annotations

# Labelled rows, and their share, by which class means may be ahead before an expert is not trusted at all. Flat on real
# features, half to double; the rule is for clusters that cross the classes (tests/model/test_mixture.py, `nuisance`).
MISPLACED, MISPLACED_SHARE = 2.0, 0.1


def trust_by_lead(lead: float, checked: float) -> float:
    """Trust in an expert that finds ``lead`` more of ``checked`` rows than the class means: 1 from 0 up, down to 0.

    Examples
    --------
    >>> trust_by_lead(3, 50), round(trust_by_lead(-3, 50), 2), trust_by_lead(-10, 50)
    (1.0, 0.57, 0.0)
    """
    return min(max(1.0 + lead / (MISPLACED + MISPLACED_SHARE * checked), 0.0), 1.0)
