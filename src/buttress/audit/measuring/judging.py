"""Judging more rows than a robust fit is made of: it is fitted to some, and judges the others, which it has not seen.

Each row is judged by a fit without it: those it was fitted to by leaving them out, the others as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Labels
from buttress.audit.measuring.suspicion import Robust, Verdicts
from buttress.robust import RobustKernelClassifier
from buttress.solvers.contamination.confusion_law import true_chances
from buttress.solvers.contamination.label_law import label_margins

CHUNK = 10_000  # rows judged at a time


@dataclass(frozen=True)
class Judgement:
    """What a fit says of each row (n,): the probability that its target is wrong, a score that orders equal ones, and
    the target expected."""

    probability: NDArray[np.float64]
    score: NDArray[np.float64]
    expected: Labels


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
    return Judgement(probability, score, np.exp(expected) if logarithms else expected)


def _of_classes(model: RobustKernelClassifier, X: NDArray[np.float64], y: Labels) -> Judgement:
    """Judge labels by Bayes' rule: P(class | x) of the model, and P(label given | class) of its ``confusion_``."""
    codes = np.searchsorted(model.classes_, y)
    rows = np.arange(len(y))
    proba = model.predict_proba(X)
    wrong = 1 - true_chances(proba, model.confusion_, codes)[rows, codes]
    return Judgement(wrong, -label_margins(proba, codes), model.classes_[proba.argmax(axis=1)])


def with_others(first: Verdicts, found: Sequence[Judgement], given: Labels) -> Verdicts:
    """Return the verdicts on the rows of the fit, then on the others; ``given`` (n,) are the targets of both."""

    def joined(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(first, name), *(getattr(one, name) for one in found)])

    alone = np.concatenate([first.alone, np.zeros(len(given) - len(first.alone), dtype=bool)])
    return replace(first, given=given, expected=joined("expected"), probability=joined("probability"),
                   score=joined("score"), alone=alone)
