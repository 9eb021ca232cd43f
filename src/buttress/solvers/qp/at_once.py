"""One compiled pass for programs whose Gram matrix fits in the processor's cache: pairs, then Newton steps to rounding.

The steps of ``smo.py`` and ``active_set.py`` take microseconds on a few hundred rows, and the Python between them takes
far longer. Here both are one call. It does the same as the two in turn:

    1. pair updates until the KKT violation is at most tol
    2. in rounds, until the violation is rounding: solve for the free variables F as if they had no bounds, and stop at
       the first bound on the way; when no bound is in the way, update the pairs that violate the conditions most

Step 2 is min_x 1/2 x'K_F x + g_F'x with sum(x) = 0, solved by a Cholesky factor of K_F + s 11', which is the same
program for every s. The pass gives up, with the best point so far, where K_F is singular up to rounding, where more
than 128 variables are free, for which LAPACK is faster, and at its limits. Others then go on from there.
"""

import numba
import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress.gram.rows import Index
from buttress.solvers.qp.compiled import largest_violation
from buttress.solvers.qp.pairs import Source, copy_row, improve

FREE = 128  # variables: more are left to LAPACK, whose blocks are faster than the loops here
SINGULAR = 1e-13  # of the largest pivot: a pivot below this is rounding


@numba.njit(error_model="numpy")
def _product(K: Array, b: Array, f: Array, source: Source) -> None:
    """Set f = K b, from the rows of the symmetric K where b is not 0, which are copied where they are missing."""
    n = b.size
    for t in range(n):
        f[t] = 0.0
    for i in range(n):
        weight = b[i]
        if weight != 0:
            copy_row(K, i, source)
            row = K[i]
            for t in range(n):
                f[t] += weight * row[t]


@numba.njit(error_model="numpy")
def _free(b: Array, lo: Array, hi: Array, l1: Array) -> Index:
    """Return the variables that are at no bound and at no kink."""
    found = np.empty(b.size, np.int64)
    count = 0
    for i in range(b.size):
        if lo[i] < b[i] < hi[i] and (b[i] != 0 or l1[i] == 0):
            found[count] = i
            count += 1
    return found[:count]


@numba.njit(error_model="numpy")
def _factor(A: Array) -> bool:
    """Put the Cholesky factor U of A = U'U into its upper triangle; False where A is singular up to rounding.

    Row by row, so that the inner loops run along memory.
    """
    n = len(A)
    largest = 0.0
    for k in range(n):
        largest = max(largest, A[k, k])
    for k in range(n):
        row = A[k]
        if not row[k] > SINGULAR * largest:
            return False
        pivot = np.sqrt(row[k])
        for j in range(k, n):
            row[j] /= pivot
        for i in range(k + 1, n):
            weight = row[i]
            below = A[i]
            for j in range(i, n):
                below[j] -= weight * row[j]
    return True


@numba.njit(error_model="numpy")
def _substitute(U: Array, x: Array) -> None:
    """Replace x by the solution of U'U x, U an upper triangle."""
    for i in range(x.size):
        x[i] /= U[i, i]
        for k in range(i + 1, x.size):
            x[k] -= U[i, k] * x[i]
    for i in range(x.size - 1, -1, -1):
        for k in range(i + 1, x.size):
            x[i] -= U[i, k] * x[k]
        x[i] /= U[i, i]


@numba.njit(error_model="numpy")
def _move(K: Array, free: Index, gradient: Array, move: Array) -> bool:
    """Set ``move`` to the unbounded step of the free variables that keeps their sum; False where K_F is singular."""
    size = free.size
    A = np.empty((size, size))
    shift = 0.0
    for i in range(size):
        shift += K[free[i], free[i]] / size
    for i in range(size):
        row = K[free[i]]
        for k in range(i, size):
            A[i, k] = row[free[k]] + shift
    if not _factor(A):
        return False
    level = np.empty(size)
    for i in range(size):
        level[i] = 1.0
    _substitute(A, level)
    for i in range(size):
        move[i] = -gradient[i]
    _substitute(A, move)
    share = _sum(move) / _sum(level)
    for i in range(size):
        move[i] -= level[i] * share
    rounding = _sum(move) / size
    for i in range(size):
        move[i] -= rounding
    return True


@numba.njit(error_model="numpy")
def _sum(x: Array) -> float:
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


@numba.njit(error_model="numpy")
def _falls(K: Array, free: Index, gradient: Array, move: Array) -> bool:
    """Say whether the whole move lowers the objective."""
    change = 0.0
    for i in range(free.size):
        row = K[free[i]]
        pull = 0.0
        for k in range(free.size):
            pull += row[free[k]] * move[k]
        change += move[i] * (gradient[i] + 0.5 * pull)
    return change < 0


@numba.njit(error_model="numpy")
def _take(b: Array, free: Index, move: Array, lo: Array, hi: Array, l1: Array) -> bool:
    """Add the move to b, or the part of it up to the first bound or kink; say whether it met one."""
    length = 1.0
    end = np.empty(free.size)
    reach = np.empty(free.size)
    for k in range(free.size):
        i = free[k]
        reach[k] = np.inf
        end[k] = _end(b[i], move[k], lo[i], hi[i], l1[i])
        if move[k] != 0:
            reach[k] = (end[k] - b[i]) / move[k]
            length = min(length, reach[k])
    for k in range(free.size):
        i = free[k]
        b[i] = end[k] if reach[k] <= length else min(max(b[i] + length * move[k], lo[i]), hi[i])
    return length < 1


@numba.njit(error_model="numpy")
def _end(at: float, move: float, lo: float, hi: float, l1: float) -> float:
    """Return the bound or kink that a free variable moves towards."""
    if move > 0:
        return min(hi, 0.0) if l1 > 0 and at < 0 else hi
    return max(lo, 0.0) if l1 > 0 and at > 0 else lo


@numba.njit(error_model="numpy")
def _newton(K: Array, f: Array, p: Array, b: Array, lo: Array, hi: Array, l1: Array, source: Source) -> int:
    """Make one Newton step: 1 if a bound or kink stopped it, 0 if none did, -1 if it is not for this pass."""
    free = _free(b, lo, hi, l1)
    if free.size < 2:
        return 0
    if free.size > FREE:
        return -1
    gradient = np.empty(free.size)
    for k in range(free.size):
        i = free[k]
        copy_row(K, i, source)
        gradient[k] = f[i] - p[i] + l1[i] * np.sign(b[i])
    move = np.empty(free.size)
    if not _move(K, free, gradient, move):
        return -1
    if not _falls(K, free, gradient, move):
        return 0
    return 1 if _take(b, free, move, lo, hi, l1) else 0


@numba.njit(error_model="numpy")
def _rise(f: Array, before_f: Array, p: Array, b: Array, before: Array, l1: Array) -> float:
    """Return the change of the objective from the move alone, so that no two large values cancel."""
    total = 0.0
    for i in range(b.size):
        moved = b[i] - before[i]
        total += 0.5 * moved * (f[i] + before_f[i]) - p[i] * moved + l1[i] * (abs(b[i]) - abs(before[i]))
    return total


# loops in place of array expressions, whose compilation takes several times as long as that of all else here


@numba.njit(error_model="numpy")
def _differ(f: Array, p: Array, g: Array) -> None:
    """Put f - p into the first entries of g."""
    for i in range(f.size):
        g[i] = f[i] - p[i]


@numba.njit(error_model="numpy")
def _copy(source: Array, target: Array) -> None:
    for i in range(source.size):
        target[i] = source[i]


@numba.njit(error_model="numpy")
def _largest(x: Array) -> float:
    """Return the largest magnitude."""
    found = 0.0
    for i in range(x.size):
        found = max(found, abs(x[i]))
    return found


@compile_kernel(
    "Tuple((boolean, int64, int64))(float64[:,::1], float64[:,::1], int64[::1], float64[::1], float64[::1],"
    " float64[::1], float64[::1], float64[::1], float64[::1], float64, float64, int64, int64)"
)
def one_pass(
    K: Array, whole: Array, index: Index, p: Array, lo: Array, hi: Array, l1: Array, b: Array, f: Array, tol: float,
    rounding: float, pairs: int, rounds: int,
) -> tuple[bool, int, int]:
    """Minimise 1/2 b'Kb - p'b + l1'|b| over lo <= b <= hi with the sum of b fixed; b and f = K b change in place.

    K_ij is whole[index[i], index[j]], i, j < n. The array ``K`` (n, m), m the next multiple of 64 from n, is memory for
    the rows that are needed. The first stage makes at most ``pairs`` updates and ends at a KKT violation of ``tol``;
    the second at one of ``rounding`` relative to the largest |K b| and |p|, after at most ``rounds``. Returns whether
    that was reached, the pair updates of the first stage, and those of them with negative curvature.
    """
    n = b.size
    source = (whole, index, np.ones(n, np.bool_))
    g = np.zeros(K.shape[1])
    diagonal = np.zeros(K.shape[1])
    for t in range(n):
        diagonal[t] = whole[index[t], index[t]]
    _product(K, b, f, source)
    _differ(f, p, g)
    made, downwards = improve(K, g, b, lo, hi, l1, tol, pairs, diagonal, source)
    _product(K, b, f, source)
    if made == pairs or downwards > 0:
        return False, made, downwards
    tiny = rounding * (_largest(f) + _largest(p))
    before = np.empty(n)
    before_f = np.empty(n)
    for _ in range(rounds):
        met = _newton(K, f, p, b, lo, hi, l1, source)
        if met < 0:
            return False, made, downwards
        _product(K, b, f, source)
        if met > 0:
            continue
        _differ(f, p, g)
        if largest_violation(g[:n], b, lo, hi, l1) <= tiny:
            return True, made, downwards
        _copy(b, before)
        _copy(f, before_f)
        improve(K, g, b, lo, hi, l1, tiny, 2 * n, diagonal, source)
        _product(K, b, f, source)
        if not _rise(f, before_f, p, b, before, l1) < 0:
            _copy(before, b)
            _copy(before_f, f)
            return True, made, downwards
    return False, made, downwards
