"""The device that networks run on."""

from __future__ import annotations

import torch


def torch_device(name: str) -> torch.device:
    """The device called ``name``, an NVIDIA GPU or the processor for "auto"; one that cannot be used is an error."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"The device {name!r} cannot be used here; try cpu.") from error
    return device
