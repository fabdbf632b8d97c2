"""What the page is told of labels that look wrong, and of items unlike all examples."""

import numpy as np
import pytest
from serving import running

from marginshot.labelling import Session


@pytest.fixture
def mislabelled(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 40)
    X = 4.0 * rng.normal(size=(5, 20))[truth] + rng.normal(size=(200, 20))
    with running(Session.from_embeddings(X), tmp_path / "cache") as client:
        for c in range(5):
            rows = [40 * c + i for i in range(6)]
            client.act("label", rows=rows, name=f"class {c}")
        yield client


def test_a_label_that_looks_wrong_is_listed_until_it_is_changed(mislabelled):
    wrong = mislabelled.act("label", rows=[0], name="class 3")
    mislabelled.wait_for_answers(wrong["version"])
    project = mislabelled.get("/api/project").json
    assert project["n_doubts"] == 1
    (doubt,) = mislabelled.get("/api/doubts").json
    names = {known["id"]: known["name"] for known in project["classes"]}
    assert (doubt["row"], names[doubt["other"]]) == (0, "class 0")
    right = mislabelled.act("label", rows=[0], name="class 0")
    mislabelled.wait_for_answers(right["version"])
    assert mislabelled.get("/api/doubts").json == []
    assert mislabelled.get("/api/project").json["n_doubts"] == 0


def test_items_of_another_camera_are_listed(tmp_path):
    rng = np.random.default_rng(0)
    truth, camera = np.repeat(np.arange(10), 40), np.arange(400) % 2
    X = 3.0 * rng.normal(size=(10, 30))[truth] + rng.normal(size=(400, 30)) + np.outer(camera, np.full(30, 9.0))
    with running(Session.from_embeddings(X), tmp_path / "cache") as client:
        for c in range(10):
            done = client.act("label", rows=[40 * c + 2 * i for i in range(2)], name=f"class {c}")
        client.wait_for_answers(done["version"])
        assert client.get("/api/project").json["n_unlike"] == 200
        assert client.get("/api/unlike").json == np.flatnonzero(camera == 1).tolist()
