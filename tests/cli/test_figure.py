"""Figure 1: the drawing shows what the paper says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from marginshot.cli.figure import follow_line, make_task


@pytest.mark.parametrize("seed", range(4))
def test_queries_turn_the_line_to_the_gap(seed):
    task = make_task(seed)
    lines = follow_line(task)
    assert [line.lambda2 for line in lines] == [0.0, 1e-5, 1e-3, 0.1, 1.0]
    assert lines[0].count_wrong(task) >= 3
    assert lines[-1].count_wrong(task) == 0
    # Without queries the line is at right angles to the line between the two examples.
    between = task.support[1] - task.support[0]
    cosine = lines[0].normal @ between / np.linalg.norm(lines[0].normal) / np.linalg.norm(between)
    assert cosine == pytest.approx(1, abs=1e-6)
    # In the end no query is as near to the line as the gap is wide.
    distance = np.abs(task.query @ lines[-1].normal + lines[-1].offset) / np.linalg.norm(lines[-1].normal)
    assert distance.min() > 0.1


@pytest.mark.parametrize("name", ["figure.png", "figure.svg", "figure.pdf"])
@pytest.mark.parametrize("kind", ["figure1", "sequence"])
def test_drawings_are_written_and_written_again(cli, name, kind):
    for _ in range(2):
        outcome = cli("figure", name, "--kind", kind)
        assert (outcome.code, outcome.err) == (0, f"Figure written to {name}\n")
    assert Path(name).stat().st_size > 5000
    assert [path.name for path in Path().iterdir()] == [name]


def test_animation_has_a_frame_per_stage(cli):
    assert cli("figure", "line.gif", "--kind", "sequence").code == 0
    with Image.open("line.gif") as image:
        assert image.n_frames == 5
    assert cli("figure", "line.gif", "--kind", "sequence").code == 0


def test_figure1_explains_its_marks(cli):
    assert cli("figure", "--out", "figure.svg").code == 0
    drawn = Path("figure.svg").read_text()
    for label in ("labelled, class +", "query on the wrong side", "separating line", "its margins", "the line of (a)"):
        assert f">{label}<" in drawn


def test_mistakes(fails):
    assert "name one file to write" in fails("figure")
    assert "name one file to write" in fails("figure", "a.png", "--out", "b.png")
    assert "figure1 is written as .png, .svg, .pdf; got 'line.gif'" in fails("figure", "line.gif")
    Path("holiday.png").write_bytes(b"\x89PNG a picture of mine")
    assert "holiday.png exists and was not written by this command" in fails("figure", "holiday.png")


def test_a_seed_below_zero_is_named(fails):
    assert "Invalid value for '--seed': at least 0; got -1." in fails("figure", "line.svg", "--seed", -1)
