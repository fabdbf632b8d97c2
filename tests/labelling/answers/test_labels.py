"""Labels, foreign items and suggestions on embeddings."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.sparse import csr_array

from marginshot.labelling import label_embeddings, label_texts, load_model
from marginshot.labelling.answers import rejection, suggestions
from marginshot.labelling.answers.classify import LabelSettings, NamedRows, label_named_rows
from marginshot.labelling.answers.embedding_map import embedding_map
from marginshot.labelling.answers.rejection import fit_rejection
from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.labelling.answers.suggestions import suggest_rows
from marginshot.labelling.outputs.exports import EXPORTS
from marginshot.labelling.outputs.formats import Tool
from marginshot.model import neighbour_search


@pytest.fixture
def blobs():
    """Four classes in 20 dimensions, 25 rows each; two examples of each of the first three."""
    rng = np.random.default_rng(3)
    centres = 2.0 * rng.normal(size=(4, 20))
    y = np.repeat(np.arange(4), 25)
    X = centres[y] + rng.normal(size=(100, 20))
    labels = [""] * 100
    for c, name in enumerate(["ash", "oak", "yew"]):
        labels[25 * c] = labels[25 * c + 1] = name
    return X, y, labels


def test_given_labels_stay_and_the_rest_is_found(blobs):
    X, y, labels = blobs
    result = label_embeddings(X[:75], labels[:75], items=[f"tree {i}" for i in range(75)])
    columns = result.columns()
    assert columns["item"][3] == "tree 3"
    assert columns["label"] == [["ash", "oak", "yew"][c] for c in y[:75]]
    given = [place for place, review in enumerate(columns["review"]) if review == "example"]
    assert given == [0, 1, 25, 26, 50, 51]
    assert [columns["runner_up"][place] for place in given] == [""] * 6
    assert result.counts() == {"ash": 25, "oak": 25, "yew": 25}


def test_a_labelling_is_shown_in_a_line(blobs):
    X, _, labels = blobs
    assert repr(label_embeddings(X, labels)).startswith("Labelling(")
    assert len(repr(label_embeddings(X, labels))) < 200


def test_table_as_a_frame_and_as_html(blobs, tmp_path):
    X, _, labels = blobs
    result = label_embeddings(X, labels, items=["<b>&", *map(str, range(99))])
    frame = result.to_pandas()
    assert list(frame.columns) == ["item", "label", "probability", "runner_up", "review"]
    assert "&lt;b&gt;&amp;" in result._repr_html_()
    result.save(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()[1].startswith("<b>&,ash,1.0,,example")


def test_items_of_a_class_without_examples_are_foreign(blobs):
    X, y, labels = blobs
    result = label_embeddings(X, labels, reject=True)
    stranger = np.array([label == "" for label in result.labels])
    assert stranger[y == 3].mean() > 0.9
    assert stranger[y < 3].mean() < 0.15
    assert {result.reviews[row] for row in np.flatnonzero(stranger)} == {"none of the classes"}


def test_the_bound_is_a_rank_among_those_seen_and_falls_below_them_where_they_are_few():
    seen = np.arange(1.0, 20.0)
    assert rejection._low_bound(seen, 0.05) == 1.0  # rank 0.05 * 20
    assert rejection._low_bound(seen, 0.075) == 1.5
    assert rejection._low_bound(seen[:9], 0.05) < 1.0  # rank 0.5
    mean, deviation = seen[:9].mean(), seen[:9].std(ddof=1)
    expected = mean + stats.t.ppf(0.05, 8) * np.sqrt(1 + 1 / 9) * deviation
    assert rejection._low_bound(seen[:9], 0.05) == pytest.approx(min(expected, 1.0))


def noisy_classes(seed, n_classes, n_examples):
    """Rows (300, 30) of overlapping classes, and the class of each example."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 300 // n_classes)
    X = rng.normal(size=(n_classes, 30))[y] + rng.normal(size=(300, 30))
    place = np.arange(300) % (300 // n_classes)
    return EmbeddingView(X), np.where(place < n_examples[y], y, -1)


@pytest.mark.parametrize("lose", [0.05, 0.2])
def test_where_no_class_is_missing_fewer_are_lost_than_may_be(lose):
    lost = []
    for seed in range(40):
        view, given = noisy_classes(seed, 5, np.full(5, 5))
        rule, foreign = fit_rejection(view, given, lose)
        lost.append((foreign[given < 0].mean(), rule.foreign(view.X)[given < 0].mean()))
    within, later = np.mean(lost, axis=0)
    assert within < lose / 2
    assert later < lose / 2


def test_a_class_of_one_example_is_not_measured_by_the_others():
    lost = []
    for seed in range(20):
        view, given = noisy_classes(seed, 5, np.array([1, 20, 20, 20, 20]))
        lost.append(fit_rejection(view, given, 0.05)[1][:60].mean())
    assert np.mean(lost) < 0.15  # with one bound for all classes it is 0.34


def test_with_one_example_a_class_nothing_shows_what_is_foreign(blobs):
    X, y, _ = blobs
    given = np.where(np.arange(100) % 25 == 0, y, -1)
    rule, foreign = fit_rejection(EmbeddingView(X), given, 0.1)
    assert not foreign.any()
    assert not rule.foreign(X).any()


def test_suggestions_are_unlabelled_distinct_and_repeatable(blobs):
    X, _, labels = blobs
    result = label_embeddings(X, labels, suggest=12)
    rows = list(result.answers.suggested)
    assert len(set(rows)) == 12
    assert all(labels[row] == "" for row in rows)
    assert list(label_embeddings(X, labels, suggest=12).answers.suggested) == rows
    assert result.suggestions()["item"][0] == f"row {rows[0] + 1}"


def test_more_suggestions_than_items(blobs):
    X, _, labels = blobs
    assert len(label_embeddings(X, labels, suggest=500).answers.suggested) == 94


def test_suggestions_spread_over_the_doubtful_groups():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 20)
    X = 5.0 * np.eye(20)[group] + rng.normal(size=(80, 20))
    probabilities = np.where(group[:, None] < 3, [0.5, 0.5], [1.0, 0.0])
    probabilities[group == 1] = [0.9, 0.1]
    given = np.full(80, -1)
    given[[0, 20, 40, 60]] = [0, 1, 0, 1]
    rows = suggest_rows(EmbeddingView(X), probabilities, given, 3)
    # One from each doubtful group, none from the certain one; the least doubtful of the three comes last.
    assert sorted(group[rows].tolist()) == [0, 1, 2]
    assert group[rows[-1]] == 1


def test_groups_without_a_label_are_asked_about_though_the_answers_are_sure():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), [30, 20, 10, 20])
    X = 5.0 * np.eye(20)[group] + rng.normal(size=(80, 20))
    X[35] += 2.0  # an odd one of group 1
    given = np.full(80, -1)
    given[[0, 79]] = [0, 1]
    # The classifier is sure of everything, also of groups 1 and 2, of which it knows nothing.
    probabilities = np.where(group[:, None] == 0, [1.0, 0.0], [0.0, 1.0])
    rows = suggest_rows(EmbeddingView(X), probabilities, given, 2)
    assert group[rows].tolist() == [1, 2]
    assert 35 not in rows


def test_each_suggestion_covers_most_of_the_errors_left():
    rng = np.random.default_rng(0)
    view = EmbeddingView(rng.normal(size=(60, 5)))
    probabilities = rng.dirichlet(np.ones(3), size=60)
    given = np.where(np.arange(60) < 6, np.arange(60) % 3, -1)
    cosines = np.maximum(view.sketch @ view.sketch.T, 0.0)
    weights = 1.0 - probabilities[6:].max(axis=1) + suggestions.DISTRUST * 0.5

    def covered(rows):
        return float(weights @ cosines[6:, rows].max(axis=1))

    chosen = list(range(6))
    for row in suggest_rows(view, probabilities, given, 54).tolist()[:25]:
        best = max(covered([*chosen, other]) for other in range(60))
        chosen.append(row)
        assert covered(chosen) == pytest.approx(best, rel=1e-5)


def test_fewer_suggestions_are_the_first_of_more(blobs):
    X, _, labels = blobs
    few, many = (label_embeddings(X, labels, suggest=n).answers.suggested for n in (5, 20))
    assert many[:5] == few


def test_doubtful_rows_are_found_among_many(monkeypatch):
    monkeypatch.setattr(suggestions, "_MOST_ROWS", 50)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    doubtful = rng.permutation(2000)[:40]
    probabilities = np.tile([1.0, 0.0], (2000, 1))
    probabilities[doubtful] = 0.5
    given = np.where(np.isin(np.arange(2000), doubtful), -1, 0)
    given[rng.permutation(2000)[:600]] = -1  # 1,400 labels: the answers are trusted
    rows = suggest_rows(EmbeddingView(X), probabilities, given, 100)
    assert set(rows[:10].tolist()) <= set(doubtful.tolist())
    assert len(set(rows.tolist())) == 100
    assert (given[rows] == -1).all()


def test_suggestions_among_copies_of_one_item():
    rows = suggest_rows(EmbeddingView(np.ones((6, 3))), np.full((6, 2), 0.5), np.full(6, -1), 4)
    assert len(set(rows.tolist())) == 4


def test_a_saved_model_says_the_same_and_holds_no_pickle(blobs, tmp_path):
    X, _, labels = blobs
    result = label_embeddings(X, labels)
    result.model.save(tmp_path / "model")
    assert b"cpickle" not in (tmp_path / "model").read_bytes().lower()
    loaded = load_model(tmp_path / "model")
    fresh = X + 0.01
    np.testing.assert_array_equal(loaded.label(fresh).probabilities, result.model.label(fresh).probabilities)
    np.testing.assert_array_equal(loaded.label(fresh).foreign, result.model.label(fresh).foreign)
    with pytest.raises(ValueError, match="fitted on 20 features; got 19"):
        loaded.label(fresh[:, :-1])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b"], "equal lengths; got 3 and 2"),
        (["a", "A", ""], "differ only in case"),
        (["cat", "c\u200bat", ""], "differ only in case"),
        (["a", "\u200b", ""], r"the class '\\u200b' has no visible character"),
        (["a", "", ""], "there is only 'a'"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        label_embeddings(np.eye(3), labels)


def test_labels_of_all_items_are_the_answer():
    result = label_embeddings(np.eye(3), ["a", "b", "a"], suggest=2)
    assert result.labels == ("a", "b", "a")
    assert result.collection.notes == ("Every item has a label, so no answer was needed.",)
    assert result.suggestions()["item"] == []


def test_bad_embeddings():
    with pytest.raises(ValueError, match="1 rows hold NaN or infinity, the first is row 2"):
        label_embeddings([[0.0], [np.nan]], ["a", "b"])
    with pytest.raises(ValueError, match="of one length"):
        label_embeddings([[0.0], [1.0, 2.0]], ["a", "b"])


def test_large_sets_keep_their_neighbours(monkeypatch, blobs):
    X, y, labels = blobs
    monkeypatch.setattr(neighbour_search, "LARGEST_EXACT", 50)
    result = label_embeddings(X, labels, suggest=4)
    assert result.model.classifier.n_neighbors > 0
    assert np.mean(result.answers.best[y < 3] == y[y < 3]) > 0.9


def test_map_is_the_same_twice_and_places_everything(monkeypatch, blobs):
    X, y, _ = blobs
    monkeypatch.setattr("marginshot.labelling.answers.embedding_map.LARGEST_MAP", 60)
    points = embedding_map(X)
    np.testing.assert_array_equal(points, embedding_map(X))
    assert points.min() >= 0
    assert points.max() <= 1
    centres = np.array([points[y == c].mean(axis=0) for c in range(4)])
    nearest = np.linalg.norm(points[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == y).mean() > 0.8
    assert embedding_map(X[:3]).shape == (3, 2)


@pytest.mark.parametrize(
    "X", [np.ones((60, 5)), np.ones((60, 1)), np.arange(60.0)[:, None], np.eye(5)[np.arange(60) % 3]]
)
def test_a_map_of_rows_that_hardly_differ(X):
    points = embedding_map(X)
    assert points.shape == (60, 2)
    assert np.isfinite(points).all()


@pytest.mark.parametrize(
    "marked",
    [
        lambda y: np.where(y < 2, y, -1).astype(float),
        lambda y: pd.array(np.where(y < 2, y, -1)).astype("Int64"),
        lambda y: pd.array([None if c > 1 else str(c) for c in y], dtype="string"),
        lambda y: [None if c > 1 else c for c in y],
    ],
)
def test_unknown_labels_of_any_kind(blobs, marked):
    X, y, _ = blobs
    shown = np.where(np.arange(100) % 25 < 3, y, 9)
    result = label_embeddings(X[:50], marked(shown[:50]))
    assert result.labels == tuple(map(str, y[:50]))


def test_missing_and_empty_texts_get_no_label(encoded):
    found = label_texts(["red wine", "green tea", None, np.nan, " ", "tea"], ["a", "b", "", "", "", ""], cache=False)
    assert sorted(encoded) == ["green tea", "red wine", "tea"]
    assert found.problems == dict.fromkeys(["row 3", "row 4", "row 5"], "has no text")
    assert found.columns()["item"] == ["row 1", "row 2", "row 6"]


def test_a_sparse_matrix_is_named():
    with pytest.raises(ValueError, match=r"X: a sparse matrix cannot be labelled; pass X\.toarray\(\)"):
        label_embeddings(csr_array(np.eye(4)), ["a", "b", "", ""])


def test_a_model_takes_lists(blobs):
    X, _, labels = blobs
    model = label_embeddings(X, labels).model
    np.testing.assert_array_equal(model.label(X.tolist()).best, model.label(X).best)


def test_exports_of_texts(encoded, tmp_path):
    result = label_texts(
        ["late train", "train is late", "sweet cake", "cake <is> sweet"], ["travel", "", "food & co", ""]
    )
    for tool in (Tool.LABEL_STUDIO, Tool.BULK):
        EXPORTS[tool].write(result, EXPORTS[tool].paths(tmp_path))
    tasks = json.loads((tmp_path / "label-studio.json").read_text(encoding="utf-8"))
    assert tasks[3]["data"] == {"text": "cake <is> sweet"}
    prediction = tasks[3]["predictions"][0]
    assert prediction["result"][0]["value"] == {"choices": ["food & co"]}
    assert 0 < prediction["score"] <= 1
    config = (tmp_path / "label-studio.xml").read_text(encoding="utf-8")
    assert '<Choice value="food &amp; co"/>' in config
    header, first, *_ = (tmp_path / "bulk.csv").read_text(encoding="utf-8").splitlines()
    assert header == "text,x,y,color"
    assert first.startswith("late train,")


def test_old_items_alone_are_an_expert_that_fades():
    rng = np.random.default_rng(0)
    truth, old = np.tile(np.arange(3), 60), np.arange(180) < 90
    X = 2.0 * rng.normal(size=(3, 10))[truth] + rng.normal(size=(180, 10)) + 6.0 * ~old[:, None]
    given = np.where(old & (np.arange(180) < 15), truth, -1)

    def probabilities(given, classes, old=old):
        answers, classifier, _ = label_named_rows(NamedRows(X, None, old=old), given, classes, LabelSettings(suggest=5))
        assert not old[list(answers.suggested)].any()
        np.testing.assert_allclose(answers.probabilities.sum(axis=1), 1.0)
        return answers, classifier.label_distributions_

    answers, alone = probabilities(given, ("a", "b", "c"))
    assert np.mean(answers.best[~old] == truth[~old]) > 0.85
    unlabelled = old & (given < 0)
    np.testing.assert_allclose(answers.probabilities[unlabelled], alone[unlabelled])
    first = np.abs(answers.probabilities - alone)[~old].mean()
    many = np.where(~old & (np.arange(180) < 150), truth, given)
    answers, alone = probabilities(many, ("a", "b", "c"))
    assert 0 < np.abs(answers.probabilities - alone)[~old & (many < 0)].mean() < 0.5 * first
    # A class that the old items lack keeps the probability that it has without them.
    fourth = given.copy()
    fourth[[90, 93]] = 3
    answers, alone = probabilities(fourth, ("a", "b", "c", "d"))
    np.testing.assert_allclose(answers.probabilities[~old & (fourth < 0), 3], alone[~old & (fourth < 0), 3])
