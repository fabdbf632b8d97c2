"""What to evaluate: features, methods, tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginshot.data.features import FeatureBank
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation.results import as_json
from marginshot.evaluation.workers import describe_method

if TYPE_CHECKING:
    from marginshot.methods.base import Method


@dataclass(frozen=True, kw_only=True)
class Run:
    """The features, methods and tasks of one evaluation.

    Parameters
    ----------
    banks : sequence of FeatureBank
        With different sources.
    methods : mapping
        Label -> method.
    settings : sequence of TaskSettings
        Each gives one block per bank.
    n_tasks : int, default=10000
    seed : int, default=0
    command : str, default=""
        Command line, kept in the result.
    prior : str, optional
        Where the prior of the banks comes from, kept in the result.
    reference : str, optional
        Label of the method that the others are compared with; by default FS-TMMC where it takes part, else the first.
    """

    banks: Sequence[FeatureBank]
    methods: Mapping[str, Method]
    settings: Sequence[TaskSettings]
    n_tasks: int = 10_000
    seed: int = 0
    command: str = ""
    reference: str | None = None
    prior: str | None = None

    def __post_init__(self) -> None:
        if self.n_tasks < 2:
            raise ValueError(f"A confidence interval needs at least 2 tasks; got {self.n_tasks}.")
        for what, given in (("features", self.banks), ("methods", self.methods), ("task settings", self.settings)):
            if not given:
                raise ValueError(f"Nothing to evaluate: no {what} given.")
        check_sources(self.banks)
        if self.reference is not None and self.reference not in self.methods:
            raise ValueError(f"The reference {self.reference!r} is not one of the methods: {', '.join(self.methods)}.")
        if len(set(self.settings)) < len(self.settings):
            raise ValueError("The same way and shot is asked for twice.")
        queries = {(one.n_query_per_class, one.dirichlet, one.present, one.foreign) for one in self.settings}
        if len(queries) > 1:
            raise ValueError("Task settings of one run may differ in way and shot only; evaluate the rest in another.")

    def blocks(self) -> Iterator[tuple[FeatureBank, TaskSettings]]:
        """Every combination of features and task settings."""
        return ((bank, settings) for bank in self.banks for settings in self.settings)

    def describe(self) -> dict[str, Any]:
        """Everything the result depends on, as JSON types."""
        first = self.settings[0]
        return {
            "features": [bank.source for bank in self.banks],
            "way": sorted({settings.n_way for settings in self.settings}),
            "shot": list(dict.fromkeys(settings.n_shot for settings in self.settings)),
            "query": first.n_query_per_class,
            "dirichlet": first.dirichlet,
            "present": first.present,
            **({"foreign": first.foreign} if first.foreign else {}),
            "tasks": self.n_tasks,
            "seed": self.seed,
            **({} if all(bank.prior is None for bank in self.banks) else {"prior": self.prior or "given"}),
            "methods": {label: describe_method(method) for label, method in self.methods.items()},
        }

    def identity(self) -> dict[str, Any]:
        """The settings that a stored run must share with this one to be continued."""
        return as_json({**self.describe(), "sha256": [bank.content_hash for bank in self.banks]})

    def progress_identity(self) -> dict[str, Any]:
        """`identity`, and the order of methods and tasks, by which progress is stored."""
        tasks = [(settings.n_way, settings.n_shot) for settings in self.settings]
        return as_json({**self.identity(), "order of methods": list(self.methods), "order of tasks": tasks})


def check_sources(banks: Sequence[FeatureBank]) -> None:
    """Raise where two banks have one name."""
    sources = [bank.source for bank in banks]
    if len(set(sources)) < len(sources):
        twice = next(source for source in sources if sources.count(source) > 1)
        raise ValueError(f"Two sets of features are called {twice!r}; rename one so that results can be told apart.")
