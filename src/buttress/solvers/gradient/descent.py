"""Functional gradient descent for a risk of losses: without momentum, with Polyak's, or with Nesterov's.

    minimise over ||f|| <= radius   risk(l(y_i, f(x_i))) + ridge * ||f||_H^2

The functional gradient is sum_i q_i l'_i k(x_i, .) + 2 ridge f, where q are the weights of the risk. The risks here
are concave in the losses (a mean, a minimum over subsets, a negative tilt), so the objective with q held fixed is an
upper bound. A step of 1/beta, beta = curvature * lmax(diag(q)^1/2 K diag(q)^1/2) + 2 ridge, therefore cannot raise the
objective. Nor can a step of up to 2/beta, so lmax need only be known up to a factor of two.
Source: Rathnashyam & Gittens (2023), algorithm 3. Their "Nesterov" (63)-(64) is their momentum (60)-(61) written
differently; ``acceleration="nesterov"`` is Nesterov's (1983), its gradient taken at the extrapolated point.
"""

from collections.abc import Callable
from itertools import count

import numpy as np

from buttress._checks import Array
from buttress._types import Targets
from buttress.losses import Loss
from buttress.risks import Risk
from buttress.solvers.gradient.space import RkhsPoint, Space, heaviest
from buttress.solvers.run import Step, Steps

STEP_RULES = ("spectral", "paper", "preconditioned")
# a rule by name, one size, or a size for each iteration
StepLike = str | float | Callable[[int], float]
# (gradient, weights, iteration) -> what to subtract from the coefficients, and the rate 1 / beta it stands for
StepRule = Callable[[Array, Array, int], tuple[Array, float]]


def descent(
    space: Space,
    y: Targets,
    loss: Loss,
    risk: Risk,
    *,
    ridge: float,
    start: Array,
    sample_weight: Array,
    acceleration: str | float | None = "nesterov",
    step: StepLike = "spectral",
    radius: float = np.inf,
) -> Steps:
    """Yield coefficients shaped like ``start``, with the norm of the functional gradient as gap.

    The gap is relative to its value at the start. Nesterov's momentum is set to 0 when the objective rises. A number is
    Polyak's, left as published, so that its objective may rise. A function outside the ball is scaled to the norm
    ``radius``. It ends where steps too long have made the objective larger than any number.
    """
    here = into_ball(space, space.point(start), radius)
    velocity = 0.0 * here
    nesterov = Nesterov(here) if acceleration == "nesterov" else None
    rule = step_rule(space, loss, sample_weight / sample_weight.sum(), ridge, step)
    first = None  # the norm of the gradient at the start
    for iteration in count():
        losses = loss.value(y, here.f)
        objective = risk(losses, sample_weight) + ridge * space.inner(here.c, here)
        if not np.isfinite(objective) and first is not None:
            return
        if nesterov is not None and nesterov.overshot(objective):
            here = nesterov.dropped()
            continue
        q = risk.weights(losses, sample_weight)
        slope = loss.derivative(y, here.f)
        g = space.gradient((q if slope.ndim == 1 else q[:, None]) * slope) + 2 * ridge * here.c
        change, rate = rule(g, q, iteration)
        move = space.point(change)
        new = into_ball(space, here - move, radius)
        size = float(np.sqrt(max(space.inner(g, here - new), 0.0) / rate))
        first = size if first is None else first
        yield Step(here.c, violation=size / first if first else 0.0, objective=objective)
        if isinstance(acceleration, int | float):
            velocity = acceleration * velocity + move
            new = into_ball(space, here - velocity, radius)
        here = into_ball(space, new if nesterov is None else nesterov.ahead(new, objective), radius)


class Nesterov:
    """Nesterov's momentum: the next gradient is taken beyond the new point, further with every step."""

    def __init__(self, start: RkhsPoint):
        self.last = start
        self.objective = np.inf  # at the last point
        self.age = 0  # steps since the momentum was dropped

    def overshot(self, objective: float) -> bool:
        """Say whether momentum has raised the objective."""
        return self.age > 0 and objective > self.objective

    def dropped(self) -> RkhsPoint:
        """Set the momentum to 0; return the point to continue from."""
        self.objective = np.inf
        self.age = 0
        return self.last

    def ahead(self, new: RkhsPoint, objective: float) -> RkhsPoint:
        """Return the point of the next gradient, after a step to ``new`` from a point with this objective."""
        ahead = new + self.age / (self.age + 3) * (new - self.last)
        self.last = new
        self.objective = objective
        self.age += 1
        return ahead


def step_rule(space: Space, loss: Loss, share: Array, ridge: float, step: StepLike) -> StepRule:
    """Return the step rule of this name; a number or a function of the iteration gives the step itself.

    ``"paper"`` computes beta from the trace over all rows (48), ``"spectral"`` from the largest eigenvalue over the
    kept rows.
    """
    if step == "preconditioned":
        return preconditioned(space, loss, share, ridge)
    if step == "spectral":
        return lambda g, q, iteration: scaled(g, loss.curvature * space.largest(q) + 2 * ridge)
    if step == "paper":
        trace = float(share @ space.diagonal)
        return lambda g, q, iteration: scaled(g, loss.curvature * heaviest(q, share) * trace + 2 * ridge)
    size = step if callable(step) else lambda iteration: float(step)
    return lambda g, q, iteration: scaled(g, 1 / size(iteration))


def preconditioned(space: Space, loss: Loss, share: Array, ridge: float) -> StepRule:
    """Return steps by the inverse of curvature * M sum_i share_i k_i k_i' + 2 ridge, where M bounds q / share.

    This matrix is an upper bound of the curvature of the objective. For a subquantile M is 1/p and never changes. For a
    tilt it changes; the matrix is then factorised again with twice the M that is needed.
    """
    bound = 0.0
    solve: Callable[[Array], Array] | None = None

    def rule(g: Array, q: Array, iteration: int) -> tuple[Array, float]:
        nonlocal solve, bound
        most = heaviest(q, share)
        # it is factorised again once its bound is more than eight times what is needed, or below it but for rounding
        if not bound / 8 <= most <= bound * (1 + 1e-9):
            bound = most if bound == 0 else 2 * most
            solve = None
        if solve is None:
            solve = space.inverse(loss.curvature * bound * share, 2 * ridge)
        return solve(g), 1.0

    return rule


def scaled(g: Array, beta: float) -> tuple[Array, float]:
    """Return g / beta and 1 / beta; if beta is 0, g and 1."""
    rate = 1 / beta if beta > 0 else 1.0
    return rate * g, rate


def into_ball(space: Space, h: RkhsPoint, radius: float) -> RkhsPoint:
    """Return h, or h scaled to the norm ``radius`` where its norm is larger."""
    if radius == np.inf:
        return h
    norm = space.norm(h)
    return radius / norm * h if norm > radius else h
