"""Scores of the rows of a linear machine under the fits without each of them, from the one fit."""

from dataclasses import replace

import numpy as np

from buttress._checks import Array
from buttress._types import Rows
from buttress.certainty.one_step import hinge_slopes, leverages, one_step, squared_hinge_slopes
from buttress.solvers.linear.primal import LinearProblem


def left_out_scores(
    problem: LinearProblem, w: Array, b: float, multipliers: Array | None, groups: Rows | None
) -> Array:
    """Return the scores (n,) of each row under the fit without it and its equals, by one Newton step.

    The hinge's ``multipliers`` (n,) are, where they are known, its slopes times C_i: a row that the margin rests on
    seldom has as much as C_i.
    """
    scores = np.asarray(problem.X @ w + b)
    u = 1 - problem.y * scores
    slopes = squared_hinge_slopes(problem.y, u) if problem.squared else hinge_slopes(problem.y, u, problem.bound)
    h = leverages(problem.X, problem.bound * slopes.second, 1.0, intercept=problem.intercept, groups=groups)
    if multipliers is not None and not problem.squared:
        pull = multipliers if groups is None else np.bincount(groups, multipliers)[groups]
        bound = problem.bound if groups is None else np.bincount(groups, problem.bound)[groups]
        slopes = replace(slopes, first=-problem.y * pull / bound)
    return one_step(scores, slopes, problem.bound, h, groups)
