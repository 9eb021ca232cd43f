"""Scores of training rows under the fits without each of them, from the one fit to all.

**One Newton step.** At the minimum over theta of sum_i w_i l_i(s_i) + ridge / 2 ||theta||^2, s_i = z_i'theta, the fit
without row i is one Newton step away, up to higher orders, and scores it

    s_i + h_i w_i l_i' / (1 - h_i w_i l_i''),      h_i = z_i' (ridge I + sum_j w_j l_j'' z_j z_j')^-1 z_i

(Cook & Weisberg's one-step deletion; Rad & Maleki, A scalable estimate of the out-of-sample prediction error via
approximate leave-one-out, JRSS B 82, 2020). It is exact for squared losses. The hinge is smoothed for it: its slope
rises evenly over a band around its kink (Wang et al., Approximate leave-one-out for fast parameter tuning in high
dimensions, ICML 2018). Rows equal in x and y are left out together.

**Spans.** A row of a solved program whose coefficient is 0 leaves the solution as it is: its score is exact. Leaving
out a row with coefficient b_i moves its score by -b_i S_i^2, as long as the same variables stay on their bounds: S_i is
the distance in feature space from phi(x_i) to the affine hull of the other free support vectors (Chapelle, Vapnik,
Bousquet & Mukherjee, Choosing multiple parameters for support vector machines, Machine Learning 46, 2002, section 4.2).
With H the Gram matrix of the free ones, bordered by ones, and k_i = (k(x_i, free), 1),

    S_i^2 = 1 / (H^-1)_ii  for a free i,        S_i^2 = k(x_i, x_i) - k_i' H^-1 k_i  for one on its bound.

Where a variable would reach a bound on the way the score is approximate.

**Balls.** The centre of a ball without a row is that of the others in proportion.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas, cholesky, lapack, solve_triangular
from scipy.sparse import hstack, issparse
from sklearn.utils.extmath import row_norms

from buttress._checks import TINY, Array
from buttress._predicting import dense
from buttress._rows import cached
from buttress._types import DenseOrSparse, Mask, Rows, is_csr
from buttress.kernels import Kernel
from buttress.solvers.linear.penalised import JointProblem, SparseProblem
from buttress.solvers.linear.primal import LinearProblem
from buttress.solvers.ridge.leave_one_out import group_sums

MOST_FEATURES = 2000  # columns whose curvature is factored; of more, that of so many rows is
MOST_WORK = 2e9  # multiplications: of many rows the curvature of fewer is factored
JITTER = 1e-8  # of the mean diagonal, which makes a singular Gram matrix one that can be factored
MOST_FREE = 1500  # free rows of the system of spans: fewer than all make the distances larger

Panel = Callable[[Rows, Rows], Array]  # k of the numbered rows with others


@dataclass(frozen=True)
class Slopes:
    """First and second derivative of each row's loss in its score, (n,) each."""

    first: Array
    second: Array


def hinge_slopes(y: Array, u: Array, weight: Array) -> Slopes:
    """Return those of max(0, u), u = 1 - y s and the like, y in {-1, 1}, smoothed over a band around 0."""
    mean = np.average(u, weights=weight)
    deviation = np.sqrt(np.average((u - mean) ** 2, weights=weight))
    band = float(np.clip(0.3 * deviation, 0.05, 0.5))  # .3 is n^(-1/5) for some 400 rows; the margin is 1
    share = np.clip((u + band) / (2 * band), 0, 1)
    return Slopes(-y * share, np.where(np.abs(u) < band, 0.5 / band, 0.0))


def one_step(scores: Array, slopes: Slopes, weight: Array, h: Array, groups: Rows | None) -> Array:
    """Return the scores (n,) of each row left out with its equals, from their leverages h."""
    together = group_sums(groups, weight)
    # below a thousandth, rounding decides
    return scores + h * together * slopes.first / np.maximum(1 - h * together * slopes.second, 1e-3)


def leverages(
    Z: DenseOrSparse, curvature: Array, ridge: float, *, intercept: bool = False, groups: Rows | None = None
) -> Array:
    """Return h (n,) of the rows of Z (n, m) for curvatures w l'' (n,); an intercept is an unpenalised column.

    Rows of one of the ``groups`` (n,) are equal, and left out together.
    """
    if Z.shape[1] + intercept <= MOST_FEATURES:
        return _by_columns(Z, curvature, ridge, intercept)
    return _by_rows(Z, curvature, ridge, intercept, groups)


def _by_columns(Z: DenseOrSparse, curvature: Array, ridge: float, intercept: bool) -> Array:
    m = Z.shape[1]
    A = np.zeros((m + intercept, m + intercept))
    active = np.flatnonzero(curvature)
    middle = intercept * np.asarray(Z.mean(axis=0), dtype=np.float64).ravel()  # which the intercept takes
    for part in cached(active.shape[0]):
        rows = active[part]
        z = _dense(Z[rows], float(intercept))
        z[:, :m] -= middle
        A += (z.T * curvature[rows]) @ z
    A.flat[:: len(A) + 1] += ridge
    if intercept:
        A[m, m] += (1e-8 - 1) * ridge  # the ridge of an intercept, in that of the coefficients
    eye = np.eye(len(A))
    rounding = 4 * np.finfo(float).eps * np.trace(A)  # of the factor
    L = cholesky(A + rounding * eye, lower=True, check_finite=False)
    root = np.ascontiguousarray(solve_triangular(L, eye, lower=True).T)  # root root' is the inverse of A
    last = root[m] - middle @ root[:m] if intercept else 0.0
    parts = [np.asarray(Z[part] @ root[:m]) + last for part in cached(Z.shape[0])]
    return np.concatenate([np.einsum("ij,ij->i", v, v) for v in parts])


def _by_rows(Z: DenseOrSparse, curvature: Array, ridge: float, intercept: bool, groups: Rows | None) -> Array:
    """The same through the rows with curvature (the Woodbury identity), of many as many as ``MOST_WORK`` allows.

    A row that is not among those counts for itself and its equals all the same (Sherman-Morrison): without it,
    1 - h w l'' is no share of anything.
    """
    lengths = row_norms(Z, squared=True)
    constant = 10.0 * float(np.sqrt(lengths.mean())) * intercept  # stands for a free intercept where columns are many
    lengths += constant**2
    active = np.flatnonzero(curvature)
    most = min(len(active), MOST_FEATURES, int(np.sqrt(MOST_WORK / Z.shape[0])))
    active = active[np.linspace(0, len(active) - 1, most).astype(np.intp)]
    if len(active) == 0:
        return lengths / ridge
    root = np.sqrt(curvature[active] / ridge)
    inner = dense(Z[active] @ Z[active].T) + constant**2
    L = cholesky(np.eye(len(active)) + root[:, None] * inner * root, lower=True, check_finite=False)
    out = np.empty(Z.shape[0])
    for part in cached(Z.shape[0]):
        v = solve_triangular(L, root[:, None] * (dense(Z[active] @ Z[part].T) + constant**2), lower=True)
        out[part] = (lengths[part] - np.einsum("ij,ij->j", v, v)) / ridge
    out = np.maximum(out, 0.0)
    own = curvature.copy()  # of rows that were left out above
    own[active] = 0.0
    together = group_sums(groups, own)
    return np.asarray(out / (1 + together * out))


def left_out_scores(
    problem: LinearProblem, w: Array, b: float, multipliers: Array | None, groups: Rows | None, ridge: float = 1.0
) -> Array:
    """Return the scores (n,) of each row under the fit without it and its equals, by one Newton step.

    The hinge's ``multipliers`` (n,) are, where they are known, its slopes times C_i: a row that the margin rests on
    seldom has as much as C_i. ``ridge`` is the curvature of the penalty.
    """
    scores = np.asarray(problem.X @ w + b)
    u = problem.margin - problem.y * scores
    if problem.squared:
        slopes = Slopes(-2 * problem.y * np.maximum(u, 0), np.where(u > 0, 2.0, 0.0))
    else:
        slopes = hinge_slopes(problem.y, u, problem.bound)
    h = leverages(problem.X, problem.bound * slopes.second, ridge, intercept=problem.intercept, groups=groups)
    if multipliers is not None and not problem.squared:
        pull = group_sums(groups, multipliers) / group_sums(groups, problem.bound)
        slopes = replace(slopes, first=-problem.y * pull)
    return one_step(scores, slopes, problem.bound, h, groups)


def sparse_left_out(
    problem: SparseProblem, w: Array, b: float, multipliers: Array | None, groups: Rows | None
) -> Array:
    """Return them of the sparse machine, whose penalty has no curvature: the columns of weight 0 stay without one."""
    if not (w.any() or b):
        return np.zeros(len(problem.y))
    rows = replace(problem.rows, X=problem.rows.X[:, np.flatnonzero(w)], intercept=b != 0)
    ridge = JITTER * float(rows.bound @ row_norms(rows.X, squared=True))
    return left_out_scores(rows, w[w != 0], b, None, groups, ridge)


def joint_left_out(
    problem: JointProblem, w: Array, b: Any, multipliers: Array, groups: Rows | None
) -> Array:
    """Return them of the joint machine, (n, k), of two classes (n,): a row pulls at its class and the nearest rival.

    Each class has its step alone, as if the two moved apart by as much; of two classes that is one step for both.
    """
    binary = problem.k == 2
    f = np.asarray(problem.X @ w.T).reshape(len(problem.codes), -1) + b
    f = f @ [[-0.5, 0.5]] if binary else f
    pulls = np.vstack([-multipliers, multipliers]) if binary else multipliers
    rows = np.arange(len(f))
    others = f.copy()
    others[rows, problem.codes] = -np.inf
    rival = others.argmax(axis=1)
    u = 1 - f[rows, problem.codes] + others[rows, rival]
    bent = 2 * hinge_slopes(np.ones(len(u)), u, problem.bound).second
    column = np.full((len(f), 1), problem.scale)
    Z = hstack([problem.X, column], format="csr") if issparse(problem.X) else np.hstack([problem.X, column])
    for c in range(problem.k):
        second = bent * ((problem.codes == c) | (rival == c))
        first = -group_sums(groups, pulls[c]) / group_sums(groups, problem.bound)
        h = leverages(Z, problem.bound * second, 1.0, groups=groups)
        f[:, c] = one_step(f[:, c], Slopes(first, second), problem.bound, h, groups)
    return f[:, 1] - f[:, 0] if binary else f


def kernel_features(kernel: Kernel, X: DenseOrSparse, landmarks: DenseOrSparse) -> tuple[Array, Array]:
    """Return features Z (n, m) with Z Z' near the Gram matrix of X, and what they leave out of its diagonal, (n,).

    They are those of the landmarks (Nystroem's), of many a part.
    """
    some = np.linspace(0, landmarks.shape[0] - 1, min(landmarks.shape[0], 1000)).astype(np.intp)
    chosen = landmarks[some]
    root = landmark_root(kernel, chosen)
    Z = np.concatenate([kernel(X[part], chosen) @ root for part in cached(X.shape[0])])
    return Z, np.maximum(kernel.diagonal(X) - np.einsum("ij,ij->i", Z, Z), 0.0)


def landmark_root(kernel: Kernel, landmarks: DenseOrSparse) -> Array:
    """Return the matrix that makes features of kernel values with the landmarks; directions not above 0 are dropped."""
    K = kernel(landmarks, landmarks)
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    kept = values > JITTER * values.max(initial=np.finfo(float).tiny)
    return vectors[:, kept] / np.sqrt(values[kept])


def left_over(missed: Array, curvature: Array, ridge: float) -> Array:
    """Return the leverage (n,) through what the features miss of a row's diagonal, where each row is alone."""
    return missed / (ridge + curvature * missed)


def _dense(Z: DenseOrSparse, constant: float) -> Array:
    """Return the rows as a dense array, with a column of ones at the end where ``constant`` is 1."""
    rows: Array = Z.toarray() if is_csr(Z) else np.asarray(Z, dtype=np.float64)
    return np.column_stack([rows, np.ones(len(rows))]) if constant else rows


def squared_spans(panel: Panel, diagonal: Array, free: Mask) -> Array:
    """Return S_i^2 of each support vector, shape (s,), from their kernel values and which of them are free.

    ``panel(i, j)`` returns the kernel of the numbered support vectors, ``diagonal`` (s,) holds k(x_i, x_i). Where none
    is free nothing makes up for the row, and S_i^2 is k(x_i, x_i).
    """
    unit = 2.0 ** np.floor(np.log2(max(float(np.abs(diagonal).max(initial=0)), TINY)))  # so that inverses are numbers
    out = np.array(diagonal, dtype=np.float64) / unit
    inner = np.flatnonzero(free)
    inner = inner[np.linspace(0, len(inner) - 1, min(len(inner), MOST_FREE)).astype(np.intp)]
    if len(inner) == 0:
        return out * unit
    ridge = 1e-10 * float(np.abs(out[inner]).mean())  # makes K regular
    K = panel(inner, inner) / unit
    K.flat[:: len(K) + 1] = out[inner] + ridge
    factor, failed = lapack.dpotrf(K, lower=1)
    if failed:  # rounding leaves it without a factor
        return out * unit
    inverse, _ = lapack.dtrtri(factor, lower=1)  # products with it take half the time that solving takes
    ones = inverse.T @ inverse.sum(axis=1)  # K^-1 1
    others = np.setdiff1d(np.arange(len(out)), inner)
    for part in cached(len(others)):
        rows = others[part]
        k = panel(rows, inner).T / unit
        v = blas.dtrmm(1.0, inverse, k, lower=1)
        out[rows] -= np.einsum("ij,ij->j", v, v) - (ones @ k - 1) ** 2 / ones.sum()
    if len(inner) > 1:
        farthest = 4 * float(np.abs(out[inner]).max())  # (|phi(x)| + |phi(z)|)^2, for any z of the hull
        left = np.einsum("ij,ij->j", inverse, inverse) - ones**2 / ones.sum()  # the diagonal of H^-1
        out[inner] = 1 / np.maximum(left, 1 / (farthest + ridge)) - ridge
    return np.maximum(out, 0.0) * unit


def left_out_distances(distance2: Array, a: Array) -> Array:
    """Return the squared distance (n,) of each row to the centre without it, the other coefficients in proportion.

    For c = sum_j a_j phi_j with coefficients that sum to 1 the centre without row i is (c - a_i phi_i) / (1 - a_i), and
    its distance to the row that of c over 1 - a_i. That is exact where a_i = 0. Elsewhere the optimum without the row,
    which may shift weight to rows nearby, is mostly a little closer, so p-values are a little too large.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a < 1, distance2 / (1 - a) ** 2, np.inf)
