"""The file of scores: complete, in a fixed order, and enough to work out every accuracy again."""

from dataclasses import asdict

import joblib
import numpy as np
import pyarrow.parquet as pq
import pytest
from doubles import FirstClass, NearestMean

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSampler, TaskSettings
from marginshot.evaluation import protocol
from marginshot.evaluation.checkpoint import Checkpoint
from marginshot.evaluation.protocol import EvaluationInterrupted, evaluate
from marginshot.evaluation.run import Run
from marginshot.evaluation.statistics import count_reliability, expected_calibration_error


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(protocol, "_JOB_TASKS", 4)
    return Run(
        banks=[load_features("digits")],
        methods={"near": NearestMean(), "first": FirstClass()},
        settings=[
            TaskSettings(n_shot=1, n_query_per_class=3),
            TaskSettings(n_shot=(1, 2), n_way=2, n_query_per_class=3),
        ],
        n_tasks=11,
        seed=3,
    )


def test_accuracies_follow_from_the_scores(run, tmp_path):
    evaluation = evaluate(run, n_jobs=2, predictions=tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet").to_pandas()
    columns = ["features", "way", "shot", "method", "task", "row", "truth", "scores", "probabilities"]
    assert table.columns.tolist() == columns
    assert len(table) == 2 * 11 * (15 + 6)
    for result in evaluation.results:
        shot = result.shot if isinstance(result.shot, int) else "1,2"
        own = table[(table["method"] == result.method) & (table["shot"] == str(shot)) & (table["way"] == result.way)]
        right = own["scores"].map(np.argmax) == own["truth"]
        np.testing.assert_array_equal(right.groupby(own["task"]).mean(), result.per_task)
    own = table[(table["method"] == "near") & (table["way"] == 5)]
    batch = TaskSampler(run.banks[0], seed=3, n_query_per_class=3).batch(0, 11)
    np.testing.assert_array_equal(own["row"].to_numpy().reshape(11, 15), batch.query_rows)


def test_the_file_depends_on_neither_workers_nor_their_order(run, tmp_path):
    evaluate(run, predictions=tmp_path / "one.parquet")
    with joblib.parallel_config(backend="loky"):
        evaluate(run, n_jobs=2, predictions=tmp_path / "two.parquet")
    one, two = (pq.read_table(tmp_path / name) for name in ("one.parquet", "two.parquet"))
    assert one.equals(two)


def test_an_interrupted_run_leaves_no_file_and_is_not_continued_with_one(run, tmp_path):
    def stop(done, _):
        if done:
            raise KeyboardInterrupt

    checkpoint = Checkpoint(tmp_path / "partial.npz")
    with pytest.raises(EvaluationInterrupted):
        evaluate(run, on_progress=stop, checkpoint=checkpoint, predictions=tmp_path / "p.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["partial.npz"]
    with pytest.raises(ValueError, match="scores of tasks finished earlier were not kept"):
        evaluate(run, checkpoint=checkpoint, predictions=tmp_path / "p.parquet")


def test_calibration_and_support_follow_from_the_files(run, tmp_path):
    """Issue 36: ECE can be computed again, and a task be built again, from the files alone."""
    evaluation = evaluate(run, predictions=tmp_path / "p.parquet")
    answers = pq.read_table(tmp_path / "p.parquet").to_pandas()
    assert answers[answers["method"] == "first"]["probabilities"].isna().all()
    own = answers[(answers["method"] == "near") & (answers["way"] == 5)]
    p = np.stack(own["probabilities"].to_numpy())
    predicted, truth = np.stack(own["scores"].to_numpy()).argmax(axis=1), own["truth"].to_numpy()
    counts = count_reliability(p[None], predicted[None], truth[None])
    assert expected_calibration_error(counts) == evaluation.results[0].calibration.ece

    tasks = pq.read_table(tmp_path / "p.tasks.parquet").to_pandas()
    assert tasks.columns.tolist() == ["features", "way", "shot", "task", "classes", "support_rows"]
    assert len(tasks) == 2 * 11
    bank = run.banks[0]
    for settings, some in zip(run.settings, (tasks[:11], tasks[11:]), strict=True):
        batch = TaskSampler(bank, seed=3, **asdict(settings)).batch(0, 11)
        np.testing.assert_array_equal(np.stack(some["support_rows"].to_numpy()), batch.support_rows)
        names = np.stack(some["classes"].to_numpy())
        of_rows = np.array(bank.classes)[bank.y[batch.support_rows]]
        np.testing.assert_array_equal(np.take_along_axis(names, batch.support_labels, axis=1), of_rows)
