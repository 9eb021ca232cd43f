"""From a design and class numbers to a fit of the likeliest labels: concentration, or on many rows a likelihood."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, InterruptedWarning, warn_user
from buttress.robust.design import Design
from buttress.solvers.contamination.label_law import (
    RATES,
    Flips,
    concentrate_classes,
    explain_labels,
    label_likelihoods,
    label_margins,
)
from buttress.solvers.contamination.noisy_logistic import NoisyLogistic
from buttress.solvers.run import Budget

ALPHAS = np.geomspace(0.01, 100, 12)  # in units of the variance of the features; more smooths away small classes
FALLING = np.geomspace(1, 1e-3, 4)  # the ridges of logistic regression, in units of k(x, x)
SMOOTH = 25.0  # the ridge while rows are being chosen, in the same units: wrong labels must not be fitted
RELABELLED = 3  # fits to the likeliest labels; more of them and the fit believes itself rather than the labels
FEWEST = 4  # rows; of two each is foretold by the other alone
SLIGHT = 0.02  # an estimated rate of wrong labels at or below this is no reason to trim


@dataclass(frozen=True)
class LabelFit:
    """A fit: coefficients, row weights, leave-one-out margins, the law of the labels, and each start's votes.

    ``likelihood`` is the log likelihood per row of labels before any was changed, so that fits can be compared.
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
    interrupted: bool = False


def fit_labels(
    design: Design, codes: NDArray[np.intp], C: int, *, share: float | None, alpha: Any, max_iter: int, budget: Budget
) -> LabelFit:
    """Concentrate on rows whose labels leave-one-out scores support; then fit all, with the likeliest labels.

    codes (n,) are class numbers below C. Once all rows were fitted Ctrl-C leaves a model of their likeliest labels.
    """
    if not design.exact and design.ridge.features.stored is not None:
        return fit_many_labels(design, codes, C, share=share, alpha=alpha, budget=budget)
    targets = 2.0 * np.eye(C) - 1
    plain = likeliest_fit(design, targets[codes], codes, share, alpha)
    try:
        return _relabelled(design, targets, codes, plain, share, alpha, max_iter, budget)
    except KeyboardInterrupt:
        warn_user("The fit was interrupted. The model is of the labels that a plain fit finds likeliest, and nothing "
                  "was trimmed.", InterruptedWarning)
    flips = explain_labels(plain.scores, codes, share)
    likely = flips.true_class(codes)
    fit = design.ridge.solve(targets[likely], np.ones(len(codes)), plain.alpha)
    margin = label_margins(targets[likely] - fit.loo, codes)
    return LabelFit(fit.coef, (likely == codes).astype(np.float64), margin, flips, margin[None] > 0, plain.alpha, False,
                    1, flips.likelihood, interrupted=True)


def _relabelled(
    design: Design, targets: Array, codes: NDArray[np.intp], found: "Scored", share: float | None, alpha: Any,
    max_iter: int, budget: Budget
) -> LabelFit:
    """Trim from the plain fit ``found`` to all rows, then fit all to the labels that are likeliest after that."""
    flips = explain_labels(found.scores, codes, share)
    likelihood = flips.likelihood
    rate = flips.rate if share is None else share
    # Where rows are many, errors of the labels average out in the plain fit, and what trimming blurs is lost for good.
    clean = not design.exact or rate <= (SLIGHT if share is None else 0) or len(codes) < FEWEST
    steady = SMOOTH * feature_variance(design) if alpha == "auto" else alpha
    trims = [(1.0, 3), (0.8, 3), (0.6, 3)]
    if not clean:
        trims.append((max(1 - rate, 0.5), max_iter))
    ends = [_concentrated(design, targets, codes, found.scores, steady, kept, most, budget) for kept, most in trims]
    votes = np.array([label_margins(judged, codes) > 0 for judged, _ in ends[:3]])
    weights, n_iter = np.ones(len(codes)), 1
    if not clean:
        flips, n_iter = explain_labels(ends[3][0], codes, rate), ends[3][1]
        for done in range(RELABELLED):
            if done and budget.spent():
                break
            likely = flips.true_class(codes)
            found = likeliest_fit(design, targets[likely], codes, rate, found.alpha if budget.spent() else alpha)
            flips = explain_labels(found.scores, codes, rate)
        weights = (likely == codes).astype(np.float64)
    margin = label_margins(found.scores, codes)
    return LabelFit(found.coef, weights, margin, flips, votes, found.alpha, clean, n_iter, likelihood)


def fit_many_labels(
    design: Design, codes: NDArray[np.intp], C: int, *, share: float | None, alpha: Any, budget: Budget
) -> LabelFit:
    """Fit logistic regression that allows for wrong labels, on landmark features; votes are of the ridges tried."""
    alphas = FALLING * design.unit if alpha == "auto" else np.array([float(alpha)])
    found = NoisyLogistic(design.ridge.features, codes, C, design.ridge.groups, budget).fit(alphas, share)
    margin = label_margins(found.scores, codes)
    return LabelFit(found.coef, np.ones(len(codes)), margin, found.flips, found.votes, found.alpha, True, found.n_iter,
                    found.flips.likelihood)


@dataclass(frozen=True)
class Scored:
    """Coefficients of a fit, the scores (n, C) of each row left out, and the ridge."""

    coef: Array
    scores: Array
    alpha: float


def likeliest_fit(design: Design, targets: Array, codes: NDArray[np.intp], rate: float | None, alpha: Any) -> Scored:
    """Fit to targets (n, C) with the ridge, if "auto", under which the scores make the given labels likeliest.

    Wrong ones are allowed for, at a ``rate`` that is given or to be found.
    """
    ones = np.ones(len(codes))
    if alpha == "auto":
        rows = None if design.exact else design.searched
        some, aims = (codes, targets) if rows is None else (codes[rows], targets[rows])
        alphas = ALPHAS * feature_variance(design)
        fits = design.ridge.path(targets, ones, alphas, rows)
        rates = RATES if rate is None else np.array([rate])
        likelihood = [label_likelihoods(aims - fit.loo, some, rates).max() for fit in fits]
        alpha = alphas[np.argmax(likelihood)]
    fit = design.ridge.solve(targets, ones, alpha)
    return Scored(fit.coef, targets - fit.loo, float(alpha))


def feature_variance(design: Design) -> float:
    """Return the mean squared distance of a row from the mean of all in feature space: what tells rows apart."""
    return float(design.coarse.Z.var(axis=0).sum()) or design.unit


def _concentrated(
    design: Design, targets: Array, codes: NDArray[np.intp], scores: Array, alpha: float, kept: float, max_iter: int,
    budget: Budget
) -> tuple[Array, int]:
    """Return the leave-one-out scores (n, C) after concentration on the share ``kept``, and how many steps it took."""
    steps = concentrate_classes(design.ridge, targets[codes], codes, label_margins(scores, codes), alpha=alpha,
                                kept=kept)
    outcome = budget.run(steps, max_iter=max_iter)
    return outcome.state[1], max(outcome.n_iter, 1)
