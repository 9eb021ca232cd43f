"""From a start to a certified optimum: evaluate, bound from both sides, polish, refine.

Every evaluation adds a plane that holds everywhere, and an upper bound at its point, so the interval only narrows.
Source: L-BFGS on a rounded hinge, then bundle steps (Teo et al., JMLR 11, 2010) over all planes seen.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from buttress._checks import Array
from buttress._proof import U
from buttress.checkpoints.journal import Memory, kept
from buttress.relational.counting.margins import FIRST_BINS, HINGE_WIDTHS, Evaluation, MarginOracle, margin_loss
from buttress.relational.sources.databases import SourceChangedError
from buttress.solvers.gradient.sent import lbfgs_points
from buttress.solvers.qp.active_set import simplex_minimiser
from buttress.solvers.run import Step, Steps

MOST_PLANES = 200  # planes kept: time and memory of the bound's quadratic program grow with them
POLISH_SHARE = 0.2  # of tol: a rounded problem solved this well leaves the rest to the next width


class PlanePool:
    """Cutting planes of one mean loss, and the lower bound of the optimum that they prove.

        L(beta) >= a_k - b_k . beta for every k and beta, hence for every v in the simplex
        min over beta of L + alpha ||beta||^2  >=  v.a - ||B'v||^2 / (4 alpha),      equal at beta = B'v / (2 alpha).

    Where b_k may be off by a length of tilt_k, ||B'v|| + v.tilt stands in place of ||B'v||. The planes do not depend on
    alpha, so one pool serves a whole path of them. ``age`` counts the bounds each was of no use to.
    """

    def __init__(self, width: int):
        self.a = np.zeros(0)
        self.B = np.zeros((0, width))
        self.tilt = np.zeros(0)
        self.age = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.a)

    def add(self, a: float, b: Array, tilt: float = 0.0) -> None:
        """Add the plane a - b . beta - tilt |beta|, dropping the one unused for longest when there are too many."""
        if len(self) >= MOST_PLANES:
            keep = np.sort(np.argsort(self.age, kind="stable")[: MOST_PLANES - 1])
            self.a = self.a[keep]
            self.B = self.B[keep]
            self.tilt = self.tilt[keep]
            self.age = self.age[keep]
        self.a = np.append(self.a, a)
        self.B = np.vstack([self.B, b])
        self.tilt = np.append(self.tilt, tilt)
        self.age = np.append(self.age, 0)

    def bound(self, alpha: float) -> tuple[float, Array]:
        """Return the best lower bound the planes prove and the point where their model is least."""
        v = simplex_minimiser(self.B / np.sqrt(2 * alpha), self.a)
        self.age = np.where(v > 1e-6, 0, self.age + 1)  # a plane of less weight in the bound is not used
        combined = self.B.T @ v
        return self._proven(v, combined, alpha), combined / (2 * alpha)

    def _proven(self, v: Array, combined: Array, alpha: float) -> float:
        """Return the bound of weights v >= 0, a little less for rounding: their sum is at most 1, and no loss below 0.
        """
        roundings = (len(v) + len(combined) + 16) * U
        share = (1 - roundings) / max(float(v.sum()), 1.0)
        sizes = np.linalg.norm(self.B, axis=1) * roundings + self.tilt
        longest = (float(np.linalg.norm(combined)) + float(v @ sizes)) * share * (1 + roundings)
        value = float(v @ self.a) * share - roundings * float(v @ np.abs(self.a))
        return value - longest**2 / (4 * alpha) * (1 + 8 * U)


@dataclass(frozen=True)
class CertifiedPoint:
    """The best coefficients seen, and the interval [low, high] that holds the optimum; F(beta) <= high."""

    beta: Array
    low: float
    high: float
    calls: int

    @property
    def gap(self) -> float:
        """(high - low) / high, at least 0."""
        return max(0.0, self.high - self.low) / self.high if self.high > 0 else 0.0


@dataclass
class Climber:
    """The state of a climb: pool, best interval, number of oracle calls and bins of the grid."""

    oracle: MarginOracle
    loss: str
    alpha: float
    pool: PlanePool
    tol: float
    bins: int = FIRST_BINS
    best: CertifiedPoint = field(default_factory=lambda: CertifiedPoint(np.zeros(0), 0.0, np.inf, 0))
    model: Array | None = None
    slack: float = 0.0

    def visit(self, beta: Array, width: float) -> tuple[Evaluation, Step]:
        """Call the oracle at beta; returns the evaluation and the step to report."""
        seen = self._evaluated(beta, width)
        self.pool.add(seen.a, seen.b, seen.tilt)
        low, self.model = self.pool.bound(self.alpha)
        ridge = self.alpha * float(beta @ beta) * (1 + (len(beta) + 8) * U)
        calls = self.best.calls + 1
        low = max(low, self.best.low)
        if ridge + seen.upper < self.best.high:
            self.slack = seen.upper - seen.lower
            self.best = CertifiedPoint(beta, low, ridge + seen.upper, calls)
        else:
            self.best = replace(self.best, low=low, calls=calls)
        self._check()
        shown = f"optimum in [{self.best.low:.6f}, {self.best.high:.6f}], gap {self.best.gap:.1e}"
        return seen, Step(self.best, gap=self.best.gap, objective=self.best.high, shown=shown)

    def _evaluated(self, beta: Array, width: float) -> Evaluation:
        """Return the oracle's evaluation at beta, or what the checkpoint of the fit keeps of it."""

        def computed() -> Memory:
            seen = self.oracle(beta, margin_loss(self.loss, width), self.bins)
            return {"seen": vars(seen), "can_refine": self.oracle.can_refine}

        found = kept([self.loss, beta, width, self.bins], computed)
        self.oracle.can_refine = found["can_refine"]
        return Evaluation(**found["seen"])

    def _check(self) -> None:
        """Refuse a lower bound above the upper one, which no fixed set of rows gives: never is it hidden."""
        # sums of 64-bit floats and the bound's program are off by less
        if self.best.low > self.best.high + 1e-9 * (1 + self.best.high):
            raise SourceChangedError(
                "The rows of the join changed while they were counted: the optimum would be at least "
                f"{self.best.low:.6g} and at most {self.best.high:.6g}. Fit to a copy of the tables, or to a snapshot.")

    def refine(self) -> bool:
        """Refine the grid when rounding is what keeps the interval wide and memory allows; return whether it did."""
        rounding_dominates = self.slack > self.tol * (1 / 3) * self.best.high
        # a step of the finest grid is 1e-6 of the range of the scores
        if rounding_dominates and self.bins < 1 << 20 and self.oracle.can_refine:
            self.bins *= 4  # the error of a grid falls with the square where margins are spread out
            return True
        return False


def certify(climb: Climber, start: Array) -> Steps:
    """Evaluate the start with the exact and the rounded slope, on finer grids while rounding dominates."""
    yield climb.visit(start, 0.0)[1]
    while climb.refine():
        yield climb.visit(start, 0.0)[1]
    if climb.loss == "hinge":
        for width in HINGE_WIDTHS:
            yield climb.visit(start, width)[1]


def polish(climb: Climber) -> Steps:
    """Minimise the smoothed loss by L-BFGS from the best point, one width of the rounded hinge after the other."""
    rounded = climb.loss == "hinge"
    for width in HINGE_WIDTHS if rounded else (0.0,):  # a loss that is smooth has one stage only
        yield from _polish_smoothed(climb, width, 25 if rounded else 250)  # oracle calls, for each width
        climb.refine()


def _polish_smoothed(climb: Climber, width: float, calls: int) -> Steps:
    """Minimise the loss smoothed at one width, by at most ``calls`` oracle calls."""
    points = lbfgs_points(climb.best.beta)
    reply = None
    for _ in range(calls):
        try:
            beta = next(points) if reply is None else points.send(reply)
        except StopIteration:
            return
        seen, step = climb.visit(beta, width)
        yield step
        slope = 2 * climb.alpha * beta - seen.b
        if slope @ slope <= POLISH_SHARE * climb.tol * climb.best.high * 4 * climb.alpha:
            return  # by strong convexity within POLISH_SHARE of tol: the next width has more to give
        reply = seen.smooth + climb.alpha * float(beta @ beta), slope


def bundle(climb: Climber) -> Steps:
    """Evaluate where the planes' model is least, and between there and the best point, until the interval closes."""
    while True:
        assert climb.model is not None
        if climb.refine():
            yield climb.visit(climb.best.beta, 0.0)[1]
        target = climb.model
        best = climb.best.beta
        yield climb.visit(best + 0.3 * (target - best), 0.0)[1]  # part of the way, as well
        yield climb.visit(target, 0.0)[1]


def certified_steps(climb: Climber, start: Array, solver: str = "auto") -> Steps:
    """Yield a Step with a CertifiedPoint per oracle call: certify, then for "auto" polish and bundle."""
    yield from certify(climb, start)
    if solver == "auto":
        yield from polish(climb)
        yield from bundle(climb)
