"""A record or a list of transfers that somebody else put beside the outputs (issue 31): it decides nothing unsaid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marginshot.labelling import RefusedError, resume
from marginshot.labelling.outputs.records import record_path
from marginshot.labelling.outputs.transfers import JOURNAL
from workplaces import draw_picture, encoded, own_cache, run, workplace

__all__ = ["draw_picture", "encoded", "own_cache", "run", "workplace"]

pytestmark = pytest.mark.usefixtures("encoded")


@pytest.fixture
def table(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = ["body,label", "late train,travel", "sweet cake,food", "bus delay,", "sour cake,"]
    Path("t.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path / "t.csv"


def plant(out: Path, source: Path, options: dict[str, object]) -> Path:
    """A record of a run that never was."""
    written = {"keys": ["x"], **{name: [""] for name in ("label", "probability", "runner_up", "review")}}
    said = {"said": {}, "said_of": {}, "column": "label", "named_by": ["body"], "written": [written]}
    path = record_path(out)
    path.write_text(json.dumps({"format": "marginshot-run-1", "source": str(source), "options": options, **said}))
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"save": "precious.txt", "force": True},
        {"force": True},
        {"move": True},
        {"cache": "elsewhere"},
        {"form": "json"},
        {"lose": "much"},
        {"examples": [3]},
        {"names": 1},
        {"suggest": True},
    ],
)
def test_a_record_sets_no_option_that_no_run_remembers(table, run, options):
    precious = table.with_name("precious.txt")
    precious.write_text("mine")
    record = plant(table.with_name("o.csv"), table, {"text": "body", **options})
    code, _, err = run("label", "t.csv", "--text", "body", "--out", "o.csv")
    assert precious.read_text() == "mine"
    assert code == 2, err
    assert f"{record.name} is damaged, or not the record of an earlier run" in err
    assert repr(next(iter(options))) in err
    assert not table.with_name("o.csv").exists()
    assert not table.with_name("elsewhere").exists()


def test_a_record_moves_no_pictures(workplace, run):
    (workplace / "labelled").mkdir()
    plant(workplace / "labelled" / "labels.csv", workplace / "photos", {"move": True})
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled")
    assert code == 2, err
    assert len(list((workplace / "photos").rglob("*.png"))) == 24


def test_options_of_the_list_are_said_when_they_are_used(table, run):
    plant(table.with_name("o.csv"), table, {"text": "body", "suggest": 1, "gallery": False})
    code, _, err = run("label", "t.csv", "--out", "o.csv")
    assert code == 0, err
    assert "As in the last run: --text body --suggest 1 --no-gallery" in err


@pytest.mark.parametrize("action", ["move", "copy"])
def test_a_list_of_another_folder_is_not_gone_on_with(workplace, draw_picture, action):
    private = draw_picture(workplace / "private" / "a.png", "red", 1)
    out = workplace / "labelled"
    out.mkdir()
    transfers = [[str(private), str(out / "red" / "a.png")]]
    forged = {"action": action, "folder": str(private.parent), "request": {}, "out": str(out), "transfers": transfers}
    (out / JOURNAL).write_text(json.dumps(forged))
    with pytest.raises(RefusedError, match=r"pictures of .*private into labelled\. Repeat it with transfer="):
        resume("labelled", "photos", action)
    with pytest.raises(RefusedError, match="Repeat it with transfer="):
        resume("labelled", "private", "link")
    assert private.exists()
    assert not (out / "red").exists()
