"""The machines of liblinear whose intercept is penalised: a sparse one, and one of all classes together.

**Sparse**: minimise |w|_1 + |b| / s + sum_i C_i max(0, 1 - y_i (w'x_i + b))^2, where a large s penalises b little.
liblinear solves it, to one tolerance after another, until the gap is small. The dual is

    maximise  sum_i a_i - a_i^2 / (4 C_i)   over a >= 0 with |sum_i a_i y_i x_ij| <= 1 and s |sum_i a_i y_i| <= 1

whose point is made of 2 C_i max(0, u_i), the slopes of the losses, made smaller until it is feasible.
(Yuan, Chang, Hsieh & Lin, A comparison of optimization methods for large-scale L1-regularized linear classification,
JMLR 11, 2010, section 2.)

**Joint**: minimise sum_c (|w_c|^2 + (b_c / s)^2) / 2 + sum_i C_i max(0, 1 + max_{c != y_i} f_c(x_i) - f_{y_i}(x_i)),
the machine of Crammer & Singer (JMLR 2, 2001). With z = (x, s) its dual is

    maximise  sum_i sum_{c != y_i} a_ic - sum_c |v_c|^2 / 2   over a >= 0 with sum_{c != y_i} a_ic <= C_i,

where v_c = sum_i p_ic z_i, and p_ic is -a_ic, but for the row's own class the sum of its a: then v_c is (w_c, b_c / s)
at the optimum. The p_i of one row are maximised at a time, by projection onto a simplex (Keerthi, Sundararajan, Chang,
Hsieh & Lin, A sequential dual method for large scale multi-class linear SVMs, KDD 2008).
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from buttress._checks import TINY, Array
from buttress._compiling import compile_kernel
from buttress._proof import Near, U, plus, products, sums_of_rows
from buttress._types import DenseOrSparse, Rows
from buttress.solvers.linear.coordinates import FIRST, PASSES
from buttress.solvers.linear.primal import LinearProblem, Plane
from buttress.solvers.run import Step, Steps


@dataclass
class SparseProblem:
    """The sparse machine of a problem with the squared hinge; ``scale`` is s, read where there is an intercept."""

    rows: LinearProblem
    scale: float

    @property
    def y(self) -> Array:
        return self.rows.y

    def feasible(self, a: Array) -> Array:
        """Return slopes a >= 0 of the losses, times the factor of the largest dual value that is feasible."""
        pull = self.rows.y * a
        steepest = max(np.abs(self.rows.X.T @ pull).max(), self.scale * self.rows.intercept * abs(pull.sum()), TINY)
        best = 2 * a.sum() / max(float((a**2 / self.rows.bound).sum()), TINY)
        return np.asarray(a * min(1 / steepest, best))

    def proven(self, w: Array, b: float, a: Array | None) -> tuple[float, float]:
        """Return bounds of the objective at (w, b), and of the optimum from multipliers a >= 0, in real numbers.

        The dual is that of the largest multiple of a, up to a itself, that surely is feasible.
        """
        rows = self.rows
        losses = ((products(rows.X, Near(w)) + b) * rows.y * -1.0 + 1.0).each(plus)
        size = Near(np.abs(w)).sum() + Near(abs(b) / self.scale, 2 * U * abs(b) / self.scale)
        primal = size + (losses * losses * rows.bound).sum()
        if a is None:
            return float(primal.high), -np.inf
        pulls = [sums_of_rows(rows.X, rows.y * a), Near(rows.y * a).sum() * (self.scale * rows.intercept)]
        steepest = max(np.maximum(pull.high, -pull.low).max() for pull in pulls)
        share = (1 - 4 * U) / max(steepest, 1.0)
        cost = (Near(a) * a * Near(0.25 / rows.bound, U / rows.bound)).sum()
        return float(primal.high), float((Near(a).sum() * share + cost * share * share * -1.0).low)


def sparser(problem: SparseProblem, most: int | None = None) -> Steps:
    """Yield planes, the first w = 0, then liblinear's for tolerances that fall, an iteration each.

    The gap is the proven duality gap as a share of the objective. It ends where a tolerance took ``most`` passes.
    """
    rows = problem.rows
    model = LinearSVC(penalty="l1", dual=False, tol=0.1, max_iter=10**9 if most is None else max(most, 1),
                      fit_intercept=rows.intercept, intercept_scaling=problem.scale, random_state=0)
    w = np.zeros(rows.X.shape[1])
    b = 0.0
    while np.isfinite(w).all():
        a = problem.feasible(2 * rows.bound * plus(rows.slack(w, b)))
        primal, dual = problem.proven(w, b, a)
        yield Step(Plane(w, b, dual, a), gap=(primal - dual) / max(primal, TINY), objective=primal)
        if model.tol < U or getattr(model, "n_iter_", 0) >= model.max_iter:
            return
        model.tol *= 0.1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap says how good it is
            model.fit(rows.X, rows.y, sample_weight=rows.bound)
        w = model.coef_[0].astype(np.float64)
        b = float(np.ravel(model.intercept_)[0])


@dataclass
class JointProblem:
    """Rows X (n, d) of the classes ``codes`` among k, with C_i; ``scale`` is s, 0 without intercepts.

    Planes w are (k, d) and multipliers p (k, n); of two classes (d,), the difference of both, and those of the second.
    """

    X: DenseOrSparse
    codes: Rows
    bound: Array
    k: int
    scale: float
    y: float = 1.0  # the sign of multipliers

    def feasible(self, p: Array) -> Array:
        """Return multipliers, which are feasible but for rounding."""
        return p

    def proven(self, w: Array, b: Any, p: Array | None) -> tuple[float, float]:
        """Return bounds of the objective at (w, b), and of the optimum from the p of rivals, in real numbers."""
        if self.k == 2:
            w, b = np.outer([-0.5, 0.5], w), np.array([-0.5, 0.5]) * b
        each = [products(self.X, Near(row)) + shift for row, shift in zip(w, b, strict=True)]
        f = Near(np.stack([one.v for one in each]), np.stack([one.e for one in each]))
        at = self.codes, np.arange(len(self.codes))
        lead = f + Near(f.v[at], f.e[at]) * -1.0 + self._rivals()
        losses = Near(lead.v.max(axis=0), lead.e.max(axis=0))
        primal = (Near(w) * w).sum() * 0.5 + (losses * self.bound).sum()
        if self.scale:
            heights = Near(b / self.scale, 2 * U * np.abs(b / self.scale))
            primal = primal + (heights * heights).sum() * 0.5
        return float(primal.high), -np.inf if p is None else self._dual(p if self.k > 2 else np.vstack([-p, p]))

    def _rivals(self) -> Array:
        """Return 1 for the classes that a row is not of, else 0, (k, n)."""
        return (self.codes != np.arange(self.k)[:, None]).astype(np.float64)

    def _dual(self, p: Array) -> float:
        """Return a lower bound of the dual at the a of p, a hair smaller, so that no rounding makes them too large."""
        a = plus(-p) * self._rivals()
        a *= np.minimum(1, self.bound / np.maximum(a.sum(axis=0), TINY))
        p = np.where(self._rivals() > 0, -a, a.sum(axis=0))
        share = 1 - 2 * (self.k + 4) * U
        dual = Near(a).sum() * share
        for row in p:  # of which each entry is a sum of k
            sums = sums_of_rows(self.X, row), Near(row).sum() * self.scale
            for v in (Near(part.v, part.e * (1 + self.k)) for part in sums):
                dual = dual + (v * v).sum() * (-0.5 * share) * share
        return float(dual.low)


def joint_descent(problem: JointProblem, most: int | None = None) -> Steps:
    """Yield planes after passes over the rows, in orders that are always the same, from w = 0.

    The gap is the proven duality gap as a share of the objective. Iterations are passes, of which a step takes several;
    ``most`` is how many are wanted in all.
    """
    n, d = problem.X.shape
    Z = csr_matrix(problem.X)
    Z = hstack([Z, np.full((n, 1), problem.scale)], format="csr") if problem.scale else Z
    squares = np.asarray(Z.multiply(Z).sum(axis=1)).ravel()
    squares = np.maximum(squares, 1e-6 * squares.mean() or 1.0)  # a row near 0 takes shorter steps
    entries = [np.require(part, requirements="W") for part in (Z.indptr, Z.indices, Z.data)]
    p = np.zeros((n, problem.k))
    n_passes = 0
    passes = 1
    while True:
        W = np.ascontiguousarray(Z.T @ p)
        w, b = W[:d].T, W[d] * problem.scale if problem.scale else np.zeros(problem.k)
        shown: Any = (w, b, p.T.copy()) if problem.k > 2 else (w[1] - w[0], float(b[1] - b[0]), p[:, 1].copy())
        primal, dual = problem.proven(*shown)
        yield Step(Plane(shown[0], shown[1], dual, shown[2]), gap=(primal - dual) / max(primal, TINY), objective=primal,
                   iterations=passes)
        passes = FIRST + n_passes // PASSES
        if most is not None:
            passes = max(1, min(passes, most - n_passes))
        rng = np.random.default_rng(n_passes)
        for _ in range(passes):
            _take_joint_pass(*entries, problem.codes, problem.bound, squares, rng.permutation(n), p, W,
                             np.empty(problem.k))
        n_passes += passes


@compile_kernel("void(int32[::1], int32[::1], float64[::1], int64[::1], float64[::1], float64[::1], int64[::1]"
                + ", float64[:, ::1], float64[:, ::1], float64[::1])")
def _take_joint_pass(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], data: Array, codes: NDArray[np.int64], bound: Array,
    squares: Array, order: NDArray[np.int64], p: Array, W: Array, u: Array,
) -> None:
    """Maximise over the p of each row in turn, changing p and W (d, k) in place; ``u`` (k,) is room to work in."""
    for i in order:
        for c in range(u.size):
            u[c] = 0.0 if c == codes[i] else 1.0
        for entry in range(indptr[i], indptr[i + 1]):
            for c in range(u.size):
                u[c] += W[indices[entry], c] * data[entry]
        for c in range(u.size):  # how much less than its limit each p would be, if their sum were free
            u[c] = u[c] / squares[i] - p[i, c] + (bound[i] if c == codes[i] else 0.0)
        level, count = -np.inf, u.size + 1
        above = u.size
        while above < count:  # the level above which the excess sums to C_i
            count, total = above, 0.0
            for c in range(u.size):
                total += u[c] if u[c] > level else 0.0
            level = (total - bound[i]) / count
            above = 0
            for c in range(u.size):
                above += u[c] > level
        for c in range(u.size):
            step = (bound[i] if c == codes[i] else 0.0) - max(u[c] - level, 0.0) - p[i, c]
            if step != 0:
                p[i, c] += step
                for entry in range(indptr[i], indptr[i + 1]):
                    W[indices[entry], c] += step * data[entry]
