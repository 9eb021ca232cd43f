"""Rows ranked anew by what a person decided: a fit that takes confirmed rows as right, from the last one.

The fit is the ridge regression of the robust estimators, on their features and with their law of wrong targets; of the
rows decided on the targets are fixed and certain, rows to be dropped have weight 0. By how much the decisions move its
verdict on a row moves that of the audit: without decisions the order is the audit's. What the audit said of the rows
decided on is compared with what they were: of two classes that are mixed up more often than it thought, it is learned.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit
from threadpoolctl import threadpool_limits

from buttress._types import Array, Labels, Rows
from buttress.audit.measuring.judging import Judgement
from buttress.robust import RobustKernelClassifier, RobustKernelRegressor
from buttress.robust.design import fit_setting
from buttress.robust.judged import least_residual_scale, scaled_targets
from buttress.robust.label_fit import LabelTask, as_given
from buttress.solvers.contamination.label_law import explain_labels
from buttress.solvers.contamination.residual_law import LawLimits, explain, residuals_of
from buttress.solvers.run import Budget

ROUNDS = 2  # fits after a batch of decisions
LEAST = 1e-9


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
        self.design = fit_setting(RobustKernelClassifier(random_state=seed), X, alike=True).design()
        task = LabelTask(self.design, self.codes, len(self.classes), None, None, Budget(None))
        self.targets = task.targets
        self.alpha = as_given(task)[0].alpha

    def fitted(self, decided: Rows, targets: Labels, dropped: Rows) -> Judgement:
        rows = np.arange(len(self.codes))
        labels = self._labels(decided, targets)
        weights = np.ones(len(rows))
        weights[dropped] = 0.0
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
        model = RobustKernelRegressor(random_state=seed)
        self.design = fit_setting(model, X).design()
        model.fit(X, self.y)
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
