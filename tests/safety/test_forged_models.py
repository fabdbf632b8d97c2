"""Models and records that are damaged or forged (issue 31): one sentence, never NaN, never a traceback."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from marginshot._lib.reading import DamagedFileError
from marginshot.labelling import label_embeddings, load_model
from marginshot.labelling.outputs.records import load_record

N_FORGED = int(os.environ.get("MARGINSHOT_FUZZ", "60"))
X = np.concatenate([np.random.default_rng(k).normal(3 * np.eye(4)[k], 1.0, size=(12, 4)) for k in range(3)])


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    label_embeddings(X, [("abc"[row // 12] if row % 12 < 2 else "") for row in range(36)]).model.save(path)
    return path


def forge(honest: Path, path: Path, change, *, part: str = "classifier.npz", stored: int = zipfile.ZIP_STORED) -> Path:
    """A copy in which ``change`` has changed the arrays of one part, or the header."""
    with zipfile.ZipFile(honest) as old, zipfile.ZipFile(path, "w", stored) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == part and name.endswith(".npz"):
                arrays = dict(np.load(io.BytesIO(content)))
                change(arrays)
                buffer = io.BytesIO()
                np.savez(buffer, **arrays)
                content = buffer.getvalue()
            elif name == part:
                header = json.loads(content)
                change(header)
                content = json.dumps(header).encode()
            new.writestr(name, content)
    return path


def arrays_of(honest: Path, part: str) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(honest) as archive:
        return dict(np.load(io.BytesIO(archive.read(part))))


def test_no_number_of_a_model_may_be_missing(honest, tmp_path):
    """Each array with one NaN: every row had the first class, with probability NaN."""
    tried = 0
    for part in ("classifier.npz", "rejection.npz"):
        for name, array in arrays_of(honest, part).items():
            if array.dtype.kind != "f" or not array.size:
                continue

            def change(arrays, name=name):
                arrays[name] = arrays[name].copy()
                arrays[name].flat[-1] = np.nan

            with pytest.raises(DamagedFileError, match=r"not finite|not a number"):
                load_model(forge(honest, tmp_path / "forged", change, part=part))
            tried += 1
    assert tried > 10


def test_models_of_0_2_have_one_threshold_for_all_classes(honest, tmp_path):
    def change(arrays):
        arrays["threshold"] = np.array(0.25)

    model = load_model(forge(honest, tmp_path / "old", change, part="rejection.npz"))
    assert model.rejection.threshold.tolist() == [0.25] * len(model.rejection.centres)


@pytest.mark.parametrize("index", [-1, 36, 2**31])
def test_neighbours_are_rows_that_there_are(honest, tmp_path, index):
    def change(arrays):
        if "neighbours" not in arrays:
            pytest.skip("this preset has no neighbours")
        arrays["neighbours"] = arrays["neighbours"].astype(np.int64)
        arrays["neighbours"].flat[0] = index

    with pytest.raises(DamagedFileError, match="its neighbours are not among its 36 rows"):
        load_model(forge(honest, tmp_path / "forged", change))


@pytest.mark.parametrize(
    ("field", "value"),
    [("kind", "spirit"), ("kind", 3), ("encoder", ["x"]), ("encoder", None), ("identity", {"a": 1})],
)
def test_the_header_is_of_the_right_types(honest, tmp_path, field, value):
    path = forge(honest, tmp_path / "forged", lambda header: header.update({field: value}), part="about.json")
    with pytest.raises(DamagedFileError, match=f"its {field} is"):
        load_model(path)


def test_a_compressed_model_is_not_unpacked(honest, tmp_path):
    path = forge(honest, tmp_path / "forged", lambda arrays: None, stored=zipfile.ZIP_DEFLATED)
    with pytest.raises(DamagedFileError, match="is compressed, which no model of ours is"):
        load_model(path)


def odd(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """An array with another shape, type or range."""
    choice = int(rng.integers(6))
    if choice == 0:
        return array[..., :-1] if array.ndim and array.shape[-1] else array.reshape(1)
    if choice == 1:
        return np.full(array.shape, 10**9) if array.dtype.kind in "iuf" else np.arange(array.size)
    if choice == 2:
        return array.astype(str)
    if choice == 3:
        return array[None]
    if choice == 4:
        return np.full(array.shape, np.inf)
    return np.zeros(0)


def test_forged_arrays_are_told_or_give_finite_answers(honest, tmp_path):
    for seed in range(N_FORGED):
        rng = np.random.default_rng(seed)

        def change(arrays, rng=rng):
            name = str(rng.choice(sorted(set(arrays) - {"header"})))
            arrays[name] = odd(rng, arrays[name])

        part = ("classifier.npz", "rejection.npz")[seed % 2]
        try:
            model = load_model(forge(honest, tmp_path / "forged", change, part=part))
            assert np.isfinite(model.label(X).probabilities).all(), seed
        except DamagedFileError:
            continue


def values(rng: np.random.Generator) -> object:
    return [None, 3, -1.5, "x", [], {}, [1], ["a", None], {"a": 1}, True, "\0", 10**30][int(rng.integers(12))]


def test_forged_records_are_told(tmp_path):
    table = {name: ["a", "b"] for name in ("keys", "label", "probability", "runner_up", "review")}
    whole = {"format": "marginshot-run-1", "source": "/s", "column": "label", "named_by": ["item"]}
    whole |= {"written": [table], "said": {}, "said_of": {}, "options": {"text": "body"}}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(whole))
    assert load_record(path) is not None
    for seed in range(4 * N_FORGED):
        rng = np.random.default_rng(seed)
        forged = json.loads(json.dumps(whole))
        place = [forged, forged["written"][0], forged["options"]][seed % 3]
        name = str(rng.choice(sorted(place)))
        place[name] = values(rng)
        path.write_text(json.dumps(forged))
        try:
            record = load_record(path)
        except DamagedFileError:
            continue
        assert record is not None
        record.corrections({"item": ["a", "b"], "label": ["x", "y"]})  # raises nothing
        assert isinstance(record.classes, set)
        assert not record.is_of(tmp_path)
