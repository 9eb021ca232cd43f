"""From a plan to certified coefficients, free of estimators; also by the published algorithm.

Beside the certified solver stands the published algorithm.
Source: Abo-Khamis, Im, Moseley, Pruhs & Samadian (APOCS 2021), sections 1 and 3.3, with F as in its eq. (3). Where the
paper contradicts itself: the ridge's gradient is 2 alpha beta (eq. 4), not alpha beta; both of its step sizes are
offered; the final hypothesis is beta^(t-hat) itself; all iterates 0..T-1 take part. docs/relational/paper.md lists
these in full.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.optimum.certified import Climber, PlanePool, certified_steps, certify
from buttress.relational.parameters import Parameters
from buttress.relational.plan.plan import Plan
from buttress.relational.sources.deadline import seconds_left
from buttress.solvers.gradient.sent import projected_descent
from buttress.solvers.run import Outcome, Step, Steps, run


def ball_radius(alpha: float, d: int) -> float:
    """Return sqrt(d) / (2 alpha), which holds the optimum when features lie in [-1, 1]."""
    return float(np.sqrt(d) / (2 * alpha))


def step_size(alpha: float, d: int, rule: str) -> Callable[[int], float]:
    """Return eta_t: "theorem" 1/(8 alpha sqrt(d t)) (Theorems 1, 15) or "section" 1/(alpha sqrt(d t)) (3.3)."""
    factor = {"theorem": 8.0, "section": 1.0}[rule]
    return lambda t: 1 / (factor * alpha * np.sqrt(d * t))


def pseudo_gradient_descent(oracle: RankOracle, alpha: float, rule: str, pool: PlanePool | None = None) -> Steps:
    """Yield the iterates; the objective of a step is F-hat, so the run's best state is the paper's final hypothesis.

    ``oracle`` counts far points (guard = the paper's epsilon), rounding scores up. Far points are rows of the join, so
    each step's counts make a valid plane, which is added to ``pool``.
    """
    d = oracle.plan.width
    iterates = projected_descent(np.zeros(d), ball_radius(alpha, d), step_size(alpha, d, rule))
    _, beta = next(iterates)
    while True:
        seen = oracle(beta)
        if pool is not None:
            pool.add(seen.a, seen.b)
        ridge = alpha * float(beta @ beta)
        yield Step(beta, objective=seen.smooth + ridge)
        _, beta = iterates.send(2 * alpha * beta - seen.b)


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


def solve(oracle: MarginOracle, plan: Plan, pool: PlanePool, model: Parameters, alpha: float,
          start: Callable[[], Array], callback: Callable[[Any], bool | None] | None) -> Outcome:
    """Return the outcome of one run; its state is a Certificate."""
    climb = Climber(oracle, model.loss, alpha, pool, model.tol)
    seconds = seconds_left()
    limited = partial(run, max_time=model.max_time if seconds is None else seconds, progress=model.progress,
                      callback=callback, name="RelationalLinearSVC")
    if len(pool):
        climb.best = replace(climb.best, low=max(pool.bound(alpha)[0], 0.0))
    if model.solver == "paper":
        far = RankOracle(plan, error=model.sketch_error, guard=model.sketch_error)
        descent = pseudo_gradient_descent(far, alpha, model.step_rule, climb.pool)
        steps = 500 if model.max_iter is None else model.max_iter  # it has no stopping rule of its own
        outcome = limited(descent, tol=-1.0, warn=False, max_iter=steps)
        run(certify(climb, outcome.state), tol=model.tol, warn=False)  # the hypothesis, on the grid
        return replace(outcome, state=climb.best, gap=climb.best.gap, objective=climb.best.high)
    found = certified_steps(climb, start(), model.solver)
    return limited(found, tol=model.tol, warn=model.solver != "sample", max_iter=model.max_iter)
