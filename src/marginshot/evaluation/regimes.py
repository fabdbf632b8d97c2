"""Methods over regimes, ways, shots and features; every cell gets as many tasks as its interval needs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot.data.features import FeatureBank
from marginshot.data.sampler import SharesDoNotFitError, TaskSampler, TaskSettings, check_has_support
from marginshot.evaluation.checkpoint import BlockProgress
from marginshot.evaluation.protocol import run_missing
from marginshot.evaluation.regime_table import Cell, CellResult, LeftOut, RegimeTable, Score
from marginshot.evaluation.run import check_sources
from marginshot.evaluation.statistics import mean_and_interval
from marginshot.evaluation.workers import Outcome, describe_method

if TYPE_CHECKING:
    from marginshot.methods.base import Method

#: Called with the tasks done in a cell and the current estimate of those it needs.
OnTasks = Callable[[int, int], None]

# Tasks in the first batch of a cell, which gives the first times and intervals, and the step of later batches. At 40
# ways 20 tasks are enough for an interval of a point.
_BATCH = 20


@dataclass(frozen=True, kw_only=True)
class Regime:
    """How the queries of a task are spread over its classes; see `TaskSettings`.

    Examples
    --------
    >>> Regime.parse("dirichlet-0.5")
    Regime(dirichlet=0.5, present=None)
    >>> Regime.parse("present-5").name
    'present-5'
    """

    dirichlet: float | None = None
    present: int | None = None

    @property
    def name(self) -> str:
        """The name of the regime on the command line."""
        if self.dirichlet is not None:
            return f"dirichlet-{self.dirichlet:g}"
        return "balanced" if self.present is None else f"present-{self.present}"

    @classmethod
    def parse(cls, text: str) -> Regime:
        """From ``balanced``, ``dirichlet-A`` or ``present-N``."""
        if text == "balanced":
            return cls()
        if match := re.fullmatch(r"dirichlet-(\d+\.?\d*|\.\d+)", text):
            if float(match[1]) > 0:
                return cls(dirichlet=float(match[1]))
        elif (match := re.fullmatch(r"present-(\d+)", text)) and int(match[1]) > 0:
            return cls(present=int(match[1]))
        raise ValueError(
            f"{text!r} is not a regime. Give balanced, dirichlet-A (A above 0) or present-N (N classes, at least 1)."
        )


@dataclass(frozen=True, kw_only=True)
class RegimePlan:
    """What to run: every bank with every regime, way and shot is a cell.

    Parameters
    ----------
    banks : sequence of FeatureBank
        With different sources.
    methods : mapping
        Label -> method.
    regimes : sequence of Regime
    ways, shots : sequence of int
    n_query_per_class : int, default=15
    seed : int, default=0
    ci95 : float, default=0.01
        A cell has enough tasks when half the 95 % interval of every method's accuracy is at most this.
    max_tasks : int, default=2000
        Upper limit on the tasks of a cell.
    budget : float, default=120
        Seconds of one core that a method may need for a cell; a slower one is left out of it.
    """

    banks: Sequence[FeatureBank]
    methods: Mapping[str, Method]
    regimes: Sequence[Regime]
    ways: Sequence[int]
    shots: Sequence[int]
    n_query_per_class: int = 15
    seed: int = 0
    ci95: float = 0.01
    max_tasks: int = 2000
    budget: float = 120.0

    def __post_init__(self) -> None:
        check_sources(self.banks)
        for bank in self.banks:
            check_has_support(bank, self.shots)
        if not 0 < self.ci95 < 1:
            raise ValueError(f"The interval must lie between 0 and 100 points; got {100 * self.ci95:g}.")
        if self.max_tasks < 2:
            raise ValueError(f"A confidence interval needs at least 2 tasks; got {self.max_tasks}.")
        if not self.budget > 0:
            raise ValueError(f"The budget must be a positive number of seconds; got {self.budget:g}.")
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0; got {self.seed}.")
        for way in self.ways:
            for shot in self.shots:
                TaskSettings(n_way=way, n_shot=shot, n_query_per_class=self.n_query_per_class)

    def cells(self) -> Iterator[tuple[Cell, FeatureBank, Regime]]:
        """Every cell, whether its features suffice or not."""
        for bank in self.banks:
            for regime in self.regimes:
                for way in self.ways:
                    for shot in self.shots:
                        yield Cell(features=bank.source, regime=regime.name, way=way, shot=shot), bank, regime

    def arguments(self) -> dict[str, Any]:
        """Settings that decide the result of a cell, besides its features, as JSON types."""
        names = ("n_query_per_class", "seed", "ci95", "max_tasks", "budget")
        methods = {label: describe_method(method) for label, method in self.methods.items()}
        return json.loads(json.dumps({**{name: getattr(self, name) for name in names}, "methods": methods}))

    def start_table(self, command: str = "") -> RegimeTable:
        """A table without cells."""
        hashes = {bank.source: bank.content_hash for bank in self.banks}
        return RegimeTable(arguments=self.arguments(), features=hashes, command=command)

    def continue_table(self, stored: RegimeTable, command: str = "", again: Sequence[str] = ()) -> RegimeTable:
        """``stored`` with the features of this plan added; raises if the plan would give other results for its cells.

        Methods to be measured ``again`` may have changed, or be new.
        """
        fresh = self.start_table(command)
        methods = stored.arguments.get("methods", {})
        changed = {name: fresh.arguments["methods"][name] for name in again}
        before = {**stored.arguments, "methods": {**methods, **changed}}
        for name, value in fresh.arguments.items():
            if before.get(name) != value:
                raise ValueError(f"The stored table was made with other {name}: repeat them, or write to a new folder.")
        others = [name for name, found in fresh.features.items() if stored.features.get(name, found) != found]
        if others:
            raise ValueError(f"The stored table was made with another {others[0]!r}: write to a new folder.")
        features = {**stored.features, **fresh.features}
        return replace(fresh, features=features, results=stored.results, left_out=stored.left_out)


def run_regimes(
    plan: RegimePlan, *, known: Set[Cell] = frozenset(), n_jobs: int | None = None, on_tasks: OnTasks | None = None
) -> Iterator[CellResult | LeftOut]:
    """Run the cells of a plan that are not ``known``, one after the other.

    Examples
    --------
    >>> from marginshot.data.features import load_features
    >>> from marginshot.methods import get_method
    >>> methods = {name: get_method(name) for name in ("simpleshot", "protonet")}
    >>> plan = RegimePlan(banks=[load_features("digits")], methods=methods, regimes=[Regime()], ways=[5, 11], shots=[5])
    >>> done, left_out = run_regimes(plan)
    >>> done.cell.way, [score.method for score in done.scores], max(score.ci95 for score in done.scores) <= 0.01
    (5, ['simpleshot', 'protonet'], True)
    >>> left_out.reason
    'digits has 10 classes'
    """
    for cell, bank, regime in plan.cells():
        if cell in known:
            continue
        shortage = find_shortage(bank, regime, cell.way, cell.shot + plan.n_query_per_class)
        if shortage:
            yield LeftOut(cell=cell, reason=shortage)
            continue
        try:
            yield _run_cell(plan, cell, _sampler(plan, cell, bank, regime), n_jobs, on_tasks)
        except SharesDoNotFitError as error:
            yield LeftOut(cell=cell, reason=str(error))


def measure_again(
    plan: RegimePlan,
    table: RegimeTable,
    methods: Sequence[str],
    *,
    n_jobs: int | None = None,
    on_tasks: OnTasks | None = None,
) -> Iterator[CellResult]:
    """Measure changed or new ``methods``, on the tasks already used, in the plan's cells of ``table``.

    A method that was too slow for a cell stays out of it.
    """
    kept = {result.cell: result for result in table.results}
    for cell, bank, regime in plan.cells():
        result = kept.get(cell)
        again = {label: plan.methods[label] for label in methods if result and label not in result.too_slow}
        if result is None or not again:
            continue
        empty, sampler = BlockProgress.empty(len(again), 0), _sampler(plan, cell, bank, regime)
        block = _run_up_to(result.tasks, empty, again, sampler, n_jobs, on_tasks)
        measured = _summarise(again, block, result.queries)
        scores = {score.method: score for score in (*result.scores, *measured)}
        yield replace(result, scores=tuple(scores[label] for label in plan.methods if label in scores))


def _sampler(plan: RegimePlan, cell: Cell, bank: FeatureBank, regime: Regime) -> TaskSampler:
    settings = TaskSettings(
        n_way=cell.way, n_shot=cell.shot, n_query_per_class=plan.n_query_per_class, **asdict(regime)
    )
    return TaskSampler(bank, seed=plan.seed, **asdict(settings))


def find_shortage(bank: FeatureBank, regime: Regime, n_way: int, n_examples: int) -> str | None:
    """Why tasks of ``n_way`` classes with ``n_examples`` each cannot be drawn from a bank, or None."""
    if regime.present is not None and regime.present >= n_way:
        return f"with {regime.present} classes present, all of so few classes would be"
    if n_way > len(bank.classes):
        return f"{bank.source} has {len(bank.classes)} classes"
    smallest = int(np.bincount(bank.y, minlength=len(bank.classes)).min())
    if n_examples > smallest:
        return f"the smallest class of {bank.source} has {smallest} examples"
    return None


def _run_cell(
    plan: RegimePlan, cell: Cell, sampler: TaskSampler, n_jobs: int | None, on_tasks: OnTasks | None
) -> CellResult:
    """Run batches of tasks until all intervals are narrow enough; drop slow methods after the first batch."""
    methods = plan.methods
    n_first = min(_BATCH, plan.max_tasks)
    block = _run_up_to(n_first, BlockProgress.empty(len(methods), 0), methods, sampler, n_jobs, on_tasks)
    seconds = block.seconds / block.n_tasks
    fast = seconds * count_tasks(plan, block) <= plan.budget
    too_slow = {label: float(seconds[i]) for i, label in enumerate(methods) if not fast[i]}
    methods = {label: method for label, method in methods.items() if label not in too_slow}
    block = block.keep_methods(fast)
    while (n_tasks := count_tasks(plan, block)) > block.n_tasks:
        block = _run_up_to(n_tasks, block, methods, sampler, n_jobs, on_tasks)
    return CellResult(
        cell=cell,
        tasks=block.n_tasks,
        redrawn_tasks=int(block.redrawn.sum()),
        queries=sampler.settings.n_query,
        scores=tuple(_summarise(methods, block, sampler.settings.n_query)),
        too_slow=too_slow,
    )


def _run_up_to(
    n_tasks: int,
    block: BlockProgress,
    methods: Mapping[str, Method],
    sampler: TaskSampler,
    n_jobs: int | None,
    on_tasks: OnTasks | None,
) -> BlockProgress:
    """``block`` with tasks until there are ``n_tasks``."""
    block = block.extend(n_tasks)

    def report(_: Outcome) -> None:
        if on_tasks:
            on_tasks(int(block.finished.sum()), n_tasks)

    run_missing([sampler], methods, [block], n_jobs=n_jobs, on_outcome=report)
    return block


def count_tasks(plan: RegimePlan, block: BlockProgress) -> int:
    """Tasks a cell needs, estimated from those done: the interval narrows with the root of their number."""
    n_done = block.n_tasks
    widest = max((mean_and_interval(accuracies)[1] for accuracies in block.accuracy), default=0.0)
    if widest <= plan.ci95:
        return n_done
    needed = n_done * (widest / plan.ci95) ** 2
    return min(plan.max_tasks, _BATCH * math.ceil(needed / _BATCH))


def _summarise(methods: Mapping[str, Method], block: BlockProgress, n_query: int) -> Iterator[Score]:
    for label, accuracies, seconds in zip(methods, block.accuracy, block.seconds, strict=True):
        mean, ci95 = mean_and_interval(accuracies)
        yield Score(
            method=label,
            accuracy=mean,
            ci95=ci95,
            seconds_per_task=float(seconds) / len(accuracies),
            right=tuple(np.rint(accuracies * n_query).astype(int).tolist()),
        )
