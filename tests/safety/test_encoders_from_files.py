"""A model or a record from somebody else names an encoder (issue 31): nothing beside it is loaded, let alone run."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path

import pytest

from marginshot.labelling import RefusedError, label_texts, load_model
from marginshot.labelling.items.encoders import TextEncoder
from marginshot.labelling.outputs.records import load_record, record_path
from workplaces import encoded, own_cache, run

__all__ = ["encoded", "own_cache", "run"]

TEXTS, LABELS = ["late train", "sweet cake", "bus delay", "sour cake"], ["travel", "food", "", ""]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder that sentence-transformers 3.4 to 5 took for a model, and ran."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model-folder"
    folder.mkdir()
    (folder / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\nEvil = object\n"
    )
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}]))
    (folder / "config_sentence_transformers.json").write_text("{}")
    Path("t.csv").write_text("body,label\n" + "".join(map("{},{}\n".format, TEXTS, LABELS)), encoding="utf-8")
    return folder


def save_model_naming(encoder: str) -> Path:
    """A saved model with another encoder in its header."""
    label_texts(TEXTS, LABELS).model.save("honest")
    with zipfile.ZipFile("honest") as old, zipfile.ZipFile("forged", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "about.json":
                content = json.dumps({**json.loads(content), "encoder": encoder}).encode()
            new.writestr(name, content)
    return Path("forged").absolute()


@pytest.mark.parametrize("name", ["model-folder", "network.onnx", "somebody/something", "clip:somebody/something"])
def test_a_model_names_no_encoder_but_our_own(folder, encoded, run, name):
    model = save_model_naming(name)
    encoded.clear()
    code, _, err = run("apply", "forged", "t.csv", "--text", "body", "--label", "guess", "--out", "o.csv")
    assert code == 2
    assert f"forged names the encoder '{name}', which does not come with marginshot" in err
    assert "give --encoder with that name" in err
    loaded = load_model(model)
    with pytest.raises(RefusedError, match="give encoder with that name"):
        loaded.label_texts(TEXTS)
    with pytest.raises(RefusedError, match="give encoder with that name"):
        loaded.label_table("t.csv", text="body")
    assert encoded == []
    assert not Path("o.csv").exists()


@pytest.mark.parametrize("name", ["minilm", "multilingual"])
def test_a_model_names_any_encoder_of_ours(folder, name):
    encoder = load_model(save_model_naming(name)).make_encoder()
    assert encoder is not None
    assert encoder.name == name


def test_an_encoder_that_is_said_is_used(folder, encoded, run):
    save_model_naming("model-folder")
    ours = ("t.csv", "--text", "body", "--label", "guess", "--out", "o.csv", "--encoder", "model-folder")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run("apply", "forged", *ours)
    assert code == 0, err
    assert err.startswith("Warning: the model was fitted with 'text 1 minilm")
    assert Path("o.csv").exists()


def test_a_record_names_no_encoder_but_our_own(folder, encoded, run):
    again = ("label", "t.csv", "--text", "body", "--out", "o.csv")
    assert run(*again, "--encoder", "model-folder")[0] == 0
    assert load_record(record_path(Path("o.csv"))).options["encoder"] == "model-folder"
    code, _, err = run(*again)
    assert code == 2
    assert ".o.csv-run.json names the encoder 'model-folder'" in err
    assert run(*again, "--encoder", "model-folder")[0] == 0
    assert run(*again, "--encoder", "minilm")[0] == 0
    assert run(*again)[0] == 0, "our own is remembered"


def test_code_in_the_folder_of_a_model_is_not_run(folder):
    pytest.importorskip("sentence_transformers", reason="needs the extra text")
    with pytest.raises(Exception, match=r"model-folder|evil|trust|Evil"):
        TextEncoder(str(folder)).load()
    assert not folder.with_name("ran").exists()


def test_a_folder_with_the_name_of_our_own_encoder_is_not_taken_for_it(tmp_path, monkeypatch):
    pytest.importorskip("timm", reason="needs the extra vision")
    from marginshot.vision.encoders import load_encoder

    monkeypatch.chdir(tmp_path)
    (tmp_path / "efficientnet-lite0").mkdir()
    assert load_encoder("efficientnet-lite0").name == "efficientnet-lite0"
