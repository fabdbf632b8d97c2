"""Round a feature file to bytes: `python benchmarks/features/pack.py FEATURES.npz OUT.npz`.

Features after a ReLU and an average are at least 0; one byte in steps of an eighth of their standard deviation keeps
them, because rounding then adds 0.1 % to their variance. Names of rows are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from marginshot.data.features import FeatureBank, load_features

STEPS_PER_DEVIATION = 8


def pack(bank: FeatureBank, out: Path) -> None:
    scale = float(np.float32(bank.X.std() / STEPS_PER_DEVIATION))
    steps = np.round(bank.X / scale)
    if steps.min() < 0:
        raise ValueError(f"{bank.source} has features below 0, down to {bank.X.min():.3g}; they do not fit in a byte.")
    clipped = float((steps > 255).mean())
    print(f"{bank.source}: steps of {scale:.3g}, {clipped:.1e} of the values above the largest")
    rounded = np.minimum(steps, 255).astype(np.uint8)
    np.savez_compressed(out, X=rounded, y=bank.y.astype(np.uint8), classes=np.array(bank.classes), scale=scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    pack(load_features(arguments.features), arguments.out)


if __name__ == "__main__":
    main()
