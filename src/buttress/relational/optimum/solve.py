"""From an oracle to certified coefficients, free of estimators."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from buttress._checks import Array
from buttress.certainty.calibration import HeldOut
from buttress.checkpoints.journal import Memory, current_journal, kept, rng_state, set_rng_state
from buttress.relational.counting.margins import MarginOracle, margin_loss
from buttress.relational.optimum.certified import Climber, PlanePool, certified_steps
from buttress.relational.parameters import Parameters
from buttress.relational.plan.plan import Plan
from buttress.relational.sources.deadline import seconds_left
from buttress.solvers.run import Outcome, run

SAME = 1e-9  # how far sums over the same rows may differ where a database adds them in another order


def sample_start(oracle: MarginOracle, model: Parameters, alpha: float, rng: RandomState) -> Array:
    """Return the optimum of the same objective on a sample of rows (on all of them when they are few)."""
    X, y, weight = oracle.sample(model.n_samples, rng)
    if len(np.unique(y)) < 2:
        return np.zeros(X.shape[1])
    C = 1 / (2 * alpha * weight.sum())
    if model.loss == "logistic":
        fitted: Any = LogisticRegression(C=C, fit_intercept=False, tol=1e-6, max_iter=1000)
    else:
        fitted = LinearSVC(loss=model.loss, C=C, fit_intercept=False, tol=1e-3, max_iter=100,
                           random_state=int(rng.randint(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the certified solver only starts there
        return fitted.fit(X, y, sample_weight=weight).coef_.ravel()


def check_same_rows(oracle: MarginOracle, plan: Plan) -> None:
    """Refuse a checkpoint of other rows: the plan tells those in memory apart, and one count those elsewhere.

    It is of the logistic loss, where every row has a slope, at coefficients drawn once: the change of any row shows.
    """
    kept(plan, dict)
    if current_journal() is None or plan.nodes:
        return
    beta = np.random.RandomState(0).normal(size=plan.width)
    seen = oracle(beta, margin_loss("logistic")).b
    before = kept("rows", lambda: {"sums": seen})["sums"]
    if not np.allclose(before, seen, rtol=SAME, atol=SAME):
        raise ValueError("The rows of the join are not those of the checkpoint: sums over them differ. Use "
                         "resume=False to start anew.")


def kept_start(oracle: MarginOracle, model: Parameters, alpha: float, rng: RandomState) -> Array:
    """Return :func:`sample_start`, or what the checkpoint of the fit keeps of it; ``rng`` is left as it leaves it."""

    def computed() -> Memory:
        start = sample_start(oracle, model, alpha, rng)
        return {"start": start, "rng": rng_state(rng)}

    found = kept(["start", alpha, model.n_samples], computed)
    set_rng_state(rng, found["rng"])
    return found["start"]


def sampled_scores(oracle: MarginOracle, beta: Array, rng: RandomState) -> tuple[HeldOut, Array]:
    """Return the scores of rows drawn from the join, to calibrate by: they are many beside the coefficients.

    Returns the standard deviation of each scaled feature over these rows too, shape (width,).
    """
    X, y, weight = oracle.sample(10_000, rng)  # the curve of probabilities has two numbers
    mean = weight @ X / weight.sum()
    spread: Array = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    return HeldOut((X @ beta)[:, None], (y > 0).astype(np.intp), weight * (len(weight) / weight.sum()), 2), spread


def solve(oracle: MarginOracle, pool: PlanePool, model: Parameters, alpha: float, start: Callable[[], Array],
          callback: Callable[[Any], bool | None] | None) -> Outcome:
    """Return the outcome of one run; its state is a CertifiedPoint."""
    climb = Climber(oracle, model.loss, alpha, pool, model.tol)
    if len(pool):
        climb.best = replace(climb.best, low=max(pool.bound(alpha)[0], 0.0))
    seconds = seconds_left()
    return run(certified_steps(climb, start(), model.solver), tol=model.tol, warn=model.solver != "sample",
               max_iter=model.max_iter, max_time=model.max_time if seconds is None else seconds,
               progress=model.progress, callback=callback, name="RelationalLinearSVC")
