"""Pictures and texts through the default encoders: by ONNX Runtime, and by torch where it is there.

    python benchmarks/encoding.py [--pictures 1000] [--texts 2000] [--rounds 2]

Prints a Markdown table: seconds to load, milliseconds an item from file to embedding, milliseconds of the processor an
item (which other work on the machine does not change), and the largest memory, each way in a process of its own, in
turns. Pictures are photographs at 640 pixels, texts are questions.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SHARED = Path(os.environ.get("MARGINSHOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
SIDE = 640
WAYS = ("pictures onnx", "pictures torch", "texts onnx", "texts torch", "texts multilingual")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        print(json.dumps(measure(asked.way, asked.folder, asked.texts)))
        return
    with tempfile.TemporaryDirectory() as name:
        draw_pictures(Path(name), asked.pictures)
        print("| encoder | s to load | ms an item | ms of the processor | MB |\n|---|---|---|---|---|")
        best: dict[str, dict[str, float]] = {}
        for _ in range(asked.rounds):
            for way in WAYS:
                options = ["--way", way, "--folder", name, "--texts", str(asked.texts)]
                found = subprocess.run([sys.executable, __file__, *options], check=True, stdout=subprocess.PIPE).stdout
                row = json.loads(found)
                best[way] = {key: min(value, best.get(way, row)[key]) for key, value in row.items()}
        for way, row in best.items():
            print(f"| {way} | {row['load']:.1f} | {row['item']:.1f} | {row['processor']:.1f} | {row['memory']:.0f} |")


def draw_pictures(folder: Path, count: int) -> None:
    """Photographs of birds, made larger."""
    from PIL import Image

    with tarfile.open(SHARED / "photos" / "birds.tar") as archive:
        members = [member for member in archive if member.isfile()]
        for number in range(count):
            file = archive.extractfile(members[number % len(members)])
            assert file is not None
            picture = Image.open(io.BytesIO(file.read())).convert("RGB")
            factor = SIDE / max(picture.size)
            size = round(picture.width * factor), round(picture.height * factor)
            picture.resize(size, Image.Resampling.BICUBIC).save(folder / f"{number:05}.jpg", quality=90 - number % 3)


def measure(way: str, folder: Path, n_texts: int) -> dict[str, float]:
    """Seconds to load, milliseconds an item on the clock and of the processor, megabytes."""
    from marginshot.labelling.items.collection import Collection
    from marginshot.labelling.items.embed import embed
    from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder
    from marginshot.labelling.items.folders import collect_unlabelled
    from marginshot.labelling.items.tables import text_rows

    kind, _, engine = way.partition(" ")
    # Any device but "auto" and "cpu" is torch's; this one is its name for the processor.
    device = "cpu:0" if engine == "torch" else "cpu"
    encoder: PictureEncoder | TextEncoder
    collection: Collection
    if kind == "pictures":
        encoder, collection = PictureEncoder(device=device), collect_unlabelled(folder)
    else:
        with (SHARED / "texts" / "trec.csv").open(encoding="utf-8", newline="") as file:
            texts = [row["body"] for row in csv.DictReader(file)][:n_texts]
        name = "multilingual" if engine == "multilingual" else "minilm"
        encoder, collection = TextEncoder(name, device), text_rows(texts, None)
    began = time.perf_counter()
    encoder.load()
    loaded, used = time.perf_counter(), time.process_time()
    embed(collection, encoder, None)
    seconds, used = time.perf_counter() - loaded, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    each = 1000 / len(collection)
    return {"load": loaded - began, "item": seconds * each, "processor": used * each, "memory": memory}


if __name__ == "__main__":
    main()
