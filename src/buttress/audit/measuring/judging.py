"""Judging more rows than a robust fit is made of: it is fitted to some, and judges the others, which it has not seen.

Each row is judged by a fit without it: those it was fitted to by leaving them out, the others as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from buttress.audit.measuring.suspicion import BORDERLINE, COMPARED, Robust, Verdicts
from buttress.audit.protocols import Labels
from buttress.robust import RobustKernelClassifier
from buttress.solvers.contamination.confusion_law import true_chances
from buttress.solvers.contamination.label_law import label_margins

CHUNK = 10_000  # rows judged at a time
Rows = NDArray[np.intp]


@dataclass
class Judgement:
    """What a fit says of rows it has not seen: arrays of length n."""

    expected: Labels
    probability: NDArray[np.float64]
    score: NDArray[np.float64]


def judged_by(model: Robust, X: NDArray[np.float64], y: Labels, logarithms: bool) -> Judgement:
    """Return the verdict of a fit on rows X (n, d) with targets y (n,) that it was not fitted to."""
    if isinstance(model, RobustKernelClassifier):
        return _of_classes(model, X, y)
    targets = np.log(y) if logarithms else y
    expected = model.predict(X)
    score = np.abs(targets - expected) / model.scale_
    # the probability that rows of the fit have whose distance is the same; it grows with the distance
    order = np.argsort(np.abs(model.loo_sigma_))
    known = np.maximum.accumulate(model.outlier_proba_[order])
    probability = np.interp(score, np.abs(model.loo_sigma_)[order], known)
    return Judgement(np.exp(expected) if logarithms else expected, probability, score)


def _of_classes(model: RobustKernelClassifier, X: NDArray[np.float64], y: Labels) -> Judgement:
    """Judge labels by Bayes' rule: P(class | x) of the model, and P(label given | class) of its ``confusion_``."""
    codes = np.searchsorted(model.classes_, y)
    rows = np.arange(len(y))
    proba = model.predict_proba(X)
    wrong = 1 - true_chances(proba, model.confusion_, codes)[rows, codes]
    return Judgement(model.classes_[proba.argmax(axis=1)], wrong, -label_margins(proba, codes))


@dataclass
class Jury:
    """The verdicts of one fit on the rows of a table, first those it was fitted to, then others.

    ``prepare`` maps row numbers of the table to prepared features; ``first`` holds the verdicts on ``fitted``, the rows
    of the fit; ``waiting`` are those still to be judged.
    """

    model: Robust
    prepare: Callable[[Rows], NDArray[np.float64]]
    target: Labels
    fitted: Rows
    first: Verdicts
    waiting: Rows
    logarithms: bool
    done: list[Rows] = field(default_factory=list)
    found: list[Judgement] = field(default_factory=list)
    near: list[NDArray[np.intp]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index = NearestNeighbors(n_neighbors=self.first.near.shape[1]).fit(self.prepare(self.fitted[:COMPARED]))

    def go_on(self) -> None:
        """Judge some of the waiting rows."""
        rows, self.waiting = self.waiting[:CHUNK], self.waiting[CHUNK:]
        X = self.prepare(rows)
        verdict = judged_by(self.model, X, self.target[rows], self.logarithms)
        near = np.zeros((len(rows), self._index.n_neighbors), dtype=np.int32)
        doubtful = verdict.probability >= BORDERLINE
        if doubtful.any():
            near[doubtful] = self._index.kneighbors(X[doubtful], return_distance=False)
        self.done.append(rows)
        self.found.append(verdict)
        self.near.append(near)

    def verdicts(self, held_out: Rows) -> tuple[Verdicts, Rows]:
        """Return the verdicts on all rows judged, and those rows, the ones ``held_out`` from the models last."""
        rows = np.concatenate([self.fitted, *self.done])
        order = np.argsort(np.isin(rows, held_out), kind="stable")
        place = np.empty(len(rows), dtype=np.intp)
        place[order] = np.arange(len(rows))
        first = self.first
        alone = np.concatenate([first.alone, np.zeros(len(rows) - len(self.fitted), dtype=bool)])
        probability = np.concatenate([first.probability, *(one.probability for one in self.found)])
        all_of = Verdicts(
            self.target[rows][order], np.concatenate([first.expected, *(one.expected for one in self.found)])[order],
            probability[order], np.concatenate([first.score, *(one.score for one in self.found)])[order], alone[order],
            place[np.concatenate([first.near, *self.near])[order]],
            first.share, len(held_out), first.classifies, first.interval)
        return all_of, rows[order]
