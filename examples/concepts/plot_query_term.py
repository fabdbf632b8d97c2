"""
What unlabelled rows do to the plane
====================================

The paper's Figure 1. Two classes in the plane, two labelled rows each, many unlabelled ones. The maximum-margin line of
the labelled rows (left) cuts through a cloud of unlabelled rows. The query term exp(-gamma2 f^2) is largest on the line
itself, so the line moves to where there are few rows (right).
"""

# %%
# A task in the plane
# -------------------
# The clouds are longer than they are wide, and the labelled rows lie towards opposite ends.

import matplotlib.pyplot as plt
import numpy as np

from marginshot import TransductiveMaxMarginClassifier

rng = np.random.default_rng(0)
along, across = np.array([0.8, 0.6]), np.array([-0.6, 0.8])


def cloud(side, n_rows):
    """Rows (n_rows, 2) of the class on one side of the line through the origin along ``along``."""
    return rng.normal(0, 1.3, (n_rows, 1)) * along + (1.1 * side + rng.normal(0, 0.35, (n_rows, 1))) * across


queries = np.concatenate([cloud(1, 40), cloud(-1, 40)])
truth = np.repeat([1, 0], 40)
support = np.array([[2.0, 1.0], [1.2, 1.2], [-2.0, -1.0], [-1.2, -1.2]]) @ np.stack([along, across])
X = np.concatenate([support, queries])
y = np.concatenate([[1, 1, 0, 0], np.full(80, -1)])

# %%
# The line along the growing query weight
# ---------------------------------------
# ``lambda2`` lists the weights of the query term. Each stage starts from the plane of the one before. No transform is
# applied, so that the picture shows the rows as they are.

STAGES = (0.0, 0.01, 0.1, 1.0)


def fit(n_stages):
    """The classifier after the first ``n_stages`` of the sequence."""
    classifier = TransductiveMaxMarginClassifier.from_preset("paper", lambda2=STAGES[:n_stages], feature_transform=None)
    return classifier.fit(X, y)


figure, axes = plt.subplots(1, len(STAGES), figsize=(11, 3.1), layout="constrained")
grid = np.stack(np.meshgrid(np.linspace(-4, 4, 200), np.linspace(-3.5, 3.5, 200)), axis=-1)
for n_stages, ax in enumerate(axes, start=1):
    classifier = fit(n_stages)
    values = classifier.margins(grid.reshape(-1, 2))
    f = (values if values.ndim == 1 else values[:, 1]).reshape(200, 200)
    ax.contourf(grid[..., 0], grid[..., 1], np.exp(-2 * f**2), levels=12, cmap="Oranges", alpha=0.6)
    ax.contour(grid[..., 0], grid[..., 1], f, levels=[0], colors="black", linewidths=1.5)
    ax.scatter(*queries.T, s=10, c="white", edgecolors="grey", linewidths=0.7)
    ax.scatter(*support.T, s=60, c=np.where(y[:4] == 1, "#0072b2", "#d55e00"), edgecolors="black", zorder=3)
    right = np.mean(classifier.transduction_[4:] == truth)
    ax.set(title=f"λ2 = {STAGES[n_stages - 1]:g}: {right:.0%} right", xticks=[], yticks=[], aspect="equal")
plt.show()

# %%
# Colour shows what an unlabelled row costs at each place. At λ2 = 0 (FS-MMC) unlabelled rows count for nothing.
