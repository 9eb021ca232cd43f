"""The gap of a program: its losses, a point of the box of its dual, and the claims of both objectives."""

import math
from typing import NamedTuple

import numpy as np

from .core import ROUNDED, Array, Claim, Model, Real, inverse, plus


def balanced(b: Array, lo: Array, hi: Array) -> Array:
    """Return the point nearest to b, nearly, that lies in the box and whose sum is exactly 0 (lo <= 0 <= hi).

    Its entries are whole multiples of a power of two, so few of them that their sums are exact.
    """
    b = np.clip(b, lo, hi)
    largest = np.abs(b).max(initial=0.0)
    if largest == 0 or not np.isfinite(largest):
        return np.zeros_like(b)
    bits = min(52, 62 - math.frexp(len(b))[1])
    step = 2.0 ** (math.frexp(largest)[1] - bits)
    steps = np.trunc(b / step).astype(np.int64)
    excess = int(steps.sum())
    heavy = np.flatnonzero(np.sign(steps) == np.sign(excess))
    order = heavy[np.argsort((b[heavy] == lo[heavy]) | (b[heavy] == hi[heavy]), kind="stable")]  # free ones first
    sizes = np.abs(steps[order])
    steps[order] -= np.sign(excess) * np.clip(abs(excess) - np.cumsum(sizes) + sizes, 0, sizes)
    return steps * step


class LossProgram(NamedTuple):
    """A program: residuals r, bounds lo <= 0 <= hi of its dual point, the width l1 and the power of the losses.

    Its losses are sum_i hi_i max(0, r_i - l1)^power - lo_i max(0, -r_i - l1)^power.
    """

    r: Real
    lo: Array
    hi: Array
    l1: float = 0.0
    squared: bool = False

    def each(self, r: Real) -> Real:
        above, below = ((part - self.l1).each(plus) for part in (r, -r))
        above, below = (above * above, below * below) if self.squared else (above, below)
        return above * self.hi - below * self.lo

    def total(self) -> Real:
        return self.each(self.r) @ np.ones(len(self.lo))

    def box(self) -> tuple[Array, Array]:
        """Return the bounds of a dual point: of squared losses it has none but its sign."""
        if not self.squared:
            return self.lo, self.hi
        return np.where(self.lo < 0, -np.inf, 0.0), np.where(self.hi > 0, np.inf, 0.0)

    def gap(self, b: Array) -> float:
        """Return an upper bound of sum_i loss_i(r_i) - b_i r_i + l1 |b_i| (+ b_i^2 / 4 c_i for squares).

        Each term is at least 0, the gap of its row (Fenchel and Young), and convex in r_i: it is largest at an end.
        """
        c = np.where(self.hi - self.lo > 0, self.hi - self.lo, 1.0)
        conjugate = Real(b) * self.l1 * np.sign(b)
        if self.squared:
            conjugate = conjugate + Real(b) * b * inverse(Real(4 * c))
        ends = [(self.each(Real(end)) - Real(end) * b + conjugate).high for end in (self.r.low, self.r.high)]
        return float((Real(plus(np.maximum(*ends))) @ np.ones(len(b))).high)


def objectives(suffix: str, stated: Model | None, q: int, primal: Real, gap: float, most: float) -> list[Claim]:
    """Return the claims of problem q: the objective reached, a lower bound of the optimum, and a gap.

    Each is one-sided: what is stated may be worse than what is proven. Where nothing is stated it is what is proven.
    ``gap`` is that of the dual point, ``most`` the one that is claimed.
    """
    high, low = float(primal.high), float(primal.low) - gap
    proven = {"primal_objective_": high, "dual_objective_": low, "dual_gap_": most}
    value, bound, least = (own if stated is None else float(np.atleast_1d(stated[name])[q])
                           for name, own in proven.items())
    room = ROUNDED * abs(high)
    return [Claim(f"primal objective{suffix}", value, high, high <= value + room),
            Claim(f"dual objective{suffix}", bound, low, bound <= low + room),
            Claim(f"duality gap{suffix}", least, most, most <= least + room)]
