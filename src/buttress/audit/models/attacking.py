"""How a kept model stands what an attacker may do: its accuracy on labelled rows, attacked and proven.

A threat on the columns of a table is read as one on the columns that the model's estimator takes: numbers in standard
deviations, and a group of 0/1 columns, or a code, for each category.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from buttress._types import Array, Labels
from buttress.audit.baselines import on_prepared, order_columns
from buttress.audit.measuring.cells import has_scores
from buttress.audit.measuring.threatened import AttackOutcome, Units, behind, under_threat, units_of
from buttress.audit.models.table_model import TableModel
from buttress.audit.reading.entries import as_array
from buttress.audit.reading.table import MISSING, Table, make_table, numbers_of
from buttress.scores import check_one_label
from buttress.threats import Budget, ThreatModel

ROWS = 500  # drawn of more: a 95% interval of an accuracy is then at most .09 wide


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


def attack(
    model: object, columns: Mapping[str, object], y: object, target: str, eps: Sequence[float], *, rows: int = ROWS,
    seed: int = 0, swaps: int = 1, threat: ThreatModel | None = None,
) -> Robustness:
    """Attack a fitted classifier on labelled rows under multiples of a threat; the rows as they came are put in front.

    By default numbers are moved by ``eps`` standard deviations, whole ones by whole numbers, and at most ``swaps``
    columns of 0 and 1 and categories are swapped besides.

    Raises ValueError for regressions, models without scores, and data that do not suit the model.
    """
    posed = pose(model, columns, y, target)
    allowed = default_threat(posed, swaps) if threat is None else threat
    inner = behind(allowed, posed.units)
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
    """Return the threat to the columns of the table by default, in standard deviations of the training rows."""
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


def pose(model: object, columns: Mapping[str, object], y: object, target: str) -> Posed:
    """Return the estimator, its rows in standard deviations and their classes."""
    if isinstance(model, TableModel):
        if model.task != "classification":
            raise ValueError(f"The model predicts numbers ({model.target}). Attacks are on classifiers.")
        labels = model.codes_of(y, target)  # type: ignore[arg-type]
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


def _posed_foreign(model: Any, columns: Mapping[str, object], y: object, target: str) -> Posed:
    """Return the same for a model that was fitted elsewhere, on numeric columns; the data give the units."""
    known = getattr(model, "classes_", None)
    if known is None or isinstance(known, list):
        kind = "is no classifier" if known is None else "predicts several labels a row"
        raise ValueError(f"The file holds a {type(model).__name__}, which {kind}; only classifiers of one label are "
                         "attacked.")
    table, _ = make_table(columns, y, target, "classification")
    _put_back(model, table)
    order_columns(model, table)
    labels = table.target if known.dtype.kind in "iuf" else table.target.astype(str)
    labels = labels == "True" if known.dtype.kind == "b" else labels
    if set(labels.tolist()) - set(known.tolist()):
        raise ValueError(f"The target {target!r} holds {sorted(set(labels.tolist()) - set(known.tolist()))[0]!r}. The "
                         f"model's classes are {', '.join(map(str, known))}.")
    values = np.column_stack(list(table.numeric.values()))
    scaler = StandardScaler().fit(values)
    mean, scale = (dict(zip(table.numeric, part.tolist(), strict=True)) for part in (scaler.mean_, scaler.scale_))
    if hasattr(model, "feature_names_in_"):
        return Posed(on_prepared(model, scaler), scaler.transform(values), labels, Units(mean, scale, scale))
    return Posed(model, values, labels, Units(dict.fromkeys(mean, 0.0), dict.fromkeys(mean, 1.0), scale))


def _put_back(model: Any, table: Table) -> None:
    """Put numbers that the model reads back into a table that dropped them, such as a column that is constant here."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and getattr(model, "n_features_in_", None) != len(table.given):
        return
    wanted = list(table.given) if names is None else [str(name) for name in names]
    for name in wanted:
        values = None if name in table.numeric or name not in table.given else numbers_of(as_array(table.given[name]))
        if values is not None:
            table.numeric[name] = values[table.places]
    if names is None and set(wanted) == set(table.numeric):
        table.numeric = {name: table.numeric[name] for name in wanted}
