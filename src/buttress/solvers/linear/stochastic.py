"""Stochastic gradient descent for the linear support vector machine, with suffix averaging.

It minimises the mean form of ``primal.py``,  lam/2 ||w||^2 + sum_i share_i l(u_i),  one row at a time. Row i is drawn
in proportion to share_i, and  w <- (1 - eta lam) w + eta l'(u_i) y_i x_i,  b <- b + eta l'(u_i) y_i. The intercept is
not penalised.

The steps are compiled, for dense rows and CSR. The iterate is stored as w = scale * v, so that shrinking it costs one
product. The sum of all iterates of a call is stored as spread * v + lag, so that averaging costs nothing on rows whose
loss is 0. ``carry`` holds (scale, spread, b, sum of b, number of steps ever taken). Arrays are changed in place.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from buttress._checks import TINY, Array
from buttress._compiling import compile_kernel, prefetch
from buttress._rows import equal_rows, row_sums
from buttress._state import Attribute, Lengths, State
from buttress._types import is_csr
from buttress.solvers.linear.primal import LinearProblem, Plane, Rate
from buttress.solvers.run import Step, Steps

ANY_ORDER = {"reassoc", "contract"}  # sums may be reordered, without which inner products are not vectorised
AHEAD = 4  # rows are prefetched this many steps ahead: they are drawn at random, so the processor cannot guess them
LINE = 8  # numbers in a cache line

_REST = "float64[::1], int64[::1]" + 3 * ", float64[::1]" + 3 * ", float64" + ", boolean, float64"
JUDGED_ROWS = 5_000  # most rows on which the objective is computed; with fewer rows it is exact


@register_jitable
def advance(
    carry: Array, y: float, product: float, first: float, decay: float, lam: float, squared: bool, intercept: float
) -> tuple[float, float]:
    """Take a step on a row with v'x = ``product``, except for v and lag; return the multiples of x to add to those."""
    slack = 1 - y * (carry[0] * product + carry[2])
    eta = first / (1 + decay * carry[4])
    carry[0] *= 1 - eta * lam
    pull = eta * y * (2 * slack if squared else 1.0) if slack > 0 else 0.0
    now = pull / carry[0]
    late = -carry[1] * now
    carry[2] += intercept * pull
    carry[1] += carry[0]
    carry[3] += carry[2]
    carry[4] += 1
    return now, late


@register_jitable
def take_in_scale(carry: Array, v: Array, lag: Array) -> None:
    """Multiply the scale into v once it has become too small, and set it to 1."""
    if carry[0] < 1e-4:  # rounding errors would grow by the inverse of the scale
        for j in range(v.size):
            lag[j] += carry[1] * v[j]
            v[j] *= carry[0]
        carry[0] = 1.0
        carry[1] = 0.0


@compile_kernel(f"void(float64[:,::1], {_REST})", fastmath=ANY_ORDER)
def dense_steps(
    X: Array, y: Array, rows: NDArray[np.int64], v: Array, lag: Array, carry: Array,
    first: float, decay: float, lam: float, squared: bool, intercept: float,
) -> None:
    """Take one step on each of ``rows`` in turn, of length first / (1 + decay t), times ``intercept`` in b."""
    d = X.shape[1]
    for k in range(rows.size):
        i = rows[k]
        if k + AHEAD < rows.size:
            for j in range(0, d, LINE):
                prefetch(X, (rows[k + AHEAD], j))
        product = 0.0
        for j in range(d):
            product += v[j] * X[i, j]
        now, late = advance(carry, y[i], product, first, decay, lam, squared, intercept)
        if now != 0:
            for j in range(d):
                v[j] += now * X[i, j]
                lag[j] += late * X[i, j]
        take_in_scale(carry, v, lag)


@compile_kernel(f"void(float64[::1], int32[::1], int32[::1], {_REST})", fastmath=ANY_ORDER)
def sparse_steps(
    data: Array, columns: NDArray[np.int32], starts: NDArray[np.int32], y: Array,
    rows: NDArray[np.int64], v: Array, lag: Array, carry: Array,
    first: float, decay: float, lam: float, squared: bool, intercept: float,
) -> None:
    """Take the steps of :func:`dense_steps` on rows of a CSR matrix."""
    for i in rows:
        product = 0.0
        for k in range(starts[i], starts[i + 1]):
            product += v[columns[k]] * data[k]
        now, late = advance(carry, y[i], product, first, decay, lam, squared, intercept)
        if now != 0:
            for k in range(starts[i], starts[i + 1]):
                v[columns[k]] += now * data[k]
                lag[columns[k]] += late * data[k]
        take_in_scale(carry, v, lag)


def _learn_width(mean: "SuffixMean", lengths: Lengths) -> None:
    lengths["n_features"] = lengths["n_coefficients"] - 1  # the last one is the intercept


@dataclass
class Walk:
    """Where a stochastic descent stands: v and ``carry`` of ``epoch.py``."""

    _state = State(Attribute("v", "finite", "n_features"), Attribute("carry", "finite", "5"))

    v: Array
    carry: Array

    @classmethod
    def start(cls, w: Array, b: float = 0.0) -> "Walk":
        return cls(w.copy(), np.array([1.0, 0.0, b, 0.0, 0.0]))

    @property
    def iterate(self) -> Array:
        """(w, b), shape (d + 1,)."""
        return np.append(self.carry[0] * self.v, self.carry[2])

    def steps(self, problem: LinearProblem, rate: Rate, rows: NDArray[np.int64]) -> Array:
        """Take one step on each of ``rows`` and return the sum of the iterates (w, b), shape (d + 1,)."""
        X = problem.X
        carry = self.carry
        lag = np.zeros_like(self.v)
        carry[1] = carry[3] = 0.0
        rest = (problem.y, rows, self.v, lag, carry, rate.first, rate.decay, problem.lam, problem.squared,
                rate.intercept if problem.intercept else 0.0)
        if is_csr(X):
            columns, starts = (index.astype(np.int32, copy=False) for index in (X.indices, X.indptr))
            sparse_steps(X.data, columns, starts, *rest)
        else:
            dense_steps(X, *rest)
        return np.append(carry[1] * self.v + lag, carry[3])


class SuffixMean:
    """The mean of the latest iterates: always between a third and two thirds of all that were added.

    A new sum starts at the additions 1, 2, 4, 8, ...; it replaces the older sum once it holds more than half as many
    iterates.
    """

    _state = State(
        Attribute("added", "count"),
        Attribute("size", "count"),
        Attribute("young_size", "count"),
        Attribute("total", "finite", "n_coefficients"),
        Attribute("young", "finite", "n_coefficients"),
        together=_learn_width)

    def __init__(self, d: int):
        self.added = 0
        self.size = 0
        self.young_size = 0
        self.total = np.zeros(d)
        self.young = np.zeros(d)

    def add(self, total: Array, size: int) -> None:
        """Add the sum of ``size`` iterates."""
        self.added += 1
        if self.added & (self.added - 1) == 0:
            self.young = np.zeros_like(total)
            self.young_size = 0
        self.total = self.total + total
        self.young = self.young + total
        self.size += size
        self.young_size += size
        if 2 * self.young_size > self.size:
            self.total = self.young
            self.size = self.young_size

    @property
    def value(self) -> Array:
        return self.total / self.size


def draws(share: Array, rng: np.random.RandomState, *, whole: bool = False) -> Iterator[NDArray[np.int64]]:
    """Yield the blocks of one pass after another (``whole``: each pass at once), as row numbers in random order.

    Row i comes n share_i times in a pass, rounded up or down at random. With equal shares every row comes once. A row
    of weight two is drawn as two equal rows are.
    """
    n = len(share)
    even = bool(np.ptp(share) <= 1e-12 * share[0])  # but for rounding
    reach = np.cumsum(share) / share.sum()
    while True:
        rows = np.arange(n)
        if not even:
            rows = np.minimum(np.searchsorted(reach, (rows + rng.random_sample()) / n), n - 1)
        rng.shuffle(rows)
        yield from np.array_split(rows, 1 if whole else blocks(n))


def blocks(n: int) -> int:
    """Return how many blocks make a pass over n rows."""
    return 16 if n >= 1000 else 1  # of fewer rows the objective would take as long as the steps


def merged(problem: LinearProblem) -> tuple[LinearProblem, NDArray[np.intp]]:
    """Return the problem with the C_i of equal rows added to one of them (0 for the others), and the rows that count.

    The rows are sorted by a combination of their columns. This order depends on the values of the rows and not on
    their places, so repeated, weighted and shuffled rows get the same steps. Very many rows stay as given.
    """
    if len(problem.y) > 10_000:  # finding equal ones takes a third of the whole fit
        return problem, np.arange(len(problem.y))
    codes = (problem.y > 0).astype(np.intp)
    sums = row_sums(problem.X, codes)
    group = equal_rows(problem.X, codes, sums)
    if group is None:
        return problem, sums.argsort()
    rows = np.unique(group, return_index=True)[1]
    bound = np.zeros_like(problem.bound)
    bound[rows] = np.bincount(group, problem.bound)
    return replace(problem, bound=bound), rows[sums[rows].argsort()]


def stochastic_descent(
    problem: LinearProblem, rate: Rate, *, average: bool, rng: np.random.RandomState,
    rows: NDArray[np.intp] | None = None,
) -> Steps:
    """Yield a plane after each block of ``rows``: a sixteenth of a pass, or a whole pass of fewer than 1,000 rows.

    With ``average``, it is the :class:`SuffixMean` of the iterates. The change compares the objective with its value at
    half as many blocks, and is the largest of the last three such relative changes. If errors fall like 1/t, that is
    about the error that remains. The objective is computed on at most 5,000 rows.
    """
    d = problem.X.shape[1]
    rows = np.arange(len(problem.y)) if rows is None else rows
    judge = judges(problem, rng, rows)
    walk = Walk.start(np.zeros(d))
    mean = SuffixMean(d + 1)
    z = np.zeros(d + 1)
    objectives = [judge.primal(z[:d], np.ones(len(judge.y)))]
    changes = [np.inf, np.inf, np.inf]
    for block in draws(problem.bound[rows] * problem.lam, rng):
        yield Step(Plane(z[:d], float(z[d])), change=max(changes[-3:]), objective=objectives[-1])
        mean.add(walk.steps(problem, rate, rows[block]), len(block))
        z = mean.value if average else walk.iterate
        half = objectives[len(objectives) // 2]
        objectives.append(judge.primal(z[:d], judge.slack(z[:d], float(z[d]))))
        changes.append(abs(half / max(objectives[-1], TINY) - 1))


def judges(problem: LinearProblem, rng: np.random.RandomState, rows: NDArray[np.intp]) -> LinearProblem:
    """Return the problem of at most ``JUDGED_ROWS`` of the ``rows``, with its C_i scaled to the same sum."""
    if len(rows) > JUDGED_ROWS:
        rows = rows[np.sort(rng.choice(len(rows), JUDGED_ROWS, replace=False))]
    bound = problem.bound[rows]
    return replace(problem, X=problem.X[rows], y=problem.y[rows], bound=bound * (problem.bound.sum() / bound.sum()))
