from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    try:
        import torch
    except ImportError:
        return  # the tests that need it say so
    # Two threads on a busy machine wait for each other most of the time.
    torch.set_num_threads(1)


@pytest.fixture
def small_splits() -> Callable[[str, int], dict[str, tuple[str, ...]]]:
    """The first few classes of each split of a published dataset."""
    from marginshot.vision.datasets.splits import published_classes

    def first(dataset: str, n_classes: int) -> dict[str, tuple[str, ...]]:
        return {split: names[:n_classes] for split, names in published_classes(dataset).items()}

    return first


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 classes of 5 pictures: 24 base and 6 validation classes, 15 steps of 8 pictures an epoch."""
    from picture_layouts import write_class_folders

    root = tmp_path_factory.mktemp("folder")
    write_class_folders(root, tuple(f"class{k:02d}" for k in range(30)), per_class=5, side=20)
    return root
