"""The largest radius in which some bound keeps a lead positive, found by halving."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._proof import sum_error
from buttress.certificates.norm_bound import Fall, NoCertificateError
from buttress.certificates.region import TINY

OUTWARD = 1 + sum_error(0)  # covers the rounding of a radius times a scale, or of the half of a box
FARTHEST = float(np.finfo(float).max)  # no input is farther away: what holds there holds everywhere
LONGEST = 1e150  # beyond which no radius is looked for: its square is a number
SHORTFALL = 1e-4  # share by which a radius may fall short of the largest that a bound gives, where a bound costs more
DIGITS = 1e-14  # the same where it costs next to nothing

Proof = TypeVar("Proof")

# (rows, radii) -> whether the lead is proven to stay positive
Holds = Callable[[NDArray[np.intp], Array], NDArray[np.bool_]]


def largest_by_norm(lead: Array, falls: list[Fall], norm: str) -> Array:
    """Return the largest radius at which the falls, which rise with it, stay below the lead (n,); inf where at all."""

    def holds(rows: NDArray[np.intp], radius: Array) -> NDArray[np.bool_]:
        every = np.zeros_like(lead)
        every[rows] = radius
        with np.errstate(over="ignore", invalid="ignore"):
            return (sum((fall(every, norm) for fall in falls), np.zeros_like(lead)) < lead)[rows]

    endless = np.where(holds(np.arange(len(lead)), np.full_like(lead, FARTHEST)), np.inf, 0.0)
    return largest_that_holds(holds, endless, np.full_like(lead, np.inf), DIGITS)


def largest_that_holds(holds: Holds, start: Array, limit: Array, close: float = SHORTFALL) -> Array:
    """Return radii (n,) at which ``holds`` was true, from ``start`` (n,), which holds already, up to ``limit``.

    ``close`` is the share by which a radius may fall short. A bound that fails at one radius may hold at a larger one;
    any that holds is a proof, so nothing is lost but the largest radius.
    """
    low, high = start.copy(), limit.copy()
    rows = np.flatnonzero((low < high) & np.isfinite(high))
    reached = rows[holds(rows, high[rows])]
    low[reached] = high[reached]
    rows = np.arange(len(low))
    while True:
        rows = rows[(low[rows] < (1 - close) * np.minimum(high[rows], LONGEST)) & (high[rows] > TINY)]
        if not len(rows):
            return low
        below, above = low[rows], high[rows]
        # between the two, or of one above while none is known to hold; without one twice what holds, at first 1
        least = np.where(below > 0, below, 1e-6 * above)
        further = np.where(below > 0, 2 * below, 1.0)
        middle = np.where(above < np.inf, np.sqrt(least) * np.sqrt(above), further)
        more = holds(rows, middle)
        low[rows[more]], high[rows[~more]] = middle[more], middle[~more]


def where_known(proof: Callable[[], Proof]) -> Proof | None:
    """Return what a certificate says, None for a model of which none is known."""
    try:
        return proof()
    except NoCertificateError:
        return None
