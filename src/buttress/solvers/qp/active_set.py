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
from buttress._proof import U
from buttress.gram.compiled import WIDTH_MULTIPLE
from buttress.gram.rounding import CHAIN
from buttress.gram.rows import KernelRows
from buttress.kernels import Linear
from buttress.solvers.qp.compiled import SINGULAR, newton
from buttress.solvers.qp.pairs import pair_updates
from buttress.solvers.qp.program import QP, Point, violation

# Rows. A round costs up to n^3 / 3 operations, and the matrix takes 18 MB at this size. Pairs alone solve larger ones.
ACTIVE_SET_ROWS = 1500
LEAST_ROUNDS = 100  # rounds that every program gets


def at_once(qp: QP, tol: float, most: int) -> tuple[Point, int]:
    """Solve a small program: pairs until the KKT violation is at most ``tol``, at most so many, then the finish.

    Returns the point and the number of pairs. Where there are too many, or K curves downwards along one, there is no
    finish. The point has its K b where the proof allows for so many sums in any order.
    """
    gram = padded_gram(qp.rows, lasting=False)
    b = qp.start.copy()
    g = padded((_product(gram, b) if qp.start_f is None else qp.start_f) - qp.p)
    pairs, downwards = pair_updates(gram, g, b, qp.lo, qp.hi, qp.l1, tol, most)
    if pairs == most or downwards:
        return Point(b, downwards=downwards), pairs
    b, f = _rounds(qp, gram, b, g[: len(b)], rounds_of(len(b)), lambda: None)
    return Point(b, f if np.count_nonzero(b) <= CHAIN else None), pairs


def exact_finish(
    qp: QP, at: Point, rounds: int | None = None, left: Callable[[], float | None] = lambda: None
) -> Point:
    """Return the optimum to rounding, from a point near it.

    Stops early at a step that does not lower the objective, which happens with an indefinite kernel, and where the
    seconds that are ``left`` (None for no limit) may not do for another step.
    """
    gram = padded_gram(qp.rows) if at.gram is None else at.gram
    most = rounds_of(len(at.b)) if rounds is None else rounds
    b, _ = _rounds(qp, gram, at.b, _product(gram, at.b) - qp.p, most, left)
    return replace(at, b=b, stored=None, summed=None, gram=gram)


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
    # from so small a violation on, Newton steps minimise over a simplex
    pair_updates(gram, padded(gram[:, :k] @ v - a), v, none, qp.hi, none, 1e-7 * float(np.ptp(a)), LEAST_ROUNDS * k)
    return exact_finish(qp, Point(v, gram=gram)).b


def rounds_of(n: int) -> int:
    """Return how many rounds a program of n rows gets."""
    return LEAST_ROUNDS + 30_000 // n  # rounds of small programs are cheap


def affords_step(left: float | None, n: int) -> bool:
    """Say whether the seconds left, None for no limit, do for one more Newton step on n rows."""
    return left is None or left > 1e-9 * n**3  # at most: K singular and all variables free, one thread


def padded(values: Array, real: DTypeLike = np.float64) -> Array:
    """Return the values (n,) in a precision, with zeros up to the next multiple of 64."""
    found = np.zeros(-(-len(values) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE, dtype=real)
    found[: len(values)] = values
    return found


def padded_gram(rows: KernelRows, *, lasting: bool = True) -> Array:
    """Return K in float64, (n, m), with zero columns up to the next multiple of 64.

    One that is not ``lasting`` is overwritten by the next one of the same cache.
    """
    n = len(rows)
    shape = (n, -(-n // WIDTH_MULTIPLE) * WIDTH_MULTIPLE)
    padded = np.empty(shape) if lasting else rows.cache.scratch(*shape, np.float64)
    padded[:, n:] = 0.0
    rows.gram(padded[:, :n])
    return padded


def _product(gram: Array, b: Array) -> Array:
    """Return K b, from the rows where b is not 0, of which a solution has few."""
    active = b.nonzero()[0]
    return b[active] @ gram[active, : len(b)]


def _rounds(
    qp: QP, gram: Array, b: Array, g: Array, most: int, left: Callable[[], float | None]
) -> tuple[Array, Array | None]:
    """Alternate between Newton steps on the free variables and pair updates, for at most ``most`` rounds.

    ``g`` is K b - p. Returns b, and K b once there was time for a round.
    """
    n = len(b)
    f = None
    # a KKT violation this small is rounding, also where K b cancels
    tiny = max(1e-12 * (np.abs(g).max() + np.abs(qp.p).max()), U * np.abs(qp.rows.diagonal).max() * np.abs(b).sum())
    for _ in range(most):
        if not affords_step(left(), n):
            break
        b, blocked = newton_step(gram, qp, b, g)
        f = _product(gram, b)
        g = f - qp.p
        if blocked:
            continue
        if violation(g, b, qp.lo, qp.hi, qp.l1) <= tiny:
            break
        before, before_f = b, f
        b = b.copy()
        pair_updates(gram, padded(g), b, qp.lo, qp.hi, qp.l1, tiny, 2 * n)
        f = _product(gram, b)
        g = f - qp.p
        if not _rise(qp, before, before_f, b, f) < 0:
            return before, before_f
    return b, f


def _rise(qp: QP, before: Array, before_f: Array, b: Array, f: Array) -> float:
    """Return the change of the objective, computed from the move so that no two large values cancel."""
    moved = b - before
    return 0.5 * moved @ (f + before_f) - qp.p @ moved + qp.l1 @ (np.abs(b) - np.abs(before))


def newton_step(K: Array, qp: QP, b: Array, g: Array) -> tuple[Array, bool]:
    """Move the free variables to their unbounded optimum, or to the first bound or kink on the way.

    ``g`` is K b - p. Returns the new b and whether a bound or kink stopped it. A variable at its kink, 0, is not free.
    """
    inside = (b > qp.lo) & (b < qp.hi)
    kinks = bool(qp.l1.any())
    free = (inside & ((b != 0) | (qp.l1 == 0)) if kinks else inside).nonzero()[0]
    size = len(free)
    if size < 2:
        return b, False
    if size <= 64:  # for more, LAPACK is faster than a compiled loop without blocks
        reached = b.copy()
        met = newton(K, g, reached, qp.lo, qp.hi, qp.l1, free, np.empty((size, size + 2)))
        if met >= 0:
            return reached, met > 0
    at = b[free]
    gradient = g[free] + qp.l1[free] * np.sign(at) if kinks else g[free]
    K_free = K[free[:, None], free]
    move = _bordered_solve(K_free, -gradient)
    move -= move.sum() / size  # the sum stays as it is, whatever the rounding
    if not gradient @ move + 0.5 * (move @ K_free @ move) < 0:
        return b, False
    lo, hi = qp.lo[free], qp.hi[free]
    if kinks:  # a variable may not cross its kink
        kinked = qp.l1[free] > 0
        lo = np.where(kinked & (at > 0), np.maximum(lo, 0), lo)
        hi = np.where(kinked & (at < 0), np.minimum(hi, 0), hi)
    b = b.copy()
    b[free], blocked = _towards(at, move, lo, hi)
    return b, blocked


def _towards(at: Array, move: Array, lo: Array, hi: Array) -> tuple[Array, bool]:
    """Return ``at`` + ``move``, or the point where the move meets its first bound, and whether it met one."""
    moved = at + move
    beyond = ((moved > hi) | (moved < lo)).nonzero()[0]
    if not beyond.size:
        return moved, False
    ends = np.where(move > 0, hi, lo)[beyond]
    reach = (ends - at[beyond]) / move[beyond]
    length = reach.min()
    moved = np.clip(at + length * move, lo, hi)
    first = reach <= length
    moved[beyond[first]] = ends[first]
    return moved, True


def _bordered_solve(K: Array, right: Array) -> Array:
    """Return x with K x + nu = right and sum(x) = 0; where K is singular, the x of least norm.

    With the sum fixed, K + s 11' is the same program as K for every s.
    """
    size = len(K)
    shift = K.trace() / size
    sides = np.empty((2, size))
    sides[0] = 1.0
    sides[1] = right
    factor, found, failed = scipy.linalg.lapack.dposv((K + shift).T, sides.T, overwrite_a=1, overwrite_b=1)
    if not failed and factor.diagonal().min() ** 2 > SINGULAR * shift:
        level, move = found.T
        share: float = move.sum() / level.sum()
        return move - share * level
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = K
    system[size, size] = 0.0
    x: Array = scipy.linalg.lstsq(system, np.append(right, 0.0), cond=SINGULAR, lapack_driver="gelsy")[0]
    return x[:-1]
