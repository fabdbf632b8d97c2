"""`evaluate` on real clusters of worker processes: the same bytes as in this process, a killed worker included."""

import os
import sys
from pathlib import Path

import joblib
import pytest
from backend_methods import Deadly

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation import protocol
from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.run import Run
from marginshot.methods import ProtoNet, SimpleShot

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def small_jobs(monkeypatch):
    monkeypatch.setattr(protocol, "_JOB_TASKS", 10)


@pytest.fixture
def importable_by_workers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])]))


def make_run(flag=None):
    first = SimpleShot() if flag is None else Deadly(flag=str(flag), parent=os.getpid())
    return Run(
        banks=[load_features("digits")],
        methods={"first": first, "protonet": ProtoNet()},
        settings=[TaskSettings(n_shot=1)],
        n_tasks=120,
        seed=5,
    )


def bytes_of(evaluation):
    return [result.per_task.tobytes() for result in evaluation.results], [
        result.calibration and result.calibration.ece for result in evaluation.results
    ]


@pytest.fixture(scope="module")
def expected():
    return bytes_of(evaluate(make_run()))


def test_dask_and_a_killed_worker(expected, importable_by_workers, tmp_path):
    distributed = pytest.importorskip("distributed")
    flag = tmp_path / "killed"
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        assert bytes_of(evaluate(make_run(), n_jobs=2)) == expected
        assert bytes_of(evaluate(make_run(flag), n_jobs=2)) == expected
    assert flag.exists()


@pytest.mark.filterwarnings("ignore::FutureWarning:ray")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="Ray's workers are not killed by signals there")
def test_ray_and_a_killed_worker(expected, importable_by_workers, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    monkeypatch.setattr("builtins.print", print)  # Ray puts its own there, which numba cannot compile
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # or its workers starve on a busy machine
    monkeypatch.setattr(protocol, "_ROUND_JOBS", 3)  # two rounds
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        register_ray()
        # Ray starts a lost worker again, and its task on it, only where it is asked to.
        again = {"max_restarts": -1, "max_task_retries": -1}
        with joblib.parallel_config(backend="ray", ray_remote_args=again):
            done = []
            run = evaluate(make_run(), n_jobs=2, on_progress=lambda n, total: done.append(n))
            assert bytes_of(run) == expected
            assert done == list(range(0, 121, 10))
            flag = tmp_path / "killed"
            assert bytes_of(evaluate(make_run(flag), n_jobs=2)) == expected
            assert flag.exists()
    finally:
        ray.shutdown()
