import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import marginshot
from marginshot import PRESETS, TransductiveMaxMarginClassifier
from marginshot.batch.inputs import inner_products, learn_from_labels
from marginshot.data.rows import ParquetRows
from marginshot.model.discriminant import DiscriminantTransform
from marginshot.model.kernels import Linear
from marginshot.model.named_transforms import make_transform
from marginshot.model.transforms import CentreAndNormalise
from tasks_for_tests import of_paper


def solve_tasks(*tasks, **options):
    return marginshot.solve_tasks(*tasks, marginshot.Settings.from_preset("paper", **options)).scores


def task(shots=(3, 3, 3, 3), n_query=40, n_features=30, seed=0):
    """Classes that differ in a few features and vary most in others: support, labels, query, its classes."""
    rng = np.random.default_rng(seed)
    noise = np.linspace(0.2, 2.0, n_features)
    centres = np.linspace(2.0, 0.0, n_features) * rng.standard_normal((len(shots), n_features)) + 1.0
    labels = np.repeat(np.arange(len(shots)), shots)
    truth = rng.integers(0, len(shots), n_query)
    rows = centres[np.concatenate((labels, truth))] + noise * rng.standard_normal((len(labels) + n_query, n_features))
    return rows[: len(labels)], labels, rows[len(labels) :], truth


def codes_of(labels, n_query):
    return np.concatenate((labels, np.full(n_query, -1)))


@pytest.mark.parametrize("shots", [(2, 2), (3, 3, 3, 3), (1, 4, 2), (1, 1, 2, 1), (12,) * 5, (40, 40)])
def test_rows_and_inner_products_are_treated_alike(shots):
    support, labels, query, _ = task(shots)
    transformer = make_transform("discriminant")
    plain = inner_products(support[None], query[None], labels[None], transformer, Linear())
    inner, lengths = learn_from_labels(*plain, labels[None], transformer, Linear())
    rows, row_lengths = transformer.fit_unit_rows(np.concatenate((support, query)), codes_of(labels, len(query)))
    assert_allclose(inner[0], rows @ rows.T, atol=2e-6)
    assert_allclose(lengths[0], row_lengths, rtol=2e-5)


def test_the_origin_goes_to_the_class_means_label_by_label():
    support, labels, query, _ = task((3, 3, 3))
    X = np.concatenate((support, query))

    def origin(places):
        codes = np.full(len(X), -1)
        codes[places] = labels[places]
        return DiscriminantTransform(power=1).fit(X, codes).mean_

    assert_allclose(origin([0, 3, 6]), X.mean(axis=0))
    means = np.stack((X[:2].mean(axis=0), X[3], X[6])).mean(axis=0)
    assert_allclose(origin([0, 1, 3, 6]), (2 * X.mean(axis=0) + means) / 3)
    assert_allclose(origin(np.arange(9)), X[:9].reshape(3, 3, -1).mean(axis=(0, 1)))


def test_tasks_and_classifier_agree():
    support, labels, query, _ = task((3, 2, 5, 4, 3))
    options = {**PRESETS["auto"], "tol": 1e-5}
    scores = solve_tasks(support[None], labels[None], query[None], **options)
    clf = of_paper(**options)
    clf.fit(np.concatenate((support, query)), codes_of(labels, len(query)))
    ours, theirs = clf.decision_function(query), np.asarray(scores)[0]
    # Agreement counts rows: in single precision one more may be confirmed, which changes the common sharpness.
    assert_allclose(ours / ours.std(), theirs / theirs.std(), atol=2e-3)
    assert_allclose(ours.std(), theirs.std(), rtol=0.02)


def test_one_label_a_class_changes_nothing():
    support, labels, query, _ = task((1, 1, 1))
    plain = solve_tasks(support[None], labels[None], query[None], feature_transform="power")
    assert_array_equal(solve_tasks(support[None], labels[None], query[None], feature_transform="discriminant"), plain)
    X, codes = np.concatenate((support, query)), codes_of(labels, len(query))
    discriminant = DiscriminantTransform().fit(X, codes)
    assert_allclose(discriminant.transform(X), CentreAndNormalise(0.75).fit_transform(X), atol=1e-12)


def test_without_labels_it_is_the_power_transform():
    X = task()[2]
    assert_allclose(DiscriminantTransform().fit(X).transform(X), CentreAndNormalise(0.75).fit_transform(X), atol=1e-12)


def test_the_origin_lies_between_the_classes_not_where_most_rows_are():
    rng = np.random.default_rng(0)
    near, far = np.zeros(4), np.array([8.0, 0.0, 0.0, 0.0])
    X = np.concatenate((np.tile([near, far], (20, 1)), np.tile(near, (500, 1)))) + 0.1 * rng.standard_normal((540, 4))
    transform = DiscriminantTransform(power=1).fit(X, codes_of(np.tile([0, 1], 20), 500))
    assert_allclose(transform.mean_, [4.0, 0, 0, 0], atol=0.1)


def test_what_varies_within_classes_counts_less_the_more_labels_say_so():
    shares = []
    for shot in (2, 10, 40):
        support, labels, query, _ = task((shot,) * 4)
        transform = DiscriminantTransform(power=1).fit(np.concatenate((support, query)), codes_of(labels, len(query)))
        shares.append(np.square(transform.transform(query)[:, 20:]).sum(axis=1).mean())
    assert shares[0] > shares[1] > shares[2]


def test_labelled_rows_scatter_about_their_class_as_others_do(monkeypatch):
    """What is shrunk was found among them: unless they are stretched, they look more alike than their classes are."""

    def compare(seed):
        support, labels, query, truth = task((10,) * 20, n_query=400, n_features=200, seed=seed)
        X = np.concatenate((support, query))
        rows, _ = DiscriminantTransform().fit_unit_rows(X, codes_of(labels, 400))
        return scatter_within(rows[:200], labels) / scatter_within(rows[200:], truth)

    assert_allclose([compare(seed) for seed in range(3)], 1.0, atol=0.03)
    monkeypatch.setattr("marginshot.model.discriminant._stretch", lambda seen: np.ones_like(seen))
    assert all(compare(seed) < 0.95 for seed in range(3))


def scatter_within(rows, classes):
    members = [rows[classes == c] for c in np.unique(classes)]
    return sum(((of - of.mean(axis=0)) ** 2).sum() for of in members) / sum(len(of) - 1 for of in members)


@settings(max_examples=20, deadline=None)
@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 2**16))
def test_size_and_rotation_of_the_features_do_not_matter(scale, seed):
    support, labels, query, _ = task(seed=seed)
    X, codes = np.concatenate((support, query)), codes_of(labels, len(query))
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((30, 30)))
    rows, _ = DiscriminantTransform(power=1).fit_unit_rows(X, codes)
    turned, _ = DiscriminantTransform(power=1).fit_unit_rows(scale * X @ rotation, codes)
    assert_allclose(turned, rows @ rotation, atol=1e-6)


def test_of_many_labelled_rows_some_tell_what_varies(monkeypatch):
    support, labels, query, _ = task((60,) * 4)
    X, codes = np.concatenate((support, query)), codes_of(labels, len(query))
    rows, _ = DiscriminantTransform().fit_unit_rows(X, codes)
    monkeypatch.setattr("marginshot.model.discriminant.SAMPLED_ROWS", 120)
    of_some, _ = DiscriminantTransform().fit_unit_rows(X, codes)
    assert 0.9 < np.einsum("ij,ij->i", rows, of_some).min() < 1.0 - 1e-6


def test_copies_of_labelled_rows_have_nothing_to_shrink():
    support, labels, query, _ = task((1, 1, 1))
    support, labels = np.repeat(support, 3, axis=0), np.repeat(labels, 3)
    transform = DiscriminantTransform().fit(np.concatenate((support, query)), codes_of(labels, len(query)))
    assert not transform.shrinkage_.any()
    scores = solve_tasks(support[None], labels[None], query[None], **PRESETS["auto"])
    assert np.isfinite(scores).all()
    assert scores.std() > 0


def test_all_rows_alike():
    X = np.ones((12, 5))
    rows, _ = DiscriminantTransform().fit_unit_rows(X, codes_of(np.repeat([0, 1], 3), 6))
    assert not rows.any()
    scores = solve_tasks(X[None, :6], np.repeat([[0, 1]], 3, axis=1), X[None, 6:], **PRESETS["auto"])
    assert_array_equal(scores, 0.0)


def test_a_users_kernel_sees_rows_transformed_by_their_labels():
    support, labels, query, _ = task()
    arguments = (support[None], labels[None], query[None])
    own = solve_tasks(*arguments, feature_transform="discriminant", kernel=lambda a, b: a @ b.T)
    assert_allclose(own, solve_tasks(*arguments, feature_transform="discriminant"), atol=1e-2)


@pytest.mark.parametrize("n_neighbors", [0, 8])
def test_planes_over_features_are_those_over_rows(n_neighbors):
    support, labels, query, _ = task((6, 3, 4), n_query=60)
    X, codes = np.concatenate((support, query)), codes_of(labels, 60)
    options = {"feature_transform": "discriminant", "n_neighbors": n_neighbors, "calibration": "mixture", "tol": 1e-6}
    dual = of_paper(solver="dual", prior="estimate", **options).fit(X, codes)
    primal = of_paper(solver="primal", prior="estimate", **options).fit(X, codes)
    assert_allclose(primal.planes_, dual.planes_, atol=2e-3)
    assert_allclose(primal.label_distributions_, dual.label_distributions_, atol=2e-3)
    assert_array_equal(primal.predict(query), primal.transduction_[len(labels) :])


def test_a_saved_classifier_transforms_as_before(tmp_path):
    support, labels, query, _ = task()
    clf = TransductiveMaxMarginClassifier.from_preset("auto")
    clf.fit(np.concatenate((support, query)), codes_of(labels, len(query)))
    clf.save(tmp_path / "clf.npz")
    later = query[:5] + 0.3
    assert_array_equal(
        TransductiveMaxMarginClassifier.load(tmp_path / "clf.npz").predict_proba(later), clf.predict_proba(later)
    )


def test_rows_read_in_blocks_are_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    support, labels, query, _ = task()
    X = np.concatenate((support, query)).astype(np.float32)
    pq.write_table(pa.table({str(i): column for i, column in enumerate(X.T)}), tmp_path / "X.parquet")
    clf = of_paper(feature_transform="discriminant")
    with pytest.raises(ValueError, match=r'"discriminant" needs X in memory; got a ParquetRows\. Set "power" instead'):
        clf.fit(ParquetRows(tmp_path / "X.parquet"), codes_of(labels, len(query)))
