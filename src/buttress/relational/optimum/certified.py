"""From a start to a certified optimum: evaluate, bound from both sides, polish, refine.

Every evaluation adds a plane that holds everywhere, and an upper bound at its point, so the interval only narrows.
Source: L-BFGS on a rounded hinge, then bundle steps (Teo et al., JMLR 11, 2010) over all planes seen.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.margins import Evaluation, MarginLoss, margin_loss
from buttress.relational.optimum.planes import PlanePool
from buttress.solvers.gradient.lbfgs import lbfgs_points
from buttress.solvers.run import Step, Steps


class Oracle(Protocol):
    """Evaluates the mean loss on a grid of so many bins; ``can_refine`` says whether four times as many would fit."""

    can_refine: bool

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = ..., /) -> Evaluation: ...


WIDTHS = (0.05, 0.01)


@dataclass(frozen=True)
class Certificate:
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

    oracle: Oracle
    loss: str
    alpha: float
    pool: PlanePool
    tol: float
    bins: int = 1024
    best: Certificate = field(default_factory=lambda: Certificate(np.zeros(0), 0.0, np.inf, 0))
    model: Array | None = None
    slack: float = 0.0

    def visit(self, beta: Array, width: float) -> tuple[Evaluation, Step]:
        """Call the oracle at beta; returns the evaluation and the step to report."""
        seen = self.oracle(beta, margin_loss(self.loss, width), self.bins)
        self.pool.add(seen.a, seen.b)
        low, self.model = self.pool.bound(self.alpha)
        ridge = self.alpha * float(beta @ beta)
        calls, low = self.best.calls + 1, max(low, self.best.low)
        if ridge + seen.upper < self.best.high:
            self.slack = seen.upper - seen.lower
            self.best = Certificate(beta, low, ridge + seen.upper, calls)
        else:
            self.best = replace(self.best, low=low, calls=calls)
        shown = f"optimum in [{self.best.low:.6f}, {self.best.high:.6f}], gap {self.best.gap:.1e}"
        return seen, Step(self.best, gap=self.best.gap, objective=self.best.high, shown=shown)

    def refine(self) -> bool:
        """Double the bins (twice) when rounding is what keeps the interval wide and memory allows."""
        if self.slack > self.tol / 3 * self.best.high and self.bins < 1 << 20 and self.oracle.can_refine:
            self.bins *= 4
            return True
        return False


def certify(climb: Climber, start: Array) -> Steps:
    """Evaluate the start with the exact and the rounded slope, on finer grids while rounding dominates."""
    yield climb.visit(start, 0.0)[1]
    while climb.refine():
        yield climb.visit(start, 0.0)[1]
    if climb.loss == "hinge":
        for width in WIDTHS:
            yield climb.visit(start, width)[1]


def polish(climb: Climber, widths: tuple[float, ...] = WIDTHS, calls: int = 25) -> Steps:
    """Minimise the smoothed loss by L-BFGS from the best point, at most ``calls`` a width."""
    for width in widths if climb.loss == "hinge" else (0.0,):
        points, reply = lbfgs_points(climb.best.beta), None
        for _ in range(calls if climb.loss == "hinge" else 10 * calls):
            try:
                beta = next(points) if reply is None else points.send(reply)
            except StopIteration:
                break
            seen, step = climb.visit(beta, width)
            yield step
            slope = 2 * climb.alpha * beta - seen.b
            if slope @ slope <= 0.2 * climb.tol * climb.best.high * 4 * climb.alpha:
                break  # by strong convexity within tol / 5 of the smoothed optimum: the next width has more to give
            reply = seen.smooth + climb.alpha * float(beta @ beta), slope
        climb.refine()


def bundle(climb: Climber) -> Steps:
    """Evaluate where the planes' model is least, and between there and the best point, until the interval closes."""
    while True:
        assert climb.model is not None
        if climb.refine():
            yield climb.visit(climb.best.beta, 0.0)[1]
        target, best = climb.model, climb.best.beta
        yield climb.visit(best + 0.3 * (target - best), 0.0)[1]
        yield climb.visit(target, 0.0)[1]


def ladder(climb: Climber, start: Array, solver: str = "auto") -> Steps:
    """Yield a Step with a Certificate per oracle call: certify, then polish, then bundle ("auto"), or part of it."""
    yield from certify(climb, start)
    if solver == "sample":
        return
    if solver in ("auto", "lbfgs"):
        yield from polish(climb)
    if solver != "lbfgs":
        yield from bundle(climb)
