"""How a kept model stands what an attacker may do: its accuracy on labelled rows, attacked and proven.

A threat on the columns of a table is read as one on the columns that the model's estimator takes: numbers in standard
deviations, and a group of 0/1 columns, or a code, for each category.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import StandardScaler

from buttress._suggest import listed
from buttress._types import Array, Labels
from buttress.audit.baselines import on_prepared
from buttress.audit.measuring.cells import has_scores
from buttress.audit.measuring.threatened import AttackOutcome, Units, behind, under_threat, units_of
from buttress.audit.models.answering import columns_for
from buttress.audit.models.table_model import TableModel, codes_of
from buttress.audit.reading.entries import MISSING, as_array, numbers_of
from buttress.scores import check_one_label
from buttress.threats import Budget, ThreatModel


@dataclass
class Robustness:
    """Accuracy under each multiple of a threat: attacked from above, proven from below, and where attacks saw nothing.

    ``eps`` are the multiples of the budgets of numbers; ``swaps`` is how many cells are swapped beside them; ``proven``
    is None where no proof is known; ``how`` names the attack; ``rows`` is how many were attacked; ``threat`` says in
    words what was allowed at the largest.
    """

    eps: list[float]
    swaps: list[int]
    attacked: list[float]
    proven: list[float] | None
    blind: list[bool]
    how: str
    rows: int
    threat: str


@dataclass
class Posed:
    """An estimator, its rows and their classes, and how its columns come from those of a table."""

    estimator: Any
    X: Array
    y: Labels
    units: Units


def attack(posed: Posed, allowed: ThreatModel, eps: Sequence[float], *, rows: int, seed: int) -> Robustness:
    """Attack a fitted classifier on labelled rows under multiples of a threat; the rows as they came are put in front.

    Of more than so many ``rows`` some are drawn.
    """
    inner = behind(allowed, posed.units, posed.X)
    if len(posed.X) > rows:
        chosen = np.sort(np.random.default_rng(seed).choice(len(posed.X), rows, replace=False))
        posed = replace(posed, X=posed.X[chosen], y=posed.y[chosen])
    swapping = inner.most_swaps if inner.categories else 0
    shares = sorted({0.0, *(float(share) for share in eps)} if swapping else {float(share) for share in eps} - {0.0})
    right = np.asarray(posed.estimator.predict(posed.X) == posed.y)
    found = [AttackOutcome(right, right, False, "nothing")]
    for share in shares:
        found.append(under_threat(posed.estimator, posed.X, posed.y, inner.scaled(share), found[-1].stands, seed,
                                  codes=posed.units.native and bool(posed.units.coded), work=3e5))  # half a minute
    proven = [float(one.proven.mean()) for one in found if one.proven is not None]
    return Robustness(
        [0.0, *shares], [0, *([swapping] * len(shares))], [float(one.stands.mean()) for one in found],
        proven if len(proven) == len(found) else None, [one.blind for one in found], found[-1].how, len(posed.X),
        str(allowed))


def default_threat(posed: Posed, swaps: int) -> ThreatModel:
    """Return the threat to the columns of the table by default, in standard deviations of the training rows.

    Numbers move, whole ones by whole numbers, and at most ``swaps`` columns of 0 and 1 and categories are swapped.
    """
    numbers: dict[Any, float | str | Budget] = {}
    categories: dict[Any, list[Any]] = {}
    for name, column in zip(posed.units.numeric, posed.X.T, strict=False):
        values = np.round(column[~np.isnan(column)] * posed.units.scale[name] + posed.units.mean[name], 9)
        if set(values.tolist()) <= {0.0, 1.0}:
            categories[name] = [0, 1]
        else:
            numbers[name] = Budget("1 sd", step=float((values % 1 == 0).all()))
    for name, levels in posed.units.coded.items():
        categories[name] = [level for level in levels if level != MISSING]
    return ThreatModel(numbers, categories, most_swaps=swaps)


def pose(model: object, columns: Mapping[str, object], y: ArrayLike, target: str) -> Posed:
    """Return the estimator, its rows in standard deviations and their classes.

    Raises ValueError for regressions, models without scores, and data that do not suit the model.
    """
    if isinstance(model, TableModel):
        if model.task != "classification":
            raise ValueError(f"The model predicts numbers ({model.target}). Attacks are on classifiers.")
        labels = codes_of(model, y, target)
        prepare = model.pipeline[0]  # landmarks come next, in what was learned from a folder
        estimator = model.pipeline[1:] if len(model.pipeline) > 2 else model.pipeline[1]
        X = np.asarray(prepare.transform(model.rows_of(columns)), dtype=np.float64)
        posed = Posed(estimator, X, labels, units_of(prepare, model.numeric, model.categorical))
    else:
        posed = _posed_foreign(model, columns, y, target)
    check_one_label(posed.estimator, posed.X)
    if not has_scores(posed.estimator):
        raise ValueError(f"{type(posed.estimator).__name__} gives labels only: an attack has no scores to go by.")
    return posed


def _posed_foreign(model: Any, columns: Mapping[str, object], y: ArrayLike, target: str) -> Posed:
    """Return the same for a model that was fitted elsewhere, on numeric columns; the data give the units."""
    known = getattr(model, "classes_", None)
    if known is None or isinstance(known, list):
        kind = "is no classifier" if known is None else "predicts several labels a row"
        raise ValueError(f"The file holds a {type(model).__name__}, which {kind}; only classifiers of one label are "
                         "attacked.")
    taken = columns_for(model, columns)
    numbers = {name: numbers_of(as_array(column)) for name, column in taken.items()}
    found = {name: column for name, column in numbers.items() if column is not None and np.isfinite(column).all()}
    bad = [name for name in numbers if name not in found]
    if bad:
        raise ValueError("A model fitted elsewhere can be attacked on columns of finite numbers only. Others are "
                         f"{listed(bad, 3)}. Keep it with buttress train, or prepare the data first.")
    values, labels = np.column_stack(list(found.values())), codes_of(model, y, target)
    scaler = StandardScaler().set_output(transform="default").fit(values)
    mean, scale = (dict(zip(numbers, part.tolist(), strict=True)) for part in (scaler.mean_, scaler.scale_))
    if hasattr(model, "feature_names_in_"):
        return Posed(on_prepared(model, scaler), scaler.transform(values), labels, Units(mean, scale, scale))
    return Posed(model, values, labels, Units(dict.fromkeys(mean, 0.0), dict.fromkeys(mean, 1.0), scale))
