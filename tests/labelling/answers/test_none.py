"""Items that are none of the classes: told better the more are known, and proposed as new classes."""

from __future__ import annotations

import numpy as np
import pytest

from marginshot.labelling import label_embeddings
from marginshot.labelling.answers.groups import find_groups
from marginshot.labelling.answers.rejection import fit_rejection
from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.labelling.answers.suggestions import suggest_rows


@pytest.fixture
def mixed():
    """Four known classes with three examples each and two foreign ones between them: rows, classes, given."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 24))
    centres[4:] = centres[:2] + 0.8 * rng.normal(size=(2, 24))
    y = np.repeat(np.arange(6), 40)
    X = centres[y] + rng.normal(size=(240, 24))
    given = np.where((np.arange(240) % 40 < 3) & (y < 4), y, -1)
    return EmbeddingView(X.astype(np.float32)), y, given


def test_items_said_to_be_none_find_more_like_them(mixed):
    view, y, given = mixed
    foreign_rows = np.flatnonzero(y >= 4)
    found, lost = [], []
    for n_none in (0, 4, 12):
        none = np.zeros(240, dtype=bool)
        none[foreign_rows[:: 80 // n_none][:n_none] if n_none else []] = True
        _, foreign = fit_rejection(view, given, 0.05, none)
        assert foreign[none].all()
        found.append(foreign[(y >= 4) & ~none].mean())
        lost.append(foreign[(y < 4) & (given < 0)].mean())
    assert min(found[1:]) > found[0] + 0.1
    assert max(lost) <= 3 * 0.05  # 12 examples, of classes that overlap


def test_the_rule_for_new_items_knows_them_too(mixed):
    view, y, given = mixed
    none = (y >= 4) & (np.arange(240) % 2 == 0)
    later = np.flatnonzero((y >= 4) & ~none)
    before, after = (fit_rejection(view, given, 0.05, said)[0].foreign(view.X[later]).mean() for said in (None, none))
    assert after > before + 0.1


def test_an_item_said_to_be_none_is_no_example_of_a_class(mixed):
    view, y, given = mixed
    none = (y >= 4) & (np.arange(240) % 40 < 2)
    as_classes = np.where(none, 0, given)
    assert np.array_equal(fit_rejection(view, as_classes, 0.05, none)[1], fit_rejection(view, given, 0.05, none)[1])


def test_groups_of_none_are_the_foreign_classes(mixed):
    view, y, _ = mixed
    groups = find_groups(view, np.flatnonzero(y >= 4))
    assert len(groups) == 2
    for group in groups:
        assert len(set(y[group.rows].tolist())) == 1
        assert set(group.typical.tolist()) <= set(group.rows.tolist())
        assert len(group.typical) == 5


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_groups_of_a_few_rows(mixed, n):
    view, _, _ = mixed
    groups = find_groups(view, np.arange(n))
    assert sum(len(group.rows) for group in groups) <= n
    assert bool(groups) == (n >= 3)


def test_groups_of_copies_of_one_item():
    assert [len(group.rows) for group in find_groups(EmbeddingView(np.ones((6, 3))), np.arange(6))] == [6]


@pytest.mark.parametrize("n_classes", [0, 1])
def test_without_two_classes_typical_items_of_other_groups_are_suggested(mixed, n_classes):
    view, y, given = mixed
    said = np.where((given == 0) & (n_classes == 1), 0, -1)
    rows = suggest_rows(view, np.ones((240, n_classes)), said, 6)
    assert len(set(rows.tolist())) == 6
    assert len(set(y[rows].tolist()) | set(range(n_classes))) >= 5


def test_items_said_to_be_none_are_not_suggested(mixed):
    view, y, given = mixed
    said = np.where(y >= 4, -2, given)
    rows = suggest_rows(view, np.full((240, 4), 0.25), said, 200)
    assert len(rows) == (said == -1).sum()
    assert (said[rows] == -1).all()


def test_doubt_of_a_neighbourhood_goes_before_that_of_one_odd_item():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 30)
    view = EmbeddingView(5.0 * np.eye(3)[group] + 0.3 * rng.normal(size=(90, 3)))
    given = np.where(np.arange(90) % 30 < 2, group, -1)
    lead = np.where(group == 1, 0.3, 0.9)
    lead[40 - 30] = 0.1  # an odd one amid certain ones
    probabilities = np.stack(((1 + lead) / 2, (1 - lead) / 2, np.zeros(90)), axis=1)
    assert group[suggest_rows(view, probabilities, given, 1)[0]] == 1


def test_a_folder_of_which_few_classes_have_names_is_not_promised_right():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(8), 50)
    X = 4.0 * rng.normal(size=(8, 20))[truth] + rng.normal(size=(400, 20))
    is_example = np.arange(400) % 50 < 4
    two = label_embeddings(X, np.where(is_example & (truth < 2), truth.astype(str), "").tolist())
    assert two.may_lack_classes
    assert two.expected_accuracy().value < 0.5  # 0.25 are right
    every = label_embeddings(X, np.where(is_example, truth.astype(str), "").tolist())
    assert not every.may_lack_classes
    assert every.expected_accuracy().value > 0.95
    np.testing.assert_array_equal(every.answers.promised, every.answers.confidence)


@pytest.mark.parametrize(("n_features", "noise"), [(8, 0.3), (16, 0.5), (16, 0.2)])
def test_few_typical_examples_of_clear_clusters_make_nobody_foreign(n_features, noise):
    """Suggested items are typical of their cluster, and must not draw the bound so close that the others fall below."""
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 3
    X = (rng.normal(0, noise, (200, n_features)) + 2 * np.eye(n_features)[truth]).astype(np.float32)
    view, given = EmbeddingView(X), np.full(200, -1)
    for n in range(6, 14):
        given[suggest_rows(view, np.zeros((200, 0)), given, n - (given >= 0).sum())] = 0
        given = np.where(given >= 0, truth, -1)
        assert fit_rejection(view, given, 0.05)[1].mean() < 0.1, n
