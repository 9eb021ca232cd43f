"""Rows left out of an exact machine: what it keeps to score each as the fit without it would, and C and gamma by that.

Errors of a few hundred rows come in steps of one row, and the least of 35 counts is often luck. So what is compared is
the probability of an error, mean over the rows left out: p_i = 1 / (1 + exp(lead of the right class over its strongest
rival)), in the log odds of the model's own calibration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit

from buttress._checks import Array
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse, Mask, Rows
from buttress.certainty.calibration import Calibration, HeldOut, calibrate
from buttress.certainty.left_out import squared_spans
from buttress.gram.entries import entries
from buttress.kernels import Kernel
from buttress.solvers.qp.program import Start
from buttress.solvers.qp.solve import SVMSolution
from buttress.solvers.run import SharedBudget

# of one problem: its rows among those solved on, its solution, and the bounds of its coefficients
Solved = tuple[Rows, SVMSolution, Array]


@dataclass
class LeftOut:
    """Training scores of every problem, and what each changes by without its row; once asked they are those left out.

    Parameters
    ----------
    scores : array of shape (n, k)
        f(x_i) + b in each problem, NaN where the row has no part in it.
    codes, weight : arrays of shape (n,)
        Class numbers (of a regressor zeros) and row weights.
    support : array of shape (s,)
        Numbers of the rows with a coefficient in some problem.
    coef, free : arrays of shape (s, k)
        Their coefficients, those of equal rows summed at the first, and which of these are on no bound.
    first : array of shape (n,)
        Of each row the place in ``support`` of the first row equal to it in x and y, -1 where none has a coefficient.
    spans : array of shape (s, k) or None
        Squared distances S_i^2 where they are known already.
    """

    _state = State(
        Attribute("scores", "real", "n_rows, n_scores"),
        Attribute("codes", "index", "n_rows", below="n_rows"),
        Attribute("weight", "nonnegative", "n_rows"),
        Attribute("support", "index", "n_support", below="n_rows"),
        Attribute("coef", "finite", "n_support, n_scores"),
        Attribute("free", "bool", "n_support, n_scores"),
        Attribute("first", "integer", "n_rows", low=-1, below="n_support"),
        Attribute("spans", "real", "n_support, n_scores or none"),
        Attribute("done", "bool"))

    scores: Array
    codes: Rows
    weight: Array
    support: Rows
    coef: Array
    free: Mask
    first: Rows
    spans: Array | None = None
    done: bool = False

    def decision(self, kernel: Kernel, support: DenseOrSparse) -> Array:
        """Return the scores of each row left out with its equals, (n, k); ``support`` are the rows of that number."""
        if not self.done:
            if self.spans is None:
                self.spans = spans(kernel, support, self.coef, self.free)
            change = np.vstack([-self.coef * self.spans, np.zeros((1, self.coef.shape[1]))])
            self.scores = self.scores + change[self.first]
            self.done = True
        return self.scores


def spans(kernel: Kernel, X: DenseOrSparse, coef: Array, free: Mask) -> Array:
    """Return S_i^2 of the support vectors X (s, d) in each problem, (s, k), 0 where the coefficient is."""
    out = np.zeros(coef.shape)
    diagonal = kernel.diagonal(X).astype(np.float64)
    take = entries(kernel, X, np.float64)
    for column in range(coef.shape[1]):
        index = np.flatnonzero(coef[:, column])
        out[index, column] = squared_spans(partial(_numbered, take, index), diagonal[index], free[index, column])
    return out


def _numbered(take: Callable[[Rows, Rows], Array], index: Rows, i: Rows, j: Rows) -> Array:
    """Return the entries of the rows index[i] with index[j]."""
    return take(index[i], index[j])


def left_out(n: int, used: Rows, known: tuple[Rows, Array], groups: Rows | None, problems: Sequence[Solved]) -> LeftOut:
    """Return what is kept of n rows, for the numbers of those solved on, their codes and weights, and their problems.
    """
    codes, weight = np.zeros(n, dtype=np.intp), np.zeros(n)
    codes[used], weight[used] = known
    scores = np.full((n, len(problems)), np.nan)
    coef = np.zeros((n, len(problems)))
    on_bound = np.zeros((n, len(problems)), dtype=bool)
    for column, (index, solution, bound) in enumerate(problems):
        rows = used[index]
        scores[rows, column] = solution.proof.product.f + solution.proof.intercept
        coef[rows, column] = solution.b
        on_bound[rows, column] = np.abs(solution.b) >= bound
    lead, coef, free = _first_of_equals(groups, coef, on_bound | (weight == 0)[:, None])
    support = np.flatnonzero(coef.any(axis=1))
    place = np.full(n, -1)
    place[support] = np.arange(len(support))
    return LeftOut(scores, codes, weight, support, coef[support], free[support], place[lead])


def _first_of_equals(groups: Rows | None, coef: Array, on_bound: Mask) -> tuple[Rows, Array, Mask]:
    """Return for each row the first of its equals with a coefficient, and what that one holds for all of them.

    These are the sums (n, k) of the coefficients, and whether one of them is on no bound.
    """
    if groups is None:
        return np.arange(len(coef)), coef, coef.astype(bool) & ~on_bound
    lead = np.arange(len(coef))
    summed = np.zeros_like(coef)
    loose: Mask = np.zeros(coef.shape, dtype=bool)
    holding = np.flatnonzero(coef.any(axis=1))
    firsts = np.full(groups.max() + 1, -1)
    firsts[groups[holding[::-1]]] = holding[::-1]  # of a number assigned twice the last one stays
    first = firsts[groups]
    held = np.flatnonzero(first >= 0)
    lead[held] = first[held]
    np.add.at(summed, lead[held], coef[held])
    np.logical_or.at(loose, lead[held], ~on_bound[held])
    return lead, summed, (summed != 0) & loose


LOO = "loo"  # the value of C and gamma that asks for a choice
CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0)  # tried for C="loo", half a decade apart
GAMMAS = (0.03, 0.1, 0.316, 1.0, 3.16)  # times gamma="scale", tried for gamma="loo"


def left_out_error(held: HeldOut) -> float:
    """Return the weighted share of the rows whose class does not win every comparison when they are left out."""
    plain = Calibration(np.ones(1), np.zeros(1), held.n_classes, held.pairs, 0.0)
    own, weight = plain.own_leads(held)
    return float(np.average(~(own > 0), weights=weight))


def left_out_risk(held: HeldOut) -> float:
    """Return the mean probability, by the calibration of these scores, that a row left out is not of its class."""
    own, weight = calibrate(held).own_leads(held)
    return float(np.average(expit(-own), weights=weight))


def walk(value: Callable[[int], float], start: int, many: int, budget: SharedBudget) -> tuple[int, float]:
    """Return a place of 0, ..., many - 1 and its value: upwards from ``start`` while it falls, else downwards."""
    best = start
    least = value(start)
    for step in (1, -1):
        place = best + step
        while 0 <= place < many and not budget.stop_if_spent():
            found = value(place)
            if not found < least:
                break
            best = place
            least = found
            place += step
        if best != start:
            break
    return best, least


def scaled(solution: SVMSolution, most: float) -> Start:
    """Return the coefficients times the best factor s up to ``most``: the one that maximises s sum|b| - s^2/2 b'Kb."""
    total = float(np.abs(solution.b).sum())
    quadratic = 2 * (total - solution.proof.dual)
    best = min(total / quadratic, most) if quadratic > 0 else min(1.0, most)
    known = solution.proof.product
    return Start(best * solution.b, None if solution.stored is None else best * solution.stored,
                 replace(known, f=best * known.f, errors=best * known.errors))
