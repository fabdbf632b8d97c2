"""Whole files of every kind we read, and damages of them that follow from a seed."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marginshot import TransductiveMaxMarginClassifier
from marginshot.data.features import FeatureBank, load_features
from marginshot.data.rows import ParquetRows
from marginshot.evaluation.checkpoint import BlockProgress, Checkpoint
from marginshot.evaluation.regime_table import Cell, CellResult, LeftOut, RegimeTable, Score
from marginshot.evaluation.results import Difference, Evaluation, FeatureRecord, MethodResult

#: What reading a damaged file may raise: sentences of ours, all of which the command line ends with code 2.
OURS = (ValueError, FileNotFoundError)


@dataclass(frozen=True)
class Reader:
    """A file to be damaged and what reads it, with the files it needs beside it already there.

    One that takes long is read once for every ``cost`` damages of the others.
    """

    path: Path
    read: Callable[[], object]
    cost: int = 1


def features(folder: Path) -> Iterator[Reader]:
    rng = np.random.default_rng(0)
    bank = FeatureBank(
        rng.normal(size=(30, 5)).astype(np.float32), np.repeat([0, 1, 2], 10), ("a", "é", "c"), "x",
        tuple(f"item {row}" for row in range(30)),
    )  # fmt: skip
    for name in ("features.npz", "features.parquet"):
        bank.save(folder / name)
        yield Reader(folder / name, lambda path=folder / name: load_features(path))
    yield Reader(folder / "features.parquet", lambda: ParquetRows(folder / "features.parquet").load())
    names = folder / "names.npz"
    np.savez(names, X=bank.X, y=np.array(["a", "b", "c"])[bank.y])
    yield Reader(names, lambda: load_features(names))
    (folder / "classes").mkdir()
    for name in "ab":
        np.save(folder / "classes" / f"{name}.npy", bank.X)
    yield Reader(folder / "classes" / "a.npy", lambda: load_features(folder / "classes"))
    trusted = folder / "trusted.pkl"
    trusted.write_bytes(pickle.dumps({"a": bank.X.tolist(), "b": bank.X.tolist()}))
    yield Reader(trusted, lambda: load_features(trusted, allow_pickle=True))


def results(folder: Path) -> Iterator[Reader]:
    shared = {"features": "x", "title": "T", "reference": "R", "transductive": True, "settings": {"a": 1}}
    shared |= {"way": 5, "query": 15, "tasks": 40, "ci95": 0.1, "worst_tenth": 0.1, "seconds_per_task": 0.1}
    accuracies = np.random.default_rng(0).uniform(size=40)
    kept = tuple(
        MethodResult(
            method=name, shot=shot, accuracy=float(accuracies.mean()), difference=difference, calibration=None,
            redrawn_tasks=0, per_task=accuracies, **shared,
        )
        for name, shot, difference in (("a", 1, None), ("b", (1, 2), Difference(to="a", mean=0.1, ci95=0.1)))
    )  # fmt: skip
    record = FeatureRecord(source="x", sha256="0" * 64, n_rows=9, n_features=2, n_classes=3)
    Evaluation(arguments={"seed": 0}, features=(record,), results=kept).save(folder / "r.json")
    for name in ("r.json", "r.tasks.npz"):
        yield Reader(folder / name, lambda: Evaluation.load(folder / "r.json"))
    identity = {"tasks": 20, "methods": {"a": {}, "b": {}}}
    progress = folder / "r.partial.npz"
    Checkpoint(progress).save([BlockProgress.empty(2, 20)], identity, at_once=True)
    yield Reader(progress, lambda: Checkpoint(progress).load(identity))
    cell = Cell(features="x", regime="balanced", way=5, shot=1)
    score = Score(method="a", accuracy=0.5, ci95=0.1, seconds_per_task=0.1, right=(5,) * 9)
    found = CellResult(cell=cell, tasks=9, redrawn_tasks=0, queries=10, scores=(score,), too_slow={"b": 1.0})
    left = LeftOut(cell=Cell(features="x", regime="balanced", way=9, shot=1), reason="few")
    arguments = {"seed": 0, "methods": {"a": {}}}
    RegimeTable(arguments=arguments, features={"x": "0"}, results=(found,), left_out=(left,)).save(folder / "t.json")
    yield Reader(folder / "t.json", lambda: RegimeTable.load(folder / "t.json"))


def commands(folder: Path) -> Iterator[Reader]:
    from marginshot.cli._options import parse_methods

    config = folder / "tuned.toml"
    config.write_text("[tuned]\nseed = 0\n[methods.fs-tmmc]\nlambda1 = 0.1\nlambda2 = [0.1, 1.0]\n", encoding="utf-8")
    yield Reader(config, lambda: parse_methods("fs-tmmc", config))


def labelling(folder: Path) -> Iterator[Reader]:
    from marginshot.labelling import label_embeddings, load_model
    from marginshot.labelling.items.tables import collect_embeddings, collect_texts, read_npz, read_table, write_table

    X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    table = folder / "texts.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *((f"näme {row}", "ab"[row % 2]) for row in range(12))])
    yield Reader(table, lambda: collect_texts(read_table(table), "text", "label"))
    rows = folder / "rows.parquet"
    write_table({"embedding": X.tolist(), "label": ["a", "b", *[""] * 10]}, rows)
    yield Reader(rows, lambda: collect_embeddings(read_table(rows), "label"))
    archive = folder / "rows.npz"
    np.savez(archive, X=X, y=np.array([0, 1, *[-1] * 10]), classes=np.array(["a", "b"]))
    yield Reader(archive, lambda: collect_embeddings(read_npz(archive, "y"), "y"))
    tasks = folder / "tasks.json"
    chosen = {"result": [{"from_name": "label", "value": {"choices": ["a"]}}], "updated_at": "1"}
    tasks.write_text(
        json.dumps([{"id": row, "data": {"text": f"näme {row}"}, "annotations": [chosen]} for row in range(9)])
    )
    yield Reader(tasks, lambda: collect_texts(read_table(tasks), "text", "label"))
    planes = folder / "planes.npz"
    TransductiveMaxMarginClassifier().fit(X, [0, 1, *[-1] * 10]).save(planes)
    yield Reader(planes, lambda: TransductiveMaxMarginClassifier.load(planes))
    model = folder / "model"
    label_embeddings(X, ["a", "b", *[""] * 10]).model.save(model)
    yield Reader(model, lambda: load_model(model).label(X))


def vision(folder: Path) -> Iterator[Reader]:
    import torch
    from safetensors.torch import save_file

    from marginshot.vision.backbones import build_backbone
    from marginshot.vision.datasets.pickles import open_mini_cache, open_tiered_pickles
    from marginshot.vision.encoders import load_encoder
    from marginshot.vision.published import load_published
    from marginshot.vision.runs import RunFolder
    from marginshot.vision.settings import TrainSettings

    network = build_backbone("conv4")
    published = folder / "model.pth.tar"
    torch.save({"arch": "conv4", "state_dict": {f"module.{k}": v for k, v in network.state_dict().items()}}, published)
    yield Reader(published, lambda: load_published(published, "conv4"), cost=4)
    run = RunFolder(folder / "run")
    run.path.mkdir()
    settings = TrainSettings(dataset="folder", backbone="conv4").as_dict()
    run.config.write_text(json.dumps({"settings": settings, "data": {"classes": ["a"], "n_images": 3}}))
    save_file({f"backbone.{name}": value for name, value in network.state_dict().items()}, run.weights("best"))
    for path in (run.config, run.weights("best")):
        yield Reader(path, lambda: load_encoder(str(run.path)), cost=4)
    save_file({"model.a": torch.zeros(3)}, run.state, metadata={"progress": json.dumps({"epoch": 1, "step": 2})})
    yield Reader(run.state, run.finished_epochs)
    mini = folder / "mini-imagenet-cache-test.pkl"
    pixels = np.zeros((6, 8, 8, 3), dtype=np.uint8)
    mini.write_bytes(pickle.dumps({"image_data": pixels, "class_dict": {"n01": [0, 1, 2], "n02": [3, 4, 5]}}, 2))
    yield Reader(mini, lambda: open_mini_cache(mini))
    images, labels = folder / "test_images_png.pkl", folder / "test_labels.pkl"
    images.write_bytes(pickle.dumps([np.arange(9, dtype=np.uint8)] * 4, 2))
    content = {"label_specific": np.array([0, 0, 1, 1]), "label_specific_str": ["a", "b"]}
    labels.write_bytes(pickle.dumps(content, 2))
    for path in (images, labels):
        yield Reader(path, lambda: open_tiered_pickles(images, labels))


def pictures(folder: Path) -> Iterator[Reader]:
    from PIL import Image

    from marginshot.data.pictures import pillow_silenced, read_picture

    def read(path: Path) -> object:
        with pillow_silenced():
            return read_picture(path)

    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (24, 24, 3), dtype=np.uint8))
    for suffix in ("jpg", "png", "webp", "tif", "gif", "bmp", "ppm"):
        path = folder / f"x.{suffix}"
        image.save(path)
        yield Reader(path, lambda path=path: read(path))


KINDS = (features, results, commands, labelling, vision, pictures)


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """The content cut off, with bytes changed, doubled, dropped or blanked, or with a number in it changed."""
    damaged = bytearray(content)
    place = int(rng.integers(len(content)))
    match rng.integers(6):
        case 0:
            del damaged[place:]
        case 1:
            for spot in rng.integers(len(content), size=int(rng.integers(1, 5))):
                damaged[spot] = rng.integers(256)
        case 2:
            damaged[place : place + 50] = bytes(len(damaged[place : place + 50]))
        case 3:
            del damaged[place : place + int(rng.integers(1, 20))]
        case 4:
            damaged[place:place] = damaged[place : place + int(rng.integers(1, 20))]
        case 5:
            digits = [spot for spot, byte in enumerate(content) if 48 <= byte < 58] or [place]
            damaged[digits[int(rng.integers(len(digits)))]] = int(rng.choice(list(b"0123456789-eE.")))
    return bytes(damaged)
