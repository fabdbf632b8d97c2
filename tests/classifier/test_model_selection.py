"""Cross-validation with unlabelled rows: the folds, the scores, and what scikit-learn makes of both."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, fbeta_score, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate

from marginshot import LabelledKFold, TransductiveMaxMarginClassifier, make_labelled_scorer
from marginshot.classifier.model_selection import labelled_accuracy
from marginshot.data.rows import ParquetRows
from tasks_for_tests import of_paper

SOME = [0, 1, 9, 1, 0, 9, 9, 9, 0, 1, 9, 9]  # 9 where a row is to have no label
LABELLED, UNLABELLED = [0, 1, 3, 4, 8, 9], [2, 5, 6, 7, 10, 11]


def written(*, labels, none):
    """SOME, its labels and its gaps written otherwise."""
    return [none if code == 9 else labels[code] for code in SOME]


Y = {
    "numbers": np.array(written(labels=[4, 7], none=-1)),
    "floats": np.array(written(labels=[4.0, 7.0], none=-1.0)),
    "list": written(labels=[4, 7], none=-1),
    "empty strings": np.array(written(labels=["cat", "dog"], none="")),
    "None": written(labels=["cat", "dog"], none=None),
    "-1 among strings": written(labels=["cat", "dog"], none=-1),
    "NaN among strings": np.array(written(labels=["cat", "dog"], none=np.nan), dtype=object),
    "series": pd.Series(written(labels=["cat", "dog"], none=None), index=range(50, 62)),
    "series of string": pd.Series(written(labels=["cat", "dog"], none=None), dtype="string"),
}


def blobs(n_labelled=4, n_rows=90, apart=1.5, seed=0):
    """Rows (n_rows, 6) of three classes, ``n_labelled`` labels of each as "a", "b", "c", and the truth."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_rows) % 3
    X = apart * rng.standard_normal((3, 6))[truth] + rng.standard_normal((n_rows, 6)) + 5.0
    y = np.full(n_rows, "", dtype="<U1")
    labelled = rng.permutation(n_rows // 3)[:n_labelled, None] * 3 + np.arange(3)
    y[labelled] = np.array(["a", "b", "c"])
    return X, y, np.array(["a", "b", "c"])[truth]


def digits():
    """scikit-learn's digits, three labels a class drawn, the others −1."""
    X, truth = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.full(len(X), -1)
    for c in range(10):
        y[rng.choice(np.flatnonzero(truth == c), 3, replace=False)] = c
    return X, y


@pytest.mark.parametrize("y", Y.values(), ids=Y.keys())
@pytest.mark.parametrize("shuffle", [False, True])
def test_labelled_rows_are_tested_once_and_unlabelled_ones_always_train(y, shuffle):
    cv = LabelledKFold(n_splits=3, shuffle=shuffle, random_state=0 if shuffle else None)
    folds = list(cv.split(np.zeros((12, 2)), y))
    assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), LABELLED)
    for train, test in folds:
        assert set(UNLABELLED) <= set(train)
        assert_array_equal(np.sort(np.concatenate((train, test))), np.arange(12))
        assert sorted(SOME[row] for row in test) == [0, 1]  # stratified: one of each class


def test_every_class_is_in_every_training_part_even_with_fewer_labels_than_folds():
    y = np.array([0] * 5 + [1] * 2 + [-1] * 9)
    with pytest.warns(UserWarning, match="least populated class in y has only 2 members"):
        folds = list(LabelledKFold(n_splits=5).split(np.zeros((16, 1)), y))
    assert len(folds) == 5
    assert all({0, 1} <= set(y[train]) for train, _ in folds)
    assert all(len(test) for _, test in folds)


def test_the_seed_decides_the_folds():
    _, y, _ = blobs(n_labelled=6)

    def tests_of(**options):
        return [test.tolist() for _, test in LabelledKFold(**options).split(np.zeros((90, 1)), y)]

    assert tests_of(shuffle=True, random_state=3) == tests_of(shuffle=True, random_state=3)
    assert tests_of(shuffle=True, random_state=3) != tests_of(shuffle=True, random_state=4)
    assert tests_of() == tests_of() != tests_of(shuffle=True, random_state=3)


def test_a_splitter_as_scikit_learn_knows_them():
    cv = LabelledKFold(4, shuffle=True, random_state=1)
    assert repr(cv) == "LabelledKFold(n_splits=4, random_state=1, shuffle=True)"
    assert cv.get_n_splits() == cv.get_n_splits(None, None, None) == 4
    search = clone(GridSearchCV(of_paper(), {}, cv=cv, scoring=make_labelled_scorer()))
    assert repr(search.cv) == repr(cv)
    assert repr(search.scoring) == "make_labelled_scorer(make_scorer(accuracy_score, response_method='predict'))"


@pytest.mark.parametrize(
    ("y", "options", "sentence"),
    [
        ([0, 1, 2, 2, -1], {}, r"at least 2 labelled rows of each class; 2 of 3 classes have 1, for example 0\. Label"),
        (["a", "a", "b", "b", ""], {}, r"n_splits=3 needs a class with that many labelled rows; the largest has 2\. S"),
        ([-1] * 5, {}, r"needs labelled rows to fold; every row of y is unlabelled"),
        (None, {}, r"LabelledKFold needs y to tell labelled rows from unlabelled ones; got None"),
        ([0, 1, -1], {}, r"inconsistent numbers of samples: \[5, 3\]"),
        ([0, 0, 1, 1, np.nan], {}, r"y must be finite; .* Mark unlabelled rows of a numeric y by −1"),
        ([0, 0, 1, 1, -1], {"n_splits": 1}, r"at least one train/test split.*got n_splits=1"),
        ([0, 0, 1, 1, -1], {"random_state": 0}, r"Setting a random_state has no effect since shuffle is False"),
    ],
)
def test_folds_refused(y, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(LabelledKFold(**options).split(np.zeros((5, 2)), y))


def test_digits_with_three_labels_a_class():
    """The 1,767 unlabelled digits are told 89 % right from two labels a class (preset "auto", mean of 18 fits).

    Of 30 held-out digits that is 26.8 ± 1.7; 22 are three deviations below. A split of all rows that takes −1 for a
    class ends at 0.05.
    """
    X, y = digits()
    clf = TransductiveMaxMarginClassifier.from_preset("auto")
    scores = cross_val_score(clf, X, y, cv=LabelledKFold(shuffle=True, random_state=0))
    assert scores.shape == (3,)
    assert scores.mean() > 22 / 30


@pytest.mark.parametrize("frame", [False, True], ids=["arrays", "pandas"])
def test_a_search_over_string_labels_scores_as_done_by_hand(frame):
    X, y, truth = blobs(apart=0.7)
    given = (pd.DataFrame(X, columns=list("pqrstu")), pd.Series(y, dtype=object).replace("", None)) if frame else (X, y)
    grid, cv = [1e-3, 0.04, 10.0], LabelledKFold(4, shuffle=True, random_state=0)
    search = GridSearchCV(of_paper(), {"lambda1": grid}, cv=cv).fit(*given)
    by_hand = []
    for lambda1 in grid:
        right = []
        for train, test in cv.split(X, y):
            clf = of_paper(lambda1=lambda1).fit(X[train], y[train])
            right.append(np.mean(clf.predict(X[test]) == truth[test]))
        by_hand.append(np.mean(right))
    assert len(set(by_hand)) > 1  # lambda1 matters here
    assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_ == {"lambda1": grid[int(np.argmax(by_hand))]}
    assert len(search.best_estimator_.transduction_) == len(X)  # fitted once more, on all rows


SCORERS = {
    "accuracy": lambda clf, X, y, weight: accuracy_score(y, clf.predict(X), sample_weight=weight),
    "neg_log_loss": lambda clf, X, y, weight: -log_loss(y, clf.predict_proba(X), sample_weight=weight),
    make_scorer(fbeta_score, beta=2, average="macro"): lambda clf, X, y, weight: fbeta_score(
        y, clf.predict(X), beta=2, average="macro", sample_weight=weight
    ),
}


@pytest.mark.parametrize("scoring", SCORERS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_scorer_sees_labelled_rows_only(scoring, weighted):
    X, y, _ = blobs(n_labelled=8)
    clf = of_paper().fit(X, y)
    weight = np.linspace(0.1, 2.0, len(y)) if weighted else None
    known = y != ""
    expected = SCORERS[scoring](clf, X[known], y[known], None if weight is None else weight[known])
    params = {"sample_weight": weight} if weighted else {}
    gaps = [label or None for label in y.tolist()]
    assert make_labelled_scorer(scoring)(clf, X, gaps, **params) == pytest.approx(expected)
    assert make_labelled_scorer(scoring)(clf, pd.DataFrame(X), pd.Series(gaps), **params) == pytest.approx(expected)


def test_training_parts_and_folds_of_all_rows_are_scored_by_their_labelled_rows():
    X, y, _ = blobs(n_labelled=10)
    clf = of_paper()
    of_labelled = cross_validate(clf, X, y, cv=LabelledKFold(), scoring=make_labelled_scorer(), return_train_score=True)
    assert of_labelled["train_score"].min() > 0.8  # 20 of 80 rows have a label, so the others would leave 0.25
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(clf, X, y, cv=folds, scoring=make_labelled_scorer())
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        known = test[y[test] != ""]
        assert score == np.mean(clone(clf).fit(X[train], y[train]).predict(X[known]) == y[known])


def test_weights_reach_a_scorer_by_metadata_routing():
    X, y, _ = blobs()
    weight = np.where(y == "a", 1.0, 0.0)  # only class a counts
    cv = LabelledKFold(4)
    with config_context(enable_metadata_routing=True):
        scorer = make_labelled_scorer().set_score_request(sample_weight=True)
        clf = of_paper().set_fit_request(sample_weight=False)
        scores = cross_val_score(clf, X, y, cv=cv, scoring=scorer, params={"sample_weight": weight})
        plain = cross_val_score(clf, X, y, cv=cv, scoring=make_labelled_scorer(_recall_of_a))
    assert_array_equal(scores, plain)


def _recall_of_a(estimator, X, y):
    """A scorer that is a plain function."""
    return float(np.mean(estimator.predict(X[y == "a"]) == "a"))


def test_scores_refused():
    X, y, _ = blobs()
    clf = of_paper().fit(X, y)
    bare = np.flatnonzero(y == "")[:7]
    for score in (make_labelled_scorer(), labelled_accuracy):
        with pytest.raises(
            ValueError, match=r"at least one labelled row; all 7 rows to be scored are unlabelled\. Fol"
        ):
            score(clf, X[bare], y[bare])
        with pytest.raises(ValueError, match="A score needs the labels y of its rows; got None"):
            score(clf, X, None)
    with pytest.raises(ValueError, match="X and y need equally many rows; got 7 and 90"):
        labelled_accuracy(clf, X[:7], y)
    with pytest.raises(TypeError, match=r"scoring must be the name of a scorer or a callable; got 3\."):
        make_labelled_scorer(3)


def test_accuracy_of_the_labelled_rows_of_a_table_read_in_blocks(tmp_path):
    X, y, _ = blobs()
    clf = of_paper().fit(X, y)
    pq.write_table(pa.table({str(i): column for i, column in enumerate(X.T)}), tmp_path / "X.parquet")
    weight, known = np.linspace(0.1, 2.0, len(y)), y != ""
    expected = accuracy_score(y[known], clf.predict(X[known]), sample_weight=weight[known])
    assert labelled_accuracy(clf, ParquetRows(tmp_path / "X.parquet"), y, weight) == pytest.approx(expected)


def test_the_classifiers_own_score_ignores_unlabelled_rows():
    X, y, _ = blobs(n_labelled=10)
    clf = of_paper().fit(X, y)
    known = y != ""
    weight = np.linspace(0.1, 2.0, len(y))
    assert clf.score(X, y) == accuracy_score(y[known], clf.predict(X[known]))
    expected = accuracy_score(y[known], clf.predict(X[known]), sample_weight=weight[known])
    assert clf.score(X, y, sample_weight=weight) == pytest.approx(expected)
    scores = cross_validate(clf, X, y, cv=LabelledKFold(), return_train_score=True)
    assert scores["train_score"].min() > 0.8
    with pytest.raises(ValueError, match="all 60 rows to be scored are unlabelled"):
        clf.score(X[~known], y[~known])
