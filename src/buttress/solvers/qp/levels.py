"""Which rows of a large program are in question: parts of all rows to begin with, and rows near a loss later.

A *level* is the program on a part of the rows, with bounds as many times larger as rows are left out, so that its
solution is near that of the whole. The last level is the whole program.

The constants were chosen on ``exact.synthetic(n, 30, seed=s)`` of ``benchmarks/`` with n of 40,000, 50,000 and 100,000
and s of 1, 2 and 3, C=1, of which the figure of docs/svm.md is not; its table of ideas says what other values of some
of them cost.
"""

import math

import numpy as np

from buttress._checks import Array
from buttress._types import Rows
from buttress.gram.rows import KernelRows
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp.program import QP, slopes


def chunk_rows(rows: KernelRows) -> int:
    """Return how many rows a chunk has: the entries among them fit into the memory for rows."""
    megabytes = min(rows.cache.megabytes, 512)  # more is not kept from one chunk to the next
    return max(64, math.isqrt(int(megabytes * 2**20) // rows.real.itemsize))


def level_sizes(n: int, chunk: int) -> list[int]:
    """Return the numbers of rows of the levels of n rows, from about those of a chunk up to n."""
    sizes = [n]
    while sizes[0] > 1.5 * chunk:  # so few are not divided any more
        sizes.insert(0, max(chunk, sizes[0] // 6))  # rows of a level for one of the level before
    return sizes


def part_of(n: int, m: int) -> Rows:
    """Return about m of n row numbers, one drawn from each of m stretches, so that sorted classes keep their shares."""
    if m >= n:
        return np.arange(n)
    drawn = (np.arange(m) + np.random.default_rng(m).random(m)) * (n / m)
    return np.unique(drawn.astype(np.intp))


def level_of(qp: QP, index: Rows) -> QP:
    """Return the program on the rows ``index``, whose ``rows`` are still those of the whole."""
    if len(index) == len(qp.p):
        return qp
    scale = len(qp.p) / len(index)
    return QP(qp.rows, qp.p[index], scale * qp.lo[index], scale * qp.hi[index], np.zeros(len(index)), qp.l1[index])


def unit(qp: QP) -> float:
    """Return the size of p: 1 for a classifier; the mean distance of the targets from their median for a regressor."""
    centre = np.median(qp.p) if qp.l1.any() else 0.0
    return float(np.abs(qp.p - centre).mean())


def clearance(qp: QP, b: Array, f: Array) -> Array:
    """Return by how much each variable is clear of moving at the best intercept for f; below 0 where it should move."""
    up, down = slopes(f - qp.p, b, qp.lo, qp.hi, qp.l1)
    middle = -best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1)
    return np.minimum(up - middle, middle - down)


def started(qp: QP, f: Array, mass: float) -> tuple[Array, Rows]:
    """Return a feasible b with sum |b| = 2 ``mass``, and the rows that may have a coefficient, for an f near K b.

    The rows most in the loss start at their bounds, as many on either side as the mass has room for: a smaller or
    larger sum would scale K b, and with it every slope. It is smaller where the rows in the loss have no more room.
    """
    r = qp.p - f - best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1)
    some = clearance(qp, np.zeros(len(f)), f) < 0.5 * unit(qp)  # clear by more, a row is taken to have no coefficient
    most = min(mass, float(qp.hi[some & (r > 0)].sum()), float(-qp.lo[some & (r < 0)].sum()))
    above = filled(np.where(some & (r > 0), qp.hi, 0.0), r, most)
    below = filled(np.where(some & (r < 0), -qp.lo, 0.0), -r, most)
    return above - below, np.flatnonzero(some)


def filled(room: Array, worth: Array, mass: float) -> Array:
    """Return shares of a ``mass``, each at most the ``room`` it has; those of most ``worth`` are full."""
    order = np.argsort(-worth, kind="stable")
    taken = np.minimum(np.cumsum(room[order]), mass)
    shares = np.empty(len(room))
    shares[order] = np.diff(taken, prepend=0.0)
    return shares


def in_question(qp: QP, b: Array, f: Array, gap: float, size: float) -> Rows:
    """Return the rows that are not clear of moving, in view of the duality ``gap`` of these rows.

    The gap over the room of the free variables says how large violations are on the whole: a few large ones, which the
    largest violation would tell of, move few others. ``size`` is the unit of p.
    """
    free = (b > qp.lo) & (b < qp.hi) & ((b != 0) | (qp.l1 == 0))
    room = float((qp.hi - qp.lo)[free].sum())
    # .05 of the unit at least; what is clear by more than eight times the mean violation waits
    width = max(0.05 * size, 8.0 * gap / room) if room > 0 else np.inf
    return np.flatnonzero(clearance(qp, b, f) < width)
