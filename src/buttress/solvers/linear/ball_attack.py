"""The linear machine against rows that move within a ball, by an interior-point method.

    minimise over w, b   1/2 ||w||^2 + sum_i c_i max(0, 1 - y_i (w'x_i + b) + eps ||w||_*)                          (P)
    maximise over a      sum(a) - 1/2 dist(sum_i a_i y_i x_i, eps sum(a) B)^2,   0 <= a <= c,  y'a = 0              (D)

B is the unit ball of the moves, and ||w||_* = max over u in B of u'w the dual norm. The worst move of row i is -y_i eps
times the same u for every row, so (P) is exact. It is convex, and (D) bounds it from below, since the least
1/2 ||w||^2 - w'v + r ||w||_* is -1/2 dist(v, r B)^2, at w = v less its nearest point of r B.

For l_inf, ||w||_* = sum(p + q) with w = p - q: (P) is then a quadratic program of the form that ``free_range`` solves.
For l_2 and l_1, t >= ||w||_* is a cone with the barrier -log(t^2 - ||w||^2) or -sum_j log(t^2 - w_j^2). The hinge has
the barriers of its slack and of its loss; with these minimised in closed form, Newton's method is left with d + 2
variables (w, b, t). Source: Boyd & Vandenberghe, Convex Optimization, chapter 11.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, cho_solve

from buttress._checks import TINY, Array
from buttress.solvers.linear.attacked_bounds import dual_norm, nearest_in_ball
from buttress.solvers.linear.free_range import (
    BoxMargins,
    balanced,
    factored,
    free_range_descent,
    hinge_objective,
    moved,
)
from buttress.solvers.run import Step, Steps


def ball_descent(X: Array, y: Array, c: Array, *, eps: Array | float, norm: str) -> Steps:
    """Yield (w, b, a) with the duality gap relative to the primal objective.

    X is (n, d), y (n,) holds -1 and 1, and c (n,) the weights of the losses, all > 0. ``norm`` is that of the moves;
    for "linf" ``eps`` is one or one a column.
    """
    if norm == "linf" or eps == 0:
        rows = y[:, None] * X
        ends = np.tile(-eps * np.ones(X.shape[1]), (2, 2))
        margins = BoxMargins(rows, ends, (y > 0).astype(np.float64))
        return free_range_descent(margins, y, c)
    return _barrier_descent(X, y, c, float(eps), norm)


@dataclass
class ConePoint:
    """The iterate: w, b and t > ||w||_*."""

    w: Array
    b: float
    t: float


@dataclass
class Program:
    """(P) with barriers: ``rows`` (n, d + 2) are the derivatives of 1 - y (w'x + b) + eps t in w, b and t."""

    rows: Array
    y: Array
    c: Array
    eps: float
    norm: str

    def residual(self, point: ConePoint) -> Array:
        """Return 1 - y (w'x + b) + eps t, (n,)."""
        return 1 + self.rows @ np.concatenate([point.w, [point.b, point.t]])

    def multipliers(self, r: Array, mu: float) -> tuple[Array, Array]:
        """Return a and c - a, both (n,) and positive, of the best loss and slack: mu / (c - a) - mu / a = r."""
        rc = r * self.c
        root = np.hypot(rc, 2 * mu)
        near = 4 * mu**2 / (root + np.abs(rc))  # root - |rc|, without cancellation
        over = np.where(rc > 0, root + rc, near)
        under = np.where(rc > 0, near, root - rc)
        share = self.c / (2 * (root + 2 * mu))
        return share * (2 * mu + over), share * (2 * mu + under)

    def gradient(self, point: ConePoint, mu: float) -> Array:
        """Return the gradient of the objective with its barriers, (d + 2,)."""
        a, _ = self.multipliers(self.residual(point), mu)
        gradient: Array = a @ self.rows + mu * _cone_gradient(point, self.norm)
        gradient[:-2] += point.w
        return gradient

    def with_best_t(self, point: ConePoint, mu: float) -> ConePoint:
        """Return the point with the t at which the objective with its barriers is least, by bisection of its slope.

        Newton's steps alone follow the border of the cone slowly.
        """
        least, r = dual_norm(point.w, self.norm), self.residual(ConePoint(point.w, point.b, 0.0))
        low, high = -34.0, 60.0  # log of t - ||w||_*, in units of ||w||_* or of 1: e^-34 is nearly the last place
        for _ in range(50):  # halvings
            middle = (low + high) / 2
            t = least + float(np.exp(middle)) * max(1.0, least)
            slope = self.eps * float(self.multipliers(r + self.eps * t, mu)[0].sum())
            rises = slope + mu * _cone_gradient(ConePoint(point.w, point.b, t), self.norm)[-1] > 0
            low, high = (low, middle) if rises else (middle, high)
        return ConePoint(point.w, point.b, t)

    def newton(self, point: ConePoint, mu: float, gradient: Array) -> tuple[Array, Array]:
        """Return Newton's step (d + 2,), and the a (n,) that its linear model has at the end of it.

        There y'a = 0 and w is what a asks for, up to the cone, even while the point is not yet centred.
        """
        a, rest = self.multipliers(self.residual(point), mu)
        bend = 1 / (mu / rest**2 + mu / a**2)
        H = blas.dsyrk(1.0, (self.rows * np.sqrt(bend)[:, None]).T)  # only the upper triangle is set
        H += mu * _cone_hessian(point, self.norm)
        d = len(point.w)
        H[np.arange(d), np.arange(d)] += 1
        scale = 1 / np.sqrt(np.diag(H))
        factor = factored(H * scale * scale[:, None])
        step: Array = -scale * cho_solve(factor, scale * gradient, check_finite=False)
        return step, np.clip(a + bend * (self.rows @ step), 0, self.c)

    def primal(self, w: Array) -> tuple[float, float]:
        """Return the objective of (P) with the best intercept, and that intercept."""
        margin = -self.rows[:, :-2] @ w - self.eps * dual_norm(w, self.norm)
        return hinge_objective(w, margin, self.y, self.c)

    def dual(self, a: Array) -> float:
        """Return the objective of (D), where the heavier class has given up what y'a = 0 asks for."""
        a = balanced(a, self.y)
        pull = -(a @ self.rows[:, :-2])
        away = pull - nearest_in_ball(pull, self.eps * float(a.sum()), self.norm)
        return float(a.sum()) - 0.5 * float(np.linalg.norm(away)) ** 2


def _barrier_descent(X: Array, y: Array, c: Array, eps: float, norm: str) -> Steps:
    """Yield a state after each Newton step; the barriers' weight falls whenever the iterate is near their centre."""
    rows = np.column_stack([-y[:, None] * X, -y, np.full(len(y), eps)])
    program = Program(rows, y, c, eps, norm)
    point, mu = ConePoint(np.zeros(X.shape[1]), 0.0, 1.0), float(c.mean())
    least, plane = np.inf, (point.w, 0.0)
    bound, proof = 0.0, np.zeros(len(y))
    while mu > 1e-15 * float(c.mean()):  # in units of the first, below which rounding decides
        gradient = program.gradient(point, mu)
        step, a = program.newton(point, mu, gradient)
        objective, b = program.primal(point.w)
        if objective < least:
            least, plane = objective, (point.w, b)
        below = program.dual(a)
        if below > bound:
            bound, proof = below, balanced(a, y)
        yield Step((*plane, proof), gap=(least - bound) / max(least, TINY), objective=least)
        fall, length = -float(gradient @ step), 1.0
        while True:  # the objective is convex: where it does not rise steeply, the step was not too long
            ahead = moved(point, length, ConePoint(step[:-2], float(step[-2]), float(step[-1])))
            inside = ahead.t > 0 and bool((_barrier_arguments(ahead, norm) > 0).all())
            # the slope may rise to .3 of the one with which the step began
            if inside and float(program.gradient(ahead, mu) @ step) <= 0.3 * fall:
                break
            length /= 2
        point = program.with_best_t(ahead, mu)
        if fall <= mu:  # it is near: the squared Newton decrement is at most that weight
            mu *= 0.2  # the iterate is near the centre of these barriers


def _barrier_arguments(point: ConePoint, norm: str) -> Array:
    """Return what the barriers of the cone take the logarithm of."""
    return np.atleast_1d(point.t**2 - (float(point.w @ point.w) if norm == "l2" else point.w**2))


def _cone_gradient(point: ConePoint, norm: str) -> Array:
    """Return the gradient of the cone's barrier, (d + 2,)."""
    room = _barrier_arguments(point, norm)
    return np.concatenate([2 * point.w / room, [0.0, -2 * float((point.t / room).sum())]])


def _cone_hessian(point: ConePoint, norm: str) -> Array:
    """Return the Hessian of the cone's barrier, (d + 2, d + 2)."""
    w, t, d = point.w, point.t, len(point.w)
    room = _barrier_arguments(point, norm)
    H = np.diag(np.concatenate([np.broadcast_to(2 / room, d), [0.0, -2 * float((1 / room).sum())]]))
    if norm == "l2":
        g = _cone_gradient(point, norm)
        return H + np.outer(g, g)
    H[np.arange(d), np.arange(d)] += 4 * w**2 / room**2
    H[:d, -1] = H[-1, :d] = -4 * w * t / room**2
    H[-1, -1] += 4 * t**2 * float((room**-2.0).sum())
    return H
