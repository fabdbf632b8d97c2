"""The package answers as it did when the answers were stored (issue 17)."""

import numpy as np
import pytest

from golden.answers import FOLDER, Answer, differences, load, same_rows
from golden.cases import CASES, OPTIONS


@pytest.fixture(scope="module")
def rows_of_tasks():
    """Rows of the tasks answered so far: many cases share one."""
    return {}


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_the_stored_one(name, rows_of_tasks, tmp_path, request):
    case, features = CASES[name], None
    if case.shared:
        features = request.getfixturevalue("shared_data") / "features"
    if case.entry == "dask":
        pytest.importorskip("dask.array")
    if case.task not in rows_of_tasks:
        rows_of_tasks[case.task] = case.rows(features)
    rows, stored = rows_of_tasks[case.task], load(name)
    assert same_rows(stored, rows.table), f"{name}: the rows are not those of the stored answer."
    problems = differences(stored, case.answer(rows, tmp_path))
    assert not problems, f"{name} has another answer than the stored one. " + " ".join(problems)


def test_every_file_has_a_case_and_every_option_is_used():
    assert {path.stem for path in FOLDER.glob("*.npz")} == set(CASES)
    assert {case.option for case in CASES.values()} == set(OPTIONS)


def test_a_changed_answer_is_counted_and_measured():
    probabilities = np.tile([0.7, 0.3], (400, 1))
    stored = Answer(np.zeros(400, dtype=int), probabilities).kept()
    assert differences(stored, Answer(np.zeros(400, dtype=int), probabilities + 0.001)) == []
    labels, moved = np.zeros(400, dtype=int), probabilities.copy()
    labels[:3], moved[:6] = 1, [0.5, 0.5]  # every second row's probabilities are kept
    of_labels, of_probabilities = differences(stored, Answer(labels, moved))
    assert of_labels == "labels: 3 of 400 differ; 2 may."
    assert of_probabilities.startswith("probabilities: 3 of 200 rows differ by more than 0.02 (2 may)")
    assert "the largest differences are 0.2, 0.2, 0.2." in of_probabilities
