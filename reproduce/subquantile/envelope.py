"""How near a function is to a stationary point, by the gradient of the Moreau envelope of its objective.

With Psi the objective for squared losses and

    Psi_lam(f) = min over h   Psi(h) + ||h - f||^2 / (2 lam),

it is (f - h) / lam, h the minimiser (the prox of f). A small one says that h is near f and has a subgradient as small
(definition 11 and lemma 22), where the gradient of Psi itself need not exist: it jumps where the kept rows change. With
its weights held the objective of the prox is an upper bound, and a ridge problem. Weights and ridge solutions take
turns and lower it each time. It is not convex in h: what is found is a local minimum that starts at the rows f keeps,
the whole one where lam is small.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.risks import Risk, Subquantile
from buttress.robust import KernelRegressor
from buttress.solvers.gradient.space import Dual, Space


@dataclass(frozen=True)
class EnvelopeGradient:
    """``norm`` of the gradient of the Moreau envelope, its ``value``, and the ``distance`` of f from its prox."""

    norm: float
    value: float
    distance: float


def envelope_gradient(space: Space, y: Array, risk: Risk, c: Array, *, ridge: float, sample_weight: Array,
                      lam: float) -> EnvelopeGradient:
    """Return the gradient of the envelope at the function of coefficients c, in O(n^3) a turn over a Gram matrix."""
    start = space.point(c)
    here = start
    value = np.inf
    for _ in range(100):  # a handful is usual, as there are finitely many kept sets
        q = risk.weights((here.f - y) ** 2, sample_weight)
        downhill = -(space.gradient(2 * q * (start.f - y)) + 2 * ridge * start.c)
        move = space.point(space.inverse(2 * q, 2 * ridge + 1 / lam)(downhill))
        here = start + move
        before = value
        distance = space.norm(move)
        value = (risk((here.f - y) ** 2, sample_weight) + ridge * space.inner(here.c, here)
                 + distance**2 / (2 * lam))
        if before - value <= 1e-12 * abs(value):  # of the prox's objective: the turns end
            break
    return EnvelopeGradient(float(distance / lam), float(value), float(distance))


def stationarity(model: KernelRegressor, X: Array, y: Array, lam: float | None = None) -> EnvelopeGradient:
    """Return the gradient of the envelope at a model of the exact Gram matrix of its training rows X (n, d).

    A norm of eps says that a function within lam * eps, in the norm of the RKHS, has a subgradient of at most eps. By
    default lam is half of 1 / beta, beta the smoothness of the kept rows (Rathnashyam & Gittens 2023, eq. 48).
    """
    n = len(y)
    risk = Subquantile() if model.risk is None else model.risk
    space = Dual(model.expansion_.kernel(X, X), np.full(n, 1 / n))
    ridge = model.alpha / (risk.kept * n)
    beta = 2 * space.largest(model.weights_) + 2 * ridge
    return envelope_gradient(space, y - model.intercept_, risk, model.dual_coef_, ridge=ridge,
                             sample_weight=np.ones(n), lam=1 / (2 * beta) if lam is None else lam)
