"""Pictures and class names by one network with two sides, here a tiny one without training."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from marginshot.labelling.answers.classify import NamedRows
from marginshot.labelling.answers.names import embed_names
from marginshot.labelling.items.embed import embed
from marginshot.labelling.items.encoders import PictureEncoder, text_side
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.session.solving import Solver
from marginshot.labelling.session.state import Class, State

pytest.importorskip("torch", reason="needs the extra clip")
transformers = pytest.importorskip("transformers", reason="needs the extra clip")


@pytest.fixture
def tiny(tmp_path):
    """The folder of a CLIP model of one layer a side, which spells texts letter by letter."""
    folder = tmp_path / "model"
    folder.mkdir()
    letters = [chr(code) for code in range(97, 123)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: place for place, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    text = {**size, **ends, "vocab_size": len(tokens), "max_position_embeddings": 16}
    picture = {**size, "image_size": 16, "patch_size": 8}
    transformers.set_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=picture, projection_dim=8)
    transformers.CLIPModel(config).save_pretrained(folder)
    tokenizer = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    images = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    transformers.CLIPProcessor(images, tokenizer).save_pretrained(folder)
    return folder


def test_names_lie_among_the_pictures_that_one_network_embeds(tiny, tmp_path, draw_picture):
    for place, colour in enumerate(["red", "blue"] * 6):
        draw_picture(tmp_path / "photos" / f"{place}.png", colour, place)
    encoder = PictureEncoder(f"clip:{tiny}", "cpu")
    X = embed(collect_unlabelled(tmp_path / "photos"), encoder, None).X
    assert X.shape == (12, 8)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, rtol=1e-5)
    names = embed_names(["red", "blue", "c17"], encoder, None)
    assert names.classes.tolist() == [0, 1]
    assert_among(NamedRows(X, names).rows[12:], X)
    assert NamedRows(X, names).examples(np.full(12, -1))[0].tolist() == [-1] * 12 + [0, 1]


def assert_among(names, X):
    """Names (2, D) lie around the mean of the items X (n, D), at their mean distance."""
    np.testing.assert_allclose(names.mean(axis=0), X.mean(axis=0), atol=1e-5)
    distances = np.linalg.norm(names - X.mean(axis=0), axis=1)
    np.testing.assert_allclose(distances, np.linalg.norm(X - X.mean(axis=0), axis=1).mean(), rtol=1e-3)


def test_names_in_a_session_lie_among_all_pictures_that_are_embedded_by_then(tiny, tmp_path, draw_picture):
    for place, colour in enumerate(["red"] * 6 + ["blue"] * 6):
        draw_picture(tmp_path / "photos" / f"{place:02}.png", colour, place)
    encoder = PictureEncoder(f"clip:{tiny}", "cpu")
    X = embed(collect_unlabelled(tmp_path / "photos"), encoder, None).X
    classes = (Class(0, "red"), Class(1, "blue"))
    state = replace(State.empty(12), classes=classes, next_id=2)
    solver = Solver(encoder, None, np.ones(12, dtype=bool))
    for n_ready in (8, 12):
        solver.solve(state, np.arange(n_ready), X[:n_ready])
        assert_among(solver._table.rows[n_ready:], X[:n_ready])


def test_a_text_is_embedded_as_the_model_does_and_apart_from_pictures_in_the_cache(tiny):
    encoder = PictureEncoder(f"clip:{tiny}", "cpu")
    side = text_side(encoder)
    assert side.identity != encoder.identity
    side.load()
    one, two = side.encode(["cat", "a cat on a mat and much more than it reads"])
    np.testing.assert_allclose(side.encode(["cat"])[0], one, rtol=1e-4, atol=1e-6)
    assert abs(one - two).max() > 1e-3


def test_what_is_not_a_model_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"could not be loaded \(.*; name a CLIP or SigLIP model"):
        PictureEncoder(f"clip:{tmp_path}", "cpu").load()
