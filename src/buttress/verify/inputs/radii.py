"""Radii of the rows of a classifier, within which its prediction stays: functions below its leads stay positive.

What rounding may change in the scores that ``predict`` computes is taken off the leads: a squared distance computed
from products of rows, from which a middle was subtracted, may be off by some roundings of the squares of their lengths.
"""

import operator
from collections.abc import Callable

import numpy as np

from ..core import WIDER, Array, Claim, Model, Real, U, table
from ..kernels import SHAPES, described, profile, sums
from ..machines import contrasts, problem
from .below import Round, cubes, exponential, powers, radial, radial_parabolas
from .quadratic import Quadratic, RowMoves, summed

LARGEST, SMALLEST = 30, -34  # powers of two of the radii that are tried
QuadraticBound = Callable[[Array, RowMoves], Quadratic]
NORMS = ("l2", "linf")


def parts(part: Model) -> list[tuple[Model, float]]:
    """Return a kernel as a sum of simple ones with their weights."""
    if part["class"] == "MultiscaleRBF":
        return [({"class": "RBF", "gamma": gamma}, 1 / len(part["gammas"])) for gamma in part["gammas"]]
    if part["class"] != "Combination":
        return [(part, 1.0)]
    return [(one, inner * outer) for held, outer in zip(part["kernels"], part["weights"], strict=True)
            for one, inner in parts(held) if inner * outer > 0]


class LeadAtRow:
    """The lead at a row x, sum_j c_j k(x, z_j) + b + tilt'x, and what is known to lie below it around x.

    It is V'scores, each score with its own coefficients (m, k), number of ``intercept`` (k,) and column of ``linear``
    (d, k). What ``predict`` computes is rounded as these are, however much of them cancels in the lead: ``sizes`` are
    the sums of their magnitudes. ``origin`` are the sizes of what distances and scalers subtract besides, where the
    model does not centre its rows.
    """

    def __init__(self, part: Model, x: Array, Z: Array, V: Array, coef: Array, intercept: Array, norm2: float,
                 origin: Array | float = 0.0, linear: Array | None = None):
        self.parts = parts(part)
        self.x, self.Z, self.origin = x, Z, origin
        linear = np.zeros((len(x), len(V))) if linear is None else linear
        self.c, self.b, self.tilt = coef @ V, float(V @ intercept), linear @ V
        self.sizes = [np.abs(held) @ np.abs(V) for held in (coef, intercept, linear)]
        c, b = self.c, self.b
        (first, weight), *others = self.parts
        alone = weight == 1 and not others and not self.tilt.any()
        self.round = Round(first["gamma"], x, Z, c, b, norm2) if alone and first["class"] == "RBF" else None
        self.bounds: list[QuadraticBound] = [self.sum_of(radial, powers)]
        if self.round:
            self.bounds = [self.round.lines, self.round.taylor, self.round.parabolas]
        elif any(one["class"] in SHAPES for one, _ in self.parts):
            self.bounds.append(self.sum_of(radial_parabolas, powers))
        if all(one.get("degree") == 3 for one, _ in self.parts):
            self.bounds.append(self.sum_of(radial, cubes))

    def sum_of(self, below: Callable[..., Quadratic], of_products: Callable[..., Quadratic]) -> QuadraticBound:
        """Return what adds up functions below each kernel."""

        def bound(move: Array, moves: RowMoves) -> Quadratic:
            at = self.x, self.Z, self.c, move, moves
            found = summed([((below if one["class"] in SHAPES else of_products)(one, *at), weight)
                            for one, weight in self.parts])
            return found._replace(const=found.const + self.b + Real(self.tilt) @ self.x, slope=found.slope + self.tilt)

        return bound

    def value(self, move: Array) -> float:
        """Return the lead at x + move, nearly."""
        t = ((self.Z - self.x - move) ** 2).sum(axis=1)
        values = (SHAPES[one["class"]](one, t) * weight if one["class"] in SHAPES else weight * (
            one.get("gamma", 1.0) * (self.Z @ (self.x + move)) + one["coef0"]) ** one.get("degree", 1)
            for one, weight in self.parts)
        return float(self.c @ sum(values) + self.tilt @ (self.x + move)) + self.b

    def holds(self, moves: RowMoves) -> bool:
        """Say whether the lead, less what rounding may change in it, is proven to stay positive under the moves."""
        with np.errstate(all="ignore"):
            room = Real(self.allowance(moves.longest))
            if self.round:
                room = room * exponential(Real(self.round.gamma) * moves.square)
            return any(self.above(float(room.high), bound, moves) for bound in self.bounds)

    def above(self, room: float, bound: QuadraticBound, moves: RowMoves) -> bool:
        """Say whether a function below, for one of some guesses of the worst move, is proven to be above ``room``."""
        move = np.zeros(len(self.x))
        for _ in range(4):  # choices of where functions touch
            low, worst = bound(move, moves).least(moves)
            if low > room:
                return True
            if not np.isfinite(worst).all() or self.value(worst) <= 0:
                return False
            move = (move + worst) / 2
        return False

    def allowance(self, eps: float) -> float:
        """Return by how much a lead computed at any point within eps (in l2) may differ from the real one."""
        width, count = len(self.x), len(self.c) + len(self.parts)
        middle = np.median(self.Z, axis=0)
        own, others = (np.abs(part - middle) + self.origin for part in (self.x, self.Z))
        lengths = 2 * (float((own**2).sum()) + eps**2) + (others**2).sum(axis=1)
        c, b, tilt = self.sizes
        total = rounded(0) * float(b) + rounded(width) * float(tilt @ (np.abs(self.x) + eps + 2 * self.origin))
        for one, weight in self.parts:
            if one["class"] in SHAPES:
                top, off, far = (profile(one, Real(t)) for t in (0.0, 4 * rounded(width) * lengths, 2 * lengths))
                lost = top.high - off.low + np.maximum(np.abs(top.v), np.abs(far.low)) * rounded(count)
            else:
                p = one.get("degree", 1)
                lost = farthest(one, self.x, self.Z, eps) ** p * rounded(p * (width + 8) + count)
            total += weight * float(c @ lost)
        return total


def rounded(terms: int) -> float:
    """Return what rounding may change in a sum of so many products, as a share of its sizes.

    It is a unit a term and 16 more, of what goes into it and comes out: scaled entries, exponentials, powers.
    """
    return (terms + 16) * WIDER * U


def farthest(part: Model, x: Array, Z: Array, eps: float) -> Array:
    """Return the largest gamma |z_j|'|x + d| + coef0 within eps, entry by entry."""
    sizes: Array = part.get("gamma", 1.0) * (np.abs(Z) @ np.abs(x) + np.sqrt((Z**2).sum(axis=1)) * eps) + part["coef0"]
    return sizes


def widest(lead: LeadAtRow, most: float, columns: int) -> float:
    """Return the radius ``most`` if the lead is proven in it, else one close to the largest at which it is."""
    if lead.holds(RowMoves(most, columns)):
        return most
    low = 0.0
    for step in 2.0 ** np.arange(LARGEST, SMALLEST, -1):
        if step < 2.0**-14 * low:  # of the radius that is proven
            break
        if low + step < most and lead.holds(RowMoves(low + step, columns)):
            low += step
    return low


def radii(model: Model, rows: Array, stated: Array | None = None, norm: str = "l2") -> list[Claim]:
    """Return for each row of a classifier whether its stated radius is proven, or the largest found that is."""
    if norm not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}. Got {norm!r}.")
    part, Z, coef, intercept, leads = expanded(model)
    rows = table(rows)
    columns = rows.shape[1] if norm == "linf" else 0
    scores, found = sums(part, rows, Z, coef)[0] + intercept, list[Claim]()
    gram = Real(coef.T) @ sums(part, Z, Z, coef)[0]
    for i, x in enumerate(rows):
        lead = (Real(leads) @ scores.each(operator.itemgetter(i))).low
        radius = 2.0**LARGEST if stated is None else float(stated[i])
        for V in leads[int((lead > 0).all(axis=1).argmax())]:
            norm2 = float((Real(V) @ gram @ V).high)
            radius = min(radius, widest(LeadAtRow(part, x, Z, V, coef, intercept, norm2), radius, columns))
        claimed = radius if stated is None else float(stated[i])
        found.append(Claim(f"{norm} radius of row {i}", claimed, radius, claimed <= radius))
    return found


def expanded(model: Model) -> tuple[Model, Array, Array, Array, Array]:
    """Return kernel, centres (m, d), coefficients (m, k), intercepts and leads (classes, rivals, k) of a classifier."""
    if "expansion_" not in model:
        stated = problem(model)
        return ({"class": "Linear", "coef0": 0.0}, model["coef_"], np.eye(len(model["coef_"])), model["intercept_"],
                contrasts(len(stated["classes"]), pairs=False))
    held = model["expansion_"]
    return (described(held["kernel"]), held["centers"].astype(float), held["coef"], held["intercept"],
            model["contrasts_"])
