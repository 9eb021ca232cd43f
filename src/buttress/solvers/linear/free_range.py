"""The linear machine against free-range attacks (Zhou et al. 2012), by an interior-point method.

    minimise over w, b   1/2 ||w||^2 + sum_i c_i max(0, 1 - y_i (w'x_i + b) + t_i(w)),
    t_i = share * sum_j [ max(w_j, 0) (x_ij - low_j) + max(-w_j, 0) (high_j - x_ij) ]   for an attacked row with y = +1,

For y = -1 the two distances are swapped, and t_i = 0 for rows that are not attacked. t_i is the loss of margin by the
worst move of a row, each feature going at most a ``share`` of the way to the ends of the box. With w = p - q and
z = (p, q) >= 0 this is a quadratic program with margins G z + y b. G differs from y_i x_i by one vector for each class:

    primal   min  1/2 |z|^2 + c'xi,   G z + y b + xi - s = 1,   z, xi, s >= 0
    dual     max  sum(a) - 1/2 |max(0, G'a)|^2,   0 <= a <= c,  y'a = 0

At the optimum p_j and q_j are never both positive, because lowering both lowers both terms. Zhou's program has n d more
variables.
Sources: Zhou, Kantarcioglu, Thuraisingham & Xi (2012), their free-range model; Mehrotra (1992).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve

from buttress._checks import TINY, Array
from buttress.solvers.linear.primal import hinge_intercept
from buttress.solvers.run import Step, Steps

RIDGES = (0.0, 1e-14, 1e-11, 1e-8)  # of the diagonal: what is added to it, in turn, until its matrix has a factor
NO_STEP = 1e-8  # a step shorter than this ends the method
TO_THE_BOUND = 0.995  # share of the way to the nearest bound that a step takes


@dataclass
class BoxMargins:
    """The matrix G: ``rows`` (n, d) are y_i x_i, times 1 - share if attacked; ``ends`` (2, 2d) has a row per class."""

    rows: Array
    ends: Array
    positive: Array  # 1 for rows of class +1, else 0

    def times(self, z: Array) -> Array:
        """Return G z, (n,)."""
        p, q = np.split(z, 2)
        ends = self.ends @ z
        return self.rows @ (p - q) + np.where(self.positive > 0, ends[0], ends[1])

    def transposed(self, a: Array) -> Array:
        """Return G'a, (2d,)."""
        pull = a @ self.rows
        sums = np.array([a @ self.positive, a @ (1 - self.positive)])
        return np.concatenate([pull, -pull]) + sums @ self.ends

    def scatter(self, weight: Array) -> tuple[Array, Array, Array]:
        """Return S, u and W so that G' diag(weight) G = B S B' + sum_c W_c u_c u_c', with B = (1, -1)'.

        S (d, d) is the weighted scatter of the rows around the mean of their class. u_c (2d,) is the mean row of G in
        class c, and W_c its total weight.
        """
        square = blas.dsyrk(1.0, (self.rows * np.sqrt(weight)[:, None]).T)  # only the upper triangle is set
        totals = np.array([weight @ self.positive, weight @ (1 - self.positive)])
        sums = np.array([(weight * self.positive) @ self.rows, (weight * (1 - self.positive)) @ self.rows])
        middles = sums / np.maximum(totals, TINY)[:, None]
        square -= middles.T @ sums
        return square, np.hstack([middles, -middles]) + self.ends, totals


def free_range_margins(X: Array, y: Array, low: Array, high: Array, *, share: float, both: bool) -> BoxMargins:
    """Return G for rows X (n, d) with labels y and the box [low, high]; ``both``: rows of both classes are attacked."""
    attacked = (y > 0) | both
    ends = share * np.array([np.append(low, -high), np.append(-high, low) * both])
    rows = (y * np.where(attacked, 1 - share, 1.0))[:, None] * X
    return BoxMargins(rows, ends, (y > 0).astype(np.float64))


@dataclass
class InteriorPoint:
    """The iterate: z, b, and the slacks and multipliers of the interior-point method."""

    z: Array
    b: float
    slack: Array  # s
    loss: Array  # xi
    a: Array
    v: Array  # multipliers of z >= 0; those of xi >= 0 are c - a


Iterate = TypeVar("Iterate")


def moved(point: Iterate, length: float, step: Iterate) -> Iterate:
    """Return the point ``length`` steps further, a dataclass of arrays."""
    pairs = zip(vars(point).values(), vars(step).values(), strict=True)
    return type(point)(*(value + length * change for value, change in pairs))


def free_range_descent(G: BoxMargins, y: Array, c: Array) -> Steps:
    """Yield (w, b, a) after each interior-point step, with the duality gap relative to the primal objective.

    c (n,) are the weights of the losses, all > 0. It ends where steps get nowhere: the rest is rounding.
    """
    point = starting_point(G, c)
    length = 1.0
    while length > NO_STEP:
        yield certified(G, point, y, c)
        products = [(point.a, point.slack), (c - point.a, point.loss), (point.v, point.z)]
        count = sum(len(left) for left, _ in products)
        mu = sum(float(left @ right) for left, right in products) / count
        solve = newton(G, y, c, point)
        guess = solve(0.0, None)
        ahead = moved(point, step_length(point, guess, c), guess)
        after = float(ahead.a @ ahead.slack + (c - ahead.a) @ ahead.loss + ahead.v @ ahead.z) / count
        step = solve(mu * (after / mu) ** 3, guess)
        length = min(1.0, TO_THE_BOUND * step_length(point, step, c))
        point = moved(point, length, step)


def starting_point(G: BoxMargins, c: Array) -> InteriorPoint:
    """Return a point with all inequalities strict, at which the equations in xi and s hold."""
    a = 0.5 * c
    z = np.ones(2 * G.rows.shape[1])
    loss = 1 - G.times(z)
    xi = np.maximum(loss, 0) + 1
    return InteriorPoint(z, 0.0, xi - loss, xi, a, np.maximum(z - G.transposed(a), 0) + 1)


def certified(G: BoxMargins, point: InteriorPoint, y: Array, c: Array) -> Step:
    """Return the step of w = p - q with its best intercept, and a with the sum y'a = 0 that the dual asks for."""
    p, q = np.split(point.z, 2)
    w = p - q
    a = balanced(point.a, y)
    margin = G.times(np.maximum(np.append(w, -w), 0))
    primal, b = hinge_objective(w, margin, y, c)
    dual = float(a.sum()) - 0.5 * float(np.sum(np.maximum(0, G.transposed(a)) ** 2))
    return Step((w, b, a), gap=(primal - dual) / max(primal, TINY), objective=primal)


def hinge_objective(w: Array, margin: Array, y: Array, c: Array) -> tuple[float, float]:
    """Return the primal objective at w, with margins (n,) but for the intercept, at the best intercept, and that."""
    b = hinge_intercept(y * (1 - margin), y, c)
    return 0.5 * float(w @ w) + float(c @ np.maximum(0, 1 - margin - y * b)), b


def balanced(a: Array, y: Array) -> Array:
    """Return a, of which the heavier class has given up what y'a = 0 asks for."""
    positive = y > 0
    up, down = float(a[positive].sum()), float(a[~positive].sum())
    shares: Array = np.where(positive, min(1.0, down / max(up, TINY)), min(1.0, up / max(down, TINY)))
    return a * shares


def newton(
    G: BoxMargins, y: Array, c: Array, point: InteriorPoint
) -> Callable[[float, InteriorPoint | None], InteriorPoint]:
    """Return the function of (mu, predictor or None) that solves the linearised conditions at ``point``."""
    z = point.z
    a = point.a
    s = point.slack
    xi = point.loss
    v = point.v
    u = c - a
    weight = 1 / (xi / u + s / a)
    system = normal_equations(G, weight, 1 + v / z)
    border = G.transposed(weight * y)
    inner = system(border)
    corner = float(weight.sum() - border @ inner)
    rest_z = z - G.transposed(a) - v
    rest = G.times(z) + y * point.b + xi - s - 1

    def solve(mu: float, guess: InteriorPoint | None) -> InteriorPoint:
        r_s = mu - a * s
        r_xi = mu - u * xi
        r_v = mu - v * z
        if guess is not None:
            r_s = r_s - guess.a * guess.slack
            r_xi = r_xi + guess.a * guess.loss
            r_v = r_v - guess.v * guess.z
        target = weight * (r_s / a - r_xi / u - rest)
        right = system(G.transposed(target) - rest_z + r_v / z)
        db = (float(y @ (a + target)) - float(border @ right)) / corner
        dz = right - db * inner
        da = target - weight * (G.times(dz) + y * db)
        return InteriorPoint(dz, db, (r_s - s * da) / a, (r_xi + xi * da) / u, da, (r_v - v * dz) / z)

    return solve


def normal_equations(G: BoxMargins, weight: Array, ridge: Array) -> Callable[[Array], Array]:
    """Return the function of r (2d,) that solves (diag(ridge) + G' diag(weight) G) x = r.

    Let ridge = (P, Q) and F = P Q / (P + Q). Without the mean rows of the classes, the difference delta = x_p - x_q
    solves (S + F) delta = F (r_p / P - r_q / Q): d equations instead of 2d. Woodbury's formula then adds the two mean
    rows.
    """
    S, middles, totals = G.scatter(weight)
    P, Q = np.split(ridge, 2)
    F = P * Q / (P + Q)
    S[np.diag_indices_from(S)] += F
    factor = factored(S)

    def without(r: Array) -> Array:
        r_p, r_q = np.split(r, 2)
        t = (r_p.T / P - r_q.T / Q).T
        y = (F * (t - cho_solve(factor, (F * t.T).T, check_finite=False)).T).T
        return np.concatenate([((r_p - y).T / P).T, ((r_q + y).T / Q).T])

    used = totals > 0
    U = middles[used].T
    solved = without(U)
    small = np.diag(1 / totals[used]) + U.T @ solved

    def once(r: Array) -> Array:
        x = without(r)
        return x - solved @ np.linalg.solve(small, U.T @ x)

    # with large weights, digits cancel between the mean rows and the rest
    return lambda r: refined(once, lambda x: ridge * x + G.transposed(weight * G.times(x)), r)


def refined(rough: Callable[[Array], Array], apply: Callable[[Array], Array], right: Array) -> Array:
    """Return x with apply(x) = right, by at most five corrections with ``rough``, nearly its inverse."""
    x = rough(right)
    size = np.abs(right).max()
    for _ in range(5):
        rest = right - apply(x)
        if np.abs(rest).max() <= 1e-12 * size:  # relative to the largest entry of the right-hand side
            break
        x = x + rough(rest)
    return x


def factored(S: Array) -> tuple[Array, bool]:
    """Return the Cholesky factor of S (d, d), its diagonal raised a little where rounding hides that it is positive.

    A step with it is still one down the objective. Raises LinAlgError where no small share of the diagonal suffices.
    """
    for share in RIDGES[:-1]:
        try:
            return cast(tuple[Array, bool], cho_factor(S + np.diag(share * np.diag(S)), check_finite=False))
        except LinAlgError:
            continue
    return cast(tuple[Array, bool], cho_factor(S + np.diag(RIDGES[-1] * np.diag(S)), check_finite=False))


def step_length(point: InteriorPoint, step: InteriorPoint, c: Array) -> float:
    """Return the longest step, at most 1 / ``TO_THE_BOUND``, that leaves every inequality satisfied."""
    pairs = [(point.z, step.z), (point.slack, step.slack), (point.loss, step.loss), (point.a, step.a),
             (point.v, step.v), (c - point.a, -step.a)]
    return reach(pairs, 1 / TO_THE_BOUND)


def reach(pairs: list[tuple[Array, Array]], longest: float) -> float:
    """Return the longest step, at most ``longest``, with which no value falls below 0, from values and their changes.
    """
    for value, change in pairs:
        falling = change < 0
        if falling.any():
            longest = min(longest, float((value[falling] / -change[falling]).min()))
    return longest
