"""From a design and class numbers to the likeliest labels: concentration, or on landmark features a likelihood.

Where labels are wrong in some directions only, fits of all rows to their likeliest classes (the M-step, with the ridge
under which the labels given are likeliest) alternate with the law of ``confusion_law`` learned from the scores that
leave each row out (the E-step). Only the fit to the labels as given is evidence for that law: later fits were made to
agree with it, and where classes overlap a rare class is soon taken for wrong labels of a common one.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.features.made import FeaturesOfRows
from buttress.robust.design import Design, Regime
from buttress.robust.tuning import RELABEL
from buttress.solvers.contamination.confusion_law import Confusion, confusion_steps, learn_confusion, one_rate
from buttress.solvers.contamination.label_law import (
    Flips,
    concentrate_classes,
    explain_labels,
    judge_labels,
    label_likelihoods,
    label_margins,
    rates_tried,
)
from buttress.solvers.contamination.noisy_logistic import NoisyLogistic
from buttress.solvers.contamination.tuning import CONFUSION
from buttress.solvers.run import Budget, Outcome, Step, run


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
    max_iter: int
    budget: Budget
    targets: Array = field(init=False)  # (C, C): those of each class, 1 for itself and -1 for the others

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", 2.0 * np.eye(self.C) - 1)

    def note(self, coef: Array, likelihood: float) -> None:
        """Report a fit of all rows, with the log likelihood per row, to the callbacks of the estimator."""
        self.budget.note(Step((self.design, coef), objective=-likelihood))


@dataclass(frozen=True)
class Scored:
    """A fit to class numbers ``fitted`` (n,): coefficients, the scores (n, C) of each row left out, and the ridge."""

    coef: Array
    scores: Array
    alpha: float
    fitted: NDArray[np.intp]


@dataclass(frozen=True)
class LabelFit:
    """The last fit to all rows, the law of the labels, and the starts' votes.

    ``likelihood`` is the log likelihood per row of labels before any was changed, so that fits can be compared.
    ``first`` holds the leave-one-out scores (n, C) of the fit to them, and ``true`` the probabilities (n, C) of the
    true classes that follow from these and the labels: later fits were made to agree with what the law says is wrong.
    ``confusion`` is the law of the labels by true class, None where all directions are alike; ``directed`` is that
    learned from ``first``, taken or not, None where none was.
    """

    last: Scored
    flips: Flips
    votes: NDArray[np.bool_]
    clean: bool
    n_iter: int
    likelihood: float
    first: Array
    true: Array
    confusion: Confusion | None = None
    directed: Confusion | None = None
    converged: bool = True


def fit_labels(task: LabelTask) -> LabelFit:
    """Concentrate on rows whose labels leave-one-out scores support; then fit all, with the likeliest labels.

    On landmark features that are kept, logistic regression that allows for wrong labels is fitted instead. Once all
    rows were fitted Ctrl-C leaves a model of their likeliest labels.
    """
    features = task.design.features
    if features is not None and not features.remade:
        found = fit_many_labels(task, features)
        assert found is not None, "without a rival a fit is found"
        return found
    plain, tried = likeliest_fit(task, task.codes, task.share, task.alpha)
    flips = explain_labels(plain.scores, task.codes, task.share)
    task.note(plain.coef, flips.likelihood)
    if task.budget.stopped:
        return _relabelled_once(task, plain, flips)
    return task.budget.attempt(
        lambda: _relabelled(task, plain, tried, flips), otherwise=lambda: _relabelled_once(task, plain, flips),
        message="The fit was interrupted. The model is of the labels that a plain fit finds likeliest, and nothing was "
                "trimmed.")


def _relabelled_once(task: LabelTask, plain: Scored, flips: Flips) -> LabelFit:
    """Return the fit to the labels that are likeliest after the plain fit."""
    once = fit_to(task, flips.true_class(task.codes), plain.alpha)
    return _label_fit(task, plain, once, flips, label_margins(once.scores, task.codes)[None] > 0)


def _label_fit(
    task: LabelTask, plain: Scored, last: Scored, first: Flips, votes: NDArray[np.bool_], n_iter: int = 1
) -> LabelFit:
    """Return what the last fit says, beside the plain one and the law ``first`` of its scores."""
    return LabelFit(last, first, votes, clean=last is plain, n_iter=n_iter, likelihood=first.likelihood,
                    first=plain.scores, true=first.true_chances(task.codes))


def _relabelled(task: LabelTask, plain: Scored, tried: "Ridges", first: Flips) -> LabelFit:
    """Trim from the plain fit to all rows, then fit all to the labels that are likeliest after that."""
    codes = task.codes
    rate = first.rate if task.share is None else task.share
    trims = [_concentrated(task, plain.scores, kept, 3).state[0] for kept in RELABEL.trims]
    votes = np.array([label_margins(scores, codes) > 0 for scores in trims])
    flips = first
    last = plain
    n_iter = 1
    converged = True
    if not _nothing_to_trim(task, rate):
        outcome = _concentrated(task, plain.scores, max(1 - rate, RELABEL.least_kept), task.max_iter)
        n_iter = max(outcome.n_iter, 1)
        converged = outcome.converged
        last, flips = _alternated(task, plain.alpha, explain_labels(outcome.state[0], codes, rate), rate)
    if task.design.regime is Regime.EXACT:
        wrong, classes = judge_labels(tried.scores, tried.likelihoods, last.scores, codes, task.share)
        flips = replace(flips, wrong=wrong, classes=classes)
    return replace(_label_fit(task, plain, last, first, votes, n_iter), flips=flips, converged=converged)


def _nothing_to_trim(task: LabelTask, rate: float) -> bool:
    """Say whether the rate is too small, or rows are too few or too many, for trimming.

    Where rows are many, errors of the labels average out in the plain fit, and trimming blurs its detail.
    """
    slight = RELABEL.slight if task.share is None else 0
    return task.design.regime is not Regime.EXACT or rate <= slight or len(task.codes) < 4


def _alternated(task: LabelTask, alpha: float, flips: Flips, rate: float) -> tuple[Scored, Flips]:
    """Alternate M-steps, fits to the likeliest labels, and E-steps, the law of the labels after them."""
    for done in range(RELABEL.rounds):
        if done and task.budget.spent():
            break
        wanted = alpha if task.budget.spent() else task.alpha
        found, _ = likeliest_fit(task, flips.true_class(task.codes), rate, wanted)
        alpha = found.alpha
        flips = explain_labels(found.scores, task.codes, rate)
        task.note(found.coef, flips.likelihood)
    return found, flips


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
    plain = Scored(found.coef, found.scores, found.alpha, task.codes)
    return _label_fit(task, plain, plain, found.flips, found.votes, found.n_iter)


@dataclass(frozen=True)
class Ridges:
    """Of each ridge tried the scores (n, C) of the rows of the search left out, and likelihoods (ridges, T, R).

    These are of the labels given, for each temperature and rate.
    """

    scores: list[Array]
    likelihoods: Array


def likeliest_fit(
    task: LabelTask, fitted: NDArray[np.intp], rate: float | None, alpha: float | None
) -> tuple[Scored, Ridges]:
    """Fit to classes ``fitted`` (n,) with the ridge, if None, under which the scores make the given labels likeliest.

    Wrong ones are allowed for, at a ``rate`` that is given or to be found.
    """
    alphas, tried = _scores_at_ridges(task, fitted, alpha)
    codes = task.codes[task.design.searched]
    likelihoods = np.array([label_likelihoods(scores, codes, rates_tried(rate)) for scores in tried])
    best = float(alphas[likelihoods.max(axis=(1, 2)).argmax()])
    return fit_to(task, fitted, best), Ridges(tried, likelihoods)


def fit_to(task: LabelTask, fitted: NDArray[np.intp], alpha: float) -> Scored:
    """Return the fit of all rows to these classes (n,)."""
    targets = task.targets[fitted]
    fit = task.design.ridge.solve(targets, np.ones(len(fitted)), alpha)
    return Scored(fit.coef, targets - fit.loo, alpha, fitted)


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


def _concentrated(task: LabelTask, scores: Array, kept: float, max_iter: int) -> Outcome:
    """Return the end of concentration on the share ``kept``: its leave-one-out scores (n, C) and rows."""
    alpha = RELABEL.smooth * feature_variance(task.design) if task.alpha is None else task.alpha
    # So smooth a fit needs few features.
    ridge = task.design.coarse if task.alpha is None and task.design.regime is Regime.EXACT else task.design.ridge
    steps = concentrate_classes(ridge, task.targets[task.codes], task.codes, label_margins(scores, task.codes),
                                alpha=alpha, kept=kept)
    return task.budget.run(steps, max_iter=max_iter)


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
    last, final = directed
    wrong = 1 - final.true_chances(last.scores, codes)[np.arange(len(codes)), codes]
    likelihood = float(np.log(final.joint(last.scores, codes).sum(axis=1)).mean())
    return replace(found, last=last, clean=False, n_iter=found.n_iter + RELABEL.rounds,
                   flips=Flips(float(wrong.mean()), wrong, final.classes(last.scores), likelihood),
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
