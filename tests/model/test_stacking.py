"""Hidden labels: which rows are hidden, and what weights follow from them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from marginshot import TransductiveMaxMarginClassifier
from marginshot.model.stacking import N_FOLDS, RIGHT_LABELS, STRENGTH, folds_of, stack


def test_every_class_keeps_a_label_in_every_fold_and_groups_stay_together():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), (1, 2, 3, 4, 9))
    groups = np.where(labels == 4, np.arange(len(labels)) // 3, 100 + np.arange(len(labels)))
    folds = folds_of(labels, groups, rng.random(len(labels)))
    assert folds[0] == -1
    assert (folds[1:] >= 0).all()
    for group in np.unique(groups):
        assert len(np.unique(folds[groups == group])) == 1
    for fold in range(N_FOLDS):
        assert_array_equal(np.unique(labels[folds != fold]), np.arange(5))


def test_a_class_of_one_group_is_never_hidden():
    assert_array_equal(folds_of(np.array([0, 0, 0, 1, 1]), np.array([7, 7, 7, 1, 2]), np.arange(5.0))[:3], -1)


def test_folds_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    labels, numbers, shuffle = rng.integers(4, size=30), rng.random(30), rng.permutation(30)
    folds = folds_of(labels, np.arange(30), numbers)
    assert_array_equal(folds_of(labels[shuffle], np.arange(30), numbers[shuffle]), folds[shuffle])


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_weights_are_those_of_scipy(scale):
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=40)
    logits = scale * (rng.standard_normal((2, 40, 3)) + np.array([1.0, 0.3])[:, None, None] * np.eye(3)[labels])

    def cost(values):
        log_weights, wrong = values[:2], values[2]
        likely = softmax(np.tensordot(np.exp(log_weights), logits, axes=1), axis=1)[np.arange(40), labels]
        of_labels = np.log((1 - wrong) * likely + wrong / 3).sum() + RIGHT_LABELS * np.log1p(-wrong)
        return 0.5 * STRENGTH * (log_weights**2).sum() - of_labels

    best = minimize(cost, [0.0, 0.0, 0.05], bounds=[(None, None)] * 2 + [(0.0, 0.999)])
    ours = np.log(stack(logits, labels, np.ones(40)))
    at_ours = minimize(lambda wrong: cost(np.append(ours, wrong)), [0.05], bounds=[(0.0, 0.999)])
    assert at_ours.fun <= best.fun + 1e-3


def test_wrong_labels_do_not_lower_the_sharpness():
    """Right labels alone, and the same with a tenth of others, give nearly the same weights."""
    rng = np.random.default_rng(5)
    labels = rng.integers(5, size=200)
    logits = 2.0 * rng.standard_normal((1, 200, 5)) + 4.0 * np.eye(5)[labels]
    spoilt = np.where(np.arange(200) % 10, labels, (labels + 1) % 5)

    def fitted_alone(given):
        def cost(log_weights):
            return (
                0.5 * STRENGTH * log_weights @ log_weights
                - log_softmax(np.exp(log_weights) * logits[0], axis=1)[np.arange(200), given].sum()
            )

        return np.exp(minimize(cost, [0.0]).x)

    right, robust = stack(logits, labels, np.ones(200)), stack(logits, spoilt, np.ones(200))
    assert abs(np.log(robust / right)) < 0.5 * abs(np.log(fitted_alone(spoilt) / right))
    assert_allclose(right, fitted_alone(labels), rtol=0.02)


def test_without_hidden_labels_experts_stay_as_they_are_and_tasks_are_alone():
    rng = np.random.default_rng(3)
    assert_array_equal(stack(np.zeros((4, 2, 0, 3)), np.zeros((4, 0), dtype=int), np.zeros((4, 0))), np.ones((4, 2)))
    logits, labels = rng.standard_normal((4, 2, 9, 3)), rng.integers(3, size=(4, 9))
    together = stack(logits, labels, np.ones((4, 9)))
    assert_allclose(together, [stack(logits[i], labels[i], np.ones(9)) for i in range(4)])


def test_frames_of_a_scene_are_one_example():
    """Ten frames of one scene, given as a group, answer as one of them does; without groups they drown the others."""
    rng = np.random.default_rng(4)
    scenes = np.repeat(rng.standard_normal((4, 16)), 15, axis=0) + 0.9 * rng.standard_normal((60, 16))
    frames = np.repeat(scenes, 6, axis=0) + 0.01 * rng.standard_normal((360, 16))
    groups = np.repeat(np.arange(60), 6)
    all_frames, one_frame = np.full(360, -1), np.full(360, -1)
    for c in range(4):
        labelled = np.flatnonzero(np.isin(groups, [15 * c, 15 * c + 1]))
        all_frames[labelled], one_frame[labelled[[0, 6]]] = c, c
    others = ~np.isin(groups, groups[all_frames >= 0])
    fits = [
        TransductiveMaxMarginClassifier.from_preset("auto").fit(frames, given, groups=groups)
        for given in (all_frames, one_frame)
    ]
    answers = [clf.transduction_[others] for clf in fits]
    assert np.mean(answers[0] == answers[1]) > 0.9
    with pytest.raises(ValueError, match="groups must have shape"):
        fits[0].fit(frames, all_frames, groups=groups[:5])


def test_rows_picked_because_they_were_wrong_lower_no_probability():
    """One example a class and two rows of each that lie towards the next class: as picked rows, they are no measure."""
    rng = np.random.default_rng(6)
    centres = rng.standard_normal((4, 16))
    X = np.repeat(centres, 40, axis=0) + 0.7 * rng.standard_normal((160, 16))
    y, picked = np.full(160, -1), np.zeros(160, dtype=bool)
    for c in range(4):
        rows = np.arange(40 * c, 40 * c + 3)
        y[rows] = c
        X[rows[1:]] += 0.6 * (centres[(c + 1) % 4] - centres[c])
        picked[rows[1:]] = True

    def confidence(picked):
        found = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y, picked=picked)
        return found.label_distributions_[y < 0].max(axis=1).mean()

    assert confidence(picked) > confidence(np.zeros(160, dtype=bool)) + 0.05
