"""One task on a Dask cluster: several worker processes, one of them killed in the middle."""

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from mixtures import mixture

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import pyarrow.parquet as pq  # noqa: E402

from marginshot.classifier import distributed as ours  # noqa: E402
from tasks_for_tests import of_paper  # noqa: E402

N_ROWS, CHUNK = 6_000, 1_000


@pytest.fixture(scope="module")
def task():
    X, y, _, _ = mixture(N_ROWS)
    return X, y


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def read_rows(path, start):
    return np.array(np.load(path, mmap_mode="r")[start : start + CHUNK])


def rows_from_file(path, X):
    """A Dask array whose blocks are read by the workers, so that a lost one can be read again."""
    np.save(path, X)
    blocks = [
        da.from_delayed(ours.delayed(read_rows)(path, start), (CHUNK, X.shape[1]), X.dtype)
        for start in range(0, len(X), CHUNK)
    ]
    return da.concatenate(blocks)


def fit(X, y, **parameters):
    return of_paper(**({"lambda2": (0, 1), "tol": 1e-2} | parameters)).fit(X, y)


@pytest.fixture(scope="module")
def rows(client, task, tmp_path_factory):
    return rows_from_file(tmp_path_factory.mktemp("rows") / "X.npy", task[0]).persist()


@pytest.fixture(scope="module")
def undisturbed(client, rows, task):
    return fit(rows, da.from_array(task[1], chunks=CHUNK))


def test_the_answer_is_that_of_one_machine(undisturbed, task):
    local = fit(*task)
    assert undisturbed.solver_ == "primal"
    assert_allclose(undisturbed.planes_, local.planes_, atol=1e-2)
    assert_allclose(undisturbed.objective_, local.objective_, rtol=1e-5)
    labels = undisturbed.transduction_.compute()
    assert np.mean(labels == local.transduction_) >= 0.995
    assert_array_equal(labels[task[1] >= 0], task[1][task[1] >= 0])
    assert_allclose(undisturbed.label_distributions_.compute(), local.label_distributions_, atol=1e-2)


def test_a_worker_killed_in_the_middle_changes_nothing(client, rows, task, undisturbed, tmp_path):
    killed = []

    def kill_a_worker(progress):
        if progress.stage == 2 and progress.iteration == 1 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    clf = fit(rows, da.from_array(task[1], chunks=CHUNK), callback=kill_a_worker)
    assert killed
    assert_array_equal(clf.planes_, undisturbed.planes_)
    assert_array_equal(clf.transduction_.compute(), undisturbed.transduction_.compute())
    client.wait_for_workers(2, timeout=60)  # the nanny has replaced it


def test_nothing_of_the_size_of_the_rows_reaches_the_driver(client, rows, task, monkeypatch, tmp_path):
    sizes = []
    compute = ours.dask.compute

    def recording(*tasks):
        results = compute(*tasks)
        sizes.append(_largest(results))
        return results

    monkeypatch.setattr(ours.dask, "compute", recording)
    clf = fit(rows, da.from_array(task[1], chunks=CHUNK))
    ours.write_labels(clf, tmp_path / "labels")
    assert len(sizes) > 6
    assert max(sizes) < N_ROWS
    assert isinstance(clf.transduction_, da.Array)


def _largest(value):
    if isinstance(value, tuple | list):
        return max((_largest(item) for item in value), default=0)
    return getattr(value, "size", 1)


def test_labels_are_written_as_parquet_by_the_workers(undisturbed, tmp_path):
    parts = ours.write_labels(undisturbed, tmp_path / "labels")
    assert [path.name for path in parts] == [f"part-{i:05}.parquet" for i in range(6)]
    table = pq.read_table(tmp_path / "labels")
    assert_array_equal(table.column("row").to_numpy(), np.arange(N_ROWS))
    assert_array_equal(table.column("label").to_numpy(), undisturbed.transduction_.compute())
    expected = undisturbed.label_distributions_.compute().max(axis=1)
    assert_allclose(table.column("probability").to_numpy(), expected)
    with pytest.raises(ValueError, match="is not empty; name a new folder"):
        ours.write_labels(undisturbed, tmp_path / "labels")


def test_labels_of_an_ordinary_fit_are_refused(task, tmp_path):
    with pytest.raises(ValueError, match="needs an estimator fitted on a Dask array"):
        ours.write_labels(fit(*task), tmp_path / "labels")


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "margins"])
def test_new_blocks_are_answered_where_they_are(undisturbed, rows, task, method):
    lazy = getattr(undisturbed, method)(rows)
    assert isinstance(lazy, da.Array)
    expected = getattr(undisturbed, method)(task[0])
    assert lazy.shape == expected.shape
    assert_allclose(lazy.compute(), expected, rtol=1e-6)


def test_a_bad_row_on_a_worker_is_named(client, task, tmp_path):
    X = task[0].copy()
    X[4_321, 5] = np.nan
    with pytest.raises(ValueError, match="row 4321, feature 5 is nan"):
        fit(rows_from_file(tmp_path / "X.npy", X), task[1])


def test_blocks_of_unknown_length_and_split_features(client, rows, task, undisturbed):
    y = task[1]
    unknown = rows[da.from_array(np.ones(N_ROWS, dtype=bool), chunks=CHUNK)]
    assert np.isnan(unknown.shape[0])
    assert_array_equal(fit(unknown, y).planes_, undisturbed.planes_)
    assert np.isnan(unknown.shape[0])
    split = rows.rechunk((CHUNK, 10))
    assert_array_equal(fit(split, y).planes_, undisturbed.planes_)


def test_string_labels_in_another_chunking(client, rows, task, undisturbed):
    names = np.array(["", "a", "b", "c", "d"])[task[1] + 1]
    clf = fit(rows, da.from_array(names, chunks=777))
    assert_array_equal(clf.classes_, ["a", "b", "c", "d"])
    assert_array_equal(clf.planes_, undisturbed.planes_)


def test_every_row_may_be_labelled(client, task):
    X, labels = task[0][:200], np.arange(200) % 3
    clf = fit(da.from_array(X, chunks=(50, -1)), labels, calibration="mixture")
    assert_array_equal(clf.transduction_.compute(), labels)


def test_kernels_are_approximated_on_the_workers(client, rows, task):
    options = {"kernel": "rbf", "solver": "primal", "n_landmarks": 20}
    clf = fit(rows, task[1], **options)
    local = fit(*task, **options)
    assert np.mean(clf.transduction_.compute() == local.transduction_) >= 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, 0], y), "got 1 dimensions"),
        (lambda X, y: (X.astype("S4"), y), "X must be an array of real numbers"),
        (lambda X, y: (X, da.from_array(y[:-1])), r"y must have shape \(6000,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_named(client, rows, task, change, message):
    X, y = change(rows, task[1])
    with pytest.raises(ValueError, match=message):
        fit(X, y)


def test_a_transformer_that_needs_all_rows_is_refused(client, rows, task):
    with pytest.raises(ValueError, match="cannot be fitted on blocks of a DaskRows"):
        fit(rows, task[1], feature_transform=PCA(2))
