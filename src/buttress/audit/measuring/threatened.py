"""Threats to a table: as to the columns that an estimator takes, and which rows a classifier gets right under them.

A row is proven where proofs are known, the others are attacked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from buttress._suggest import listed
from buttress._types import Array, Labels, Mask
from buttress.attacks import exact, pgd, worst_case
from buttress.audit.baselines import stands_in_box
from buttress.audit.measuring.cells import QUERY_STARTS, QUERY_STEPS, has_gradients
from buttress.certificates import certified_within
from buttress.certificates.radius import where_known
from buttress.threats import Budget, Moves, ThreatModel, deviations, read_threat


@dataclass
class Units:
    """What the columns of an estimator are in those of a table.

    Numbers are (value - mean) / scale; ``deviation`` is that of each in the training rows. ``coded`` are the levels of
    each category, in the order of the columns behind the numbers: a column of codes each where ``native``, else a 0/1
    column for each level.
    """

    mean: dict[str, float]
    scale: dict[str, float]
    deviation: dict[str, float]
    coded: dict[str, list[Any]] = field(default_factory=dict)
    native: bool = False

    @property
    def numeric(self) -> list[str]:
        """The names of the columns of numbers, in their order."""
        return list(self.mean)

    def within(self, name: str, value: float) -> float:
        """Return a value of a column of numbers as the estimator takes it."""
        return (value - self.mean[name]) / self.scale[name]


def units_of(prepare: Any, numeric: Sequence[str], categorical: Collection[str]) -> Units:
    """Return the units of the columns that a fitted preparation of a table makes."""
    scaler, coder = (prepare.named_transformers_.get(part) for part in ("numeric", "categorical"))
    native = not hasattr(scaler, "steps")
    scaler = scaler if native else scaler[-1]
    mean, scale = ((dict(zip(numeric, np.asarray(part).tolist(), strict=True)) if numeric else {})
                   for part in (getattr(scaler, "mean_", []), getattr(scaler, "scale_", [])))
    levels = [known.tolist() for known in coder.categories_] if categorical else []
    return Units(mean, scale, scale, dict(zip(categorical, levels, strict=True)), native)


def behind(threat: ThreatModel, units: Units, X: Array) -> ThreatModel:
    """Return the same threat to the columns that the estimator takes, by place; rows X of these must be within it."""
    measured = [*threat.budgets, *(name for group in threat.one_hot for name in group)]
    wrong = [name for name in measured if name not in units.scale]
    wrong += [name for name in threat.categories if name not in units.scale and name not in units.coded]
    if wrong:
        kind = "number" if wrong[0] in measured else "column"
        raise ValueError(f"The threat names {wrong[0]!r}, which is no {kind} of the model. Its numbers are "
                         f"{listed(units.numeric, SHOWN)}; its categories {listed(units.coded, SHOWN) or 'none'}.")
    place = {name: number for number, name in enumerate(units.numeric)}
    numbers: dict[Any, float | str | Budget] = {}
    for name, budget in threat.budgets.items():
        share = deviations(budget.by) if isinstance(budget.by, str) else None
        by = float(budget.by) if share is None else share * units.deviation[name]
        low, high = (units.within(name, end) for end in (budget.low, budget.high))
        scale = units.scale[name]
        if ((X[:, place[name]] < low) | (X[:, place[name]] > high)).any():
            raise ValueError(f"The threat keeps {name!r} from {budget.low:g} to {budget.high:g}, and some rows are not "
                             "within. Widen low and high, or leave these rows out.")
        numbers[place[name]] = Budget(by / scale, budget.step / scale, budget.direction, low, high)
    categories = dict(_swapped(name, levels, units, place) for name, levels in threat.categories.items())
    for group in threat.one_hot:
        categories[tuple(place[name] for name in group)] = [
            [units.within(name, value) for name, value in zip(group, row, strict=True)] for row in np.eye(len(group))]
    return ThreatModel(numbers, categories, most_swaps=threat.most_swaps, norm=threat.norm,
                       most_moved=threat.most_moved)


def _swapped(
    name: str, levels: Sequence[Any], units: Units, place: Mapping[str, int]
) -> tuple[Any, list[Any]]:
    """Return the columns of one category by place, and what they may become."""
    if name in place:
        return place[name], [units.within(name, level) for level in levels or [0, 1]]
    before = list(units.coded)[: list(units.coded).index(name)]
    known = units.coded[name]
    unknown = [level for level in levels if level not in known]
    if unknown:
        raise ValueError(f"The threat lets {name!r} become {unknown[0]!r}, which the model has not seen. It knows "
                         f"{listed(map(str, known), SHOWN)}.")
    codes = [known.index(level) for level in levels or known]
    if units.native:
        return len(place) + len(before), codes
    start = len(place) + sum(len(units.coded[other]) for other in before)
    return tuple(range(start, start + len(known))), np.eye(len(known))[codes].tolist()


SHOWN = 20  # columns or levels that a message names
SOLVER_SECONDS = 1e6  # a program: it ends by its own size, never by the clock


@dataclass
class AttackOutcome:
    """Which rows stand an attack, which are proven to (None where no proof is known), and whether it was blind."""

    stands: Mask
    proven: Mask | None
    blind: bool
    how: str


def under_threat(
    model: Any, X: Array, y: Labels, threat: ThreatModel, right: Mask, seed: int, *, codes: bool, work: float
) -> AttackOutcome:
    """Prove what can be proven of the rows that stand so far, and attack the others.

    Models that split ``codes`` of categories, and rows with gaps, are attacked by trying. ``work`` is that of the
    programs of trees.
    """
    if np.isnan(X).any() or codes:
        moves = read_threat(threat, np.nan_to_num(X), X)
        return AttackOutcome(right & _by_trying(model, X, y, moves, right, seed), None, False,
                              "corners, then column by column, around ways to swap")
    stands, proven, how = right.copy(), np.zeros(len(X), dtype=bool), "the exact attack"
    known: Mask | None = proven
    try:
        info = exact(model, X, y, threat=threat, max_row_time=SOLVER_SECONDS, max_work=work, return_info=True)[1]
        proven[:] = info.proven & ~info.success
        stands &= ~info.success
    except ValueError:  # no trees and not linear
        known, how = where_known(lambda: certified_within(model, X, threat=threat)), ""
        proven = right & known if known is not None else proven
    left = np.flatnonzero(stands & ~proven)
    blind = False
    if len(left):
        gradients = has_gradients(model)
        attack = (partial(pgd, restarts=2) if gradients else
                  partial(worst_case, steps=QUERY_STEPS, restarts=QUERY_STARTS))
        info = attack(model, X[left], y[left], threat=threat, random_state=seed, return_info=True)[1]
        stands[left] = ~info.success
        blind = 2 * int(info.blind.sum()) > int(stands.sum())
        tried = "projected gradient descent" if gradients else "the worst of several attacks by queries"
        how = f"{how}, then {tried}" if how else tried
    return AttackOutcome(stands, None if known is None else proven, blind, how or "proof alone")


def _by_trying(model: Any, X: Array, y: Labels, moves: Moves, right: Mask, seed: int) -> Mask:
    """Say which rows stand random corners of the box, then the worst of each column in turn, around ways to swap."""
    stands = right.copy()
    for way in islice(moves.ways(), 200):  # around each, numbers are moved by trying
        rows = np.flatnonzero(stands)
        if not len(rows):
            break
        start, moving = moves.swapped(X[rows], way), moves.reach > 0
        low, high = (np.nan_to_num(side[rows]) for side in (moves.low, moves.high))
        box = (np.where(moving, np.maximum(start - moves.reach, low), start),
               np.where(moving, np.minimum(start + moves.reach, high), start))
        stands[rows] = stands_in_box(model, start, y[rows], box, seed)
    return stands
