"""The protocol gives one result, however it is cut, spread, interrupted and continued."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext

import pytest
from doubles import FirstClass, NearestMean, Troubled
from joblib import parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSampler, TaskSettings
from marginshot.evaluation import protocol
from marginshot.evaluation.checkpoint import BlockProgress, Checkpoint, checkpoint_path
from marginshot.evaluation.protocol import EvaluationInterrupted, evaluate
from marginshot.evaluation.results import Evaluation
from marginshot.evaluation.run import Run
from marginshot.evaluation.statistics import mean_and_interval, paired_difference


def make_run(**changes) -> Run:
    settings = {
        "banks": [load_features("digits")],
        "methods": {"mean": NearestMean(temperature=0.01), "first": FirstClass()},
        "settings": [TaskSettings(n_shot=1), TaskSettings(n_shot=5)],
        "n_tasks": 60,
        "seed": 3,
    }
    return Run(**(settings | changes))


def without_times(evaluation: Evaluation) -> list[dict]:
    entries = [result.to_json() | {"per_task": result.per_task.tolist()} for result in evaluation.results]
    for entry in entries:
        assert entry.pop("seconds_per_task") > 0
    return entries


@pytest.fixture(scope="module")
def expected() -> Evaluation:
    return evaluate(make_run())


def test_result_is_what_the_sampler_and_method_give(expected):
    sampler = TaskSampler(load_features("digits"), n_shot=5, seed=3)
    batch = sampler.batch(0, 60)
    scores = NearestMean().predict_scores(batch.support, batch.support_labels, batch.query)
    accuracy = (scores.argmax(axis=2) == batch.query_labels).mean(axis=1)
    result = expected.results[2]
    assert (result.method, result.way, result.shot, result.tasks) == ("mean", 5, 5, 60)
    assert_array_equal(result.per_task, accuracy)
    assert (result.accuracy, result.ci95) == mean_and_interval(accuracy)
    assert result.settings.items() >= {"method": "nearest-mean", "temperature": 0.01}.items()
    assert len(result.settings["sha256"]) == 64
    assert 0 < result.calibration.ece < 1
    assert sum(result.calibration.n_queries) == 60 * 75


def test_difference_is_to_the_reference(expected):
    mean, first = expected.results[:2]
    assert mean.difference is None
    assert first.difference.to == "mean"
    assert (first.difference.mean, first.difference.ci95) == paired_difference(first.per_task, mean.per_task)
    assert first.calibration is None
    swapped = evaluate(make_run(methods={"first": FirstClass(), "fs-tmmc": NearestMean()}, n_tasks=4))
    assert swapped.results[0].difference.to == "fs-tmmc"


@pytest.mark.parametrize("job_tasks", [1, 7, 250])
def test_result_does_not_depend_on_the_job_size(expected, monkeypatch, job_tasks):
    monkeypatch.setattr(protocol, "_JOB_TASKS", job_tasks)
    assert without_times(evaluate(make_run())) == without_times(expected)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_result_does_not_depend_on_workers(expected, monkeypatch, backend):
    monkeypatch.setattr(protocol, "_JOB_TASKS", 9)
    with parallel_config(backend=backend):
        assert without_times(evaluate(make_run(), n_jobs=2)) == without_times(expected)


def test_interrupted_run_continues_to_the_same_result(expected, monkeypatch, tmp_path):
    monkeypatch.setattr(protocol, "_JOB_TASKS", 8)
    path = checkpoint_path(tmp_path / "result.json")

    def stop_at_forty(done: int, total: int) -> None:
        assert total == 120
        if done == 40:
            raise KeyboardInterrupt

    with pytest.raises(EvaluationInterrupted) as interruption:
        evaluate(make_run(), n_jobs=1, checkpoint=Checkpoint(path), on_progress=stop_at_forty)
    partial = interruption.value.partial
    assert not partial.complete
    assert [result.tasks for result in partial.results] == [40, 40]
    assert_array_equal(partial.results[0].per_task, expected.results[0].per_task[:40])

    seen = []
    resumed = evaluate(make_run(), checkpoint=Checkpoint(path), on_progress=lambda done, _: seen.append(done))
    assert seen[0] == 40
    assert seen[-1] == 120
    assert without_times(resumed) == without_times(expected)


def test_jobs_finished_and_not_used_are_no_warning():
    warned = [("2 tasks have been successfully executed  but not used. Additionally, 4 tasks", UserWarning)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        protocol._tell_once(warned)


def test_any_gap_is_filled(expected, tmp_path):
    """Workers finish out of order, so an interruption may leave holes."""
    path = checkpoint_path(tmp_path / "result.json")
    run = make_run()
    with pytest.raises(EvaluationInterrupted):
        evaluate(run, checkpoint=Checkpoint(path), on_progress=_interrupt_when_done)
    blocks = Checkpoint(path).load(run.progress_identity())
    assert all(block.done.all() for block in blocks)
    again = []
    for block, method_results in zip(blocks, [expected.results[:2], expected.results[2:]], strict=True):
        # Forget two stretches; counts cannot be taken back, so they are forgotten whole.
        fresh = BlockProgress.empty(2, 60)
        fresh.accuracy[:], fresh.seconds[:] = block.accuracy, block.seconds
        fresh.done[:, 5:20] = fresh.done[:, 41:42] = True
        fresh.done[1, 41:43] = False, True
        fresh.accuracy[~fresh.done] = -1
        again.append(fresh)
        assert method_results[0].tasks == 60
    first, second = (0,), (1,)
    assert again[0].missing() == [
        *((first, 0, 5), (first, 20, 41), (first, 42, 60)),
        *((second, 0, 5), (second, 20, 42), (second, 43, 60)),
    ]
    Checkpoint(path).save(again, run.progress_identity(), at_once=True)
    resumed = evaluate(run, checkpoint=Checkpoint(path))
    for one, other in zip(resumed.results, expected.results, strict=True):
        assert_array_equal(one.per_task, other.per_task)


def _interrupt_when_done(done: int, total: int) -> None:
    if done == total:
        raise KeyboardInterrupt


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = checkpoint_path(tmp_path / "result.json")
    with pytest.raises(EvaluationInterrupted):
        evaluate(make_run(), checkpoint=Checkpoint(path), on_progress=_interrupt_when_done)
    with pytest.raises(ValueError, match=r"result\.partial\.npz belongs to another run: its seed is 3, not 4"):
        evaluate(make_run(seed=4), checkpoint=Checkpoint(path))
    other = {"mean": NearestMean(temperature=0.02), "first": FirstClass()}
    with pytest.raises(ValueError, match="belongs to another run: its methods is"):
        evaluate(make_run(methods=other), checkpoint=Checkpoint(path))
    swapped = dict(reversed(make_run().methods.items()))
    with pytest.raises(ValueError, match="belongs to another run: its order of methods is"):
        evaluate(make_run(methods=swapped), checkpoint=Checkpoint(path))


def test_progress_of_ways_in_another_order_is_refused(tmp_path):
    path = checkpoint_path(tmp_path / "result.json")
    ways = [TaskSettings(n_way=2), TaskSettings(n_way=5)]
    with pytest.raises(EvaluationInterrupted):
        evaluate(make_run(settings=ways), checkpoint=Checkpoint(path), on_progress=_interrupt_when_done)
    with pytest.raises(ValueError, match="belongs to another run: its order of tasks is"):
        evaluate(make_run(settings=ways[::-1]), checkpoint=Checkpoint(path))


def test_a_dead_worker_keeps_what_was_finished(expected, monkeypatch, tmp_path):
    monkeypatch.setattr(protocol, "_JOB_TASKS", 8)
    path = checkpoint_path(tmp_path / "result.json")
    flag = tmp_path / "flag"
    run = make_run(methods={"mean": NearestMean(temperature=0.01), "first": Troubled(trouble="die", flag=flag)})

    def start_trouble(done: int, total: int) -> None:
        if done >= 16:
            flag.touch()

    with parallel_config(backend="loky"), pytest.raises(TerminatedWorkerError):
        evaluate(run, n_jobs=2, checkpoint=Checkpoint(path), on_progress=start_trouble)
    flag.unlink()
    stored = sum(int(block.done.sum()) for block in Checkpoint(path).load(run.progress_identity()))
    assert 16 <= stored < sum(len(result.per_task) for result in expected.results)
    resumed = evaluate(run, n_jobs=2, checkpoint=Checkpoint(path))
    assert_array_equal(resumed.results[2].per_task, expected.results[2].per_task)


def test_nan_scores_are_named():
    with pytest.raises(ValueError, match="Method 'bad' gave NaN as a score on task 9"):
        evaluate(make_run(methods={"bad": Troubled(trouble="nan")}, n_tasks=10))


def test_a_damaged_checkpoint_is_named(tmp_path):
    path = checkpoint_path(tmp_path / "result.json")
    path.write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ValueError, match=r"result\.partial\.npz is damaged.*Start over with --force"):
        evaluate(make_run(), checkpoint=Checkpoint(path))


def test_warnings_are_told_also_where_the_run_ends_early():
    def end_early():
        with protocol.warnings_once():
            warnings.warn("did not converge", RuntimeWarning, stacklevel=1)
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="did not converge"), pytest.raises(KeyboardInterrupt):
        end_early()


@pytest.mark.parametrize(("backend", "n_jobs"), [("loky", 1), ("loky", 2), ("threading", 2)])
def test_warnings_of_methods_reach_the_caller_once(monkeypatch, backend, n_jobs):
    monkeypatch.setattr(protocol, "_JOB_TASKS", 3)
    run = make_run(methods={"loud": Troubled(trouble="warn")}, n_tasks=8)
    with parallel_config(backend=backend), pytest.warns(RuntimeWarning, match="did not converge in . tasks") as caught:
        evaluate(run, n_jobs=n_jobs)
    assert len(caught) == 1


@pytest.mark.parametrize(("backend", "n_jobs"), [("loky", 1), ("loky", 2), ("threading", 2)])
def test_methods_run_on_one_thread(backend, n_jobs):
    run = make_run(methods={"threads": Troubled(trouble="threads")}, n_tasks=6)
    batch = TaskSampler(run.banks[0]).batch(0, 1)
    with threadpool_limits(limits=2), parallel_config(backend=backend):
        with pytest.raises(RuntimeError, match="more than one thread"):
            run.methods["threads"].predict_scores(batch.support, batch.support_labels, batch.query)
        assert evaluate(run, n_jobs=n_jobs).complete


def test_threads_unless_the_caller_says_otherwise():
    """The double remembers the process it ran in by its accuracy: class 0 here, a constant class 1 elsewhere."""
    run = make_run(
        methods={"here": FirstClass(), "where": Troubled(trouble="process", parent=os.getpid())},
        settings=[TaskSettings(n_way=2, n_shot=1, present=1)],
        n_tasks=6,
    )
    assert evaluate(run, n_jobs=2).results[1].difference.mean == 0
    with parallel_config(backend="loky"):
        elsewhere = evaluate(run, n_jobs=2)
    assert_array_equal(elsewhere.results[1].per_task, 1 - elsewhere.results[0].per_task)


@pytest.mark.parametrize(("configured", "expected"), [({}, 5), ({"n_jobs": 3}, 3), ({"backend": "loky"}, 5)])
def test_none_means_the_threads_of_blas_unless_joblib_is_told_otherwise(configured, expected, monkeypatch):
    monkeypatch.setattr(protocol, "n_threads", lambda: 5)
    with parallel_config(**configured) if configured else nullcontext():
        assert protocol._count_workers(None) == expected
        assert protocol._count_workers(2) == 2


def test_redrawn_tasks_are_counted():
    run = make_run(settings=[TaskSettings(dirichlet=0.1, n_query_per_class=60)], n_tasks=20)
    redrawn = evaluate(run).results[0].redrawn_tasks
    batch = TaskSampler(run.banks[0], seed=3, dirichlet=0.1, n_query_per_class=60).batch(0, 20)
    assert redrawn == batch.redrawn.sum() > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_tasks": 1}, "at least 2 tasks; got 1"),
        ({"methods": {}}, "no methods given"),
        ({"banks": []}, "no features given"),
        ({"settings": []}, "no task settings given"),
        ({"banks": [load_features("digits")] * 2}, "Two sets of features are called 'digits'"),
        ({"settings": [TaskSettings()] * 2}, "same way and shot is asked for twice"),
        ({"settings": [TaskSettings(), TaskSettings(n_way=4, dirichlet=2.0)]}, "may differ in way and shot only"),
    ],
)
def test_impossible_runs_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        make_run(**changes)
