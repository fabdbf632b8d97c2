"""The pictures of each training step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler


class EpochBatches(Sampler):
    """Batches of one epoch, the share of one process.

    The order of an epoch depends on seed and epoch only, and every process takes an equal share of every batch. So the
    number of processes changes nothing, and a run can continue from any step. An incomplete batch at the end of an
    epoch is left out.

    Parameters
    ----------
    n_images : int
        Pictures in the base split.
    batch_size : int
        Pictures per step over all processes.
    seed : int
        Seed of the order.
    rank, world_size : int
        This process, and how many there are.
    """

    def __init__(self, n_images: int, batch_size: int, seed: int, rank: int = 0, world_size: int = 1) -> None:
        if batch_size > n_images:
            raise ValueError(f"A batch of {batch_size} needs more than the {n_images} base pictures; lower batch_size.")
        if batch_size % world_size:
            raise ValueError(f"batch_size {batch_size} cannot be shared equally by {world_size} processes; change one.")
        self.n_images = n_images
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self.first_step = 0

    @property
    def steps_per_epoch(self) -> int:
        """Steps of a whole epoch."""
        return self.n_images // self.batch_size

    def go_to(self, epoch: int, first_step: int) -> None:
        """Make the next iteration start at ``first_step`` of ``epoch``."""
        self.epoch = epoch
        self.first_step = first_step

    def __len__(self) -> int:
        return self.steps_per_epoch - self.first_step

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.n_images)
        for step in range(self.first_step, self.steps_per_epoch):
            batch = order[step * self.batch_size : (step + 1) * self.batch_size]
            yield [(self.epoch, int(index)) for index in batch[self.rank :: self.world_size]]
