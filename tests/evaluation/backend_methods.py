"""A method that takes its worker down with it, once."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from marginshot.methods import SimpleShot


@dataclass(frozen=True, kw_only=True)
class Deadly:
    """SimpleShot, but the first worker to score a full batch is killed; ``flag`` says that it has happened."""

    name: ClassVar[str] = "deadly"
    title: ClassVar[str] = "Deadly"
    reference: ClassVar[str] = "nobody"
    transductive: ClassVar[bool] = True
    flag: str
    parent: int

    def predict_scores(self, support, support_labels, query):
        if os.getpid() != self.parent and len(query) > 2 and not Path(self.flag).exists():
            Path(self.flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return SimpleShot().predict_scores(support, support_labels, query)

    def probabilities(self, scores):
        return SimpleShot().probabilities(scores)
