"""A log removed, moved or replaced while a session uses it (issue 31): noticed at the next act, told, mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from marginshot.labelling import RefusedError, Session

pytestmark = pytest.mark.skipif(os.name == "nt", reason="open files cannot be removed there")

X = np.random.default_rng(0).normal(size=(30, 4))


@pytest.fixture
def session(tmp_path):
    session = Session.from_embeddings(X, log=tmp_path / "log" / "log.sqlite")
    session.label([0], "a")
    session.label([1], "b")
    yield session
    session.close()


def labelled(path: Path) -> list[int]:
    with Session.from_embeddings(X, log=path) as again:
        return np.flatnonzero(again.state.given >= 0).tolist()


def remove(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def move(path: Path) -> None:
    path.rename(path.with_name("moved.sqlite"))


def move_all(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("happens", [remove, remove_folder, move, move_all])
def test_a_log_that_is_gone_after_the_last_act_is_written_again(session, happens):
    path = Path(session.save())
    happens(path)
    session.close()
    session.close()
    assert labelled(path) == [0, 1]
    with pytest.raises(RefusedError, match="The session is closed"):
        session.label([2], "a")


@pytest.mark.parametrize("happens", [remove, remove_folder, move, move_all])
def test_a_log_that_is_gone_is_written_again(session, happens):
    path = Path(session.save())
    happens(path)
    assert session.label([2], "a") == 3
    assert session.label([3], "b") == 4
    session.refresh()
    assert "was written again in full" in session.notes[0]
    assert len(session.notes) == 1
    session.close()
    assert labelled(path) == [0, 1, 2, 3]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_older_copy_put_back_by_a_synchroniser_gives_way(session, tmp_path):
    path = Path(session.save())
    shutil.copy(path, tmp_path / "older")
    session.label([2], "a")
    (tmp_path / "older").replace(path)
    session.label([3], "b")
    session.close()
    assert labelled(path) == [0, 1, 2, 3]


def test_a_newer_copy_of_the_same_log_is_used(session, tmp_path):
    path = Path(session.save())
    shutil.copy(path, tmp_path / "newer")
    with Session.from_embeddings(X, log=tmp_path / "newer") as other:
        other.label([9], "c")
        other.save()
    (tmp_path / "newer").replace(path)
    assert session.label([3], "b") == 4
    session.close()
    assert labelled(path) == [0, 1, 3, 9]


@pytest.mark.parametrize("content", [b"garbage" * 1000, b""])
def test_another_file_in_its_place_is_left_alone_and_nothing_is_acknowledged(session, tmp_path, content):
    path = Path(session.save())
    (tmp_path / "other").write_bytes(content)
    (tmp_path / "other").replace(path)
    with pytest.raises(RefusedError, match=r"was replaced by another file, .* All labels given here are in .*-kept-"):
        session.label([2], "a")
    assert session.state.version == 2
    assert path.read_bytes() == content
    (kept,) = path.parent.glob("log-kept-*.sqlite")
    assert labelled(kept) == [0, 1]


def test_another_log_in_its_place_is_left_alone(session, tmp_path):
    path = Path(session.save())
    with Session.from_embeddings(X, log=tmp_path / "other") as other:
        other.label([7], "z")
        other.save()
    (tmp_path / "other").replace(path)
    with pytest.raises(RefusedError, match="was replaced by another file"):
        session.label([2], "a")
    assert labelled(path) == [7]


def truncated(path: Path) -> None:
    os.truncate(path, 100)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def overwritten(path: Path) -> None:
    path.write_bytes(b"garbage" * 10_000)


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("happens", [truncated, emptied, overwritten])
def test_a_log_that_is_overwritten_in_place_acknowledges_nothing(session, happens, flushed):
    """As `cp` does it: the file stays the same one, and what SQLite remembers of it hides the harm."""
    path = Path(session.save())
    session.label([2], "a")
    if flushed:
        session.save()
    happens(path)
    with pytest.raises(RefusedError, match=r"was replaced by another file, .* All labels given here are in .*-kept-"):
        session.label([3], "b")
    assert session.state.version == 3
    (kept,) = path.parent.glob("log-kept-*.sqlite")
    assert labelled(kept) == [0, 1, 2]


def test_an_older_copy_written_over_the_log_gives_way(session):
    path = Path(session.save())
    older = path.read_bytes()
    for row in range(2, 12):
        session.label([row], "a")
    session.save()
    path.write_bytes(older)
    session.label([12], "b")
    session.close()
    assert labelled(path) == list(range(13))


def test_a_log_overwritten_after_the_last_act_is_kept_beside(session):
    path = Path(session.save())
    path.write_bytes(b"garbage" * 10_000)
    session.close()
    (kept,) = path.parent.glob("log-kept-*.sqlite")
    assert labelled(kept) == [0, 1]


def test_a_fault_that_comes_back_with_every_tick_is_told_once(caplog):
    """A garbage log printed 40 tracebacks in ten seconds."""
    pytest.importorskip("starlette", reason="needs extra `studio`")
    from marginshot.studio.worker import Worker

    with Session.from_embeddings(X) as session:
        worker = Worker(session)
        for _ in range(20):
            for what in ("The session could not be read", "The answers could not be computed"):
                with worker._faults_told(what):
                    raise RefusedError("The session log.sqlite cannot be read (file is not a database).")
    (told,) = [record for record in caplog.records if record.name.startswith("marginshot")]
    assert told.exc_info is None
    assert "cannot be read" in told.getMessage()
