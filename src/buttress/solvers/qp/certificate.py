"""The certificate of the program of ``program.py`` with sum(b) = c: bounds of the optimum that hold in real numbers.

Its Lagrange dual in the intercept b0 is, with f = Kb and the residuals r = p - f - b0,

    primal(b, b0) = 1/2 b'f + sum_i hi_i max(0, r_i - l1_i) + (-lo_i) max(0, -r_i - l1_i) + c b0
    dual(b)       = p'b - l1'|b| - 1/2 b'f

for lo <= 0 <= hi: the hinge losses of a classifier (p = y, one bound 0) and the epsilon-insensitive losses of a
regressor (l1 = epsilon). primal >= dual for every b0 and every feasible b, with equality at the optimum only.

**The gap is a sum of terms that are each at least 0** for b between its bounds, and s = sum(b) - c is rounding:

    primal - dual = sum_i h_i(r_i) - b0 s,
    h_i(r) = hi_i max(0, r - l1_i) - lo_i max(0, -r - l1_i) + l1_i |b_i| - b_i r.

h_i is convex. Where the residual as computed is wrong by e_i at most, h_i is at most the larger of its values at both
ends of what r_i may be. A row at its bound, or without coefficient, whose residual is away from the kink by e_i adds
nothing, however wrong it is: 1/2 b'f has cancelled. These are the terms of the bound, u = 2^-53:

    e_i = E_i + 4 u (|p_i| + |f_i| + |b0|)       E_i: entries and sums of f (``gram/rounding.py``); p - f - b0
    16 u sum_i (hi_i - lo_i) (|r_i| + e_i + l1_i) and the share 2 n u of the sum: its evaluation
    |b0 s| + off                                 s: moved to one b_j that has room for it, the dual falls by
                                                 off = |s| (|p_j - f_j| + E_j + l1_j) + 1/2 s^2 |K_jj| at most
    (n + 4) u (|p|'|b| + l1'|b| + |b|'|f|) + 1/2 |b|'E       of the dual: its sums, and those of f

The program is that of the numbers that are stored: bounds such as C_i, once rounded, count as they are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array
from buttress._proof import SLACK, U
from buttress._types import Mask
from buttress.gram.rounding import Product, Summed
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp.compiled import measures
from buttress.solvers.qp.program import QP, Start, bias


@dataclass(frozen=True)
class Certificate:
    """Bounds of the objectives and of their gap at one intercept, from a product f = Kb.

    ``primal`` and ``gap`` are at least what they stand for, ``dual`` at most. ``gap`` is sharper than the difference.
    They are proven if the error of the product is (``product.proven``).
    """

    primal: float
    dual: float
    gap: float
    violation: float
    product: Product
    intercept: float
    seen: float  # the gap as computed
    rounding: float  # what the evaluation of its terms, apart from f, may have added


def certify(
    qp: QP, b: Array, known: Summed | None = None, enough: Callable[[Certificate], bool] = lambda proof: False,
    f: Array | None = None,
) -> Certificate:
    """Return the certificate of b, with f from float64 entries wherever f can move it.

    It is that of the intercept on which the free variables agree where it is ``enough``, else of the best intercept.
    Rows with b_i = 0 that have no loss as far as the proven error of float32 reaches keep their f from it, some of
    which is ``known``. ``f`` is K b as summed from float64 rows that are all stored, where it is there already.
    """
    product = _product(qp, b, known) if f is None else qp.rows.exact(np.arange(len(b))).product(b, lambda: f)
    agreed = certificate(qp, b, product, bias(product.f - qp.p, b, qp.lo, qp.hi, qp.l1), qp.total)
    if enough(agreed):
        return agreed
    return certificate(qp, b, product, _best_intercept(qp, product.f), qp.total)


def _best_intercept(qp: QP, f: Array) -> float:
    return best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1, qp.total)


def _product(qp: QP, b: Array, known: Summed | None) -> Product:
    """Return K b, right to float64 where the certificate depends on it."""
    change, f, errors, right = _since_start(qp, b)
    others = np.flatnonzero((b == 0) | ~right)
    rough = qp.rows.single_times(change, others, known if change is b else None)
    if rough is None:
        return qp.rows.proven_times(b)
    moved = qp.rows.proven_times(change, np.flatnonzero((b != 0) & right))
    moved.f[others], moved.errors[others] = rough.f, rough.errors
    found = replace(moved, f=f + moved.f, errors=errors + moved.errors)
    r = qp.p - found.f - _best_intercept(qp, found.f)
    room = found.errors + 1e-2  # in units of p: by how much the best intercept may move once more of f is known
    lossless = ((r - qp.l1 < -room) | (qp.hi == 0)) & ((-r - qp.l1 < -room) | (qp.lo == 0))
    near = others[~lossless[others] | (b[others] != 0)]
    exact = qp.rows.proven_times(b, near)
    found.f[near], found.errors[near] = exact.f[near], exact.errors[near]
    return found


def _since_start(qp: QP, b: Array) -> tuple[Array, Array | float, Array | float, Mask]:
    """Return b - c, K c, its errors, and where it is right to float64; c is where the solve began, if near, or 0.

    Entries of which float32 has bounds are 1 at most: rounding of c, K c, b - c and the sum adds 12 u sum (|b| + |c|).
    """
    start = qp.begun or Start(np.zeros(len(b)))
    change = np.where(np.abs(b - start.coef) > 8 * U * np.abs(b), b - start.coef, 0.0)
    if start.product is None or 2 * np.count_nonzero(change) > np.count_nonzero(b):
        return b, 0.0, 0.0, np.ones(len(b), dtype=bool)
    errors = SLACK * start.product.errors + 12 * U * float((np.abs(b) + np.abs(start.coef)).sum())
    return change, start.product.f, errors, start.coef != 0


def certificate(qp: QP, b: Array, product: Product, b0: float, total: float = 0.0) -> Certificate:
    """Return the certificate of b with sum ``total`` at the intercept b0, for its product with K."""
    seen, dual, violation, _, most, evaluation, width, outside = measures(
        product.f, product.errors, b, qp.p, qp.lo, qp.hi, qp.l1, b0)
    excess, fall = _moved_to_sum(qp, b, product, total)
    gap = most * (1 + 2 * len(b) * U) + SLACK * abs(b0 * excess)
    off = SLACK * width
    return Certificate(dual + off + gap, -np.inf if outside else dual - off - fall, np.inf if outside else gap + fall,
                       violation, product, b0, seen, 2 * evaluation)


def _moved_to_sum(qp: QP, b: Array, product: Product, total: float) -> tuple[float, float]:
    """Return by how much sum(b) is above ``total``, and by how much the dual falls at most when one b_j gives it up."""
    excess = math.fsum([*b[b != 0].tolist(), -total])
    if excess == 0 or (abs(excess) < 1e-12 * total and (b == qp.hi).all()):  # what bounds sum to is c then, rounded
        return 0.0, 0.0
    room = b - qp.lo if excess > 0 else qp.hi - b
    j = int(room.argmax())
    if room[j] < 2 * abs(excess):
        return excess, np.inf
    slope = float(abs(qp.p[j] - product.f[j]) + product.errors[j] + qp.l1[j])
    return excess, SLACK * (abs(excess) * slope + 0.5 * excess**2 * float(abs(qp.rows.diagonal[j])))


def objectives(f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array) -> tuple[float, float, float]:
    """Return the primal value at its best intercept, the dual value, and that intercept, as computed."""
    b0 = best_intercept(p - f, lo, hi, l1)
    gap, dual, *_ = measures(f, np.zeros(len(b)), b, p, lo, hi, l1, b0)
    return dual + gap, dual, b0
