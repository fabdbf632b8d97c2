"""Items found by what they are like: another item, words that describe them, or their place on a map."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.embedding_map import embedding_map
from marginshot.labelling.items.encoders import ItemEncoder, text_side
from marginshot.labelling.session.encoding import Encoding

Rows = NDArray[np.int64]
Embeddings = NDArray[np.float32]


class Lookup:
    """Finds items by their embeddings.

    Parameters
    ----------
    encoding : Encoding
        Embeddings of the items, as far as there are any yet.
    encoder : ItemEncoder or None
        What embedded them; None where the contents are embeddings.
    """

    def __init__(self, encoding: Encoding, encoder: ItemEncoder | None) -> None:
        self._encoding = encoding
        self._words = None if encoder is None else text_side(encoder)
        self._lock = threading.Lock()  # models are not made for two threads
        self._mapping = threading.Lock()
        self._map: tuple[int, Embeddings] | None = None

    @property
    def reads_words(self) -> bool:
        """Whether items can be found by words that describe them."""
        return self._words is not None

    def similar(self, row: int, n: int = 200) -> Rows:
        """The rows most like a row, itself first, (at most n,); none while it is not embedded."""
        rows, X = self._encoding.snapshot()
        return _most_alike(rows, X, X[np.searchsorted(rows, row)], n) if row in rows else rows[:0]

    def map(self) -> Embeddings:
        """A point (n_items, 2) for every item, NaN where it is not embedded; computed once for the same embeddings."""
        with self._mapping:
            rows, X = self._encoding.snapshot()
            if self._map is None or self._map[0] != len(rows):
                points = np.full((len(self._encoding.ready), 2), np.nan, dtype=np.float32)
                if len(rows):
                    points[rows] = embedding_map(X)
                self._map = len(rows), points
            return self._map[1]

    def described(self, words: str, n: int = 200) -> Rows:
        """The rows that ``words`` describe best, (at most n,)."""
        if self._words is None:
            raise ValueError("The encoder of this session reads no words; search for a part of a name instead.")
        rows, X = self._encoding.snapshot()
        if not len(rows):
            return rows
        with self._lock:
            self._words.load()
            wanted = np.asarray(self._words.encode([self._words.prepare(words)])[0], dtype=np.float32)
        return _most_alike(rows, X, wanted, n)


def _most_alike(rows: Rows, X: Embeddings, wanted: Embeddings, n: int) -> Rows:
    """Those of ``rows`` (n_rows,) whose embeddings ``X`` (n_rows, D) have the largest cosines with ``wanted`` (D,)."""
    lengths = np.linalg.norm(X, axis=1)
    return rows[np.argsort(-(X @ wanted) / np.maximum(lengths, 1e-12), kind="stable")[:n]]
