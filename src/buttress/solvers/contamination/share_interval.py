"""How large the share of corrupt rows may be, given the residuals or scores of a fit that leaves each row out.

A law says of each row how likely it is corrupt, p_i. Let one number rho of the law vary, its share or rate, and learn
the rest anew for each value: that gives the profile likelihood L(rho), and p_i(rho). With rho evenly spread beforehand,

    P(b of n rows are corrupt) = sum over rho of  L(rho)^(1/3) P(b | rho),     b | rho ~ sum_i Bernoulli(p_i(rho)),

and the interval holds the middle 90 per cent. The sum of Bernoulli variables is taken as normal. Beside the unknown rho
it is uncertain which rows are corrupt, so that the interval is about the share of these rows, not about the rate at
which such rows come.

The power 1/3 (``SHARES.counted``) is of composite likelihoods (Varin, Reid & Firth 2011): rows that leave each other
out share most of a fit, and the true law is never quite among those tried. With power 1 the intervals are too narrow.
For the same reason the variance of b given rho is multiplied by 3. Where the corrupt rows look like good ones, no
likelihood finds them, and no such interval holds their share.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress.solvers.contamination.confusion_law import Confusion, with_calibration
from buttress.solvers.contamination.label_law import given_chances, label_likelihoods
from buttress.solvers.contamination.residual_law import Law, Limits, em_rounds
from buttress.solvers.contamination.tuning import LABELS, RESIDUALS, SHARES

COVERAGE = 0.9
AnyLaw = TypeVar("AnyLaw", Law, Confusion)
Learned = tuple[AnyLaw, float, Array]  # a law, its log likelihood, and the p_i (n,)


@dataclass(frozen=True)
class Tried:
    """Laws along their share, (k,) each: log likelihood, expected number of corrupt rows, its variance, cell of rho."""

    likelihood: Array
    expected: Array
    variance: Array
    cell: Array

    @classmethod
    def of(cls, laws: Iterable[tuple[float, Array]], cell: Array) -> "Tried":
        """Return what is kept of laws, each a log likelihood and the p_i (n,)."""
        likelihood, expected, variance = np.array([(one, p.sum(), (p * (1 - p)).sum()) for one, p in laws]).T
        return cls(likelihood, expected, variance, cell)


def quantiles(tried: Tried, n: int) -> Array:
    """Return the share of n rows that has 5 per cent below it, and the one that has 5 per cent above it.

    Neither is more than any share that was tried.
    """
    weight = np.exp((tried.likelihood - tried.likelihood.max()) * SHARES.counted) * tried.cell
    weight /= weight.sum()
    counts = np.arange(n + 1)
    deviation = np.sqrt(np.maximum(tried.variance / SHARES.counted, TINY))
    below = np.zeros(n + 1)
    for part, middle, width in zip(weight, tried.expected, deviation, strict=True):
        if part > SHARES.neglected:
            below += part * ndtr((counts + 0.5 - middle) / width)
    ends = np.searchsorted(below, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return np.asarray(np.minimum(ends / n, RESIDUALS.most_bad))


def outward(law: AnyLaw, values: Array, start: float, learned: Callable[[AnyLaw, float], Learned[AnyLaw]]) -> Tried:
    """Return the laws at these values of rho, each ``learned`` from the one before, from ``start`` up and down."""
    first = int(np.searchsorted(values, start))
    found: list[tuple[float, Array]] = []
    for some in (values[:first][::-1], values[first:]):
        found.reverse()
        now = law
        for value in some:
            now, likelihood, p = learned(now, float(value))
            found.append((likelihood, p))
    return Tried.of(found, np.gradient(values))


def residual_shares(
    law: Law, r: Array, spread: Array, missed: Array | None, limits: Limits, level: Array | None
) -> Array:
    """Return the interval for the outlier share of leave-one-out residuals r (n,), shape (2,), from their law.

    The law is learned anew at each share. With more than 4,000 rows it is learned from a random part of them. Arguments
    are those of :func:`explain`.
    """
    part = drawn_rows(len(r), RESIDUALS.rows)
    r = r[part]
    spread = spread[part]
    missed = None if missed is None else missed[part]
    level = None if level is None or not law.shaped else level[part]

    def learned(now: Law, share: float) -> Learned[Law]:
        fixed = Limits(limits.floor, share)
        now = em_rounds(replace(now, share=share), r, spread, missed, fixed, SHARES.rounds, level)
        good, likelihood = now.e_step(r, now.spread(spread, missed, level))
        return now, likelihood, 1 - good

    return quantiles(outward(law, SHARES.tried(len(r)), law.share, learned), len(r))


def label_shares(scores: Array, codes: NDArray[np.intp]) -> Array:
    """Return the interval for the share of wrong labels, shape (2,), of scores (n, C) and class numbers codes (n,).

    The law is that of ``label_law``: rho and the temperature are tried on its grids. The scores must be of the fit to
    the labels as given, since a fit to relabelled rows agrees with what it takes as wrong.
    """
    part = drawn_rows(len(codes), LABELS.rows)
    scores = scores[part]
    codes = codes[part]
    rates = LABELS.rates
    likelihood = label_likelihoods(scores, codes, rates) * len(codes)
    least = likelihood.max() + np.log(SHARES.neglected) / SHARES.counted
    likely = np.flatnonzero(likelihood.max(axis=1) > least)

    def chances(t: np.intp) -> Array:
        right, slip = given_chances(softmax(LABELS.temperatures[t] * scores, axis=1), codes, rates)
        return np.asarray(slip / np.maximum(right + slip, TINY)).T

    laws = ((likelihood[t, k], p) for t in likely for k, p in enumerate(chances(t)))
    return quantiles(Tried.of(laws, np.tile(np.gradient(rates), len(likely))), len(codes))


def direction_shares(law: Confusion, scores: Array, codes: NDArray[np.intp]) -> Array:
    """Return the interval for the share of wrong labels, shape (2,), where a law of directions explains the labels.

    rho is a common factor of all its rates off the diagonal, up to where half of a class is given other labels;
    temperature and bias are learned anew.
    """
    part = drawn_rows(len(codes), LABELS.rows)
    scores = scores[part]
    codes = codes[part]
    rows = np.arange(len(codes))
    away = 1 - np.diagonal(law.rates)

    def learned(now: Confusion, factor: float) -> Learned[Confusion]:
        rates = law.rates * factor
        np.fill_diagonal(rates, 1 - away * factor)
        now = replace(now, rates=rates)
        for _ in range(SHARES.rounds):
            now = with_calibration(now, scores, codes)
        likelihood = float(np.log(np.maximum(now.joint(scores, codes).sum(axis=1), TINY)).sum())
        return now, likelihood, 1 - now.true_chances(scores, codes)[rows, codes]

    return quantiles(outward(law, SHARES.tried(len(codes)) / away.max(), 1.0, learned), len(codes))


def around(estimate: float, interval: Array, *, none_too: bool) -> Array:
    """Return the interval, widened to hold the estimate, and 0 where the fit found nothing wrong (``none_too``)."""
    least = 0.0 if none_too else min(float(interval[0]), estimate)
    return np.array([least, max(float(interval[1]), estimate)])
