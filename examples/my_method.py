"""A method of your own, beside those that are built in: marginshot evaluate digits --plugin examples/my_method.py \
--methods nearest-row,fs-tmmc,simpleshot
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from marginshot.methods.base import register


@register
@dataclass(frozen=True, kw_only=True)
class NearestRow:
    """The class of the labelled row with the largest cosine. Fields are settings: [methods.nearest-row] in a config."""

    name: ClassVar[str] = "nearest-row"
    title: ClassVar[str] = "Nearest row"
    reference: ClassVar[str] = "ours"
    transductive: ClassVar[bool] = False

    power: float = 1.0

    def predict_scores(self, support, support_labels, query):
        """(T, n, D), (T, n), (T, m, D) -> scores (T, m, N); larger is better. The arrays are read-only."""
        rows, queries = (np.sign(x) * np.abs(x) ** self.power for x in (support, query))
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        likeness = queries @ rows.transpose(0, 2, 1)
        classes = np.arange(support_labels.max() + 1)
        of_class = support_labels[:, None, None, :] == classes[:, None]
        return np.where(of_class, likeness[:, :, None, :], -np.inf).max(axis=3)

    def probabilities(self, scores):
        """(T, m, N), or None where the method has none."""
        return
