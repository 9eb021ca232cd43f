"""Branch and bound: a region is halved, column by column, until each part is proven or an input that breaks it is met.

The bounds of a part come from the linear relaxation, whose error falls with the square of the part's width, and from
parabolas or the second order. A part is halved along the column that costs the lines most. What is left open when so
many parts were looked at as are allowed stays so: the same on any machine.

For one RBF kernel a quadratic function below the lead bounds it over a box.

e^(gamma |d|^2) f(a + d) = sum_j W_j e^(u_j) + b e^(gamma |d|^2) with u_j = 2 gamma v_j'd, v_j = z_j - a, and |u_j| <=
U_j in the box |d_l| <= h_l. As (e^u - 1 - u) / u^2 grows with u,

    W e^u >= W (1 + u + k u^2/2),   k = 2 (e^U - 1 - U) / U^2 where W < 0,   2 (e^-U - 1 + U) / U^2 where W > 0,

so the sum lies above const + p'd + d'Bd, B = 2 gamma^2 sum_j W_j k_j v_j v_j'. Chords miss up to |W| U^2/2 of each
negative term, however the others bend; here the bends of both signs cancel before anything is bounded.

Its least value (Shor 1987, the dual of the semidefinite relaxation). In units t_l > 0 of the columns let lambda be at
least 0 and at least minus the least eigenvalue of B. Then K = B + lambda I is positive semidefinite, p'd + d'Kd lies
above its tangent plane at any y, and d'd is at most |h|^2, so over the box

    p'd + d'Bd >= -y'Ky - h'|p + 2Ky| - lambda |h|^2.

y is looked for by projected gradient steps with momentum (Chambolle and Dossal 2015), then t is made up to twice less
in columns where y is inside the box: there lambda costs more than it gives. Any y and t give a bound, and t times a
number the same. The eigenvalue is proven: of the factors that stand for B, the norms of what they miss are measured and
taken off.
"""

import numpy as np

from buttress._checks import Array
from buttress._proof import sum_error
from buttress.certificates.region import TINY, Region
from buttress.certificates.relaxation import Exponentials, Lead, grown_bias, relaxed
from buttress.certificates.second_order import second_order
from buttress.kernels import Radial

ROUNDS = 4  # choices of the units t: each gives a bound, fewer only a looser one
STEPS = 30  # gradient steps for y in each, of which the same holds
SMALL = 1e-6  # U below which that of SMALL is taken, as k is monotone


@np.errstate(over="ignore", invalid="ignore")
def quadratic_bound(lead: Lead, region: Region) -> float:
    """Return a lower bound of the lead of one row over a box, in units of e^(gamma |d|^2); -inf where none is known.

    It bounds what the model computes in floating point, as the lines of ``relaxation.py`` do.
    """
    if not lead.is_factored() or region.offset is not None:
        return -np.inf
    terms = Exponentials.over(lead, region)
    (W,), (U,), (half,) = terms.weights, np.maximum(-terms.low, terms.high), region.half
    if not U.max(initial=0.0) <= 50.0:  # e^U is of no use
        return -np.inf
    rate = np.sqrt(2 * terms.kernel.gamma)  # by it nothing has a unit: gamma**2 may be no float
    V = rate * (lead.centers - region.anchor)
    bias = grown_bias(lead, terms.kernel.gamma, terms.grown, np.zeros_like(region.anchor))
    (known,), (bent,) = bias.const, bias.bend
    k = _bends(U, W > 0)
    p, s = W @ V, W * k / 2
    error = sum_error(W.size + half.size)
    const = W.sum() + known + min(bent, 0.0) * float(half @ half) * (1 + error)
    sizes = np.abs(W) @ (1 + U + k * U**2) + np.abs(known)
    doubt = float((terms.lost.sum(axis=1) + terms.hidden + bias.doubt).sum()) + error * (sizes + np.abs(const))
    return float(const - doubt + _lower_bound(V, s, p, rate * half, doubt - const) * (1 + error) - error * abs(const))


def _bends(U: Array, below: Array) -> Array:
    """Return k (m,): of parabolas below e^u on |u| <= U where ``below``, of those above it elsewhere.

    e^u - 1 is off by a share of about |u|, of u^2/2 by 1 / |u| times that.
    """
    sign = np.where(below, -1.0, 1.0)
    u = np.maximum(U, SMALL)
    rise = np.expm1(sign * u) - sign * u
    return 2 * rise / u**2 * (1 + sign * sum_error(0) * (1 + 1 / u))


def _lower_bound(V: Array, s: Array, p: Array, half: Array, enough: float) -> float:
    """Return a bound, at most 0, of p'd + sum_j s_j (v_j'd)^2 over |d| <= half; the first above ``enough`` will do."""
    t = (np.abs(s) @ V**2 + TINY) ** 0.25
    best = -np.inf
    for _ in range(ROUNDS):
        A, h = V / t, half * t * (1 + sum_error(0))
        least, most = _eigenvalues(A, s)
        bound, y = _over_box(A, s, -least, p / t, h, 2 * (most - least), enough)
        best = max(best, bound)
        if not best <= enough:
            break
        t = t * np.sqrt(1 + 3 * np.divide(y, h, out=np.zeros_like(y), where=h > 0) ** 2)
    return best


def _eigenvalues(A: Array, s: Array) -> tuple[float, float]:
    """Return a number below the least eigenvalue of A' diag(s) A, at most 0, and about the largest.

    With A' = QR and R diag(s) R' = W diag(e) W', but for what is measured, no eigenvalue is below
    |Q|^2 |W|^2 min(0, e) less what the products miss. Products are off by their roundings, of the product of the norms.
    """
    norm, share, steep = np.linalg.norm, sum_error(sum(A.shape)), np.abs(s).max(initial=0.0)
    Q, R = np.linalg.qr(A.T)
    C = (R * s) @ R.T
    e, W = np.linalg.eigh(C)
    k, long = len(e), norm(R)
    missed = norm(A.T - Q @ R) + share * np.sqrt(k) * long
    lost = norm(C - (W * e) @ W.T) + share * k * (steep * long**2 + norm(e))
    wide, wider = (1 + norm(Z.T @ Z - np.eye(k)) + share * k for Z in (Q, W))
    least = wide * (min(float(e.min()), 0.0) * wider - lost) - steep * missed * (2 * np.sqrt(wide) * long + missed)
    return float(least) * (1 + share * k), max(float(e.max()), 0.0)


def _over_box(
    A: Array, s: Array, shift: float, p: Array, h: Array, steep: float, enough: float
) -> tuple[float, Array]:
    """Return the best bound that gradient steps find, less its rounding, and the y they end at.

    lambda is ``shift``, and ``steep`` about the largest eigenvalue of 2K. Of what is bounded, y'Ky counts once and
    h'|2Ky| twice, and each passes through two sums over the columns and one over the centres.
    """
    B = (A.T * s) @ A if len(s) > len(p) else None
    square = float(h @ h)
    sizes = np.abs(s) @ (np.abs(A) @ h) ** 2 + shift * square + np.abs(p) @ h
    taken = shift * square + 3 * sum_error(sum(A.shape)) * float(sizes)
    y = moved = -h * np.sign(p)
    best, length = -np.inf, steep + TINY
    for step in range(STEPS):
        bent = ((s * (A @ moved)) @ A if B is None else B @ moved) + shift * moved
        slope = p + 2 * bent
        best = max(best, float(-(moved @ bent) - h @ np.abs(slope)) - taken)
        if best > enough:
            break
        after = np.clip(moved - slope / length, -h, h)
        moved = np.clip(after + step / (step + 3) * (after - y), -h, h)
        y = after
    return best, y


ENTRIES = 4_000_000  # of parts times centres times columns that are bounded at once


def prove(lead: Lead, region: Region, most: int) -> bool:
    """Decide whether the lead of one row is positive all over a region, from about ``most`` parts of it.

    A search gives up whose first halving gains so little that as many in a row as ``most`` parts allow would not do.
    """
    seen, worst = 0, []
    stack = [region]
    size = max(1, ENTRIES // (lead.weights.shape[1] * region.anchor.shape[1]))
    while stack:
        parts = stack.pop()
        if len(parts.anchor) > size:
            stack.append(parts[: -size])
            parts = parts[-size:]
        repeated = lead[np.zeros(len(parts.anchor), dtype=int)]
        bound, moves = _bounded(repeated, parts)
        seen += len(parts.anchor)
        if repeated(parts.anchor + np.nan_to_num(moves)).min() <= 0:
            return False
        undecided = np.flatnonzero(~(bound > 0))
        worst.append(float(bound.min()))
        hopeless = len(worst) == 2 and (worst[1] - worst[0]) * np.log2(most) < -worst[1]
        if len(undecided) and (seen >= most or hopeless):
            return False
        if len(undecided):
            worst_last = undecided[np.argsort(-bound[undecided])]
            children = _halved(repeated[worst_last], parts[worst_last])
            if len(children.anchor):
                stack.append(children)
    return True


def _bounded(lead: Lead, parts: Region) -> tuple[Array, Array]:
    """Return lower bounds (n,) of the parts, and moves (n, d) at which lines below the leads are least.

    Parts that the lines do not prove are bounded by parabolas, or where there are none by the second order.
    """
    bound, moves = relaxed(lead, parts)
    rest = np.flatnonzero(~(bound > 0))
    if not len(rest):
        return bound, moves
    if lead.is_factored() and parts.offset is None:
        bound[rest] = np.fmax(bound[rest], [quadratic_bound(lead[row : row + 1], parts[row : row + 1]) for row in rest])
        return bound, moves
    second = second_order(lead[rest], parts.anchor[rest], parts.half[rest])
    if second is not None:
        bound[rest] = np.fmax(bound[rest], second.bound(np.ones(len(rest)), "linf"))
    return bound, moves


def _halved(lead: Lead, parts: Region) -> Region:
    """Return both halves of each part, along the column that costs most; those off the ball left out."""
    column = _losses(lead, parts).argmax(axis=1)
    shift, half = np.zeros_like(parts.half), parts.half.copy()
    rows = np.arange(len(half))
    half[rows, column] /= 2
    shift[rows, column] = half[rows, column]
    half = np.repeat(half, 2, axis=0)
    anchor = np.stack([parts.anchor - shift, parts.anchor + shift], axis=1).reshape(half.shape)
    radius = np.repeat(parts.radius, 2)
    if parts.offset is None:
        return Region(anchor, half, None, parts.scale, radius).rounded()
    offset = np.stack([parts.offset + shift, parts.offset - shift], axis=1).reshape(half.shape)
    children = Region(anchor, half, offset, parts.scale, radius).rounded()
    away = np.maximum(np.abs(offset) - children.half, 0) / parts.scale
    return children[np.linalg.norm(away, axis=1) <= children.radius]


def _losses(lead: Lead, parts: Region) -> Array:
    """Return per column how much of what the lines miss halving it would take off, up to a factor, shape (n, d)."""
    total = np.zeros_like(parts.anchor)
    for kernel, share in lead.kernels:
        weights = share * np.abs(lead.weights)
        radial = isinstance(kernel, Radial)
        anchor = parts.anchor if radial else np.zeros_like(parts.anchor)
        if radial:
            weights = weights * np.abs(kernel(anchor, lead.centers))
        apart = np.abs(lead.centers - anchor[:, None])
        total += np.einsum("ij,ijk->ik", weights * np.einsum("ijk,ik->ij", apart, parts.half), apart)
    return parts.half * total
