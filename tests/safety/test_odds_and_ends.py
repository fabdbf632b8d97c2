"""The small findings of issue 31."""

from __future__ import annotations

import os
import sqlite3
import time

import numpy as np
import pytest

from marginshot.data.features import check_names_differ
from marginshot.labelling import Session, label_embeddings
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.sources import open_source
from marginshot.labelling.items.tables import embedding_rows, read_npz, read_table
from marginshot.labelling.session.encoding import Encoding

X = np.random.default_rng(0).normal(size=(8, 3))


@pytest.mark.parametrize("name", ["none of the classes", "None of the  classes", " NONE OF THE CLASSES "])
def test_the_words_for_no_class_are_no_class(name):
    with Session.from_embeddings(X) as session:
        session.label([0], "a")
        for act in (
            lambda: session.label([1], name),
            lambda: session.add_class(name),
            lambda: session.rename("a", name),
        ):
            with pytest.raises(ValueError, match="readers of the table would take it for no class"):
                act()
        assert session.state.version == 1


def test_seconds_left_count_from_the_beginning_of_the_work(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 300_000.0)  # as long as the machine runs
    encoding = Encoding(embedding_rows(X.astype(np.float32), None), None, None, lambda *_: None, lambda _: None)
    monkeypatch.setattr(time, "monotonic", lambda: 300_001.0)
    encoding._tell("reading", 4, 8)
    assert encoding.progress.seconds_left == pytest.approx(1.0)


def test_masked_values_are_not_taken_for_numbers():
    masked = np.ma.masked_greater(X, 1.0)
    with pytest.raises(ValueError, match=r"X has \d+ masked values, which are no numbers"):
        label_embeddings(masked, ["a", "b", *[""] * 6])
    with pytest.raises(ValueError, match=r"X has \d+ masked values, which are no numbers"):
        label_embeddings(list(masked), ["a", "b", *[""] * 6])  # of each row NumPy would take what is behind its mask
    assert label_embeddings(np.ma.masked_greater(X, 99.0), ["a", "b", *[""] * 6])


@pytest.mark.skipif(os.name == "nt", reason="pipes and rights of Unix")
def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="is a device or a pipe, which may never end"):
        open_source(tmp_path / "t.csv", None)


@pytest.mark.skipif(os.name == "nt", reason="pipes of Unix")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz"])
def test_no_pipe_and_no_link_to_a_device_is_read(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    read = (lambda path: read_npz(path, None)) if name.endswith(".npz") else read_table
    with pytest.raises(ValueError, match="is a device or a pipe, which may never end"):
        read(tmp_path / name)


def test_a_name_that_occurs_twice_among_very_many_is_found_at_once(tmp_path):
    """Each name was counted among all, 10 billion comparisons."""
    names = [f"c{place}" for place in range(100_000)]
    (tmp_path / "t.csv").write_text(",".join([*names, "c99999"]) + "\n")
    started = time.process_time()
    with pytest.raises(ValueError, match="two columns are called 'c99999'"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(ValueError, match="'c99999' occurs twice"):
        check_names_differ([*names, "c99999"], "t.npz")
    assert time.process_time() - started < 20.0


def test_an_error_does_not_list_a_million_columns(tmp_path):
    (tmp_path / "t.csv").write_text(",".join(f"c{place}" for place in range(100_000)) + "\n")
    with pytest.raises(ValueError, match=r"no column 'text'; it has c0, c1, .* and 99,980 more") as error:
        read_table(tmp_path / "t.csv").column("text")
    assert len(str(error.value)) < 500


def test_a_small_file_of_very_many_rows_is_refused(tmp_path):
    """Its 11 million rows of one text took the memory of as many objects."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(11_000_000, "i1")), arrow.array(["hello"]))
    parquet.write_table(arrow.table({"text": column}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 100_000
    with pytest.raises(ValueError, match="it has 11,000,000 rows, and 10,000,000 are labelled at most"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.skipif(os.name == "nt", reason="rights of Unix")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
@pytest.mark.parametrize("cache", [True, False])
def test_results_follow_the_umask_and_what_holds_embeddings_is_private(tmp_path, monkeypatch, umask, mode, cache):
    monkeypatch.setenv("MARGINSHOT_CACHE", str(tmp_path / "cache"))
    before = os.umask(umask)
    try:
        result = label_embeddings(X, ["a", "b", *[""] * 6])
        result.write(tmp_path / "labels.csv", exports=["bulk"], model=tmp_path / "model", cache=cache)
    finally:
        os.umask(before)
    rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path.is_file()}
    assert rights.pop("model") == 0o600
    assert set(rights) == {"labels.csv", "labels-gallery.html", "labels-bulk.csv"}
    assert set(rights.values()) == {mode}


@pytest.mark.parametrize("host", ["ü..x", "a" * 70])
def test_a_host_that_cannot_be_one_is_a_sentence(host):
    pytest.importorskip("uvicorn", reason="needs extra `studio`")
    from marginshot.studio.server import listen

    with pytest.raises(ValueError, match=r"Cannot listen on .* Give an address of this machine as --host"):
        listen(host, 0)


def test_a_locked_cache_of_thumbnails_is_not_deleted(tmp_path, monkeypatch):
    pytest.importorskip("PIL", reason="pictures need the extra vision")
    pytest.importorskip("starlette", reason="needs extra `studio`")
    from marginshot.studio import thumbnails

    path = thumbnails.Thumbnails(tmp_path).path
    content, connect = path.read_bytes(), sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda place, timeout=0: connect(place, timeout=0.1))
    holder = connect(path)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(RefusedError, match=r"cannot be used .database is locked"):
            thumbnails.Thumbnails(tmp_path)
    finally:
        holder.close()
    assert path.read_bytes() == content
