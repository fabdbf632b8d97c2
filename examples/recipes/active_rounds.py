"""
Label in rounds
===============

A session keeps what you say about the items, and answers for all others. It proposes what to label next, estimates how
many answers are right, and lists what to check. Here the true digits play the person.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from marginshot.labelling import Session

images, truth = load_digits(return_X_y=True)
names = [f"digit {digit}" for digit in truth]

session = Session.from_embeddings(images)
session.label({row: names[row] for row in (0, 1)})  # two classes are enough to begin

labelled, right, expected = [], [], []
for _ in range(8):
    session.label({int(row): names[row] for row in session.next(8)})
    labelled.append(int(session.state.checked.sum()))
    right.append(np.mean(np.array(session.solve().labels) == names))
    expected.append(session.expected_accuracy())
    print(f"{labelled[-1]:2} labels: {right[-1]:.1%} right, {expected[-1].value:.1%} expected")

# %%
# The estimate rests on the probabilities of the answers and on those checked so far. It is cautious, most of all in the
# first round. A class that nobody has named yet it cannot know of.

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
low, high = [100 * one.low for one in expected], [100 * one.high for one in expected]
ax.fill_between(labelled, low, high, color="#0072b2", alpha=0.2, label="expected, with its 95 % interval")
ax.plot(labelled, [100 * share for share in right], color="black", marker="o", label="right")
ax.set(xlabel="labels given", ylabel="answers, %")
ax.legend(frameon=False)
plt.show()

# %%
# The worklist ends where 99 % of all items should be right: the answers most likely wrong come first.

worklist = session.worklist(0.99)
session.label({int(row): names[row] for row in worklist.rows})
print(f"{len(worklist.rows)} of {len(images)} checked: {np.mean(np.array(session.solve().labels) == names):.1%} right")
