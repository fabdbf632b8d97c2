"""TransductiveMaxMarginClassifier: what a user relies on."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from marginshot import Settings, TransductiveMaxMarginClassifier, solve_tasks
from tasks_for_tests import of_paper

KERNELS = ["linear", "rbf", "poly"]


def digits(n_shot=3, seed=0):
    X, truth = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    kept = np.concatenate([rng.choice(np.flatnonzero(truth == c), 40, replace=False) for c in range(10)])
    X, truth = X[kept], truth[kept]
    y = np.full(len(X), -1)
    for c in range(10):
        rows = np.flatnonzero(truth == c)[:n_shot]
        y[rows] = truth[rows]
    return X, y, truth


@pytest.mark.parametrize("kernel", KERNELS)
def test_predict_on_the_fitted_rows_is_the_transduction(kernel):
    X, y, _ = digits()
    clf = of_paper(kernel=kernel).fit(X, y)
    unlabelled = y == -1
    assert_array_equal(clf.predict(X)[unlabelled], clf.transduction_[unlabelled])
    assert_allclose(clf.predict_proba(X)[unlabelled], clf.label_distributions_[unlabelled], atol=1e-9)


def test_predict_on_the_fitted_rows_is_the_transduction_with_neighbours_too():
    X, y, _ = digits()
    clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    unlabelled = y == -1
    assert_array_equal(clf.predict(X)[unlabelled], clf.transduction_[unlabelled])
    assert_allclose(clf.predict_proba(X)[unlabelled], clf.label_distributions_[unlabelled], atol=1e-9)
    assert_allclose(clf.predict_proba(X[:3]), clf.predict_proba(X)[:3])


def test_presets():
    default, auto = TransductiveMaxMarginClassifier(), TransductiveMaxMarginClassifier.from_preset("auto")
    assert default.get_params() == auto.get_params() != of_paper().get_params()
    assert Settings() == Settings.from_preset("auto") != Settings.from_preset("paper")
    clf = TransductiveMaxMarginClassifier.from_preset("auto", n_neighbors=3)
    assert (clf.prior, clf.n_neighbors, clf.calibration) == ("estimate", 3, "graph")
    with pytest.raises(ValueError, match="preset must be one of printed, paper, auto, balanced; got 'best'"):
        TransductiveMaxMarginClassifier.from_preset("best")


def test_given_labels_never_change():
    X, y, _ = digits()
    rng = np.random.default_rng(1)
    wrong = rng.permutation(np.flatnonzero(y >= 0))
    y[np.sort(wrong)] = y[wrong]  # labels that contradict the features
    clf = of_paper().fit(X, y)
    assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])
    assert_array_equal(clf.label_distributions_.argmax(axis=1), np.searchsorted(clf.classes_, clf.transduction_))


def test_shapes_and_sums():
    X, y, _ = digits()
    clf = of_paper().fit(X, y)
    assert clf.alphas_.shape == (10, len(X))
    assert clf.planes_.shape == (10, 64)
    assert clf.objective_.shape == (10, 5)
    assert clf.n_iter_.shape == (10,)
    assert clf.transduction_.shape == (len(X),)
    assert_allclose(clf.label_distributions_.sum(axis=1), 1)
    assert_allclose(clf.predict_proba(X).sum(axis=1), 1)
    assert_allclose(clf.offsets_, -0.8)


def test_unlabelled_rows_help():
    X, y, truth = digits(n_shot=1)
    with_queries = of_paper().fit(X, y)
    without = of_paper(lambda2=(0,)).fit(X, y)
    assert np.mean(with_queries.transduction_ == truth) > np.mean(without.transduction_ == truth)


def test_nothing_unlabelled_is_fs_mmc():
    X, truth = load_iris(return_X_y=True)
    full = of_paper(tol=1e-7).fit(X, truth)
    inductive = of_paper(lambda2=(0,), tol=1e-7).fit(X, truth)
    assert_allclose(full.decision_function(X), inductive.decision_function(X), rtol=1e-3, atol=1e-5)
    assert_array_equal(full.transduction_, truth)


def test_the_query_term_moves_the_objective_stage_by_stage():
    X, y, _ = digits()
    clf = of_paper(lambda2=(0, 0.1, 1)).fit(X, y)
    assert (np.diff(clf.objective_, axis=1) > 0).all()  # each stage adds a positive term


@pytest.mark.parametrize(
    "marked",
    [
        lambda names, known: np.where(known, names, ""),
        lambda names, known: [str(n) if k else -1 for n, k in zip(names, known, strict=True)],
        lambda names, known: np.array([n if k else None for n, k in zip(names, known, strict=True)], dtype=object),
        lambda names, known: np.array([n if k else np.nan for n, k in zip(names, known, strict=True)], dtype=object),
        lambda names, known: [str(n) if k else float("nan") for n, k in zip(names, known, strict=True)],
        lambda names, known: pd.Series(names).where(known),
        lambda names, known: pd.Series(names, dtype="string").where(known),
        lambda names, known: np.array([n if k else pd.NA for n, k in zip(names, known, strict=True)], dtype=object),
    ],
    ids=["empty", "minus one in a list", "None", "NaN", "NaN in a list", "pandas", "pandas string", "NA"],
)
def test_string_labels(marked):
    X, y, _ = digits()
    names = np.char.add("digit ", y.astype(str))
    clf = of_paper().fit(X, marked(names, y >= 0))
    expected = of_paper().fit(X, y)
    assert_array_equal(clf.classes_, [f"digit {c}" for c in range(10)])
    assert_array_equal(clf.transduction_, np.char.add("digit ", expected.transduction_.astype(str)))


def test_whole_numbers_with_gaps():
    X, y, _ = digits()
    clf = of_paper().fit(X, pd.Series(y, dtype="Int64").where(y >= 0))
    assert_array_equal(clf.transduction_, of_paper().fit(X, y).transduction_)


def test_two_labelled_rows_and_nothing_else():
    """They are each other's only neighbours: averaged, they would be one."""
    rng = np.random.default_rng(0)
    centres = np.array([[-2.0], [2.0]])
    X = centres + rng.standard_normal((2, 8))
    later = np.repeat(centres, 20, axis=0) + rng.standard_normal((40, 8))
    clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, [0, 1])
    assert np.mean(clf.predict(later) == np.repeat([0, 1], 20)) > 0.9


def test_classes_that_take_turns_are_sampled_alike():
    """Of a large task a mixture sees a part; rows come in any order."""
    rng = np.random.default_rng(0)
    truth = np.arange(10_000) % 10
    X = rng.standard_normal((10, 16))[truth] + rng.standard_normal((10_000, 16))
    y = np.where(np.arange(10_000) < 10, truth, -1)
    clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    assert clf.prior_.max() < 0.15


def test_precomputed_kernel():
    X, y, _ = digits()
    rows = StandardScaler().fit_transform(X)
    gram = rbf_kernel(rows, gamma=0.02)
    precomputed = of_paper(kernel="precomputed").fit(gram, y)
    named = of_paper(kernel="rbf", gamma=0.02, feature_transform=None).fit(rows, y)
    assert_array_equal(precomputed.transduction_, named.transduction_)
    assert_allclose(precomputed.predict_proba(gram[:7]), named.predict_proba(rows[:7]), atol=1e-6)


def test_callable_kernel_and_replaced_transform():
    X, y, _ = digits()
    clf = of_paper(kernel=lambda a, b: rbf_kernel(a, b, gamma=1.0), feature_transform=FunctionTransformer(np.sqrt)).fit(
        X, y
    )
    unlabelled = y == -1
    assert_array_equal(clf.predict(X)[unlabelled], clf.transduction_[unlabelled])


def test_new_rows_use_the_stored_mean():
    X, y, _ = digits()
    clf = of_paper().fit(X, y)
    shifted = X[:5] + 100.0  # were they centred on themselves, the shift would vanish
    assert not np.allclose(clf.margins(shifted), clf.margins(X[:5]))
    assert_allclose(clf.predict_proba(X[:1]), clf.predict_proba(X[:5])[:1])


@pytest.mark.parametrize("kernel", KERNELS)
def test_save_and_load(tmp_path, kernel):
    X, y, _ = digits()
    names = np.where(y >= 0, np.char.add("d", y.astype(str)), "")
    clf = of_paper(kernel=kernel, lambda2=[0, 1], prior="estimate").fit(X, names)
    clf.save(tmp_path / "model.npz")
    loaded = TransductiveMaxMarginClassifier.load(tmp_path / "model.npz")
    assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert_array_equal(loaded.predict(X), clf.predict(X))
    assert loaded.get_params() == clf.get_params()
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]


def test_save_and_load_with_neighbours(tmp_path):
    X, y, _ = digits()
    clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    clf.save(tmp_path / "model.npz")
    assert_array_equal(
        TransductiveMaxMarginClassifier.load(tmp_path / "model.npz").predict_proba(X), clf.predict_proba(X)
    )


def test_what_cannot_be_saved_or_loaded_is_said(tmp_path):
    X, y, _ = digits()
    with pytest.raises(NotFittedError):
        of_paper().save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="callable kernel cannot be saved without pickle"):
        of_paper(kernel=rbf_kernel).fit(X, y).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match=r"StandardScaler.* cannot be saved without pickle"):
        of_paper(feature_transform=StandardScaler()).fit(X, y).save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="no saved classifier"):
        TransductiveMaxMarginClassifier.load(tmp_path / "nothing.npz")
    np.savez(tmp_path / "other.npz", X=X)
    with pytest.raises(ValueError, match="is damaged, or not a classifier saved by marginshot"):
        TransductiveMaxMarginClassifier.load(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match="is damaged, or not a classifier saved by marginshot"):
        TransductiveMaxMarginClassifier.load(tmp_path / "text.npz")
    np.savez(tmp_path / "pickled.npz", header=np.array([object()]))
    with pytest.raises(ValueError, match="header holds Python objects, which are never read"):
        TransductiveMaxMarginClassifier.load(tmp_path / "pickled.npz")


def test_pickle_clone_pipeline_and_grid_search():
    X, y, truth = digits()
    clf = pickle.loads(pickle.dumps(of_paper().fit(X, y)))
    assert clone(clf).get_params() == clf.get_params()
    pipeline = make_pipeline(PCA(20), of_paper()).fit(X, y)
    assert pipeline.score(X, truth) > 0.7
    search = GridSearchCV(of_paper(lambda2=(0,)), {"lambda1": [0.01, 0.04]}, cv=2).fit(X, truth)
    assert search.best_score_ > 0.7


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, int])
def test_dtypes(dtype):
    X, y, truth = digits()
    clf = of_paper().fit(X.astype(dtype), y)
    assert np.mean(clf.transduction_ == truth) > 0.8


@pytest.mark.parametrize("n_features", [1, 5, 2000])
def test_more_and_fewer_features_than_rows(n_features):
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 20)
    X = rng.standard_normal((40, n_features)) + 5.0 * truth[:, None]
    y = np.full(40, -1)
    y[[0, -1]] = 0, 1
    assert_array_equal(of_paper().fit(X, y).transduction_, truth)


def test_duplicates_and_rows_without_direction():
    X, y, _ = digits()
    X = np.concatenate((X, X[:50], X.mean(axis=0, keepdims=True)))
    X[-1] = X[:-1].mean(axis=0)
    clf = of_paper().fit(X, np.concatenate((y, np.full(51, -1))))
    assert_array_equal(clf.predict(X[:50]), clf.predict(X[-51:-1]))
    assert_allclose(clf.label_distributions_[-1], 0.1)
    assert_allclose(clf.predict_proba(X[-1:]), 0.1)


def test_all_rows_equal_is_uniform():
    clf = of_paper().fit(np.ones((6, 3)), [0, 0, 1, 2, -1, -1])
    assert_allclose(clf.label_distributions_[-2:], 1 / 3)


def test_prior_array_moves_answers_towards_the_larger_class():
    X, y, truth = digits(n_shot=1)
    two = np.isin(truth, (3, 8))
    shares = [
        np.mean(of_paper(prior=prior).fit(X[two], y[two]).transduction_ == 3) for prior in ([0.2, 0.8], [0.8, 0.2])
    ]
    assert shares[0] < shares[1]


def test_estimated_prior_wins_on_unbalanced_rows():
    X, truth = load_digits(return_X_y=True)
    accuracy = {"uniform": [], "estimate": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = [
            rng.choice(np.flatnonzero(truth == c), size, replace=False)
            for c, size in zip((1, 4, 7), (5, 15, 80), strict=True)
        ]
        kept = np.concatenate(rows)
        y = np.full(len(kept), -1)
        first = [0, 1, 5, 6, 20, 21]
        y[first] = truth[kept][first]
        for prior, values in accuracy.items():
            clf = of_paper(prior=prior).fit(X[kept], y)
            values.append(np.mean(clf.transduction_ == truth[kept]))
    assert np.mean(accuracy["estimate"]) > np.mean(accuracy["uniform"]) + 0.05


@pytest.mark.parametrize("calibration", ["platt", "logistic", "none", "softmax", "mixture", "graph"])
def test_binary_decision_function_is_one_column(calibration):
    X, y, truth = digits()
    two = truth < 2
    clf = of_paper(calibration=calibration, n_neighbors=8).fit(X[two], y[two])
    decision = clf.decision_function(X[two])
    assert decision.shape == (two.sum(),)
    assert_array_equal(clf.classes_[(decision > 0).astype(int)], clf.predict(X[two]))
    assert_allclose(clf.predict_proba(X[two])[:, 1], expit(decision), atol=1e-6)
    assert_allclose(clf.margins(X[two])[:, 0], -clf.margins(X[two])[:, 1], atol=1e-6)


def test_a_refit_that_fails_leaves_no_mixed_classifier():
    X, y, _ = digits()
    names = np.where(y < 0, "", np.char.add("class ", y.astype(str)))

    def fail(progress):
        raise RuntimeError("stop")

    clf = of_paper(lambda2=(0.0,)).fit(X, y)
    with pytest.raises(RuntimeError, match="stop"):
        clf.set_params(callback=fail).fit(X[::2], names[::2])
    with pytest.raises(NotFittedError):
        clf.predict(X)


@pytest.mark.parametrize("solver", ["dual", "primal"])
def test_a_refit_on_bad_labels_leaves_an_unfitted_classifier(solver):
    X, y, _ = digits()
    clf = of_paper(solver=solver).fit(X, y)
    with pytest.raises(ValueError, match="every row is unlabelled"):
        clf.fit(X[:, :5], np.full(len(X), -1))
    with pytest.raises(NotFittedError):
        clf.predict(X)


def test_a_transformer_may_answer_with_a_frame():
    X, y, _ = digits()
    scaler = StandardScaler().set_output(transform="pandas")
    for solver in ("dual", "primal"):
        clf = of_paper(feature_transform=scaler, solver=solver).fit(X, y)
        plain = clone(clf).set_params(feature_transform=StandardScaler()).fit(X, y)
        assert_array_equal(clf.transduction_, plain.transduction_)
        assert_array_equal(clf.predict(X[:20]), plain.predict(X[:20]))


def test_numpy_numbers_among_the_parameters_can_be_saved(tmp_path):
    X, y, _ = digits()
    clf = of_paper(n_neighbors=np.int64(3), lambda1=np.float32(0.04), max_iter=np.int64(200), degree=np.int32(2)).fit(
        X, y
    )
    clf.save(tmp_path / "model.npz")
    loaded = TransductiveMaxMarginClassifier.load(tmp_path / "model.npz")
    assert_array_equal(loaded.predict(X[:20]), clf.predict(X[:20]))


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, [0, 0, 0, -1], "one class only: 0"),
        ({}, [-1, -1, -1, -1], "every row is unlabelled"),
        ({}, [0, 1, -1], "equally many rows; got 4 and 3"),
        ({}, [0, 1, np.nan, -1], "y must be finite"),
        ({"prior": [0.5, 0.6]}, [0, 1, -1, -1], r"sum to 1; got \[0.5, 0.6\]"),
        ({"prior": [0.5, 0.3, 0.2]}, [0, 1, -1, -1], "each of the 2 classes"),
        ({"lambda1": 0}, [0, 1, -1, -1], "lambda1 must be a number greater than 0; got 0"),
        ({"lambda2": (0, -0.1)}, [0, 1, -1, -1], "lambda2 must be"),
        ({"gamma2": "two"}, [0, 1, -1, -1], "gamma2 must be a number greater than 0; got 'two'"),
        ({"kernel": "precomputed"}, [0, 1, -1, -1], r"square kernel matrix .* got shape \(4, 3\)"),
        ({"feature_transform": 3}, [0, 1, -1, -1], "feature_transform must be .* got 3"),
    ],
)
def test_bad_input_is_named(parameters, y, message):
    with pytest.raises(ValueError, match=message):
        of_paper(**parameters).fit(np.eye(4, 3), y)


def test_convergence_is_reported_and_otherwise_silent():
    X, y, _ = digits()
    with pytest.warns(
        ConvergenceWarning,
        match=r"Class 0 did not converge at lambda2=0: gradient norm .*49 other stages of 50.*max_iter",
    ):
        of_paper(max_iter=1).fit(X, y)
    of_paper().fit(X, y)  # warnings are errors here


@pytest.mark.parametrize("direction", [[1.0], [1.0, -2.0, 0.5], np.ones(10)])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_lengths_are_not_dropped_without_a_word(direction, noise):
    rng = np.random.default_rng(0)
    X = np.concatenate((rng.normal(2.0, 0.3, 50), rng.normal(6.0, 0.3, 50)))[:, None] * np.asarray(direction)
    X += noise * rng.standard_normal(X.shape)
    y = np.where(np.isin(np.arange(100), [0, 1, 50, 51]), np.arange(100) // 50, -1)
    with pytest.warns(UserWarning, match="100 rows differ more in their lengths.*standardise the features"):
        TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    kept = TransductiveMaxMarginClassifier.from_preset("auto", feature_transform="cl2n").fit(X, y)
    assert_array_equal(kept.transduction_, np.arange(100) // 50)


def test_import_and_fit_do_not_load_a_compiler_or_a_plotting_library():
    script = (
        "import sys, numpy as np; from marginshot import TransductiveMaxMarginClassifier as C;"
        "C().fit(np.random.default_rng(0).normal(size=(100, 8)), [0, 1] + 98 * [-1]);"
        "print([m for m in ('numba', 'torch', 'matplotlib', 'typer', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]"])
def test_times_are_refused(dtype):
    """Issue 21: they were taken for numbers."""
    X = np.arange(12).reshape(6, 2).astype(dtype)
    with pytest.raises(ValueError, match=r"X must be an array of real numbers; got dtype .*64\[s\]"):
        of_paper().fit(X, [0, 1, -1, -1, -1, -1])


@pytest.mark.parametrize("preset", ["paper", "auto"])
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e38), (np.float32, 1e-38), (np.float16, 6e4)])
def test_extremes_of_narrow_types_are_answered_without_a_warning(dtype, scale, preset):
    """Issue 21: sums of finite numbers overflowed with a RuntimeWarning."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 3
    rows = np.eye(3, 8)[truth] + 0.1 * rng.random((60, 8))
    X = (scale / rows.max() * rows).astype(dtype)
    y = np.where(np.arange(60) < 6, truth, -1)
    clf = TransductiveMaxMarginClassifier.from_preset(preset).fit(X, y)
    assert np.isfinite(clf.label_distributions_).all()
    assert np.mean(clf.transduction_ == truth) > 0.9
    assert np.isfinite(clf.predict_proba(X)).all()


def test_without_a_transform_a_row_of_zeros_is_a_row_like_any_other():
    X = np.array([[-3.0], [-2.9], [1.0], [1.1], [0.0], [1e-9]])
    y = np.array([0, 0, 1, 1, -1, -1])
    model = of_paper(feature_transform=None).fit(X, y)
    at_zero, beside_zero = model.predict_proba(X[4:])
    assert_allclose(at_zero, beside_zero, atol=1e-6)
    assert_array_equal(model.transduction_[4:], [1, 1])
    answers = solve_tasks(X[None, :4], y[None, :4], X[None, 4:], Settings.from_preset("paper", feature_transform=None))
    assert_allclose(answers.probabilities[0, 0], answers.probabilities[0, 1], atol=1e-6)


def test_generators_and_none_are_seeds(tmp_path):
    X, y, _ = digits()
    for random_state in (None, np.random.default_rng(1), np.random.RandomState(1)):
        clf = of_paper(kernel="rbf", solver="primal", n_landmarks=30, random_state=random_state)
        clf.fit(X, y).save(tmp_path / "planes.npz")
        assert_array_equal(TransductiveMaxMarginClassifier.load(tmp_path / "planes.npz").predict(X), clf.predict(X))
    fits = [
        of_paper(kernel="rbf", solver="primal", n_landmarks=30, random_state=np.random.default_rng(2)).fit(X, y)
        for _ in range(2)
    ]
    assert_array_equal(fits[0].decision_function(X), fits[1].decision_function(X))
    with pytest.raises(ValueError, match=r"random_state must be a whole number .* got -3"):
        of_paper(random_state=-3).fit(X, y)


def test_the_preset_of_the_paper_has_its_numbers():
    clf = TransductiveMaxMarginClassifier.from_preset("paper")
    assert tuple(clf.lambda2) == (0, 1e-5, 1e-3, 0.1, 1)
    assert (clf.lambda1, clf.gamma1, clf.gamma2) == (0.04, 20, 2)
