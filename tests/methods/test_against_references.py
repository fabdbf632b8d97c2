"""Each method against the slow, obvious version of it, and against scikit-learn where that does the step."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import LinearSVC

from marginshot.methods import get_method
from marginshot.methods.bd_cspn import rectified_prototypes
from reference import slow_methods as slow
from tasks_for_tests import blobs


@pytest.fixture
def batch():
    support, labels, query, _ = blobs(np.random.default_rng(1), n_tasks=3, n_way=4, n_shot=3, spread=3.0)
    keep = [0, 3, 4, 5, 6, 7, 9, 10]  # shots 1, 3, 2, 2
    return np.abs(support[:, keep]), labels[:, keep], np.abs(query)


def each_task(reference, batch, *args):
    return np.array([reference(s, y, q, 4, *args) for s, y, q in zip(*batch, strict=True)])


def scaled(batch):
    pairs = [slow.cl2n(s, q) for s, _, q in zip(*batch, strict=True)]
    return np.array([s for s, _ in pairs]), np.array([q for _, q in pairs])


def test_simpleshot(batch):
    def reference(support, labels, query, n_way):
        support, query = slow.cl2n(support, query)
        return np.array([[slow.cosine(x, p) for p in slow.means(support, labels, n_way)] for x in query])

    assert_allclose(get_method("simpleshot").predict_scores(*batch), each_task(reference, batch), atol=1e-12)


def test_simpleshot_takes_the_base_mean(batch):
    support, labels, query = batch
    mean = np.linspace(-1, 1, 16)
    expected = get_method("simpleshot-l2n").predict_scores(support - mean, labels, query - mean)
    actual = get_method("simpleshot", centre=mean).predict_scores(*batch)
    assert_allclose(actual, expected, atol=1e-12)


def test_base_mean_of_the_wrong_length_is_named(batch):
    with pytest.raises(ValueError, match="centre needs one number per feature, 16; got 3"):
        get_method("simpleshot", centre=np.ones(3)).predict_scores(*batch)


def test_protonet(batch):
    def reference(support, labels, query, n_way):
        return np.array([[-((x - p) ** 2).sum() for p in slow.means(support, labels, n_way)] for x in query])

    expected = each_task(reference, batch)
    assert_allclose(get_method("protonet").predict_scores(*batch), expected, atol=1e-10)
    assert_allclose(get_method("simpleshot-un").predict_scores(*batch), expected, atol=1e-10)


def test_bd_cspn(batch):
    def reference(support, labels, query, n_way):
        support, query = slow.cl2n(support, query)
        prototypes = slow.rectified(support, labels, query, n_way)
        return np.array([[-((x - p) ** 2).sum() for p in prototypes] for x in query])

    assert_allclose(get_method("bd-cspn").predict_scores(*batch), each_task(reference, batch), atol=1e-12)


def test_a_class_that_no_row_joins_keeps_its_mean():
    """Rows of the second class lie beyond the means of the first and the third, its own mean lies between."""
    angles = np.radians([0.0, 0.0, -10.0, 100.0, 90.0, 90.0])
    support = np.stack([np.cos(angles), np.sin(angles)], axis=1)[None]
    labels, query = np.array([[0, 0, 1, 1, 2, 2]]), support[:, [0, 0, 4, 4]]
    prototypes = rectified_prototypes(support, labels, query, 3, 10.0)
    assert_allclose(prototypes[0, 1], support[0, 2:4].mean(axis=0), atol=1e-12)
    assert np.linalg.norm(prototypes[0, [0, 2]], axis=1).min() > 0.9


def test_bd_cspn_of_easyfsl(batch):
    def reference(support, labels, query, n_way):
        support, query = slow.cl2n(support, query)
        prototypes = slow.weighted_means(support, labels, query, n_way, 10.0)
        return np.array([[slow.cosine(x, p) for p in prototypes] for x in query])

    actual = get_method("bd-cspn-easyfsl", sharpness=10.0).predict_scores(*batch)
    assert_allclose(actual, each_task(reference, batch), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "rectification"),
    [("laplacianshot", "authors"), ("laplacianshot-easyfsl", "EasyFSL"), ("laplacianshot-unrectified", None)],
)
def test_laplacianshot(batch, name, rectification):
    actual = get_method(name, n_neighbors=3, max_iter=20).predict_scores(*batch)
    expected = each_task(slow.laplacianshot, batch, 0.7, 3, 20, rectification)
    assert_allclose(actual, expected, atol=1e-4)  # the slow version never stops early


def test_laplacianshot_without_smoothing_is_nearest_prototype(batch):
    unsmoothed = get_method("laplacianshot-unrectified", smoothing=0.0).predict_scores(*batch)
    support, query = scaled(batch)
    nearest = get_method("protonet").predict_scores(support, batch[1], query)
    assert_array_equal(unsmoothed.argmax(axis=2), nearest.argmax(axis=2))
    assert_allclose(unsmoothed, get_method("protonet").probabilities(nearest), atol=1e-12)


def test_pt_map(batch):
    actual = get_method("pt-map", n_rounds=5).predict_scores(*batch)
    assert_allclose(actual, each_task(slow.pt_map, batch, 0.5, 10.0, 0.2, 5), atol=1e-6)
    assert_allclose(actual.sum(axis=1), 24 / 4, rtol=1e-6)  # classes of equal mass


def test_pt_map_keeps_the_sign_of_features(batch):
    """As in the code of BPA, BMS and protoLP; issue 36."""
    signed = batch[0] - 1.0, batch[1], batch[2] - 1.0
    actual = get_method("pt-map", n_rounds=5).predict_scores(*signed)
    assert_allclose(actual, each_task(slow.pt_map, signed, 0.5, 10.0, 0.2, 5), atol=1e-5)


def test_tim_gd(batch):
    actual = get_method("tim-gd", max_iter=12, learning_rate=0.01).predict_scores(*batch)
    expected = each_task(slow.tim_gd, batch, (0.1, 1.0, 0.1), 15.0, 0.01, 12)
    assert_allclose(actual, expected, atol=1e-4)


def test_pt_map_with_fewer_queries_than_classes_shares_their_mass(batch):
    support, labels, query = batch
    plan = get_method("pt-map").predict_scores(support, labels, query[:, :3])
    assert_allclose(plan.sum(axis=2), 1.0, rtol=1e-9)
    assert_allclose(plan.sum(axis=1), 3 / 4, rtol=1e-5)


def test_pt_map_says_when_it_stopped_short(batch):
    with pytest.warns(ConvergenceWarning, match="PTMAP did not converge in 3 of 3 tasks: raise max_iter or tol"):
        get_method("pt-map", max_iter=1).predict_scores(*batch)


def test_paddle(batch):
    actual = get_method("paddle", tol=1e-9).predict_scores(*batch)
    assert_allclose(actual, each_task(slow.paddle, batch, 1.0, 40.0, 200), atol=1e-6)


def test_paddle_says_when_it_stopped_short(batch):
    with pytest.warns(ConvergenceWarning, match="PADDLE did not converge in 3 of 3 tasks"):
        get_method("paddle", max_iter=1).predict_scores(*batch)


def test_paddle_leaves_classes_empty():
    """Five possible classes, queries of one: the price on classes in use gathers them."""
    support, labels, query, truth = blobs(np.random.default_rng(4), n_tasks=8, n_way=5, n_shot=2, spread=3.0)
    query = query[:, truth[0] == 2]
    free = get_method("paddle", complexity=0.0).predict_scores(support, labels, query).argmax(axis=2)
    priced = get_method("paddle", complexity=4.0).predict_scores(support, labels, query).argmax(axis=2)
    assert sum(len(set(task)) for task in priced) < sum(len(set(task)) for task in free)


def test_matchingnet(batch):
    def reference(support, labels, query, n_way):
        support, query = slow.cl2n(support, query)
        attention = np.array([slow.softmax(np.array([slow.cosine(x, s) for s in support])) for x in query])
        return attention @ np.eye(n_way)[labels]

    assert_allclose(get_method("matchingnet").predict_scores(*batch), each_task(reference, batch), atol=1e-12)


def test_label_propagation_is_the_limit_of_label_spreading(batch):
    width, damping = 0.8, 0.7
    actual = get_method("label-propagation", width=width, damping=damping, n_neighbors=1000).predict_scores(*batch)
    for t, (support, query) in enumerate(zip(*scaled(batch), strict=True)):
        spreading = LabelSpreading(gamma=0.5 / width**2, alpha=damping, tol=1e-12, max_iter=1000)
        spreading.fit(np.concatenate([support, query]), np.concatenate([batch[1][t], np.full(len(query), -1)]))
        normalised = actual[t] / actual[t].sum(axis=1, keepdims=True)
        assert_allclose(normalised, spreading.label_distributions_[len(support) :], atol=1e-8)


def test_label_propagation(batch):
    actual = get_method("label-propagation").predict_scores(*batch)
    assert_allclose(actual, each_task(slow.label_propagation, batch, 0.4, 10, 0.8), atol=1e-10)


def test_ridge_is_scikit_learns(batch):
    actual = get_method("ridge", penalty=0.3).predict_scores(*batch)
    for t, (support, query) in enumerate(zip(*scaled(batch), strict=True)):
        ridge = Ridge(alpha=0.3, fit_intercept=False).fit(support, np.eye(4)[batch[1][t]])
        assert_allclose(actual[t], ridge.predict(query), atol=1e-10)


@pytest.mark.parametrize("n_way", [2, 4])
def test_svm_is_scikit_learns_in_all_dimensions(batch, n_way):
    support, labels, query = batch
    keep = labels[0] < n_way
    task = support[:, keep], labels[:, keep], query
    scores = get_method("svm", C=0.5).predict_scores(*task)
    for t, (s, q) in enumerate(zip(*scaled(task), strict=True)):
        svm = LinearSVC(C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, random_state=1)
        decisions = svm.fit(s, labels[t, keep]).decision_function(q)
        actual = scores[t] if n_way > 2 else scores[t, :, 1] - scores[t, :, 0]
        assert_allclose(actual, decisions, atol=1e-4)


@pytest.mark.parametrize("n_way", [2, 4])
def test_baseline_minimises_the_penalised_cross_entropy(batch, n_way):
    """Scores from the head are compared with a multinomial regression in all dimensions, for two classes as well."""
    support, labels, query = batch
    keep = labels[0] < n_way
    task = support[:, keep], labels[:, keep], query
    method = get_method("baseline", weight_decay=0.01)
    actual = method.probabilities(method.predict_scores(*task))
    for t, (s, q) in enumerate(zip(*scaled(task), strict=True)):
        y = labels[t, keep]
        if n_way == 2:  # a third class nobody belongs to would change the problem, so write it out
            regression = LogisticRegression(C=2 / (0.01 * len(y)), tol=1e-8, max_iter=10_000).fit(s, y)
        else:
            regression = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-8, max_iter=10_000).fit(s, y)
        assert_allclose(actual[t], regression.predict_proba(q), atol=1e-3)


@pytest.mark.parametrize("name", ["protonet", "simpleshot-un"])
def test_a_common_offset_changes_no_distance(name):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((5, 64))
    support, query = (centres.repeat(n, axis=0) + rng.standard_normal((5 * n, 64)) for n in (5, 15))
    labels = np.arange(5).repeat(5)[None]
    far = [x[None].astype(np.float32) + np.float32(3000) for x in (support, query)]
    near = [x - np.float32(3000) for x in far]
    method = get_method(name)
    answers = [method.predict_scores(s, labels, q).argmax(axis=2) for s, q in (far, near)]
    assert_array_equal(*answers)
