"""Find wrong labels: how likely each is wrong given the scores of fits without the row, and the rate of wrong labels.

A label is wrong with probability rho, and is then each of the other classes with equal probability:
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
from scipy.special import softmax

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress.solvers.contamination.confusion_law import (
    Confusion,
    may_mix,
    mixtures,
    numbers_mixed,
    one_rate,
    over_classes,
    true_chances,
)
from buttress.solvers.contamination.tuning import CONFUSION, LABELS

TOGETHER = 16  # factors of a product: of factors above 1e-18 it stays above 1e-288


@dataclass(frozen=True)
class Flips:
    """The law of the labels, learned.

    ``likelihood`` is the log likelihood per row of the likeliest law, under the scores numbered ``at``. Averaged over
    all laws are ``rate``, that of wrong labels, ``wrong`` (n,), P(label wrong), and ``classes`` (n, C), P(class).
    """

    rate: float
    wrong: Array
    classes: Array
    likelihood: float
    at: int = 0

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
    """Return the law of the labels for leave-one-out scores (n, C) and class numbers (n,); ``rate`` fixes rho."""
    return explain_at_ridges([scores], codes, rate)


def explain_at_ridges(tried: Sequence[Array], codes: NDArray[np.intp], rate: float | None) -> Flips:
    """Return the law of the labels for the leave-one-out scores (n, C) of fits to them at several ridges.

    It is learned from at most 10,000 rows, drawn at random, on a grid of temperatures and of rates up to one half.
    """
    rates = rates_tried(rate)
    return _averaged_law(tried, codes, rates, _likelihoods(tried, codes, rates))


def _likelihoods(tried: Sequence[Array], codes: NDArray[np.intp], rates: Array) -> Array:
    """Return the log likelihood per row for each of several scores (n, C), temperature and rate."""
    part = drawn_rows(len(codes))
    return np.array([label_likelihoods(scores[part], codes[part], rates) for scores in tried])


def _averaged_law(tried: Sequence[Array], codes: NDArray[np.intp], rates: Array, total: Array) -> Flips:
    """Return the law that is the mean over all, of these log likelihoods per row."""
    at = int(total.max(axis=(1, 2)).argmax())
    weights = _weights(total * len(codes[drawn_rows(len(codes))]), rates)
    parts = [_averaged(scores, codes, rates, some) for scores, some in zip(tried, weights, strict=True) if some.any()]
    wrong, classes = (sum(of) for of in zip(*parts, strict=True))
    mean = float(weights.sum(axis=(0, 1)) @ rates)
    return Flips(mean, np.minimum(wrong, 1), np.asarray(classes), float(total[at].max()), at)


def explain_mixed(
    tried: Sequence[Array], codes: NDArray[np.intp], rate: float | None
) -> tuple[Flips, list[Confusion] | None]:
    """Return the law of the labels for scores (n, C) as they are and None, or for mixed ones and how they are mixed.

    They are mixed where this explains the labels decisively better by Schwarz's criterion: never of two classes, whose
    scores are opposite, nor of more than 12. Laws that read labels from scores are not taken.
    """
    n, C = tried[0].shape
    rates = rates_tried(rate)
    plain = _likelihoods(tried, codes, rates)
    cost = (numbers_mixed(C) * float(np.log(n)) / 2 + CONFUSION.decisive) / n
    if may_mix(C) and plain.max() < -cost:  # no likelihood is above 0
        laws = mixtures(tried, codes, rate)
        scores = [law.mixture(each) for law, each in zip(laws, tried, strict=True)]
        mixed = _likelihoods(scores, codes, rates)
        mixed[[law.reads_labels(codes) for law in laws]] = -np.inf
        if mixed.max() - cost > plain.max():
            return _averaged_law(scores, codes, rates, mixed), laws
    return _averaged_law(tried, codes, rates, plain), None


def likeliest_one_rate(scores: Array, codes: NDArray[np.intp]) -> tuple[float, bool]:
    """Return the log likelihood per row under one rate, of scores (n, C) as they are or mixed, and whether mixed."""
    flips, laws = explain_mixed([scores], codes, None)
    return flips.likelihood, laws is not None


def rates_tried(rate: float | None) -> Array:
    """Return the rates to try, of which there is one where it is given."""
    return LABELS.rates if rate is None else np.array([rate])


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
        q = over_classes(softmax, temperatures[t] * scores)
        wrong += wrong_chances(q, codes, rates[some]) @ weight[t, some]
        classes += weight[t].sum() * q
    return wrong, classes


@np.errstate(over="ignore")
def label_likelihoods(scores: Array, codes: NDArray[np.intp], rates: Array) -> Array:
    """Return the mean log likelihood of the labels for each temperature and each of R rates, shape (T, R)."""
    temperatures = LABELS.temperatures
    total = np.empty((len(temperatures), len(rates)))
    ahead = np.ascontiguousarray((scores - scores[np.arange(len(codes)), codes][:, None]).T)  # of the label given
    wrong = rates / (scores.shape[1] - 1)
    for t, T in enumerate(temperatures):
        total[t] = _mean_log(1 / np.exp(T * ahead).sum(axis=0), 1 - rates - wrong, wrong)
    return total


def _mean_log(given: Array, slope: Array, least: Array) -> Array:
    """Return the mean over n numbers q of log(slope q + least), for each of R slopes, from products of a few factors.

    Logarithms are of products of several factors; where ``least`` is tiny, of single ones.
    """
    few = TOGETHER
    n = len(given) // few * few
    safe = least > 1e-18  # float64 holds a product of so many factors
    sums = np.empty(len(least))
    alone = slope[~safe] * given[:, None] + least[~safe]
    sums[~safe] = np.log(alone + TINY).sum(axis=0)
    factors = np.multiply.outer(given, slope[safe])
    factors += least[safe]
    products = factors[:n].reshape(few, n // few, factors.shape[1]).prod(axis=0)
    sums[safe] = np.log(products).sum(axis=0) + np.log(factors[n:]).sum(axis=0)
    return np.asarray(sums / len(given))


def wrong_chances(q: Array, codes: NDArray[np.intp], rates: Array) -> Array:
    """Return P(wrong | label) of each row at each of R rates, (n, R)."""
    given = q[np.arange(len(codes)), codes]
    right, slip = np.multiply.outer(given, 1 - rates), np.multiply.outer(1 - given, rates / (q.shape[1] - 1))
    return np.asarray(slip / np.maximum(right + slip, TINY))


def label_margins(scores: Array, codes: NDArray[np.intp]) -> Array:
    """Return the score of each row's label minus the largest other score, shape (n,)."""
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return scores[rows, codes] - others.max(axis=1)
