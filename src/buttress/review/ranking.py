"""Rows ranked anew by what a person decided: a fit that takes confirmed rows as right, from the last one.

The fit is the ridge regression of the robust estimators, on their features and with their law of wrong targets; of the
rows decided on the targets are fixed and certain, rows to be dropped have weight 0, and only of the others the law
says how likely each target is wrong. What it said of the rows decided on is then compared with what they were: of two
classes that are mixed up more often than it expects, it learns that.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from buttress.audit.protocols import Labels
from buttress.robust import RobustKernelClassifier, RobustKernelRegressor
from buttress.robust.design import fit_setting
from buttress.robust.judged import least_residual_scale, scaled_targets
from buttress.robust.label_fit import LabelTask, likeliest_fit
from buttress.solvers.contamination.label_law import explain_labels
from buttress.solvers.contamination.residual_law import Limits, explain, residuals_of
from buttress.solvers.run import Budget

Rows = NDArray[np.intp]
ROUNDS = 2  # fits after a batch of decisions
LEAST = 1e-9


@dataclass(frozen=True)
class Ranked:
    """What the fit says of each row (n,): the probability that its target is wrong, a score that orders equal ones,
    and the target expected."""

    probability: NDArray[np.float64]
    score: NDArray[np.float64]
    expected: Labels


class Ranking(Protocol):
    """A fit that learns from decisions."""

    def learn(self, decided: Rows, targets: Labels, dropped: Rows) -> Ranked:
        """Return what is thought of all rows, ``decided`` ones having these targets, ``dropped`` ones none."""


def ranking_of(
    X: NDArray[np.float64], y: Labels, *, classifies: bool, logarithms: bool = False, seed: int = 0
) -> Ranking:
    """Return the fit for prepared features X (n, d) and targets y (n,) as they were given."""
    with threadpool_limits(limits=1):
        return ClassRanking(X, y, seed) if classifies else NumberRanking(X, y, logarithms, seed)


class ClassRanking:
    """The fit of classes: scores without each row, to the labels decided and the likeliest of the others."""

    def __init__(self, X: NDArray[np.float64], y: Labels, seed: int):
        self.classes, self.codes = np.unique(y, return_inverse=True)
        self.design = fit_setting(RobustKernelClassifier(random_state=seed), X, alike=True).design()
        task = LabelTask(self.design, self.codes, len(self.classes), None, None, 1, Budget(None))
        self.targets = task.targets
        plain = likeliest_fit(task, self.codes, None, None)[0]
        self.alpha = plain.alpha
        self.first = explain_labels(plain.scores, self.codes)
        self.expected = self._likeliest_other(plain.scores)

    def learn(self, decided: Rows, targets: Labels, dropped: Rows) -> Ranked:
        n = len(self.codes)
        labels = self.codes.copy()
        labels[decided] = np.searchsorted(self.classes, targets)
        weights = np.ones(n)
        weights[dropped] = 0.0
        open_rows = np.setdiff1d(np.arange(n), np.concatenate([decided, dropped]))
        if not len(open_rows):
            return Ranked(np.zeros(n), np.zeros(n), self.classes[labels])
        wrong = np.zeros(n)
        fitted = labels.copy()
        rate = None
        with threadpool_limits(limits=1):
            for _ in range(ROUNDS):
                goal = self.targets[fitted]
                scores = goal - self.design.ridge.solve(goal, weights, self.alpha).loo
                law = explain_labels(scores[open_rows], self.codes[open_rows], rate)
                wrong[open_rows] += law.wrong / ROUNDS
                fitted[open_rows] = law.true_class(self.codes[open_rows])
                rate = law.rate
        other = self._likeliest_other(scores)
        wrong = _moved(wrong, self._odds(labels, decided, dropped, other))
        lead = scores[np.arange(n), other] - scores[np.arange(n), self.codes]
        return Ranked(wrong, lead, self.classes[np.where(lead > 0, other, self.codes)])

    def _likeliest_other(self, scores: NDArray[np.float64]) -> Rows:
        """Return the class with the highest score but for the one given."""
        others = scores.copy()
        others[np.arange(len(others)), self.codes] = -np.inf
        return others.argmax(axis=1)

    def _odds(self, labels: Rows, decided: Rows, dropped: Rows, other: Rows) -> NDArray[np.float64]:
        """Return by how much more often than expected labels such as each row's, taken for such another, were wrong.

        Counts are gamma distributed beforehand, with one wrong label found where one was expected.
        """
        C = len(self.classes)
        found = np.zeros((C, C))
        thought = np.zeros((C, C))
        known = np.concatenate([decided, dropped])
        was_wrong = np.concatenate([labels[decided] != self.codes[decided], np.ones(len(dropped), dtype=bool)])
        pair = self.codes[known], self.expected[known]
        np.add.at(found, pair, was_wrong)
        np.add.at(thought, pair, self.first.wrong[known])
        return ((found + 1) / (thought + 1))[self.codes, other]


class NumberRanking:
    """The fit of numbers: residuals without each row, weighted by how likely each target is right."""

    def __init__(self, X: NDArray[np.float64], y: Labels, logarithms: bool, seed: int):
        self.logarithms = logarithms
        self.y, self.middle, self.unit = scaled_targets(self._transformed(y))
        model = RobustKernelRegressor(random_state=seed).fit(X, self.y)
        self.design = fit_setting(RobustKernelRegressor(random_state=seed), X).design()
        self.alpha = model.alpha_
        self.right = 1 - model.outlier_proba_

    def _transformed(self, y: Labels) -> NDArray[np.float64]:
        return np.log(y.astype(float)) if self.logarithms else y.astype(float)

    def learn(self, decided: Rows, targets: Labels, dropped: Rows) -> Ranked:
        y = self.y.copy()
        y[decided] = (self._transformed(targets) - self.middle) / self.unit
        open_rows = np.setdiff1d(np.arange(len(y)), np.concatenate([decided, dropped]))
        limits = Limits(least_residual_scale(y))
        weights = self.right.copy()
        score = np.zeros(len(y))
        with threadpool_limits(limits=1):
            for _ in range(ROUNDS):
                weights[decided] = 1.0
                weights[dropped] = 0.0
                fit = self.design.ridge.solve(y, weights, self.alpha)
                if not len(open_rows):
                    break
                seen = residuals_of(fit, self.design.ridge).of(open_rows)
                known = explain(seen, limits)
                weights[open_rows] = known.responsibility
                score[open_rows] = np.abs(known.law.sigma(seen))
        self.right = weights.copy()
        wrong = np.zeros(len(y))
        wrong[open_rows] = 1 - weights[open_rows]
        expected = (y - fit.loo) * self.unit + self.middle
        return Ranked(wrong, score, np.exp(expected) if self.logarithms else expected)


def _moved(p: NDArray[np.float64], odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities with their odds multiplied."""
    p = np.clip(p, LEAST, 1 - LEAST)
    return p * odds / (1 - p + p * odds)
