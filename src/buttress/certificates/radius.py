"""The largest radius in which some bound keeps a lead positive, found by bisection from below."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._proof import sum_error
from buttress.certificates.norm_bound import Fall, NoCertificateError

OUTWARD = 1 + sum_error(0)  # covers the rounding of a radius times a scale, or of the half of a box
FARTHEST = float(np.finfo(float).max)  # no input is farther away: what holds there holds everywhere
HALVINGS = 60  # between a radius that holds and one that does not
SHORTFALL = 1e-4  # share by which a radius may fall short of the largest that a bound gives, where a bound costs more

Proof = TypeVar("Proof")

# (rows, radii) -> whether the lead is proven to stay positive
Holds = Callable[[NDArray[np.intp], Array], NDArray[np.bool_]]


def largest_by_norm(lead: Array, falls: list[Fall], norm: str) -> Array:
    """Return the largest radius at which the falls, which rise with it, stay below the lead (n,); inf where at all."""

    def holds(radius: Array) -> NDArray[np.bool_]:
        with np.errstate(over="ignore", invalid="ignore"):
            return sum((fall(radius, norm) for fall in falls), np.zeros_like(radius)) < lead

    low, high = np.zeros_like(lead), np.ones_like(lead)
    endless = holds(np.full_like(lead, FARTHEST))
    while (more := holds(high) & ~endless & np.isfinite(high)).any():
        low, high = np.where(more, high, low), np.where(more, 2 * high, high)
    for _ in range(HALVINGS):
        # of the upper radius, while none is known to hold
        middle = np.where(low > 0, np.sqrt(low) * np.sqrt(high), high * 1e-3)
        more = holds(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(endless, np.inf, low)


def largest_that_holds(holds: Holds, start: Array, scale: Array, limit: Array, close: float = SHORTFALL) -> Array:
    """Return radii (n,) at which ``holds`` was true, from ``start`` (n,), which holds already, up to ``limit``.

    ``scale`` (n,) is where to look first, ``close`` the share by which a radius may fall short. A bound that fails at
    one radius may hold at a larger one; any that holds is a proof, so nothing is lost but the largest radius.
    """
    low, rows = start.copy(), np.flatnonzero((start < limit) & (scale > 0))
    finite = rows[np.isfinite(limit[rows])]
    reached = finite[holds(finite, limit[finite])]
    low[reached] = limit[reached]
    rows = rows[low[rows] < limit[rows]]
    high = np.minimum(np.maximum(2 * start, scale), limit)
    growing = rows
    for _ in range(60):  # doublings
        more = holds(growing, high[growing])
        grown = growing[more]
        low[grown], high[grown] = high[grown], np.minimum(2 * high[grown], limit[grown])
        growing = grown
        if not len(growing):
            break
    for _ in range(HALVINGS):
        rows = rows[high[rows] - low[rows] > close * np.fmax(low[rows], close * scale[rows])]
        if not len(rows):
            break
        middle = np.mean([low[rows], high[rows]], axis=0)
        more = holds(rows, middle)
        low[rows[more]], high[rows[~more]] = middle[more], middle[~more]
    return low


def where_known(proof: Callable[[], Proof]) -> Proof | None:
    """Return what a certificate says, None for a model of which none is known."""
    try:
        return proof()
    except NoCertificateError:
        return None
