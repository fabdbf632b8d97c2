"""
The class shares that are found
===============================

Real folders are unbalanced. With ``prior="estimate"``, which the preset ``auto`` sets, the classifier estimates the
share of each class among the unlabelled rows, from the task alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from marginshot import TransductiveMaxMarginClassifier

images, digits = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
sizes = [170, 110, 80, 60, 45, 30, 20, 15, 10, 5]
rows = np.concatenate([rng.choice(np.flatnonzero(digits == c), sizes[c], replace=False) for c in range(10)])
X, truth = images[rows], digits[rows]
y = np.full(len(X), -1)
for c in range(10):
    y[np.flatnonzero(truth == c)[:2]] = c  # two labelled rows each: the labels say nothing of the sizes

true_shares = np.bincount(truth[y < 0], minlength=10) / np.sum(y < 0)
estimate = TransductiveMaxMarginClassifier().fit(X, y)
uniform = TransductiveMaxMarginClassifier(prior="uniform").fit(X, y)

figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
places = np.arange(10)
ax.bar(places - 0.2, 100 * true_shares, 0.4, label="true", color="#bbbbbb")
ax.bar(places + 0.2, 100 * estimate.prior_, 0.4, label='found by prior="estimate"', color="#0072b2")
ax.axhline(10, color="#d55e00", linewidth=1.2, linestyle="--", label='prior="uniform"')
ax.set(xlabel="digit", ylabel="share, %", xticks=places)
ax.legend(frameon=False)
plt.show()

# %%
# What it is worth here: accuracy on the unlabelled rows.

for name, classifier in (("uniform", uniform), ("estimate", estimate)):
    print(f'prior="{name}": {np.mean((classifier.transduction_ == truth)[y < 0]):.1%}')
