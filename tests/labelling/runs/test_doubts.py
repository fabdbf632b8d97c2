"""Labels that look wrong: found by the other labels, and named."""

import errno
import json
from types import SimpleNamespace

import numpy as np
import pytest

from marginshot import TransductiveMaxMarginClassifier
from marginshot.labelling import Session, label_embeddings
from marginshot.labelling.answers.doubts import find_doubts
from marginshot.labelling.session import events


@pytest.fixture
def mislabelled():
    """Five clear classes with six labels each, of which row 0 and row 1 have those of another class."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 40)
    X = 4.0 * rng.normal(size=(5, 20))[truth] + rng.normal(size=(200, 20))
    names = np.where(np.arange(200) % 40 < 6, [f"class {c}" for c in truth], "").astype("<U8")
    names[[0, 1]] = "class 3", "class 2"
    return X, names


def test_wrong_labels_are_found_and_no_others(mislabelled):
    X, names = mislabelled
    found = label_embeddings(X, names.tolist())
    assert {doubt[:3] for doubt in found.doubts} == {
        ("row 1", "class 3", "class 0"),
        ("row 2", "class 2", "class 0"),
    }
    assert all(doubt[3] > 0.5 for doubt in found.doubts)
    right = names.copy()
    right[[0, 1]] = "class 0"
    assert label_embeddings(X, right.tolist()).doubts == []


def test_the_command_names_them(mislabelled, tmp_path, run):
    X, names = mislabelled
    np.savez(tmp_path / "t.npz", X=X, label=names)
    _, out, told = run("label", tmp_path / "t.npz", "--label", "label", "--out", tmp_path / "out.csv", "--json")
    assert {doubt["item"] for doubt in json.loads(out)["labels_in_doubt"]} == {"row 1", "row 2"}
    _, _, told = run("label", tmp_path / "t.npz", "--label", "label", "--out", tmp_path / "again.csv")
    told = " ".join(told.split())
    assert "2 labels look wrong: " in told
    assert "row 1 is labelled 'class 3', the others make it 'class 0' (" in told


def test_a_session_keeps_them_until_the_label_changes(mislabelled):
    X, names = mislabelled
    session = Session.from_embeddings(X)
    session.label({row: name for row, name in enumerate(names.tolist()) if name})
    assert {doubt.row for doubt in session.solve(complete=True).doubts} == {0, 1}
    session.label({0: "class 0"})
    assert {doubt.row for doubt in session.solve().doubts} == {1}


def test_a_label_given_again_is_not_doubted_once_the_log_has_it(mislabelled, monkeypatch):
    X, names = mislabelled
    session = Session.from_embeddings(X)
    session.label({row: name for row, name in enumerate(names.tolist()) if name})

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(events, "json", SimpleNamespace(dumps=full))
        with pytest.raises(OSError, match="No space left"):
            session.label({0: names[0], 1: names[1]})
    assert {doubt.row for doubt in session.solve(complete=True).doubts} == {0, 1}
    session.label({0: names[0]})
    assert {doubt.row for doubt in session.solve(complete=True).doubts} == {1}


def test_a_label_with_nothing_to_compare_is_not_doubted():
    X = np.random.default_rng(0).normal(size=(30, 6))
    y = np.full(30, -1)
    y[:3] = 0, 1, 2
    classifier = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    assert classifier.hidden_rows_.shape == (0,)
    assert classifier.hidden_distributions_.shape == (0, 3)
    assert find_doubts(classifier, y, np.arange(3)) == ()


def test_probabilities_of_hidden_rows_are_those_of_the_others(mislabelled):
    X, names = mislabelled
    classifier = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, names)
    np.testing.assert_array_equal(np.sort(classifier.hidden_rows_), np.flatnonzero(names != ""))
    np.testing.assert_allclose(classifier.hidden_distributions_.sum(axis=1), 1.0)
    best = classifier.classes_[classifier.hidden_distributions_.argmax(axis=1)]
    truth = np.array([f"class {row // 40}" for row in classifier.hidden_rows_])
    assert (best == truth).all()
