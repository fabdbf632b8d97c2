"""
Reject items of none of the classes
===================================

A folder holds items that belong to none of your classes. A classifier alone would give each of them a label. With
``reject=True`` items far from every class get none. ``lose`` is the share of items of the classes that you are willing
to lose this way.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from marginshot.labelling import label_embeddings

images, digits = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(images))[:1000]
X, truth = images[rows], digits[rows]
foreign = truth >= 6  # six classes; the digits 6 to 9 are foreign
labels = [""] * len(X)
for digit in range(6):
    for row in np.flatnonzero(truth == digit)[:10]:  # ten examples each
        labels[row] = f"digit {digit}"

# %%
# More rejection finds more of the foreign items, and costs more of the others. Draw examples at random: with the
# first five rows of each of four digits instead, ``lose=0.02`` lost 9 % and ``lose=0.1`` lost 23 %.

for lose in (0.02, 0.05, 0.1):
    result = label_embeddings(X, labels, reject=True, lose=lose)
    rejected = np.array([label == "" for label in result.labels])
    found, lost = rejected[foreign].mean(), rejected[~foreign].mean()
    print(f"lose={lose}: rejects {found:.0%} of the foreign items, {lost:.0%} of the others")

# %%
# The first rejected items, and the first that were kept although they are foreign.

figure, axes = plt.subplots(2, 10, figsize=(9, 2.4), layout="constrained")
for title, line, chosen in zip(("rejected", "kept"), axes, (rejected, foreign & ~rejected), strict=True):
    for ax, row in zip(line, np.flatnonzero(chosen)[:10], strict=False):
        ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"{title}: {truth[row]}", fontsize=8)
for ax in axes.flat:
    ax.axis("off")
plt.show()
