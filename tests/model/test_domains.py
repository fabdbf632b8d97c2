"""Domains are found where labels show a split to be one, and nowhere else."""

import numpy as np
import pytest

from marginshot import TransductiveMaxMarginClassifier
from marginshot.model.domains import evidence_of_domains, find_domains, nearest_domain


def two_cameras(seed=0, n_classes=10, per_class=40, shift=4.0):
    """Rows, classes and cameras: the second camera shifts whatever it sees."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), per_class)
    camera = np.arange(len(truth)) % 2
    rows = 3.0 * rng.normal(size=(n_classes, 30))[truth] + rng.normal(size=(len(truth), 30))
    rows[:, 0] += 30.0
    return rows + np.outer(camera, shift * np.abs(rng.normal(size=30)) * 3), truth, camera


def by_day(truth, camera, n_examples):
    codes = np.full(len(truth), -1)
    for c in range(truth.max() + 1):
        codes[np.flatnonzero((truth == c) & (camera == 0))[:n_examples]] = c
    return codes


def test_examples_of_one_camera_show_the_other():
    rows, truth, camera = two_cameras()
    found = find_domains(rows, by_day(truth, camera, 2))
    assert set(found) == {0, 1}
    assert abs(np.corrcoef(found, camera)[0, 1]) > 0.99


def test_a_split_between_classes_is_none():
    rows, truth, _ = two_cameras(shift=0.0)
    rows[truth >= 5] += 40.0
    codes = np.where(np.arange(len(truth)) % 10 < 2, truth, -1)
    assert not find_domains(rows, codes).any()


def test_rows_of_a_group_are_one_piece_of_evidence():
    rows, truth, camera = two_cameras(n_classes=4, per_class=100)
    codes = by_day(truth, camera, 12)
    assert find_domains(rows, codes).any()
    assert not find_domains(rows, codes, groups=truth).any()


@pytest.mark.parametrize("n_rows", [199, 20])
def test_few_rows_have_one_domain(n_rows):
    rows, truth, camera = two_cameras()
    few = np.random.default_rng(0).permutation(len(rows))[:n_rows]
    assert not find_domains(rows[few], by_day(truth[few], camera[few], 5)).any()


def test_evidence_by_hand():
    # One label of each of two classes, one on either side: 1/8 by one share of both, 1/4 by a share of each.
    found = evidence_of_domains(np.array([0, 1]), np.array([False, True]), 0.5)
    assert found == pytest.approx(np.log(1 / 8) - np.log(1 / 4))


def test_the_other_camera_is_answered_and_later_rows_find_theirs():
    rows, truth, camera = two_cameras()
    codes = by_day(truth, camera, 3)
    auto = TransductiveMaxMarginClassifier.from_preset("auto")
    found, alone = auto.fit(rows, codes), camera == 1
    assert np.mean(found.transduction_[alone] == truth[alone]) > 0.9
    assert np.mean(found.predict(rows)[alone] == truth[alone]) > 0.9
    one = TransductiveMaxMarginClassifier.from_preset("auto").fit(rows, codes, domains=np.zeros(len(rows)))
    assert not one.domains_.any()
    assert np.mean(one.transduction_[alone] == truth[alone]) < np.mean(found.transduction_[alone] == truth[alone])


def test_given_domains_are_taken():
    rows, truth, camera = two_cameras()
    names = np.array(["day", "night"])[camera]
    auto = TransductiveMaxMarginClassifier.from_preset("auto").fit(rows, by_day(truth, camera, 1), domains=names)
    np.testing.assert_array_equal(auto.domains_, camera)
    with pytest.raises(ValueError, match=r"domains must have shape \(400,\), a domain for each row of X; got \(3,\)"):
        auto.fit(rows, by_day(truth, camera, 1), domains=[1, 2, 3])


def test_a_saved_classifier_keeps_its_domains(tmp_path):
    rows, truth, camera = two_cameras()
    auto = TransductiveMaxMarginClassifier.from_preset("auto").fit(rows, by_day(truth, camera, 2))
    auto.save(tmp_path / "auto.npz")
    again = TransductiveMaxMarginClassifier.load(tmp_path / "auto.npz")
    np.testing.assert_allclose(again.predict_proba(rows), auto.predict_proba(rows))


def test_nearest_domain():
    means = np.array([[0.0, 0.0], [4.0, 0.0]])
    assert nearest_domain(np.array([[1.0, 9.0], [3.0, 9.0]]), means).tolist() == [0, 1]
