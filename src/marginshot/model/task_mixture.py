"""The mixture that the settings ask for: which kernel shares are estimated in, and which one answers come from.

`marginshot.model.mixture` is the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.settings import Settings
from marginshot.model.mixture import FEW_CLASSES, HEAD_START, Mixture, fit_mixture
from marginshot.model.neighbours import neighbour_weight, neighbours_in_task, smooth_grams, unit_grams
from marginshot.model.shares import is_estimated

Array = NDArray[np.float64]

# Where only the shares are asked for, equal ones have a longer head start: planes that believe in them answer unequal
# ones fairly well.
HEAD_START_OF_SHARES_ALONE = 6.0
NEIGHBOURS = 8  # that rows are averaged with before their shares are estimated


def needs_mixture(settings: Settings) -> bool:
    """Whether the class shares or the answers come from a mixture."""
    return is_estimated(settings.prior) or answers_jointly(settings)


def answers_jointly(settings: Settings) -> bool:
    """Whether the answers come from a mixture, be it with or without the graph of neighbours."""
    return settings.calibration in ("mixture", "graph")


def share_grams(grams: NDArray[np.floating], n_support: int, n_classes: int, settings: Settings) -> Any:
    """The kernel matrices (T, M, M) in which shares are estimated: those of rows averaged with their neighbours.

    Clusters show more clearly there. Where the planes work with such rows anyway, or shares are given, nothing changes.
    """
    if settings.n_neighbors or not is_estimated(settings.prior):
        return grams
    n_neighbors = neighbours_in_task(NEIGHBOURS, n_support, grams.shape[1], n_classes)
    return smooth_grams(unit_grams(grams), n_neighbors, neighbour_weight(n_support, n_classes))


def head_start(settings: Settings) -> float:
    """Of equal shares, for each share that the other hypothesis leaves free."""
    return HEAD_START if answers_jointly(settings) else HEAD_START_OF_SHARES_ALONE


def find_mixture(
    gram: Array,
    labels: NDArray[np.int64],
    shares: Array,
    settings: Settings,
    hints: Array | None = None,
    averaged: NDArray[np.floating] | None = None,
    n_query: int | None = None,
) -> Mixture:
    """The mixture of one task, ``gram`` (M, M) and ``labels`` (n,), with ``shares`` (N,) unless they are estimated.

    ``hints`` (m, N) and ``n_query`` as in `fit_mixture`. ``averaged`` (M, D) are the rows among which the shares are
    estimated where `keeps_lengths`.
    """
    n_classes = len(shares)
    if averaged is None:
        source = share_grams(gram[None], len(labels), n_classes, settings)[0]
    else:
        averaged = averaged / max(np.abs(averaged).max(initial=0.0), np.finfo(averaged.dtype).tiny)
        source = (averaged @ averaged.T).astype(np.float64)
    given = None if is_estimated(settings.prior) else shares
    mixture = fit_mixture(source, labels, given, n_classes, head_start(settings), hints, n_query)
    if answers_elsewhere(settings, n_classes):
        answering = fit_mixture(gram, labels, mixture.shares, n_classes, hints=hints)
        return answering if mixture.trust else replace(answering, trust=mixture.trust).believed()
    return mixture


def keeps_lengths(settings: Settings, n_classes: int) -> bool:
    """Whether shares are estimated among rows of their own lengths, averaged with the neighbours of the settings.

    Of few classes one may hold nearly all rows. The task's mean then lies in its midst, and scaled to unit length from
    there its rows point anywhere.
    """
    return is_estimated(settings.prior) and settings.n_neighbors > 0 and n_classes <= FEW_CLASSES


def answers_elsewhere(settings: Settings, n_classes: int) -> bool:
    """Whether the mixture answers in another kernel than that in which its shares were estimated."""
    elsewhere = not settings.n_neighbors or keeps_lengths(settings, n_classes)
    return answers_jointly(settings) and is_estimated(settings.prior) and elsewhere
