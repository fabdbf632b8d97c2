"""
Choose settings by cross-validation
===================================

The splitters of scikit-learn fold labelled and unlabelled rows alike, and its scorers take an unlabelled row for a
wrong answer. `LabelledKFold` folds the labelled rows only and keeps every unlabelled row in the training part.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score

from marginshot import LabelledKFold, TransductiveMaxMarginClassifier, make_labelled_scorer

X, truth = load_digits(return_X_y=True)
X, truth = X[:600], truth[:600]
y = np.full(len(X), -1)
for c in range(10):
    y[np.flatnonzero(truth == c)[:4]] = c

cv = LabelledKFold(4, shuffle=True, random_state=0)
print("accuracy of each fold:", cross_val_score(TransductiveMaxMarginClassifier(), X, y, cv=cv))

# %%
# A search over the paper's own parameters. The scorer drops unlabelled rows before scikit-learn's sees them.

search = GridSearchCV(
    TransductiveMaxMarginClassifier.from_preset("paper"),
    {"lambda1": [0.01, 0.04, 0.2], "calibration": ["platt", "softmax"]},
    cv=cv,
    scoring=make_labelled_scorer("neg_log_loss"),
).fit(X, y)
print("chosen:", search.best_params_)
print(f"right on unlabelled rows: {np.mean((search.best_estimator_.transduction_ == truth)[y < 0]):.1%}")
