"""A folder of two cameras with examples by one: the command says so, and the other camera is not all one class."""

import json

import numpy as np

from marginshot.labelling import label_embeddings
from marginshot.labelling.answers.classify import of_domains_without_examples


def test_items_of_another_camera_are_told(tmp_path, run):
    rng = np.random.default_rng(0)
    truth, camera = np.repeat(np.arange(10), 40), np.arange(400) % 2
    X = 3.0 * rng.normal(size=(10, 30))[truth] + rng.normal(size=(400, 30)) + np.outer(camera, np.full(30, 9.0))
    names = np.where((camera == 0) & (np.arange(400) % 40 < 4), [f"class {c}" for c in truth], "")
    found = label_embeddings(X, names.tolist())
    assert found.n_unlike == 200
    np.testing.assert_array_equal(found.answers.unlike, camera == 1)
    right = np.array(found.labels)[camera == 1] == [f"class {c}" for c in truth[camera == 1]]
    assert right.mean() > 0.8

    np.savez(tmp_path / "two.npz", X=X, label=names)
    _, out, _ = run("label", tmp_path / "two.npz", "--label", "label", "--out", tmp_path / "out.csv", "--json")
    assert json.loads(out)["unlike_examples"] == 200
    _, _, told = run("label", tmp_path / "two.npz", "--label", "label", "--out", tmp_path / "again.csv")
    assert "200 items look unlike all your examples, as from another source" in " ".join(told.split())


def test_one_camera_is_not_told_of():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 60)
    X = 4.0 * rng.normal(size=(5, 20))[truth] + rng.normal(size=(300, 20))
    names = np.where(np.arange(300) % 60 < 3, [f"class {c}" for c in truth], "")
    assert label_embeddings(X, names.tolist()).n_unlike == 0


def test_names_alone_are_no_examples_to_be_unlike():
    """Texts labelled by names are not all "unlike your examples", however far names lie from texts."""
    rows, known = np.repeat([0, 1], (200, 4)), np.repeat([-1, 0], (200, 4))
    assert not of_domains_without_examples(rows, known, 200).any()
    known[7] = 1
    assert not of_domains_without_examples(rows, known, 200).any()
    rows[100:200] = 2
    assert of_domains_without_examples(rows, known, 200).sum() == 100
