"""
Label a data frame
==================

A frame with a half-empty column of labels, in pandas or in polars. Unknown labels may be None, NaN, an empty string or
-1.
"""

# %%
# pandas
# ------
# Handwritten digits, 64 columns of pixels, and names for three of them.

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from marginshot import TransductiveMaxMarginClassifier

digits = load_digits(n_class=3, as_frame=True)
names = np.array(["zero", "one", "two"], dtype=object)[digits.target]
frame = digits.data.assign(name=None)
frame.loc[:5, "name"] = names[:6]  # the first six rows are known

pixels = list(digits.data.columns)
classifier = TransductiveMaxMarginClassifier().fit(frame[pixels], frame["name"])
frame["name"] = classifier.transduction_
frame["probability"] = classifier.label_distributions_.max(axis=1)
print(frame[["name", "probability"]].iloc[::90])
print(f"right: {np.mean(frame['name'] == names):.1%}")

# %%
# The names of the columns are kept, and `predict` checks them.

print(pd.Series(classifier.predict(digits.data.tail(200))).value_counts())

# %%
# polars
# ------
# The same call takes a polars frame.

import polars as pl

table = pl.DataFrame(digits.data.to_dict("series"))
known = pl.Series("name", [*names[:6], *[None] * (len(table) - 6)])
classifier = TransductiveMaxMarginClassifier().fit(table, known.to_list())
answers = table.with_columns(pl.Series("name", classifier.transduction_.tolist()))
print(answers["name"].value_counts().sort("name"))
