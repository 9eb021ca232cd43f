"""Training on a lower bound of the leads: what is minimised bounds what any attack can do to the training rows.

    f(x) = sum_j (p_j - q_j) k(x, z_j) + W'x + b,   p, q >= 0, a column of p, q, W and b for each score
    minimise   1/2 ||f||^2 + 1/2 ||W||^2 + C sum_i max(0, 1 - L_i)

A lead v'f of a row's class over a rival weighs k(., z_j) by v'(p_j - q_j). Over the row's region k lies above one line
and below another, the same ones whatever the model. The line below serves the positive parts of the weight, the line
above the negative ones. What is left is const + slope'd + bend |d|^2, whose least value over the region is
known. It is a minimum of functions that are linear in (p, q, W, b), so it is concave in them; L_i, the least over the
rivals, is too, and the problem is convex. With p = q = 0 the bound is exact, which is the linear machine.

Adam minimises it, with p and q kept at 0 or above. All of it runs on the device of the rows, with numpy arrays or torch
tensors.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from buttress._arrays import namespace
from buttress._checks import TINY, Array
from buttress._types import Rows
from buttress.solvers.gradient.worst_inputs import Adam, check_time, flat, shaped
from buttress.solvers.run import Step, Steps

ITERATIONS = 10  # Adam iterations between two objectives


@dataclass
class SplitMachine:
    """p and q of shape (m, k), W of shape (d, k) and b of shape (k,)."""

    p: Array
    q: Array
    W: Array
    b: Array


@dataclass
class Regions:
    """Where rows can come, and lines below and above F(|x' - z_j|^2) there: value + slope (2 (a - z_j)'d + |d|^2).

    Parameters
    ----------
    anchor : array of shape (n, d)
        a; the row comes to a + d.
    half : array of shape (n, d) or None
        |d_l| <= half_l; None for the ball.
    radius : float
        |d| <= radius, where there is no box.
    below_value, below_slope, above_value, above_slope : array of shape (n, m)
    contrasts : array of shape (n, rivals, k)
        Of the leads of each row's class.
    """

    anchor: Array
    half: Array | None
    radius: float
    below_value: Array
    below_slope: Array
    above_value: Array
    above_slope: Array
    contrasts: Array

    def __getitem__(self, rows: Rows | slice) -> "Regions":
        parts = (self.below_value, self.below_slope, self.above_value, self.above_slope, self.contrasts)
        half = None if self.half is None else self.half[rows]
        return Regions(self.anchor[rows], half, self.radius, *(part[rows] for part in parts))

    def blocks(self) -> "Iterator[Regions]":
        """Yield the rows, few enough at a time."""
        n, rivals, _ = self.contrasts.shape
        # rows times rivals times columns that are bounded at once
        size = max(1, 2_000_000 // (rivals * max(self.anchor.shape[1], self.below_value.shape[1])))
        return (self[slice(start, start + size)] for start in range(0, n, size))

    def least(self, slope: Array, bend: Array) -> tuple[Array, Array]:
        """Return the minimum (n, r) of slope'd + bend |d|^2 over each region, and where it is (n, r, d)."""
        xp = namespace(slope)
        if self.half is not None:
            half = self.half[:, None]
            turn = -slope / xp.where(bend > 0, 2 * bend, 1.0)[..., None]
            inner = xp.minimum(xp.maximum(turn, -half), half)
            d = xp.where(bend[..., None] > 0, inner, xp.where(slope > 0, -half, half))
        else:
            size = xp.sqrt((slope**2).sum(-1)) + TINY
            radius = xp.where(2 * bend * self.radius > size, size / xp.where(bend > 0, 2 * bend, 1.0), self.radius)
            d = -slope * (radius / size)[..., None]
        return (slope * d).sum(-1) + bend * (d**2).sum(-1), d


def least_leads(regions: Regions, Z: Array, machine: SplitMachine) -> tuple[Array, Array, Array]:
    """Return of each row the bound L (n,), the contrast (n, k) of its worst rival, and the move (n, d) of the bound.

    A score weighs into a lead with a positive or a negative sign. Its bound is computed for both, once for all rivals.
    """
    xp, V = namespace(Z), regions.contrasts
    pro = _score_below(regions, Z, machine.p, machine.q)
    contra = _score_below(regions, Z, machine.q, machine.p)
    up, down = V.clip(0, None), (-V).clip(0, None)
    const, slope, bend = (up @ one + down @ other for one, other in zip(pro, contra, strict=True))
    flat = regions.anchor @ machine.W + machine.b
    low, moves = regions.least(slope + V @ machine.W.T, bend[..., 0])
    leads = const[..., 0] + (V @ flat[..., None])[..., 0] + low
    worst = leads.argmin(1)
    rows = xp.arange(len(V))
    return leads[rows, worst], V[rows, worst], moves[rows, worst]


def _score_below(regions: Regions, Z: Array, plus: Array, minus: Array) -> tuple[Array, Array, Array]:
    """Return const (n, k, 1), slope (n, k, d) and bend (n, k, 1) below sum_j (plus_j - minus_j) k(., z_j)."""
    n, (m, k) = len(regions.anchor), plus.shape
    const = regions.below_value @ plus - regions.above_value @ minus
    bend = regions.below_slope @ plus - regions.above_slope @ minus
    pull = (regions.below_slope @ (plus[:, :, None] * Z[:, None]).reshape(m, -1)
            - regions.above_slope @ (minus[:, :, None] * Z[:, None]).reshape(m, -1)).reshape(n, k, -1)
    return const[..., None], 2 * (bend[..., None] * regions.anchor[:, None] - pull), bend[..., None]


def bounds_of(regions: Regions, Z: Array, machine: SplitMachine) -> Array:
    """Return L of every row, (n,)."""
    return namespace(Z).concatenate([least_leads(part, Z, machine)[0] for part in regions.blocks()])


def hinge_gradient(regions: Regions, Z: Array, machine: SplitMachine) -> SplitMachine:
    """Return the subgradient of mean_i max(0, 1 - L_i): that of the bound's own value at its worst move."""
    xp = namespace(Z)
    lead, V, d = least_leads(regions, Z, machine)
    V = V * xp.where(lead < 1, 1 / len(lead), 0.0)[:, None]
    shift = 2 * ((regions.anchor * d).sum(-1)[:, None] - d @ Z.T) + (d**2).sum(-1)[:, None]
    below = regions.below_value + regions.below_slope * shift
    above = regions.above_value + regions.above_slope * shift
    pro, contra = V.clip(0, None), (-V).clip(0, None)
    return SplitMachine(above.T @ contra - below.T @ pro, above.T @ pro - below.T @ contra, -(regions.anchor + d).T @ V,
                   -V.sum(0))


def certified_descent(
    regions: Regions, Z: Array, K: Array, machine: SplitMachine, *, ridge: float, linear_ridge: float, batch: int,
    iterations: int, rng: np.random.RandomState, left: Callable[[], float | None] = lambda: None,
) -> Steps:
    """Yield machines from a start; K (m, m) is the kernel between the centres Z (m, d).

    The objective is mean_i max(0, 1 - L_i) + ridge / 2 sum a'K a + linear_ridge / 2 ||W||^2 with a = p - q, on all
    rows, or on 2,000 fixed ones. One step is ten Adam iterations on batches, whose length falls to 0 with the last; the
    step with the best objective is the model. Raises TimeoutError where no seconds are ``left`` within a step.
    """
    n, xp = len(regions.anchor), namespace(Z)
    judged = regions[rng.permutation(n)[:2000]]  # on which the objective is computed
    z, rate, kernel = flat(machine), _rates(machine), int(np.prod(machine.p.shape)) * 2
    adam = Adam(z, 0.3)  # by the training objective on digits after 300 iterations: .67, .60, .57 for .03, .1, .3
    while True:
        a = machine.p - machine.q
        hinge = (1 - bounds_of(judged, Z, machine)).clip(0, None).mean()
        objective = float(hinge + 0.5 * ridge * (a * (K @ a)).sum() + 0.5 * linear_ridge * (machine.W**2).sum())
        yield Step(machine, objective=objective, done=adam.t >= iterations, iterations=min(adam.t, ITERATIONS))
        for _ in range(ITERATIONS):
            check_time(left)
            some = regions if n <= batch else regions[rng.choice(n, batch, replace=False)]
            gradient = hinge_gradient(some, Z, machine)
            pull = ridge * (K @ (machine.p - machine.q))
            gradient = replace(gradient, p=gradient.p + pull, q=gradient.q - pull,
                               W=gradient.W + linear_ridge * machine.W)
            z = z - (1 - adam.t / iterations) * rate * adam.step(flat(gradient))
            z = xp.concatenate([z[:kernel].clip(0, None), z[kernel:]])
            machine = shaped(z, machine)


def _rates(machine: SplitMachine) -> Array:
    """Return the share of a step that each parameter takes: W and b a fifth of that of p and q."""
    linear = 0.2
    return flat(SplitMachine(0 * machine.p + 1, 0 * machine.q + 1, 0 * machine.W + linear, 0 * machine.b + linear))
