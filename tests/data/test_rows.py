"""Tables read in blocks of rows: memory-mapped arrays and Parquet, and the bad rows in them."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from marginshot.data import rows
from marginshot.data.rows import ArrayRows, ParquetRows
from mixtures import mixture
from tasks_for_tests import of_paper


@pytest.fixture
def small_blocks(monkeypatch):
    """Many blocks from few rows: 16 rows of 32 features each."""
    monkeypatch.setattr(rows, "BLOCK_BYTES", 16 * 32 * 4)


@pytest.fixture
def task():
    X, y, _, _ = mixture(3_000)
    return X, y


def write_embeddings(path, X, **columns):
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
    pq.write_table(pa.table({"embedding": embedding, **columns}), path, row_group_size=700)
    return path


def fit(X, y, **parameters):
    return of_paper(**parameters).fit(X, y)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_memory_mapped_array_gives_the_same_bits(task, tmp_path, dtype):
    X, y = task[0].astype(dtype), task[1]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert_array_equal(fit(mapped, y).planes_, fit(X, y).planes_)
    assert_array_equal(fit(X, y).predict(mapped), fit(X, y).predict(X))


def test_parquet_gives_the_answer_of_the_array(task, tmp_path):
    X, y = task
    source = ParquetRows(write_embeddings(tmp_path / "X.parquet", X, label=pa.array(y)))
    assert source.shape == X.shape
    assert_array_equal(source.load(), X)
    clf, expected = fit(source, source.column("label")), fit(X, y)
    assert_allclose(clf.planes_, expected.planes_, atol=1e-4)
    assert_array_equal(clf.transduction_, expected.transduction_)
    assert_array_equal(clf.predict(source)[y < 0], clf.transduction_[y < 0])


def test_parquet_with_a_column_per_feature_and_missing_labels(task, tmp_path):
    X, y = task
    names = [f"f{i}" for i in range(X.shape[1])]
    labels = [None if label < 0 else f"class {label}" for label in y]
    pq.write_table(pa.table(dict(zip(names, X.T, strict=True)) | {"label": labels}), tmp_path / "X.parquet")
    source = ParquetRows(tmp_path / "X.parquet")
    assert_array_equal(source.take(np.array([0, 5, 2_999])), X[[0, 5, 2_999]])
    clf = fit(source, source.column("label"))
    assert_array_equal(clf.classes_, ["class 0", "class 1", "class 2", "class 3"])
    assert ParquetRows(tmp_path / "X.parquet", columns=names[:3]).shape == (3_000, 3)


def test_parquet_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    X, y, _, _ = mixture(60_000, n_features=128)
    source = ParquetRows(write_embeddings(tmp_path / "X.parquet", X))
    monkeypatch.setattr(rows, "BLOCK_BYTES", 2**19)
    clf = of_paper(lambda2=(0, 1), tol=0.05)
    clf.fit(X[:2000], y[:2000])
    tracemalloc.start()
    pool_before = pa.total_allocated_bytes()
    held = []
    clf.set_params(callback=lambda progress: held.append(pa.total_allocated_bytes() - pool_before))
    try:
        clf.fit(source, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 3
    assert max(held) < X.nbytes / 3


def test_a_transformer_with_partial_fit_is_fitted_in_blocks(task, tmp_path, monkeypatch):
    X, y = task
    monkeypatch.setattr(rows, "BLOCK_BYTES", 2**17)
    source = ParquetRows(write_embeddings(tmp_path / "X.parquet", X))
    blocks, whole = (fit(table, y, feature_transform=StandardScaler(), lambda2=(0, 1e-3)) for table in (source, X))
    assert_allclose(blocks.objective_, whole.objective_, rtol=1e-4)
    with pytest.raises(ValueError, match="cannot be fitted on blocks of a ParquetRows; use"):
        fit(source, y, feature_transform=PCA(3))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["array", "float16", "memmap", "parquet"])
def test_a_bad_value_in_block_731_is_named_before_optimisation_starts(kind, value, tmp_path, small_blocks):
    X, y, _, _ = mixture(12_000, dtype=np.float16 if kind == "float16" else np.float32)
    row = 731 * 16 + 5
    X[row, 7] = value
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif kind == "parquet":
        X = ParquetRows(write_embeddings(tmp_path / "X.parquet", X))
    iterations = []
    clf = of_paper(callback=iterations.append)
    with pytest.raises(ValueError, match=f"X must be finite; row {row}, feature 7 is {value}"):
        clf.fit(X, y)
    assert not iterations
    assert not hasattr(clf, "classes_")


def test_a_bad_value_in_predict_is_named(task):
    X, y = task
    clf = fit(X, y)
    X = X.copy()
    X[2_001, 3] = np.nan
    with pytest.raises(ValueError, match="row 2001, feature 3 is nan"):
        clf.predict(X)


def test_the_number_of_features_is_checked(task):
    X, y = task
    with pytest.raises(ValueError, match="X has 31 features, but TransductiveMaxMarginClassifier is expecting 32"):
        fit(X, y).predict(X[:, :31])


def test_sums_are_those_of_the_array(small_blocks):
    X = np.random.default_rng(0).standard_normal((1_003, 32)).astype(np.float32)
    seen = []

    def work(start, block):
        seen.append((start, len(block)))
        return (block.sum(axis=0, dtype=np.float64), np.array([float(len(block))]))

    sums, n_rows = ArrayRows(X).accumulate(work)
    assert n_rows == 1_003
    assert len(seen) == 63
    assert_allclose(sums, X.sum(axis=0, dtype=np.float64))


def test_an_error_in_a_block_reaches_the_user(small_blocks):
    def work(start, block):
        raise ValueError(f"block at {start}")

    with pytest.raises(ValueError, match="block at 0"):
        ArrayRows(np.zeros((500, 32), dtype=np.float32)).accumulate(work)


def write_broken(path, kind):
    tables = {
        "null": {"embedding": [[1.0, 2.0], None]},
        "ragged": {"embedding": [[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]]},
        "text": {"embedding": [["a"], ["b"]]},
        "nothing": {"name": ["a", "b"]},
        "empty": {"embedding": pa.array([], type=pa.list_(pa.float32()))},
    }
    pq.write_table(pa.table(tables[kind]), path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("null", "X.parquet: row 1 has no 'embedding'"),
        ("ragged", "X.parquet: row 1 has 1 features, the first has 2"),
        ("text", "X.parquet: the features must be numbers"),
        ("nothing", "X.parquet has no column 'embedding' and no floating-point column"),
        ("empty", "X.parquet has no rows"),
    ],
)
def test_a_table_that_is_none_is_named(kind, message, tmp_path):
    write_broken(tmp_path / "X.parquet", kind)
    with pytest.raises(ValueError, match=message):
        ParquetRows(tmp_path / "X.parquet").load()


def test_files_and_columns_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no Parquet file at"):
        ParquetRows(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("not a table")
    with pytest.raises(ValueError, match=r"text.parquet is damaged, or not a readable Parquet file"):
        ParquetRows(tmp_path / "text.parquet")
    path = write_embeddings(tmp_path / "X.parquet", np.ones((3, 2), dtype=np.float32))
    with pytest.raises(ValueError, match="column 'f0' is missing; the file has embedding"):
        ParquetRows(path, columns=["f0"])
    with pytest.raises(ValueError, match="column 'label' is missing"):
        ParquetRows(path).column("label")


def test_a_kernel_matrix_of_blocks_is_refused(task, tmp_path):
    X, y = task
    source = ParquetRows(write_embeddings(tmp_path / "X.parquet", X))
    with pytest.raises(ValueError, match='solver="dual" needs X in memory'):
        fit(source, y, solver="dual")
    with pytest.raises(ValueError, match="needs the whole kernel matrix"):
        fit(source, y, kernel="precomputed")
    with pytest.raises(ValueError, match="n_neighbors=3 needs X in memory; got a ParquetRows"):
        fit(source, y, n_neighbors=3)
    with pytest.raises(ValueError, match='Set n_neighbors=0, calibration="mixture", feature_transform="power"'):
        fit(source, y, n_neighbors=3, calibration="graph", feature_transform="discriminant")
