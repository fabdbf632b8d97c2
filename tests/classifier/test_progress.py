"""A long fit can be watched, and stopped without losing what it has."""

import os
import re
import signal
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from marginshot.classifier.progress import FitMonitor, InterruptedFitWarning
from marginshot.solvers.continuation import stage_tolerances
from mixtures import mixture
from tasks_for_tests import of_paper

SOLVERS = ["dual", "primal"]


@pytest.fixture(scope="module")
def task():
    X, y, _, _ = mixture(1_200)
    return X, y


def press_ctrl_c_in(stage, iteration=1):
    """A callback that sends the signal a terminal or a notebook sends."""

    def callback(progress):
        if (progress.stage, progress.iteration) == (stage, iteration):
            os.kill(os.getpid(), signal.SIGINT)

    return callback


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_callback_sees_every_stage(task, solver):
    seen = []
    clf = of_paper(solver=solver, callback=seen.append).fit(*task)
    assert [p.lambda2 for p in seen if p.iteration == 0] == list(clf.lambda2)
    assert {(p.n_stages, p.n_classes) for p in seen} == {(5, 4)}
    last = {p.stage: p for p in seen}
    assert all(last[stage].gradient_norm <= tol for stage, tol in enumerate(stage_tolerances(clf.tol, 5), start=1))
    assert sum(p.iteration for p in last.values()) >= clf.n_iter_.max()
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))


@pytest.mark.parametrize("solver", SOLVERS)
def test_verbose_speaks_on_standard_error(task, solver, capsys):
    of_paper(solver=solver).fit(*task)
    assert capsys.readouterr() == ("", "")
    of_paper(solver=solver, verbose=1).fit(*task)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(re.findall(r"stage \d/5 \(lambda2=\S+\)  iteration 0  4/4 classes active", err)) == 5
    of_paper(solver=solver, verbose=2).fit(*task)
    assert len(capsys.readouterr().err.splitlines()) > len(err.splitlines())


def test_a_long_stage_speaks_now_and_then(monkeypatch, capsys):
    clock = iter(np.arange(0.0, 100.0, 2.0))
    monkeypatch.setattr("marginshot.classifier.progress.time.monotonic", lambda: next(clock))
    on_iteration = FitMonitor(1, None, (0.0, 1.0), 3)(1)
    for iteration in range(10):
        on_iteration(iteration, np.ones(2))
    numbers = re.findall(r"iteration (\d+)", capsys.readouterr().err)
    assert numbers == ["0", "3", "6", "9"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_leaves_the_last_complete_stage(task, solver):
    clf = of_paper(solver=solver, tol=1e-5, callback=press_ctrl_c_in(stage=5))
    with pytest.warns(InterruptedFitWarning, match=r"interrupted in stage 5 of 5.*end of stage 4 \(lambda2=0.1\)"):
        clf.fit(*task)
    shorter = of_paper(solver=solver, tol=1e-5, lambda2=clf.lambda2[:4]).fit(*task)
    # The last stage of the shorter sequence is solved more exactly.
    assert_allclose(clf.predict_proba(task[0]), shorter.predict_proba(task[0]), atol=5e-3)
    assert_array_equal(clf.predict(task[0])[task[1] < 0], clf.transduction_[task[1] < 0])
    assert clf.objective_.shape == (4, 4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_ctrl_c_before_anything_is_complete_interrupts(task, solver):
    clf = of_paper(solver=solver, callback=press_ctrl_c_in(stage=1))
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*task)
    with pytest.raises(NotFittedError):
        clf.predict(task[0])


def test_ctrl_c_with_an_estimated_prior(task):
    clf = of_paper(solver="primal", prior="estimate", callback=press_ctrl_c_in(stage=5))
    with pytest.warns(InterruptedFitWarning, match="usable"):
        clf.fit(*task)
    assert clf.objective_.shape == (4, 4)
    assert clf.predict(task[0]).shape == (1_200,)


def test_an_interrupted_fit_can_be_repeated(task):
    clf = of_paper(solver="primal", callback=press_ctrl_c_in(stage=5))
    with pytest.warns(InterruptedFitWarning):
        clf.fit(*task)
    clf.set_params(callback=None).fit(*task)
    whole = of_paper(solver="primal").fit(*task)
    assert_array_equal(clf.planes_, whole.planes_)
