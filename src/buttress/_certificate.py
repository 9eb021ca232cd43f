"""A number that a model states, how far off it can be, and how sure that is."""

from dataclasses import dataclass
from typing import Literal

Sureness = Literal["proven", "audited", "measured"]


@dataclass(frozen=True)
class Certificate:
    """A number between ``value`` and ``bound``: an optimum, a radius, or a share.

    Parameters
    ----------
    value : float
        What is stated: the objective that was reached, the radius within which no attack succeeds, an estimate.
    bound : float
        The other end: the true number lies between it and ``value``. Equal to ``value`` where both are one.
    unit : str
        Of both, such as ``"objective"``, ``"l2 distance"`` or ``"share of rows"``.
    sure : {"proven", "audited", "measured"}
        "proven" holds for the real numbers, in floating point; "audited" by an attack or a check that found nothing
        against it; "measured" on a sample of rows.
    """

    value: float
    bound: float
    unit: str
    sure: Sureness

    @property
    def gap(self) -> float:
        """How far apart both ends are, at least 0."""
        return abs(self.value - self.bound)
