"""One linear machine, of two classes, by a solver of one's choice: the steps it takes and what they end with."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from buttress._checks import Array
from buttress._types import DenseOrSparse, Rows, is_csr
from buttress.solvers.linear.coordinates import coordinate_descent
from buttress.solvers.linear.newton import multiplier_newton
from buttress.solvers.linear.primal import LinearProblem, Rate, full_batch, gradient_descent
from buttress.solvers.linear.stochastic import blocks, merged, stochastic_descent
from buttress.solvers.run import Outcome, Steps

SOLVERS = ("auto", "newton", "dual", "gd", "sgd")
MANY = 1000  # sparse rows and columns: with more of both, systems of equations cost more than passes over the entries


class Hyperplane(NamedTuple):
    """A hyperplane w, b, proven bounds of both objectives, the multipliers if there are any, and how the run ended."""

    w: Array
    b: float
    primal: float
    dual: float
    multipliers: Array | None  # feasible: they prove the dual objective
    outcome: Outcome


class Course(NamedTuple):
    """The steps of a solver on a problem, and how many of them count as one iteration."""

    problem: LinearProblem
    steps: Steps
    each: int = 1


def chosen_solver(solver: str, X: DenseOrSparse) -> str:
    """Return the solver that "auto" stands for on these rows; others are themselves."""
    if solver != "auto":
        return solver
    return "dual" if is_csr(X) and min(X.shape) > MANY else "newton"


def course(
    solver: str, problem: LinearProblem, rate: Callable[[LinearProblem, Rows | None], Rate], *, average: bool,
    rng: np.random.RandomState, most: int | None = None,
) -> Course:
    """Return the steps of a solver by name, from w = 0; ``rate(problem, rows)`` gives lengths to those that need some.

    "sgd" is on a problem in which equal rows may be one. ``most`` is the number of iterations wanted.
    """
    if solver == "newton":
        return Course(problem, multiplier_newton(problem))
    if solver == "dual":
        return Course(problem, coordinate_descent(problem, most))
    if solver == "gd":
        lengths = rate(problem, None)
        start = np.zeros(problem.X.shape[1] + 1 + len(problem.y))
        return Course(problem, gradient_descent(full_batch(problem, lengths.intercept), start, lengths))
    problem, rows = merged(problem)
    steps = stochastic_descent(problem, rate(problem, rows), average=average, rng=rng, rows=rows)
    return Course(problem, steps, blocks(len(rows)))


def hyperplane(solver: str, problem: LinearProblem, state: Any) -> tuple[Array, float]:
    """Return w, b of a state; those of the solvers differ."""
    if solver in ("newton", "dual"):
        return state[0], float(state[1])
    d = problem.X.shape[1]
    return state[:d], float(state[d])


def machine_of(solver: str, problem: LinearProblem, outcome: Outcome) -> Hyperplane:
    """Return the hyperplane at which a run ended, with its objectives."""
    w, b = hyperplane(solver, problem, outcome.state)
    if solver in ("newton", "dual"):
        multipliers = outcome.state[3]
    else:
        multipliers = outcome.state[problem.X.shape[1] + 1 :] if solver == "gd" else None
    inside = None if multipliers is None else problem.feasible(multipliers)
    return Hyperplane(w, b, *problem.proven(w, b, inside), inside, outcome)
