"""From a design and class numbers to the likeliest labels: one fit to those given, one to those that its law believes.

The law (``label_law``) is that of the scores of each row left out of fits to the labels as given, at all ridges. What
it finds likelier wrong than right is fitted as the likeliest other class: the rows named are those fitted otherwise.

On landmark features a likelihood that allows for wrong labels takes the place of both. Where labels are wrong in some
directions only, the law is that of ``confusion_law``. It is learned from the fit to the labels as given: later fits
were made to agree with it, and where classes overlap a rare class is soon taken for wrong labels of a common one. It
must explain the labels decisively better than one rate, before and after the fit under it.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.robust.design import Design, Regime
from buttress.robust.judged import chosen_inliers
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.confusion_law import Confusion, learn_confusion, likeliest_confusion, one_rate
from buttress.solvers.contamination.label_law import (
    Flips,
    explain_at_ridges,
    explain_labels,
    explain_mixed,
    label_margins,
    likeliest_one_rate,
)
from buttress.solvers.contamination.noisy_logistic import LabelScores, NoisyLogistic
from buttress.solvers.contamination.tuning import CONFUSION
from buttress.solvers.run import SharedBudget, Step


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
    budget: SharedBudget

    @cached_property
    def logistic(self) -> NoisyLogistic | None:
        """What fits landmark features that are kept, None of others."""
        features = self.design.features
        if features is None or features.remade:
            return None
        return NoisyLogistic(features, self.codes, self.C, self.design.groups, self.budget)

    @property
    def targets(self) -> Array:
        """The targets of each class, (C, C): 1 for itself and -1 for the others."""
        return 2.0 * np.eye(self.C) - 1

    def note(self, fit: "LabelScores", likelihood: float) -> None:
        """Report a fit of all rows, with the log likelihood per row, to the callbacks of the estimator."""
        if not self.budget.stopped:
            self.budget.note(Step((self.design, fit), objective=-likelihood))


@dataclass(frozen=True)
class LabelFit:
    """The last fit to all rows, the law of the labels, and how each ridge tried votes on them, (ridges, n).

    ``likelihood`` is the log likelihood per row of labels before any was changed, so that fits can be compared.
    ``first`` holds the leave-one-out scores (n, C) of the fit to them, ``mixed`` or not, None where that is open, and
    ``true`` the probabilities (n, C) of the true classes that follow from these and the labels: later fits were made to
    agree with what the law says is wrong.
    ``confusion`` is the law of the labels by true class, None where all directions are alike; ``directed`` is that
    learned from ``first``, taken or not, None where none was.
    """

    last: LabelScores
    flips: Flips
    votes: NDArray[np.bool_]
    n_iter: int
    likelihood: float
    first: Array
    true: Array
    mixed: bool | None = None
    confusion: Confusion | None = None
    directed: Confusion | None = None


def fit_labels(task: LabelTask) -> LabelFit:
    """Fit the labels given, then those that are likeliest under the law of that fit's scores.

    On landmark features that are kept, logistic regression that allows for wrong labels is fitted instead.
    """
    if task.logistic is not None:
        return fit_many_labels(task, task.logistic)
    plain, flips, tried = as_given(task)
    task.note(plain, flips.likelihood)
    votes = np.array([label_margins(scores, task.codes) > 0 for scores in tried])
    true = flips.true_chances(task.codes)
    found = LabelFit(plain, flips, votes, 1, flips.likelihood, plain.scores, true, plain.mixed)
    fitted = believed(flips.wrong, true, task.codes, task.share)
    if np.array_equal(fitted, task.codes):
        return found
    last, _, _ = _likeliest(task, fitted, task.codes, flips.rate)
    task.note(last, flips.likelihood)
    return replace(found, last=last, n_iter=2)


def as_given(task: LabelTask) -> tuple[LabelScores, Flips, list[Array]]:
    """Return the fit to the labels given, at the ridge under which they are likeliest, and their law.

    It is that of all ridges tried, whose scores (n, C) are the third result; on landmark features of one. A law under
    which most labels are wrong says nothing, as where a class has one row, which no fit without it can expect.
    """
    codes = task.codes
    plain, flips, tried = _likeliest(task, codes, codes, task.share)
    if task.design.regime is not Regime.EXACT:
        tried = [plain.scores]
        flips = explain_labels(plain.scores, codes, task.share)
    if task.share is None and np.mean(flips.wrong > 0.5) > CONFUSION.most_given:
        flips = explain_at_ridges(tried, codes, 0.0)
    return plain, flips, tried


def _likeliest(
    task: LabelTask, fitted: NDArray[np.intp], labels: NDArray[np.intp], rate: float | None
) -> tuple[LabelScores, Flips, list[Array]]:
    """Return the fit to classes ``fitted`` (n,) whose scores make ``labels`` (n,) likeliest, the law, all scores tried.

    Wrong labels are allowed for, at a ``rate`` that is given or to be found. Scores of exact fits may be mixed.
    """
    alphas, tried = _scores_at_ridges(task, fitted)
    some = labels[task.design.searched]
    if task.design.regime is not Regime.EXACT:
        flips = explain_at_ridges(tried, some, rate)
        return fit_to(task, fitted, float(alphas[flips.at])), flips, tried
    flips, laws = explain_mixed(tried, some, rate)
    if laws is not None:
        tried = [law.mixture(scores) for law, scores in zip(laws, tried, strict=True)]
    return fit_to(task, fitted, float(alphas[flips.at]), None if laws is None else laws[flips.at]), flips, tried


def believed(wrong: Array, true: Array, codes: NDArray[np.intp], share: float | None) -> NDArray[np.intp]:
    """Return the labels given, (n,), with those likelier wrong than right, or this ``share``, the likeliest other ones.

    ``wrong`` (n,) and ``true`` (n, C) are the probabilities that the label is wrong and of the true classes.
    """
    others = true.copy()
    others[np.arange(len(codes)), codes] = -1.0
    return np.where(chosen_inliers(wrong, share), codes, others.argmax(axis=1))


def fit_many_labels(task: LabelTask, logistic: NoisyLogistic) -> LabelFit:
    """Fit logistic regression that allows for wrong labels, on landmark features; votes are of the ridges tried."""

    def law(scores: Array, codes: NDArray[np.intp]) -> tuple[Array, float]:
        flips = explain_labels(scores, codes, task.share)
        return one_rate(task.C, flips.rate), flips.likelihood

    fit = logistic.fit(_ridges(task), one_rate(task.C, 0.1 if task.share is None else task.share), law)
    flips = explain_labels(fit.scores, task.codes, task.share)
    task.note(fit, flips.likelihood)
    return LabelFit(fit, flips, fit.votes, fit.n_iter, flips.likelihood, fit.scores, flips.true_chances(task.codes))


def _ridges(task: LabelTask) -> Array:
    return MIXTURE.logistic * task.design.unit if task.alpha is None else np.array([float(task.alpha)])


def fit_to(task: LabelTask, fitted: NDArray[np.intp], alpha: float, law: Confusion | None = None) -> LabelScores:
    """Return the fit of all rows to these classes (n,), its scores mixed as a ``law`` says, if any."""
    targets = task.targets[fitted]
    fit = task.design.ridge.solve(targets, np.ones(len(fitted)), alpha)
    weight = (fitted == task.codes).astype(np.float64)
    if law is None:
        return LabelScores(fit.coef, targets - fit.loo, alpha, weight)
    return LabelScores(fit.coef @ law.A, law.mixture(targets - fit.loo), alpha, weight, law.bias, mixed=True)


def _scores_at_ridges(task: LabelTask, fitted: NDArray[np.intp]) -> tuple[Array, list[Array]]:
    """Return the ridges to try and the scores of the rows of the search left out at each."""
    targets = task.targets[fitted]
    rows = task.design.searched
    given = task.alpha
    alphas = MIXTURE.ridges * feature_variance(task.design) if given is None else np.array([float(given)])
    fits = task.design.ridge.path(targets, np.ones(len(fitted)), alphas, rows)
    return alphas, [targets[rows] - fit.loo for fit in fits]


def feature_variance(design: Design) -> float:
    """Return the mean squared distance of a row from the mean of all in feature space."""
    return float(design.coarse.Z.var(axis=0).sum()) or design.unit


def with_directions(task: LabelTask, fit: LabelFit) -> LabelFit:
    """Return ``fit``, or one with a rate of wrong labels for each direction where it explains them better.

    A share given is taken at its word: labels are then wrong in all directions alike.
    """
    judged = task.design.regime is Regime.EXACT or task.logistic is not None
    if task.share is not None or not judged or task.budget.interrupted or task.budget.stop_if_spent():
        return fit
    codes = task.codes
    law = likeliest_confusion(fit.first, codes, mixed=fit.mixed)
    fit = replace(fit, directed=law)
    one = likeliest_one_rate(fit.first, codes) if fit.mixed is None else (fit.likelihood, fit.mixed)
    if law.lead(len(codes), *one) <= CONFUSION.decisive:
        return fit
    again, final = confused_fit(task, law, fit.first)
    if final.lead(len(codes), *one) <= CONFUSION.decisive or task.budget.interrupted:
        return fit
    true = final.true_chances(again.scores, codes)
    wrong = 1 - true[np.arange(len(codes)), codes]
    last, n_iter = again, fit.n_iter + again.n_iter
    if task.logistic is None:
        fitted = believed(wrong, true, codes, None)
        last, _, _ = _likeliest(task, fitted, fitted, 0.0)
        n_iter += 1
    likelihood = float(np.log(final.joint(again.scores, codes).sum(axis=1)).mean())
    task.note(last, likelihood)
    return replace(fit, last=last, n_iter=n_iter, likelihood=likelihood, confusion=final,
                   flips=Flips(float(wrong.mean()), wrong, final.classes(again.scores), likelihood),
                   true=law.true_chances(fit.first, codes))


def confused_fit(task: LabelTask, law: Confusion, scores: Array) -> tuple[LabelScores, Confusion]:
    """Return the fit under a law of leave-one-out scores (n, C), and the law of its own scores.

    It is the fit to the classes that are likeliest, on landmark features logistic regression with the rates of the law.
    The first fit blurs what is given as another class. That the rates are learned again from a hundredth of all
    directions lets one at 0 come back.
    """
    if task.logistic is None:
        likely = law.true_chances(scores, task.codes).argmax(axis=1).astype(np.intp)
        fit, _, _ = _likeliest(task, likely, likely, 0.0)
    else:
        fit = task.logistic.fit(_ridges(task), law.rates, partial(_at_rates, law.rates))
    start = 0.99 * law.rates + 0.01 * one_rate(task.C, CONFUSION.most_given)
    final = learn_confusion(fit.scores, task.codes, start, mixed=fit.mixed)
    task.note(fit, final.objective)
    return fit, final


def _at_rates(rates: Array, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, float]:
    """Return these rates (C, C), and the log likelihood per row of the labels given scores (n, C)."""
    law = Confusion(rates, np.eye(len(rates)), np.zeros(len(rates)))
    return rates, float(np.log(law.joint(scores, codes).sum(axis=1)).mean())
