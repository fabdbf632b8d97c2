"""
The offset, seen
================

The paper's equations have no offset. Features are centred, so without one the values of f sum to zero over a task. A
plane that separates one class of five from the rest then has to put four fifths of the rows at small values and one
fifth at large ones, which costs norm. The query term therefore prefers a cut of two classes against three.

The offset ``2 * prior - 1`` removes that: the mean of f is the mean of one class's labels.
"""

# %%
# Five digits, one labelled row each
# ----------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from marginshot import TransductiveMaxMarginClassifier

images, digits = load_digits(return_X_y=True)
rng = np.random.default_rng(1)
rows = np.concatenate([rng.choice(np.flatnonzero(digits == c), 40, replace=False) for c in range(5)])
X, truth = images[rows], digits[rows]
y = np.full(len(X), -1)
y[::40] = range(5)  # the first row of each class

# %%
# ``prior=None`` gives the equations as printed; ``prior="uniform"``, as the preset "paper" has it, sets the offset.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharex=True, sharey=True, layout="constrained")
for ax, prior, name in zip(axes, (None, "uniform"), ("as printed, offset 0", "offset 2/5 - 1"), strict=True):
    classifier = TransductiveMaxMarginClassifier.from_preset("paper", prior=prior).fit(X, y)
    f = classifier.margins(X)[:, 0]
    bins = np.linspace(-1.6, 1.6, 33)
    sides, colors = [f[truth == 0], f[truth != 0]], ["#0072b2", "#bbbbbb"]
    ax.hist(sides, bins, stacked=True, label=["digit 0", "others"], color=colors)
    ax.axvline(0, color="black", linewidth=1)
    right = np.mean(classifier.transduction_ == truth)
    ax.set_title(f"{name}\n{np.mean(f > 0):.0%} of the rows above 0, {right:.0%} of all answers right")
    ax.set_xlabel("f of class 0")
axes[0].set_ylabel("rows")
axes[1].legend(frameon=False)
plt.show()

# %%
# A fifth of the rows is a 0. Without the offset the plane puts half of the rows on its side.
