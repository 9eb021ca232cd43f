"""The exact finish of small programs: an active-set method on the whole Gram matrix.

Each round solves for the free variables as if they had no bounds, and stops at the first bound on the way. When no
bound is in the way, pair updates move the variables that violate the KKT conditions most.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import DTypeLike

from buttress._checks import Array
from buttress.gram.compiled import WIDTH_MULTIPLE
from buttress.gram.rows import Index, KernelRows
from buttress.kernels import Linear
from buttress.solvers.qp.pairs import pair_updates
from buttress.solvers.qp.program import QP, Point, violation

# Rows. A round costs up to n^3 / 3 operations, and the matrix takes 18 MB at this size. Pairs alone solve larger ones.
ACTIVE_SET_ROWS = 1500
ROUNDED_VIOLATION = 1e-12  # a KKT violation this small, relative to the largest entries of K b and p, is rounding
LEAST_ROUNDS = 100  # rounds that every program gets
SPARE_ROUNDS = 30_000  # divided by n: rounds added to those, because the rounds of small programs are cheap
STEP_SECONDS = 1e-9  # times n^3: what a step takes at most, where K is singular and all variables are free; one thread
ROUGH = 1e-7  # of the range of the linear terms: the violation from which on Newton steps minimise over a simplex
SINGULAR = 1e-13  # relative singular values below this count as 0 where K is singular on the free variables


def exact_finish(
    qp: QP, at: Point, rounds: int | None = None, left: Callable[[], float | None] = lambda: None
) -> Point:
    """Return the optimum to rounding, from a point near it.

    Stops early at a step that does not lower the objective, which happens with an indefinite kernel, and where the
    seconds that are ``left`` (None for no limit) may not do for another step.
    """
    gram = padded_gram(qp.rows) if at.gram is None else at.gram
    most = rounds_of(len(at.b)) if rounds is None else rounds
    return replace(at, b=_rounds(qp, gram, at.b, most, left), stored=None, gram=gram)


def simplex_minimiser(U: Array, a: Array) -> Array:
    """Return the v of shape (k,) that minimises 1/2 ||U'v||^2 - a.v over v >= 0 with sum(v) = 1, U of shape (k, d).

    >>> simplex_minimiser(np.eye(2), np.array([0.0, 0.5])).round(6)
    array([0.25, 0.75])
    """
    k = len(a)
    none = np.zeros(k)
    v = np.zeros(k)
    rows = KernelRows(Linear(), U, real=np.float64)
    v[(a - 0.5 * rows.diagonal).argmax()] = 1.0
    qp = QP(rows, a, none, np.ones(k), v, none)
    gram = padded_gram(rows)
    pair_updates(gram, padded(gram[:, :k] @ v - a), v, none, qp.hi, none, ROUGH * float(np.ptp(a)), LEAST_ROUNDS * k)
    return exact_finish(qp, Point(v, gram=gram)).b


def rounds_of(n: int) -> int:
    """Return how many rounds a program of n rows gets."""
    return LEAST_ROUNDS + SPARE_ROUNDS // n


def affords_step(left: float | None, n: int) -> bool:
    """Say whether the seconds left, None for no limit, do for one more Newton step on n rows."""
    return left is None or left > STEP_SECONDS * n**3


def padded_width(n: int) -> int:
    """Return the next multiple of 64 from n."""
    return -(-n // WIDTH_MULTIPLE) * WIDTH_MULTIPLE


def padded(values: Array, real: DTypeLike = np.float64) -> Array:
    """Return the values (n,) in a precision, with zeros up to the next multiple of 64."""
    found = np.zeros(padded_width(len(values)), dtype=real)
    found[: len(values)] = values
    return found


def padded_gram(rows: KernelRows, *, lasting: bool = True) -> Array:
    """Return K in float64, (n, m), with zero columns up to the next multiple of 64.

    One that is not ``lasting`` is overwritten by the next one of the same cache.
    """
    n = len(rows)
    shape = (n, padded_width(n))
    padded = np.empty(shape) if lasting else rows.cache.spare(*shape)
    padded[:, n:] = 0.0
    rows.gram(padded[:, :n])
    return padded


def _rounds(qp: QP, gram: Array, b: Array, most: int, left: Callable[[], float | None]) -> Array:
    """Alternate between Newton steps on the free variables and pair updates, for at most ``most`` rounds."""
    n = len(b)
    K = gram[:, :n]
    tiny = ROUNDED_VIOLATION * (np.abs(K @ b).max() + np.abs(qp.p).max())
    for _ in range(most):
        if not affords_step(left(), n):
            return b
        b, blocked = newton_step(K, qp, b)
        if blocked:
            continue
        g = padded(K @ b - qp.p)
        if violation(g[:n], b, qp.lo, qp.hi, qp.l1) <= tiny:
            return b
        before = b
        b = before.copy()
        pair_updates(gram, g, b, qp.lo, qp.hi, qp.l1, tiny, 2 * n)
        if not _rise(qp, K, before, b) < 0:
            return before
    return b


def _rise(qp: QP, K: Array, before: Array, b: Array) -> float:
    """Return the change of the objective, computed from the move so that no two large values cancel."""
    moved = b - before
    rise: float = 0.5 * moved @ (K @ (b + before)) - qp.p @ moved + qp.l1 @ (np.abs(b) - np.abs(before))
    return rise


def newton_step(K: Array, qp: QP, b: Array) -> tuple[Array, bool]:
    """Move the free variables to their unbounded optimum, or to the first bound or kink on the way.

    Returns the new b and whether a bound or kink stopped it. A variable at its kink, 0, is not free.
    """
    l1 = qp.l1
    free = np.flatnonzero((b > qp.lo) & (b < qp.hi) & ((b != 0) | (l1 == 0)))
    if len(free) < 2:
        return b, False
    at = b[free]
    K_free = K[np.ix_(free, free)]
    gradient = K[free] @ b - qp.p[free] + l1[free] * np.sign(at)
    move = _bordered_solve(K_free, -gradient)
    move -= move.mean()  # the sum stays as it is, whatever the rounding
    slope = gradient @ move
    curvature = move @ K_free @ move
    if not slope + 0.5 * curvature < 0:
        return b, False
    lo, hi = _sides(qp, at, free)
    b = b.copy()
    b[free], blocked = _towards(at, move, lo, hi)
    return b, blocked


def _sides(qp: QP, at: Array, free: Index) -> tuple[Array, Array]:
    """Return the bounds of the free variables ``at``; with l1 > 0 a variable may not cross its kink at 0."""
    kinked = qp.l1[free] > 0
    lo = np.where(kinked & (at > 0), np.maximum(qp.lo[free], 0), qp.lo[free])
    hi = np.where(kinked & (at < 0), np.minimum(qp.hi[free], 0), qp.hi[free])
    return lo, hi


def _towards(at: Array, move: Array, lo: Array, hi: Array) -> tuple[Array, bool]:
    """Return ``at`` + ``move``, or the point where the move meets its first bound, and whether it met one."""
    room = np.where(move > 0, hi - at, lo - at)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(move != 0, room / move, np.inf)
    length = min(1.0, reach.min())
    moved = np.clip(at + length * move, lo, hi)
    if length < 1:
        met = reach <= length
        moved[met] = np.where(move > 0, hi, lo)[met]
    return moved, bool(length < 1)


def _bordered_solve(K: Array, right: Array) -> Array:
    """Return x with K x + nu = right and sum(x) = 0; where K is singular, the x of least norm."""
    size = len(K)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = K
    system[size, size] = 0.0
    bordered = np.append(right, 0.0)
    *_, found, _, _, _, failed = scipy.linalg.lapack.dsysvx(system, bordered)
    x = found[:, 0]
    if failed or not np.isfinite(x).all():  # a pivot of 0, or a condition beyond rounding
        x = scipy.linalg.lstsq(system, bordered, cond=SINGULAR, lapack_driver="gelsy")[0]
    return x[:-1]
