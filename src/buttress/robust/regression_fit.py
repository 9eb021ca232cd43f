"""From a search on coarse features to a mixture of good and corrupt rows, by expectation and maximisation.

The search concentrates from several starts; the mixture is fitted to all rows from where it ends, at one ridge after
another. y (n,) is centred and of spread 1 throughout.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress.robust.design import Design
from buttress.solvers.contamination.residual_law import ENOUGH, Mixed, learned, mixture
from buttress.solvers.contamination.trimmed import concentrate, lts_scale, smallest
from buttress.solvers.ridge.leave_one_out import Fit
from buttress.solvers.run import Budget

ALPHAS = np.geomspace(1e-2, 1e2, 12)  # in units of k(x, x)
NU = 8.0  # degrees of freedom of good residuals
NU_OF_MANY = 3.0  # and of what landmarks cannot follow
ROUNDS = 1  # of the law of the residuals between two fits: more, and it settles before the fit has had its say
ROUNDS_OF_MANY = 6  # where a fit is dear
SETTLED = 0.1  # change of the log likelihood per row at which it is: less is no reason to suspect anything either
JUDGES = 10_000  # rows that choose the ridge where rows are many


def mixed_of_few(
    design: Design, y: Array, start: Mixed, *, share: float | None, floor: float, alpha: Any, max_iter: int,
    budget: Budget
) -> tuple[Mixed, float, int]:
    """Fit the mixture on all rows from the rows found, then again at the ridge that is best for the rows it kept.

    Returns the mixture, the ridge of the last fit and the number of iterations.
    """
    law: dict[str, Any] = {"nu": NU, "share": share, "floor": floor, "rounds": rounds_of(design), "max_iter": max_iter,
                           "budget": budget}
    first = design.unit if alpha == "auto" else alpha
    state, n_iter = mixed_at(design, y, start.inlier, first, first, **law), 0
    if alpha == "auto" and not budget.spent():
        n_iter, first = state.n_iter, _best_alpha(design, y, state)
        fit = design.ridge.solve(y, state.inlier, first)
        state = mixture(design.ridge, y, fit.loo, fit.spread, alpha=first, **law)
        first = _best_alpha(design, y, state)
    return state, first, n_iter + state.n_iter


def mixed_of_many(
    design: Design, y: Array, start: Mixed, *, share: float | None, floor: float, alpha: Any, max_iter: int,
    budget: Budget
) -> tuple[Mixed, float, int]:
    """Fit the mixture on many rows a landmark at the steady ridge, then once nearer to the best ridge of the rows kept.

    What is left of good rows is then not noise but what the landmarks cannot follow: it has heavier tails, and it is
    alike over whole corners of X. With a small ridge a few rows dropped in a corner loosen the fit there, so that the
    rows beside them are dropped next; and what is small grows with the rows. The steady ridge, a twentieth of the mean
    eigenvalue of the Gram matrix, holds the corners but hides bad rows near the curve. So rows are judged once more at
    the mean (geometric) of it and the best ridge, and the best is only fitted to those kept.
    """
    ridge, part = design.ridge, drawn_rows(len(y), ENOUGH)
    law: dict[str, Any] = {"share": share, "floor": floor}
    state = mixed_at(design, y, start.inlier, design.unit, design.steady, nu=NU_OF_MANY, rounds=ROUNDS_OF_MANY,
                      max_iter=max_iter, tol=SETTLED, budget=budget, **law)
    best = alpha
    if alpha == "auto":
        best = design.unit if budget.spent() else best_alpha_of_many(design, y, state.inlier)
    fit, missed = ridge.solve(y, state.inlier, float(np.sqrt(best * design.steady))), ridge.missed[part]
    found = learned(state.law, fit.loo[part], fit.spread[part], missed, rounds=ROUNDS_OF_MANY, **law)
    inlier, total = found.inlier_probability(fit.loo, found.spread(fit.spread, ridge.missed))
    fit = ridge.solve(y, inlier, best)
    found = found.refitted(fit.loo[part], fit.spread[part], inlier[part], missed=missed, **law)
    return Mixed(fit, found, inlier, total / len(y), state.n_iter + 1), best, state.n_iter + 1


def mixed_at(design: Design, y: Array, inlier: Array, first: float, alpha: float, **law: Any) -> Mixed:
    """Fit the mixture at ridge ``alpha`` from the probabilities of the searched rows, fitted at ridge ``first``."""
    weights = np.zeros(len(y))
    weights[design.searched] = inlier
    fit = design.ridge.solve(y, weights, first)
    return mixture(design.ridge, y, fit.loo, fit.spread, alpha=alpha, **law)


def best_alpha_of_many(design: Design, y: Array, inlier: Array) -> float:
    """Return the ridge of least squared leave-one-out error of the good rows, on at most 10,000 rows.

    No error is bounded: the good rows of a corner where others were dropped are the only ones to speak for a ridge that
    holds the fit there. The error mostly falls, then rises with the ridge: no more are tried once it does.
    """
    rows = np.arange(len(y))[drawn_rows(len(y), JUDGES)]
    alphas, least, best = ALPHAS[::2] * design.unit, np.inf, 0
    for k, fit in enumerate(design.ridge.path(y, inlier, alphas, rows)):
        error = float(inlier[rows] @ fit.loo**2)
        if error > least:
            break
        least, best = error, k
    return float(alphas[best])


def _best_alpha(design: Design, y: Array, state: Mixed) -> float:
    """Return the ridge of least bounded leave-one-out error of the good rows, their weights held fixed.

    Weights that followed the ridge would let each ridge choose the rows it likes.
    """
    rows, ridge, law = design.searched, design.ridge, state.law
    fits = ridge.path(y, state.inlier, ALPHAS * design.unit, rows)
    missed = None if ridge.missed is None else ridge.missed[rows]
    errors = [float(state.inlier[rows] @ np.minimum(np.abs(fit.loo), 4 * law.scale * law.spread(fit.spread, missed))**2)
              for fit in fits]
    return float(ALPHAS[np.argmin(errors)] * design.unit)


def search(
    design: Design, y: Array, *, share: float | None, floor: float, n_starts: int, rng: Any, budget: Budget
) -> tuple[Mixed, NDArray[np.bool_]]:
    """Concentrate from several starts on coarse features; of the three best, return the likeliest mixture.

    Starts: all rows, the rows nearest the centre, the rows a trimmed fit from there keeps, and random tenths. The
    second array, (starts, n), says which rows each start took as good.
    """
    n, ridge = len(y), design.coarse
    h = max(int(0.55 * n), min(n, 2))
    starts = [np.ones(n), smallest(np.abs(y), h), smallest(np.abs(y), max(n // 4, 1))]
    for _ in range(n_starts):
        part = np.zeros(n)
        part[rng.permutation(n)[: min(n, max(n // 10, 5))]] = 1
        starts.append(part)
    ends = []
    for k, u in enumerate(starts):
        if k > 2 and budget.spent():
            break
        alpha = design.unit * (10.0 if k == 0 else 1.0)
        steps = concentrate(ridge, y, u, alpha=alpha, h=h, leave_out=True)
        ends.append(budget.run(steps, max_iter=10, progress=False))
    votes = np.array([_kept(end.state[0], floor) for end in ends])
    best = sorted(ends, key=lambda end: end.objective)[:3]
    states = [mixture(ridge, y, end.state[0].loo, end.state[0].spread, alpha=design.unit, max_iter=12, nu=NU,
                      share=share, floor=floor, rounds=rounds_of(design), budget=Budget()) for end in best]
    return max(states, key=lambda state: state.likelihood), votes


def rounds_of(design: Design) -> int:
    return ROUNDS if design.exact else ROUNDS_OF_MANY


def _kept(fit: Fit, floor: float) -> NDArray[np.bool_]:
    sigma = np.abs(fit.loo / fit.spread)
    return sigma <= 2.5 * max(lts_scale(sigma, len(sigma) // 2 + 1), floor)
