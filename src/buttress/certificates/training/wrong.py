"""Who may be wrong: which training labels, in which direction, at what cost, and what a wrong one does to a lead."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._types import Labels, Mask, Rows, VectorLike

Direction = tuple[object, object]  # the label given, and what it may be in truth


@dataclass(frozen=True)
class Suspects:
    """The labels that may be wrong.

    Parameters
    ----------
    codes : int array of shape (n,)
        The class of each training row as given.
    allowed : bool array of shape (n_classes, n_classes)
        Whether a label given as the row's class may be the column's in truth.
    costs : array of shape (n,)
        Of one wrong label, > 0; inf where it is trusted.
    """

    codes: Rows
    allowed: Mask
    costs: Array

    def gains(self, H: Array, values: Array) -> Array:
        """Return by how much one wrong label lowers a lead sum_i h_i values[c_i] at most, >= 0, shape as H (..., n)."""
        drop = values[:, None] - values
        most = np.where(self.allowed, drop, -np.inf).max(axis=1, initial=0.0)
        least = np.where(self.allowed, drop, np.inf).min(axis=1, initial=0.0)
        gains = np.maximum(H * most[self.codes], H * least[self.codes])
        gains[..., np.isinf(self.costs)] = 0.0
        return gains

    def truth(self, rows: Rows, h: Array, values: Array) -> Rows:
        """Return the classes that labels of ``rows``, with weights h, change to when they lower a lead most."""
        gain = h[:, None] * (values[self.codes[rows], None] - values)
        return np.where(self.allowed[self.codes[rows]], gain, -np.inf).argmax(axis=1)


def check_suspects(
    codes: Rows, classes: Labels, directions: Iterable[Direction] | None, eligible: VectorLike | None,
    costs: VectorLike | None,
) -> Suspects:
    """Return who may be wrong; ValueError for labels that are no class, masks and costs of another length or sign."""
    allowed = ~np.eye(len(classes), dtype=bool)
    if directions is not None:
        allowed[:] = False
        for given, true in directions:
            allowed[_number(given, classes), _number(true, classes)] = True
        np.fill_diagonal(allowed, False)
    price = np.ones(len(codes)) if costs is None else np.asarray(costs, dtype=np.float64)
    if price.shape != codes.shape or not (price > 0).all():
        raise ValueError(f"costs must be numbers > 0, one for each of the {len(codes)} training rows (inf where a "
                         "label "
                         f"is trusted). Got {costs!r}.")
    return Suspects(codes, allowed, np.where(check_eligible(eligible, len(codes)), price, np.inf))


def check_eligible(eligible: VectorLike | None, n: int) -> NDArray[np.bool_]:
    """Return which of n training rows may be wrong, all by default."""
    if eligible is None:
        return np.ones(n, dtype=bool)
    mask = np.asarray(eligible)
    if mask.shape != (n,) or mask.dtype.kind != "b":
        raise ValueError(f"eligible must be True or False for each of the {n} training rows. Got {eligible!r}.")
    return mask


def _number(label: object, classes: Labels) -> int:
    found = np.flatnonzero(classes == label)
    if len(found) != 1:
        raise ValueError(f"directions must be pairs (label given, label in truth) of the classes {classes.tolist()}. "
                         f"Got {label!r}.")
    return int(found.item())
