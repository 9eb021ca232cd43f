"""An exact solver of the linear support vector machine in the primal: Newton's method inside a multiplier method.

The hinge is  max_{0 <= a <= C} a u.  Around multipliers a0 it is replaced by the smooth function

    max_{0 <= a <= C}  a u - (a - a0)^2 / (2 s C),      attained at a = C clip(a0/C + s u, 0, 1),

The objective is then piecewise quadratic. Newton's method finds its minimum over (w, b) in finitely many steps, and
the a there is the next a0. These are proximal steps on the dual, so they converge to the optimum of the hinge itself,
and a gives a certificate after each of them. The squared hinge is the case a0 = 0, s = 2 without an upper limit: a
single smooth problem.

Sources: Rockafellar (1976) for the multipliers, Mangasarian (2002) and Chapelle (2007) for Newton's method.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import issparse
from scipy.sparse.linalg import LinearOperator, cg

from buttress._checks import Array
from buttress._types import DenseOrSparse, is_csr
from buttress.solvers.linear.primal import LinearProblem, Plane
from buttress.solvers.run import Step, Steps

DIRECT = 3000  # largest system that is factorised; larger ones are solved by conjugate gradients
ARMIJO = 1e-4  # share of the decrease predicted by the slope that a step must reach (Nocedal & Wright, section 3.1)


@dataclass
class SmoothProblem:
    """The smooth problem around multipliers C * centre, with b tied to b0 by a weak spring.

    The spring keeps b determined where no row is active. Its pull vanishes as b converges.
    """

    linear: LinearProblem
    centre: Array
    s: float
    b0: float

    @property
    def spring(self) -> float:
        # the pull of b to its last value, too weak to matter where any row is active
        return 1e-8 / self.linear.lam if self.linear.intercept else 0.0

    def shares(self, u: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return a / C at slacks u, and which rows lie on the quadratic piece."""
        raw = self.centre + self.s * u
        top = np.inf if self.linear.squared else 1.0
        return np.clip(raw, 0, top), (raw > 0) & (raw < top)

    def value(self, w: Array, b: float, u: Array) -> float:
        share, _ = self.shares(u)
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite value only makes the step shorter
            losses = share * u - (share - self.centre) ** 2 / (2 * self.s)
            return float(w @ w + self.spring * np.square(b - self.b0)) / 2 + float(self.linear.bound @ losses)

    def gradient(self, w: Array, b: float, share: Array) -> tuple[Array, float]:
        pull = self.linear.bound * share * self.linear.y
        return w - self.linear.X.T @ pull, self.spring * (b - self.b0) - float(pull.sum()) * self.linear.intercept

    def direction(self, active: NDArray[np.bool_], g: Array, g_b: float) -> tuple[Array, float]:
        """Return Newton's step (in w, in b) from the gradient, given the active rows."""
        X = self.linear.X[active]
        curvature = self.s * self.linear.bound[active]
        if not self.linear.intercept:
            return -_solve(X, curvature, g[:, None])[:, 0], 0.0
        mean = X.T @ curvature
        solved = _solve(X, curvature, np.column_stack([g, mean]))
        schur = self.spring + max(0.0, float(curvature.sum()) - float(mean @ solved[:, 1]))  # but for rounding
        move_b = (float(mean @ solved[:, 0]) - g_b) / schur
        return -solved[:, 0] - solved[:, 1] * move_b, move_b


class _Proximal(NamedTuple):
    """The point after a proximal step: its relative gap, w, b, the multipliers divided by C, and the s of the step."""

    gap: float
    w: Array
    b: float
    share: Array
    s: float


def multiplier_newton(problem: LinearProblem, b: float = 0.0) -> Steps:
    """Yield a plane after each proximal step, from w = 0 and b; iterations are Newton's.

    The gap is the relative duality gap.

    s grows from step to step. On badly scaled columns Newton's method may fail with a large s: the gap then rises. Such
    a step is undone, and s grows more slowly from there. After some undone steps only rounding is left.
    """
    problem, mean = centred(problem)
    w = np.zeros(problem.X.shape[1])
    share = np.zeros(len(problem.y))
    # a larger first s means fewer proximal steps and harder Newton problems; the squared hinge is smooth itself
    s = 2.0 if problem.squared else 0.25
    growth = 1.0 if problem.squared else 8.0
    retreats = 0
    taken = 1
    best = _Proximal(np.inf, w, b, share, s)
    while retreats < 6:  # the growth of s is then its 64th root
        primal = problem.primal(w, problem.slack(w, b))
        dual = problem.dual(problem.bound * share)
        gap = problem.relative_gap(primal, dual)
        plane = Plane(w, b - float(mean @ w), dual, problem.bound * share)
        yield Step(plane, gap=gap, objective=primal, iterations=taken)
        if gap < best.gap:
            best = _Proximal(gap, w, b, share, s)
        else:
            _, w, b, share, s = best
            growth = growth**0.5
            retreats += 1
        centre = np.zeros_like(share) if problem.squared else share
        s *= growth
        w, b, share, taken = minimise(SmoothProblem(problem, centre, s, b), w, b)


def centred(problem: LinearProblem) -> tuple[LinearProblem, Array]:
    """Return the problem with the weighted mean subtracted from dense rows if b is free, and that mean."""
    if issparse(problem.X) or not problem.intercept:
        return problem, np.zeros(problem.X.shape[1])
    mean = problem.lam * (problem.bound @ problem.X)
    return replace(problem, X=problem.X - mean), mean


def minimise(smooth: SmoothProblem, w: Array, b: float) -> tuple[Array, float, Array, int]:
    """Return the minimum (w, b), its multipliers / C and the number of Newton steps.

    Ends when a full step does not change the set of active rows: the minimum of that quadratic is then exact. Also ends
    when the remaining decrease is as small as rounding.
    """
    u = smooth.linear.slack(w, b)
    last = np.empty(0, dtype=bool)
    length = 0.0
    taken = 0
    value = smooth.value(w, b, u)
    while True:
        share, active = smooth.shares(u)
        # a guard: digits take 37 at C=1; from C=1000 on it ends some problems, and the next goes on
        if taken == 100 or (length == 1 and np.array_equal(active, last)):
            return w, b, share, max(taken, 1)
        g, g_b = smooth.gradient(w, b, share)
        move, move_b = smooth.direction(active, g, g_b)
        change = -smooth.linear.y * (smooth.linear.X @ move + move_b)
        fall = float(g @ move) + g_b * move_b
        length = 1.0
        while (trial := smooth.value(w + length * move, b + length * move_b, u + length * change)) > (
            value + ARMIJO * length * fall
        ):
            length /= 2
            if -length * fall < 1e-14 * abs(value):  # the search can find no more
                return w, b, share, max(taken, 1)
        w = w + length * move
        b = b + length * move_b
        u = u + length * change
        value = trial
        last = active
        taken += 1


def _solve(X: DenseOrSparse, curvature: Array, right: Array) -> Array:
    """Solve (I + X' diag(curvature) X) Z = right for X of shape (m, d), by a system of the smaller of d and m."""
    m, d = X.shape
    if min(m, d) > DIRECT:
        system = LinearOperator((d, d), matvec=lambda v: v + X.T @ (curvature * (X @ v)), dtype=np.float64)
        return np.column_stack([cg(system, column, rtol=1e-10, maxiter=1000)[0] for column in right.T])
    scaled = X.multiply(np.sqrt(curvature)[:, None]).tocsr() if is_csr(X) else X * np.sqrt(curvature)[:, None]
    gram: Any = scaled.T @ scaled if d <= m else scaled @ scaled.T
    gram = gram.toarray() if issparse(gram) else gram
    gram[np.diag_indices(len(gram))] += 1
    try:
        factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError("The columns of X differ too much in scale for float64: rounding of the largest hides the "
                         "others. Scale them, with sklearn.preprocessing.StandardScaler for example.") from None
    if d <= m:
        return cho_solve(factor, right, check_finite=False)
    return right - scaled.T @ cho_solve(factor, scaled @ right, check_finite=False)
