"""How the columns that an estimator takes come from those of a table, and threats to the latter as to the former."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from buttress.threats import Budget, ThreatModel, deviations


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


def behind(threat: ThreatModel, units: Units) -> ThreatModel:
    """Return the same threat to the columns that the estimator takes, by place."""
    measured = [*threat.budgets, *(name for group in threat.one_hot for name in group)]
    wrong = [name for name in measured if name not in units.scale]
    wrong += [name for name in threat.categories if name not in units.scale and name not in units.coded]
    if wrong:
        raise ValueError(f"The threat names {wrong[0]!r}, which is no such column of the model. Its numbers are "
                         f"{', '.join(units.numeric)}; its categories {', '.join(units.coded) or 'none'}.")
    place = {name: number for number, name in enumerate(units.numeric)}
    numbers: dict[Any, float | str | Budget] = {}
    for name, budget in threat.budgets.items():
        share = deviations(budget.by) if isinstance(budget.by, str) else None
        by = float(budget.by) if share is None else share * units.deviation[name]
        low, high = (units.within(name, end) for end in (budget.low, budget.high))
        scale = units.scale[name]
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
                         f"{', '.join(map(str, known))}.")
    codes = [known.index(level) for level in levels or known]
    if units.native:
        return len(place) + len(before), codes
    start = len(place) + sum(len(units.coded[other]) for other in before)
    return tuple(range(start, start + len(known))), np.eye(len(known))[codes].tolist()
