"""How often sounds get the right label from a few examples: ESC-50, classes on which the encoder was not chosen.

    python benchmarks/sounds.py ESC-50/ --shots 5 --draws 3

ESC-50 (CC BY-NC) is `github.com/karolpiczak/ESC-50`: folders `audio` and `meta`. Statistics of `log-mel` were chosen on
its even classes; this reports its odd ones. Examples are of folds 1 to 3 and all else of folds 4 and 5, which share no
recording with them.
"""

from __future__ import annotations

import argparse
import csv
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from marginshot.data.sounds import Clip
from marginshot.labelling import label_embeddings
from marginshot.labelling.items.sounds import SOUND


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--encoder", default=None)
    options = parser.parse_args()
    with (options.folder / "meta" / "esc50.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["target"]) % 2]
    classes, folds = (np.array([row[name] for row in rows]) for name in ("category", "fold"))
    encoder = SOUND.encoder(options.encoder)
    encoder.load()
    started = time.process_time()
    with ThreadPoolExecutor() as threads:
        clips = [Clip(options.folder / "audio" / row["filename"]) for row in rows]
        X = encoder.encode(list(threads.map(encoder.prepare, clips)))
    print(f"{encoder.name}: {1000 * (time.process_time() - started) / len(rows):.0f} ms of the processor a sound")
    early = np.isin(folds, ("1", "2", "3"))
    found = [_draw(X, classes, early, options.shots, seed) for seed in range(options.draws)]
    right, promised = np.mean(found, axis=0)
    task = f"{len(set(classes))} classes, {options.shots} examples each"
    print(f"{task}: {100 * right:.1f} % right, {100 * promised:.1f} % promised")


def _draw(X: np.ndarray, classes: np.ndarray, early: np.ndarray, shots: int, seed: int) -> tuple[float, float]:
    """Share of right labels among sounds of late folds, and the share that their probabilities promise."""
    random = np.random.default_rng(seed)
    examples = [
        random.choice(np.flatnonzero(early & (classes == name)), shots, replace=False) for name in sorted(set(classes))
    ]
    kept = np.concatenate((*examples, np.flatnonzero(~early)))
    labels = np.where(np.arange(len(kept)) < shots * len(examples), classes[kept], "")
    result = label_embeddings(X[kept], labels.tolist())
    asked = labels == ""
    right = np.array(result.labels)[asked] == classes[kept][asked]
    return float(right.mean()), float(np.array(result.probabilities)[asked].mean())


if __name__ == "__main__":
    main()
