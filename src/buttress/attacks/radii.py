"""Attacks within several radii: who falls within one has fallen within every larger one."""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array
from buttress._types import Mask, Rows


class Fallen:
    """The least radius within which each row is known to be misclassified; more is learned with every attack.

    An attack within a large radius may miss what one within a smaller radius has found, for each is a local search.
    Here a row that fell stays fallen, so that no accuracy rises with the radius, in whatever order the attacks come.

    Parameters
    ----------
    right : bool array of shape (n,)
        Whether each row is classified rightly as it is.

    Attributes
    ----------
    radius : array of shape (n,)
        0 where a row is wrong as it is, inf where none is known.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress.attacks.radii import Fallen
    >>> fallen = Fallen(np.array([True, True, False]))
    >>> fallen.attack(0.1, lambda rows: np.array([False, True]))
    array([False,  True, False])
    >>> fallen.attack(0.2, lambda rows: np.array([True]))      # row 0 stays fallen, and is not asked about again
    array([False,  True, False])
    """

    def __init__(self, right: Mask):
        self.radius: Array = np.where(right, np.inf, 0.0)

    def standing(self, eps: float) -> Mask:
        """Say which rows are not known to fall within ``eps``."""
        return np.asarray(self.radius > eps)

    def attack(self, eps: float, survives: Callable[[Rows], Mask]) -> Mask:
        """Attack those rows, and say which still stand; ``survives(rows)`` says who of them stays right within eps."""
        rows = np.flatnonzero(self.standing(eps))
        if eps > 0 and len(rows):
            self.radius[rows[~survives(rows)]] = eps
        return self.standing(eps)

    def note(self, eps: float, survived: Mask) -> None:
        """Take over which of all rows, (n,), an attack within ``eps`` has left standing."""
        self.radius = np.where(survived, self.radius, np.minimum(self.radius, eps))
