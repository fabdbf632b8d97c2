"""Rivals of recent years against the slow, obvious version of each, and their limit cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.methods import get_method
from marginshot.methods._manifold import Manifold
from marginshot.methods.base import Tasks
from marginshot.methods.bpa import balanced_affinities
from marginshot.solvers.transport_compiled import transport_to_centres
from reference import slow_methods, slow_rivals
from tasks_for_tests import blobs


@pytest.fixture
def batch():
    """Three tasks of four overlapping classes, two shots each, features of either sign."""
    support, labels, query, _ = blobs(np.random.default_rng(5), n_tasks=3, n_way=4, n_shot=2, spread=3.0)
    return support, labels, query


@pytest.fixture
def unequal(batch):
    support, labels, query = batch
    keep = [0, 2, 3, 4, 5, 6]  # shots 1, 2, 2, 1
    return support[:, keep], labels[:, keep], query


def each_task(reference, batch, *args):
    return np.array([reference(s, y, q, 4, *args) for s, y, q in zip(*batch, strict=True)])


def test_bpa(unequal):
    actual = get_method("bpa", n_rounds=4, n_sinkhorn=6).predict_scores(*unequal)
    assert_allclose(actual, each_task(slow_rivals.bpa, unequal, 0.2, 6, 4), atol=1e-6)


def test_bpa_is_pt_map_on_affinities(batch):
    """PT-MAP's own rounds, fed with the rows of affinities."""
    support, labels, query = batch
    method = get_method("bpa", n_rounds=5)
    support, query = (rows.astype(np.float64) for rows in (support, query))
    tasks = Tasks(support, labels, query, 4, np.ones(3, dtype=bool))
    rows = np.concatenate(method._prepare(tasks), axis=1)
    expected, _ = transport_to_centres(rows @ rows.swapaxes(1, 2), labels, 4, 10.0, 0.2, 5, 100, 1e-6)
    assert_allclose(method.predict_scores(support, labels, query), expected, atol=1e-9)


def test_bpa_affinities_without_costs_are_alike():
    rows = slow_rivals.unit(np.random.default_rng(0).standard_normal((2, 9, 5)))
    assert_allclose(balanced_affinities(rows, 1e12, 10), 1.0, atol=1e-9)


def test_bpa_affinities_are_shared_out_evenly():
    rows = slow_rivals.unit(np.random.default_rng(0).standard_normal((2, 9, 5)))
    affinities = balanced_affinities(rows, 0.3, 400)
    off_diagonal = affinities * (1 - np.eye(9))
    assert_allclose(affinities, affinities.swapaxes(1, 2), rtol=1e-6)
    assert_allclose(off_diagonal.sum(axis=2) / off_diagonal.sum(axis=(1, 2))[:, None], 1 / 9, rtol=1e-6)


@pytest.mark.parametrize("n_steps", [0, 3])
def test_bms(batch, n_steps):
    actual = get_method("bms", n_rounds=4, n_steps=n_steps).predict_scores(*batch)
    assert_allclose(actual, each_task(slow_rivals.bms, batch, 4, 50, n_steps), atol=1e-6)


def test_bms_once_without_least_size_is_simpleshot(unequal):
    support, labels, query = unequal
    pairs = [slow_rivals.peme(s, q) for s, q in zip(support, query, strict=True)]
    prepared = np.array([s for s, _ in pairs]), labels, np.array([q for _, q in pairs])
    cosines = get_method("simpleshot-l2n").predict_scores(*prepared)
    free = get_method("bms", n_rounds=1, n_sinkhorn=0).predict_scores(*unequal)
    assert_allclose(free, [[slow_methods.softmax(8.5 * z) for z in task] for task in cosines], atol=1e-9)


def test_bms_balanced_gives_every_class_its_share(batch):
    scores = get_method("bms", balanced=True, n_sinkhorn=5000).predict_scores(*batch)
    assert_allclose(scores.sum(axis=1), 24 / 4, rtol=1e-6)


def test_protolp(batch):
    actual = get_method("protolp", n_rounds=4, n_components=9).predict_scores(*batch)
    assert_allclose(actual, each_task(slow_rivals.protolp, batch, 9, 0.05, 0.7, 4), atol=1e-6)


def test_protolp_without_propagation_is_pt_map(batch):
    """One shot, so that the support's means have unit length already."""
    support, labels, query = batch
    one_shot = support[:, ::2], labels[:, ::2], query
    actual = get_method("protolp", propagated=0.0, n_components=1000, n_rounds=6).predict_scores(*one_shot)
    rows = np.array([np.concatenate(slow_rivals.peme(s, q)) for s, _, q in zip(*one_shot, strict=True)])
    gram = rows @ rows.swapaxes(1, 2)
    expected, _ = transport_to_centres(gram, one_shot[1], 4, 10.0, 0.2, 6, 100, 1e-6)
    assert_allclose(actual, expected, atol=1e-6)


def test_soft_kmeans(unequal):
    actual = get_method("soft-kmeans").predict_scores(*unequal)
    assert_allclose(actual, each_task(slow_rivals.soft_kmeans, unequal, 5.0, 30), atol=1e-5)


def test_soft_kmeans_is_paddle_without_a_price(unequal):
    soft = get_method("soft-kmeans", n_rounds=1000).predict_scores(*unequal)
    free = get_method("paddle", complexity=0.0, temperature=10.0, tol=1e-7).predict_scores(*unequal)
    assert_array_equal(soft, free)


def test_unem_gaussian(unequal):
    values = 6.0, (1.0, 3.0, 0.5), (2.0, 1.5, 1.0)
    actual = get_method("unem-gaussian", scale=values[0], balance=values[1], softness=values[2])
    assert_allclose(actual.predict_scores(*unequal), each_task(slow_rivals.unem, unequal, *values), atol=1e-9)


def test_unem_gaussian_with_constant_layers_is_paddle(unequal):
    layers = get_method("unem-gaussian", scale=40.0**0.5, balance=(1.0,) * 400, softness=(1.0,) * 400)
    paddle = get_method("paddle", tol=1e-12, max_iter=5000)
    assert_allclose(layers.predict_scores(*unequal), paddle.predict_scores(*unequal), atol=1e-6)


@pytest.mark.parametrize("balanced", [False, True])
def test_bavardage(unequal, balanced):
    actual = get_method("bavardage", balanced=balanced).predict_scores(*unequal)
    assert_allclose(actual, each_task(slow_rivals.bavardage, unequal, balanced), atol=1e-7)


def test_bavardage_without_rounds_is_soft_kmeans(unequal):
    start = get_method("bavardage", n_rounds=0).predict_scores(*unequal)
    assert_array_equal(start, get_method("soft-kmeans", temperature=10.0, n_rounds=5).predict_scores(*unequal))


def test_ilpc(unequal):
    actual = get_method("ilpc", n_neighbors=6, n_steps=25).predict_scores(*unequal)
    assert_allclose(actual, each_task(slow_rivals.ilpc, unequal, 6, 3, 25), atol=1e-5)


def test_ilpc_that_keeps_all_at_once_is_balanced_label_propagation(batch):
    support, labels, query = batch
    once = get_method("ilpc", n_best=24, n_neighbors=1000, n_steps=1).predict_scores(*batch)
    for t in range(3):
        rows = np.concatenate(slow_rivals.peme(support[t], query[t]))
        # Label propagation's own graph, from the distances at which its weights are the cubed cosines.
        cosines = np.maximum(rows @ rows.T, 1e-30)
        graph = get_method("label-propagation", width=1.0, n_neighbors=1000)._graph(-6.0 * np.log(cosines)[None])[0]
        known = np.concatenate([np.eye(4)[labels[t]], np.zeros((24, 4))])
        spread = np.linalg.solve(np.eye(32) - 0.8 * graph, known)[8:]
        expected = slow_rivals.sinkhorn((spread / spread.sum(axis=1, keepdims=True)) ** 3, np.full(4, 6.0))
        assert_allclose(once[t], expected, atol=1e-5)


@pytest.fixture
def small():
    """One task of two classes, two shots and three queries each."""
    support, labels, query, _ = blobs(
        np.random.default_rng(8), n_tasks=1, n_way=2, n_query_per_class=3, n_features=3, spread=2.0
    )
    return support, labels, query


def test_adaptive_manifold(small):
    settings = {"alpha": 2.0, "n_neighbors": 4, "damping": 0.8, "max_iter": 3, "learning_rate": 0.01}
    actual = get_method("adaptive-manifold", **settings).predict_scores(*small)
    support, labels, query = (rows[0] for rows in small)
    expected = slow_rivals.adaptive_manifold(support, labels, query, 2, 2.0, 4, 0.8, 3, 0.01)
    assert_allclose(actual[0], expected, rtol=1e-3, atol=1e-4)


def test_adaptive_manifold_untrained_is_label_propagation(batch):
    """From the class means, over a graph that decays with the distance and not with its square."""
    support, labels, query = batch
    method = get_method("adaptive-manifold", max_iter=0, n_neighbors=1000, damping=0.7)
    actual = method.predict_scores(*batch)
    for t in range(3):
        s, q = slow_rivals.peme(support[t], query[t])
        rows, centroids = np.concatenate([s, q]), slow_methods.means(s, labels[t], 4)
        ones = np.ones((36, 36))
        assert_allclose(actual[t], slow_rivals.manifold_logits(rows, centroids, ones, ones, 36, 0.7)[8:], rtol=1e-6)


def test_manifold_gradient_is_the_finite_difference():
    rng = np.random.default_rng(2)
    manifold = Manifold(rows=rng.standard_normal((2, 7, 3)), n_way=2, n_neighbors=4, damping=0.8, temperature=15.0)
    at = manifold.pack(rng.standard_normal((2, 2, 3))) + 0.1 * rng.random((2, 6 + 2 * 81))
    slope, direction = rng.standard_normal((2, 7, 2)), rng.standard_normal(at.shape)
    actual = (manifold.pull_back(slope, manifold.spread(at)[1]) * direction).sum(axis=1)
    ahead, behind = (manifold.spread(at + step * direction)[0] for step in (1e-6, -1e-6))
    assert_allclose(actual, ((ahead - behind) * slope).sum(axis=(1, 2)) / 2e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("bpa", {"regularization": 0.0}, r"regularization of BPA must be in \[0.01, inf\); got 0.0"),
        ("bpa", {"n_sinkhorn": 0}, "n_sinkhorn of BPA must be an integer of at least 1; got 0"),
        ("bms", {"momentum": 1.0}, r"momentum of BMS must be in \[0, 1\); got 1.0"),
        ("bms", {"n_rounds": 0}, "n_rounds of BMS must be an integer of at least 1; got 0"),
        ("protolp", {"propagated": 1.5}, r"propagated of ProtoLP must be in \[0, 1\]; got 1.5"),
        ("soft-kmeans", {"temperature": 0}, r"temperature of SoftKMeans must be in \(0, inf\); got 0"),
        ("adaptive-manifold", {"damping": 1.0}, r"damping of AdaptiveManifold must be in \[0, 1\); got 1.0"),
        ("adaptive-manifold", {"alpha": 0.0}, r"alpha of AdaptiveManifold must be in \(0, inf\); got 0.0"),
        ("ilpc", {"damping": 1.0}, r"damping of ILPC must be in \[0, 1\); got 1.0"),
        ("ilpc", {"n_best": 0}, "n_best of ILPC must be an integer of at least 1; got 0"),
        ("bavardage", {"share_count": 0.0}, r"share_count of BAVARDAGE must be in \(0, inf\); got 0.0"),
    ],
)
def test_bad_settings_are_named(name, settings, message):
    with pytest.raises(ValueError, match=message):
        get_method(name, **settings)
