"""A fit to labels that are wrong in some directions: laws of confusion and fits to the likeliest labels, in turn.

Starts from the leave-one-out scores of a fit to the labels as given. All rows are fitted to their likeliest classes
under the law, with the ridge under which the labels given are likeliest; the law is learned again from the scores that
leave each row out. The labels given are explained throughout, so that the criterion of a law can be compared with that
of any other, before or after.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.robust.design import Design
from buttress.robust.label_fit import ALPHAS, RELABELLED, feature_variance
from buttress.solvers.contamination.confusion_law import (
    Confusion,
    confusion_steps,
    learn_confusion,
    one_rate,
)
from buttress.solvers.run import Budget, run

TRIED = 8  # expectations at each ridge
REOPENED = 0.005  # of each class: rates of 0 that another fit may need to be learned again


@dataclass(frozen=True)
class Confused:
    """Coefficients of a fit, the scores (n, C) of each row left out, the law, the labels fitted to, and the ridge."""

    coef: Array
    scores: Array
    law: Confusion
    likely: NDArray[np.intp]
    alpha: float


def confused_fit(
    design: Design, codes: NDArray[np.intp], scores: Array, alpha: Any, budget: Budget
) -> Confused | None:
    """Return the fit to class numbers codes (n,) under a law of confusion, from leave-one-out scores (n, C).

    None where every direction has the rate 0.
    """
    law, found = learn_confusion(scores, codes), None
    for _ in range(RELABELLED):
        if not law.directions() or (found is not None and budget.spent()):
            break
        found = _fitted(design, codes, scores, law, alpha)
        scores, law = found.scores, found.law
    return found if law.directions() else None


def _fitted(design: Design, codes: NDArray[np.intp], scores: Array, law: Confusion, alpha: Any) -> Confused:
    """Return the fit to the likeliest classes under ``law``, and the law of its scores."""
    C = scores.shape[1]
    likely = law.true_chances(scores, codes).argmax(axis=1).astype(np.intp)
    targets, ones = (2.0 * np.eye(C) - 1)[likely], np.ones(len(codes))
    best = float(alpha) if alpha != "auto" else _best_alpha(design, codes, targets, law)
    fit = design.ridge.solve(targets, ones, best)
    left_out = targets - fit.loo
    start = (1 - REOPENED) * law.rates + REOPENED * one_rate(C, 0.5)
    return Confused(fit.coef, left_out, learn_confusion(left_out, codes, start), likely, best)


def _best_alpha(design: Design, codes: NDArray[np.intp], targets: Array, law: Confusion) -> float:
    """Return the ridge under whose scores the labels given are likeliest, the law learned anew for each."""
    alphas = ALPHAS * feature_variance(design)
    fits = design.ridge.path(targets, np.ones(len(codes)), alphas, None)
    found = [run(confusion_steps(targets - fit.loo, codes, law), max_iter=TRIED, warn=False).state for fit in fits]
    return float(alphas[np.argmax([law.objective for law in found])])
