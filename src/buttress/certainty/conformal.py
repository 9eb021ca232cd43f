"""What rows left out say of new ones: prediction sets, p-values, and which rows to call novel.

A class is in the set of a row where its lead over the strongest rival class is at least the threshold: the lead that
the right classes of left-out rows fall short of with the probability that the set may miss. Source: Vovk,
Cross-conformal predictors, 2015; Barber, Candes, Ramdas & Tibshirani, Predictive inference with the jackknife+, 2021.

A new row that is like the training rows is as likely to be the k-th farthest of all n + 1 as any of them. So

    p(x) = (1 + sum_i w_i [d_i >= d(x)]) / (1 + sum_i w_i)

is a p-value if the d_i are found as d(x) is, by a fit that does not know the row (Vovk, Gammerman & Shafer,
Algorithmic learning in a random world, 2005). Weights count rows. Of many p-values from one set of training rows,
Benjamini & Hochberg's procedure keeps the share of typical rows among those called novel (Bates, Candes, Lei, Romano &
Sesia, Testing for outliers with conformal p-values, 2023, theorem 2; section 2.4 for the adaptive version).
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress._checks import TINY, Array, check_number, warn_user
from buttress._types import Mask, Rows

ROUNDING = 1e-9  # of a number of rows
HALF = 0.5  # p-values above it count as typical rows' in the adaptive version: Storey's usual choice
NAMED = 5  # groups named in a warning
GroupPair = tuple[ArrayLike, ArrayLike]  # groups of the training rows (n,), and of the rows asked about (m,)


def rows_needed(p: float) -> int:
    """Return how many training rows must count for any p-value to be as small as ``p``."""
    return int(np.ceil(1 / p - 1 - ROUNDING))


def check_coverage(coverage: float, rows: float) -> float:
    """Return the coverage; ValueError outside (0, 1), or where the rows (their summed weight) are too few."""
    share = check_number("coverage", coverage, 0, 1)
    needed = rows_needed(1 - share)
    if rows < needed * (1 - ROUNDING):
        raise ValueError(f"coverage={share:g} needs at least {needed} training rows. Got {rows:g}. Lower the coverage, "
                         "or fit to more rows.")
    return share


def lower_threshold(values: Array, weight: Array, coverage: float) -> float:
    """Return the value that a new one of the same law falls below with probability at most 1 - coverage.

    Of n values it is the k-th smallest, k = floor((1 - coverage) (n + 1)); a row of weight two counts as two.
    """
    share = check_coverage(coverage, float(weight.sum()))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    allowed = (1 - share) * (weight.sum() + 1)
    return float(values[order][np.searchsorted(below[:-1], allowed - 1 + ROUNDING, side="right")])


@dataclass(frozen=True)
class Groups:
    """Numbers of the groups of rows left out, ``own`` (-1 where no new row has it), and of new rows, and the groups."""

    own: Rows
    new: Rows
    names: list[Any]


class OfRows(Protocol):
    """What is known of some of the rows ``given`` to a fit: their numbers, where these are known, and weights (n,)."""

    row: Rows | None
    given: int | None
    weight: Array


def grouped(groups: GroupPair | None, held: OfRows, m: int) -> Groups:
    """Return the groups of rows left out, and of m new ones; one without any ``groups``.

    Rows whose group is NaN are a group. Raises ValueError for other lengths, and where it is not known which rows were
    left out.
    """
    if groups is None:
        return Groups(np.zeros(len(held.weight), dtype=np.intp), np.zeros(m, dtype=np.intp), [None])
    row, given = held.row, held.given
    if row is None or given is None:
        raise ValueError("Which training rows were left out is not known here: they were drawn from a join. Leave "
                         "groups=None.")
    pair = [np.asarray(of, dtype=object) for of in groups] if isinstance(groups, tuple | list) else []
    shapes = [of.shape for of in pair]
    if shapes != [(given,), (m,)] or not all(isinstance(one, Hashable) for of in pair for one in of):
        got = f"shapes {shapes}" if len(shapes) == 2 else f"a {type(groups).__name__}"
        raise ValueError(f"groups must be two arrays, of the {given} rows given to fit and of the {m} rows of X, with "
                         f"one label a row, number or text. Got {got}. Write groups=(of_training_rows, of_new_rows).")
    numbers: dict[Any, int] = {}
    asked, known = ([None if isinstance(one, float) and one != one else one for one in of]
                    for of in (pair[1], pair[0][row]))
    new = np.array([numbers.setdefault(one, len(numbers)) for one in asked], dtype=np.intp)
    own = np.array([numbers.get(one, -1) for one in known], dtype=np.intp)
    return Groups(own, new, list(numbers))


def as_rows(weight: Array) -> Array:
    """Return weights (n,) that sum to (sum w)^2 / sum w^2: the rows, where all are equal (Kish, Survey sampling, 1965).
    """
    share = weight / max(float(weight.max(initial=0)), TINY)
    return np.asarray(share * (share.sum() / max(float(share @ share), TINY)))


def too_few(coverage: float, counts: Array, names: Sequence[str], instead: str) -> Mask:
    """Return which ``counts`` of rows are too few to promise this coverage; warn of them by name."""
    needed = rows_needed(1 - coverage)
    few = counts < needed * (1 - ROUNDING)
    if few.any():
        listed = [f"{names[k]} ({counts[k]:g})" for k in np.flatnonzero(few)[:NAMED]]
        more = ", ..." if few.sum() > NAMED else ""
        warn_user(f"coverage={coverage:g} cannot be promised for {few.sum()} of {len(few)} classes or groups, which "
                  f"have fewer than {needed} training rows: {', '.join(listed)}{more}. {instead}")
    return few


def thresholds(values: Array, weight: Array, part: Rows, names: Sequence[str], coverage: object) -> Array:
    """Return :func:`lower_threshold` of each part of the rows, as ``part`` (n,) numbers them; -inf of one of too few.

    Weights say how much the rows of a part count against each other, as class weights say nothing of how many it has.
    """
    share = check_number("coverage", coverage, 0, 1)
    rows = [np.flatnonzero(part == k) for k in range(len(names))]
    counted = [as_rows(weight[own]) for own in rows]
    few = too_few(share, np.array([one.sum() for one in counted]), names, "Their sets hold every class in question.")
    return np.array([-np.inf if few[k] else lower_threshold(values[rows[k]], counted[k], share)
                     for k in range(len(names))])


def p_values(distance2: Array, left_out: Array, weight: Array) -> Array:
    """Return p(x), in (0, 1], of rows at these squared distances, from those of rows left out (n,) and weights (n,)."""
    beyond, total = mass_beyond(distance2, left_out, weight)
    return np.asarray((1 + beyond) / (1 + total))


def mass_beyond(distance2: Array, left_out: Array, weight: Array) -> tuple[Array, float]:
    """Return sum_i w_i [d_i >= d(x)] of rows at these distances (m,), and the sum of all weights w (n,)."""
    order = np.argsort(left_out)
    below = np.concatenate([[0.0], np.cumsum(weight[order])])
    beyond = below[-1] - below[np.searchsorted(left_out[order], distance2, side="left")]
    return np.asarray(np.maximum(beyond, 0)), float(below[-1])


def nearer(distance: Array) -> Array:
    """Return the distances less what makes equal ones differ, whatever rows they were computed with."""
    return distance - 1e-9 * np.where(np.isinf(distance), 0.0, np.abs(distance))  # infinite ones tie as they are


def selected(distance: Array, own: Array, beyond: Array, total: float, count: int, fdr: object) -> Mask:
    """Return which rows (m,) are novel by weighted conformalised selection, at the false discovery rate ``fdr``.

    Of ``count`` rows left out, whose weights sum to ``total``, those as far out as row l weigh b_l; its own weight is
    w_l. Row j is a candidate if p_j = (w_j + b_j) / (w_j + total) <= fdr n_j / m. There n_j is how many Benjamini and
    Hochberg's procedure rejects of q_j = 0 and, for the other rows, with v_j = (w_j + total) / (count + 1),

        q_l = (b_l + w_j [d_j >= d_l] + w_l - v_j) / (w_j + total + w_l - v_j).

    Of the candidates those with n_j <= r stay, r the largest number such that so many have n_j <= r. If all weights are
    equal these are the rows that the procedure rejects of the p_j.

    Given the other rows, and row j with those left out in no order, n_j is fixed, and P(p_j <= t) <= t if weights are
    in proportion to what brought each of them into place j. So a typical row adds at most fdr / m (Jin & Candes,
    Model-free selective inference under covariate shift via weighted conformal p-values, 2023). Their q_l leave out
    w_l - v_j: rows of large weight then count in n_j, are no candidates, and many others do not stay.
    """
    level = check_number("fdr", fdr, 0, 1) * (1 + 1e-12) / max(len(own), 1)
    far = nearer(distance)
    sizes = np.ones(len(own), dtype=np.intp)
    for j, weight in enumerate(own):
        others = np.arange(len(own)) != j
        more = own[others] - (weight + total) / (count + 1)
        q = (beyond[others] + weight * (distance[j] >= far[others]) + more) / (weight + total + more)
        sizes[j] = 1 + np.flatnonzero(np.append(True, np.sort(q) <= level * np.arange(2, len(own) + 1)))[-1]
    candidate = (own + beyond) / (own + total) <= level * sizes
    counts = np.sort(sizes[candidate])
    kept = np.flatnonzero(np.append(True, counts <= np.arange(1, len(counts) + 1)))[-1]
    return np.asarray(candidate & (sizes <= kept))


def threshold(left_out: Array, weight: Array, contamination: float) -> float:
    """Return the largest squared distance whose p-value is above ``contamination``.

    Raises ValueError where the rows are too few for any p-value to be as small.
    """
    total = float(weight.sum())
    needed = rows_needed(contamination)
    if total < needed:
        raise ValueError(f"contamination={contamination:g} needs at least {needed} rows, to tell so rare a row "
                         f"from the others. Got {total:.4g}. Use a larger contamination or more rows.")
    kept = p_values(left_out, left_out, weight) > contamination * (1 + 1e-12)
    return float(left_out[kept].max(initial=-np.inf))


def named(p: Array, fdr: object, rows: float, *, adaptive: bool) -> Mask:
    """Return which rows are novel by :func:`rejected`; warn where so few ``rows`` left out can never name one."""
    level = check_number("fdr", fdr, 0, 1)
    if not adaptive:
        warn_of_few(rows, level)
    return rejected(p, level, adaptive=adaptive)


def warn_of_few(rows: float, level: float) -> None:
    """Warn where so few rows left out, each of the weight of a new one, cannot name any at a false discovery rate."""
    needed = rows_needed(level)
    if rows < needed:
        warn_user(f"fdr={level:g} can name no row: no p-value is below 1 / (1 + {rows:.4g} training rows), and "
                  f"{needed} rows are needed. Fit to more rows, or use a larger fdr.")


def rejected(p: Array, fdr: object, *, adaptive: bool) -> Mask:
    """Return which p-values (m,) Benjamini and Hochberg's procedure rejects at the false discovery rate ``fdr``.

    The ``adaptive`` version divides by an estimate of the share of true nulls, (1 + #{p > 1/2}) / (m / 2) (Storey,
    Taylor & Siegmund 2004), and rejects no p-value above 1/2.
    """
    level = check_number("fdr", fdr, 0, 1)
    m = len(p)
    nulls = min(1.0, (1 + np.count_nonzero(p > HALF)) / (max(m, 1) * (1 - HALF))) if adaptive else 1.0
    order: NDArray[np.intp] = np.argsort(p)
    small = p[order] * nulls * m <= level * np.arange(1, m + 1) * (1 + 1e-12)
    last = m - int(small[::-1].argmax()) if small.any() else 0
    cut = p[order[last - 1]] if last else 0.0
    return np.asarray(p <= (min(cut, HALF) if adaptive else cut))
