import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginshot import CentreAndNormalise, DiscriminantTransform, TransductiveMaxMarginClassifier
from marginshot.evaluation.whitening import WithinClassWhitening
from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.labelling.answers.suggestions import suggest_rows
from marginshot.methods._preparation import signed_power
from marginshot.model.transforms import centre_and_normalize, l2_normalize


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 3, 5)) + 4.0, rng.standard_normal((2, 7, 5)) + 4.0


def test_rows_get_unit_length_and_zeros_stay(task):
    rows = task[0]
    rows[0, 1] = 0.0
    lengths = np.linalg.norm(l2_normalize(rows), axis=2)
    assert_allclose(lengths, [[1, 0, 1], [1, 1, 1]])


def test_task_centre_is_the_transformers(task):
    support, query = centre_and_normalize(*task, "task")
    for t in range(2):
        together = CentreAndNormalise().fit_transform(np.concatenate([task[0][t], task[1][t]]))
        assert_allclose(np.concatenate([support[t], query[t]]), together, atol=1e-12)


def test_support_centre_leaves_queries_out(task):
    support, query = task
    moved = query + 100.0
    assert_array_equal(
        centre_and_normalize(support, query, "support")[0], centre_and_normalize(support, moved, "support")[0]
    )
    assert_allclose(centre_and_normalize(support, support.mean(axis=1, keepdims=True), "support")[1], 0.0)


def test_row_equal_to_the_mean_has_no_direction():
    """In single precision the difference is rounding, which would otherwise be blown up to unit length."""
    rows = np.full((1, 6, 300), 0.1, dtype=np.float32)
    support, query = centre_and_normalize(rows[:, :3], rows[:, 3:], "task")
    assert not support.any()
    assert not query.any()


def test_the_power_keeps_the_sign_of_a_feature():
    assert_allclose(signed_power(np.array([[[4.0, 0.0, -9.0]]]), 0.5), [[[2.0, 1e-3, -3.0]]], rtol=1e-6)


def test_inputs_stay_as_they_were(task):
    copies = [a.copy() for a in task]
    centre_and_normalize(*task, "task")
    l2_normalize(task[0])
    signed_power(task[1], 0.5)
    for a, copy in zip(task, copies, strict=True):
        assert_array_equal(a, copy)


TRANSFORMERS = [CentreAndNormalise, DiscriminantTransform, WithinClassWhitening]
LABELS = np.repeat([0, 1, 2], 4)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3, 5))[LABELS] + rng.standard_normal((12, 5))
    return pd.DataFrame(rows, columns=["height", "width", "depth", "mass", "age"], index=range(100, 112))


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_feature_names_are_kept_and_given(transformer, frame):
    fitted = transformer().set_output(transform="pandas").fit(frame, LABELS)
    assert_array_equal(fitted.feature_names_in_, frame.columns)
    assert_array_equal(fitted.get_feature_names_out(), frame.columns)
    rows = fitted.transform(frame)
    assert_array_equal(rows.columns, frame.columns)
    assert_array_equal(rows.index, frame.index)
    assert_allclose(rows, transformer().fit(frame.to_numpy(), LABELS).transform(frame.to_numpy()))
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        fitted.transform(frame.rename(columns={"age": "colour"}))
    scaled = make_pipeline(StandardScaler(), transformer()).fit(frame, LABELS)
    assert_array_equal(scaled.get_feature_names_out(), frame.columns)


@pytest.mark.parametrize("transformer", TRANSFORMERS)
def test_a_users_rows_are_checked(transformer, frame):
    rows = frame.to_numpy(copy=True)
    with pytest.raises(NotFittedError, match=f"This {transformer.__name__} instance is not fitted yet"):
        transformer().transform(rows)
    fitted = transformer().fit(rows, LABELS)
    assert fitted.n_features_in_ == 5
    with pytest.raises(ValueError, match=f"X has 4 features, but {transformer.__name__} is expecting 5 features"):
        fitted.transform(rows[:, :4])
    rows[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        fitted.transform(rows)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        transformer().fit(rows, LABELS)


def test_a_row_of_whole_numbers_is_a_row_of_floats():
    """The mean was once cut to the rows' own type."""
    rows = np.array([[0, 0], [1, 0], [1, 4]])
    assert_array_equal(CentreAndNormalise().fit_transform(rows), CentreAndNormalise().fit_transform(rows.astype(float)))


@pytest.mark.parametrize("power", [0, -1.0, np.nan, np.inf, "auto"])
def test_power_refused(power, frame):
    with pytest.raises(ValueError, match=f"power must be a number above 0; got {power!r}"):
        CentreAndNormalise(power=power).fit(frame)


@pytest.mark.parametrize("none", [None, "", -1])
def test_labels_of_a_discriminant_transform_may_be_any(none, frame):
    codes = np.where(np.arange(12) % 4 == 3, -1, LABELS)
    named = [none if code < 0 else ["cat", "dog", "emu"][code] for code in codes]
    expected = DiscriminantTransform().fit(frame, codes)
    for y in (named, np.where(codes < 0, -1, 10 + 3 * codes)):
        fitted = DiscriminantTransform().fit(frame, y)
        assert_array_equal(fitted.mean_, expected.mean_)
        assert_array_equal(fitted.transform(frame), expected.transform(frame))


@pytest.mark.parametrize("preset", ["paper", "auto"])
def test_data_frames_asked_of_transformers_stay_out_of_the_classifier(preset):
    """scikit-learn's transform_output is for what users see."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    X = 2.0 * rng.standard_normal((3, 8))[truth] + rng.standard_normal((60, 8)) + 3.0
    y = np.where(np.arange(60) < 9, truth, -1)

    def answers():
        clf = TransductiveMaxMarginClassifier.from_preset(preset).fit(X, y)
        picks = suggest_rows(EmbeddingView(X), clf.label_distributions_, y, 4)
        return clf.label_distributions_, clf.predict_proba(X + 0.1), picks

    plain = answers()
    with config_context(transform_output="pandas"):
        framed = answers()
    for a, b in zip(plain, framed, strict=True):
        assert isinstance(b, np.ndarray)
        assert_array_equal(a, b)
