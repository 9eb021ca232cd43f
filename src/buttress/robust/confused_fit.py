"""A fit to labels that are wrong in some directions, beside the one that takes all directions alike.

Starts from the leave-one-out scores of the fit to the labels as given. Where the law of ``confusion_law`` explains
these labels decisively better than the single rate does, fits of all rows to their likeliest classes under it (the
M-step, with the ridge under which the labels given are likeliest) alternate with the law learned from the scores that
leave each row out (the E-step). The likelihood after such fits is no evidence for the law: they were made to agree with
it, and where classes overlap a rare class is soon taken for wrong labels of a common one.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.robust.label_fit import LabelFit, LabelTask, feature_variance
from buttress.robust.tuning import RELABEL
from buttress.solvers.contamination.confusion_law import Confusion, confusion_steps, learn_confusion, one_rate
from buttress.solvers.contamination.label_law import Flips, label_margins
from buttress.solvers.contamination.tuning import CONFUSION
from buttress.solvers.run import run


@dataclass(frozen=True)
class Confused:
    """Coefficients of a fit, the scores (n, C) of each row left out, the law, the labels fitted to, and the ridge."""

    coef: Array
    scores: Array
    law: Confusion
    likely: NDArray[np.intp]
    alpha: float


def with_directions(task: LabelTask, found: LabelFit) -> LabelFit:
    """Return the fit ``found``, or one with a rate of wrong labels for each direction where it explains them better.

    A share given is taken at its word: labels are then wrong in all directions alike.
    """
    if task.share is not None or not task.design.regime.exact or task.budget.interrupted or task.budget.spent():
        return found
    law = learn_confusion(found.first, task.codes)
    found = replace(found, directed=law)
    n = len(task.codes)
    single = found.likelihood - np.log(n) / n  # a rate and a temperature
    if (law.criterion - single) * n <= CONFUSION.decisive or not believes_each_class(task, law, found.first):
        return found
    directed = confused_fit(task, found.first, law)
    if directed is None or not believes_each_class(task, directed.law, directed.scores):
        return found
    return replace(_as_label_fit(task, found, directed), true=law.true_chances(found.first, task.codes))


def believes_each_class(task: LabelTask, law: Confusion, scores: Array) -> bool:
    """Say whether at least half of the labels of each class are right under the law, by scores (n, C).

    With more of them wrong nothing says which rows are good: classes that overlap would do as well.
    """
    rows = np.arange(len(task.codes))
    right = np.bincount(task.codes, weights=law.true_chances(scores, task.codes)[rows, task.codes], minlength=task.C)
    return bool(np.all(right >= RELABEL.least_kept * np.bincount(task.codes, minlength=task.C)))


def _as_label_fit(task: LabelTask, found: LabelFit, directed: Confused) -> LabelFit:
    codes, law = task.codes, directed.law
    rows = np.arange(len(codes))
    wrong = 1 - law.true_chances(directed.scores, codes)[rows, codes]
    likelihood = float(np.log(law.joint(directed.scores, codes).sum(axis=1)).mean())
    flips = Flips(float(wrong.mean()), wrong, law.classes(directed.scores), likelihood)
    return replace(found, coef=directed.coef, weights=(directed.likely == codes).astype(np.float64),
                   margin=label_margins(directed.scores, codes), flips=flips, alpha=directed.alpha, clean=False,
                   n_iter=found.n_iter + RELABEL.rounds, likelihood=likelihood,
                   scores=directed.scores, confusion=law)


def confused_fit(task: LabelTask, scores: Array, law: Confusion) -> Confused | None:
    """Return the fit under a law of confusion, from the one of the leave-one-out scores (n, C) of the labels given.

    None where every direction has the rate 0, at first or in the end.
    """
    found = None
    for _ in range(RELABEL.rounds):
        if not law.directions() or (found is not None and task.budget.spent()):
            break
        found = _fitted(task, scores, law)
        scores, law = found.scores, found.law
        task.note(found.coef, law.objective)
    return found if law.directions() else None


def _fitted(task: LabelTask, scores: Array, law: Confusion) -> Confused:
    """Return the fit to the likeliest classes under ``law``, and the law of its scores."""
    codes = task.codes
    likely = law.true_chances(scores, codes).argmax(axis=1).astype(np.intp)
    targets = task.targets[likely]
    alpha = _best_alpha(task, targets, law) if task.alpha is None else float(task.alpha)
    fit = task.design.ridge.solve(targets, np.ones(len(codes)), alpha)
    left_out = targets - fit.loo
    part = CONFUSION.reopened
    start = (1 - part) * law.rates + part * one_rate(task.C, CONFUSION.most_given)
    return Confused(fit.coef, left_out, learn_confusion(left_out, codes, start), likely, alpha)


def _best_alpha(task: LabelTask, targets: Array, law: Confusion) -> float:
    """Return the ridge under whose scores the labels given are likeliest, the law learned anew for each."""
    alphas = RELABEL.ridges * feature_variance(task.design)
    rows = task.design.searched
    fits = task.design.ridge.path(targets, np.ones(len(targets)), alphas, rows)
    laws = [run(confusion_steps(targets[rows] - fit.loo, task.codes[rows], law), max_iter=CONFUSION.tried,
                warn=False, inner=True).state for fit in fits]
    return float(alphas[np.argmax([tried.objective for tried in laws])])
