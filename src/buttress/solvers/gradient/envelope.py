"""How near a function is to a stationary point of a risk of squared losses: the gradient of its Moreau envelope.

With Psi(f) = risk((f(x_i) - y_i)^2) + ridge ||f||^2 and

    Psi_lam(f) = min over h   Psi(h) + ||h - f||^2 / (2 lam),

the gradient of the envelope is (f - h) / lam, h the minimiser (the prox of f). A small one says that h is near f and
has a subgradient as small (Rathnashyam & Gittens 2023, definition 11 and lemma 22), where the gradient of Psi itself
need not exist: it jumps where the kept rows change.

The risk is concave in the losses, so that with its weights held the objective of the prox is an upper bound, and a
ridge problem. Weights and ridge solutions take turns and lower it each time. It is not convex in h: what is found is a
local minimum that starts at the rows f keeps, the whole one where lam is small.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.risks import Risk
from buttress.solvers.gradient.space import Space

ROUNDS = 100  # turns of weights and ridge solutions; a handful is usual, as there are finitely many kept sets
SETTLED = 1e-12  # relative fall of the prox's objective below which the turns end


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
    for _ in range(ROUNDS):
        q = risk.weights((here.f - y) ** 2, sample_weight)
        downhill = -(space.gradient(2 * q * (start.f - y)) + 2 * ridge * start.c)
        move = space.point(space.inverse(2 * q, 2 * ridge + 1 / lam)(downhill))
        here = start + move
        before = value
        distance = space.norm(move)
        value = (risk((here.f - y) ** 2, sample_weight) + ridge * space.inner(here.c, here)
                 + distance**2 / (2 * lam))
        if before - value <= SETTLED * abs(value):
            break
    return EnvelopeGradient(float(distance / lam), float(value), float(distance))
