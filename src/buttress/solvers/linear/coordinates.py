"""The linear support vector machine on its dual, one multiplier at a time: for sparse rows of many columns.

    maximise over 0 <= a_i <= C_i   sum_i a_i - 1/2 ||w||^2 - b0 z - sigma/2 z^2

with w = sum_i y_i a_i x_i and z = sum_i y_i a_i. For the squared hinge a_i has no limit, and sum_i a_i^2 / (4 C_i)
is subtracted. A free intercept makes z = 0 a constraint; b0 is its multiplier, and sigma the weight of the penalty (the
method of multipliers). In the primal that is a proximal step in b from b0, with b = b0 + sigma z. After each pass over
the rows b0 becomes b.

A coordinate is maximised exactly, for two walks along the entries of its row: w is kept up to date, so no step costs
more than the row has entries.

Source: Hsieh, Chang, Lin, Keerthi & Sundararajan, A dual coordinate descent method for large-scale linear SVM, ICML
2008, algorithm 1. They penalise b; the multiplier, and with it a free b, is not theirs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from buttress._checks import Array
from buttress._compiling import compile_kernel, prefetch
from buttress.solvers.linear.primal import LinearProblem, Plane, hinge_intercept
from buttress.solvers.linear.stochastic import AHEAD, ANY_ORDER, LINE
from buttress.solvers.run import Step, Steps

FIRST = 3  # passes before the first certificate, which costs about as much as one
PASSES = 5  # later ones are made after so many, and a fifth of the passes so far


def coordinate_descent(problem: LinearProblem, most: int | None = None) -> Steps:
    """Yield planes after passes over the rows, in orders that are always the same.

    The gap is the relative duality gap of the multipliers made feasible and their w, at the b of the last pass, or at
    the best of the hinge. Iterations are passes, of which a step takes several; ``most`` is how many are wanted in all.
    """
    rows = _Rows.of(problem)
    a = np.zeros(len(problem.y))
    w = np.zeros(problem.X.shape[1])
    b = 0.0
    n_passes = 0
    passes = 0
    while True:
        feasible = problem.feasible(a)
        normal = rows.X.T @ (problem.y * feasible)
        scores = rows.X @ normal
        free = problem.intercept and not problem.squared
        shown = hinge_intercept(problem.y - scores, problem.y, problem.bound) if free else b
        primal = problem.primal(normal, 1 - problem.y * (scores + shown))
        dual = problem.dual_at(feasible, normal)
        yield Step(Plane(normal, shown, dual, feasible), gap=problem.relative_gap(primal, dual), objective=primal,
                   iterations=max(passes, 1))
        passes = FIRST + n_passes // PASSES
        if most is not None:
            passes = max(1, min(passes, most - n_passes))
        b = _take_passes(rows, problem.y, passes, np.random.default_rng(n_passes), b, a, w)
        n_passes += passes


@dataclass
class _Rows:
    """The rows X (n, d) and what they are made of; of each row its limit, and the curvature along its multiplier.

    ``softness`` is the part of the curvature that is the squared hinge's.
    """

    X: csr_matrix
    entries: tuple[NDArray[np.uint32], NDArray[np.uint32], Array]
    limit: Array
    curvature: Array
    softness: Array
    sigma: float

    @classmethod
    def of(cls, problem: LinearProblem) -> "_Rows":
        X = csr_matrix(problem.X)
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        sigma = float(squares.mean()) if problem.intercept else 0.0
        softness = 0.5 / problem.bound if problem.squared else np.zeros(len(squares))
        limit = np.full(len(squares), np.inf) if problem.squared else problem.bound
        # unsigned: a place counted from the end would be one more test at each entry
        indptr, indices = (index.astype(np.uint32) for index in (X.indptr, X.indices))
        data = np.require(X.data, requirements="W")  # rows that processes share are read-only, which is another type
        return cls(X, (indptr, indices, data), limit, squares + sigma + softness, softness, sigma)


def _take_passes(
    rows: _Rows, y: Array, passes: int, rng: np.random.Generator, b: float, a: Array, w: Array
) -> float:
    """Take passes over the rows, changing a and w in place; return b.

    A row whose multiplier is at a limit, and would go beyond by more than any multiplier moved in the pass before, is
    left out of the passes to come (Hsieh et al., section 3.2).
    """
    order = np.arange(len(a))
    beyond = np.inf
    for _ in range(passes):
        order = rng.permutation(order)
        kept = np.ones(len(order), dtype=bool)
        b += rows.sigma * float(y @ a)
        b, beyond = _take_pass(*rows.entries, y, rows.limit, rows.curvature, rows.softness, order, b, rows.sigma, a, w,
                               beyond, kept)
        order = order[kept]
    return b


@compile_kernel("Tuple((float64, float64))(uint32[::1], uint32[::1]" + 5 * ", float64[::1]"
                + ", int64[::1], float64, float64, float64[::1], float64[::1], float64, boolean[::1])",
                fastmath=ANY_ORDER)
def _take_pass(
    indptr: NDArray[np.uint32], indices: NDArray[np.uint32], data: Array, y: Array, limit: Array, curvature: Array,
    softness: Array, order: NDArray[np.int64], b: float, sigma: float, a: Array, w: Array, beyond: float,
    kept: NDArray[np.bool_],
) -> tuple[float, float]:
    """Maximise over each multiplier in turn, changing a and w in place; return b and the largest violation met.

    ``kept`` becomes False, in the places of ``order``, for multipliers that are at a limit by more than ``beyond``.
    b holds the multiplier of the constraint and its penalty together: both are linear in what a step adds to z.
    """
    worst = 0.0
    for place in range(order.size):
        i = order[place]
        if place + AHEAD < order.size:
            ahead = order[place + AHEAD]
            for entry in range(indptr[ahead], indptr[ahead + 1], LINE):
                prefetch(data, (entry,))
                prefetch(indices, (entry,))
        score = b
        for entry in range(indptr[i], indptr[i + 1]):
            score += w[indices[entry]] * data[entry]
        rise = 1.0 - y[i] * score - softness[i] * a[i]
        if (a[i] == 0 and rise < 0) or (a[i] == limit[i] and rise > 0):
            kept[place] = abs(rise) <= beyond
            continue
        worst = max(worst, abs(rise))
        now = limit[i] if rise > 0 else 0.0
        if curvature[i] > 0:
            now = min(max(a[i] + rise / curvature[i], 0.0), limit[i])
        step = y[i] * (now - a[i])
        if step != 0:
            a[i] = now
            b += sigma * step
            for entry in range(indptr[i], indptr[i + 1]):
                w[indices[entry]] += step * data[entry]
    return b, worst
