"""Labels spread over neighbours: against scikit-learn, on curved classes, its weight, later rows, the compiled twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from marginshot import TransductiveMaxMarginClassifier, solve_tasks
from marginshot.batch.task import find_nearest, spread
from marginshot.classifier.settings import PRESETS, Settings
from marginshot.model.graph import DAMPING, DOUBT, Spread, even_masses, measure_edges
from marginshot.model.neighbours import NeighbourSmoothing
from tasks_for_tests import from_bank


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rings(n_rows=100, shots=1, seed=0, noise=0.005):
    """Two interleaved closed curves on the sphere, whose means are the same; labelled rows first."""
    rng = np.random.default_rng(seed)
    classes = np.concatenate((np.tile([0, 1], shots), np.arange(n_rows - 2 * shots) % 2))
    place = np.arange(n_rows) // 2 * 37 % (n_rows // 2)  # labelled rows lie far apart
    angle = 2 * np.pi * (place / (n_rows // 2) + rng.random())
    height = np.where(classes == 0, 0.4, -0.4) + 0.5 * np.cos(2 * angle)
    rows = np.stack((np.cos(angle), np.sin(angle), height), axis=1) + noise * rng.standard_normal((n_rows, 3))
    return unit(rows), classes


def balls(n_rows=80, n_classes=4, shots=1, distance=3.0, dimensions=6, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.concatenate((np.tile(np.arange(n_classes), shots), rng.integers(n_classes, size=n_rows)))
    centres = distance * rng.standard_normal((n_classes, dimensions)) / np.sqrt(2)
    return unit(centres[classes] + rng.standard_normal((len(classes), dimensions))), classes


def graph_of(rows, labels, n_neighbors=8, n_classes=None):
    smoothing = NeighbourSmoothing(n_neighbors, 0.5)
    smoothing.fit_transform(rows)
    n_classes = int(labels.max()) + 1 if n_classes is None else n_classes
    weights = np.ones(len(labels))
    return Spread.fit(smoothing, np.arange(len(labels)), labels, weights, n_classes).graph(), smoothing


@pytest.mark.parametrize("seed", range(3))
def test_spreads_as_scikit_learns_label_spreading(seed):
    rows, classes = balls(seed=seed, shots=3)
    labels = classes[:12]
    graph, smoothing = graph_of(rows, labels)
    squares = 2 - 2 * rows @ rows.T
    near = np.zeros_like(squares, dtype=bool)
    np.put_along_axis(near, smoothing.neighbours, True, axis=1)
    edges = np.where(near | near.T, np.exp(-squares / graph.width), 0.0)
    y = np.where(np.arange(len(rows)) < 12, classes, -1)
    theirs = LabelSpreading(kernel=lambda a, b: edges, alpha=DAMPING, max_iter=5000, tol=1e-10).fit(rows, y)
    shares = theirs.label_distributions_
    expected = graph.weight * np.log(shares + DOUBT)
    reached = graph.reached.sum(axis=1) > 1e-5  # what has come through underflows there, not here
    assert reached.mean() > 0.9
    assert_allclose(graph.logits_of_fitted(smoothing.filled)[reached], expected[reached], atol=5e-3)
    assert_allclose(graph.degrees, edges.sum(axis=1))


@pytest.mark.parametrize("shots", [1, 3])
def test_curved_classes_with_one_mean_are_told_apart(shots):
    hits = []
    for seed in range(5):
        rows, classes = rings(shots=shots, seed=seed)
        graph, smoothing = graph_of(rows, classes[: 2 * shots])
        assert graph.weight == 1.0
        hits.append(np.mean(graph.logits_of_fitted(smoothing.filled).argmax(axis=1) == classes))
    assert np.mean(hits) > 0.95


def accuracies(support, labels, query, truth):
    """Of the preset with its graph, and without."""
    presets = [{**PRESETS["auto"], "calibration": kind} for kind in ("graph", "mixture")]
    return [np.mean(solve_tasks(support, labels, query, Settings(**preset)).labels == truth) for preset in presets]


def test_the_classifier_profits():
    """FS-TMMC's planes cannot part two rings with one mean; with the graph the preset can."""
    tasks = [rings(shots=2, seed=seed) for seed in range(20)]
    support, query = np.stack([r[:4] for r, _ in tasks]), np.stack([r[4:] for r, _ in tasks])
    labels, truth = np.tile([0, 1], (20, 2)), np.stack([c[4:] for _, c in tasks])
    with_graph, without = accuracies(support, labels, query, truth)
    assert with_graph > 0.9 > 0.8 > without


def test_real_digits_are_answered_better():
    digits = load_digits()
    support, labels, query, truth = from_bank(digits.data, digits.target, np.random.default_rng(0), 100)
    with_graph, without = accuracies(support, labels, query, truth)
    assert with_graph > without + 0.01


@pytest.mark.parametrize(
    ("dimensions", "least", "most"), [(2, 1.0, 1.0), (4, 0.95, 1.0), (20, 0.1, 0.5), (200, 0.0, 0.1)]
)
def test_the_more_dimensions_the_less_a_neighbour_tells(dimensions, least, most):
    rows = unit(np.random.default_rng(0).standard_normal((100, dimensions + 1)))
    smoothing = NeighbourSmoothing(8, 0.5)
    smoothing.fit_transform(rows)
    squares = np.maximum(2 - 2 * np.einsum("ij,ikj->ik", rows, rows[smoothing.neighbours]), 0.0)
    assert least <= measure_edges(squares)[1] <= most


@pytest.mark.parametrize(("n_neighbors", "shots"), [(8, 1), (8, 5), (1, 2), (200, 2)])
def test_the_compiled_twin_agrees(n_neighbors, shots):
    tasks = [balls(n_rows=40, shots=shots, seed=seed) for seed in range(4)]
    tasks[3][0][20:] = tasks[3][0][: len(tasks[3][0]) - 20]  # copies
    inner = np.stack([rows @ rows.T for rows, _ in tasks]).astype(np.float32)
    without_direction = {1: 30, 2: 1}  # task -> a query, a labelled row
    for task, row in without_direction.items():
        inner[task, row], inner[task, :, row] = 0.0, 0.0
    labels = np.stack([classes[: 4 * shots] for _, classes in tasks])
    logits = spread(inner, find_nearest(inner, n_neighbors), labels, 4)
    for task, (rows, _) in enumerate(tasks):
        if task in without_direction:
            rows[without_direction[task]] = 0.0
        graph, smoothing = graph_of(rows, labels[task], n_neighbors)
        filled = smoothing.filled
        assert_allclose(logits[task][filled], graph.logits_of_fitted(filled)[filled], atol=5e-3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), order=st.permutations(range(4)))
def test_classes_and_queries_may_come_in_any_order(seed, order):
    rows, classes = balls(n_rows=30, shots=2, seed=seed)
    labels = classes[:8]
    shuffle = np.concatenate((np.arange(8), 8 + np.random.default_rng(seed).permutation(30)))
    graph, smoothing = graph_of(rows, labels)
    renamed, _ = graph_of(rows[shuffle], np.asarray(order)[labels])
    ours, theirs = graph.logits_of_fitted(smoothing.filled), renamed.logits_of_fitted(smoothing.filled)
    assert_allclose(theirs[:, order], ours[shuffle], atol=5e-3)


def test_later_rows_take_from_their_neighbours():
    rows, classes = rings(n_rows=200, shots=3)
    graph, smoothing = graph_of(rows, classes[:6])
    later, truth = rings(n_rows=200, seed=1)
    logits = graph.logits(smoothing.rows, later, smoothing.look_around(later))
    assert np.mean(logits.argmax(axis=1) == truth) > 0.95
    again = graph.logits(smoothing.rows, rows, smoothing.look_around(rows))
    assert_array_equal(again, graph.logits_of_fitted(smoothing.filled))


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_hardly_any_rows(n_rows):
    rows = unit(np.random.default_rng(0).standard_normal((n_rows, 3)))
    graph, smoothing = graph_of(rows, np.arange(min(n_rows, 2)), n_classes=2)
    assert np.isfinite(graph.logits_of_fitted(smoothing.filled)).all()
    zero = np.zeros((1, 3))
    assert_array_equal(graph.logits(smoothing.rows, zero, smoothing.look_around(zero)), np.zeros((1, 2)))


def test_where_all_neighbours_are_copies_the_graph_is_silent():
    rows, classes = balls(n_rows=6, shots=1)
    rows, labels = np.repeat(rows, 30, axis=0), np.repeat(classes[:4], 30)
    graph, smoothing = graph_of(rows, labels)
    assert graph.weight == 0.0
    assert_array_equal(graph.logits_of_fitted(smoothing.filled), np.zeros((len(rows), 4)))


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_copies_of_queries_hardly_change_what_the_graph_says(share):
    rows, classes = balls(dimensions=20, distance=8.0)
    n_copied = int(share * (len(rows) - 4))
    once, smoothing = graph_of(rows, classes[:4])
    twice, with_copies = graph_of(np.concatenate((rows, rows[4 : 4 + n_copied])), classes[:4])
    assert abs(twice.weight - once.weight) < 0.15
    assert_allclose(twice.width, once.width, rtol=0.1)
    logits = twice.logits_of_fitted(with_copies.filled)[: len(rows)]
    assert np.mean(logits.argmax(axis=1) == once.logits_of_fitted(smoothing.filled).argmax(axis=1)) > 0.9
    assert_allclose(logits[4 : 4 + n_copied], twice.logits_of_fitted(with_copies.filled)[len(rows) :], atol=1e-6)


@pytest.mark.parametrize("solver", ["dual", "primal"])
def test_the_classifier_predicts_as_it_labelled_saved_or_not(solver, tmp_path):
    rows, classes = rings(n_rows=300, shots=3)
    y = np.where(np.arange(300) < 6, classes, -1)
    clf = TransductiveMaxMarginClassifier.from_preset("auto", solver=solver).fit(rows, y)
    assert_array_equal(clf.predict(rows[6:]), clf.transduction_[6:])
    assert_allclose(clf.predict_proba(rows[6:]), clf.label_distributions_[6:], atol=1e-5)
    assert np.mean(clf.transduction_ == classes) > 0.9
    clf.save(tmp_path / "model.npz")
    later, truth = rings(n_rows=100, seed=3)
    loaded = TransductiveMaxMarginClassifier.load(tmp_path / "model.npz")
    assert_array_equal(loaded.predict_proba(later), clf.predict_proba(later))
    assert np.mean(clf.predict(later) == truth) > 0.9


def test_the_graph_needs_neighbours():
    with pytest.raises(ValueError, match='calibration="graph" spreads labels over neighbours and n_neighbors is 0'):
        TransductiveMaxMarginClassifier(calibration="graph", n_neighbors=0).fit(np.eye(3), [0, 1, -1])


def test_changed_labels_spread_as_if_from_nothing():
    rows, classes = balls(shots=3)
    smoothing = NeighbourSmoothing(8, 0.5)
    smoothing.fit_transform(rows)
    first = Spread.fit(smoothing, np.arange(10), classes[:10], np.ones(10), 4)
    again = Spread.fit(smoothing, np.arange(12), classes[:12], np.ones(12), 4)
    changed = first.changed(again.known, np.arange(4))
    assert_allclose(changed.reached, again.reached, atol=1e-8)
    swapped = first.changed(again.known[:, [2, 0, 1, 3]], np.array([2, 0, 1, -1]))
    assert_allclose(swapped.reached, again.reached[:, [2, 0, 1, 3]], atol=1e-8)


def test_a_class_with_more_labels_spreads_no_more():
    reached = np.array([[4.0, 1.0], [2.0, 2.0]])
    even_masses(reached, np.array([4.0, 1.0]))
    assert_allclose(reached, [[2.5, 2.5], [1.25, 5.0]])
    even = np.array([[3.0, 1.0]])
    even_masses(even, np.array([5.0, 5.0]))
    assert even.tolist() == [[3.0, 1.0]]
