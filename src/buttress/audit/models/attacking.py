"""How a kept model stands what an attacker may do: its accuracy on labelled rows, attacked and proven.

A threat on the columns of a table is read as one on the columns that the model's estimator takes: numbers in standard
deviations, and a group of 0/1 columns, or a code, for each category.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from buttress._types import Mask
from buttress.attacks import exact, pgd, worst_case
from buttress.audit.baselines import stands_in_box
from buttress.audit.fitted import on_prepared, order_columns
from buttress.audit.measuring.cells import QUERY_STARTS, QUERY_STEPS, has_gradients, has_scores
from buttress.audit.models.table_model import TableModel
from buttress.audit.protocols import Labels
from buttress.audit.reading.table import MISSING, make_table
from buttress.certificates import certified_within
from buttress.threats import Budget, Moves, ThreatModel, deviations, read_threat

ROWS = 500  # drawn of more: a 95% interval of an accuracy is then at most .09 wide
WORK = 3e5  # of the programs of trees, at each radius: about half a minute
WAYS = 200  # to swap a row with gaps or of a model that splits categories, around which numbers are moved by trying

Rows = NDArray[np.float64]


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
class _Posed:
    """An estimator, its rows and their classes, and how its columns come from those of a table.

    Numbers are (value - mean) / scale; ``deviation`` is that of each in the training rows. ``coded`` are the levels of
    each category, in the order of the columns behind the numbers: a column of codes each where ``native``, else a 0/1
    column for each level.
    """

    estimator: Any
    X: Rows
    y: Labels
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


def attack(
    model: object, columns: Mapping[str, object], y: object, target: str, eps: Sequence[float], *, rows: int = ROWS,
    seed: int = 0, swaps: int = 1, threat: ThreatModel | None = None,
) -> Robustness:
    """Attack a fitted classifier on labelled rows under multiples of a threat; the rows as they came are put in front.

    By default numbers are moved by ``eps`` standard deviations, whole ones by whole numbers, and at most ``swaps``
    columns of 0 and 1 and categories are swapped besides.

    Raises ValueError for regressions, models without scores, and data that do not suit the model.
    """
    posed = _posed(model, columns, y, target)
    allowed = _default(posed, swaps) if threat is None else threat
    inner = _behind(allowed, posed)
    if len(posed.X) > rows:
        chosen = np.sort(np.random.default_rng(seed).choice(len(posed.X), rows, replace=False))
        posed = replace(posed, X=posed.X[chosen], y=posed.y[chosen])
    swapping = inner.most_swaps if inner.categories else 0
    shares = sorted({0.0, *(float(share) for share in eps)} if swapping else {float(share) for share in eps} - {0.0})
    right = np.asarray(posed.estimator.predict(posed.X) == posed.y)
    stands, blind, how = [right], [False], "nothing"
    proofs: list[Mask | None] = [right]
    for share in shares:
        found = _attacked(posed, inner.scaled(share), stands[-1], seed)
        stands.append(found.stands)
        proofs.append(found.proven)
        blind.append(found.blind)
        how = found.how
    shown = [float(proof.mean()) for proof in proofs if proof is not None]
    known = shown if len(shown) == len(proofs) else None
    return Robustness([0.0, *shares], [0, *([swapping] * len(shares))], [float(each.mean()) for each in stands], known,
                      blind, how, len(posed.X), str(allowed))


@dataclass
class _Found:
    """Which rows stand an attack, which are proven to (None where no proof is known), and whether it was blind."""

    stands: Mask
    proven: Mask | None
    blind: bool
    how: str


def _attacked(posed: _Posed, threat: ThreatModel, right: Mask, seed: int) -> _Found:
    """Prove what can be proven of the rows that stand so far, and attack the others."""
    model, X, y = posed.estimator, posed.X, posed.y
    if np.isnan(X).any() or (posed.native and posed.coded):
        moves = read_threat(threat, np.nan_to_num(X), X)
        return _Found(right & _by_trying(model, X, y, moves, right, seed), None, False,
                      "corners, then column by column, around ways to swap")
    stands, proven, how = right.copy(), np.zeros(len(X), dtype=bool), "the exact attack"
    known: Mask | None = proven
    try:
        info = exact(model, X, y, threat=threat, max_work=WORK, return_info=True)[1]
        proven[:] = info.proven & ~info.success
        stands &= ~info.success
    except ValueError:  # no trees and not linear
        known, how = _certified(model, X, threat), ""
        proven = right & known if known is not None else proven
    left = np.flatnonzero(stands & ~proven)
    blind = False
    if len(left):
        gradients = has_gradients(model)
        if gradients:
            info = pgd(model, X[left], y[left], threat=threat, random_state=seed, return_info=True)[1]
        else:
            info = worst_case(model, X[left], y[left], threat=threat, steps=QUERY_STEPS, restarts=QUERY_STARTS,
                              random_state=seed, return_info=True)[1]
        stands[left] = ~info.success
        blind = 2 * int(info.blind.sum()) > int(stands.sum())
        tried = "projected gradient descent" if gradients else "the worst of several attacks by queries"
        how = f"{how}, then {tried}" if how else tried
    return _Found(stands, None if known is None else proven, blind, how or "proof alone")


def _certified(model: Any, X: Rows, threat: ThreatModel) -> Mask | None:
    """Say which rows are proven; None for a model without such proofs."""
    try:
        return certified_within(model, X, threat=threat)
    except ValueError as error:
        if "No certified radius" not in str(error):
            raise
        return None


def _by_trying(model: Any, X: Rows, y: Labels, moves: Moves, right: Mask, seed: int) -> Mask:
    """Say which rows stand random corners of the box, then the worst of each column in turn, around ways to swap."""
    stands = right.copy()
    for way in islice(moves.ways(), WAYS):
        rows = np.flatnonzero(stands)
        if not len(rows):
            break
        start, moving = moves.swapped(X[rows], way), moves.reach > 0
        low, high = (np.nan_to_num(side[rows]) for side in (moves.low, moves.high))
        box = (np.where(moving, np.maximum(start - moves.reach, low), start),
               np.where(moving, np.minimum(start + moves.reach, high), start))
        stands[rows] = stands_in_box(model, start, y[rows], box, seed)
    return stands


def _default(posed: _Posed, swaps: int) -> ThreatModel:
    """Return the threat to the columns of the table by default, in standard deviations of the training rows."""
    numbers: dict[Any, float | str | Budget] = {}
    categories: dict[Any, list[Any]] = {}
    for name, column in zip(posed.numeric, posed.X.T, strict=False):
        values = np.round(column[~np.isnan(column)] * posed.scale[name] + posed.mean[name], 9)
        if set(values.tolist()) <= {0.0, 1.0}:
            categories[name] = [0, 1]
        else:
            numbers[name] = Budget("1 sd", step=float((values % 1 == 0).all()))
    for name, levels in posed.coded.items():
        categories[name] = [level for level in levels if level != MISSING]
    return ThreatModel(numbers, categories, most_swaps=swaps)


def _behind(threat: ThreatModel, posed: _Posed) -> ThreatModel:
    """Return the same threat to the columns that the estimator takes, by place."""
    measured = [*threat.budgets, *(name for group in threat.one_hot for name in group)]
    wrong = [name for name in measured if name not in posed.scale]
    wrong += [name for name in threat.categories if name not in posed.scale and name not in posed.coded]
    if wrong:
        raise ValueError(f"The threat names {wrong[0]!r}, which is no such column of the model. Its numbers are "
                         f"{', '.join(posed.numeric)}; its categories {', '.join(posed.coded) or 'none'}.")
    place = {name: number for number, name in enumerate(posed.numeric)}
    numbers: dict[Any, float | str | Budget] = {}
    for name, budget in threat.budgets.items():
        share = deviations(budget.by) if isinstance(budget.by, str) else None
        by = float(budget.by) if share is None else share * posed.deviation[name]
        low, high = (posed.within(name, end) for end in (budget.low, budget.high))
        scale = posed.scale[name]
        numbers[place[name]] = Budget(by / scale, budget.step / scale, budget.direction, low, high)
    categories = dict(_swapped(name, levels, posed, place) for name, levels in threat.categories.items())
    for group in threat.one_hot:
        categories[tuple(place[name] for name in group)] = [
            [posed.within(name, value) for name, value in zip(group, row, strict=True)] for row in np.eye(len(group))]
    return ThreatModel(numbers, categories, most_swaps=threat.most_swaps, norm=threat.norm)


def _swapped(
    name: str, levels: Sequence[Any], posed: _Posed, place: Mapping[str, int]
) -> tuple[Any, list[Any]]:
    """Return the columns of one category by place, and what they may become."""
    if name in place:
        return place[name], [posed.within(name, level) for level in levels or [0, 1]]
    before = list(posed.coded)[: list(posed.coded).index(name)]
    known = posed.coded[name]
    unknown = [level for level in levels if level not in known]
    if unknown:
        raise ValueError(f"The threat lets {name!r} become {unknown[0]!r}, which the model has not seen. It knows "
                         f"{', '.join(map(str, known))}.")
    codes = [known.index(level) for level in levels or known]
    if posed.native:
        return len(place) + len(before), codes
    start = len(place) + sum(len(posed.coded[other]) for other in before)
    return tuple(range(start, start + len(known))), np.eye(len(known))[codes].tolist()


def _posed(model: object, columns: Mapping[str, object], y: object, target: str) -> _Posed:
    """Return the estimator, its rows in standard deviations and their classes."""
    if isinstance(model, TableModel):
        if model.task != "classification":
            raise ValueError(f"The model predicts numbers ({model.target}). Attacks are on classifiers.")
        labels = model.codes_of(y, target)  # type: ignore[arg-type]
        prepare, estimator = model.pipeline[0], model.pipeline[-1]
        X = np.asarray(prepare.transform(model.rows_of(columns)), dtype=np.float64)
        posed = _of_table(estimator, X, labels, prepare, model)
    else:
        posed = _posed_foreign(model, columns, y, target)
    if not has_scores(posed.estimator):
        raise ValueError(f"{type(posed.estimator).__name__} gives labels only: an attack has no scores to go by.")
    return posed


def _of_table(estimator: Any, X: Rows, y: Labels, prepare: Any, model: TableModel) -> _Posed:
    """Return a model of a table, whose preparation gives units and levels."""
    scaler, coder = (prepare.named_transformers_.get(part) for part in ("numeric", "categorical"))
    native = not hasattr(scaler, "steps")
    scaler = scaler if native else scaler[-1]
    mean, scale = ((dict(zip(model.numeric, part, strict=True)) if model.numeric else {})
                   for part in (getattr(scaler, "mean_", []), getattr(scaler, "scale_", [])))
    levels = [known.tolist() for known in coder.categories_] if model.categorical else []
    return _Posed(estimator, X, y, mean, scale, scale, dict(zip(model.categorical, levels, strict=True)), native)


def _posed_foreign(model: Any, columns: Mapping[str, object], y: object, target: str) -> _Posed:
    """Return the same for a model that was fitted elsewhere, on numeric columns; the data give the units."""
    known = getattr(model, "classes_", None)
    if known is None:
        raise ValueError(f"The file holds a {type(model).__name__}, which is no classifier; only those are attacked.")
    table, _ = make_table(columns, y, target, "classification")
    order_columns(model, table)
    labels = table.target if known.dtype.kind in "iufb" else table.target.astype(str)
    if set(labels.tolist()) - set(known.tolist()):
        raise ValueError(f"The target {target!r} holds {sorted(set(labels.tolist()) - set(known.tolist()))[0]!r}. The "
                         f"model's classes are {', '.join(map(str, known))}.")
    values = np.column_stack(list(table.numeric.values()))
    scaler = StandardScaler().fit(values)
    mean, scale = (dict(zip(table.numeric, part.tolist(), strict=True)) for part in (scaler.mean_, scaler.scale_))
    if hasattr(model, "feature_names_in_"):
        return _Posed(on_prepared(model, scaler), scaler.transform(values), labels, mean, scale, scale)
    return _Posed(model, values, labels, dict.fromkeys(mean, 0.0), dict.fromkeys(mean, 1.0), scale)
