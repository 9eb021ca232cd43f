"""Branch and bound: a region is halved, column by column, until each part is proven or an input that breaks it is met.

The bounds of a part come from the linear relaxation, whose error falls with the square of the part's width, and from
parabolas or the second order. A part is halved along the column that costs the lines most. What is left open when so
many parts were looked at as are allowed stays so: the same on any machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from buttress._checks import Array
from buttress.certificates.compiled import loss_by_column
from buttress.certificates.quadratic import quadratic_bound
from buttress.certificates.region import Attacker, Region
from buttress.certificates.relaxation import Lead, relaxed
from buttress.certificates.second_order import second_order
from buttress.kernels import Radial

ENTRIES = 4_000_000  # of parts times centres times columns that are bounded at once
SHORTFALL = 0.01  # share by which a radius may fall short of a breaking input
GROWTH = 1.2  # first factor by which a radius is tried to be made larger


class Verdict(Enum):
    """What is known of a region."""

    HOLDS = "no input in it breaks the lead"
    BROKEN = "an input in it does"
    OPEN = "the parts allowed were looked at"


@dataclass
class BranchOutcome:
    """A verdict, how many parts were looked at for it, and for a broken region the move (d,) that breaks it."""

    verdict: Verdict
    parts: int
    move: Array | None = None


def prove(lead: Lead, region: Region, most: int) -> BranchOutcome:
    """Decide whether the lead of one row is positive all over a region, from about ``most`` parts of it.

    A search gives up whose first halving gains so little that as many in a row as ``most`` parts allow would not do.
    """
    move, value = steepest(lead, region)
    if value <= 0:
        return BranchOutcome(Verdict.BROKEN, 1, move)
    origin, seen, worst = region.anchor.ravel(), 0, []
    stack = [region]
    size = max(1, ENTRIES // (lead.weights.shape[1] * len(origin)))
    while stack:
        parts = stack.pop()
        if len(parts.anchor) > size:
            stack.append(parts[: -size])
            parts = parts[-size:]
        repeated = lead[np.zeros(len(parts.anchor), dtype=int)]
        bound, moves = _bounded(repeated, parts)
        seen += len(parts.anchor)
        points = parts.anchor + np.nan_to_num(moves)
        values = repeated(points)
        if values.min() <= 0:
            return BranchOutcome(Verdict.BROKEN, seen, points[values.argmin()] - origin)
        undecided = np.flatnonzero(~(bound > 0))
        worst.append(float(bound.min()))
        hopeless = len(worst) == 2 and (worst[1] - worst[0]) * np.log2(most) < -worst[1]
        if len(undecided) and (seen >= most or hopeless):
            return BranchOutcome(Verdict.OPEN, seen)
        if len(undecided):
            worst_last = undecided[np.argsort(-bound[undecided])]
            children = _halved(repeated[worst_last], parts[worst_last])
            if len(children.anchor):
                stack.append(children)
    return BranchOutcome(Verdict.HOLDS, seen)


def _bounded(lead: Lead, parts: Region) -> tuple[Array, Array]:
    """Return lower bounds (n,) of the parts, and moves (n, d) at which lines below the leads are least.

    Parts that the lines do not prove are bounded by parabolas, or where there are none by the second order.
    """
    bound, moves = relaxed(lead, parts)
    rest = np.flatnonzero(~(bound > 0))
    if not len(rest):
        return bound, moves
    if lead.is_factored() and parts.offset is None:
        bound[rest] = np.fmax(bound[rest], [quadratic_bound(lead[row : row + 1], parts[row : row + 1]) for row in rest])
        return bound, moves
    second = second_order(lead[rest], parts.anchor[rest], parts.half[rest])
    if second is not None:
        bound[rest] = np.fmax(bound[rest], second.bound(np.ones(len(rest)), "linf"))
    return bound, moves


def steepest(lead: Lead, region: Region) -> tuple[Array, float]:
    """Return a move (d,) within the region of one row at which its lead is small, and that lead.

    Frank and Wolfe: a share 2 / (k + 2) of the way to where the lead's tangent plane is least.
    """
    d = np.zeros_like(region.anchor)
    best, least = d, np.inf
    for step in range(21):  # inputs of the local search for a breaking one
        value = lead(region.anchor + d).item()
        if value < least:
            best, least = d, value
        target = region.least(lead.gradient(region.anchor + d), np.zeros(1))[1]
        d = d + 2 / (step + 2) * (target - d)
    return best.ravel(), least


def _halved(lead: Lead, parts: Region) -> Region:
    """Return both halves of each part, along the column that costs most; those off the ball left out."""
    column = _losses(lead, parts).argmax(axis=1)
    shift, half = np.zeros_like(parts.half), parts.half.copy()
    rows = np.arange(len(half))
    half[rows, column] /= 2
    shift[rows, column] = half[rows, column]
    half = np.repeat(half, 2, axis=0)
    anchor = np.stack([parts.anchor - shift, parts.anchor + shift], axis=1).reshape(half.shape)
    radius = np.repeat(parts.radius, 2)
    if parts.offset is None:
        return Region(anchor, half, None, parts.scale, radius).rounded()
    offset = np.stack([parts.offset + shift, parts.offset - shift], axis=1).reshape(half.shape)
    children = Region(anchor, half, offset, parts.scale, radius).rounded()
    away = np.maximum(np.abs(offset) - children.half, 0) / parts.scale
    return children[np.linalg.norm(away, axis=1) <= children.radius]


def _losses(lead: Lead, parts: Region) -> Array:
    """Return per column how much of what the lines miss halving it would take off, up to a factor, shape (n, d)."""
    total = np.zeros_like(parts.anchor)
    for kernel, share in lead.kernels:
        weights = share * np.abs(lead.weights)
        radial = isinstance(kernel, Radial)
        anchor = parts.anchor if radial else np.zeros_like(parts.anchor)
        if radial:
            weights = weights * np.abs(kernel(anchor, lead.centers))
        total += loss_by_column(*map(np.ascontiguousarray, (anchor, parts.half, lead.centers, weights)))
    return total


def stretched(lead: Lead, attacker: Attacker, row: Array, start: float, first: float, most: int,
              measure: Callable[[Array], float]) -> float:
    """Return the largest radius proven for one row (1, d), from ``start``, which is, from about ``most`` parts.

    ``first`` is where to look first, and ``measure`` returns the length of a move behind the scalers. Each try gets
    a third of the parts that are left; the factor to the next grows where one is proven, and shrinks where it is not.
    """
    low, broken_from = start, np.inf
    radius, growth = (GROWTH * start, GROWTH) if start > 0 else (first / 2, 2.0)
    while most > 0 and low < (1 - SHORTFALL) * broken_from and radius <= 1e150:  # the square of the radius is a number
        region = attacker.region(row, np.array([radius]))
        found = prove(lead, region, 1 + most // 3)
        most -= found.parts
        if found.verdict is Verdict.HOLDS:
            low, growth = radius, growth**1.5
        else:
            growth = 1 + (growth - 1) / 2
        if found.move is not None:
            move = region.anchor.ravel() + found.move - row.ravel()
            broken_from = min(broken_from, nearest_break(lead, row, move, measure))
        radius = growth * low if low > 0 else radius / 2
        if radius >= broken_from:
            radius = (low + broken_from) / 2
    return low


def nearest_break(lead: Lead, row: Array, move: Array, measure: Callable[[Array], float]) -> float:
    """Return how long the shortest breaking part of a breaking move (d,) from a row is, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        broken = lead(row + middle * move).item() <= 0
        low, high = (low, middle) if broken else (middle, high)
    return measure(high * move)
