"""From a design and class numbers to the likeliest labels: one fit to those given, one to those that its law believes.

The law (``label_law``) is that of the scores of each row left out of fits to the labels as given, at all ridges. What
it finds likelier wrong than right is fitted as the likeliest other class: the rows named are those fitted otherwise.

On landmark features a likelihood that allows for wrong labels takes the place of both. Where labels are wrong in some
directions only, fits of all rows to their likeliest classes (the M-step, with the ridge under which the labels given
are likeliest) alternate with the law of ``confusion_law`` learned from the scores that leave each row out (the E-step).
Only the fit to the labels as given is evidence for that law: later fits were made to agree with it, and where classes
overlap a rare class is soon taken for wrong labels of a common one.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.features.made import FeaturesOfRows
from buttress.robust.design import Design, Regime
from buttress.robust.judged import chosen_inliers
from buttress.robust.tuning import RELABEL
from buttress.solvers.contamination.confusion_law import Confusion, confusion_steps, learn_confusion, one_rate
from buttress.solvers.contamination.label_law import Flips, explain_at_ridges, explain_labels, label_margins
from buttress.solvers.contamination.noisy_logistic import NoisyLogistic
from buttress.solvers.contamination.tuning import CONFUSION
from buttress.solvers.run import Budget, Step, run


@dataclass(frozen=True)
class LabelTask:
    """What is to be fitted: class numbers codes (n,) below C on a design.

    ``share`` is the rate of wrong labels and ``alpha`` the ridge, None where they are to be found.
    """

    design: Design
    codes: NDArray[np.intp]
    C: int
    share: float | None
    alpha: float | None
    budget: Budget
    targets: Array = field(init=False)  # (C, C): those of each class, 1 for itself and -1 for the others

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", 2.0 * np.eye(self.C) - 1)

    def note(self, coef: Array, likelihood: float) -> None:
        """Report a fit of all rows, with the log likelihood per row, to the callbacks of the estimator."""
        if not self.budget.stopped:
            self.budget.note(Step((self.design, coef), objective=-likelihood))


@dataclass(frozen=True)
class Scored:
    """A fit: coefficients, scores (n, C) of each row left out, ridge, and the weights (n,) of the labels given."""

    coef: Array
    scores: Array
    alpha: float
    weight: Array


@dataclass(frozen=True)
class LabelFit:
    """The last fit to all rows, the law of the labels, and how each ridge tried votes on them, (ridges, n).

    ``likelihood`` is the log likelihood per row of labels before any was changed, so that fits can be compared.
    ``first`` holds the leave-one-out scores (n, C) of the fit to them, and ``true`` the probabilities (n, C) of the
    true classes that follow from these and the labels: later fits were made to agree with what the law says is wrong.
    ``confusion`` is the law of the labels by true class, None where all directions are alike; ``directed`` is that
    learned from ``first``, taken or not, None where none was.
    """

    last: Scored
    flips: Flips
    votes: NDArray[np.bool_]
    n_iter: int
    likelihood: float
    first: Array
    true: Array
    confusion: Confusion | None = None
    directed: Confusion | None = None


def fit_labels(task: LabelTask) -> LabelFit:
    """Fit the labels given, then those that are likeliest under the law of that fit's scores.

    On landmark features that are kept, logistic regression that allows for wrong labels is fitted instead.
    """
    features = task.design.features
    if features is not None and not features.remade:
        found = fit_many_labels(task, features)
        assert found is not None, "without a rival a fit is found"
        return found
    plain, flips, tried = as_given(task)
    task.note(plain.coef, flips.likelihood)
    votes = np.array([label_margins(scores, task.codes) > 0 for scores in tried])
    true = flips.true_chances(task.codes)
    found = LabelFit(plain, flips, votes, 1, flips.likelihood, plain.scores, true)
    fitted = believed(flips.wrong, true, task.codes, task.share)
    if np.array_equal(fitted, task.codes):
        return found
    last, _, _ = _likeliest(task, fitted, flips.rate)
    task.note(last.coef, flips.likelihood)
    return replace(found, last=last, n_iter=2)


def as_given(task: LabelTask) -> tuple[Scored, Flips, list[Array]]:
    """Return the fit to the labels given, at the ridge under which they are likeliest, and their law.

    It is that of all ridges tried, whose scores (n, C) are the third result; on landmark features of one. A law under
    which most labels are wrong says nothing, as where a class has one row, which no fit without it can expect.
    """
    codes = task.codes
    plain, flips, tried = _likeliest(task, codes, task.share)
    if task.design.regime is not Regime.EXACT:
        tried = [plain.scores]
        flips = explain_labels(plain.scores, codes, task.share)
    if task.share is None and np.mean(flips.wrong > 0.5) > CONFUSION.most_given:
        flips = explain_at_ridges(tried, codes, 0.0)
    return plain, flips, tried


def _likeliest(
    task: LabelTask, fitted: NDArray[np.intp], rate: float | None
) -> tuple[Scored, Flips, list[Array]]:
    """Return the fit to these classes (n,) whose scores make the labels given likeliest, the law, and all scores tried.

    Wrong labels are allowed for, at a ``rate`` that is given or to be found.
    """
    alphas, tried = _scores_at_ridges(task, fitted, task.alpha)
    flips = explain_at_ridges(tried, task.codes[task.design.searched], rate)
    return fit_to(task, fitted, float(alphas[flips.at])), flips, tried


def believed(wrong: Array, true: Array, codes: NDArray[np.intp], share: float | None) -> NDArray[np.intp]:
    """Return the labels given, (n,), with those likelier wrong than right, or this ``share``, the likeliest other ones.

    ``wrong`` (n,) and ``true`` (n, C) are the probabilities that the label is wrong and of the true classes.
    """
    others = true.copy()
    others[np.arange(len(codes)), codes] = -1.0
    return np.where(chosen_inliers(wrong, share), codes, others.argmax(axis=1))


def fit_many_labels(task: LabelTask, features: FeaturesOfRows, rival: Array | None = None) -> LabelFit | None:
    """Fit logistic regression that allows for wrong labels, on landmark features; votes are of the ridges tried.

    None where scores ``rival`` (n, C) explain held-out labels as well.
    """
    alphas = RELABEL.logistic * task.design.unit if task.alpha is None else np.array([float(task.alpha)])
    solver = NoisyLogistic(features, task.codes, task.C, task.design.groups, task.budget)
    found = solver.fit(alphas, task.share, rival)
    if found is None:
        return None
    task.note(found.coef, found.flips.likelihood)
    only = Scored(found.coef, found.scores, found.alpha, found.weight)
    flips = found.flips
    return LabelFit(only, flips, found.votes, found.n_iter, flips.likelihood, found.scores,
                    flips.true_chances(task.codes))


def fit_to(task: LabelTask, fitted: NDArray[np.intp], alpha: float) -> Scored:
    """Return the fit of all rows to these classes (n,)."""
    targets = task.targets[fitted]
    fit = task.design.ridge.solve(targets, np.ones(len(fitted)), alpha)
    return Scored(fit.coef, targets - fit.loo, alpha, (fitted == task.codes).astype(np.float64))


def _scores_at_ridges(
    task: LabelTask, fitted: NDArray[np.intp], alpha: float | None
) -> tuple[Array, list[Array]]:
    """Return the ridges to try and the scores of the rows of the search left out at each."""
    targets = task.targets[fitted]
    rows = task.design.searched
    alphas = RELABEL.ridges * feature_variance(task.design) if alpha is None else np.array([float(alpha)])
    fits = task.design.ridge.path(targets, np.ones(len(fitted)), alphas, rows)
    return alphas, [targets[rows] - fit.loo for fit in fits]


def feature_variance(design: Design) -> float:
    """Return the mean squared distance of a row from the mean of all in feature space."""
    return float(design.coarse.Z.var(axis=0).sum()) or design.unit


def with_directions(task: LabelTask, found: LabelFit) -> LabelFit:
    """Return the fit ``found``, or one with a rate of wrong labels for each direction where it explains them better.

    A share given is taken at its word: labels are then wrong in all directions alike.
    """
    exact = task.design.regime is Regime.EXACT
    if task.share is not None or not exact or task.budget.interrupted or task.budget.spent():
        return found
    codes = task.codes
    law = learn_confusion(found.first, codes)
    found = replace(found, directed=law)
    if law.lead(found.likelihood, len(codes)) <= CONFUSION.decisive:
        return found
    directed = confused_fit(task, found.first, law)
    if directed is None or not directed[1].tells_classes():
        return found
    before, final = directed
    true = final.true_chances(before.scores, codes)
    wrong = 1 - true[np.arange(len(codes)), codes]
    last = fit_to(task, believed(wrong, true, codes, None), before.alpha)
    likelihood = float(np.log(final.joint(before.scores, codes).sum(axis=1)).mean())
    task.note(last.coef, likelihood)
    return replace(found, last=last, n_iter=found.n_iter + RELABEL.rounds + 1,
                   flips=Flips(float(wrong.mean()), wrong, final.classes(before.scores), likelihood),
                   likelihood=likelihood, confusion=final, true=law.true_chances(found.first, codes))


def confused_fit(task: LabelTask, scores: Array, law: Confusion) -> tuple[Scored, Confusion] | None:
    """Return the fit under a law of confusion, from the one of the leave-one-out scores (n, C) of the labels given.

    None where every direction has the rate 0, at first or in the end.
    """
    found = None
    part = 0.01
    for _ in range(RELABEL.rounds):
        if not law.directions() or (found is not None and task.budget.spent()):
            break
        likely = law.true_chances(scores, task.codes).argmax(axis=1).astype(np.intp)
        found = fit_to(task, likely, _best_alpha(task, likely, law) if task.alpha is None else float(task.alpha))
        scores = found.scores
        start = (1 - part) * law.rates + part * one_rate(task.C, CONFUSION.most_given)
        law = learn_confusion(scores, task.codes, start)
        task.note(found.coef, law.objective)
    return (found, law) if found is not None and law.directions() else None


def _best_alpha(task: LabelTask, likely: NDArray[np.intp], law: Confusion) -> float:
    """Return the ridge under whose scores the labels given are likeliest, the law learned anew for each."""
    alphas, tried = _scores_at_ridges(task, likely, None)
    codes = task.codes[task.design.searched]
    laws = [run(confusion_steps(scores, codes, law), max_iter=8, warn=False, inner=True).state
            for scores in tried]
    return float(alphas[np.argmax([each.objective for each in laws])])
