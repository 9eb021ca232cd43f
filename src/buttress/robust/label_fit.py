"""From a design and class numbers to the likeliest labels: concentration, or on landmark features a likelihood."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.features.made import FeaturesOfRows
from buttress.robust.design import Design
from buttress.robust.tuning import RELABEL
from buttress.solvers.contamination.confusion_law import Confusion
from buttress.solvers.contamination.label_law import (
    Flips,
    concentrate_classes,
    explain_labels,
    judge_labels,
    label_likelihoods,
    label_margins,
    rates_tried,
)
from buttress.solvers.contamination.noisy_logistic import Logistic, NoisyLogistic
from buttress.solvers.run import Budget, Step


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
class LabelFit:
    """A fit: coefficients, row weights, leave-one-out margins, the law of the labels, and each start's votes.

    ``likelihood`` is the log likelihood per row of labels before any was changed, so that fits can be compared.
    ``first`` holds the leave-one-out scores (n, C) of the fit to them, and ``true`` the probabilities (n, C) of the
    true classes that follow from these and the labels: later fits were made to agree with what the law says is wrong.
    ``confusion`` is the law of the labels by true class, None where all directions are alike; ``directed`` is that
    learned from ``first``, taken or not, None where none was.
    """

    coef: Array
    weights: Array
    margin: Array
    flips: Flips
    votes: NDArray[np.bool_]
    alpha: float
    clean: bool
    n_iter: int
    likelihood: float
    scores: Array  # (n, C), of each row left out
    first: Array  # the same of the fit to the labels as given
    true: Array
    confusion: Confusion | None = None
    directed: Confusion | None = None


def fit_labels(task: LabelTask) -> LabelFit:
    """Concentrate on rows whose labels leave-one-out scores support; then fit all, with the likeliest labels.

    On landmark features that are kept, logistic regression that allows for wrong labels is fitted instead. Once all
    rows were fitted Ctrl-C leaves a model of their likeliest labels.
    """
    features = task.design.features
    if features is not None and not task.design.regime.remade:
        return fit_many_labels(task, features)
    plain = likeliest_fit(task, task.codes, task.share, task.alpha)
    return task.budget.attempt(
        lambda: _relabelled(task, plain), otherwise=lambda: _relabelled_once(task, plain),
        message="The fit was interrupted. The model is of the labels that a plain fit finds likeliest, and nothing was "
                "trimmed.")


def _relabelled_once(task: LabelTask, plain: "Scored") -> LabelFit:
    """Return the fit to the labels that are likeliest after the plain fit."""
    flips = explain_labels(plain.scores, task.codes, task.share)
    likely = flips.true_class(task.codes)
    fit = task.design.ridge.solve(task.targets[likely], np.ones(len(likely)), plain.alpha)
    margin = label_margins(task.targets[likely] - fit.loo, task.codes)
    weights = (likely == task.codes).astype(np.float64)
    return LabelFit(fit.coef, weights, margin, flips, margin[None] > 0, plain.alpha, clean=False, n_iter=1,
                    likelihood=flips.likelihood, scores=task.targets[likely] - fit.loo, first=plain.scores,
                    true=flips.true_chances(task.codes))


def _relabelled(task: LabelTask, plain: "Scored") -> LabelFit:
    """Trim from the plain fit to all rows, then fit all to the labels that are likeliest after that."""
    codes = task.codes
    flips = explain_labels(plain.scores, codes, task.share)
    task.note(plain.coef, flips.likelihood)
    if task.budget.stopped:
        return _relabelled_once(task, plain)
    likelihood = flips.likelihood
    true = flips.true_chances(codes)
    rate = flips.rate if task.share is None else task.share
    trims = [_concentrated(task, plain.scores, kept, RELABEL.trim_steps) for kept in RELABEL.trims]
    votes = np.array([label_margins(scores, codes) > 0 for scores, _ in trims])
    clean = _nothing_to_trim(task, rate)
    found = plain
    weights = np.ones(len(codes))
    n_iter = 1
    if not clean:
        scores, n_iter = _concentrated(task, plain.scores, max(1 - rate, RELABEL.least_kept), task.max_iter)
        found, flips, weights = _alternated(task, plain, explain_labels(scores, codes, rate), rate)
    if task.design.regime.exact:
        wrong, classes = judge_labels(plain.tried, plain.likelihoods, found.scores, codes, task.share)
        flips = replace(flips, wrong=wrong, classes=classes)
    margin = label_margins(found.scores, codes)
    return LabelFit(found.coef, weights, margin, flips, votes, found.alpha, clean, n_iter, likelihood,
                    found.scores, plain.scores, true)


def _nothing_to_trim(task: LabelTask, rate: float) -> bool:
    """Say whether the rate is too small, or rows are too few or too many, for trimming.

    Where rows are many, errors of the labels average out in the plain fit, and trimming blurs its detail.
    """
    slight = RELABEL.slight if task.share is None else 0
    return not task.design.regime.exact or rate <= slight or len(task.codes) < RELABEL.fewest


def _alternated(task: LabelTask, found: "Scored", flips: Flips, rate: float) -> tuple["Scored", Flips, Array]:
    """Alternate M-steps, fits to the likeliest labels, and E-steps, the law of the labels after them.

    Returns the last fit and law, and weight 1 for rows fitted to the label given, else 0.
    """
    codes = task.codes
    for done in range(RELABEL.rounds):
        if done and task.budget.spent():
            break
        likely = flips.true_class(codes)
        found = likeliest_fit(task, likely, rate, found.alpha if task.budget.spent() else task.alpha)
        flips = explain_labels(found.scores, codes, rate)
        task.note(found.coef, flips.likelihood)
    return found, flips, (likely == codes).astype(np.float64)


def fit_many_labels(task: LabelTask, features: FeaturesOfRows) -> LabelFit:
    """Fit logistic regression that allows for wrong labels, on landmark features; votes are of the ridges tried."""
    return _on_landmarks(task, _solver(task, features).fit(_logistic_ridges(task), task.share))


def fit_detailed(task: LabelTask, features: FeaturesOfRows, rival: Array) -> LabelFit | None:
    """Return the fit of :func:`fit_many_labels`, None where scores ``rival`` (n, C) explain held-out labels as well."""
    found = _solver(task, features).fit_beside(_logistic_ridges(task), task.share, rival)
    return None if found is None else _on_landmarks(task, found)


def _solver(task: LabelTask, features: FeaturesOfRows) -> NoisyLogistic:
    return NoisyLogistic(features, task.codes, task.C, task.design.groups, task.budget)


def _logistic_ridges(task: LabelTask) -> Array:
    return RELABEL.logistic * task.design.unit if task.alpha is None else np.array([float(task.alpha)])


def _on_landmarks(task: LabelTask, found: Logistic) -> LabelFit:
    task.note(found.coef, found.flips.likelihood)
    margin = label_margins(found.scores, task.codes)
    return LabelFit(found.coef, np.ones(len(margin)), margin, found.flips, found.votes, found.alpha, clean=True,
                    n_iter=found.n_iter, likelihood=found.flips.likelihood, scores=found.scores, first=found.scores,
                    true=found.flips.true_chances(task.codes))


@dataclass(frozen=True)
class Scored:
    """Coefficients of a fit, the scores (n, C) of each row left out, and the ridge.

    ``tried`` are the scores at each ridge tried, for the rows of the search; ``likelihoods`` (ridges, T, R) are those
    of the labels given, for each temperature and rate.
    """

    coef: Array
    scores: Array
    alpha: float
    tried: list[Array]
    likelihoods: Array


def likeliest_fit(task: LabelTask, fitted: NDArray[np.intp], rate: float | None, alpha: float | None) -> Scored:
    """Fit to classes ``fitted`` (n,) with the ridge, if None, under which the scores make the given labels likeliest.

    Wrong ones are allowed for, at a ``rate`` that is given or to be found.
    """
    ridge = task.design.ridge
    targets = task.targets[fitted]
    ones = np.ones(len(fitted))
    rows = task.design.searched
    alphas = RELABEL.ridges * feature_variance(task.design) if alpha is None else np.array([alpha])
    tried = [targets[rows] - fit.loo for fit in ridge.path(targets, ones, alphas, rows)]
    likelihoods = np.array([label_likelihoods(scores, task.codes[rows], rates_tried(rate)) for scores in tried])
    alpha = float(alphas[likelihoods.max(axis=(1, 2)).argmax()])
    fit = ridge.solve(targets, ones, alpha)
    return Scored(fit.coef, targets - fit.loo, alpha, tried, likelihoods)


def feature_variance(design: Design) -> float:
    """Return the mean squared distance of a row from the mean of all in feature space."""
    return float(design.coarse.Z.var(axis=0).sum()) or design.unit


def _concentrated(task: LabelTask, scores: Array, kept: float, max_iter: int) -> tuple[Array, int]:
    """Return the leave-one-out scores (n, C) after concentration on the share ``kept``, and how many steps it took."""
    alpha = RELABEL.smooth * feature_variance(task.design) if task.alpha is None else task.alpha
    # So smooth a fit needs few features.
    ridge = task.design.coarse if task.alpha is None and task.design.regime.exact else task.design.ridge
    steps = concentrate_classes(ridge, task.targets[task.codes], task.codes, label_margins(scores, task.codes),
                                alpha=alpha, kept=kept)
    outcome = task.budget.run(steps, max_iter=max_iter)
    return outcome.state[0], max(outcome.n_iter, 1)
