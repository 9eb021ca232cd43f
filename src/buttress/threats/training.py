"""What a machine is trained against: moves of one radius that stay in a box, which holds all that a threat allows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_box, check_columns, check_number, check_option, warn_user
from buttress._types import BoundsLike, MatrixLike
from buttress.threats.declared import NORMS, ThreatModel
from buttress.threats.moves import read_threat


@dataclass(frozen=True)
class Region:
    """Moves of at most ``radius`` in a norm of rows (n, d) that stay in a box (two arrays (n, d), or None).

    ``eps`` is the radius where all columns have that one.
    """

    radius: float
    norm: str
    box: tuple[Array, Array] | None
    eps: float | None = None

    def ends(self, X: Array) -> tuple[Array, Array]:
        """Return the lower and upper ends (n, d) of what may become of each row."""
        low, high = X - self.radius, X + self.radius
        return (low, high) if self.box is None else (np.maximum(low, self.box[0]), np.minimum(high, self.box[1]))


def check_radii(eps: ArrayLike | None, width: int) -> Array | float:
    """Return a radius >= 0, or one for each of ``width`` columns, (1, width); ValueError for others."""
    given: Any = eps.item() if isinstance(eps, np.ndarray) and eps.ndim == 0 else eps
    if hasattr(given, "__len__") and not isinstance(given, str):
        return check_columns("eps", given, width)
    return check_number("eps", given, 0, closed="left", fix="It is a radius in the units of X; 0 moves nothing.")


def warn_of_rounding(X: Array, reach: Array | float) -> None:
    """Warn of a column of rows X (n, d) in which all moves by ``reach``, one or (1, d), are lost in rounding."""
    lost = np.flatnonzero(((X + reach == X) & (X - reach == X) & (np.asarray(reach) > 0)).all(axis=0))
    if len(lost):
        by = float(np.broadcast_to(reach, X.shape)[0, lost[0]])
        warn_user(f"Column {lost[0]} of X holds numbers as large as {np.abs(X[:, lost[0]]).max():.3g}, to which a move "
                  f"of {by:g} makes no difference in floating point. Subtract their means, or scale the columns.")


def region_of(
    eps: ArrayLike, norm: str, bounds: BoundsLike | None, threat: ThreatModel | None, X: Array, given: MatrixLike
) -> Region:
    """Return the region of rows X (n, d) whose columns have the names of ``given``.

    Of one eps a column it is the widest radius, in the box of all. Of a threat, which takes the place of the others, it
    holds every swap and move together: a machine that stands it all stands the threat.
    """
    if not isinstance(threat, ThreatModel | None):
        raise TypeError(f"threat must be a ThreatModel or None. Got {threat!r}.")
    if threat is not None:
        moves = read_threat(threat, X, given)
        warn_of_rounding(X, moves.reach)
        low, high = moves.hull(X)
        return Region(float(np.maximum(X - low, high - X).max(initial=0.0)), "linf", (low, high))
    check_option("norm", norm, NORMS)
    box = None
    if bounds is not None:
        low, high = (np.broadcast_to(side, X.shape) for side in check_box(bounds, X))
        box = low, high
    reach = check_radii(eps, X.shape[1])
    warn_of_rounding(X, reach)
    if isinstance(reach, float):
        return Region(reach, norm, box, reach)
    ends = X - reach, X + reach
    return Region(float(reach.max()), norm,
                  ends if box is None else (np.maximum(ends[0], box[0]), np.minimum(ends[1], box[1])))
