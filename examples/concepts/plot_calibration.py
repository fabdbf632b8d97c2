"""
Probabilities before and after
==============================

The paper turns scores into probabilities by Platt scaling on the labelled rows. Five rows make a poor calibrator. The
preset ``auto`` combines what planes, mixture and graph say, and scales it by what the task shows. A reliability diagram
compares the probability of the answers with the share of them that is right.
"""

# %%
# 300 tasks of five digits, one labelled row a class.

import matplotlib.pyplot as plt
import numpy as np

from marginshot import solve_tasks
from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSampler

tasks = TaskSampler(load_features("digits"), n_way=5, n_shot=1).batch(0, 300)

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), sharey=True, layout="constrained")
for ax, preset in zip(axes, ("paper", "auto"), strict=True):
    answers = solve_tasks(tasks.support, tasks.support_labels, tasks.query, preset)
    confidence = answers.probabilities.max(axis=-1).ravel()
    right = (answers.labels == tasks.query_labels).ravel()
    bins = np.minimum((confidence * 15).astype(int), 14)
    counts = np.bincount(bins, minlength=15)
    kept = counts > 20
    mean_confidence = np.bincount(bins, confidence, 15)[kept] / counts[kept]
    mean_right = np.bincount(bins, right, 15)[kept] / counts[kept]
    error = np.sum(counts[kept] / counts.sum() * np.abs(mean_confidence - mean_right))
    ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
    ax.scatter(mean_confidence, mean_right, s=300 * counts[kept] / counts.max() + 10, color="#0072b2", alpha=0.8)
    ax.set(title=f"{preset}: expected calibration error {error:.1%}", aspect="equal")
    ax.set_xlabel("probability of the answer")
axes[0].set_ylabel("share that is right")
plt.show()
