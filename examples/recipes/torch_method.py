"""
A method in PyTorch, beside the others
======================================

A method scores the queries of a batch of tasks: arrays in, arrays out. What it uses inside is its own affair. Here a
cosine classifier is trained on the support of each task by gradient descent in PyTorch, and compared with FS- TMMC on
the same tasks.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.run import Run
from marginshot.methods import get_method


@dataclass(frozen=True, kw_only=True)
class TorchCosine:
    """Class weights compared by cosine, trained on the support. Inductive.

    Parameters
    ----------
    steps : int, default=30
        Steps of Adam.
    temperature : float, default=10
        Cosines are multiplied by this.
    """

    name: ClassVar[str] = "torch-cosine"
    title: ClassVar[str] = "Cosine classifier, PyTorch"
    reference: ClassVar[str] = "ours"
    transductive: ClassVar[bool] = False

    steps: int = 30
    temperature: float = 10.0

    def predict_scores(self, support, support_labels, query):
        """(T, n_support, D), (T, n_support), (T, n_query, D) -> (T, n_query, n_way)."""
        mean = np.concatenate([support, query], axis=1).mean(axis=1, keepdims=True)
        rows = torch.nn.functional.normalize(torch.tensor(support - mean), dim=-1)
        targets = torch.nn.functional.one_hot(torch.tensor(support_labels)).to(rows.dtype)
        sums = targets.transpose(1, 2) @ rows
        weights = torch.nn.Parameter(torch.nn.functional.normalize(sums, dim=-1))
        optimiser = torch.optim.Adam([weights], lr=0.01)
        for _ in range(self.steps):
            logits = self.temperature * rows @ torch.nn.functional.normalize(weights, dim=-1).transpose(1, 2)
            # A sum over tasks: the gradient of one task does not depend on its batch.
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(0, 1), reduction="sum")
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        queries = torch.nn.functional.normalize(torch.tensor(query - mean), dim=-1)
        with torch.no_grad():
            scores = queries @ torch.nn.functional.normalize(weights, dim=-1).transpose(1, 2)
        return scores.numpy().astype(np.float64)

    def probabilities(self, scores):
        """(T, n_query, n_way) that sum to one; None where a method has none."""
        return torch.softmax(self.temperature * torch.tensor(scores), dim=-1).numpy()


run = Run(
    banks=[load_features("digits")],
    methods={"torch-cosine": TorchCosine(), "fs-tmmc-auto": get_method("fs-tmmc-auto")},
    settings=[TaskSettings(n_way=5, n_shot=1)],
    n_tasks=200,
)
for result in evaluate(run).results:
    print(f"{result.title:28} {result.accuracy:.1%} ± {result.ci95:.1%}")

# %%
# On the command line: save the class in a file, put ``@register`` from ``marginshot.methods.base`` above it,
# and name the file with
# ``marginshot evaluate FEATURES --plugin FILE.py --methods torch-cosine,fs-tmmc-auto``.
