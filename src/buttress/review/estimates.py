"""What a review works out from decisions: the rows ranked anew, how many wrong ones are left, and cells out of line.

The rows are ranked anew by a fit that takes confirmed rows as right, from the last one. The fit is the ridge regression
of the robust estimators, on their features and with their law of wrong targets; of the rows decided on the targets are
fixed and certain, rows to be dropped have weight 0. By how much the decisions move its verdict on a row moves that of
the audit: without decisions the order is the audit's. What the audit said of the rows decided on is compared with what
they were: of two classes that are mixed up more often than it thought, it is learned.

How many wrong rows are left: an interval from the rows drawn at random alone.

Rows that were chosen by suspicion say nothing of the others. A row drawn at random from those not decided on is wrong
with probability p = (W - found) / others, where W is how many rows of the table a person would call wrong, ``found`` of
them before the draw, and ``others`` rows were there to be drawn. For each W that is supposed, a bet on the draws, whose
odds are fair if W is true, multiplies the stake by (q / p) for a wrong row and (1 - q) / (1 - p) for a right one. The
stake never grows beyond 1 / a with a probability of more than a, at whatever time one looks, and however the rows
between the draws were chosen (Ville 1939; Waudby-Smith & Ramdas, Confidence sequences for sampling without replacement,
2020). So the W at which it has grown so far are refused. A Clopper-Pearson interval would promise less: that of
a number of draws fixed beforehand, from rows that do not change.
"""

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from threadpoolctl import threadpool_limits

from buttress._types import Array, Labels, Rows
from buttress.audit.measuring.judging import Judgement
from buttress.audit.reading.table import DataTable
from buttress.robust import RobustKernelRegressor
from buttress.robust.cells import deviating_cells
from buttress.robust.design import Setting, several_widths
from buttress.robust.judged import least_residual_scale, scaled_targets
from buttress.robust.label_fit import LabelTask, as_given
from buttress.solvers.contamination.label_law import explain_labels
from buttress.solvers.contamination.residual_law import LawLimits, explain, residuals_of
from buttress.solvers.run import SharedBudget

ROUNDS = 2  # fits after a batch of decisions: the second is to labels corrected by the first
LEAST = 1e-9  # distance of a probability from 0 and 1, so that its log odds are finite


class Ranking(ABC):
    """A fit that learns from decisions; ``before`` is its verdict without any, ``audited`` (n,) the audit's."""

    audited: Array
    before: Judgement

    @abstractmethod
    def fitted(self, decided: Rows, targets: Labels, dropped: Rows) -> Judgement:
        """Return what a fit says of all rows, ``decided`` ones having these targets, ``dropped`` ones none."""

    @abstractmethod
    def odds(self, decided: Rows, targets: Labels, dropped: Rows) -> Array:
        """Return by how much more often than thought targets such as each row's were wrong."""

    def learn(self, decided: Rows, targets: Labels, dropped: Rows) -> Judgement:
        """Return what is thought of all rows after these decisions."""
        with threadpool_limits(limits=1):
            now = self.fitted(decided, targets, dropped)
        moved = _log_odds(now.probability) - _log_odds(self.before.probability)
        probability = expit(_log_odds(self.audited) + moved + np.log(self.odds(decided, targets, dropped)))
        return replace(now, probability=probability)


def ranking_of(
    X: Array, y: Labels, audited: Array, *, classifies: bool, logarithms: bool = False, seed: int = 0
) -> Ranking:
    """Return the fit for prepared features X (n, d), the targets y (n,) given and the audit's verdicts (n,)."""
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the audit's fit gave the same
        ranking = ClassRanking(X, y, seed) if classifies else NumberRanking(X, y, logarithms, seed)
        none = np.empty(0, dtype=np.intp)
        ranking.audited = audited
        ranking.before = ranking.fitted(none, y[:0], none)
    return ranking


class ClassRanking(Ranking):
    """The fit of classes: scores without each row, to the labels decided and the likeliest of the others."""

    def __init__(self, X: Array, y: Labels, seed: int):
        self.classes, self.codes = np.unique(y, return_inverse=True)
        self.design = Setting(X, several_widths(X), "auto", np.random.RandomState(seed), alike=True).design()
        task = LabelTask(self.design, self.codes, len(self.classes), None, None, SharedBudget(None))
        self.targets = task.targets
        self.alpha = as_given(task)[0].alpha

    def fitted(self, decided: Rows, targets: Labels, dropped: Rows) -> Judgement:
        rows = np.arange(len(self.codes))
        labels = self._labels(decided, targets)
        weights = np.where(np.isin(rows, dropped), 0.0, 1.0)
        fitted, wrong, rate = labels.copy(), np.zeros(len(rows)), None
        for _ in range(ROUNDS):
            goal = self.targets[fitted]
            scores = goal - self.design.ridge.solve(goal, weights, self.alpha).loo
            # the law is of all labels as they were given: those found wrong show what the others look like
            law = explain_labels(scores, self.codes, rate)
            wrong += law.wrong / ROUNDS
            rate = law.rate
            fitted = law.true_class(self.codes)
            fitted[decided] = labels[decided]
        return Judgement(wrong, -scores[rows, self.codes], self.classes[scores.argmax(axis=1)])

    def _labels(self, decided: Rows, targets: Labels) -> Rows:
        labels = self.codes.copy()
        labels[decided] = np.searchsorted(self.classes, targets)
        return labels

    def odds(self, decided: Rows, targets: Labels, dropped: Rows) -> Array:
        """Counts are gamma distributed beforehand, with one wrong label found where one was thought of."""
        expected = np.searchsorted(self.classes, self.before.expected)
        found = np.ones((len(self.classes), len(self.classes)))
        thought = found.copy()
        known = np.concatenate([decided, dropped])
        wrong = self._labels(decided, targets)[known] != self.codes[known]
        wrong[len(decided) :] = True
        pair = self.codes[known], expected[known]
        np.add.at(found, pair, wrong)
        np.add.at(thought, pair, self.audited[known])
        return np.asarray((found / thought)[self.codes, expected])


class NumberRanking(Ranking):
    """The fit of numbers: residuals without each row, weighted by how likely each target is right."""

    def __init__(self, X: Array, y: Labels, logarithms: bool, seed: int):
        self.logarithms = logarithms
        self.y, self.middle, self.unit = scaled_targets(self._transformed(y))
        self.design = Setting(X, several_widths(X), "auto", np.random.RandomState(seed), alike=False).design()
        model = RobustKernelRegressor(random_state=seed).fit(X, self.y)
        self.alpha = model.alpha_
        self.weights = model.weights_.copy()

    def _transformed(self, y: Labels) -> Array:
        return np.log(y.astype(float)) if self.logarithms else y.astype(float)

    def fitted(self, decided: Rows, targets: Labels, dropped: Rows) -> Judgement:
        y = self.y.copy()
        y[decided] = (self._transformed(targets) - self.middle) / self.unit
        limits = LawLimits(least_residual_scale(y))
        for _ in range(ROUNDS):
            self.weights[decided] = 1.0
            self.weights[dropped] = 0.0
            fit = self.design.ridge.solve(y, self.weights, self.alpha)
            expected = y - fit.loo
            seen = replace(residuals_of(fit, self.design.ridge), r=self.y - expected)  # of targets as they were given
            known = explain(seen, limits)
            self.weights = np.minimum(known.law.weights(seen, known.responsibility), 1)
        score = np.abs(known.law.sigma(seen))
        expected = expected * self.unit + self.middle
        return Judgement(1 - known.responsibility, score, np.exp(expected) if self.logarithms else expected)

    def odds(self, decided: Rows, targets: Labels, dropped: Rows) -> Array:
        """Numbers have no kinds that could be mixed up."""
        return np.ones(len(self.y))


def _log_odds(p: Array) -> Array:
    return np.asarray(logit(np.clip(p, LEAST, 1 - LEAST)))


@dataclass(frozen=True)
class Draw:
    """A row drawn at random: from how many, after how many wrong ones were found, and whether it is wrong itself.

    A row on which the person is unsure may be either: ``perhaps``, and ``found_at_most`` counts such rows too.
    """

    others: int
    found: int
    found_at_most: int
    wrong: bool
    perhaps: bool


@dataclass(frozen=True)
class Left:
    """The estimated number of wrong rows among ``rows`` that nobody decided on, and its 90% interval."""

    rows: int
    estimate: float
    low: int
    high: int
    drawn: int


def wrong_left(draws: Sequence[Draw], rows: int, found: int, found_at_most: int) -> Left:
    """Return how many of ``rows`` not decided on are wrong, where ``found`` (at most ``found_at_most``) were.

    Examples
    --------
    >>> draws = [Draw(100 - 10 * k, 5, 5, False, False) for k in range(8)]
    >>> wrong_left(draws, 20, 5, 5)
    Left(rows=20, estimate=0.0, low=0, high=18, drawn=8)
    """
    others = np.array([draw.others for draw in draws], dtype=float)
    low = _ends(others, np.array([draw.found for draw in draws]), np.array([draw.wrong for draw in draws], dtype=bool),
                rows, found)
    high = _ends(others, np.array([draw.found_at_most for draw in draws]),
                 np.array([draw.perhaps for draw in draws], dtype=bool), rows, found_at_most)
    estimate = rows / 2
    if draws:
        hits = sum((draw.wrong + draw.perhaps) / 2 + draw.found / draw.others for draw in draws)
        estimate = float(np.clip(hits / (1 / others).sum() - found, low[0], high[1]))
    return Left(rows, estimate, low[0], high[1], len(draws))


def _ends(
    others: NDArray[np.float64], found: NDArray[np.intp], wrong: NDArray[np.bool_], rows: int, now: int
) -> tuple[int, int]:
    """Return the fewest and the most wrong rows left that the draws do not refuse, by bisection: stakes are monotone.
    """
    limit = 2 / (1 - 0.9)  # of an interval of 90%, for each of its ends

    def refused(left: int, bets: NDArray[np.float64], on: NDArray[np.float64]) -> bool:
        p = np.clip((now + left - found) / others, 0, 1)
        return _stake(p, wrong, bets, on) >= limit

    # q as multiples of p, and what is staked on each. Half is on no wrong row at all: that is what a review nears.
    more = np.array([1.5, 2.0, 3.0, 5.0, 10.0, 30.0]), np.full(6, 1 / 6)
    fewer = np.array([0.0, 0.1, 0.25, 0.4, 0.55, 0.7]), np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    fewest = bisect_left(range(rows), True, key=lambda left: not refused(left, *more))
    most = bisect_left(range(1, rows + 1), True, key=lambda left: refused(left, *fewer))
    return min(fewest, most), max(fewest, most)


def _stake(
    p: NDArray[np.float64], wrong: NDArray[np.bool_], bets: NDArray[np.float64], on: NDArray[np.float64]
) -> float:
    """Return what a stake of 1 has become."""
    if np.any(np.where(wrong, p == 0, p == 1)):
        return np.inf  # such a draw cannot be
    q = np.minimum(bets[:, None] * p, 1)
    chance, fair = np.where(wrong, q, 1 - q), np.where(wrong, p, 1 - p)
    with np.errstate(divide="ignore"):
        grown = np.log(chance / fair).sum(axis=1)
    return float(on @ np.exp(np.minimum(grown, 700)))


@dataclass(frozen=True)
class WrongCell:
    """What stands in a cell, and what the other columns of its row predict."""

    value: float
    expected: float


def wrong_cells(table: DataTable, rows: NDArray[np.intp]) -> dict[int, dict[str, WrongCell]]:
    """Return the cells of numbers at fault in some rows by the place of the row and by column, others left out.

    A gap counts as the median of its column.
    """
    names = list(table.numeric)
    if not names:
        return {}
    columns = [column[rows] for column in table.numeric.values()]
    X = np.column_stack([np.nan_to_num(column, nan=np.nanmedian(every)) for column, every in
                         zip(columns, table.numeric.values(), strict=True)])
    cells = deviating_cells(X)
    return {int(rows[i]): {names[j]: WrongCell(float(X[i, j]), float(expected))
                           for j, expected in zip(wrong, cells.expected[i], strict=True)}
            for i, wrong in enumerate(cells.columns) if len(wrong)}
