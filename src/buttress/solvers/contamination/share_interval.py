"""How large the share of corrupt rows may be, given the residuals or scores of a fit that leaves each row out.

A law says of each row how likely it is corrupt, p_i. Let one number rho of the law vary, its share or rate, and learn
the rest anew for each value: that gives the profile likelihood L(rho), and p_i(rho). With rho evenly spread beforehand,

    P(b of n rows are corrupt) = sum over rho of  L(rho)^k P(b | rho),     b | rho ~ sum_i Bernoulli(p_i(rho)),

and the interval is the shortest that holds 90 per cent: where none may be corrupt, it begins at 0. The sum of Bernoulli
variables is taken as normal. Beside the unknown rho it is uncertain which rows are corrupt, so that the interval is
about the share of these rows, not about the rate at which such rows come.

Labels have two laws, one rate or a rate for each direction, and few rows seldom decide between them. Both count, each
with half of the weight beforehand. The numbers of the first are all tried, on grids. Of the second a common factor of
the rates is; each other number that it learns costs log(n)/2 (Schwarz's criterion).

The power k is of composite likelihoods (Varin, Reid & Firth 2011): rows that leave each other out share most of a fit,
and the true law is never quite among those tried. With power 1 the intervals are too narrow. For the same reason the
variance of b given rho is divided by k. It is 1/3 for labels; for residuals, whose two densities are further from the
truth, 1/7 (``SHARES``). Where the corrupt rows look like good ones, no likelihood finds them, and no such interval
holds their share.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress._threads import own_threads
from buttress.solvers.contamination.confusion_law import Confusion, numbers_mixed, over_classes, with_calibration
from buttress.solvers.contamination.label_law import label_likelihoods, wrong_chances
from buttress.solvers.contamination.residual_law import Law, LawLimits, LeftOutResiduals, em_rounds
from buttress.solvers.contamination.tuning import LABELS, RESIDUALS, SHARES

COVERAGE = 0.9  # that `contamination_interval_` is documented to have
AnyLaw = TypeVar("AnyLaw", Law, Confusion)
Learned = tuple[AnyLaw, float, Array]  # a law, its log likelihood, and the p_i (n,)


@dataclass(frozen=True)
class LawsTried:
    """Laws along their share, (k,) each: log likelihood, expected number of corrupt rows, its variance, cell of rho."""

    likelihood: Array
    expected: Array
    variance: Array
    cell: Array

    @classmethod
    def of(cls, laws: Iterable[tuple[float, Array]], cell: Array) -> "LawsTried":
        """Return what is kept of laws, each a log likelihood and the p_i (n,)."""
        likelihood, expected, variance = np.array([(one, p.sum(), (p * (1 - p)).sum()) for one, p in laws]).T
        return cls(likelihood, expected, variance, cell)

    def beside(self, other: "LawsTried") -> "LawsTried":
        """Return these laws and others."""
        return LawsTried(*(np.concatenate([getattr(self, one.name), getattr(other, one.name)]) for one in fields(self)))


def shortest(tried: LawsTried, n: int, power: float) -> Array:
    """Return the ends of the shortest interval that holds the share of n rows with probability .9.

    Likelihoods count with this power. Of several it is the lowest; neither end is more than any share that was tried.
    """
    weight = np.exp((tried.likelihood - tried.likelihood.max()) * power) * tried.cell
    weight /= weight.sum()
    counts = np.arange(n + 1)
    deviation = np.sqrt(np.maximum(tried.variance / power, TINY))
    upto = np.zeros(n + 2)  # P(less than this many)
    for part, middle, width in zip(weight, tried.expected, deviation, strict=True):
        if part > SHARES.neglected:
            upto[1:] += part * ndtr((counts + 0.5 - middle) / width)
    upto[-1] = 1.0
    end = np.searchsorted(upto, np.minimum(upto[:-1] + COVERAGE, 1.0))
    holds = upto[:-1] + COVERAGE <= 1.0
    start = int(np.argmin(np.where(holds, end - counts, n + 2)))
    return np.minimum(np.array([start, end[start] - 1]) / n, RESIDUALS.most_bad)


def outward(law: AnyLaw, values: Array, start: float, learned: Callable[[AnyLaw, float], Learned[AnyLaw]]) -> LawsTried:
    """Return the laws at these values of rho, each ``learned`` from the one before, from ``start`` up and down."""
    first = int(np.searchsorted(values, start))
    found: list[tuple[float, Array]] = []
    for some in (values[:first][::-1], values[first:]):
        found.reverse()
        now = law
        for value in some:
            now, likelihood, p = learned(now, float(value))
            found.append((likelihood, p))
    return LawsTried.of(found, np.gradient(values))


def residual_shares(law: Law, seen: LeftOutResiduals, limits: LawLimits) -> Array:
    """Return the interval for the outlier share of leave-one-out residuals, shape (2,), from their law.

    The law is learned anew at each share. With more than 10,000 rows it is learned from a random part of them.
    """
    part = seen.drawn() if law.shaped else replace(seen, level=None).drawn()

    def learned(now: Law, share: float) -> Learned[Law]:
        now = em_rounds(replace(now, share=share), part, LawLimits(limits.floor, share), 5)
        good, likelihood = now.e_step(part)
        return now, likelihood, 1 - good

    return shortest(outward(law, SHARES.tried(len(part)), law.share, learned), len(part), SHARES.of_residuals)


@own_threads()
def label_shares(
    scores: Array, codes: NDArray[np.intp], directed: Confusion | None = None, *, mixed: bool = False
) -> Array:
    """Return the interval for the share of wrong labels, shape (2,), of scores (n, C) and class numbers codes (n,).

    The scores must be of the fit to the labels as given, since a fit to relabelled rows agrees with what it takes as
    wrong. ``directed`` is the law of directions learned from them, where one was. Scores may have been ``mixed``.
    """
    part = drawn_rows(len(codes))
    scores = scores[part]
    codes = codes[part]
    n = len(codes)
    tried = _of_one_rate(scores, codes)
    if directed is not None and directed.directions():
        tried = tried.beside(_of_directions(directed, scores, codes, mixed))
    return shortest(tried, n, SHARES.of_labels)


def _of_one_rate(scores: Array, codes: NDArray[np.intp]) -> LawsTried:
    """Return the laws of ``label_law``: rho and the temperature are tried on its grids, evenly spread beforehand."""
    rates = LABELS.rates
    likelihood = label_likelihoods(scores, codes, rates) * len(codes)
    least = likelihood.max() + np.log(SHARES.neglected) / SHARES.of_labels
    likely = np.flatnonzero(likelihood.max(axis=1) > least)

    def chances(t: np.intp) -> Array:
        return wrong_chances(over_classes(softmax, LABELS.temperatures[t] * scores), codes, rates).T

    laws = ((likelihood[t, k], p) for t in likely for k, p in enumerate(chances(t)))
    cell = np.gradient(rates)
    return LawsTried.of(laws, np.tile(cell / (cell.sum() * len(LABELS.temperatures)), len(likely)))


def _of_directions(law: Confusion, scores: Array, codes: NDArray[np.intp], mixed: bool) -> LawsTried:
    """Return the laws whose rates off the diagonal are those of ``law`` times a common factor.

    It goes up to where half of a class is given other labels; temperature and bias are learned anew. Beside the factor,
    which is spread evenly beforehand, as many numbers are learned as the law has, less one, and those of scores that
    were ``mixed`` before: then both laws have these.
    """
    rows = np.arange(len(codes))
    away = 1 - np.diagonal(law.rates)

    def learned(now: Confusion, factor: float) -> Learned[Confusion]:
        rates = law.rates * factor
        np.fill_diagonal(rates, 1 - away * factor)
        now = replace(now, rates=rates)
        for _ in range(5):
            now = with_calibration(now, scores, codes)
        likelihood = float(np.log(np.maximum(now.joint(scores, codes).sum(axis=1), TINY)).sum())
        return now, likelihood, 1 - now.true_chances(scores, codes)[rows, codes]

    tried = outward(law, SHARES.tried(len(codes)) / away.max(), 1.0, learned)
    more = law.numbers() - 1 - (numbers_mixed(len(law.rates)) + 1 if mixed else 0)
    cost = more * np.log(len(codes)) / 2
    return replace(tried, likelihood=tried.likelihood - cost, cell=tried.cell / tried.cell.sum())


def around(estimate: float, interval: Array, *, none_too: bool) -> Array:
    """Return the interval, widened to hold the estimate, and 0 where the fit found nothing wrong (``none_too``)."""
    least = 0.0 if none_too else min(float(interval[0]), estimate)
    return np.array([least, max(float(interval[1]), estimate)])
