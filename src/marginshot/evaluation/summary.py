"""From the accuracies of tasks to results: means, intervals and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from marginshot.data.features import FeatureBank
from marginshot.data.sampler import TaskSampler, TaskSettings
from marginshot.evaluation.checkpoint import BlockProgress
from marginshot.evaluation.results import Calibration, Difference, Evaluation, FeatureRecord, MethodResult, OpenSet
from marginshot.evaluation.run import Run
from marginshot.evaluation.statistics import (
    adjust_by_holm,
    expected_calibration_error,
    find_best,
    interval_over_classes,
    mean_and_interval,
    paired_difference,
    paired_p_value,
    reliability_curve,
    worst_tenth,
)
from marginshot.evaluation.workers import describe_method
from marginshot.methods.prior import takes_prior

#: The method others are compared with unless the run names another, if it takes part; otherwise the first one is.
REFERENCE_METHOD = "fs-tmmc"


def summarise(run: Run, progress: Sequence[BlockProgress]) -> Evaluation:
    """Statistics of every method on every block with at least two finished tasks."""
    results: list[MethodResult] = []
    for (bank, settings), block in zip(run.blocks(), progress, strict=True):
        if block.finished.sum() >= 2:
            results += _summarise_block(run, bank, settings, block)
    return Evaluation(
        arguments=run.describe(),
        features=tuple(_describe_features(bank) for bank in run.banks),
        results=tuple(results),
        command=run.command,
        complete=all(block.done.all() for block in progress),
    )


def _describe_features(bank: FeatureBank) -> FeatureRecord:
    n_rows, n_features = bank.X.shape
    return FeatureRecord(
        source=bank.source,
        sha256=bank.content_hash,
        n_rows=n_rows,
        n_features=n_features,
        n_classes=len(bank.classes),
    )


def _summarise_block(run: Run, bank: FeatureBank, settings: TaskSettings, block: BlockProgress) -> list[MethodResult]:
    labels = list(run.methods)
    usual = REFERENCE_METHOD if REFERENCE_METHOD in labels else labels[0]
    reference = labels.index(run.reference or usual)
    finished = block.finished
    accuracies = block.accuracy[:, finished]
    sampler = TaskSampler(bank, seed=run.seed, **asdict(settings))
    classes = sampler.draw_classes(0, len(finished))[finished]
    n_classes = len(bank.classes)
    differences = _compare(accuracies, labels, reference, classes, n_classes)
    among_best = find_best(accuracies)
    results = []
    for index, (label, method) in enumerate(run.methods.items()):
        mean, ci95 = mean_and_interval(accuracies[index])
        results.append(
            MethodResult(
                features=bank.source,
                method=label,
                title=method.title,
                reference=method.reference,
                transductive=method.transductive,
                given_prior=bank.prior is not None and takes_prior(method),
                settings=describe_method(method),
                way=settings.n_way,
                shot=settings.n_shot,
                query=settings.n_query_per_class,
                tasks=accuracies.shape[1],
                accuracy=mean,
                ci95=ci95,
                worst_tenth=worst_tenth(accuracies[index]),
                seconds_per_task=float(block.seconds[index] / block.done[index].sum()),
                difference=differences.get(index),
                calibration=_summarise_calibration(block.reliability[index]),
                redrawn_tasks=int(block.redrawn[finished].sum()),
                per_task=accuracies[index],
                among_best=bool(among_best[index]),
                ci95_classes=interval_over_classes(accuracies[index], classes, n_classes),
                reliability=block.reliability[index],
                redrawn=block.redrawn[finished],
                open_set=_summarise_open_set(block.foreign[index, finished]) if settings.foreign else None,
                foreign=block.foreign[index, finished] if settings.foreign else None,
            )
        )
    return results


def _compare(
    accuracies: NDArray[np.float64], labels: Sequence[str], reference: int, classes: NDArray[np.int64], n_classes: int
) -> dict[int, Difference]:
    """Differences of all other methods to the ``reference``, by index; ``accuracies`` is (n_methods, n_tasks)."""
    others = [index for index in range(len(labels)) if index != reference]
    p_values = np.array([paired_p_value(accuracies[index], accuracies[reference]) for index in others])
    compared = {}
    for index, p_holm in zip(others, adjust_by_holm(p_values), strict=True):
        mean, ci95 = paired_difference(accuracies[index], accuracies[reference])
        compared[index] = Difference(
            to=labels[reference],
            mean=mean,
            ci95=ci95,
            p_holm=float(p_holm),
            ci95_classes=interval_over_classes(accuracies[index] - accuracies[reference], classes, n_classes),
        )
    return compared


def _summarise_open_set(areas: NDArray[np.float64]) -> OpenSet:
    (auroc, auroc_ci95), (aupr, aupr_ci95) = (mean_and_interval(column) for column in areas.T)
    return OpenSet(auroc=auroc, auroc_ci95=auroc_ci95, aupr=aupr, aupr_ci95=aupr_ci95)


def _summarise_calibration(counts: NDArray[np.int64]) -> Calibration | None:
    if not counts[:, 0].any():
        return None
    confidence, accuracy, n_queries = reliability_curve(counts)
    return Calibration(
        ece=expected_calibration_error(counts),
        confidence=tuple(confidence.tolist()),
        accuracy=tuple(accuracy.tolist()),
        n_queries=tuple(n_queries.tolist()),
    )
