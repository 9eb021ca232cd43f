"""From a plan to certified coefficients: the parts a fit is made of, free of estimators."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.random import RandomState
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from buttress._checks import Array
from buttress.certainty.calibration import HeldOut
from buttress.checkpoints.journal import kept
from buttress.checkpoints.memory import Memory, rng_state, set_rng_state
from buttress.relational.counting.margins import MarginOracle, SamplingOracle
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.optimum.certified import Climber, certified_steps, certify
from buttress.relational.optimum.paper import averaged_descent, pseudo_gradient_descent
from buttress.relational.optimum.planes import PlanePool
from buttress.relational.plan.plan import Plan
from buttress.relational.plan.rows import draw, scaled_design, unrank
from buttress.solvers.run import Outcome, run

# The fit to the sample is only where the certified solver starts, so it need not converge.
START_ROUNDS_LOGISTIC = 500  # L-BFGS iterations of scikit-learn's LogisticRegression
START_ROUNDS_HINGE = 100  # passes of scikit-learn's LinearSVC over the sample
CALIBRATION_ROWS = 10_000  # rows drawn to calibrate probabilities, whose curve has two numbers
PAPER_STEPS = 500  # steps of the published algorithm where max_iter is None, since it has no stopping rule of its own


@dataclass(frozen=True)
class Settings:
    """How to solve: see RelationalLinearSVC."""

    alpha: float
    loss: str
    tol: float
    solver: str
    n_samples: int
    sketch_error: float
    step_rule: str
    max_iter: int | None
    max_time: float | None
    progress: bool
    callback: Callable[[Any], bool | None] | None = None


def sample_start(plan: Plan, oracle: MarginOracle | SamplingOracle, settings: Settings, rng: RandomState) -> Array:
    """Return the optimum of the same objective on a sample of rows (on all of them when they are few)."""
    if plan.nodes:
        X, y, weight = draw_sample(plan, settings.n_samples, rng)
    else:  # the rows are in a database
        X, y, weight = cast(SamplingOracle, oracle).sample(settings.n_samples)
    if len(np.unique(y)) < 2:
        return np.zeros(plan.width)
    C = 1 / (2 * settings.alpha * weight.sum())
    if settings.loss == "logistic":
        model: Any = LogisticRegression(C=C, fit_intercept=False, tol=1e-6, max_iter=START_ROUNDS_LOGISTIC)
    else:
        model = LinearSVC(loss=settings.loss, C=C, fit_intercept=False, tol=1e-3, max_iter=START_ROUNDS_HINGE,
                          random_state=int(rng.randint(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is only where the certified solver starts
        return model.fit(X, y, sample_weight=weight).coef_[0]


def kept_start(plan: Plan, oracle: MarginOracle | SamplingOracle, settings: Settings, rng: RandomState) -> Array:
    """Return :func:`sample_start`, or what the checkpoint of the fit keeps of it; ``rng`` is left as it leaves it."""

    def computed() -> Memory:
        start = sample_start(plan, oracle, settings, rng)
        return {"start": start, "rng": rng_state(rng)}

    found = kept(["start", settings.alpha, settings.n_samples], computed)
    set_rng_state(rng, found["rng"])
    start: Array = found["start"]
    return start


def sampled_scores(
    plan: Plan, oracle: MarginOracle | SamplingOracle, beta: Array, rng: RandomState
) -> tuple[HeldOut, Array]:
    """Return the scores of rows drawn from the join, to calibrate by: they are many beside the coefficients.

    Returns the standard deviation of each scaled feature over these rows too, shape (plan.width,).
    """
    if plan.nodes:
        X, y, weight = draw_sample(plan, CALIBRATION_ROWS, rng)
    else:
        X, y, weight = cast(SamplingOracle, oracle).sample(CALIBRATION_ROWS)
    mean = weight @ X / weight.sum()
    spread: Array = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    return HeldOut((X @ beta)[:, None], (y > 0).astype(np.intp), weight * (len(weight) / weight.sum()), 2), spread


def draw_sample(plan: Plan, n: int, rng: RandomState) -> tuple[Array, Array, Array]:
    """Return scaled features, labels -1/+1 and weights of n rows, or of all of them when they are no more.

    Rows are drawn in proportion to their weight, which makes the sample's mean the weighted mean.
    """
    if plan.n_rows <= n:
        rows = unrank(plan, np.arange(plan.n_rows))
        weight = np.ones(plan.n_rows)
        for value, row in zip(plan.weights(), rows):
            weight = weight * value[row]
        keep = weight > 0
        rows = [row[keep] for row in rows]
        weight = weight[keep]
    else:
        weighted = any((value != 1).any() for value in plan.weights())
        rows = draw(plan, n, rng, weighted=weighted)
        weight = np.ones(n)
    return scaled_design(plan, rows), plan.y[rows[0]], weight


def solve(
    oracle: MarginOracle, pool: PlanePool, settings: Settings, start: Callable[[], Array], plan: Plan | None
) -> Outcome:
    """Return the outcome of one run; its state is a Certificate."""
    climb = Climber(oracle, settings.loss, settings.alpha, pool, settings.tol)
    limited = partial(run, max_time=settings.max_time, progress=settings.progress, callback=settings.callback,
                      name="RelationalLinearSVC")
    if len(pool):
        climb.best = replace(climb.best, low=max(pool.bound(settings.alpha)[0], 0.0))
    if settings.solver == "paper":
        assert plan is not None
        far = RankOracle(plan, error=settings.sketch_error, guard=settings.sketch_error, mean=False)
        descent = pseudo_gradient_descent(far, settings.alpha, settings.step_rule, climb.pool)
        steps = PAPER_STEPS if settings.max_iter is None else settings.max_iter
        outcome = limited(descent, tol=-1.0, warn=False, max_iter=steps)
        run(certify(climb, outcome.state), tol=settings.tol, warn=False)  # the hypothesis, on the grid
        return replace(outcome, state=climb.best, gap=climb.best.gap, objective=climb.best.high)
    if settings.solver == "projected":
        found = averaged_descent(climb, settings.step_rule)
    else:
        found = certified_steps(climb, start(), settings.solver)
    return limited(found, tol=settings.tol, warn=settings.solver not in ("sample", "lbfgs"),
                   max_iter=settings.max_iter)
