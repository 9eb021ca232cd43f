"""Weighting of the label's rows and of the two classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.relational.plan.plan import Plan, count_rows

# factors by class, "balanced" for equal totals, or None for 1 and 1
ClassWeight = Mapping[Any, float] | str | None


def label_row_weights(plan: Plan) -> Array:
    """Return one over the number of join rows of the label's row that each row of the root belongs to."""
    place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    per_label_row = np.bincount(place, plan.counts[0].astype(np.float64))
    return np.asarray(1 / per_label_row[place])


def class_factors(
    class_weight: ClassWeight, classes: NDArray[Any], totals: tuple[float, float]
) -> tuple[float, float]:
    """Return the factors of the two classes; "balanced" makes their totals equal, W / (2 total of the class).

    Raises ValueError for a dict with a class that is not there, or a weight that is not a number >= 0.
    """
    if class_weight is None:
        return 1.0, 1.0
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f'class_weight must be None, "balanced" or a dict. Got {class_weight!r}.')
        if not min(totals) > 0:
            raise ValueError('class_weight="balanced" needs rows of positive weight in both classes. Check weights.')
        return sum(totals) / (2 * totals[0]), sum(totals) / (2 * totals[1])
    known = classes.tolist()
    unknown = [name for name in class_weight if name not in known]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is not a class. The classes are {known}.")
    factors = tuple(float(class_weight.get(name, 1.0)) for name in known)
    if not all(0 <= factor < np.inf for factor in factors) or not sum(f * t for f, t in zip(factors, totals)) > 0:
        raise ValueError(f"class_weight must hold numbers >= 0, not all of them 0. Got {class_weight}.")
    return factors[0], factors[1]


def weigh(plan: Plan, row_weight: str, class_weight: ClassWeight) -> None:
    """Set the plan's ``row_weight`` for "join" or "label_row", and for the weights of the classes."""
    plan.row_weight = label_row_weights(plan) if row_weight == "label_row" else None
    if class_weight is not None:
        assert plan.classes is not None, "a plan without a label has no classes to weigh"
        weight = count_rows(plan.nodes, plan.weights())[0]
        totals = float(weight[plan.y < 0].sum()), float(weight[plan.y > 0].sum())
        factors = class_factors(class_weight, plan.classes, totals)
        own = np.ones(len(plan.y)) if plan.row_weight is None else plan.row_weight
        plan.row_weight = own * np.where(plan.y > 0, factors[1], factors[0])
