"""Trimmed maximum likelihood of a generalised linear model: keep the rows that fit best, fit, repeat.

    S <- the h rows of S0 with the least -log f(y_i | x_i'beta),   beta <- argmin_{|beta| <= R} over S of their sum

Neither of the two steps raises the trimmed negative log-likelihood. To keep beta in the ball, a penalty mu |beta|^2 / 2
is added, with the mu whose minimiser has norm R.
Source: Awasthi, Das, Kong & Sen (2022); eqs. 175 and 176 of Rathnashyam & Gittens (2023).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.optimize import brentq
from scipy.special import expit, gammaln

from buttress._checks import Array
from buttress.solvers.run import Step, Steps

LARGEST_EXPONENT = 50  # of a Poisson mean, e^50 counts: a step that is too long would overflow with more
LEAST_RIDGE = 1e-8  # share of the mean squared length of the rows
GROWTH = 10  # factor between the penalties tried, until one keeps the coefficients in the ball
RADIUS_TOL = 1e-10  # error of the logarithm of the penalty
SHORTEST_STEP = 1e-8  # share of a Newton step: shorter ones are not taken, because the objective falls no further
NEWTON_TOL = 1e-12  # decrease of the objective, relative to 1 + its size, at which the iteration ends
LIKELIHOOD_STEPS = 100  # most Newton steps: a guard; counts not recorded


@dataclass(frozen=True)
class Family:
    """An exponential family in its natural parameter t: -log f = cumulant(t) - y t + base(y)."""

    cumulant: Callable[[Array], Array]
    mean: Callable[[Array], Array]
    variance: Callable[[Array], Array]
    base: Callable[[Array], Array]

    def loss(self, y: Array, t: Array) -> Array:
        """-log f of each row, up to a constant."""
        return self.cumulant(t) - y * t + self.base(y)


def _exp(t: Array) -> Array:
    return np.exp(np.minimum(t, LARGEST_EXPONENT))


FAMILIES = {
    "normal": Family(lambda t: t**2 / 2, lambda t: t, np.ones_like, lambda y: y**2 / 2),
    "poisson": Family(_exp, _exp, _exp, lambda y: gammaln(y + 1)),
    "binomial": Family(lambda t: np.logaddexp(0, t), expit, lambda t: expit(t) * expit(-t), np.zeros_like),
}


def trimmed_likelihood(
    X: Array, y: Array, family: Family, pool: NDArray[np.intp], h: int, radius: float
) -> Steps:
    """Yield (beta, kept row numbers), h rows out of ``pool``; the change is the share of them that are new."""
    beta = np.zeros(X.shape[1])
    kept = np.empty(0, dtype=np.intp)
    while True:
        loss = family.loss(y[pool], X[pool] @ beta)
        chosen = np.sort(pool[np.argsort(loss, kind="stable")[:h]])
        changed = len(np.setdiff1d(chosen, kept)) / h
        yield Step((beta, chosen), change=changed, objective=float(np.sort(loss)[:h].sum()))
        kept = chosen
        beta = likelihood_in_ball(X[kept], y[kept], family, radius, beta)


def likelihood_in_ball(X: Array, y: Array, family: Family, radius: float, start: Array) -> Array:
    """Return the maximum-likelihood coefficients of norm at most ``radius``."""
    # a very small ridge keeps the minimiser finite if classes are separable or columns depend on each other
    least = LEAST_RIDGE * max(float(np.mean(np.sum(X**2, axis=1))), np.finfo(float).tiny)
    beta = newton(X, y, family, least, start)
    if np.linalg.norm(beta) <= radius:
        return beta
    most = least
    while np.linalg.norm(newton(X, y, family, most, beta)) > radius:
        most *= GROWTH

    def excess(log_mu: float) -> float:
        return float(np.linalg.norm(newton(X, y, family, np.exp(log_mu), beta))) - radius

    mu = np.exp(brentq(excess, np.log(most / GROWTH), np.log(most), xtol=RADIUS_TOL))
    beta = newton(X, y, family, mu, beta)
    return beta * min(1.0, radius / float(np.linalg.norm(beta)))


def newton(X: Array, y: Array, family: Family, mu: float, beta: Array) -> Array:
    """Minimise sum_i -log f(y_i | x_i'beta) + mu |beta|^2 / 2 by Newton steps, halved until the objective falls."""

    def objective(b: Array) -> float:
        return float(family.loss(y, X @ b).sum()) + mu / 2 * float(b @ b)

    value = objective(beta)
    for _ in range(LIKELIHOOD_STEPS):
        t = X @ beta
        g = X.T @ (family.mean(t) - y) + mu * beta
        H = (X * family.variance(t)[:, None]).T @ X
        H[np.diag_indices_from(H)] += mu
        step = solve(H, g, assume_a="pos")
        size = 1.0
        while size > SHORTEST_STEP and not objective(beta - size * step) <= value:
            size /= 2
        beta = beta - size * step if size > SHORTEST_STEP else beta
        reached = objective(beta)
        fall = value - reached
        value = reached
        if fall <= NEWTON_TOL * (1 + abs(value)):
            break
    return beta
