"""Small pictures in exactly the layouts in which the datasets are published."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path

import numpy as np
from PIL import Image


def picture(label: int, index: int, side: int = 96) -> Image.Image:
    """A picture whose colour tells its class, with noise."""
    rng = np.random.default_rng([label, index])
    pixels = rng.integers(0, 60, (side, side, 3)) + rng.permutation([30, 90, 150])[None, None] * (label % 4) // 3
    pixels[:: 2 + label, :, label % 3] += 120
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def png(label: int, index: int, side: int = 96) -> bytes:
    buffer = io.BytesIO()
    picture(label, index, side).save(buffer, "PNG")
    return buffer.getvalue()


def write_class_folders(root: Path, classes: tuple[str, ...], per_class: int = 3, side: int = 96) -> None:
    for label, name in enumerate(classes):
        (root / name).mkdir(parents=True, exist_ok=True)
        for index in range(per_class):
            picture(label, index, side).save(root / name / f"{index:04d}.jpg")


def write_split_pictures(root: Path, classes: tuple[str, ...], per_class: int = 3, side: int = 96) -> None:
    """train/ and val/ with folders of all classes; of each class the first and the last picture are in val."""
    for label, name in enumerate(classes):
        for index in range(per_class):
            folder = root / ("val" if index in (0, per_class - 1) else "train") / name
            folder.mkdir(parents=True, exist_ok=True)
            picture(label, index, side).save(folder / f"{name}{index:08d}.jpg")


def sort_into_class_folders(root: Path) -> None:
    """Move each picture of miniImageNet into a folder called like its class, the first nine letters of its name."""
    for path in sorted(root.glob("*.jpg")):
        (root / path.name[:9]).mkdir(exist_ok=True)
        path.rename(root / path.name[:9] / path.name)


def write_csv_lists(root: Path, splits: dict[str, tuple[str, ...]], per_class: int = 3, side: int = 96) -> None:
    """images/ with all pictures, and train.csv, val.csv, test.csv with a heading, as Ravi and Larochelle's."""
    (root / "images").mkdir(parents=True)
    for word, classes in zip(("train", "val", "test"), splits.values(), strict=True):
        lines = ["filename,label"]
        for label, name in enumerate(classes):
            for index in range(per_class):
                file = f"{name}{index:08d}.jpg"
                picture(label, index, side).save(root / "images" / file)
                lines.append(f"{file},{name}")
        (root / f"{word}.csv").write_text("\n".join(lines) + "\n")


def write_mini_cache(root: Path, splits: dict[str, tuple[str, ...]], per_class: int = 3, side: int = 84) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for word, classes in zip(("train", "val", "test"), splits.values(), strict=True):
        pixels = [np.asarray(picture(label, i, side)) for label in range(len(classes)) for i in range(per_class)]
        rows = {name: list(range(k * per_class, (k + 1) * per_class)) for k, name in enumerate(classes)}
        content = {"image_data": np.stack(pixels), "class_dict": rows}
        # Protocol 2 is what Python 2 wrote; most copies in circulation are of that kind.
        (root / f"mini-imagenet-cache-{word}.pkl").write_bytes(pickle.dumps(content, protocol=2))


def write_tiered_pickles(root: Path, counts: tuple[int, int, int], per_class: int = 3, side: int = 84) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for word, n_classes in zip(("train", "val", "test"), counts, strict=True):
        encoded = [
            np.frombuffer(png(label, i, side), dtype=np.uint8)[:, None]
            for label in range(n_classes)
            for i in range(per_class)
        ]
        labels = {
            "label_specific": np.repeat(np.arange(n_classes), per_class),
            "label_general": np.zeros(n_classes * per_class, dtype=np.int64),
            "label_specific_str": [f"{word} word {k}" for k in range(n_classes)],
            "label_general_str": ["thing"],
        }
        (root / f"{word}_images_png.pkl").write_bytes(pickle.dumps(encoded, protocol=2))
        (root / f"{word}_labels.pkl").write_bytes(pickle.dumps(labels, protocol=2))


def write_cub(root: Path, classes: tuple[str, ...], per_class: int = 3, side: int = 96) -> None:
    folder = root / "CUB_200_2011"
    write_class_folders(folder / "images", classes, per_class, side)
    files = [f"{name}/{index:04d}.jpg" for name in classes for index in range(per_class)]
    labels = [k + 1 for k in range(len(classes)) for _ in range(per_class)]
    (folder / "images.txt").write_text("".join(f"{i + 1} {file}\n" for i, file in enumerate(files)))
    (folder / "image_class_labels.txt").write_text("".join(f"{i + 1} {label}\n" for i, label in enumerate(labels)))
    (folder / "classes.txt").write_text("".join(f"{k + 1} {name}\n" for k, name in enumerate(classes)))


def write_category_split(root: Path, splits: dict[str, tuple[str, ...]], per_class: int = 3, side: int = 84) -> None:
    """miniImageNet_category_split_*.pickle, labels counted over all splits, as Gidaris publishes them."""
    root.mkdir(parents=True, exist_ok=True)
    first = 0
    for word, classes in zip(("train_phase_train", "val", "test"), splits.values(), strict=True):
        pixels = [np.asarray(picture(label, i, side)) for label in range(len(classes)) for i in range(per_class)]
        labels = [first + label for label in range(len(classes)) for _ in range(per_class)]
        names = {name: first + label for label, name in enumerate(classes)}
        content = {"data": np.stack(pixels), "labels": labels, "catname2label": names}
        (root / f"miniImageNet_category_split_{word}.pickle").write_bytes(pickle.dumps(content, protocol=2))
        first += len(classes)


def write_tiered_archives(root: Path, counts: tuple[int, int, int], per_class: int = 3, side: int = 84) -> None:
    root.mkdir(parents=True, exist_ok=True)
    first = 0
    for word, n_classes in zip(("train", "val", "test"), counts, strict=True):
        pixels = [np.asarray(picture(label, i, side)) for label in range(n_classes) for i in range(per_class)]
        np.savez_compressed(root / f"{word}_images.npz", images=np.stack(pixels))
        labels = [first + label for label in range(n_classes) for _ in range(per_class)]
        (root / f"{word}_labels.pkl").write_bytes(pickle.dumps({"labels": labels}, protocol=2))
        first += n_classes


def write_closer_look(root: Path, splits: dict[str, tuple[str, ...]], per_class: int = 3, side: int = 96) -> None:
    """filelists/{base,val,novel}.json with paths of another machine, over class folders in images/."""
    names = [name for classes in splits.values() for name in classes]
    (root / "filelists").mkdir(parents=True)
    for word, classes in zip(("base", "val", "novel"), splits.values(), strict=True):
        write_class_folders(root / "images", classes, per_class, side)
        files = [(name, f"/home/them/CUB/images/{name}/{i:04d}.jpg") for name in classes for i in range(per_class)]
        content = {
            "label_names": names,
            "image_names": [file for _, file in files],
            "image_labels": [names.index(name) for name, _ in files],
        }
        (root / "filelists" / f"{word}.json").write_text(json.dumps(content))


def write_easyfsl(root: Path, splits: dict[str, tuple[str, ...]], per_class: int = 3, side: int = 96) -> None:
    """{train,val,test}.json with ./data/... folders, over class folders in images/."""
    for word, classes in zip(("train", "val", "test"), splits.values(), strict=True):
        write_class_folders(root / "images", classes, per_class, side)
        roots = [f"./data/CUB/images/{name}" for name in classes]
        content = {"class_names": list(classes), "class_roots": roots}
        (root / f"{word}.json").write_text(json.dumps(content))
