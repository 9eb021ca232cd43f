"""The published algorithm, and plain projected gradient descent with its stopping rule.

Source: Abo-Khamis, Im, Moseley, Pruhs & Samadian (APOCS 2021), sections 1 and 3.3, with F as in its eq. (3). Where the
paper contradicts itself: the ridge's gradient is 2 alpha beta (eq. 4), not alpha beta; both of its step sizes are
offered; Theorem 1's T needs the factor 4 that 4DG = 8 d^(3/2)/alpha gives; the final hypothesis is beta^(t-hat)
itself; all iterates 0..T-1 take part. docs/relational/paper.md lists these in full.
"""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.margins import hinge
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.optimum.certified import Climber, PlanePool
from buttress.solvers.gradient.sent import projected_descent
from buttress.solvers.run import Step, Steps


def ball_radius(alpha: float, d: int) -> float:
    """Return sqrt(d) / (2 alpha), which holds the optimum when features lie in [-1, 1]."""
    return float(np.sqrt(d) / (2 * alpha))


def step_size(alpha: float, d: int, rule: str) -> Callable[[int], float]:
    """Return eta_t: "theorem" 1/(8 alpha sqrt(d t)) (Theorems 1, 15) or "section" 1/(alpha sqrt(d t)) (3.3)."""
    factor = {"theorem": 8.0, "section": 1.0}[rule]
    return lambda t: 1 / (factor * alpha * np.sqrt(d * t))


def pseudo_gradient_descent(oracle: RankOracle, alpha: float, rule: str, pool: PlanePool | None = None) -> Steps:
    """Yield the iterates; the objective of a step is F-hat, so the run's best state is the paper's final hypothesis.

    ``oracle`` counts far points (guard = the paper's epsilon), rounding scores up (mean=False). Far points are
    rows of the join, so each step's counts make a valid plane, which is added to ``pool``.
    """
    d = oracle.plan.width
    iterates = projected_descent(np.zeros(d), ball_radius(alpha, d), step_size(alpha, d, rule))
    _, beta = next(iterates)
    while True:
        seen = oracle(beta, hinge())
        if pool is not None:
            pool.add(seen.a, seen.b)
        ridge = alpha * float(beta @ beta)
        yield Step(beta, objective=seen.smooth + ridge)
        _, beta = iterates.send(2 * alpha * beta - seen.b)


def averaged_descent(climb: Climber, rule: str) -> Steps:
    """Yield the averages of the iterates of projected gradient descent with Theorem 1's stopping rule.

    The gap of a step is 8 d^(3/2) / (alpha F(average) sqrt(t)): at most tol, F(average) <= (1 + tol) F*.
    The state is the climber's Certificate, whose interval is the other, sharper measure.
    """
    width = climb.pool.B.shape[1]
    alpha = climb.alpha
    iterates = projected_descent(np.zeros(width), ball_radius(alpha, width), step_size(alpha, width, rule))
    t, beta = next(iterates)
    total: Array = np.zeros(width)
    while True:
        seen, _ = climb.visit(beta, 0.0)
        total = total + beta
        average = total / (t + 1)
        at, step = climb.visit(average, 0.0)
        F = at.lower + alpha * float(average @ average)
        rest = 8 * width**1.5 / (alpha * F * np.sqrt(t + 1)) if F > 0 else np.inf
        yield Step(step.state, gap=rest, objective=step.objective)
        t, beta = iterates.send(2 * alpha * beta - seen.b)
