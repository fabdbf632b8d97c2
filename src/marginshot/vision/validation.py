"""Quality of the features during training: few-shot accuracy on the validation classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.vision.datasets import ImageSet

N_WAY = 5


def validation_way(images: ImageSet) -> int:
    """Classes of a validation task: five, or all where there are fewer."""
    return min(N_WAY, len(images.classes))


def require_validation_tasks(images: ImageSet, n_queries: int) -> None:
    """Raise if 1-shot tasks cannot be drawn from the validation split."""
    if len(images.classes) < 2:
        raise ValueError(
            f"{images.name} has {len(images.classes)} classes but validation tasks need at least 2. Add classes, or "
            "say in a file splits.csv (columns class and split) which ones are base and which validation."
        )
    few = [
        f"{name} ({count})"
        for name, count in zip(images.classes, images.counts(), strict=True)
        if count < n_queries + 1
    ]
    if few:
        raise ValueError(
            f"1 shot and {n_queries} queries need {n_queries + 1} pictures a class, but {images.name} has fewer in "
            f"{', '.join(few)}; add pictures or lower validation_queries."
        )


def nearest_mean_accuracy(
    features: NDArray[np.floating], labels: NDArray[np.int64], n_tasks: int, n_queries: int, seed: int
) -> float:
    """Mean accuracy of the nearest class mean on 1-shot tasks, of five classes or all where there are fewer.

    Features are scaled to unit length.

    Parameters
    ----------
    features : ndarray of shape (n_images, n_features)
        Features of the validation classes.
    labels : ndarray of int64 of shape (n_images,)
        Their classes.
    n_tasks, n_queries : int
        Tasks, and queries per class in each.
    seed : int
        Seed of the tasks: the same every epoch, so that epochs can be compared.
    """
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    rows_of = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    n_way = min(N_WAY, len(rows_of))
    rng = np.random.default_rng(seed)
    correct = 0
    for _ in range(n_tasks):
        classes = rng.choice(len(rows_of), n_way, replace=False)
        drawn = np.stack([rng.choice(rows_of[label], n_queries + 1, replace=False) for label in classes])
        similarity = unit[drawn[:, 1:].ravel()] @ unit[drawn[:, 0]].T
        correct += int((similarity.argmax(axis=1) == np.repeat(np.arange(n_way), n_queries)).sum())
    return correct / (n_tasks * n_way * n_queries)
