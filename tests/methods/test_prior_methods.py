"""Methods that take a prior against the slow, obvious version of each, and what they promise of the prior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from marginshot.methods import METHODS, get_method, takes_prior
from marginshot.solvers.dirichlet_compiled import digamma, fit_dirichlets
from reference import slow_rivals as slow
from tasks_for_tests import blobs

WITH_PRIOR = sorted(name for name in METHODS if takes_prior(get_method(name)))


@pytest.fixture
def batch():
    """Three tasks of four overlapping classes with 1, 2, 2, 1 shots, and beliefs about queries and support."""
    support, labels, query, truth = blobs(np.random.default_rng(5), n_tasks=3, n_way=4, n_shot=2, spread=3.0)
    keep = [0, 2, 3, 4, 5, 6]
    rng = np.random.default_rng(0)
    prior, support_prior = (
        (2.0 * np.eye(4)[right] + rng.gamma(0.7, size=(*right.shape, 4))) for right in (truth, labels[:, keep])
    )
    return support[:, keep], labels[:, keep], query, prior, support_prior


def scaled(beliefs):
    return beliefs / beliefs.sum(axis=-1, keepdims=True)


def each_task(reference, batch, *args, priors=None):
    tasks = zip(*batch[:3], strict=True)
    more = [{}] * 3 if priors is None else [{"prior": one} for one in scaled(priors)]
    return np.array([reference(s, y, q, 4, *args, **each) for (s, y, q), each in zip(tasks, more, strict=True)])


def test_which_methods_take_a_prior():
    of_ours = ["fs-mmc", "fs-tmmc", "fs-tmmc-auto", "fs-tmmc-balanced", "fs-tmmc-estimate", "fs-tmmc-printed"]
    mixtures = ["em-dirichlet", "hard-em-dirichlet", "stata", "transclip", "transclip-zero-shot"]
    assert sorted([*of_ours, *mixtures, "lp++", "zero-shot"]) == WITH_PRIOR


@pytest.mark.parametrize(
    ("name", "reference", "values"),
    [
        ("stata", slow.stata, ()),
        ("transclip", slow.transclip, (0.02, 0.5)),
        ("transclip-zero-shot", slow.transclip, (0.0, 1.0)),
    ],
)
def test_mixtures(batch, name, reference, values):
    method = get_method(name)
    assert_allclose(method.predict_scores(*batch[:3]), each_task(reference, batch, *values), atol=1e-7)
    actual = method.predict_scores(*batch[:3], prior=batch[3])
    assert_allclose(actual, each_task(reference, batch, *values, priors=batch[3]), atol=1e-7)


def test_lp_plus_plus(batch):
    support, labels, query, prior, support_prior = batch
    actual = get_method("lp++", max_iter=45).predict_scores(
        support, labels, query, prior=prior, support_prior=support_prior
    )
    for task in range(3):
        beliefs = scaled(prior)[task], scaled(support_prior)[task]
        expected = slow.lp_plus_plus(support[task], labels[task], query[task], 4, *beliefs, 45)
        assert_allclose(actual[task], expected, atol=1e-8)


def test_lp_plus_plus_without_steps_is_a_sum_of_class_sums_and_the_prior(batch):
    support, labels, query, prior, _ = batch
    method = get_method("lp++", max_iter=0)
    rows, queries = (array / np.linalg.norm(array, axis=2, keepdims=True) for array in (support, query))
    sums = np.einsum("tnc,tnd->tdc", np.eye(4)[labels], rows)
    alone = method.predict_scores(support, labels, query)
    assert_allclose(alone, queries @ sums, atol=1e-12)
    logs = np.log(scaled(prior))
    both = method.predict_scores(support, labels, query, prior=prior)
    assert_allclose(both - alone, 0.625 * (logs - logs.mean(axis=2, keepdims=True)), atol=1e-12)


def test_lp_plus_plus_learns_to_doubt_a_bad_prior(batch):
    support, labels, query, prior, _ = batch
    truth = np.repeat(np.arange(4), 6)
    rng = np.random.default_rng(1)
    bad, bad_support = (rng.permuted(beliefs, axis=2) ** 4 for beliefs in (prior, rng.gamma(1.0, size=(3, 6, 4))))
    right = [
        (
            get_method("lp++", max_iter=steps)
            .predict_scores(support, labels, query, prior=bad, support_prior=bad_support)
            .argmax(axis=2)
            == truth
        ).mean()
        for steps in (0, 300)
    ]
    assert right[1] > right[0]


def test_zlap(batch):
    actual = get_method("zlap", n_names=3).predict_scores(*batch[:3])
    assert_allclose(actual, each_task(slow.zlap, batch, 4, 3, 5.0, 0.3), atol=1e-10)


def test_zlap_without_spread_ranks_by_the_nearest_name(batch):
    nearest = get_method("zero-shot").predict_scores(*batch[:3]).argmax(axis=2)
    alone = get_method("zlap", spread=0.01).predict_scores(*batch[:3]).argmax(axis=2)
    assert (alone == nearest).mean() > 0.8


@pytest.mark.parametrize(("name", "hard"), [("em-dirichlet", False), ("hard-em-dirichlet", True)])
def test_em_dirichlet(batch, name, hard):
    support, labels, query, prior, support_prior = batch
    method = get_method(name, n_rounds=3, max_iter=50_000)
    actual = method.predict_scores(support, labels, query, prior=prior, support_prior=support_prior)
    tasks = zip(scaled(support_prior), scaled(prior), labels, strict=True)
    expected = np.array([slow.em_dirichlet(s, q, y, 4, 3, hard) for s, q, y in tasks])
    assert_allclose(actual, expected, atol=2e-3)


def test_em_dirichlet_forms_probabilities_from_cosines(batch):
    support, labels, query = batch[:3]
    tasks = zip(support, labels, query, strict=True)
    found = [slow.prototypes_and_prior(s, y, q, 4, 30.0) for s, y, q in tasks]
    given = get_method("em-dirichlet").predict_scores(
        support,
        labels,
        query,
        prior=np.array([prior for *_, prior in found]),
        support_prior=np.array([[slow.softmax(30 * names @ x) for x in rows] for rows, _, names, _ in found]),
    )
    assert_allclose(get_method("em-dirichlet").predict_scores(support, labels, query), given, atol=1e-6)


def test_em_dirichlet_needs_the_prior_of_the_support(batch):
    with pytest.raises(ValueError, match="give support_prior with prior, or support_weight=0"):
        get_method("em-dirichlet").predict_scores(*batch[:3], prior=batch[3])
    method = get_method("em-dirichlet", support_weight=0)
    beyond = method.predict_scores(batch[0] + 1.0, *batch[1:3], prior=batch[3])
    assert_array_equal(method.predict_scores(*batch[:3], prior=batch[3]), beyond)


def test_dirichlet_estimates_are_those_of_maximum_likelihood():
    truth = np.array([[0.3, 2.0, 5.0], [4.0, 4.0, 0.2]])
    mean_logs = psi(truth) - psi(truth.sum(axis=1, keepdims=True))
    assert_allclose(fit_dirichlets(mean_logs[None], np.ones((1, 2, 3)), 100_000)[0], truth, rtol=2e-3)


def test_digamma_is_scipys():
    x = np.concatenate([np.geomspace(1e-9, 1e6, 200), [1.0, 9.999, 10.0]])
    assert_allclose([digamma(value) for value in x], psi(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", WITH_PRIOR)
def test_a_true_prior_is_worth_something_and_a_silent_one_is_uniform(name, batch):
    support, labels, query, _, support_prior = batch
    method = get_method(name)
    truth = np.repeat(np.arange(4), query.shape[1] // 4)
    told = np.broadcast_to(0.9 * np.eye(4)[truth] + 0.025, (3, len(truth), 4))
    told_support = 0.9 * np.eye(4)[labels] + 0.025
    scores = method.predict_scores(support, labels, query, prior=told, support_prior=told_support)
    least = 0.8 if name == "lp++" else 0.95  # LP++ does not trust what all examples agree with: it fits them anyway
    assert (scores.argmax(axis=2) == truth).mean() > least
    silent, equal = np.zeros(told.shape), np.full(told.shape, 7.0)
    first, second = (
        method.predict_scores(support, labels, query, prior=beliefs, support_prior=support_prior)
        for beliefs in (silent, equal)
    )
    assert_array_equal(first, second)


@pytest.mark.parametrize("name", WITH_PRIOR)
def test_a_task_with_a_prior_alone_equals_it_in_a_batch(name, batch):
    support, labels, query, prior, support_prior = batch
    method = get_method(name)
    scores = method.predict_scores(support, labels, query, prior=prior, support_prior=support_prior)
    alone = [a[1:2] for a in batch]
    assert_array_equal(
        method.predict_scores(*alone[:3], prior=alone[3], support_prior=alone[4]), scores[1:2], err_msg=name
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p: p[:, 1:],
            r"prior must have one belief for each row and class, shape \(3, 24, 4\); got",
        ),
        (lambda p: -p, "prior must hold probabilities, finite and at least 0"),
        (lambda p: p * np.nan, "prior must hold probabilities, finite and at least 0"),
        (lambda p: np.full(p.shape, "x"), "prior must be an array of real numbers"),
    ],
)
def test_strange_priors_are_named(batch, change, message):
    with pytest.raises(ValueError, match=message):
        get_method("stata").predict_scores(*batch[:3], prior=change(batch[3]))
