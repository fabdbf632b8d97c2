"""A user's own network for texts, in an ``.onnx`` file with ``tokenizer.json`` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from marginshot.networks.own_files import TOKENIZER, files_of, side_file
from marginshot.networks.own_settings import text_settings
from marginshot.networks.runtime import open_graph_file
from marginshot.networks.texts import WordPieces

_WHOLE = ("sentence_embedding", "text_embeds")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OwnTextNetwork:
    """A network of word pieces, as exporters of BERT and its kin write it.

    The output ``sentence_embedding`` or ``text_embeds`` is taken where there is one, else the first: (n, d), or (n,
    length, d), which is averaged over word pieces, or pooled as ``1_Pooling/config.json`` says. Embeddings have unit
    length. ``max_length`` in the file's metadata says how many word pieces are read of a text, else the files of the
    tokenizer, by default 256.

    Parameters
    ----------
    path : Path
        The ``.onnx`` file.
    """

    def __init__(self, path: Path) -> None:
        files_of(path)
        tokenizer = side_file(path, TOKENIZER)
        if tokenizer is None:
            raise FileNotFoundError(2, "A network for texts needs tokenizer.json beside it; there is no", str(path))
        self._path = path
        self._session = open_graph_file(path, n_threads=effective_n_jobs(-1))
        self._inputs = [one.name for one in self._session.get_inputs()]
        if "input_ids" not in self._inputs or not set(self._inputs) <= set(_INPUTS):
            raise ValueError(
                f"{path} is no network for texts: its inputs are {', '.join(self._inputs)}; known are "
                f"{', '.join(_INPUTS)}."
            )
        outputs = [one.name for one in self._session.get_outputs()]
        whole = next((name for name in _WHOLE if name in outputs), None)
        self._output = whole or outputs[0]
        told = self._session.get_modelmeta().custom_metadata_map
        self._settings = text_settings(path, told, pooled=whole is not None)
        self._pieces = WordPieces(tokenizer, self._settings.longest)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n_texts, n_features), of unit length."""
        found: dict[int, NDArray[np.float32]] = {}
        told = self._settings
        texts = [told.prompt + (text.lower() if told.lower else text) for text in texts]
        for places, ids, mask in self._pieces.batches(texts):
            given = dict(zip(_INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
            vectors = self._session.run([self._output], {name: given[name] for name in self._inputs})[0]
            found.update(zip(places, self._pooled(np.asarray(vectors, dtype=np.float32), mask), strict=True))
        return np.stack([found[place] for place in range(len(texts))])

    def _pooled(self, vectors: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors of texts, (n, d), or of their pieces, (n, length, d), whose padding ``mask`` marks -> (n, d)."""
        if vectors.ndim == 3 and vectors.shape[:2] == mask.shape:
            vectors = self._over_pieces(vectors, mask)
        if vectors.ndim != 2 or len(vectors) != len(mask):
            raise ValueError(f"{self._path} gives {vectors.shape} for {len(mask)} texts; (n, n_features) is needed.")
        return (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)).astype(np.float32)

    def _over_pieces(self, vectors: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """Vectors of word pieces, (n, length, d), and 1 where these are no padding, (n, length) -> (n, d)."""
        match self._settings.pooling:
            case "cls":
                found = vectors[:, 0]
            case "max":
                found = np.where(mask[..., None] == 1, vectors, -np.inf).max(axis=1)
            case "lasttoken":
                found = vectors[np.arange(len(vectors)), mask.sum(axis=1) - 1]
            case _:
                with np.errstate(invalid="ignore"):  # of a text without word pieces
                    found = (vectors * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        found[mask.sum(axis=1) == 0] = np.nan  # a text without word pieces has no embedding, and is reported
        return found
