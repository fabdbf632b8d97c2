"""What is written: whole, on the disk, for the right eyes, and never in place of a device."""

import os
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

from marginshot._lib import files
from marginshot._lib.files import atomic_path, sweep
from marginshot.cli._output import check_outputs
from marginshot.data.features import FeatureBank
from marginshot.labelling.items.store import Store
from signals import hearing_signals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="rights, devices and signals of Unix")


def test_file_and_folder_are_flushed_before_and_after_the_name_is_given(tmp_path, monkeypatch):
    events = []
    flush, replace = os.fsync, os.replace

    def fsync(descriptor):
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("name"), replace(*paths)))
    with atomic_path(tmp_path / "x.json") as temporary:
        temporary.write_text("{}")
    assert events == ["file", "name", "folder"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path, suffix):
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from marginshot.labelling.items.tables import write_table\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: write_table({'x': [str(i) for i in range(99999)]}, Path(sys.argv[1]))\n"
        "except OSError as error: print(error.strerror, error.filename)\n"
    )
    target = tmp_path / f"labels.{suffix}"
    done = subprocess.run([sys.executable, "-c", script, target], capture_output=True, text=True, check=True)
    assert done.stdout == f"File too large {target}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_private_file_is_for_its_owner_only_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        with atomic_path(tmp_path / "secret", private=True) as temporary:
            assert temporary.stat().st_mode & 0o777 == 0o600
            temporary.write_text("x")
        bank = FeatureBank(np.ones((2, 2), dtype=np.float32), np.array([0, 1]), ("a", "b"), "x")
        bank.save(tmp_path / "features.npz")
        bank.save(tmp_path / "features.parquet")
    finally:
        os.umask(before)
    for name in ("secret", "features.npz", "features.parquet"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, name


def test_the_cache_of_embeddings_is_for_its_owner_only(tmp_path):
    before = os.umask(0)
    try:
        store = Store(tmp_path / "cache" / "marginshot")
        store.keep(["a"], np.ones((1, 4), dtype=np.float32))
    finally:
        os.umask(before)
    assert store.path.parent.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()} == {0o600}


def test_an_output_is_known_as_ours_before_and_after_it_is_there(tmp_path):
    """Killed between the announcement and the new name, or after it: both contents are ours."""
    store, path = Store(tmp_path / "cache"), tmp_path / "labels.csv"
    with store.own_output(path) as temporary:
        temporary.write_text("old")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), store.own_output(path) as temporary:
            temporary.write_text("new")
    assert path.read_text() == "old"
    assert store.is_own_output(path)
    path.write_text("new")
    assert store.is_own_output(path)
    path.write_text("the user's")
    assert not store.is_own_output(path)


def test_rights_the_user_gave_are_kept(tmp_path):
    (tmp_path / "shared").touch()
    (tmp_path / "shared").chmod(0o640)
    with atomic_path(tmp_path / "shared", private=True) as temporary:
        temporary.write_text("x")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o640


def test_only_regular_files_are_replaced_also_by_force(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="it is a device or a pipe"), atomic_path(tmp_path / "pipe"):
        pass
    with pytest.raises(FileExistsError, match="it is a device or a pipe"):
        check_outputs([tmp_path / "pipe"], force=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_not_replaced_by_force(tmp_path):
    os.mknod(tmp_path / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    with pytest.raises(FileExistsError, match="it is a device or a pipe"):
        check_outputs([tmp_path / "null"], force=True)


def test_a_link_is_replaced_and_not_written_through(tmp_path):
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    with atomic_path(tmp_path / "out") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "elsewhere").read_text() == "untouched"
    assert not (tmp_path / "out").is_symlink()
    assert (tmp_path / "out").read_text() == "new"


def test_a_writer_inside_a_writer_keeps_the_lock(tmp_path):
    with atomic_path(tmp_path / "out.csv") as outer:
        with atomic_path(outer) as inner:
            inner.write_text("whole")
        assert sweep(tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "whole"


def test_leftovers_are_swept_but_not_what_is_being_written_nor_what_is_somebody_elses(tmp_path, monkeypatch):
    (tmp_path / ".hidden-12345678.json").touch()
    (tmp_path / ".marginshot-unfinished.json").touch()
    with monkeypatch.context() as patch:
        patch.setattr(files.Path, "unlink", lambda *_, **__: None)  # as where the run is killed
        with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "killed.npz"):
            raise KeyboardInterrupt
    assert len(list(tmp_path.iterdir())) == 3
    with atomic_path(tmp_path / "alive.npz") as temporary:
        assert sweep(tmp_path) == 1
        assert temporary.exists()
        temporary.write_text("x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".hidden-12345678.json",
        ".marginshot-unfinished.json",
        "alive.npz",
    ]


_WAIT = """
import time
from marginshot.cli import app
def wait():
    print("ready", flush=True)
    time.sleep(60)
app.app.command("wait")(wait)
app.main(["wait"])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_a_command_as_ctrl_c_does(number):
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": hearing_signals}
    with subprocess.Popen([sys.executable, "-c", _WAIT], **piped) as child:
        first = child.stdout.readline()
        child.send_signal(number)
        _, said = child.communicate()
    assert (first, child.returncode, said) == ("ready\n", 130, "Interrupted.\n")
