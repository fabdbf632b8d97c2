"""TIM-GD, alpha-TIM, transductive fine-tuning, Baseline++: limit cases and what training does."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.methods import get_method
from marginshot.solvers.adam import adam
from reference import slow_methods
from tasks_for_tests import blobs


@pytest.fixture
def batch():
    return blobs(np.random.default_rng(8), n_tasks=4, n_way=4, n_shot=2, spread=3.0)[:3]


@pytest.mark.parametrize("name", ["tim-gd-easyfsl", "transductive-finetuning", "baseline-plus"])
def test_without_steps_it_is_simpleshot(batch, name):
    method = get_method(name, max_iter=0, temperature=1.0, centre="task")
    assert_allclose(method.predict_scores(*batch), get_method("simpleshot").predict_scores(*batch), atol=1e-12)


def test_tim_gd_is_alpha_tim_with_shannons_entropies(batch):
    shared = {"cross_entropy_weight": 0.1, "conditional_weight": 0.1, "learning_rate": 1e-3, "max_iter": 50}
    tim, alpha = get_method("tim-gd", **shared), get_method("alpha-tim", alpha=1.0, **shared)
    assert_array_equal(tim.predict_scores(*batch), alpha.predict_scores(*batch))


def test_alpha_tim_without_steps_is_protonet_on_scaled_features(batch):
    support, labels, query = (batch[0] / np.linalg.norm(batch[0], axis=2, keepdims=True)), batch[1], batch[2]
    query = query / np.linalg.norm(query, axis=2, keepdims=True)
    untrained = get_method("alpha-tim", max_iter=0, temperature=2.0).predict_scores(*batch)
    assert_allclose(untrained, get_method("protonet").predict_scores(support, labels, query), atol=1e-12)


def test_without_query_terms_tim_is_baseline_plus_plus(batch):
    settings = {"marginal_weight": 0.0, "conditional_weight": 0.0, "temperature": 5.0, "max_iter": 30}
    tim = get_method("tim-gd-easyfsl", centre="task", **settings)
    inductive = get_method("baseline-plus", temperature=5.0, learning_rate=1e-3, max_iter=30)
    assert_allclose(tim.predict_scores(*batch), inductive.predict_scores(*batch), atol=1e-9)


def test_without_marginal_term_tim_is_transductive_finetuning(batch):
    tim = get_method("tim-gd-easyfsl", marginal_weight=0.0, conditional_weight=0.3, max_iter=30, centre="task")
    tuned = get_method("transductive-finetuning", entropy_weight=0.3, max_iter=30)
    assert_allclose(tim.predict_scores(*batch), tuned.predict_scores(*batch), atol=1e-9)


def test_tim_balances_the_classes(batch):
    plain = get_method("tim-gd", max_iter=0)
    trained = get_method("tim-gd", max_iter=300)
    before, after = (m.probabilities(m.predict_scores(*batch)).mean(axis=1) for m in (plain, trained))
    assert np.abs(after - 0.25).max() < 0.5 * np.abs(before - 0.25).max()


def test_ostim_is_the_slow_version(batch):
    method = get_method("ostim", max_iter=12, learning_rate=0.01)
    scores = method.predict_scores(*batch)
    odds = method.foreign_scores(scores)
    for task in range(4):
        support, labels, query = (array[task] for array in batch)
        expected, none = slow_methods.ostim(support, labels, query, 4, (1.0, 1.0, 0.1), 10.0, 0.01, 12)
        assert_allclose(scores[task], expected, atol=1e-4)
        assert_allclose(1 / (1 + np.exp(-odds[task])), none, atol=1e-4)


def test_ostim_tells_queries_of_no_class(batch):
    support, labels, query = batch
    rng = np.random.default_rng(0)
    foreign = query.mean(axis=1, keepdims=True) + 9 * rng.standard_normal((4, 12, query.shape[2]))
    method = get_method("ostim")
    odds = method.foreign_scores(method.predict_scores(support, labels, np.concatenate((query, foreign), axis=1)))
    assert np.median(odds[:, -12:]) > np.median(odds[:, :-12])


def test_ostim_without_steps_is_simpleshot_at_one_shot():
    one = blobs(np.random.default_rng(3), n_shot=1)[:3]  # the mean of one row has its direction
    untrained = get_method("ostim", max_iter=0, temperature=1.0)
    assert_allclose(untrained.predict_scores(*one), get_method("simpleshot").predict_scores(*one), atol=1e-12)


@pytest.mark.parametrize(("n_shot", "alpha"), [(1, 2.0), (3, 4.5), (5, 7.0), (9, 7.0)])
def test_alpha_tim_takes_the_authors_alpha_for_the_shot(n_shot, alpha):
    batch = blobs(np.random.default_rng(1), n_shot=n_shot)[:3]
    assert_allclose(
        get_method("alpha-tim").predict_scores(*batch), get_method("alpha-tim", alpha=alpha).predict_scores(*batch)
    )


def test_adam_is_torchs():
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(0).standard_normal((2, 3))
    theirs = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.05)
    for _ in range(40):
        optimizer.zero_grad()
        (theirs**4).sum().backward()
        optimizer.step()
    ours = adam(lambda x: 4 * x**3, start, learning_rate=0.05, n_steps=40)
    assert_allclose(ours, theirs.detach().numpy(), atol=1e-10)
