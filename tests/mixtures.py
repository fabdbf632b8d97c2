"""Made-up big tasks whose best possible accuracy is known."""

import numpy as np


def mixture(n_rows, n_features=32, n_classes=4, n_shot=5, distance=4.0, seed=0, dtype=np.float32):
    """Spherical unit-variance classes around centres ``distance`` apart: X, y with gaps, truth, centres.

    The centres are orthogonal where there are enough features, else random directions.
    """
    rng = np.random.default_rng(seed)
    axes = rng.standard_normal((n_features, n_classes))
    axes = np.linalg.qr(axes)[0] if n_classes <= n_features else axes / np.linalg.norm(axes, axis=0)
    centres = axes.T * distance / np.sqrt(2)
    truth = rng.permutation(np.arange(n_rows) % n_classes)
    X = (centres[truth] + rng.standard_normal((n_rows, n_features))).astype(dtype)
    y = np.full(n_rows, -1)
    for c in range(n_classes):
        rows = np.flatnonzero(truth == c)[:n_shot]
        y[rows] = c
    return X, y, truth, centres


def bayes_answers(X, centres):
    """The nearest centre: with spherical classes of equal size nothing can be right more often."""
    return (X @ centres.T - 0.5 * (centres**2).sum(axis=1)).argmax(axis=1)
