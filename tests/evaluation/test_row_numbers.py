"""Methods that take tasks as row numbers of one table: equal answers, no features gathered, shared work done once."""

import pickle
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from doubles import NearestMean
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from marginshot import solve_table_tasks
from marginshot.batch import inputs
from marginshot.data.features import FeatureBank, load_features
from marginshot.data.sampler import TaskSampler, TaskSettings
from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.run import Run
from marginshot.evaluation.workers import predict
from marginshot.methods import FSTMMC, get_method
from marginshot.methods.base import takes_row_numbers


class OwnScores(FSTMMC):
    """Overrides the form with features alone, which must not be passed by."""

    name: ClassVar[str] = "own-scores"

    def predict_scores(self, support, support_labels, query):
        return -super().predict_scores(support, support_labels, query)


@pytest.fixture
def bank():
    return load_features("digits")


@pytest.mark.parametrize("name", ["fs-tmmc", "fs-tmmc-auto", "fs-mmc"])
@pytest.mark.parametrize("shared_rows", [0, 4096])
def test_row_numbers_give_the_answers_of_features(name, shared_rows, bank, monkeypatch):
    monkeypatch.setattr(inputs, "SHARED_ROWS", shared_rows)
    method, batch = get_method(name), TaskSampler(bank, n_shot=5).batch(0, 40)
    by_rows = predict(method, batch)
    assert "support" not in vars(batch)
    assert "query" not in vars(batch)
    by_features = method.predict_scores(batch.support, batch.support_labels, batch.query)
    if name == "fs-tmmc-auto":
        # Agreement counts rows: where rounding confirms one more, all scores of a task are a little sharper.
        assert np.mean(by_rows.argmax(axis=2) == by_features.argmax(axis=2)) > 0.999
        assert_allclose(softmax(by_rows, axis=2), softmax(by_features, axis=2), atol=5e-2)
        return
    assert_array_equal(by_rows.argmax(axis=2), by_features.argmax(axis=2))
    assert_allclose(by_rows, by_features, atol=2e-2)


def test_a_method_that_overrides_one_form_is_asked_for_that_one(bank):
    batch = TaskSampler(bank).batch(0, 5)
    assert takes_row_numbers(FSTMMC())
    assert not takes_row_numbers(OwnScores())
    assert not takes_row_numbers(NearestMean())
    assert_allclose(predict(OwnScores(), batch), -predict(FSTMMC(), batch), atol=2e-2)


def test_shared_work_is_done_once_for_all_jobs_and_shots(bank, monkeypatch):
    made = []

    class Counted(inputs.SharedRows):
        def __init__(self, table, transformer, n_jobs):
            made.append(repr(transformer))
            super().__init__(table, transformer, n_jobs)

    monkeypatch.setattr(inputs, "SharedRows", Counted)
    run = Run(
        banks=[bank],
        methods={name: get_method(name) for name in ("fs-tmmc", "fs-mmc", "fs-tmmc-auto")},
        settings=[TaskSettings(n_shot=1), TaskSettings(n_shot=5)],
        n_tasks=300,
    )
    evaluate(run, n_jobs=2)
    assert sorted(made) == ["CentreAndNormalise()", "DiscriminantTransform()"]


def test_a_table_in_another_process_is_known_by_its_token(bank, monkeypatch):
    monkeypatch.setattr(inputs, "_kept", type(inputs._kept)())
    batch = TaskSampler(bank).batch(0, 3)
    rows = batch.support_rows, batch.support_labels, batch.query_rows
    expected = solve_table_tasks(batch.table, *rows).scores
    assert_array_equal(solve_table_tasks(pickle.loads(pickle.dumps(batch.table)), *rows).scores, expected)
    assert len(inputs._kept) == 1
    assert_array_equal(solve_table_tasks(batch.table.rows, *rows).scores, expected)
    assert len(inputs._kept) == 1


def test_few_tables_are_kept(bank, monkeypatch):
    monkeypatch.setattr(inputs, "_kept", type(inputs._kept)())
    for _ in range(inputs._KEPT + 2):
        batch = TaskSampler(replace(bank)).batch(0, 1)
        solve_table_tasks(batch.table, batch.support_rows, batch.support_labels, batch.query_rows)
    assert len(inputs._kept) == inputs._KEPT


def test_a_bank_of_infinite_numbers_is_refused():
    X = np.ones((20, 2))
    X[7, 1] = np.inf
    bank = FeatureBank(X=X, y=np.repeat([0, 1], 10), classes=("a", "b"), source="made")
    with pytest.raises(ValueError, match="row 7 holds NaN or infinity"):
        TaskSampler(bank, n_way=2, n_query_per_class=3)
