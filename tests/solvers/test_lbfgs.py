"""Both solvers, NumPy and compiled, against SciPy and against each other."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot._lib.jit import loop
from marginshot.batch.task import follow_paths, run_solver
from marginshot.classifier.settings import LAMBDA2, Settings
from marginshot.model.margin import MarginLoss, one_vs_rest
from marginshot.solvers.continuation import follow_path, stage_tolerances
from marginshot.solvers.lbfgs import minimise
from marginshot.solvers.lbfgs_compiled import make_minimise, make_workspace
from marginshot.solvers.spaces import GramSpace
from reference.scipy_fs_tmmc import centred_unit_rows, solve
from tasks_for_tests import blobs, from_bank


def numpy_path(gram, labels, n_way, lambda2=LAMBDA2, tol=3e-4, max_iter=500):
    signs, weights = one_vs_rest(labels, n_way)
    return follow_path(
        gram,
        lambda value: MarginLoss(signs, weights, 20.0, 2.0, value),
        lambda2,
        n_support=len(labels),
        offsets=np.full(n_way, 2 / n_way - 1),
        lambda1=0.04,
        tol=tol,
        max_iter=max_iter,
    )


def compiled_scores(gram, labels, n_way, **settings):
    offsets = np.full((1, n_way), 2 / n_way - 1)
    scores, norms = follow_paths(
        gram[None].astype(np.float32), labels[None], offsets, Settings.from_preset("paper", **settings)
    )
    return scores[0], norms[0]


def objective(scores, gram, labels, n_way, lambda2):
    """F of scores that lie in the span of the kernel, by its definition."""
    signs, weights = one_vs_rest(labels, n_way)
    loss, _ = MarginLoss(signs, weights, 20.0, 2.0, lambda2)(scores)
    images = scores - (2 / n_way - 1)
    return 0.02 * np.einsum("ic,ij,jc->c", images, np.linalg.pinv(gram, rcond=1e-6, hermitian=True), images) + loss


@pytest.fixture(scope="module")
def tasks():
    support, labels, query, _ = blobs(np.random.default_rng(3), n_tasks=6, n_way=4, n_features=40)
    return [(centred_unit_rows(s, q), label) for s, q, label in zip(support, query, labels, strict=True)]


def test_convex_stage_reaches_scipys_optimum(tasks):
    for rows, labels in tasks:
        gram = rows @ rows.T
        _, expected = solve(gram, labels, 4, lambda2=(0.0,), gtol=1e-8)
        assert_allclose(numpy_path(gram, labels, 4, lambda2=(0.0,), tol=3e-5).objective, expected, rtol=1e-6)
        scores, _ = compiled_scores(gram, labels, 4, lambda2=(0.0,), tol=3e-5)
        assert_allclose(objective(scores, gram, labels, 4, 0.0), expected[:, 0], rtol=1e-5)


def test_compiled_and_numpy_agree(tasks):
    for rows, labels in tasks:
        gram = (rows @ rows.T).astype(np.float32).astype(np.float64)
        path = numpy_path(gram, labels, 4, tol=1e-7)
        scores, norms = compiled_scores(gram, labels, 4, tol=1e-7)
        assert_allclose(scores, path.scores, atol=1e-4)
        assert (norms <= stage_tolerances(1e-7, 5)).all()


def test_single_precision_finds_what_double_does(tasks):
    for rows, labels in tasks:
        gram, offsets = rows @ rows.T, np.full((1, 4), 2 / 4 - 1)
        single, norms = run_solver(gram[None].astype(np.float32), labels[None], offsets, Settings.from_preset("paper"))
        double, _ = run_solver(gram[None], labels[None], offsets, Settings.from_preset("paper"))
        assert (norms <= stage_tolerances(3e-4, 5)).all()
        assert_allclose(single, double, atol=5e-3)


def test_a_task_that_stalls_in_single_precision_is_solved_in_double(tasks, monkeypatch):
    monkeypatch.setattr("marginshot.batch.task._LEAST_SINGLE_NORM", 0.0)
    grams = np.stack([rows @ rows.T for rows, _ in tasks]).astype(np.float32)
    grams[0] = 0.0  # has nothing to fit, and ends at once
    labels, offsets, tight = (
        np.stack([label for _, label in tasks]),
        np.full((6, 4), 2 / 4 - 1),
        Settings.from_preset("paper", tol=1e-9),
    )
    _, single_norms = run_solver(grams, labels, offsets, tight)
    stalled = (single_norms > stage_tolerances(1e-9, 5)).any(axis=(1, 2))
    assert stalled[1:].all()
    assert not stalled[0]
    scores, norms = follow_paths(grams, labels, offsets, tight)
    assert (norms <= stage_tolerances(1e-9, 5)).all()
    double, _ = run_solver(grams.astype(np.float64), labels, offsets, tight)
    assert_array_equal(scores[1:], double[1:])


def test_every_stage_starts_where_the_last_one_ended(tasks):
    rows, labels = tasks[0]
    gram = rows @ rows.T
    whole = numpy_path(gram, labels, 4, tol=1e-8)
    for end in range(1, len(LAMBDA2) + 1):
        part = numpy_path(gram, labels, 4, lambda2=LAMBDA2[:end], tol=1e-8)
        assert_allclose(part.objective, whole.objective[:, :end], rtol=1e-9)


def test_without_weight_on_the_queries_only_support_coefficients_move(tasks):
    rows, labels = tasks[0]
    path = numpy_path(rows @ rows.T, labels, 4, lambda2=(0.0,))
    assert path.coef[: len(labels)].any()
    assert not path.coef[len(labels) :].any()


def test_max_iter_stops_and_is_reported(tasks):
    rows, labels = tasks[0]
    path = numpy_path(rows @ rows.T, labels, 4, max_iter=2)
    assert path.n_iter.max() == 2
    assert (path.gradient_norm > 1e-4).any()
    _, norms = compiled_scores(rows @ rows.T, labels, 4, max_iter=2)
    assert_allclose(norms, path.gradient_norm, rtol=1e-2, atol=1e-6)


def test_a_tolerance_beyond_rounding_ends(tasks):
    rows, labels = tasks[0]
    assert np.isfinite(numpy_path(rows @ rows.T, labels, 4, tol=1e-30).objective).all()
    assert np.isfinite(compiled_scores(rows @ rows.T, labels, 4, tol=1e-30)[0]).all()


def falling(scores):
    return 0.95 * scores + 0.05 * np.log(1.0 + scores)


class Endless:
    """A loss that falls for ever, nearly as fast as at first; or, with ``sign`` −1, rises, and its derivative lies."""

    def __init__(self, sign):
        self.sign = sign

    def __call__(self, scores):
        return -self.sign * falling(scores).sum(axis=0), -0.95 - 0.05 / (1.0 + scores)

    def of_classes(self, kept):
        return self


@loop
def endless(scores, params, slope, room):
    total = 0.0
    for i in range(len(scores)):
        slope[i] = -0.95 - 0.05 / (1.0 + scores[i])
        total -= params[0] * (0.95 * scores[i] + 0.05 * np.log(1.0 + scores[i]))
    return total


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_line_search_without_end_returns_a_point_it_evaluated(sign):
    options = {"lambda1": 1e-300, "tol": 1e-8, "max_iter": 1}
    found = minimise(GramSpace(np.eye(2)), Endless(sign), np.zeros((2, 1)), np.zeros((2, 1)), **options)
    coef, scores = np.zeros(2), np.zeros(2)
    value, _, _ = make_minimise(endless)((sign,), np.eye(2), 0.0, *options.values(), make_workspace(coef), coef, scores)
    for at, there, objective in ((found.coef[:, 0], found.scores[:, 0], found.objective[0]), (coef, scores, value)):
        assert_array_equal(at, there)  # K is the identity
        assert_allclose(objective, -sign * falling(there).sum(), rtol=1e-12)
        assert (at > 1e6).all() if sign > 0 else not at.any()


@pytest.mark.parametrize("n_shot", [1, 5])
def test_final_objective_and_labels_against_scipy_on_real_features(shared_data, n_shot):
    bank = np.load(shared_data / "features" / "efficientnet_lite0-val.npz")
    X = bank["X"].astype(np.float64)
    support, labels, query, _ = from_bank(X, bank["y"], np.random.default_rng(0), n_tasks=30, n_shot=n_shot)
    agreement, ours, theirs = [], [], []
    for s, label, q in zip(support, labels, query, strict=True):
        rows = centred_unit_rows(s, q)
        gram = (rows @ rows.T).astype(np.float32).astype(np.float64)
        expected, value = solve(gram, label, 5)
        scores, _ = compiled_scores(gram, label, 5)
        agreement.append(scores[len(label) :].argmax(axis=1) == expected[len(label) :].argmax(axis=1))
        ours.append(numpy_path(gram, label, 5).objective[:, -1].mean())
        theirs.append(value[:, -1].mean())
    assert np.mean(agreement) >= 0.97
    # Not convex: two correct solvers may part. On average ours is not worse, within the spread of such partings.
    difference = np.array(ours) - np.array(theirs)
    assert difference.mean() <= 2 * difference.std() / np.sqrt(len(difference)) + 1e-5
