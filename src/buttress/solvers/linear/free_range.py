"""The linear machine against free-range attacks (Zhou et al. 2012), by an interior-point method.

    minimise over w, b   1/2 ||w||^2 + sum_i c_i max(0, 1 - y_i (w'x_i + b) + t_i(w)),
    t_i = share * sum_j [ max(w_j, 0) (x_ij - low_j) + max(-w_j, 0) (high_j - x_ij) ]   for an attacked row with y = +1,

For y = -1 the two distances are swapped, and t_i = 0 for rows that are not attacked. t_i is the loss of margin by the
worst move of a row, each feature going at most a ``share`` of the way to the ends of the box. With w = p - q and
z = (p, q) >= 0 this is a quadratic program with margins G z + y b. G differs from y_i x_i by one vector for each class:

    primal   min  1/2 |z|^2 + c'xi,   G z + y b + xi - s = 1,   z, xi, s >= 0
    dual     max  sum(a) - 1/2 |max(0, G'a)|^2,   0 <= a <= c,  y'a = 0

At the optimum p_j and q_j are never both positive, because lowering both lowers both terms. Zhou's program has n d more
variables. Rows far from the margin have a_i = 0 or a_i = c_i. They are fixed there, and the program is solved for the
other rows. This is repeated until no fixed row violates its condition.
Sources: Zhou, Kantarcioglu, Thuraisingham & Xi (2012), their free-range model; Mehrotra (1992).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress.solvers.linear.intercept import hinge_intercept
from buttress.solvers.run import Step, Steps, run

RIDGES = (0.0, 1e-14, 1e-11, 1e-8)  # of the diagonal: what is added to it, in turn, until its matrix has a factor
BAND = 1500  # rows near the margin in the first round; the number doubles while fixed rows are violated
ROUGH_TOL = 1e-3  # relative gap of the first guess, which is only used to find the rows near the margin
ROUND_STEPS = 100  # most steps of one interior-point run: a guard; counts not recorded
NEGLIGIBLE = 1e-3  # rows that together add less than this to the trace, next to the ridge's 1, are left out
BALANCE = 0.9  # largest y'a of the fixed rows, as a share of what the rows solved for can balance
TO_THE_BOUND = 0.995  # share of the way to the nearest bound that a step takes
REFINEMENTS = 5  # corrections of a solved system, at most
SOLVED = 1e-12  # residual, relative to the largest entry of the right-hand side, at which corrections end


@dataclass
class Margins:
    """The matrix G: ``rows`` (n, d) are y_i x_i, times 1 - share if attacked; ``ends`` (2, 2d) has a row per class."""

    rows: Array
    ends: Array
    positive: Array  # 1 for rows of class +1, else 0
    lengths: Array  # squared, of the rows

    def times(self, z: Array) -> Array:
        """Return G z, (n,)."""
        p, q = np.split(z, 2)
        ends = self.ends @ z
        total: Array = self.rows @ (p - q) + np.where(self.positive > 0, ends[0], ends[1])
        return total

    def transposed(self, a: Array) -> Array:
        """Return G'a, (2d,)."""
        pull = a @ self.rows
        sums = np.array([a @ self.positive, a @ (1 - self.positive)])
        return np.concatenate([pull, -pull]) + sums @ self.ends

    def part(self, index: NDArray[np.intp]) -> "Margins":
        """Return the rows of ``index``."""
        return Margins(self.rows[index], self.ends, self.positive[index], self.lengths[index])

    def scatter(self, weight: Array) -> tuple[Array, Array, Array]:
        """Return S, u and W so that G' diag(weight) G = B S B' + sum_c W_c u_c u_c', with B = (1, -1)'.

        S (d, d) is the weighted scatter of the rows around the mean of their class. u_c (2d,) is the mean row of G in
        class c, and W_c its total weight. Rows that together add less than 1e-3 to the trace are left out.
        """
        size = weight * self.lengths
        order = np.argsort(size)
        kept = np.sort(order[np.searchsorted(np.cumsum(size[order]), NEGLIGIBLE):])
        part = self if len(kept) == len(weight) else self.part(kept)
        weight = weight[kept]
        square = blas.dsyrk(1.0, (part.rows * np.sqrt(weight)[:, None]).T)  # only the upper triangle is set
        totals = np.array([weight @ part.positive, weight @ (1 - part.positive)])
        sums = np.array([(weight * part.positive) @ part.rows, (weight * (1 - part.positive)) @ part.rows])
        middles = sums / np.maximum(totals, TINY)[:, None]
        square -= middles.T @ sums
        return square, np.hstack([middles, -middles]) + self.ends, totals


def free_range_margins(X: Array, y: Array, low: Array, high: Array, *, share: float, both: bool) -> Margins:
    """Return G for rows X (n, d) with labels y and the box [low, high]; ``both``: rows of both classes are attacked."""
    attacked = (y > 0) | both
    ends = share * np.array([np.append(low, -high), np.append(-high, low) * both])
    rows = (y * np.where(attacked, 1 - share, 1.0))[:, None] * X
    return Margins(rows, ends, (y > 0).astype(np.float64), np.einsum("ij,ij->i", rows, rows))


@dataclass
class Program:
    """The rows to solve for (G, y, c); fixed rows add ``pull`` to G'a, ``balance`` to y'a and ``sum`` to sum(a)."""

    G: Margins
    y: Array
    c: Array
    pull: Array
    balance: float
    sum: float


def free_range_descent(G: Margins, y: Array, c: Array, *, tol: float) -> Steps:
    """Yield (w, b, a) after each round, with the duality gap of the whole program relative to its primal objective.

    c (n,) are the weights of the losses, all > 0. A round solves for the rows nearest the margin, by the interior-point
    method.
    """
    n = len(y)
    band = min(BAND, n)
    w, b = first_guess(G, y, c, band, tol)
    used = 0
    while True:
        margin = G.times(np.maximum(np.append(w, -w), 0)) + y * b
        distance = np.abs(margin - 1)
        near = np.sort(np.argpartition(distance, band - 1)[:band])
        a = np.where(margin < 1, c, 0.0)
        a[near] = 0
        program = Program(G.part(near), y[near], c[near], G.transposed(a), float(a @ y), float(a.sum()))
        if balanced(program):
            inner = run(interior_point(program), tol=tol / 2, max_iter=ROUND_STEPS, warn=False, inner=True)
            w, b, a[near] = inner.state
            used += inner.n_iter
            step = certified(G, w, a, y, c, used)
            yield step
            b = step.state[1]
            used = 0
            if band == n and not step.converged(tol):
                return
        band = min(n, 2 * band)


def first_guess(G: Margins, y: Array, c: Array, size: int, tol: float) -> tuple[Array, float]:
    """Return w and b of the program of ``size`` rows, drawn at random, solved roughly."""
    sample = np.arange(len(y))[drawn_rows(len(y), size)]
    weight = c[sample] * (c.sum() / c[sample].sum())
    program = Program(G.part(sample), y[sample], weight, np.zeros(2 * G.rows.shape[1]), 0.0, 0.0)
    outcome = run(interior_point(program), tol=max(tol, ROUGH_TOL), max_iter=ROUND_STEPS, warn=False, inner=True)
    w, b, _ = outcome.state
    return w, b


def balanced(program: Program) -> bool:
    """Say whether the rows solved for can make y'a = 0, with a margin of ``BALANCE``."""
    positive, negative = (float(program.c[program.y == sign].sum()) for sign in (1, -1))
    return -BALANCE * positive < program.balance < BALANCE * negative


def certified(G: Margins, w: Array, a: Array, y: Array, c: Array, iterations: int) -> Step:
    """Return the step of w with its best intercept; the gap is relative to the primal objective."""
    margin = G.times(np.maximum(np.append(w, -w), 0))
    b = hinge_intercept(y * (1 - margin), y, c)
    primal = 0.5 * float(w @ w) + float(c @ np.maximum(0, 1 - margin - y * b))
    dual = float(a.sum()) - 0.5 * float(np.sum(np.maximum(0, G.transposed(a)) ** 2))
    return Step((w, b, a), gap=(primal - dual) / max(primal, TINY), objective=primal, iterations=iterations)


@dataclass
class Point:
    """The iterate: z, b, and the slacks and multipliers of the interior-point method."""

    z: Array
    b: float
    slack: Array  # s
    loss: Array  # xi
    a: Array
    v: Array  # multipliers of z >= 0; those of xi >= 0 are c - a

    def moved(self, length: float, step: "Point") -> "Point":
        """Return the point ``length`` steps further."""
        pairs = zip(vars(self).values(), vars(step).values(), strict=True)
        return Point(*(value + length * change for value, change in pairs))


def interior_point(program: Program) -> Steps:
    """Yield (w, b, a) of the rows solved for; the gap is relative to the primal objective with the fixed rows."""
    point = starting_point(program)
    c = program.c
    while True:
        yield progress(program, point)
        products = [(point.a, point.slack), (c - point.a, point.loss), (point.v, point.z)]
        count = sum(len(left) for left, _ in products)
        mu = sum(float(left @ right) for left, right in products) / count
        solve = newton(program, point)
        guess = solve(0.0, None)
        ahead = point.moved(step_length(point, guess, c), guess)
        after = float(ahead.a @ ahead.slack + (c - ahead.a) @ ahead.loss + ahead.v @ ahead.z) / count
        step = solve(mu * (after / mu) ** 3, guess)
        point = point.moved(min(1.0, TO_THE_BOUND * step_length(point, step, c)), step)


def starting_point(program: Program) -> Point:
    """Return a point with all inequalities strict, at which the equations in xi and s hold."""
    G = program.G
    a = 0.5 * program.c
    z = np.ones(2 * G.rows.shape[1])
    loss = 1 - G.times(z)
    xi = np.maximum(loss, 0) + 1
    return Point(z, 0.0, xi - loss, xi, a, np.maximum(z - G.transposed(a) - program.pull, 0) + 1)


def progress(program: Program, point: Point) -> Step:
    """Return the step of w = p - q; its gap includes a penalty for y'a different from 0, which is infeasible."""
    p, q = np.split(point.z, 2)
    z = np.append(p - np.minimum(p, q), q - np.minimum(p, q))
    margin = program.G.times(z) + program.y * point.b
    fixed = program.sum - float(program.pull @ z) - program.balance * point.b
    primal = 0.5 * float(z @ z) + float(program.c @ np.maximum(0, 1 - margin)) + fixed
    slope = np.maximum(0, program.G.transposed(point.a) + program.pull)
    dual = float(point.a.sum()) + program.sum - 0.5 * float(slope @ slope)
    off = abs(float(point.a @ program.y) + program.balance) * (1 + abs(point.b))
    return Step((p - q, point.b, point.a), gap=(abs(primal - dual) + off) / max(abs(primal), TINY), objective=primal)


def newton(program: Program, point: Point) -> Callable[[float, Point | None], Point]:
    """Return the function of (mu, predictor or None) that solves the linearised conditions at ``point``."""
    G = program.G
    y = program.y
    c = program.c
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
    rest_z = z - G.transposed(a) - program.pull - v
    rest = G.times(z) + y * point.b + xi - s - 1

    def solve(mu: float, guess: Point | None) -> Point:
        r_s = mu - a * s
        r_xi = mu - u * xi
        r_v = mu - v * z
        if guess is not None:
            r_s = r_s - guess.a * guess.slack
            r_xi = r_xi + guess.a * guess.loss
            r_v = r_v - guess.v * guess.z
        target = weight * (r_s / a - r_xi / u - rest)
        right = system(G.transposed(target) - rest_z + r_v / z)
        db = (float(y @ (a + target)) + program.balance - float(border @ right)) / corner
        dz = right - db * inner
        da = target - weight * (G.times(dz) + y * db)
        return Point(dz, db, (r_s - s * da) / a, (r_xi + xi * da) / u, da, (r_v - v * dz) / z)

    return solve


def normal_equations(G: Margins, weight: Array, ridge: Array) -> Callable[[Array], Array]:
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

    def solve(r: Array) -> Array:
        x = once(r)
        size = np.abs(r).max()
        for _ in range(REFINEMENTS):  # with large weights, digits cancel between the mean rows and the rest
            rest = r - ridge * x - G.transposed(weight * G.times(x))
            if np.abs(rest).max() <= SOLVED * size:
                break
            x = x + once(rest)
        return x

    return solve


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


def step_length(point: Point, step: Point, c: Array) -> float:
    """Return the longest step, at most 1 / ``TO_THE_BOUND``, that leaves every inequality satisfied."""
    pairs = [(point.z, step.z), (point.slack, step.slack), (point.loss, step.loss), (point.a, step.a),
             (point.v, step.v), (c - point.a, -step.a)]
    longest = 1 / TO_THE_BOUND
    for value, change in pairs:
        falling = change < 0
        if falling.any():
            longest = min(longest, float((value[falling] / -change[falling]).min()))
    return longest
