"""The source archive and the wheel: their contents, their metadata, and an installation into an empty environment."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import marginshot

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "marginshot"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive, built from this tree."""
    pytest.importorskip("build", reason="needs the group `dev`")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def _package_files():
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_every_page_names_the_version_and_its_date():
    version = marginshot.__version__.removesuffix(".dev0")
    citation, readme, changelog = ((ROOT / name).read_text() for name in ("CITATION.cff", "README.md", "CHANGELOG.md"))
    assert f"version = {{{version}}}" in readme
    if version == marginshot.__version__:  # a release, not work towards one
        date = re.search(rf"^## {re.escape(version)} - (\d{{4}}-\d\d-\d\d)$", changelog, re.MULTILINE)[1]
        assert f"\nversion: {version}\ndate-released: {date}\n" in citation
    else:
        assert "\n## Unreleased" in changelog


def test_the_wheel_holds_the_package_and_nothing_else(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    assert {name for name in names if ".dist-info/" not in name} == _package_files()
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_source_archive_can_be_tested_and_built(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in _package_files()} <= names
    assert {"pyproject.toml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"} <= names
    assert {"tests/conftest.py", "docs/conf.py", "examples/my_method.py", "benchmarks/engine.py"} <= names
    assert not [name for name in names if name.startswith(("docs/_build", "docs/gallery/", ".venv"))]
    # Features of ImageNet's pictures stay in the repository, where their terms stand beside them.
    assert not [name for name in names if name.startswith("benchmarks/features/") and name.endswith(".npz")]
    assert "benchmarks/features/pack.py" in names


def test_the_metadata_is_valid(built):
    pytest.importorskip("twine", reason="needs the group `dev`")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_works_in_an_empty_environment(built, tmp_path):
    """Dependencies are those of this environment: the network is not asked."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    if not python.exists():
        pytest.skip("environments of this system have no bin folder")
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    with zipfile.ZipFile(built[0]) as wheel:
        wheel.extractall(site)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    script = (
        "import sys; sys.path.append(sys.argv[1]); import marginshot\n"
        "print(marginshot.__version__, marginshot.__file__)\n"
        "from marginshot.cli.app import main; main(['evaluate', 'digits', '--methods', 'simpleshot', '--tasks', '5'])"
    )
    command = [str(python), "-c", script, sysconfig.get_paths()["purelib"]]
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version, where = done.stdout.splitlines()[0].split(" ", 1)
    assert version == marginshot.__version__
    assert Path(where).is_relative_to(site)
    assert "SimpleShot" in done.stdout
