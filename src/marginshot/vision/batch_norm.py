"""Batch norm over the whole batch when several processes share it."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed, nn


def share_batch_norm(network: nn.Module, device_type: str) -> nn.Module:
    """Make every batch norm use the statistics of all processes, so that the number of processes changes nothing.

    torch has a layer for this on GPUs; on CPUs ours is used.
    """
    if device_type != "cpu":
        return nn.SyncBatchNorm.convert_sync_batchnorm(network)
    for name, child in list(network.named_children()):
        if isinstance(child, nn.BatchNorm2d):
            setattr(network, name, SharedBatchNorm2d.from_layer(child))
        else:
            share_batch_norm(child, device_type)
    return network


class SharedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm whose mean and variance are those of all processes, which must have equally large shares."""

    @classmethod
    def from_layer(cls, layer: nn.BatchNorm2d) -> SharedBatchNorm2d:
        """A shared batch norm with the parameters and statistics of ``layer``."""
        shared = cls(layer.num_features, eps=layer.eps, momentum=layer.momentum, affine=layer.affine)
        shared.weight, shared.bias = layer.weight, layer.bias
        shared.running_mean, shared.running_var = layer.running_mean, layer.running_var
        shared.num_batches_tracked = layer.num_batches_tracked
        return shared

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        if not self.training:
            return super().forward(maps)
        mean = _MeanOverProcesses.apply(maps.mean(dim=(0, 2, 3)))
        centred = maps - mean[:, None, None]
        variance = _MeanOverProcesses.apply(centred.square().mean(dim=(0, 2, 3)))
        self._update_statistics(mean.detach(), variance.detach(), maps.numel() // maps.shape[1])
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * scale[:, None, None] + self.bias[:, None, None]

    def _update_statistics(self, mean: torch.Tensor, variance: torch.Tensor, n_values: int) -> None:
        n_values *= distributed.get_world_size()
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean, self.momentum)
        # The running variance is the unbiased one, as in torch's own layer.
        self.running_var.lerp_(variance * (n_values / (n_values - 1)), self.momentum)


class _MeanOverProcesses(torch.autograd.Function):
    """Mean of a tensor over all processes; its gradient is the mean of the gradients."""

    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        return _mean_over_processes(values)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _mean_over_processes(gradient)


def _mean_over_processes(values: torch.Tensor) -> torch.Tensor:
    total = values.contiguous().clone()
    distributed.all_reduce(total)
    return total / distributed.get_world_size()
