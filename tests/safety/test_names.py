"""Names that spreadsheets would run, terminals obey, or Windows take for a device."""

import csv
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginshot._lib.names import folder_name, is_plain, original_cell, safe_cell, shown
from marginshot.cli import _output
from marginshot.data.features import load_features, make_bank
from marginshot.labelling.items.collection import check_classes
from marginshot.labelling.items.tables import read_table, write_table
from marginshot.reporting.grid import Cell, Grid

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''@x", "-", "\n=1"]
FORMULAS += ["\uff1d1+1", "\uff0b1", "\uff0d2", "\uff20SUM(A1)"]  # wide signs, formulas to East Asian spreadsheets


@given(st.text())
def test_every_cell_comes_back_as_it_was(text):
    assert original_cell(safe_cell(text)) == text
    assert original_cell(safe_cell(original_cell(text))) == original_cell(text)


@given(st.text(alphabet="'=+-@\t\r\n\uff1d\uff0b\uff0d\uff201ax"))
def test_no_written_cell_starts_a_formula(text):
    written = safe_cell(text)
    assert original_cell(written) == text
    if written and written[0] in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20":
        float(written)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_tables_hold_no_formula_and_are_read_back(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    write_table({"=head": FORMULAS, "number": [-0.5] * len(FORMULAS), "text": ["-0.5"] * len(FORMULAS)}, path)
    table = read_table(path)
    assert list(table.column("=head")) == FORMULAS
    if suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "\r")]
        assert cells.count("-0.5") == 2 * len(FORMULAS)


def test_a_printed_table_holds_no_formula():
    grid = Grid(headers=("=a", "b"), sections=(((Cell("@x"), Cell("-0.5")),),))
    assert grid.render("csv") == "'=a,b\n'@x,-0.5"


def test_no_control_character_reaches_the_terminal(capsys):
    name = "cat\x1b]0;owned\x07\x1b[2J\u202egnp.exe\udcff"
    _output.say(name)
    _output.emit(name)
    _output.emit_grid(Grid(headers=(name,), sections=(((Cell(name),),),), title=name), [name])
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert r"\x1b" in text
        assert not [letter for letter in text if letter in "\x1b\x07\u202e\udcff"]


def test_ordinary_text_is_shown_as_it_is():
    text = "Zoë, 日本語, e\u0301, 👩\u200d🔬, a\u00a0b\n\tline"
    assert shown(text) == text


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\x00", "a\udcff", "two\nlines", "x\u202e"])
def test_classes_with_such_names_are_refused_before_the_work(name):
    assert not is_plain(name)
    with pytest.raises(ValueError, match="holds control characters or is not UTF-8; rename it"):
        check_classes(["b", name], "Examples")


def test_a_cell_of_30_megabytes_is_not_taken_for_a_class():
    with pytest.raises(ValueError, match=r"of 30,000,000 characters, is not the name of a class") as caught:
        check_classes(["b", "a" * 30_000_000], "Examples")
    assert len(str(caught.value)) < 200


def test_features_under_a_name_that_is_not_utf8_fail_before_the_work(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.npz")
    try:
        np.savez(path, X=np.ones((4, 3)), y=np.array([0, 0, 1, 1]))
    except OSError:
        pytest.skip("this system knows no such names")
    with pytest.raises(ValueError, match="names must be UTF-8"):
        load_features(path)
    with pytest.raises(ValueError, match="names must be UTF-8"):
        make_bank(np.ones((2, 2)), np.array(["a", "b\udcff"]), "x")


@pytest.mark.parametrize("name", ["con", "NUL", "Com1", "lpt9.txt", "aux"])
def test_devices_of_windows_become_folders(name):
    assert folder_name(name) != name
    assert folder_name(folder_name(name)) == folder_name(name)


def test_extremes_are_refused_or_read_without_a_warning(tmp_path):
    y = np.array([0, 1])
    make_bank(np.array([[6e4, -6e4], [6e-8, 0]], dtype=np.float16), y.astype(np.float16), "x")
    make_bank(np.array([[3e38, -3e38], [1e-45, 0]], dtype=np.float32), y, "x")
    with pytest.raises(ValueError, match="numbers too large for float32"):
        make_bank(np.array([[1e300, 1], [1, 1]]), y, "x")
    with pytest.raises(ValueError, match="must be numbers"):
        make_bank(np.zeros((2, 2), dtype="datetime64[s]"), y, "x")
