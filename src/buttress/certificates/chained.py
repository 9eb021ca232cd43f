"""Proofs for pipelines and networks, from the bounds of their steps."""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array
from buttress._types import Mask, Rows
from buttress.certificates.enclosures import Enclosure, affine, around
from buttress.certificates.pipelines import Steps
from buttress.certificates.radius import OUTWARD, largest_that_holds
from buttress.certificates.swapped import Prover
from buttress.expansion import winners

BLOCK = 64  # rows that are bounded at a time
SHORTFALL = 1e-7  # share by which a radius may fall short

# which rows keep their class under the kernel machine in boxes around them: (rows, low, high) -> (n,)
Machine = Callable[[Array, Array, Array], Mask]


class Chained:
    """The proofs of one model, whose kernel machine at the end ``machine`` proves."""

    def __init__(self, steps: Steps, real: str, machine: Machine | None):
        self.steps = steps
        self.unit = float(np.finfo(real).eps)
        self.machine = machine

    def classes(self, X: Array) -> Rows:
        """Return the class of each row, right where it is proven."""
        found = [self._codes(self.steps.seen(self._enclosed(X[rows], np.zeros((1, 1)), "linf", (X[rows], X[rows]))))
                 for rows in _blocks(len(X))]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)

    def ball(self, reach: Array, norm: str) -> Prover:
        """Return the proofs in balls of radii (1, d) and boxes."""
        return lambda X, box: self.within(X, reach, norm, box)

    def within(self, X: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Mask:
        """Say which rows keep their class in balls of radii (n or 1, d) and a box."""
        proven = np.zeros(len(X), dtype=bool)
        reach = np.broadcast_to(reach, X.shape)
        for rows in _blocks(len(X)):
            seen = self.steps.seen(self._enclosed(X[rows], reach[rows], norm, (box[0][rows], box[1][rows])))
            proven[rows] = self._stands(seen)
        return proven

    def radius(self, X: Array, scale: Array, norm: str, box: tuple[Array, Array]) -> Array:
        """Return radii (n,) in multiples of ``scale`` (1, d) within which rows are proven, never inf."""

        def holds(rows: Rows, radius: Array) -> Mask:
            reach = radius[:, None] * scale * OUTWARD
            return self.within(X[rows], reach, norm, (box[0][rows], box[1][rows]))

        start, limit = np.zeros(len(X)), np.full(len(X), np.inf)
        # first a millionth of the size of a row is tried
        return largest_that_holds(holds, start, 1e-6 * (1 + np.abs(X).max(axis=1, initial=0.0)), limit, SHORTFALL)

    def _enclosed(self, X: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Enclosure:
        return around(X, *box, reach, "linf" if norm == "linf" else "l2", self.unit)

    def _codes(self, seen: Enclosure) -> Rows:
        if self.steps.kernel is not None:
            return winners(self.steps.kernel(seen.centre), self.steps.contrasts)
        assert self.steps.scores is not None
        return winners(self.steps.scores(seen).centre, self.steps.contrasts)

    def _stands(self, seen: Enclosure) -> Mask:
        if self.machine is not None:
            return self.machine(seen.centre, *seen.ends())
        assert self.steps.scores is not None
        scores = self.steps.scores(seen)
        codes = winners(scores.centre, self.steps.contrasts)
        proven = np.zeros(len(codes), dtype=bool)
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            own = Enclosure(scores.centre[rows], scores.moves[rows], scores.slack[rows], scores.own, scores.norm,
                            scores.unit)
            leads = affine(own, self.steps.contrasts[code].T)
            # 32 units of rounding are between two probabilities that are told apart
            least = 32 * scores.unit * (1 + own.size.max(axis=1, keepdims=True))
            proven[rows] = (leads.ends()[0] > least).all(axis=1)
        return proven


def _blocks(n: int) -> list[Rows]:
    return [np.arange(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
