"""Scores of rows left out of an adversarial fit, by one Newton step of its smoothed losses, once they are asked for.

At most SCORED rows are taken, drawn at random, and stand for all: to score a row takes as long as all centres, or all
random features, of f.
"""

from dataclasses import dataclass

import numpy as np

from buttress._arrays import NUMPY
from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress._types import Rows
from buttress.adversarial.machine import Problem
from buttress.certainty.calibration import HeldOut
from buttress.certainty.left_out import Slopes, hinge_slopes, kernel_features, left_over, leverages, one_step
from buttress.expansion import KernelExpansion, margins
from buttress.features import RandomExpansion
from buttress.solvers.gradient.worst_inputs import cross_entropy

SCORED = 2000  # rows whose scores tell how sure the machine is
LANDMARKS = 500  # rows that stand for all of them in the curvature, where the fit has no landmarks of its own


@dataclass(frozen=True)
class ScoredRows(Problem):
    """The part of a problem whose rows are scored, copied; ``row`` are their numbers among the ``given`` rows."""

    row: Rows
    given: int

    @classmethod
    def of(cls, problem: Problem) -> "ScoredRows":
        n = len(problem.X)
        _, first = np.unique(problem.codes, return_index=True)  # one row of each class is among them
        some = np.union1d(np.arange(n)[drawn_rows(n, SCORED)], first)
        part = {"X": problem.X[some], "codes": problem.codes[some], "report": None}
        return cls(**{**vars(problem), **part}, row=some, given=n)


@dataclass(frozen=True)
class Losses:
    """One score's losses at the rows scored, their ``weight`` in the sum of all, and the ridge of 1/2 ||f||^2."""

    slopes: Slopes
    weight: float
    ridge: float = 1.0


def cross_entropy_held_out(part: ScoredRows, expansion: KernelExpansion, C: float) -> HeldOut:
    """Return the left-out scores of a machine trained on moved inputs, its losses taken at the rows themselves."""
    scores = expansion(part.X)
    V = part.contrasts[part.codes]
    _, shares = cross_entropy(np.einsum("irk,ik->ir", V, scores))
    pull = np.einsum("ir,irk->ik", shares, V)
    curvature = np.einsum("ir,irk->ik", shares, V**2) - pull**2
    losses = [Losses(Slopes(-first, second), C) for first, second in zip(pull.T, curvature.T, strict=True)]
    return _held_out(part, scores, losses, *kernel_features(expansion.kernel, part.X, expansion.centers))


def hinge_held_out(part: ScoredRows, expansion: KernelExpansion, bounds: Array, middle: Array, C: float) -> HeldOut:
    """Return those of a machine trained on ``bounds`` (n,) of its leads.

    A row's hinge pulls its score and its rival's. The linear part has features of its own, from the ``middle`` (d,).
    Centres next to 0 stay there, as do columns that may move by as much each: the bounds have a kink at 0.
    """
    X = part.X
    scores = expansion(X)
    _, closest = margins(scores, part.codes, part.contrasts)
    hinge = hinge_slopes(np.ones(len(X)), 1 - bounds[part.row], np.full(len(X), C))
    losses = [Losses(Slopes(sign * hinge.first, sign**2 * hinge.second), C) for sign in closest.T]
    Z, _ = kernel_features(expansion.kernel, X, expansion.centers[_weighted(expansion.coef)])
    columns = X - middle
    if part.region.norm == "linf" and expansion.linear is not None:
        columns = columns[:, _weighted(expansion.linear)]
    return _held_out(part, scores, losses, np.hstack([Z, columns]), np.zeros(len(X)))


def _weighted(coef: Array) -> Rows:
    """Return the rows of coef (m, k) that are not next to 0."""
    largest = np.abs(coef).max(axis=1)
    # the descent leaves so much where 0 is best; on two sets drawn to choose it nothing depended on it from .001 to .03
    return np.flatnonzero(largest > 0.01 * largest.max())


def feature_ball_held_out(
    part: ScoredRows, landmarks: Array, expansion: KernelExpansion | RandomExpansion, C: float, radius: float,
    norm: Array, *, intercept: bool,
) -> HeldOut:
    """Return those of the machine against a ball in feature space, with the norms of f held fixed.

    Its hinges have the margin 1 + r ||f|| and C times their mean, and r sum_i C_i l_i' / ||f|| adds to the ridge.
    """
    X, n = part.X, part.given
    scores = _scores(expansion, X)
    losses = []
    for y, score, length in zip(part.signs.T, scores.T, norm, strict=True):
        weight = np.full(len(X), C / n)
        slopes = hinge_slopes(y, 1 + radius * length - y * score, weight)
        # f is 0 at the start of a fit, and no ridge is to be infinite
        added = radius / max(length, 1e-100) * float(weight @ np.abs(slopes.first)) * n / len(X)
        losses.append(Losses(slopes, C / n, 1 + added))
    return _held_out(part, scores, losses, *kernel_features(part.kernel, X, landmarks), intercept=intercept)


def _held_out(
    part: ScoredRows, scores: Array, losses: list[Losses], Z: Array, missed: Array, *, intercept: bool = True
) -> HeldOut:
    """Return the scores (n, k) of the rows moved by the leverages of their features, a loss a column."""
    out = np.empty_like(scores)
    for column, loss in enumerate(losses):
        weight = np.full(len(scores), loss.weight)
        curvature = weight * loss.slopes.second
        h = leverages(Z, curvature * part.given / len(scores), loss.ridge, intercept=intercept)
        h += left_over(missed, curvature, loss.ridge)
        out[:, column] = one_step(scores[:, column], loss.slopes, weight, h, None)
    return HeldOut(out, part.codes, np.ones(len(out)), len(part.contrasts), row=part.row, given=part.given)


def _scores(expansion: KernelExpansion | RandomExpansion, X: Array) -> Array:
    """Return the scores (n, k); of random features in single precision, as the fit takes them."""
    if isinstance(expansion, RandomExpansion):
        fresh = expansion.moved(NUMPY)  # so that the model keeps no features in single precision
        return np.asarray(fresh(X.astype(np.float32)), dtype=np.float64)
    return expansion(X)
