"""The pool of cutting planes, and the lower bound of the optimum that they prove.

    L(beta) >= a_k - b_k . beta for every k and beta, hence for every v in the simplex
    min over beta of L + alpha ||beta||^2  >=  v.a - ||B'v||^2 / (4 alpha),      equal at beta = B'v / (2 alpha).

The planes do not depend on alpha, so one pool serves a whole path of them.
"""

import numpy as np

from buttress._checks import Array
from buttress.solvers.qp.active_set import simplex_minimiser

MOST_PLANES = 200  # planes kept: time and memory of the bound's quadratic program grow with them
ACTIVE = 1e-6  # weight in the bound above which a plane counts as used


class PlanePool:
    """Cutting planes of one mean loss; ``age`` counts the bounds each was of no use to."""

    def __init__(self, width: int):
        self.a = np.zeros(0)
        self.B = np.zeros((0, width))
        self.age = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.a)

    def add(self, a: float, b: Array) -> None:
        """Add the plane a - b . beta, dropping the one unused for longest when there are too many."""
        if len(self) >= MOST_PLANES:
            keep = np.sort(np.argsort(self.age, kind="stable")[: MOST_PLANES - 1])
            self.a = self.a[keep]
            self.B = self.B[keep]
            self.age = self.age[keep]
        self.a = np.append(self.a, a)
        self.B = np.vstack([self.B, b])
        self.age = np.append(self.age, 0)

    def bound(self, alpha: float) -> tuple[float, Array]:
        """Return the best lower bound the planes prove and the point where their model is least."""
        v = simplex_minimiser(self.B / np.sqrt(2 * alpha), self.a)
        self.age = np.where(v > ACTIVE, 0, self.age + 1)
        combined = self.B.T @ v
        return float(v @ self.a - combined @ combined / (4 * alpha)), combined / (2 * alpha)

    def model(self, beta: Array) -> float:
        """Return the largest plane at beta, a lower bound of the mean loss there."""
        return float((self.a - self.B @ beta).max())
