"""
One big task on Dask
====================

Rows in blocks, on one machine or on many. The objective is a sum over rows: each worker evaluates its own blocks, and
only planes travel. Neighbours need the rows in memory, so three of the defaults change.
"""

import dask.array as da
import numpy as np

from marginshot import TransductiveMaxMarginClassifier

rng = np.random.default_rng(0)
centres = rng.normal(size=(5, 64))
truth = rng.integers(5, size=40_000)
rows = (centres[truth] + rng.normal(0, 3.0, (40_000, 64))).astype(np.float32)
y = np.full(len(rows), -1)
for c in range(5):
    y[np.flatnonzero(truth == c)[:5]] = c

X = da.from_array(rows, chunks=(10_000, 64))  # or da.from_zarr("embeddings.zarr")
classifier = TransductiveMaxMarginClassifier(n_neighbors=0, calibration="mixture", feature_transform="power")
classifier.fit(X, y)
labels = classifier.transduction_  # lazy: computed block by block when asked for
print(type(labels).__module__, labels.shape)
print(f"right: {np.mean(labels.compute() == truth):.2%}")
