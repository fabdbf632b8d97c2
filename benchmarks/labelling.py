"""Labelling a folder of real photographs: accuracy, unbalanced classes, foreign items, where time goes.

    python benchmarks/labelling.py [--draws 50] [--photos ../shared/data/photos/photos.tar] [--only balanced,...]

Prints Markdown tables. The photographs are encoded once (EfficientNet-lite0) and kept in the user's cache. The part
"folder" labels 1,000 and 5,000 larger pictures made from them, each in a process of its own. The part "rounds" runs
`benchmarks/labelling_rounds.py`: names, worklists, suggestions and "none of these", also on birds and texts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from marginshot import TransductiveMaxMarginClassifier
from marginshot.labelling.answers.classify import LabelSettings, label_rows, make_classifier
from marginshot.labelling.items.embed import embed
from marginshot.labelling.items.encoders import PictureEncoder
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.items.store import open_store
from marginshot.model.named_transforms import make_transform

SHARED = Path(os.environ.get("MARGINSHOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
UNBALANCED = (60, 45, 30, 20, 15, 10, 8, 5)
SHOTS = (1, 3, 5)

Labeller = Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.int64]]


def ours(**settings: object) -> Labeller:
    def run(X: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.int64]:
        paper = TransductiveMaxMarginClassifier.from_preset("paper", **settings)
        classifier = paper if settings else make_classifier(X)
        return classifier.fit(X, y).transduction_

    return run


def inductive(make: Callable[[int], object]) -> Labeller:
    """A scikit-learn classifier fitted on the examples, on features centred and scaled as ours are."""

    def run(X: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = make_transform("cl2n").fit_transform(X)
        n_examples = int(np.bincount(y[y >= 0]).min())
        return make(n_examples).fit(rows[y >= 0], y[y >= 0]).predict(rows)

    return run


def semi_supervised(make: Callable[[], object]) -> Labeller:
    def run(X: NDArray[np.float32], y: NDArray[np.int64]) -> NDArray[np.int64]:
        rows = make_transform("cl2n").fit_transform(X)
        fitted = make().fit(rows, y)
        return fitted.transduction_ if isinstance(fitted, LabelSpreading) else fitted.predict(rows)

    return run


LABELLERS: dict[str, Labeller] = {
    "FS-TMMC, preset auto (what `label` uses)": ours(),
    "FS-TMMC, paper's settings": ours(prior="uniform"),
    "FS-TMMC, estimated prior": ours(prior="estimate"),
    "FS-MMC": ours(lambda2=(0.0,)),
    "logistic regression": inductive(lambda _: LogisticRegression(max_iter=1000)),
    "k nearest neighbours (k = examples a class)": inductive(lambda k: KNeighborsClassifier(k, weights="distance")),
    "SelfTrainingClassifier (logistic regression)": semi_supervised(
        lambda: SelfTrainingClassifier(LogisticRegression(max_iter=1000))
    ),
    "LabelSpreading (10 nearest neighbours)": semi_supervised(lambda: LabelSpreading(kernel="knn", n_neighbors=10)),
}


def load_photos(photos: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Embeddings and classes."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(photos) as archive:
            archive.extractall(folder, filter="data")
        embedded = embed(collect_unlabelled(Path(folder)), PictureEncoder(), open_store(True))
    names = [item.partition("/")[0] for item in embedded.collection.items]
    return embedded.X, np.unique(names, return_inverse=True)[1].astype(np.int64)


def draw(y: NDArray[np.int64], n_shot: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels of ``n_shot`` examples a class, -1 elsewhere."""
    given = np.full(len(y), -1)
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))[:n_shot]
        given[rows] = c
    return given


def thin_out(y: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of a folder whose class sizes are UNBALANCED, in random order of the classes."""
    sizes = rng.permutation(UNBALANCED)
    return np.concatenate([rng.permutation(np.flatnonzero(y == c))[:size] for c, size in enumerate(sizes)])


def accuracies(
    X: NDArray[np.float32], y: NDArray[np.int64], draws: int, unbalanced: bool
) -> Iterator[tuple[str, list[str]]]:
    found: dict[tuple[str, int], list[float]] = {}
    for seed in range(draws):
        for n_shot in SHOTS:
            rng = np.random.default_rng([seed, n_shot])
            rows = thin_out(y, rng) if unbalanced else np.arange(len(y))
            given = draw(y[rows], n_shot, rng)
            unknown = given < 0
            for name, run in LABELLERS.items():
                answers = run(X[rows], given)
                found.setdefault((name, n_shot), []).append(float(np.mean((answers == y[rows])[unknown])))
    for name in LABELLERS:
        cells = [found[name, n_shot] for n_shot in SHOTS]
        yield name, [f"{100 * np.mean(c):.1f} ± {196 * np.std(c, ddof=1) / np.sqrt(len(c)):.1f}" for c in cells]


def print_table(headers: list[str], rows: Iterator[tuple[str, list[str]]]) -> None:
    print("| " + " | ".join(headers) + " |")
    print("|" + "---|" * len(headers))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print()


def foreign_items(X: NDArray[np.float32], y: NDArray[np.int64], draws: int) -> Iterator[tuple[str, list[str]]]:
    """Two of the eight classes have no examples: how many of their items are found, how many others are lost."""
    for lose in (0.05, 0.1, 0.2):
        cells = []
        for n_shot in SHOTS:
            shares = []
            for seed in range(draws):
                rng = np.random.default_rng([seed, n_shot])
                known = rng.permutation(8)[:6]
                given = draw(y, n_shot, rng)
                given[~np.isin(y, known)] = -1
                codes = np.where(given >= 0, np.searchsorted(np.sort(known), given), -1)
                answers, _, _ = label_rows(X, codes, [str(c) for c in np.sort(known)], LabelSettings(lose=lose))
                unknown = given < 0
                home = np.isin(y, known)
                shares.append((answers.foreign[unknown & ~home].mean(), answers.foreign[unknown & home].mean()))
            caught, lost = 100 * np.mean(shares, axis=0)
            cells.append(f"{caught:.0f} / {lost:.1f}")
        yield f"{lose:.2f}", cells


def times(X: NDArray[np.float32], y: NDArray[np.int64]) -> Iterator[tuple[str, list[str]]]:
    """Seconds of labelling itself, by the clock and of the processor: labels, foreign items and 20 suggestions."""
    rng = np.random.default_rng(0)
    for n_rows, width in ((len(X), X.shape[1]), (5000, 384), (5000, X.shape[1])):
        directions = rng.standard_normal((X.shape[1], width), dtype=np.float32) / np.sqrt(np.float32(width))
        picks = rng.integers(len(X), size=n_rows)
        rows = (X - X.mean(axis=0))[picks] @ directions if width < X.shape[1] else X[picks]
        rows = rows + rng.normal(0.0, 0.5 * X.std(), rows.shape).astype(np.float32)
        given = draw(y[picks], 3, rng)
        measured = []
        for _ in range(5):
            started = time.perf_counter(), time.process_time()
            label_rows(rows, given, [str(c) for c in range(8)], LabelSettings(suggest=20))
            measured.append((time.perf_counter() - started[0], time.process_time() - started[1]))
        yield f"{n_rows:,} items, {width} features", [f"{value:.2f}" for value in np.median(measured, axis=0)]


def make_folder(photos: Path, place: Path, n_pictures: int) -> None:
    """``photos/`` with ``n_pictures`` JPEGs of 224 to 640 pixels and ``examples/`` with three a class.

    Each is a part of one of the photographs, perhaps mirrored, enlarged: many bytes to read and decode, no two alike.
    """
    from PIL import Image, ImageOps

    with tarfile.open(photos) as archive:
        archive.extractall(place / "originals", filter="data")
    originals = sorted((place / "originals").rglob("*.jpg"))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(originals))
    seen = dict.fromkeys(sorted({path.parent.name for path in originals}), 0)
    for number in range(n_pictures):
        path = originals[order[number % len(order)]]
        with Image.open(path) as image:
            side = int(rng.integers(48, 65))
            left, top = (int(value) for value in rng.integers(0, 65 - side, size=2))
            part = image.convert("RGB").crop((left, top, left + side, top + side))
        size = tuple(int(value) for value in rng.integers(224, 641, size=2))
        part = (ImageOps.mirror(part) if rng.random() < 0.5 else part).resize(size, Image.Resampling.BICUBIC)
        name, seen[path.parent.name] = path.parent.name, seen[path.parent.name] + 1
        folder = place / "examples" / name if seen[name] <= 3 else place / "photos"
        folder.mkdir(parents=True, exist_ok=True)
        part.save(folder / f"{name}-{number:05d}.jpg", quality=90)


def add_examples(place: Path) -> None:
    """One more example of two classes, copied from the folder, as a user would."""
    for folder in sorted((place / "examples").iterdir())[:2]:
        shutil.copy(next(iter(sorted((place / "photos").glob(f"{folder.name}-*.jpg")))), folder)


def label_folder(place: Path) -> tuple[dict[str, float], float, float]:
    """`marginshot label` in a process of its own: seconds of its parts, of all, and the peak of its memory in MB."""
    options = {"--examples": "examples", "--out": "labelled", "--cache": "cache", "--suggest": "20", "--format": "json"}
    code = (
        "import resource, sys\nfrom marginshot.cli.app import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "finally:\n    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    # Python's byte code as an installation has it from its first run on, also where this environment keeps none.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(place / "bytecode")
    command = [sys.executable, "-c", code, "label", "photos", *chain.from_iterable(options.items())]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    total = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["seconds"], total, int(done.stderr.split()[-1]) / 1024


def folders(photos: Path, sizes: list[int]) -> Iterator[tuple[str, list[str]]]:
    """The whole command on folders of pictures, with an empty cache and again with two more examples."""
    for n_pictures in sizes:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            make_folder(photos, place, n_pictures)
            for run in ("first run", "two more examples"):
                seconds, total, memory = label_folder(place)
                parts = [seconds[part] for part in ("cache", "loading", "reading", "encoder", "labelling")]
                shares = [f"{value:.1f} ({value / total:.0%})" for value in (*parts, total - sum(parts))]
                yield f"{n_pictures:,} pictures, {run}", [*shares, f"{total:.1f}", f"{memory:.0f}"]
                add_examples(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--photos", type=Path, default=SHARED / "photos" / "photos.tar")
    parser.add_argument("--only", default="balanced,unbalanced,foreign,time,folder,rounds")
    parser.add_argument("--pictures", default="1000,5000", help="sizes of the folders")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    warnings.simplefilter("ignore")  # scikit-learn's and ours about convergence, thousands of times
    X, y = load_photos(arguments.photos)
    shots = [f"{n} example{'s' if n > 1 else ''} a class" for n in SHOTS]
    if "balanced" in wanted:
        print("8 classes x 60 photographs:\n")
        print_table(["accuracy, %", *shots], accuracies(X, y, arguments.draws, unbalanced=False))
    if "unbalanced" in wanted:
        print(f"Class sizes {', '.join(map(str, UNBALANCED))}:\n")
        print_table(["accuracy, %", *shots], accuracies(X, y, arguments.draws, unbalanced=True))
    if "foreign" in wanted:
        print("Two classes without examples, % of their items found / % of the others lost:\n")
        print_table(["--lose", *shots], foreign_items(X, y, arguments.draws))
    if "time" in wanted:
        print("Labelling itself, with foreign items and 20 suggestions:\n")
        print_table(["", "seconds", "processor seconds"], times(X, y))
    if "folder" in wanted:
        print("Seconds of `marginshot label`, and their share:\n")
        headers = ["hashes, cache", "loading", "reading", "encoder", "labelling", "start, gallery", "all", "peak, MB"]
        sizes = [int(size) for size in arguments.pictures.split(",")]
        print_table(["", *headers], folders(arguments.photos, sizes))
    if "rounds" in wanted:
        script = Path(__file__).with_name("labelling_rounds.py")
        subprocess.run([sys.executable, str(script), "--draws", str(arguments.draws)], check=True)


if __name__ == "__main__":
    main()
