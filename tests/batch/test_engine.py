"""solve_tasks: what it promises about batches, threads, symmetries and bad input."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import special_ortho_group
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import marginshot
from marginshot import PRESETS, Settings, TransductiveMaxMarginClassifier, platt_probabilities
from marginshot.model.calibration import CALIBRATIONS
from reference.scipy_fs_tmmc import label_as_printed, label_queries
from tasks_for_tests import blobs, from_bank, of_paper


# Solved tightly, so that rounding does not decide which of two neighbouring points is reached.
def solve_tasks(*tasks, table=None, **options):
    """Scores of tasks given as features, or as row numbers of a table; the paper's, but for what is asked for."""
    n_jobs = options.pop("n_jobs", None)
    settings = Settings.from_preset(options.pop("preset", "paper"), **options)
    if table is None:
        return marginshot.solve_tasks(*tasks, settings, n_jobs=n_jobs).scores
    return marginshot.solve_table_tasks(table, *tasks, settings, n_jobs=n_jobs).scores


TIGHT = {"tol": 1e-7}
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)


def same_answers(left, right):
    assert_allclose(platt_probabilities(left), platt_probabilities(right), atol=2e-3)


def test_labels_easy_tasks():
    support, labels, query, truth = blobs(np.random.default_rng(0), n_tasks=20, spread=0.5)
    assert_array_equal(solve_tasks(support, labels, query).argmax(axis=2), truth)


@pytest.mark.parametrize(("preset", "reference"), [("paper", label_queries), ("printed", label_as_printed)])
def test_agrees_with_the_slow_reference_end_to_end(preset, reference):
    support, labels, query, _ = blobs(np.random.default_rng(1), n_tasks=8, spread=1.5)
    ours = solve_tasks(support, labels, query, preset=preset).argmax(axis=2)
    expected = [reference(s, label, q, 3) for s, label, q in zip(support, labels, query, strict=True)]
    assert np.mean(ours == np.array(expected)) >= 0.97


def inner_product(a, b):
    return a @ b.T


PARAMETERS = [
    {},
    {"lambda2": (0,)},
    {"kernel": "rbf"},
    {"kernel": "poly", "degree": 2},
    {"kernel": inner_product},
    {"prior": (0.5, 0.3, 0.2)},
    {"prior": None},
    {"feature_transform": None},
    {"feature_transform": StandardScaler()},
    {"prior": "estimate"},
    {"calibration": "logistic"},
    {"calibration": "none"},
    {"n_neighbors": 4},
    {"n_neighbors": 4, "kernel": "rbf"},
    {"n_neighbors": 4, "kernel": "rbf", "calibration": "graph"},
    {"n_neighbors": 4, "prior": "estimate", "calibration": "mixture"},
    PRESETS["auto"],
]


@pytest.mark.parametrize(
    "parameters", PARAMETERS, ids=lambda parameters: re.sub(" at 0x[0-9a-f]+", "", str(parameters))
)
def test_agrees_with_the_estimator(parameters):
    support, labels, query, _ = blobs(np.random.default_rng(2), n_tasks=3)
    scores = solve_tasks(support, labels, query, **dict(parameters) | TIGHT)
    for s, label, q, score in zip(support, labels, query, scores, strict=True):
        y = np.concatenate((label, np.full(len(q), -1)))
        estimator = of_paper(**dict(parameters) | TIGHT).fit(np.concatenate((s, q)), y)
        probabilities = CALIBRATIONS[estimator.calibration].probabilities(score)
        assert_allclose(probabilities, estimator.label_distributions_[len(s) :], atol=1e-3)


def table_tasks(seed=12, n_tasks=20):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(6), 30)
    X = 2 * rng.standard_normal((6, 24))[y] + rng.standard_normal((180, 24)) + 50.0
    rows = np.array(
        [[rng.choice(np.flatnonzero(y == c), 8, False) for c in rng.choice(6, 3, False)] for _ in range(n_tasks)]
    )
    labels = np.tile(np.repeat(np.arange(3), 2), (n_tasks, 1))
    return X, rows[:, :, :2].reshape(n_tasks, -1), labels, rows[:, :, 2:].reshape(n_tasks, -1)


@pytest.mark.parametrize("parameters", [{}, PRESETS["auto"], {"kernel": "rbf"}, {"feature_transform": None}], ids=str)
@pytest.mark.parametrize("shared_rows", [4096, 0])
def test_tasks_of_a_table_are_the_same_tasks(monkeypatch, shared_rows, parameters):
    monkeypatch.setattr("marginshot.batch.inputs.SHARED_ROWS", shared_rows)
    X, support, labels, query = table_tasks()
    scores = solve_tasks(support, labels, query, table=X, **dict(parameters) | TIGHT)
    same_answers(scores, solve_tasks(X[support], labels, X[query], **dict(parameters) | TIGHT))
    halves = [
        solve_tasks(support[h], labels[h], query[h], table=X, **dict(parameters) | TIGHT)
        for h in (slice(9), slice(9, 20))
    ]
    assert_array_equal(np.concatenate(halves), scores)


def test_threads_that_share_a_table_change_no_bit(monkeypatch):
    monkeypatch.setattr("marginshot.batch.inputs._BLOCK", 50)  # four blocks, the last one shorter
    X, support, labels, query = table_tasks()
    one = solve_tasks(support, labels, query, table=X)
    assert_array_equal(solve_tasks(support, labels, query, table=X, n_jobs=2), one)
    monkeypatch.undo()
    same_answers(one, solve_tasks(support, labels, query, table=X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, s, q: (X, s + 180, q), "support must be row numbers below 180; got 1"),
        (lambda X, s, q: (X, s, q - 1000), "query must be row numbers below 180; got -"),
        (lambda X, s, q: (X, s / 2, q), "support must be row numbers .* got float64"),
        (lambda X, s, q: (X[0], s, q), r"table must have shape .* got \(24,\)"),
        (lambda X, s, q: (replaced(X, (3, 3), np.nan), s, q), "table must be finite"),
    ],
)
def test_bad_tables_are_named(change, message):
    X, support, labels, query = table_tasks()
    X, support, query = change(X, support, query)
    with pytest.raises(ValueError, match=message):
        solve_tasks(support, labels, query, table=X)


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("preset", PRESETS)
def test_threads_change_no_bit(n_jobs, preset):
    support, labels, query, _ = blobs(np.random.default_rng(3), n_tasks=37)
    one = solve_tasks(support, labels, query, **PRESETS[preset])
    assert_array_equal(solve_tasks(support, labels, query, n_jobs=n_jobs, **PRESETS[preset]), one)


@few
@given(seed=seeds, cut=st.integers(1, 36))
def test_splitting_a_batch_changes_no_bit(seed, cut):
    support, labels, query, _ = blobs(np.random.default_rng(seed), n_tasks=37, n_features=8)
    whole = solve_tasks(support, labels, query)
    parts = [solve_tasks(support[part], labels[part], query[part]) for part in (slice(cut), slice(cut, None))]
    assert_array_equal(np.concatenate(parts), whole)


@few
@given(seed=seeds)
def test_permuting_rows_permutes_answers(seed):
    rng = np.random.default_rng(seed)
    support, labels, query, _ = blobs(rng)
    scores = solve_tasks(support, labels, query, **TIGHT)
    order, query_order = rng.permutation(support.shape[1]), rng.permutation(query.shape[1])
    permuted = solve_tasks(support[:, order], labels[:, order], query[:, query_order], **TIGHT)
    same_answers(permuted, scores[:, query_order])


@few
@given(seed=seeds)
def test_permuting_classes_permutes_answers(seed):
    rng = np.random.default_rng(seed)
    support, labels, query, _ = blobs(rng)
    order = rng.permutation(3)
    same_answers(
        solve_tasks(support, order[labels], query, **TIGHT)[:, :, order], solve_tasks(support, labels, query, **TIGHT)
    )


@few
@given(seed=seeds, scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_rotation_shift_and_scale_change_nothing(seed, scale, shift):
    rng = np.random.default_rng(seed)
    support, labels, query, _ = blobs(rng)
    rotation = special_ortho_group.rvs(16, random_state=rng)
    vector = shift * rng.standard_normal(16)

    def moved(rows):
        return scale * (rows @ rotation.T + vector)

    same_answers(
        solve_tasks(moved(support), labels, moved(query), **TIGHT), solve_tasks(support, labels, query, **TIGHT)
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_dtypes(dtype):
    support, labels, query, truth = blobs(np.random.default_rng(4), spread=0.5)
    scores = solve_tasks((8 * support).astype(dtype), labels, (8 * query).astype(dtype))
    assert scores.dtype == np.float64
    assert_array_equal(scores.argmax(axis=2), truth)


@pytest.mark.parametrize("of_query", [np.float16, np.float32])
@pytest.mark.parametrize("kernel", ["linear", lambda a, b: a @ b.T])
def test_half_precision_is_widened_wherever_it_stands(of_query, kernel):
    support, labels, query, truth = blobs(np.random.default_rng(4), spread=0.5)
    support, query = (100 * support + 3000).astype(np.float16), (100 * query + 3000).astype(of_query)
    assert_array_equal(solve_tasks(support, labels, query, kernel=kernel).argmax(axis=2), truth)
    if of_query is np.float32:
        assert_array_equal(solve_tasks(query[:, ::3], truth[:, ::3], support, kernel=kernel).argmax(axis=2), labels)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_one_query_may_be_far_larger_than_all_other_rows(precision):
    support, labels, query, _ = blobs(np.random.default_rng(0), n_tasks=3)
    query = query.astype(precision)
    query[1, 4] *= precision(1e25 if precision is np.float32 else 1e45)
    assert np.isfinite(solve_tasks(support.astype(precision), labels, query)).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-25, 1e19, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("feature_transform", ["cl2n", "power", "discriminant"])
def test_features_of_any_size(scale, dtype, feature_transform):
    support, labels, query, truth = blobs(np.random.default_rng(4), spread=0.5)
    support, query = (scale * support).astype(dtype), (scale * query).astype(dtype)
    scores = solve_tasks(support, labels, query, feature_transform=feature_transform)
    assert_array_equal(scores.argmax(axis=2), truth)
    table, n_support = np.concatenate((support[0], query[0])), support.shape[1]
    rows = np.arange(len(table))[None]
    of_table = solve_tasks(
        rows[:, :n_support], labels[:1], rows[:, n_support:], table=table, feature_transform=feature_transform
    )
    same_answers(of_table, scores[:1])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda a, b: np.full((len(a), len(b)), np.nan), "kernel must give finite numbers; got NaN or infinity"),
        (lambda a, b: a[:, 0], r"kernel must give one number for each pair of rows, shape \(\d+, \d+\); got \(\d+,\)"),
    ],
)
def test_a_users_kernel_that_is_none_is_told(kernel, message):
    support, labels, query, _ = blobs(np.random.default_rng(4), n_tasks=1)
    with pytest.raises(ValueError, match=message):
        solve_tasks(support, labels, query, kernel=kernel)
    with pytest.raises(ValueError, match=message):
        of_paper(kernel=kernel).fit(support[0], labels[0])


def test_a_far_row_does_not_cost_a_tables_tasks_their_directions():
    X, support, labels, query = table_tasks()
    far = 1e5 * X[:1]
    X = np.concatenate((X, far, -far))
    query = np.concatenate((query, np.tile([len(X) - 2, len(X) - 1], (len(query), 1))), axis=1)
    scores = solve_tasks(support, labels, query, table=X)
    same_answers(scores, solve_tasks(X[support], labels, X[query]))
    assert scores.any(axis=2).all()


def one_class_has_nearly_all(seed=0, n_tasks=40):
    """Two classes far from the origin, one label each, 29 queries of the first and one of the second."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_tasks, 2, 32)) + 3.0 * rng.standard_normal((n_tasks, 1, 32))
    truth = np.tile(np.repeat([0, 1], [29, 1]), (n_tasks, 1))
    support = centres + 0.5 * rng.standard_normal(centres.shape)
    query = np.take_along_axis(centres, truth[:, :, None], axis=1) + 0.5 * rng.standard_normal((n_tasks, 30, 32))
    return support, np.tile([0, 1], (n_tasks, 1)), query, truth


def test_two_classes_of_which_one_has_nearly_all(monkeypatch):
    """Centred in the midst of the large class, its rows point anywhere; their own lengths tell that they are one."""
    support, labels, query, truth = one_class_has_nearly_all()
    scores = solve_tasks(support, labels, query, **PRESETS["auto"])
    found = np.mean(scores.argmax(axis=2) == truth)
    for task in range(5):
        clf = TransductiveMaxMarginClassifier.from_preset("auto")
        clf.fit(np.concatenate((support[task], query[task])), [0, 1, *[-1] * 30])
        expected = CALIBRATIONS["graph"].probabilities(scores[task])
        assert_allclose(clf.label_distributions_[2:], expected, atol=2e-2)
    monkeypatch.setattr("marginshot.classifier.pipeline.FEW_CLASSES", 0)
    among_unit_rows = np.mean(solve_tasks(support, labels, query, **PRESETS["auto"]).argmax(axis=2) == truth)
    assert found > 0.85
    assert found > among_unit_rows + 0.1


def test_far_from_the_origin():
    # A common shift of a thousand spreads would cost single precision all its digits, were rows not centred first.
    support, labels, query, _ = blobs(np.random.default_rng(5))
    same_answers(solve_tasks(support + 1e4, labels, query + 1e4), solve_tasks(support, labels, query))


@pytest.mark.parametrize("n_way", [2, 10, 100])
@pytest.mark.parametrize("n_shot", [1, 3])
def test_many_ways(n_way, n_shot):
    support, labels, query, truth = blobs(
        np.random.default_rng(6), n_tasks=1, n_way=n_way, n_shot=n_shot, n_query_per_class=2, n_features=64, spread=0.3
    )
    assert np.mean(solve_tasks(support, labels, query, lambda2=(0,)).argmax(axis=2) == truth) > 0.95


def test_unequal_shots_duplicates_and_no_queries():
    rng = np.random.default_rng(7)
    support, _, query, _ = blobs(rng, n_tasks=2)
    support[:, 1] = support[:, 0]
    labels = np.tile([0, 0, 0, 1, 1, 2], (2, 1))
    assert np.isfinite(solve_tasks(support, labels, query)).all()
    assert solve_tasks(support, labels, query[:, :0]).shape == (2, 0, 3)


def test_a_row_at_the_mean_and_a_task_of_equal_rows_get_uniform_probabilities():
    support, labels, query, _ = blobs(np.random.default_rng(8))
    query[:, -1] = 0.0
    query[:, -1] = (support.sum(axis=1) + query.sum(axis=1)) / (support.shape[1] + query.shape[1] - 1)
    assert_allclose(platt_probabilities(solve_tasks(support, labels, query))[:, -1], 1 / 3)
    equal = solve_tasks(np.ones_like(support), labels, np.ones_like(query))
    assert_allclose(platt_probabilities(equal), 1 / 3)


def test_input_is_not_changed():
    arrays = blobs(np.random.default_rng(9))[:3]
    for array in arrays:
        array.flags.writeable = False
    solve_tasks(*arrays)


def replaced(array, index, value):
    changed = array.copy()
    changed[index] = value
    return changed


BAD = {
    "NaN": (lambda s, y, q: (s, y, replaced(q, (2, 0, 0), np.nan)), {}, "query must be finite; task 2 holds NaN"),
    "infinity": (lambda s, y, q: (replaced(s, (1, 0, 0), np.inf), y, q), {}, "support must be finite; task 1"),
    "shape": (lambda s, y, q: (s[0], y, q), {}, r"support must have shape .* got \(6, 16\)"),
    "features": (lambda s, y, q: (s, y, q[..., :-1]), {}, "equal n_features; got 16 and 15"),
    "tasks": (lambda s, y, q: (s, y, q[:-1]), {}, "equally many tasks; got 4 and 3"),
    "no task": (lambda s, y, q: (s[:0], y[:0], q[:0]), {}, "at least one task"),
    "labels": (lambda s, y, q: (s, y[:, :-1], q), {}, r"support_labels must have shape \(4, 6\)"),
    "float labels": (lambda s, y, q: (s, y + 0.5, q), {}, "whole numbers 0 … N−1; got dtype float64"),
    "negative label": (lambda s, y, q: (s, y - 1, q), {}, "whole numbers 0 … N−1; got -1"),
    "missing class": (lambda s, y, q: (s, replaced(y, (3, slice(2)), 1), q), {}, "task 3 has no example of class 0"),
    "one class": (lambda s, y, q: (s, 0 * y, q), {}, "one class only"),
    "words": (lambda s, y, q: (s.astype(str), y, q), {}, "support must be an array of real numbers"),
    "prior": (lambda s, y, q: (s, y, q), {"prior": (0.5, 0.2, 0.2)}, r"sum to 1; got \[0.5, 0.2, 0.2\]"),
    "prior length": (lambda s, y, q: (s, y, q), {"prior": (0.5, 0.5)}, r"each of the 3 classes; got shape \(2,\)"),
    "prior name": (lambda s, y, q: (s, y, q), {"prior": "flat"}, "prior must be .* got 'flat'"),
    "lambda1": (lambda s, y, q: (s, y, q), {"lambda1": -0.04}, "lambda1 must be a number greater than 0; got -0.04"),
    "lambda2": (lambda s, y, q: (s, y, q), {"lambda2": (0, -1)}, r"lambda2 must be .* got \(0, -1\)"),
    "lambda2 number": (lambda s, y, q: (s, y, q), {"lambda2": 0.1}, "lambda2 must be a sequence .* got 0.1"),
    "kernel": (lambda s, y, q: (s, y, q), {"kernel": "cubic"}, "kernel must be one of .* got 'cubic'"),
    "precomputed": (lambda s, y, q: (s, y, q), {"kernel": "precomputed"}, "solve_tasks takes features"),
    "gamma": (lambda s, y, q: (s, y, q), {"gamma": "auto"}, "gamma must be \"scale\" or a number .* got 'auto'"),
    "max_iter": (lambda s, y, q: (s, y, q), {"max_iter": 0}, "max_iter must be a whole number of at least 1; got 0"),
    "neighbours": (lambda s, y, q: (s, y, q), {"n_neighbors": -1}, "n_neighbors must be .* at least 0; got -1"),
    "neighbours, no cl2n": (
        lambda s, y, q: (s, y, q),
        {"n_neighbors": 3, "feature_transform": None},
        'n_neighbors=3 needs feature_transform="cl2n"',
    ),
    "calibration": (lambda s, y, q: (s, y, q), {"calibration": "beta"}, "calibration must be one of .* got 'beta'"),
    "transform": (lambda s, y, q: (s, y, q), {"feature_transform": "zca"}, "feature_transform must be .* got 'zca'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    change, parameters, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        solve_tasks(*change(*blobs(np.random.default_rng(10))[:3]), **parameters)


def test_unconverged_tasks_are_counted():
    support, labels, query, _ = blobs(np.random.default_rng(11))
    with pytest.warns(ConvergenceWarning, match=r"4 of 4 tasks did not converge .* class 0, lambda2=0, gradient norm"):
        solve_tasks(support, labels, query, max_iter=1)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_ten_thousand_tasks_stay_under_a_gigabyte():
    # In a process of its own, whose peak is this work's.
    script = """
        import re
        from pathlib import Path
        import numpy as np
        from marginshot import Settings, solve_table_tasks

        rng = np.random.default_rng(0)
        table = rng.standard_normal((12_000, 640), dtype=np.float32)
        rows = rng.integers(0, 12_000, size=(10_000, 100))
        labels = np.tile(np.repeat(np.arange(5), 5), (10_000, 1))
        settings = Settings.from_preset("paper", lambda2=(0,))
        scores = solve_table_tasks(table, rows[:, :25], labels, rows[:, 25:], settings).scores
        assert scores.shape == (10_000, 75, 5)
        print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 1e6  # kilobytes


@pytest.mark.parametrize(("n_shot", "gain"), [(1, 0.07), (5, 0.02)])
def test_queries_help_on_real_features(shared_data, n_shot, gain):
    bank = np.load(shared_data / "features" / "efficientnet_lite0-test.npz")
    X = bank["X"].astype(np.float32)
    accuracy = {"fs-tmmc": [], "fs-mmc": []}
    for batch in range(4):
        rng = np.random.default_rng(batch)
        support, labels, query, truth = from_bank(X, bank["y"], rng, n_tasks=500, n_shot=n_shot)
        for name, lambda2 in (("fs-tmmc", (0, 1e-5, 1e-3, 0.1, 1)), ("fs-mmc", (0,))):
            scores = solve_tasks(support, labels, query, lambda2=lambda2, n_jobs=2)
            accuracy[name].append(np.mean(scores.argmax(axis=2) == truth))
    assert np.mean(accuracy["fs-tmmc"]) - np.mean(accuracy["fs-mmc"]) >= gain


def accuracy(truth, *arguments, **options):
    return np.mean(solve_tasks(*arguments, **options).argmax(axis=2) == truth)


def ten_classes(between, n_features, shot, query_counts, seed=0):
    """30 tasks of ten round classes, (T, n, D), (T, n), (T, m, D), (T, m)."""
    rng = np.random.default_rng(seed)
    centres = between * rng.standard_normal((30, 10, n_features))
    labels, truth = np.tile(np.arange(10).repeat(shot), (30, 1)), np.tile(np.arange(10).repeat(query_counts), (30, 1))
    support, query = (centres[np.arange(30)[:, None], c] for c in (labels, truth))
    return support + rng.standard_normal(support.shape), labels, query + rng.standard_normal(query.shape), truth


@pytest.mark.parametrize(
    ("between", "n_features", "shot", "query_counts"),
    [
        (0.35, 100, 1, [1] * 10),  # no clusters among so few
        (0.2, 100, 1, [15] * 10),  # classes that overlap: neighbours make clusters that are none
        (0.15, 500, 10, [15, 15] + [0] * 8),  # classes that overlap, most of them absent
    ],
)
def test_queries_that_say_nothing_cost_next_to_nothing(between, n_features, shot, query_counts):
    *task, truth = ten_classes(between, n_features, shot, query_counts)
    # Of overlapping classes, most of them absent, hidden labels say nothing: they are of all classes.
    assert accuracy(truth, *task, **PRESETS["auto"]) >= accuracy(truth, *task, lambda2=(0,)) - 0.08


@pytest.mark.parametrize(("between", "shot"), [(0.5, 1), (0.35, 5)])
def test_few_queries_of_few_classes_tell_which_are_present(between, shot):
    *task, truth = ten_classes(between, 100, shot, [9, 9] + [0] * 8)
    assert accuracy(truth, *task, **PRESETS["auto"]) >= accuracy(truth, *task, lambda2=(0,)) + 0.15


@pytest.mark.parametrize("n_query", [1, 3, 7, 12])
def test_few_queries_are_answered_as_by_the_classifier(n_query):
    *task, _ = ten_classes(0.8, 30, 2, [n_query] + [0] * 9)
    scores = solve_tasks(*task, **PRESETS["auto"])
    for support, labels, query, expected in zip(*task, scores, strict=True):
        y = np.concatenate((labels, np.full(len(query), -1)))
        classifier = TransductiveMaxMarginClassifier.from_preset("auto").fit(np.concatenate((support, query)), y)
        assert_array_equal(classifier.transduction_[len(labels) :], expected.argmax(axis=1))


def test_unequal_shots_are_answered_as_alone():
    """How many labels are hidden at a time differs between such tasks, which once left classes without labels."""
    support, labels, query, _ = blobs(np.random.default_rng(5), n_tasks=6, n_way=4, spread=3.0)
    keep = [0, 2, 3, 4, 5, 6]  # 1, 2, 2 and 1 shots
    tasks = support[:, keep], labels[:, keep], query
    together = solve_tasks(*tasks, preset="auto")
    for task in range(6):
        alone = solve_tasks(*(array[task : task + 1] for array in tasks), preset="auto")
        assert_array_equal(together[task : task + 1], alone)
