"""Every format in, the same bank out; every broken file named."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from marginshot.data.features import FeatureBank, load_features, make_bank


@pytest.fixture
def bank() -> FeatureBank:
    rng = np.random.default_rng(3)
    y = np.array([2, 0, 1, 1, 0, 2, 2])
    items = [f"photo {i}.jpg" for i in range(7)]
    return make_bank(rng.normal(size=(7, 4)), y, "made", classes=["owl", "ant", "bee"], items=items)


def assert_same(loaded: FeatureBank, bank: FeatureBank) -> None:
    assert loaded.X.dtype == np.float32
    assert_array_equal(loaded.X, bank.X)
    assert_array_equal(loaded.y, bank.y)
    assert loaded.classes == bank.classes
    assert loaded.items == bank.items
    assert loaded.content_hash == bank.content_hash


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_saving_and_loading_changes_nothing(bank, tmp_path, suffix):
    path = tmp_path / f"features.{suffix}"
    bank.save(path)
    assert_same(load_features(path), bank)
    assert load_features(str(path)).source == path.name


def test_saving_under_another_suffix_is_refused(bank, tmp_path):
    with pytest.raises(ValueError, match=r"saved as \.npz or \.parquet; got .*features\.csv"):
        bank.save(tmp_path / "features.csv")
    assert list(tmp_path.iterdir()) == []


def test_digits_need_no_download():
    digits = load_features("digits")
    assert digits.X.shape == (1797, 64)
    assert digits.classes == tuple("0123456789")


def test_half_precision_is_widened_once(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float16)
    np.savez(tmp_path / "half.npz", X=X, y=np.array([0, 0, 1, 1, 2, 2]))
    loaded = load_features(tmp_path / "half.npz")
    assert loaded.X.dtype == np.float32
    assert_array_equal(loaded.X, X.astype(np.float32))


@pytest.mark.parametrize("labels", [["bee", "ant", "bee"], [b"bee", b"ant", b"bee"]])
def test_text_labels_become_sorted_classes(tmp_path, labels):
    np.savez(tmp_path / "text.npz", X=np.eye(3), y=np.array(labels))
    loaded = load_features(tmp_path / "text.npz")
    assert loaded.classes == ("ant", "bee")
    assert_array_equal(loaded.y, [1, 0, 1])


def test_numeric_labels_sort_as_numbers(tmp_path):
    np.savez(tmp_path / "numbers.npz", X=np.eye(3), y=np.array([10, 9, 10]))
    loaded = load_features(tmp_path / "numbers.npz")
    assert loaded.classes == ("9", "10")
    assert_array_equal(loaded.y, [1, 0, 1])


@pytest.mark.parametrize("labels", [[10.0, 9.0, 10.0], [[10], [9], [10]]])
def test_whole_numbers_and_columns_are_labels(tmp_path, labels):
    np.savez(tmp_path / "numbers.npz", X=np.eye(3), y=np.array(labels))
    loaded = load_features(tmp_path / "numbers.npz")
    assert loaded.classes == ("9", "10")
    assert_array_equal(loaded.y, [1, 0, 1])


def test_one_name_and_one_item_may_be_scalars(tmp_path):
    np.savez(tmp_path / "one.npz", X=np.eye(1, 3), y=np.array([0]), classes=np.array("ant"), items=np.array("a.png"))
    loaded = load_features(tmp_path / "one.npz")
    assert (loaded.classes, loaded.items) == (("ant",), ("a.png",))


@pytest.mark.parametrize("column", ["label", "class_name"])
def test_easyfsl_data_frame(tmp_path, column):
    X = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    frame = pd.DataFrame({"embedding": list(X), column: ["owl", "ant", "owl", "ant"]})
    frame.to_parquet(tmp_path / "easy.parquet")
    loaded = load_features(tmp_path / "easy.parquet")
    assert_array_equal(loaded.X, X)
    assert loaded.classes == ("ant", "owl")
    assert_array_equal(loaded.y, [1, 0, 1, 0])


def test_folder_of_one_array_per_class(tmp_path):
    np.save(tmp_path / "owl.npy", np.ones((2, 3)))
    np.save(tmp_path / "ant.npy", np.zeros((3, 3), dtype=np.float16))
    loaded = load_features(tmp_path)
    assert loaded.classes == ("ant", "owl")
    assert_array_equal(loaded.y, [0, 0, 0, 1, 1])
    assert_array_equal(loaded.X[:, 0], [0, 0, 0, 1, 1])


@pytest.mark.parametrize(
    "content",
    [
        {"ant": np.zeros((2, 3)), "owl": np.ones((1, 3))},
        {"X": np.array([[0.0] * 3, [0.0] * 3, [1.0] * 3]), "y": ["ant", "ant", "owl"]},
    ],
)
def test_pickle_only_when_allowed(tmp_path, content):
    path = tmp_path / "features.pkl"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=r"features\.pkl is a pickle, which can run any code"):
        load_features(path)
    loaded = load_features(path, allow_pickle=True)
    assert loaded.classes == ("ant", "owl")
    assert_array_equal(loaded.y, [0, 0, 1])


def test_classes_that_differ_in_type_alone_are_named(tmp_path):
    path = tmp_path / "features.pkl"
    path.write_bytes(pickle.dumps({1: np.zeros((2, 3)), "1": np.ones((1, 3))}))
    with pytest.raises(ValueError, match="two classes are called '1', a number and a string"):
        load_features(path, allow_pickle=True)


def test_objects_inside_npz_need_the_same_permission(tmp_path):
    path = tmp_path / "objects.npz"
    np.savez(path, X=np.eye(2), y=np.array(["a", "b"], dtype=object))
    with pytest.raises(ValueError, match="array 'y' holds Python objects"):
        load_features(path)
    assert load_features(path, allow_pickle=True).classes == ("a", "b")


def test_hash_follows_content():
    base = make_bank(np.eye(3), [0, 1, 1], "one")
    assert make_bank(np.eye(3), [0, 1, 1], "another file").content_hash == base.content_hash
    assert make_bank(np.eye(3) * 2, [0, 1, 1], "one").content_hash != base.content_hash
    assert make_bank(np.eye(3), [0, 0, 1], "one").content_hash != base.content_hash
    assert make_bank(np.eye(3), [0, 1, 1], "one", classes=["a", "b"]).content_hash != base.content_hash


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": [0, 1]}, r"bad\.npz: array 'X' is missing; the file holds y\."),
        ({"X": np.eye(2)}, r"array 'y' is missing; the file holds X\."),
        ({"X": np.zeros(4), "y": [0]}, r"features must have shape \(rows, features\), neither of them 0; got \(4,\)"),
        ({"X": np.zeros((0, 4)), "y": []}, r"neither of them 0; got \(0, 4\)"),
        ({"X": np.eye(2), "y": [0, 1, 1]}, r"2 rows of features need as many labels; got labels of shape \(3,\)"),
        ({"X": np.array([["a", "b"]]), "y": [0]}, r"features must be numbers; got dtype <U1"),
        ({"X": np.array([[1, 2], [3, np.nan]]), "y": [0, 1]}, "1 of 2 rows hold NaN or infinity, the first is row 1"),
        ({"X": np.eye(2), "y": [0.5, 1.0]}, "labels must be integers or text; got dtype float64"),
        ({"X": np.eye(2), "y": [0, 2], "classes": ["a", "b"]}, r"labels must lie in 0\.\.1; got 0\.\.2"),
        ({"X": np.eye(2), "y": [0, 1], "classes": ["a", "a"]}, "class names must differ; 'a' occurs twice"),
        ({"X": np.eye(2), "y": ["a", "b"], "classes": ["a", "b"]}, "labels must be indices into them; got dtype <U1"),
        ({"X": np.eye(2), "y": [0, 1], "items": ["one"]}, "2 rows of features need as many items; got 1"),
    ],
)
def test_wrong_arrays_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_features(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"label": ["a"]}, "column 'embedding' is missing; the file has label"),
        ({"embedding": [[1.0]], "topic": ["a"]}, "column 'label' is missing; the file has embedding, topic"),
        ({"embedding": [[1.0], [1.0, 2.0]], "label": ["a", "b"]}, "all embeddings must have one length; got 1, 2"),
        ({"embedding": [1.0, 2.0], "label": ["a", "b"]}, "'embedding' must hold lists of numbers; it holds double"),
        ({"embedding": [[1.0], [2.0]], "label": ["a", None]}, "1 rows have no label"),
        ({"embedding": [[1.0], [2.0]], "label": ["a", "b"], "item": ["x", None]}, "row 1 has no item"),
    ],
)
def test_wrong_columns_are_named(tmp_path, frame, message):
    pd.DataFrame(frame).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=message):
        load_features(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bad.npz", r"bad\.npz is damaged, or not a readable \.npz file"),
        ("bad.parquet", r"bad\.parquet is damaged, or not a readable Parquet file"),
        ("bad.csv", r"The format of 'bad\.csv' is unknown: the suffix must be one of \.npz, \.parquet"),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, message):
    (tmp_path / name).write_bytes(b"not what the suffix says")
    with pytest.raises(ValueError, match=message):
        load_features(tmp_path / name)


def test_truncated_archive_is_named(tmp_path):
    path = tmp_path / "short.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(50, 8)), y=np.arange(50))
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[200:600] = bytes(400)
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"short\.npz is damaged, or not features: array 'X' cannot be read"):
        load_features(path)
    path.write_bytes(whole[:300])
    with pytest.raises(ValueError, match=r"short\.npz is damaged, or not a readable \.npz file"):
        load_features(path)


def test_missing_file_says_what_to_give():
    with pytest.raises(FileNotFoundError, match=r"No features at 'nowhere\.npz'\. Give a file, a folder"):
        load_features("nowhere.npz")


def test_wrong_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"needs one \.npy per class; it holds none"):
        load_features(tmp_path)
    np.save(tmp_path / "ant.npy", np.zeros((3, 4)))
    np.save(tmp_path / "owl.npy", np.zeros((3, 5)))
    with pytest.raises(ValueError, match="equal n_features; class 'ant' has 4, class 'owl' has 5"):
        load_features(tmp_path)
    np.save(tmp_path / "owl.npy", np.zeros(5))
    with pytest.raises(ValueError, match=r"class 'owl' must have shape \(rows, features\); got \(5,\)"):
        load_features(tmp_path)
    (tmp_path / "owl.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match=r"owl\.npy is damaged, or not a readable \.npy array"):
        load_features(tmp_path)


@pytest.mark.parametrize("label", [np.inf, 1e300, np.nan])
def test_labels_that_are_no_whole_numbers_are_refused(label):
    with pytest.raises(ValueError, match="labels must be integers or text; got dtype float64"):
        make_bank(np.eye(3), [0.0, 1.0, label], "three rows")


def test_names_of_any_kind():
    bank = make_bank(np.eye(2), [0, 1], "two", classes={b"ant": 1, "bee": 2}.keys(), items=np.array([b"a", b"b"]))
    assert (bank.classes, bank.items) == (("ant", "bee"), ("a", "b"))


@pytest.mark.parametrize(
    ("rows", "labels"), [("features", "labels"), ("data", "labels"), ("embeddings", "targets"), ("arr_0", "arr_1")]
)
def test_arrays_under_other_names(tmp_path, rows, labels):
    np.savez(tmp_path / "some.npz", **{rows: np.eye(3), labels: ["a", "b", "a"]})
    bank = load_features(tmp_path / "some.npz")
    assert (bank.classes, bank.y.tolist()) == (("a", "b"), [0, 1, 0])
    (tmp_path / "some.pkl").write_bytes(pickle.dumps({rows: np.eye(3), labels: ["a", "b", "a"]}))
    again = load_features(tmp_path / "some.pkl", allow_pickle=True)
    assert again.content_hash == bank.content_hash


def test_rounded_features_come_back_in_their_unit(tmp_path):
    X = np.array([[0, 255], [3, 40], [7, 0]], dtype=np.uint8)
    np.savez_compressed(tmp_path / "some.npz", X=X, y=[0, 1, 1], scale=np.float32(0.05))
    bank = load_features(tmp_path / "some.npz")
    assert bank.X.dtype == np.float32
    np.testing.assert_allclose(bank.X, X * 0.05, rtol=1e-6)
    np.savez(tmp_path / "float.npz", X=np.eye(3), y=[0, 1, 1], scale=0.05)  # means something else, or nothing
    assert load_features(tmp_path / "float.npz").X.max() == 1.0


@pytest.mark.parametrize("scale", [0, -1.0, np.nan, np.inf, [1.0, 2.0], "big"])
def test_a_scale_is_one_positive_number(tmp_path, scale):
    np.savez(tmp_path / "some.npz", X=np.eye(3, dtype=np.int8), y=[0, 1, 1], scale=scale)
    with pytest.raises(ValueError, match=r"some\.npz: scale must be one number above 0; the file holds"):
        load_features(tmp_path / "some.npz")


def test_names_nobody_knows_are_listed(tmp_path):
    np.savez(tmp_path / "some.npz", vectors=np.eye(2), y=[0, 1])
    with pytest.raises(ValueError, match=r"array 'X' is missing; the file holds vectors, y\. Other names .* features,"):
        load_features(tmp_path / "some.npz")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_tensors_are_read_without_torchs_loader(tmp_path, dtype):
    torch = pytest.importorskip("torch")
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    y = torch.tensor([2, 2, 0, 0, 1, 1])
    expected = rows.float().numpy()
    for content in (
        {"X": rows, "y": y},
        {"data": rows, "labels": y},
        (rows, y),
        {"X": rows.t().contiguous().t(), "y": y},
    ):
        torch.save(content, tmp_path / "some.pt")
        bank = load_features(tmp_path / "some.pt")
        np.testing.assert_array_equal(bank.X, expected)
        assert bank.y.tolist() == y.tolist()
    torch.save({"cat": rows[:2], "dog": rows[2:]}, tmp_path / "classes.pth")
    bank = load_features(tmp_path / "classes.pth")
    assert (bank.classes, bank.y.tolist()) == (("cat", "dog"), [0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(bank.X, expected)


def test_a_file_of_torch_runs_no_code(tmp_path):
    torch = pytest.importorskip("torch")
    touched = tmp_path / "touched"

    class Sly:
        def __reduce__(self):
            return type(touched).touch, (touched,)

    torch.save({"X": Sly(), "y": torch.zeros(2)}, tmp_path / "sly.pt")
    with pytest.raises(ValueError, match=r"sly\.pt is damaged, or not a file of tensors .*which is no tensor"):
        load_features(tmp_path / "sly.pt")
    assert not touched.exists()


def test_damaged_files_of_torch_are_named(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "some.pt"
    torch.save({"X": torch.eye(3), "y": torch.arange(3)}, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=r"it is cut off, or in torch's format of before version 1\.6"):
        load_features(path)
    torch.save(torch.eye(3), path)
    with pytest.raises(ValueError, match=r"some\.pt must hold embeddings and labels \(X and y\).*it holds ndarray"):
        load_features(path)
    torch.save([1.0, "text"], path)
    with pytest.raises(ValueError, match=r"some\.pt: features must have shape"):
        load_features(path)


def test_names_and_prior_are_read_and_kept(tmp_path):
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 0, 0, 1, 1, 1])
    names, prior = np.ones((2, 2)), np.full((6, 2), 0.5)
    np.savez(tmp_path / "one.npz", X=X, y=y, text_features=names, prior=prior)
    bank = load_features(tmp_path / "one.npz")
    assert_array_equal(bank.names, names)
    assert_array_equal(bank.prior, prior)
    bank.save(tmp_path / "two.npz")
    again = load_features(tmp_path / "two.npz")
    assert_array_equal(again.names, names)
    assert_array_equal(again.prior, prior)
    plain = make_bank(X, y, "plain")
    assert again.content_hash == bank.content_hash
    assert len({bank.content_hash, plain.content_hash, make_bank(X, y, "named", names=names).content_hash}) == 3
    with pytest.raises(ValueError, match=r"A \.parquet file has no room for embedded class names or a prior"):
        bank.save(tmp_path / "three.parquet")


def test_names_and_priors_of_another_kind_are_left_alone():
    bank = make_bank(
        np.ones((4, 2)), [0, 0, 1, 1], "of others", names=np.array([["a", "b"]]), prior=np.array([0.5, 0.5])
    )
    assert bank.names is None
    assert bank.prior is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"names": np.ones((3, 2))}, r"numbers of shape \(classes, features\), \(2, 2\) here; got float64 of shape"),
        ({"names": np.full((2, 2), np.nan)}, "embedded class names hold NaN or infinity"),
        ({"prior": np.ones((2, 6))}, r"a prior has a number for every row and class, shape \(6, 2\); got float64 of"),
        ({"prior": -np.ones((6, 2))}, "a prior holds probabilities, finite and at least 0"),
    ],
)
def test_names_and_priors_that_do_not_fit_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        make_bank(np.ones((6, 2)), np.array([0, 0, 0, 1, 1, 1]), "strange", **given)


def test_a_folder_is_called_by_its_name_from_inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((2, 3)))
    np.save("b.npy", np.ones((2, 3)))
    assert load_features(".").source == tmp_path.name
