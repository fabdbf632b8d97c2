"""From a picture to the network's input, with and without augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import transforms

from marginshot.vision.datasets import ImageSet
from marginshot.vision.settings import TrainSettings

Preprocessing = Callable[[Image.Image], torch.Tensor]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def plain_preprocessing(
    image_size: int, mean: tuple[float, ...] = IMAGENET_MEAN, std: tuple[float, ...] = IMAGENET_STD
) -> Preprocessing:
    """Shorter side to ``image_size``, middle square, normalised: a picture -> (3, image_size, image_size)."""
    return transforms.Compose(
        [
            transforms.Resize(image_size, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(image_size),
            transforms.ToTensor(),
            transforms.Normalize(mean, std),
        ]
    )


def augmenting_preprocessing(settings: TrainSettings) -> Preprocessing:
    """Random crop, colour jitter and mirroring as in section 4.4 of the paper, then normalised."""
    steps: list[Any] = [
        transforms.RandomResizedCrop(settings.image_size, scale=(settings.crop_scale, 1.0))
        if settings.crop_scale < 1
        else transforms.Resize((settings.image_size, settings.image_size))
    ]
    if settings.color_jitter > 0:
        steps.append(transforms.ColorJitter(*[settings.color_jitter] * 3))
    if settings.flip:
        steps.append(transforms.RandomHorizontalFlip())
    return transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)])


def published_preprocessing(image_size: int) -> Preprocessing:
    """SimpleShot's and LaplacianShot's preprocessing at evaluation: a picture -> (3, image_size, image_size).

    Shorter side to 256/224 of ``image_size``, bilinear, then the middle square.
    """
    return transforms.Compose(
        [
            transforms.Resize(int(image_size * 256 / 224), interpolation=transforms.InterpolationMode.BILINEAR),
            transforms.CenterCrop(image_size),
            transforms.ToTensor(),
            transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ]
    )


class AugmentedImages(Dataset):
    """Augmented pictures, addressed by (epoch, index).

    The random choices depend on seed, epoch and index only: neither on the number of processes nor on where a run
    was interrupted.
    """

    def __init__(self, images: ImageSet, settings: TrainSettings) -> None:
        self.images = images
        self.seed = settings.seed
        self.preprocessing = augmenting_preprocessing(settings)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: tuple[int, int]) -> tuple[torch.Tensor, int]:
        epoch, index = key
        image = self.images.source.read(index)
        own_seed = np.random.SeedSequence([self.seed, epoch, index]).generate_state(1, np.uint64)[0]
        # torchvision draws from torch's global generator, whose state is restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(own_seed))
            return self.preprocessing(image), int(self.images.labels[index])


class PlainImages(Dataset):
    """Pictures without augmentation, addressed by index."""

    def __init__(self, images: ImageSet, preprocessing: Preprocessing) -> None:
        self.images = images
        self.preprocessing = preprocessing

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.preprocessing(self.images.source.read(index))
