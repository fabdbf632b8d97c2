"""Files that are never half-written."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from marginshot._lib.files import atomic_path


def test_a_failure_leaves_what_was_there(tmp_path):
    target = tmp_path / "result.json"
    target.write_text("before")

    def stop_half_way():
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_half_way()
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert target.read_text() == "before"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such rights")
@pytest.mark.parametrize(("number", "is_ours"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_full_disk_is_reported_with_the_file(tmp_path, number, is_ours):
    """An error of reading, raised while we write, is not about the file written."""
    target = tmp_path / "result.json"
    with pytest.raises(OSError, match=os.strerror(number)) as caught, atomic_path(target):
        raise OSError(number, os.strerror(number))
    assert caught.value.filename == (str(target) if is_ours else None)


def test_rights_are_the_users_also_in_threads(tmp_path):
    before = os.umask(0o027)
    try:
        (tmp_path / "shared").touch()
        (tmp_path / "shared").chmod(0o664)

        def write(name):
            with atomic_path(tmp_path / name) as temporary:
                temporary.write_text(name)
            return (tmp_path / name).stat().st_mode & 0o777

        with ThreadPoolExecutor(8) as threads:
            assert set(threads.map(write, (f"{i}.txt" for i in range(200)))) == {0o640}
        assert write("shared") == 0o664
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of open files")
def test_on_windows_the_file_is_closed_before_it_is_renamed(tmp_path, monkeypatch):
    """Issue 29: there, a file that is open cannot be renamed."""
    monkeypatch.setattr("marginshot._lib.files.sys.platform", "win32")
    rename = Path.replace

    def replace(self, target):
        opened = {os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()}
        assert str(self) not in opened
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with atomic_path(tmp_path / "result.json") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "result.json").read_text() == "new"
