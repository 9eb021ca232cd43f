"""The quadratic program behind SVC, SVR and SVDD, and the point that one phase of a solve passes to the next.

    minimise over b   1/2 b'Kb - p'b + l1'|b|     subject to   lo <= b <= hi,  sum(b) = c

Let g = Kb - p. Raising b_i has slope g_i + l1_i if b_i >= 0, and g_i - l1_i below 0. Lowering b_i has slope g_i + l1_i
if b_i > 0, and g_i - l1_i elsewhere. b is optimal if viol = max_{b > lo} (slope down) - min_{b < hi} (slope up) <= 0.
``tol`` bounds viol, which is libsvm's measure.

The two-class support vector machine is this program with sum(b) = 0:

    primal   min_{w, b0}  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b0))
    dual     max_a        sum_i a_i - 1/2 (y a)'K(y a),   0 <= a_i <= C_i,  sum_i y_i a_i = 0

with b = y a and p = y. The regressor's has p = y, bounds -C_i and C_i, and l1 = epsilon.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from buttress._checks import TINY, Array
from buttress._proof import U
from buttress.gram.rounding import Product, Summed
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.compiled import measures


class Start(NamedTuple):
    """Where a problem starts: coefficients c (n,), and where known K c, of the stored rows and as it was certified."""

    coef: Array
    f: Array | None = None
    product: Product | None = None


@dataclass(frozen=True)
class QP:
    """The data of the program: K by its rows; p, lo, hi, l1 >= 0 and a feasible ``start``, each of shape (n,).

    ``start_f`` is K start, of stored rows, where known; ``total`` is what b sums to; ``start`` comes from ``begun``.
    """

    rows: KernelRows
    p: Array
    lo: Array
    hi: Array
    start: Array
    l1: Array
    start_f: Array | None = None
    total: float = 0.0
    begun: Start | None = None

    def __post_init__(self) -> None:
        for name in ("p", "lo", "hi", "start", "l1"):  # compiled loops take no other layout
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float64))


@dataclass(frozen=True)
class Point:
    """A feasible b with values computed from it: what one phase of a solve returns and the next one starts from.

    Parameters
    ----------
    b : array of shape (n,)
    f : array of shape (n,) or None
        K b from the last certificate, more precise than the stored rows give it.
    stored : array of shape (n,) or None
        K b summed from the stored rows alone.
    summed : Summed or None
        What of K b was summed with its error in view.
    gram : array of shape (n, m) or None
        The whole of K in float64, once a phase has needed it; zero columns are added up to a multiple of 64.
    downwards : int
        Pair updates so far along which K has negative curvature. Apart from rounding, only an indefinite K has any.
    """

    b: Array
    f: Array | None = None
    stored: Array | None = None
    summed: Summed | None = None
    gram: Array | None = None
    downwards: int = 0


def classifier_qp(rows: KernelRows, y: Array, bound: Array, start: Start | None = None) -> QP:
    """Return the classifier's program, started from the feasible point nearest to ``start``."""
    lo = np.where(y > 0, 0.0, -bound)
    hi = np.where(y > 0, bound, 0.0)
    b, f = _first(rows, start, lo, hi)
    return QP(rows, y, lo, hi, b, np.zeros(len(y)), f, begun=start)


def _first(rows: KernelRows, start: Start | None, lo: Array, hi: Array) -> tuple[Array, Array | None]:
    """Return the feasible point b nearest to ``start``, 0 if no start is given, and K b where that is known."""
    if start is None:
        return np.zeros(len(lo)), np.zeros(len(lo))
    b = feasible(start.coef, lo, hi)
    if start.f is None:
        return b, None
    f = start.f.copy()
    changed = np.flatnonzero(np.abs(b - start.coef) > 8 * U * np.abs(b))  # less is the rounding of a scale
    rows.add(f, changed, (b - start.coef)[changed])
    return b, f


def regressor_qp(rows: KernelRows, y: Array, bound: Array, epsilon: float, start: Start | None = None) -> QP:
    """Return the regressor's program, started from the feasible point nearest to ``start``."""
    b, f = _first(rows, start, -bound, bound)
    return QP(rows, y, -bound, bound, b, np.full(len(y), float(epsilon)), f, begun=start)


def one_class_qp(rows: KernelRows, bound: Array, nu: float, start: Start | None = None) -> QP:
    """Return the program of the one-class machine: p = 0, and b between 0 and C_i sums to nu sum_i C_i."""
    none = np.zeros(len(bound))
    total = nu * float(bound.sum())
    if start is None:
        b = np.clip(total - (np.cumsum(bound) - bound), 0, bound)
    else:
        b = np.clip(start.coef, 0, bound)
        missing = total - float(b.sum())
        room = bound - b if missing > 0 else b
        b = b + room * (missing / max(float(room.sum()), TINY))
    return QP(rows, none, none, bound, b, none, total=total)


def slopes(g: Array, b: Array, lo: Array, hi: Array, l1: Array | None = None) -> tuple[Array, Array]:
    """Return the slopes of raising (inf where b = hi) and of lowering each variable (-inf where b = lo)."""
    up = down = g
    if l1 is not None and l1.any():
        up = g + np.where(b >= 0, l1, -l1)
        down = g + np.where(b > 0, l1, -l1)
    return np.where(b < hi, up, np.inf), np.where(b > lo, down, -np.inf)


def violation(g: Array, b: Array, lo: Array, hi: Array, l1: Array | None = None) -> float:
    """Return max_{b > lo} (slope down) - min_{b < hi} (slope up); -inf when one of the sets is empty."""
    none = np.zeros(len(b))
    return measures(g, none, b, none, lo, hi, none if l1 is None else l1, 0.0)[2]


def bias(g: Array, b: Array, lo: Array, hi: Array, l1: Array) -> float:
    """Return the intercept: minus the mean slope of the free variables; if none is free, the middle of its interval."""
    none = np.zeros(len(b))
    mean: float = measures(g, none, b, none, lo, hi, l1, 0.0)[3]
    if not np.isnan(mean):
        return -mean
    up, down = slopes(g, b, lo, hi, l1)
    ends = np.array([up.min(), down.max()])
    return -float(ends[np.isfinite(ends)].mean())


def feasible(b: Array, lo: Array, hi: Array) -> Array:
    """Return b clipped to its bounds, its larger side scaled towards 0 so that sum(b) = 0 (lo <= 0 <= hi)."""
    b = np.clip(b, lo, hi)
    excess = float(b.sum())
    heavy = b > 0 if excess > 0 else b < 0
    free = heavy & (b > lo) & (b < hi)
    side = free if np.abs(b[free]).sum() > abs(excess) else heavy  # move only free variables if they suffice
    weight = float(np.abs(b[side]).sum())
    if weight > 0:
        b[side] *= 1 - abs(excess) / weight
    return b


def snapped(b: Array, lo: Array, hi: Array, near: float) -> Array:
    """Return b with values within ``near`` (of hi - lo) of a bound or of 0 set to it; the sum stays 0."""
    width = hi - lo
    b = np.where(b - lo <= near * width, lo, np.where(hi - b <= near * width, hi, b))
    return feasible(np.where(np.abs(b) <= near * width, 0.0, b), lo, hi)
