"""Find wrong labels: concentration within each class on leave-one-out scores, and the rate of wrong labels.

Trimming by loss alone can drop a whole class, so each observed class keeps its own best rows. A label is wrong with
probability rho, and is then each of the other classes with equal probability:
P(label = c | x) = (1 - rho) q_c + rho (1 - q_c) / (C - 1)  with q = softmax(T F(x)), F the scores of the fit without
that row.

A few wrong labels have two explanations of about equal likelihood: rho = 0 and a low T, so that classes overlap, or a
small rho and a high T. So the most likely pair alone does not decide. P(label wrong) is the mean over all pairs,
weighted by their likelihood: beforehand log T and rho are evenly spread. Where fits at several ridges are given, the
mean is over these too.

This is the E-step of the fits to labels. The M-step fits f, in ``noisy_logistic`` and, to the most likely labels, in
``robust.label_fit``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress.solvers.contamination.confusion_law import one_rate, true_chances
from buttress.solvers.contamination.trimmed import trimming
from buttress.solvers.contamination.tuning import LABELS
from buttress.solvers.ridge.leave_one_out import Ridge
from buttress.solvers.run import Steps

TOGETHER = 16  # factors of a product
LEAST_FACTOR = 1e-18  # float64 holds a product of so many of them


@dataclass(frozen=True)
class Flips:
    """The law of the labels, learned.

    ``rate`` is the most likely rate of wrong labels and ``likelihood`` the log likelihood per row there. ``wrong`` (n,)
    is P(label wrong) and ``classes`` (n, C) is P(class), both averaged over all laws.
    """

    rate: float
    wrong: Array
    classes: Array
    likelihood: float

    def true_class(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the most likely true class of each row, given its label (n,) and its scores."""
        rates = one_rate(self.classes.shape[1], self.rate)
        return true_chances(self.classes, rates, codes).argmax(axis=1).astype(np.intp)

    def true_chances(self, codes: NDArray[np.intp]) -> Array:
        """Return P(true class | label), shape (n, C); where the label is wrong the others share as the scores say."""
        rows = np.arange(len(codes))
        chances = self.classes.copy()
        chances[rows, codes] = 0.0
        chances *= (self.wrong / np.maximum(chances.sum(axis=1), TINY))[:, None]
        chances[rows, codes] = 1 - chances.sum(axis=1)
        return chances


def explain_labels(scores: Array, codes: NDArray[np.intp], rate: float | None = None) -> Flips:
    """Return the law of the labels for leave-one-out scores (n, C) and class numbers (n,); ``rate`` fixes rho.

    It is learned from at most 10,000 rows, drawn at random, on a grid of temperatures and of rates up to one half.
    """
    rates = rates_tried(rate)
    part = drawn_rows(len(codes))
    total = label_likelihoods(scores[part], codes[part], rates)
    best = np.unravel_index(int(total.argmax()), total.shape)
    wrong, classes = _averaged(scores, codes, rates, _weights(total * len(codes[part]), rates))
    return Flips(float(rates[best[1]]), np.minimum(wrong, 1), classes, float(total[best]))


def rates_tried(rate: float | None) -> Array:
    """Return the rates to try, of which there is one where it is given."""
    return LABELS.rates if rate is None else np.array([rate])


def judge_labels(
    tried: Sequence[Array], likelihoods: Array, last: Array, codes: NDArray[np.intp], rate: float | None
) -> tuple[Array, Array]:
    """Return P(label wrong), (n,), and P(class), (n, C): half by fits to the labels given, half by the last fit.

    ``tried`` are the leave-one-out scores (n, C) of the former at several ridges, ``likelihoods`` (ridges, T, R) those
    of ``label_likelihoods``. The scores of the last fit, ``last``, were made to agree with the labels taken for right,
    so they say nothing of rho: its weights are those of the first fits, and only T is weighted by the last.
    """
    rates = rates_tried(rate)
    weight = _weights(likelihoods * len(codes), rates)
    parts = [_averaged(scores, codes, rates, some) for scores, some in zip(tried, weight, strict=True) if some.any()]
    total = label_likelihoods(last, codes, rates) * len(codes)
    parts_of_last = _averaged(last, codes, rates, np.exp(total - logsumexp(total, axis=0)) * weight.sum(axis=(0, 1)))
    wrong, classes = [(sum(first) + other) / 2 for *first, other in zip(*parts, parts_of_last, strict=True)]
    return np.minimum(wrong, 1), classes


def _weights(total: Array, rates: Array) -> Array:
    """Return the weights, of sum 1, of log likelihoods (..., R) at R rates, those that are next to 0 left out."""
    cell = np.convolve(np.diff(rates), [0.5, 0.5]) if len(rates) > 1 else np.ones(1)
    weight = np.exp(total - total.max()) * cell
    weight[weight < 1e-4 * weight.max()] = 0
    return np.asarray(weight / weight.sum())


def _averaged(scores: Array, codes: NDArray[np.intp], rates: Array, weight: Array) -> tuple[Array, Array]:
    """Return P(label wrong), (n,), and P(class), (n, C), averaged with these weights (temperatures, rates)."""
    wrong = np.zeros(len(codes))
    classes = np.zeros(scores.shape)
    temperatures = LABELS.temperatures
    for t in np.flatnonzero(weight.any(axis=1)):
        some = weight[t] > 0
        q = softmax(temperatures[t] * scores, axis=1)
        wrong += wrong_chances(q, codes, rates[some]) @ weight[t, some]
        classes += weight[t].sum() * q
    return wrong, classes


def label_likelihoods(scores: Array, codes: NDArray[np.intp], rates: Array) -> Array:
    """Return the mean log likelihood of the labels for each temperature and each of R rates, shape (T, R)."""
    temperatures = LABELS.temperatures
    total = np.empty((len(temperatures), len(rates)))
    ahead = scores - scores[np.arange(len(codes)), codes][:, None]  # of the label given
    wrong = rates / (scores.shape[1] - 1)
    for t, T in enumerate(temperatures):
        with np.errstate(over="ignore"):
            given = 1 / np.exp(T * ahead).sum(axis=1)
        total[t] = _mean_log(given, 1 - rates - wrong, wrong)
    return total


def _mean_log(given: Array, slope: Array, least: Array) -> Array:
    """Return the mean over n numbers q of log(slope q + least), for each of R slopes, from products of a few factors.

    Logarithms are of products of several factors; where ``least`` is below LEAST_FACTOR, of single ones.
    """
    few = TOGETHER
    n = len(given) // few * few
    safe = least > LEAST_FACTOR
    sums = np.empty(len(least))
    alone = slope[~safe] * given[:, None] + least[~safe]
    sums[~safe] = np.log(alone + TINY).sum(axis=0)
    factors = slope[safe] * given[:, None] + least[safe]
    products = factors[:n].reshape(n // few, few, factors.shape[1]).prod(axis=1)
    sums[safe] = np.log(products).sum(axis=0) + np.log(factors[n:]).sum(axis=0)
    return np.asarray(sums / len(given))


def given_chances(q: Array, codes: NDArray[np.intp], rates: Array | float) -> tuple[Array, Array]:
    """Return P(label and it is right) and P(label and it is wrong) of each row, (n,), or at each of R rates, (n, R)."""
    given = q[np.arange(len(codes)), codes]
    return np.multiply.outer(given, 1 - rates), np.multiply.outer(1 - given, rates / (q.shape[1] - 1))


def wrong_chances(q: Array, codes: NDArray[np.intp], rates: Array) -> Array:
    """Return P(wrong | label) of each row at each of R rates, (n, R)."""
    right, slip = given_chances(q, codes, rates)
    return np.asarray(slip / np.maximum(right + slip, TINY))


def label_margins(scores: Array, codes: NDArray[np.intp]) -> Array:
    """Return the score of each row's label minus the largest other score, shape (n,)."""
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return scores[rows, codes] - others.max(axis=1)


def best_of_each_class(margin: Array, codes: NDArray[np.intp], kept: float) -> Array:
    """Return the indicator (n,) of the ceil(kept n_c) rows with the largest margin in each class c of n_c rows."""
    keep = np.zeros(len(codes))
    for c in np.unique(codes):
        rows = np.flatnonzero(codes == c)
        count = int(np.ceil(kept * len(rows) - 1e-9))
        keep[rows[np.argsort(-margin[rows], kind="stable")[:count]]] = 1
    return keep


def concentrate_classes(
    ridge: Ridge, targets: Array, codes: NDArray[np.intp], margin: Array, *, alpha: float, kept: float
) -> Steps:
    """Yield (leave-one-out scores, kept rows), starting from margins (n,), until a set of rows repeats.

    ``targets`` (n, C) are 1 for the label and -1 elsewhere; the objective is the share of kept rows with margin <= 0.
    """

    def judge(scores: Array, rows: Array) -> tuple[Array, float]:
        left_out = label_margins(scores, codes)
        return best_of_each_class(left_out, codes, kept), float(np.mean(left_out[rows > 0] <= 0))

    return trimming(lambda rows: targets - ridge.solve(targets, rows, alpha).loo, judge,
                    best_of_each_class(margin, codes, kept))
