"""The loop, driven by small generators whose every state is known."""

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialSVC, InterruptedWarning, KernelRegressor, NotConvergedWarning
from buttress.attacks import pgd
from buttress.solvers.run import Step, run

POINTS = np.random.default_rng(0).normal(size=(30, 2))
PIXELS = np.rint(255 * abs(POINTS) / abs(POINTS).max())
SIGNS = np.where(POINTS[:, 0] > 0, 1, -1)


def numbers(gaps, objectives=None, log=None):
    """Yield states 0, 1, ... with the given gaps; note in ``log`` when closed."""
    objectives = gaps if objectives is None else objectives
    try:
        for k, (gap, objective) in enumerate(zip(gaps, objectives)):
            yield Step(k, gap=gap, objective=objective)
    finally:
        if log is not None:
            log.append("closed")


def halving():
    return numbers([2.0**-k for k in range(60)])


def test_it_stops_at_the_first_gap_within_the_tolerance_and_closes_the_algorithm():
    log = []
    outcome = run(numbers([3.0, 1.0, 0.5, 0.1], log=log), tol=0.5)
    assert (outcome.state, outcome.gap, outcome.n_iter, outcome.status) == (2, 0.5, 2, "converged")
    assert outcome.converged
    assert log == ["closed"]
    assert [row["n_iter"] for row in outcome.history] == [0, 1, 2]
    assert [row["gap"] for row in outcome.history] == [3.0, 1.0, 0.5]
    seconds = [row["seconds"] for row in outcome.history]
    assert seconds == sorted(seconds)


def test_a_converged_run_ends_with_its_last_state_though_an_earlier_one_was_lower():
    outcome = run(numbers([3.0, 2.0, 0.0], [5.0, 1.0, 4.0]), tol=0.1)
    assert (outcome.state, outcome.objective) == (2, 4.0)


def test_a_run_out_of_iterations_warns_and_ends_with_the_lowest_state():
    steps = numbers([3.0, 2.0, 1.5, 1.2, 1.0], [5.0, 1.0, 4.0, 2.0, 0.0])
    message = r"descent stopped at max_iter after 3 iterations with gap 2 > tol 0\.1"
    with pytest.warns(NotConvergedWarning, match=message):
        outcome = run(steps, tol=0.1, max_iter=3, name="descent")
    assert (outcome.state, outcome.gap, outcome.objective, outcome.status) == (1, 2.0, 1.0, "max_iter")
    assert not outcome.converged


def test_minus_one_is_no_limit_of_iterations():
    outcome = run(halving(), tol=2.0**-50, max_iter=None)
    assert (outcome.n_iter, outcome.status) == (50, "converged")


def test_steps_may_count_for_many_iterations_the_first_for_none():
    steps = (Step(k, gap=1.0, objective=0.0, iterations=10) for k in range(9))
    outcome = run(steps, max_iter=25, warn=False)
    assert outcome.n_iter == 30
    assert outcome.state == 3


def test_an_algorithm_that_ends_by_itself_is_exhausted_and_not_converged():
    outcome = run(numbers([3.0, 1.0], [1.0, 2.0]), tol=0.5)
    assert (outcome.status, outcome.state, outcome.converged) == ("exhausted", 0, False)


def test_a_time_limit_ends_the_run_between_steps():
    def slow():
        for k in itertools.count():
            yield Step(k, gap=1.0, objective=-k)
            time.sleep(0.02)

    with pytest.warns(NotConvergedWarning, match="max_time"):
        outcome = run(slow(), max_time=0.1)
    assert outcome.status == "max_time"
    assert outcome.state == outcome.n_iter >= 1


def test_a_callback_sees_every_step_and_its_true_answer_stops():
    seen = []

    def callback(step):
        seen.append(step.state)
        return step.state == 2

    outcome = run(halving(), callback=callback)
    assert seen == [0, 1, 2]
    assert (outcome.status, outcome.state) == ("stopped", 2)
    assert run(halving(), tol=0.1, callback=lambda step: None).status == "converged"


def test_ctrl_c_leaves_the_best_state_and_a_warning():
    def interrupted():
        yield Step("first", gap=1.0, objective=1.0)
        yield Step("second", gap=0.5, objective=2.0)
        raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="interrupted after 1 iterations; the model holds the best state"):
        outcome = run(interrupted())
    assert (outcome.state, outcome.status) == ("first", "interrupted")


@pytest.fixture
def heard():
    """SIGINT raises KeyboardInterrupt, also in a process that a shell put in the background, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_a_real_signal_is_the_same_and_before_the_first_step_it_passes_on():
    def waiting(first):
        if first:
            yield Step(0, gap=1.0, objective=1.0)
        time.sleep(10)
        yield Step(1, gap=1.0, objective=1.0)

    for first in (True, False):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        if first:
            with pytest.warns(InterruptedWarning):
                assert run(waiting(first)).state == 0
        else:
            with pytest.raises(KeyboardInterrupt):
                run(waiting(first))
        timer.join()


def test_an_error_of_the_algorithm_passes_through():
    def broken():
        yield Step(0, gap=1.0, objective=1.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(broken())


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_line_on_a_terminals_stderr_and_nothing_elsewhere(terminal, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    outcome = run(halving(), tol=1e-3, max_iter=100, progress=True, name="halving")
    captured = capsys.readouterr()
    assert outcome.converged
    assert captured.out == ""
    assert ("halving" in captured.err) == terminal


def test_a_nan_objective_never_replaces_a_state():
    outcome = run(numbers([1.0, 1.0, 1.0], [2.0, np.nan, 1.0]))
    assert outcome.state == 2
    assert run(numbers([1.0, 1.0], [2.0, np.nan])).state == 0


def test_a_warning_points_to_the_line_that_called_fit():
    model = make_pipeline(StandardScaler(), KernelRegressor(max_iter=1, tol=1e-12))
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.warns(NotConvergedWarning) as seen:
        model.fit(X, X[:, 0])
    assert {(warning.filename, warning.lineno) for warning in seen} == {(__file__, LINE_OF_FIT)}


@pytest.mark.parametrize(("call", "message"), [
    (lambda: SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(POINTS, SIGNS), "not positive definite"),
    (lambda: KernelRegressor(gamma=1e9, step="spectral").fit(POINTS, POINTS[:, 0]), "nothing to learn"),
    (lambda: pgd(SVC().fit(POINTS, SIGNS), 100 * POINTS, SIGNS, eps=0.5, bounds=(-1000, 1000)), "units of X"),
    (lambda: AdversarialSVC(eps=0.5, max_iter=1).fit(PIXELS, SIGNS), "whole numbers"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_warnings_from_below_point_here(call, message):
    with pytest.warns(UserWarning, match=message) as seen:
        call()
    assert {warning.filename for warning in seen} == {__file__}


LINE_OF_FIT = test_a_warning_points_to_the_line_that_called_fit.__code__.co_firstlineno + 4
