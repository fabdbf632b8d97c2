"""Small methods whose answers can be worked out by hand."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np


@dataclass(frozen=True, kw_only=True)
class NearestMean:
    """Squared distance to the class means, times a temperature in the probabilities."""

    name: ClassVar[str] = "nearest-mean"
    title: ClassVar[str] = "Nearest mean"
    reference: ClassVar[str] = "nobody"
    transductive: ClassVar[bool] = False
    temperature: float = 1.0

    def predict_scores(self, support, support_labels, query):
        n_way = support_labels.max() + 1
        onehot = (support_labels[..., None] == np.arange(n_way)).astype(np.float64)
        means = np.einsum("tnc,tnd->tcd", onehot, support) / onehot.sum(axis=1)[..., None]
        return -((query[:, :, None, :] - means[:, None]) ** 2).sum(axis=3)

    def probabilities(self, scores):
        weights = np.exp(self.temperature * (scores - scores.max(axis=2, keepdims=True)))
        return weights / weights.sum(axis=2, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class FirstClass:
    """Always the first class, and no probabilities."""

    name: ClassVar[str] = "first-class"
    title: ClassVar[str] = "First class"
    reference: ClassVar[str] = "nobody"
    transductive: ClassVar[bool] = True

    def predict_scores(self, support, support_labels, query):
        scores = np.zeros((len(query), query.shape[1], support_labels.max() + 1))
        scores[..., 0] = 1
        return scores

    def probabilities(self, scores):
        return None


@dataclass(frozen=True, kw_only=True)
class Troubled(FirstClass):
    """Does one thing wrong."""

    name: ClassVar[str] = "troubled"
    trouble: str = "nan"
    flag: Path | None = None
    parent: int = 0

    def predict_scores(self, support, support_labels, query):
        scores = super().predict_scores(support, support_labels, query)
        if self.trouble == "nan":
            scores[-1, 0, 0] = np.nan
        elif self.trouble == "warn":
            warnings.warn(f"did not converge in {len(query)} tasks", RuntimeWarning, stacklevel=1)
        elif self.trouble == "threads":
            from threadpoolctl import threadpool_info

            if any(pool["num_threads"] > 1 for pool in threadpool_info()):
                raise RuntimeError("more than one thread")
        elif self.trouble == "process":
            scores[..., 1] = 2 * (os.getpid() != self.parent)
        elif self.trouble == "die" and self.flag.exists() and len(query) > 2:
            os._exit(3)
        return scores
