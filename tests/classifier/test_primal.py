"""One big task: the primal gives the kernel matrix's answer, at any size, without a copy of X."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from marginshot import TransductiveMaxMarginClassifier
from marginshot.classifier import large
from marginshot.classifier.passes import QueryPass
from marginshot.classifier.settings import Settings
from marginshot.data import rows
from mixtures import bayes_answers, mixture
from tasks_for_tests import of_paper


def fit(X, y, **parameters):
    return of_paper(**parameters).fit(X, y)


def record_widths(monkeypatch):
    """Number of classes in each pass over the queries."""
    widths = []
    accumulate = rows.ArrayRows.accumulate

    def recording(self, work):
        if isinstance(work, QueryPass):
            widths.append(work.planes.shape[1])
        return accumulate(self, work)

    monkeypatch.setattr(rows.ArrayRows, "accumulate", recording)
    return widths


@pytest.mark.parametrize("prior", ["uniform", "estimate", None, (0.4, 0.3, 0.2, 0.1)])
@pytest.mark.parametrize("feature_transform", ["cl2n", None, StandardScaler()])
def test_both_solvers_give_the_same_answer(prior, feature_transform):
    options = {"prior": prior, "feature_transform": feature_transform, "tol": 1e-7}
    same_minimum = 0
    for seed in range(3):
        X, y, _, _ = mixture(600, dtype=np.float64, seed=seed)
        dual, primal = (fit(X, y, solver=solver, **options) for solver in ("dual", "primal"))
        assert (dual.solver_, primal.solver_) == ("dual", "primal")
        assert_allclose(primal.objective_[:, :-1], dual.objective_[:, :-1], rtol=1e-7)
        assert_allclose(primal.prior_, dual.prior_, atol=1e-6)
        # The last stage is not convex: between two minima rounding may choose, and each processor rounds its own way.
        if not np.allclose(primal.objective_[:, -1], dual.objective_[:, -1], rtol=1e-7):
            continue
        same_minimum += 1
        assert_allclose(primal.planes_, dual.planes_, atol=2e-5)
        assert_allclose(primal.label_distributions_, dual.label_distributions_, atol=1e-4)
        assert_array_equal(primal.transduction_, dual.transduction_)
    assert same_minimum >= 2


@pytest.mark.parametrize("n_shot", [1, 5])
def test_both_solvers_give_the_same_answer_on_real_features(shared_data, n_shot):
    bank = np.load(shared_data / "features" / "small_resnet-test.npz")
    kept = bank["y"] < 10
    X, truth = bank["X"][kept].astype(np.float32), bank["y"][kept]
    y = np.full(len(X), -1)
    for c in range(10):
        y[np.flatnonzero(truth == c)[:n_shot]] = c
    dual, primal = (fit(X, y, solver=solver) for solver in ("dual", "primal"))
    assert np.mean(primal.transduction_ == dual.transduction_) >= 0.99
    assert_allclose(primal.objective_[:, -1], dual.objective_[:, -1], rtol=2e-3)


def test_the_estimator_switches_by_itself():
    X, y, _, _ = mixture(6_000, n_features=8)
    assert fit(X[:500], y[:500]).solver_ == "dual"
    assert fit(X, y).solver_ == "primal"
    assert fit(X[:2000], y[:2000], kernel="rbf").solver_ == "dual"
    assert fit(X, y, kernel="rbf", n_landmarks=50).solver_ == "primal"
    assert fit(X[:1500], y[:1500], kernel=lambda a, b: a @ b.T).solver_ == "dual"
    assert fit(X[:1200] @ X[:1200].T, y[:1200], kernel="precomputed").solver_ == "dual"


def test_wide_rows_stay_on_the_kernel_matrix_longer():
    narrow, wide = (
        large.chooses_primal("auto", Settings.from_preset("paper"), rows.ArrayRows(np.empty((1_500, width))), 10)
        for width in (64, 5_000)
    )
    assert narrow
    assert not wide


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_types_give_the_labels_of_double_precision(dtype):
    X, y, _, _ = mixture(3_000, dtype=dtype)
    narrow, double = fit(X, y), fit(X.astype(np.float64), y)
    assert np.mean(narrow.transduction_ == double.transduction_) >= 0.999
    assert_allclose(narrow.objective_, double.objective_, rtol=1e-4)
    assert_array_equal(narrow.predict(X)[y < 0], narrow.transduction_[y < 0])


def test_predict_on_the_fitted_rows_is_the_transduction():
    X, y, _, _ = mixture(20_000)
    clf = fit(X, y)
    assert_array_equal(clf.predict(X)[y < 0], clf.transduction_[y < 0])
    assert_allclose(clf.predict_proba(X)[y < 0], clf.label_distributions_[y < 0], atol=1e-6)
    assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])


def test_threads_change_nothing(monkeypatch):
    X, y, _, _ = mixture(40_000)
    answers = []
    for n_threads in (1, 3):
        monkeypatch.setattr(rows, "n_threads", lambda n=n_threads: n)
        answers.append(fit(X, y))
    assert_array_equal(answers[0].planes_, answers[1].planes_)
    assert_array_equal(answers[0].label_distributions_, answers[1].label_distributions_)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_peak_memory_is_at_most_a_tenth_of_x_above_x(dtype):
    rng = np.random.default_rng(0)
    strip = rng.standard_normal((10_000, 384), dtype=np.float32).astype(dtype)
    strip[:, :4] += 4 * np.eye(4, dtype=dtype)[np.arange(len(strip)) % 4]
    X = np.tile(strip, (30 if dtype == np.float16 else 15, 1))
    y = np.full(len(X), -1)
    y[:20] = np.arange(20) % 4
    clf = of_paper(lambda2=(0, 1), tol=0.05)
    clf.fit(X[:2000], y[:2000])  # imports and caches are not this fit's
    tracemalloc.start()
    try:
        clf.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= X.nbytes / 10


def test_classes_that_are_done_drop_out_of_the_products(monkeypatch):
    X, y, _, _ = mixture(4_000, n_features=80, n_classes=40, n_shot=3, distance=7.0)
    widths = record_widths(monkeypatch)
    clf = fit(X, y)
    assert widths[0] == 40
    assert sum(widths) < 0.9 * 40 * len(widths)
    assert clf.planes_.shape == (40, 80)


def test_a_thousand_classes():
    X, y, truth, _ = mixture(3_000, n_features=128, n_classes=1_000, n_shot=1, distance=14.0)
    options = {"tol": 1e-2, "solver": "primal"}
    clf, inductive = (fit(X, y, lambda2=lambda2, **options) for lambda2 in ((0, 0.1), (0,)))
    assert clf.planes_.shape == (1_000, 128)
    assert np.mean(clf.transduction_ == truth) >= np.mean(inductive.transduction_ == truth) - 0.01


def test_large_distributions_are_computed_when_asked_for(monkeypatch):
    X, y, _, _ = mixture(2_000)
    kept = fit(X, y).label_distributions_
    monkeypatch.setattr("marginshot.classifier.transduction.KEPT_BYTES", 1_000)
    clf = fit(X, y)
    assert clf._distributions is None
    assert clf.label_distributions_.dtype == kept.dtype == np.float64
    assert_allclose(clf.label_distributions_, kept, atol=1e-6)
    assert_array_equal(clf.predict(X)[y < 0], clf.transduction_[y < 0])
    again = pickle.loads(pickle.dumps(clf))
    assert_array_equal(again.transduction_, clf.transduction_)
    with pytest.raises(AttributeError, match=r"too large to be pickled; use predict_proba"):
        _ = again.label_distributions_


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("kept", [True, False])
def test_with_every_row_a_landmark_the_approximation_is_exact(kernel, kept, monkeypatch):
    X, y, _, _ = mixture(400, dtype=np.float64)
    monkeypatch.setattr(large, "_KEPT_BYTES", 2**31 if kept else 0)
    exact, approximate = (fit(X, y, kernel=kernel, solver=s, n_landmarks=400, tol=1e-4) for s in ("dual", "primal"))
    assert_allclose(approximate.objective_, exact.objective_, rtol=1e-4)
    # The objective hardly depends on a row in the middle between two classes: it may end elsewhere on another machine.
    assert np.mean(np.abs(approximate.margins(X) - exact.margins(X)) < 1e-2) > 0.995
    assert approximate.alphas_.shape == (4, 400)


def test_few_landmarks_are_nearly_as_good():
    X, y, truth, _ = mixture(3_000)
    exact, approximate = (fit(X, y, kernel="rbf", solver=s, n_landmarks=200) for s in ("dual", "primal"))
    assert approximate.alphas_.shape == (4, 200)
    assert np.mean(approximate.transduction_ == truth) >= np.mean(exact.transduction_ == truth) - 0.02


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_saved_and_loaded(kernel, tmp_path):
    X, y, _, _ = mixture(2_000)
    clf = fit(X, y, kernel=kernel, solver="primal", n_landmarks=50, callback=lambda progress: None)
    clf.save(tmp_path / "planes.npz")
    loaded = TransductiveMaxMarginClassifier.load(tmp_path / "planes.npz")
    assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def test_every_row_labelled_is_fs_mmc():
    X, _, truth, _ = mixture(2_000)
    full, inductive = fit(X, truth, tol=1e-6), fit(X, truth, tol=1e-6, lambda2=(0,))
    assert full.solver_ == "primal"
    assert_allclose(full.planes_, inductive.planes_, atol=1e-4)


def test_refitting_leaves_nothing_of_the_other_solver():
    X, y, _, _ = mixture(1_500)
    clf = fit(X, y, solver="dual")
    clf.set_params(solver="primal").fit(X, y)
    assert not hasattr(clf, "alphas_")
    clf.set_params(solver="dual", kernel="rbf").fit(X, y)
    assert not hasattr(clf, "planes_")


def test_rows_at_the_mean_speak_for_no_class():
    X, y, _, _ = mixture(1_500, dtype=np.float64)
    X[-1] = X[:-1].mean(axis=0)
    clf = fit(X, y)
    assert_allclose(clf.label_distributions_[-1], 0.25, atol=1e-6)
    assert clf.solver_ == "primal"


def test_accuracy_is_that_of_the_small_task_solver_and_near_the_bayes_rate():
    gains, gaps = [], []
    for seed in range(4):
        X, y, truth, centres = mixture(40_000, n_classes=5, distance=4.5, seed=seed)
        sample = np.union1d(np.flatnonzero(y >= 0), np.arange(0, len(X), 50))
        small, big = fit(X[sample], y[sample], solver="dual"), fit(X, y)
        assert big.solver_ == "primal"
        right = big.transduction_ == truth
        gains.append(right.mean() - np.mean(small.transduction_ == truth[sample]))
        gaps.append(np.mean(bayes_answers(X, centres) == truth) - right.mean())
    assert np.mean(gains) >= -0.01
    assert np.mean(gaps) <= 0.04


def test_accuracy_does_not_fall_on_tiled_real_features(shared_data):
    bank = np.load(shared_data / "features" / "small_resnet-test.npz")
    kept = bank["y"] < 5
    X, truth = bank["X"][kept].astype(np.float32), bank["y"][kept]
    rng = np.random.default_rng(0)
    tiled = np.tile(X, (20, 1)) + 0.1 * X.std(axis=0) * rng.standard_normal((20 * len(X), X.shape[1]), np.float32)
    y = np.full(len(X), -1)
    for c in range(5):
        y[np.flatnonzero(truth == c)[:5]] = c
    small = fit(X, y, solver="dual")
    tiled_y = np.full(len(tiled), -1)
    tiled_y[: len(X)] = y
    big = fit(tiled, tiled_y)
    assert big.solver_ == "primal"
    queries = tiled_y < 0
    assert np.mean((big.transduction_ == np.tile(truth, 20))[queries]) >= (
        np.mean((small.transduction_ == truth)[y < 0]) - 0.01
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "fast"}, "solver must be one of auto, dual, primal; got 'fast'"),
        ({"n_landmarks": 1}, "n_landmarks must be a whole number of at least 2; got 1"),
        ({"callback": 3}, "callback must be a callable or None; got 3"),
        ({"kernel": "precomputed", "solver": "primal"}, "kernel='precomputed' needs the whole kernel matrix"),
    ],
)
def test_options_that_mean_nothing_are_named(parameters, message):
    X, y, _, _ = mixture(40)
    with pytest.raises(ValueError, match=message):
        fit(X @ X.T, y, **parameters)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_averaged_with_their_neighbours(kernel):
    X, y, _, _ = mixture(600, dtype=np.float64)
    options = {"kernel": kernel, "n_neighbors": 5, "calibration": "softmax", "n_landmarks": 600}
    dual, primal = (fit(X, y, solver=solver, **options) for solver in ("dual", "primal"))
    assert_allclose(primal.label_distributions_, dual.label_distributions_, atol=2e-3)
    assert_allclose(primal.predict_proba(X[:50]), dual.predict_proba(X[:50]), atol=2e-3)


def test_the_auto_preset_fits_a_big_task():
    X, y, truth, _ = mixture(3_000)
    clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    assert clf.solver_ == "primal"
    assert np.mean(clf.transduction_ == truth) >= np.mean(fit(X, y, lambda2=(0,)).transduction_ == truth)


def test_a_prior_is_estimated_from_a_sample(monkeypatch):
    X, y, truth, _ = mixture(6_000)
    kept = (truth != 1) | (y >= 0) | (np.arange(len(X)) % 4 == 0)  # class 1 is rare
    X, y = X[kept], y[kept]
    whole = fit(X, y, prior="estimate").prior_
    monkeypatch.setattr("marginshot.model.subsets.SAMPLED_QUERIES", 400)
    sampled = fit(X, y, prior="estimate").prior_
    assert whole.argmin() == 1
    assert_allclose(sampled, whole, atol=0.07)


def test_a_transformer_is_fitted_on_the_whole_array():
    X, y, _, _ = mixture(3_000)
    inside = fit(X, y, feature_transform=PCA(8, svd_solver="covariance_eigh"))
    outside = fit(PCA(8, svd_solver="covariance_eigh").fit_transform(X), y, feature_transform=None)
    assert_allclose(inside.objective_, outside.objective_, rtol=1e-4)
