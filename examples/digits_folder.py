"""Write scikit-learn's handwritten digits as pictures, with a few examples: python examples/digits_folder.py DIR

DIR/pictures holds 1,000 of them under numbers, DIR/examples five of each in a folder named after its digit.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def main(folder: Path) -> None:
    """Write both folders."""
    digits = load_digits()
    drawn = np.random.default_rng(0).permutation(len(digits.images))[:1050]
    examples = [row for digit in range(10) for row in drawn[digits.target[drawn] == digit][:5]]
    for row in examples:
        save(digits.images[row], folder / "examples" / NAMES[digits.target[row]] / f"{row:04d}.png")
    for row in [row for row in drawn if row not in examples]:
        save(digits.images[row], folder / "pictures" / f"{row:04d}.png")


def save(image: np.ndarray, path: Path) -> None:
    """Write grey values from 0 to 16, (8, 8), as dark ink on white paper."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = Image.fromarray((255 - 15.9 * image).astype(np.uint8))
    pixels.resize((64, 64), Image.Resampling.BICUBIC).save(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
