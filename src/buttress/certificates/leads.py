"""The leads of every class over every rival, and what the best of all bounds proves of them."""

from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array
from buttress._proof import sum_error
from buttress._types import Mask, Rows
from buttress.certificates.branch import prove
from buttress.certificates.norm_bound import (
    Fall,
    LinearTerm,
    ModelRounding,
    NoCertificateError,
    RadialTerm,
    certified_terms,
    norm_doubt,
    summands,
)
from buttress.certificates.radius import largest_by_norm, largest_that_holds
from buttress.certificates.region import Attacker
from buttress.certificates.relaxation import Lead, can_relax, relaxed
from buttress.certificates.second_order import SecondOrder, second_order
from buttress.expansion import KernelExpansion, winners
from buttress.features.fourier import Scores
from buttress.kernels import RBF, Kernel, Polynomial
from buttress.scores import ScoreFunction

TRIES = 4  # radii that share the parts of a rival, about: some fail after a few parts
NEAR = 0.01  # share by which a radius from branch and bound may fall short


@dataclass
class Rival:
    """The leads of n rows over one rival each: their margins, and what bounds how far they fall.

    ``falls`` are by the norms, None where there are none; ``lead`` and ``second`` are None where there are no such
    bounds.
    """

    margin: Array
    falls: list[Fall] | None
    lead: Lead | None
    second: SecondOrder | None


class Leads:
    """The leads of every class over every rival as expansions; ValueError for a kernel without any bound.

    ``real`` is the type of the rows that the model is given, in which it computes; ``scale`` (d,) is how far a move of
    1 goes behind the scalers.
    """

    def __init__(self, score: ScoreFunction, width: int, real: str = "float64"):
        score = replace(score, expansion=in_double(score.expansion))
        self.score, expansion = score, score.expansion
        self.scale = np.abs(np.broadcast_to(np.asarray(score.scale, dtype=np.float64), width))
        origin = np.abs(score.origin) * self.scale
        self.rounding = ModelRounding(float(np.finfo(real).eps), origin)
        sizes = np.abs(expansion.coef) if score.sizes is None else score.sizes
        self.terms = certified_terms(expansion, sizes)
        self.linear = self.terms is not None and all(isinstance(term, LinearTerm) for term in self.terms)
        self.relaxing = None if self.linear or not isinstance(expansion, KernelExpansion) else _Relaxing.of(expansion)
        if score.sizes is not None and not (self.terms and all(isinstance(term, RadialTerm) for term in self.terms)):
            self.relaxing = None  # its lines are not lowered by what rounding of features may add
        if self.terms is None and self.relaxing is None:
            kernel = expansion.kernel if isinstance(expansion, KernelExpansion) else expansion
            raise NoCertificateError(
                f"No certified radius is known for {kernel!r}. Use a stationary kernel (RBF, Laplacian, Cauchy, "
                "InverseMultiquadric, Log of degree <= 2), a linear one, a polynomial of degree 3 or an even one, or a "
                "sum of them.")

    def rivals(self, X: Array, scale: Array) -> list[Rival]:
        """Return the leads of the class predicted for each row of X over its rivals, in an attacker's scale."""
        Z, contrasts = self.score.inner(X), self.score.contrasts
        scores = self.score.expansion(Z)
        codes = winners(scores, contrasts)
        return [self._rival(Z, contrasts[codes, rival], scores, scale) for rival in range(contrasts.shape[1])]

    def _rival(self, Z: Array, V: Array, scores: Array, scale: Array) -> Rival:
        expansion = self.score.expansion
        share = self.rounding.share(Z.shape[1] + len(expansion.coef))
        size = np.abs(V) @ np.abs(expansion.intercept)
        if self.terms is not None:
            size = size + sum(term.size(Z, V, self.rounding.origin) for term in self.terms)
        margin = np.einsum("ik,ik->i", V, scores) - share * size
        moves = scale * (1 + share)
        falls = None if self.terms is None else [term.fall(Z, V, moves, self.rounding) for term in self.terms]
        if self.relaxing is None:
            return Rival(margin, falls, None, None)
        lead = self.relaxing.lead(V, self.rounding)
        if self.score.sizes is not None:
            lead.bias = lead.bias - 2 * share * size
        return Rival(margin, falls, lead, second_order(lead, Z, scale))

    def attacker(self, X: Array, norm: str, box: tuple[Array, Array] | None, units: Array | float = 1.0) -> Attacker:
        """Return how the rows X may be moved in units (d,) or (n, d), behind the scalers, where ``box`` holds them."""
        scale = self.scale * units
        if box is None:
            return Attacker(norm, scale)
        ends = [self.score.inner(np.broadcast_to(side, X.shape)) for side in box]
        return Attacker(norm, scale, np.minimum(*ends), np.maximum(*ends))

    def holds(self, rival: Rival, Z: Array, attacker: Attacker, rows: Rows, eps: Array) -> Mask:
        """Say which of the leads of some rows (r,) are proven to stay positive within eps (r,)."""
        if rival.lead is None:
            return np.zeros(len(rows), dtype=bool)
        region = attacker[rows].region(Z[rows], eps)
        holds: Mask = relaxed(rival.lead[rows], region)[0] > 0
        if rival.second is not None and not holds.all():
            rest = np.flatnonzero(~holds)
            holds[rest] = rival.second[rows[rest]].bound(eps[rest], attacker.norm) > 0
        return holds & (rival.margin[rows] > 0)

    def radii(self, X: Array, rivals: list[Rival], attacker: Attacker) -> Array:
        """Return the certified radii of the rows of X without branching, shape (n,)."""
        Z = self.score.inner(X)
        radius, cover = np.full(len(X), np.inf), _cover(Z, attacker)
        for rival in rivals:
            start = np.zeros(len(X))
            if rival.falls is not None:
                start = largest_by_norm(rival.margin, rival.falls, attacker.norm)
            if rival.lead is not None:
                def holds(rows: Rows, eps: Array, rival: Rival = rival) -> Mask:
                    return self.holds(rival, Z, attacker, rows, eps)

                limit = np.where(rival.margin > 0, np.minimum(radius, cover), 0.0)
                start = largest_that_holds(holds, np.minimum(start, limit), limit)
                start = np.where(start >= cover, np.inf, start)
            radius = np.minimum(radius, start)
        return radius

    def within(
        self, X: Array, rivals: list[Rival], attacker: Attacker, eps: Array, max_parts: int = 0
    ) -> Mask:
        """Say which rows of X are proven to keep their prediction within eps (n,), from ``max_parts`` parts a rival."""
        Z, standing = self.score.inner(X), np.ones(len(X), dtype=bool)
        for rival in rivals:
            proven = np.zeros(len(X), dtype=bool)
            if rival.falls is not None:
                fall = sum((fall(eps, attacker.norm) for fall in rival.falls), np.zeros(len(X)))
                proven = fall < rival.margin
            rest = np.flatnonzero(standing & ~proven)
            if len(rest):
                proven[rest] = self.holds(rival, Z, attacker, rest, eps[rest])
            if max_parts > 0 and rival.lead is not None:
                left = np.flatnonzero(standing & ~proven & (rival.margin > 0)).tolist()
                proven[left] = [_branched(rival.lead, Z, attacker, row, eps[row], max_parts) for row in left]
            standing &= proven
        return standing

    def branched(self, X: Array, rivals: list[Rival], attacker: Attacker, radius: Array, max_parts: int) -> Array:
        """Return larger radii where branch and bound proves them: each that is tried gets a share of ``max_parts``."""
        Z, found = self.score.inner(X), radius.copy()
        cover, share = _cover(Z, attacker), 1 + max_parts // TRIES
        for row in np.flatnonzero(np.isfinite(radius)).tolist():
            def holds(rows: Rows, eps: Array, row: int = row) -> Mask:
                return np.array([all(rival.lead is not None and rival.margin[row] > 0
                                     and _branched(rival.lead, Z, attacker, row, each, share) for rival in rivals)
                                 for each in eps], dtype=bool)

            found[row] = largest_that_holds(holds, radius[[row]], cover[[row]], NEAR).item()
        return np.where(found >= cover, np.inf, found)


def _branched(lead: Lead, Z: Array, attacker: Attacker, row: int, eps: float, most: int) -> bool:
    """Say whether branch and bound proves one row within a radius."""
    one = np.array([row])
    return prove(lead[one], attacker[one].region(Z[one], np.array([eps])), most)


def in_double(expansion: Scores) -> Scores:
    """Return a kernel expansion whose numbers are float64; another as it is."""
    if not isinstance(expansion, KernelExpansion):
        return expansion
    centers, coef = (np.asarray(part, dtype=np.float64) for part in (expansion.centers, expansion.coef))
    return replace(expansion, centers=centers, coef=coef)


@dataclass
class _Relaxing:
    """A kernel expansion in kernels whose values have lines below them.

    ``gram`` (k, k) holds the products of the score functions that the second order needs, zeros where it needs none;
    ``hidden`` is what rounding may hide of the square of one whose coefficients' sizes sum to 1.
    """

    expansion: KernelExpansion
    kernels: list[tuple[Kernel, float]]
    gram: Array
    hidden: float

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # then nothing follows from the products
    def of(cls, expansion: KernelExpansion) -> "_Relaxing | None":
        """Return it for an expansion; None where a kernel has no such lines."""
        kernels = summands(expansion.kernel)
        if not kernels or not all(can_relax(kernel) for kernel, _ in kernels):
            return None
        coef, centers, hidden = expansion.coef, expansion.centers, 0.0
        match kernels:
            case [(RBF() as kernel, share)]:
                product, hidden = kernel, share**2 * norm_doubt(kernel, centers)
            case [(Polynomial(degree=3, gamma=gamma), share)]:
                product, centers = Polynomial(3), gamma * centers
            case _:
                return cls(expansion, kernels, np.zeros((coef.shape[1], coef.shape[1])), hidden)
        values = replace(expansion, kernel=product, centers=centers, intercept=0 * expansion.intercept,
                         linear=None)(centers)
        return cls(expansion, kernels, share**2 * coef.T @ values, hidden)

    def lead(self, V: Array, rounding: ModelRounding) -> Lead:
        """Return the leads that the contrasts V (n, k) make of the scores."""
        weights, sizes = V @ self.expansion.coef.T, np.abs(V) @ np.abs(self.expansion.coef.T)
        square = np.einsum("ik,kl,il->i", V, self.gram, V) + sizes.sum(axis=1) ** 2 * self.hidden
        bias = V @ self.expansion.intercept - rounding.share(0) * (np.abs(V) @ np.abs(self.expansion.intercept))
        tilt = None if self.expansion.linear is None else V @ self.expansion.linear.T
        origin = float(np.linalg.norm(rounding.origin))
        return Lead(self.kernels, self.expansion.centers, weights, bias, square, origin, tilt, rounding.unit, sizes)


def _cover(Z: Array, attacker: Attacker) -> Array:
    """Return the radius (n,) from which on the ball holds the whole box; inf without one."""
    if attacker.low is None or attacker.high is None:
        return np.full(len(Z), np.inf)
    far = np.maximum(attacker.high - Z, Z - attacker.low) / attacker.scale
    cover: Array = np.linalg.norm(far, axis=1) if attacker.norm == "l2" else far.max(axis=1)
    return cover * (1 + sum_error(Z.shape[1]))
