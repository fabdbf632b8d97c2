"""Small made-up tasks."""

from functools import partial

import numpy as np

from marginshot import TransductiveMaxMarginClassifier

#: A classifier with the paper's parameters, but for those given.
of_paper = partial(TransductiveMaxMarginClassifier.from_preset, "paper")


def blobs(rng, n_tasks=4, n_way=3, n_shot=2, n_query_per_class=6, n_features=16, spread=1.0):
    """Gaussian classes: support (T, n, D), labels (T, n), query (T, m, D), query labels (T, m)."""
    centres = 2.0 * rng.standard_normal((n_tasks, n_way, n_features))
    labels = np.tile(np.repeat(np.arange(n_way), n_shot), (n_tasks, 1))
    truth = np.tile(np.repeat(np.arange(n_way), n_query_per_class), (n_tasks, 1))

    def draw(classes):
        means = np.take_along_axis(centres, classes[:, :, None], axis=1)
        return means + spread * rng.standard_normal(means.shape)

    return draw(labels), labels, draw(truth), truth


def rows_from_bank(y, rng, n_tasks, n_way=5, n_shot=1, n_query_per_class=15):
    """Tasks drawn from a table with labels ``y``: support rows (T, n), labels, query rows (T, m), query labels."""
    rows = [np.flatnonzero(y == c) for c in np.unique(y)]
    picks = np.array(
        [
            [
                rng.choice(rows[c], n_shot + n_query_per_class, replace=False)
                for c in rng.choice(len(rows), n_way, False)
            ]
            for _ in range(n_tasks)
        ]
    )
    support, query = picks[:, :, :n_shot].reshape(n_tasks, -1), picks[:, :, n_shot:].reshape(n_tasks, -1)
    labels = np.tile(np.repeat(np.arange(n_way), n_shot), (n_tasks, 1))
    truth = np.tile(np.repeat(np.arange(n_way), n_query_per_class), (n_tasks, 1))
    return support, labels, query, truth


def from_bank(X, y, rng, n_tasks, **settings):
    """The same with the features themselves: support (T, n, D), labels, query (T, m, D), query labels."""
    support, labels, query, truth = rows_from_bank(y, rng, n_tasks, **settings)
    return X[support], labels, X[query], truth
