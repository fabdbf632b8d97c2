"""The settings of UNEM-Gaussian that its authors learn on validation classes, learnt on features of ours.

    python benchmarks/unem.py FEATURES-val.npz ... [--regime balanced] [--way 5] [--steps 150] [--seed 0]

Every layer's weight of the class shares and temperature, and the scale of the features, are learnt by Adam on the
cross-entropy of the queries, as in the authors' code, once at one shot and once at five. A step sees a few kinds of
tasks, drawn at random from all features, regimes and ways. The defaults give the values `marginshot.methods.unem`
holds; for numbers to cite give the validation features of one encoder, and the regime and ways to be reported.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import numpy as np
import torch

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSampler
from marginshot.evaluation.regimes import Regime, find_shortage
from marginshot.model.transforms import centre_and_normalize

N_LAYERS, LEARNING_RATE, TASKS, KINDS_A_STEP = 10, 0.1, 40, 4
REGIMES = ("balanced", "dirichlet-2", "dirichlet-0.5", "present-5")
WAYS = (5, 10, 20)
# Where learning starts: plain EM on features as far apart as PADDLE's here.
START_SCALE = 40.0**0.5


def kinds(
    paths: list[str], regimes: list[str], ways: list[int], n_shot: int
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Gram matrices (T, M, M), support labels (T, n) and query labels (T, m) of every kind of task that fits."""
    found = []
    for path in paths:
        bank = load_features(path)
        for regime in map(Regime.parse, regimes):
            for n_way in ways:
                if find_shortage(bank, regime, n_way, n_shot + 15):
                    continue
                batch = TaskSampler(bank, n_way=n_way, n_shot=n_shot, **asdict(regime)).batch(0, TASKS)
                rows = np.concatenate(centre_and_normalize(batch.support, batch.query, "task"), axis=1)
                gram = torch.tensor(rows @ rows.swapaxes(1, 2), dtype=torch.float64)
                found.append((gram, torch.tensor(batch.support_labels), torch.tensor(batch.query_labels)))
    return found


class Layers(torch.nn.Module):
    """The unrolled rounds on Gram matrices; softplus keeps every value in its range, as in the authors' code."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(START_SCALE, dtype=torch.float64))
        self.balance = torch.nn.Parameter(torch.full((N_LAYERS,), 0.54, dtype=torch.float64))  # softplus: 1
        self.softness = torch.nn.Parameter(torch.full((N_LAYERS,), -2.0, dtype=torch.float64))

    def values(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        softplus = torch.nn.functional.softplus
        return softplus(self.scale), softplus(self.balance), 1.0 + softplus(self.softness)

    def forward(self, gram: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Logarithms of the assignments (T, m, N)."""
        scale, balance, softness = self.values()
        known = torch.nn.functional.one_hot(labels).double()
        n_support, members, pull = labels.shape[1], known, torch.zeros(())
        for weight, temperature in zip(balance, softness, strict=True):
            mixing = members / members.sum(dim=1, keepdim=True)
            rows = gram[:, :, : members.shape[1]]
            products = rows @ mixing
            lengths = (mixing * products[:, : members.shape[1]]).sum(dim=1, keepdim=True)
            logits = scale**2 * (products[:, n_support:] - 0.5 * lengths)
            log_u = torch.log_softmax((logits + weight * pull) / temperature, dim=2)
            pull = torch.log(log_u.exp().mean(dim=1, keepdim=True) + 1e-6)
            members = torch.cat([known, log_u.exp()], dim=1)
        return log_u


def learn(
    tasks: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], n_steps: int, rng: np.random.Generator
) -> Layers:
    layers = Layers()
    optimizer = torch.optim.Adam(layers.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for step in range(n_steps):
        losses = []
        for index in rng.choice(len(tasks), min(KINDS_A_STEP, len(tasks)), replace=False):
            gram, labels, truth = tasks[index]
            losses.append(torch.nn.functional.nll_loss(layers(gram, labels).flatten(0, 1), truth.flatten()))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    return layers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--regime", action="append", help="balanced, dirichlet-A or present-N; repeat for several")
    parser.add_argument("--way", type=int, action="append", help="repeat for several")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for n_shot in (1, 5):
        tasks = kinds(arguments.features, arguments.regime or list(REGIMES), arguments.way or list(WAYS), n_shot)
        values = learn(tasks, arguments.steps, np.random.default_rng(arguments.seed)).values()
        scale, balance, softness = ([round(float(x), 2) for x in np.atleast_1d(v.detach().numpy())] for v in values)
        print(f"{n_shot} shots: scale {scale[0]}, balance {tuple(balance)}, softness {tuple(softness)}")


if __name__ == "__main__":
    main()
