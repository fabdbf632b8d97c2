"""How a user's own network is fed: by its metadata, by the files of its repository, else as is usual."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import read_json, reading
from marginshot.networks import own_files
from marginshot.networks.own_files import side_file

_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
# Pixels a side: 1,024 are the most that published networks take, and a picture of 10,000 takes gigabytes.
_USUAL_SIZE, _LARGEST_SIZE = 224, 2_048
_BICUBIC, _FILTERS = 3, range(6)  # Pillow's numbers
_BYTE = 1 / 255
_CROPPED_BELOW = 384  # pixels a side from which ConvNeXt takes whole pictures
_USUAL_LENGTH, _LONGEST = 256, 32_768  # word pieces

#: How vectors of word pieces become one: names in ``1_Pooling/config.json``, and ours.
POOLINGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class PictureSettings:
    """What is done with a picture before the network.

    Parameters
    ----------
    size : int
        Side of the square that the network is given, in pixels.
    shorter : int or None
        Length the shorter side is resized to before the square is cut out of the middle; None squeezes the picture.
    resample : int
        Pillow's number of a filter.
    scale : float
        Factor of pixels of 0 to 255.
    mean, std : ndarray of float32 of shape (3,)
        Of each channel: the scaled pixels less ``mean``, divided by ``std``.
    """

    size: int
    shorter: int | None
    resample: int
    scale: float
    mean: NDArray[np.float32]
    std: NDArray[np.float32]


@dataclass(frozen=True)
class TextSettings:
    """What is done with a text before and after the network.

    Parameters
    ----------
    longest : int
        Word pieces that are read.
    pooling : str
        One of the values of `POOLINGS`.
    lower : bool
        Whether texts are put in lower case.
    prompt : str
        Words before every text.
    """

    longest: int
    pooling: str
    lower: bool
    prompt: str


def picture_settings(path: Path, told: Mapping[str, str], fixed: int | None) -> PictureSettings:
    """Settings of the network at ``path``, whose metadata are ``told`` and whose graph fixes the side, or does not."""
    file = side_file(path, own_files.PREPROCESSOR)
    said = {} if file is None else read_json(file, "a preprocessor's settings")
    metadata = f"the metadata of {path}"
    count = partial(_count, most=_LARGEST_SIZE, what="pixels")
    size, shorter = _sides(said, file)
    if "image_size" in told:
        size = shorter = count(told["image_size"], "image_size", metadata)
    if fixed is not None and fixed != size:
        size = shorter = count(fixed, "The side of pictures", f"the graph of {path}")
    if shorter is not None and shorter < size:
        raise ValueError(f"{file} resizes pictures to {shorter} pixels, of which {size} cannot be cut.")
    resample = said.get("resample", _BICUBIC)
    if resample not in _FILTERS:
        raise ValueError(f"resample in {file} must be a filter's number, 0 to 5; got {resample!r:.60}.")
    scale = said.get("rescale_factor", _BYTE) if said.get("do_rescale", True) else 1.0
    if not (isinstance(scale, float | int) and math.isfinite(scale) and scale > 0):
        raise ValueError(f"rescale_factor in {file} must be a positive number; got {scale!r:.60}.")
    usual = _IMAGENET if said.get("do_normalize", True) else {"mean": [0.0] * 3, "std": [1.0] * 3}
    numbers = {}
    for name in ("mean", "std"):
        if name in told:
            numbers[name] = _three(told[name], name, metadata)
        elif f"image_{name}" in said and said.get("do_normalize", True):
            numbers[name] = _three(said[f"image_{name}"], f"image_{name}", str(file))
        else:
            numbers[name] = usual[name]
    mean, std = (np.array(numbers[name], dtype=np.float32) for name in ("mean", "std"))
    return PictureSettings(size, shorter, int(resample), float(scale), mean, std)


def _sides(said: Mapping[str, Any], file: Path | None) -> tuple[int, int | None]:
    """The square's side, and what the shorter side is resized to; None where the picture is squeezed."""

    def side(value: Any, name: str) -> int:
        if isinstance(value, dict):
            if value.get("height") != value.get("width"):
                raise ValueError(f"{name} in {file} is no square: {value!r:.60}.")
            value = value.get("height")
        return _count(value, name, str(file), _LARGEST_SIZE, "pixels")

    asked, cropped = said.get("size", _USUAL_SIZE), said.get("crop_size") if said.get("do_center_crop", True) else None
    if isinstance(asked, dict) and "shortest_edge" in asked:
        shorter = side(asked["shortest_edge"], "size")
        share = said.get("crop_pct")
        if share is None:
            return (shorter if cropped is None else side(cropped, "crop_size")), shorter
        if not (isinstance(share, float | int) and 0.1 <= share <= 1):
            raise ValueError(f"crop_pct in {file} must be a share from 0.1 to 1; got {share!r:.60}.")
        return shorter, int(shorter / share) if shorter < _CROPPED_BELOW else None
    size = side(asked, "size")
    if cropped is not None:
        return side(cropped, "crop_size"), size
    # Without a crop, a size of both sides squeezes the picture; without a file, the middle is cut.
    return size, None if "size" in said else size


def text_settings(path: Path, told: Mapping[str, str], *, pooled: bool) -> TextSettings:
    """Settings of the network at ``path``, whose metadata are ``told``; if ``pooled``, it gives one vector a text."""

    def read(name: str) -> dict[str, Any]:
        file = side_file(path, name)
        return {} if file is None else read_json(file, "settings of a model of texts")

    sentence, prompts = read(own_files.SENTENCE_SETTINGS), read(own_files.PROMPTS)
    count = partial(_count, most=_LONGEST, what="word pieces")
    if "max_length" in told:
        longest = count(told["max_length"], "max_length", f"the metadata of {path}")
    elif sentence.get("max_seq_length") is not None:
        longest = count(sentence["max_seq_length"], "max_seq_length", own_files.SENTENCE_SETTINGS)
    else:
        said = read(own_files.TOKENIZER_SETTINGS).get("model_max_length")
        # 10**30 stands for no limit
        longest = said if isinstance(said, int) and 1 <= said <= _LONGEST else _USUAL_LENGTH
    if not pooled:
        _check_modules(path)
    named = prompts.get("prompts") or {}
    prompt = named.get(prompts.get("default_prompt_name"), "") if isinstance(named, dict) else ""
    pooling = "mean" if pooled else _pooling(read(own_files.POOLING), path)
    return TextSettings(longest, pooling, sentence.get("do_lower_case") is True, str(prompt))


def _check_modules(path: Path) -> None:
    """Raise ValueError where the model has steps behind its transformer that are not known here."""
    file = side_file(path, own_files.MODULES)
    if file is None:
        return
    with reading(file, "a list of modules"):
        kinds = [str(module["type"]).rpartition(".")[2] for module in json.loads(file.read_bytes())]
    odd = [kind for kind in kinds if kind not in _MODULES]
    if odd:
        raise ValueError(
            f"{file} has the step {odd[0]!r:.60} behind the network; known are {', '.join(_MODULES)}. Export the whole "
            "model with the output sentence_embedding."
        )


def _pooling(said: Mapping[str, Any], path: Path) -> str:
    chosen = [name for name, on in said.items() if name.startswith("pooling_mode_") and on is True]
    if isinstance(said.get("pooling_mode"), str):
        chosen = [said["pooling_mode"]]
    names = [POOLINGS.get(name, name) for name in chosen] or ["mean"]
    if len(names) > 1 or names[0] not in POOLINGS.values():
        raise ValueError(
            f"{own_files.POOLING} of {path} asks for {', '.join(names):.200}; known is one of "
            f"{', '.join(POOLINGS.values())}."
        )
    return names[0]


def _count(value: Any, name: str, where: str, most: int, what: str) -> int:
    """A number from 1 to ``most``, itself or in decimals."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if not (isinstance(value, int) and 1 <= value <= most):
        raise ValueError(f"{name} in {where} must be a number of {what}, 1 to {most:,}; got {value!r:.60}.")
    return value


def _three(value: Any, name: str, where: str) -> list[float]:
    """Three numbers, of which those of ``std`` are positive."""
    try:
        numbers = [float(one) for one in (json.loads(value) if isinstance(value, str) else value)]
    except (ValueError, TypeError, OverflowError, RecursionError):
        numbers = []
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)) or (name.endswith("std") and min(numbers) <= 0):
        raise ValueError(
            f"{name} in {where} must be three numbers, such as {_IMAGENET[name[-4:].strip('_')]}; got {value!r:.60}."
        )
    return numbers
