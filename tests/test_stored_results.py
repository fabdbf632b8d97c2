"""`make results`: pages show what is stored, and what is stored is measured again once its code or inputs change."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"

spec = importlib.util.spec_from_file_location("benchmark_results", ROOT / "benchmarks" / "results.py")
results = sys.modules["benchmark_results"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(results)

NAMES = [result.name for result in results.RESULTS]
BLOCKS = {
    name: (page.name, block)
    for page in sorted(PAGES.glob("*.md"))
    for name, block in results.blocks(page.read_text(encoding="utf-8"))
}
STORED = sorted((PAGES / "data").glob("*.json"))


def test_every_result_has_one_name_and_its_place():
    assert len(set(NAMES)) == len(NAMES)
    assert {name: page for name, (page, _) in BLOCKS.items()} == {each.name: each.page for each in results.RESULTS}


def test_what_commands_name_is_there():
    words = [word for result in results.RESULTS for word in (*result.code, *result.inputs) if "{data}" not in word]
    assert not [word for word in words if not (ROOT / word).exists() and not word.startswith("benchmarks/features/")]


@pytest.mark.parametrize("name", BLOCKS)
def test_a_page_shows_what_is_stored(name):
    block, stored = BLOCKS[name][1], PAGES / "data" / f"{name}.json"
    if block.startswith(results.NOT_YET):
        assert not stored.exists()
        pytest.skip("not measured by `make results` yet")
    assert block == results.block_of(json.loads(stored.read_text(encoding="utf-8")))


def test_stored_results_are_listed_and_name_no_path_of_one_machine():
    assert {path.stem for path in STORED} <= set(NAMES)
    for path in STORED:
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text
        assert str(Path.home()) + "/" not in text


def test_results_older_than_the_code_are_named(capsys):
    """A warning, no failure: to measure all again takes hours."""
    now = {result.name: {path: results.hash_of_code(path) for path in result.code} for result in results.RESULTS}
    old = [path.stem for path in STORED if json.loads(path.read_text(encoding="utf-8"))["code"] != now.get(path.stem)]
    if old:
        with capsys.disabled():
            sys.stdout.write(f"\nThe code has changed since these were measured (`make results`): {', '.join(old)}\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A repository with one result, its script, its input and its page."""
    for folder in ("docs/results", "src/marginshot/model", "benchmarks", "features"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/marginshot/model/a.py").write_text('"""A."""\nx = 1\n')
    (tmp_path / "benchmarks/b.py").write_text("import sys\nprint('| a |\\n|---|\\n|', sys.argv[1], '|')\n")
    (tmp_path / "features/c.npz").write_bytes(b"rows")
    page = tmp_path / "docs/results/page.md"
    page.write_text("# Page\n\n<!-- results: one -->\n\nnothing\n\n<!-- end of results -->\n\nThe end.\n")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "ROOMS", ("model",))
    monkeypatch.setattr(results, "PAGES", tmp_path / "docs/results")
    monkeypatch.setattr(results, "git", lambda *words: "" if words[0] == "status" else "0123456789")
    monkeypatch.setattr(
        results, "RESULTS", (results.Result("one", "page.md", 0.1, ("python", "benchmarks/b.py", "{data}/c.npz")),)
    )
    results.hash_of_file.cache_clear()
    yield tmp_path
    results.hash_of_file.cache_clear()


def run(place, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["results.py", "--data", str(place / "features"), *words])
    return results.main()


def test_a_result_is_stored_written_into_its_page_and_then_up_to_date(place, monkeypatch, capsys):
    assert run(place, monkeypatch) == 0
    stored = json.loads((place / "docs/results/data/one.json").read_text())
    assert stored["command"] == "python benchmarks/b.py ../shared/data/features/c.npz"
    assert stored["markdown"] == "| a |\n|---|\n| ../shared/data/features/c.npz |"
    assert set(stored["versions"]) == {"marginshot", "python", *results.PACKAGES}
    text = (place / "docs/results/page.md").read_text()
    assert dict(results.blocks(text)) == {"one": results.block_of(stored)}
    assert text.startswith("# Page\n\n<!--")
    assert text.endswith("-->\n\nThe end.\n")
    assert str(place) not in json.dumps(stored) + text
    capsys.readouterr()
    assert run(place, monkeypatch) == 0
    assert capsys.readouterr().out == "one: up to date\n"


@pytest.mark.parametrize(
    ("path", "content", "state"),
    [
        ("src/marginshot/model/a.py", '"""Better words."""\nx = 1  # one\n', "up to date"),
        ("src/marginshot/model/a.py", "x = 2\n", "old: code changed"),
        ("benchmarks/b.py", "print('| b |')\n", "old: code changed"),
        ("features/c.npz", "other rows", "old: inputs changed"),
    ],
)
def test_a_result_is_old_once_what_it_depends_on_changes(place, monkeypatch, capsys, path, content, state):
    run(place, monkeypatch)
    (place / path).write_text(content)
    results.hash_of_file.cache_clear()
    capsys.readouterr()
    assert run(place, monkeypatch, "--list") == 0
    assert capsys.readouterr().out.rstrip().endswith(state)


def test_a_result_whose_input_is_missing_is_left_out(place, monkeypatch, capsys):
    (place / "features/c.npz").unlink()
    assert run(place, monkeypatch) == 0
    assert capsys.readouterr().out == (
        "one: left out, no ../shared/data/features/c.npz. --data DIR says where the features are.\n"
    )
    assert not (place / "docs/results/data").exists()


def test_a_command_that_fails_stores_nothing_and_is_named(place, monkeypatch, capsys):
    (place / "benchmarks/b.py").write_text("raise SystemExit(3)\n")
    assert run(place, monkeypatch) == 1
    assert "one: ended with code 3, nothing is stored." in capsys.readouterr().out
    assert not (place / "docs/results/data").exists()


def test_only_is_checked(place, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(place, monkeypatch, "--only", "two")
    assert "invalid choice: 'two'" in capsys.readouterr().err
