"""From a kernel and training rows to a ridge solver: exact up to a few thousand rows, Nystroem features above."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import issparse
from sklearn.utils.extmath import row_norms

from buttress._checks import Array, check_count, check_number, warn_user
from buttress._rows import ENOUGH, distinct_rows, drawn_rows, equal_rows, near_copies
from buttress._threads import own_threads, threads_for
from buttress.expansion import KernelExpansion
from buttress.features import nystroem
from buttress.gram.entries import entries
from buttress.kernels import Kernel, MultiscaleRBF, centers, fitted_kernel, is_precomputed
from buttress.solvers.ridge.landmarks import FEW, LandmarkFeatures, LandmarkRidge
from buttress.solvers.ridge.leave_one_out import FeatureRidge, GramRidge, pivoted_cholesky

EXACT_ROWS = 3000
LANDMARKS = 1000
WIDTHS = (1.0, 0.3, 0.1, 0.03)  # gamma of the default kernel, in units of 1/d
MOSTLY_ZERO = 0.15  # share of the entries below which the others are few
COARSE = 100  # landmarks of the search
SEARCHED = 1000  # rows of the search, where it is not all of them


@dataclass
class Design:
    """A ridge solver on all rows, a coarse one for the search, and the way back to a kernel expansion.

    The model has the constant among its features, with the same ridge as the rest. ``coarse`` holds the features of
    ``searched`` rows on at most 100 landmarks. ``points`` are the landmarks, or the centres of the exact fit;
    ``isolated`` are rows that no other row resembles; ``steady`` is the ridge at which rows are first judged where they
    are many a landmark, else 0.
    """

    ridge: Any
    coarse: FeatureRidge
    searched: NDArray[np.intp]
    points: Array
    expand: Callable[[Array], KernelExpansion]
    unit: float
    exact: bool
    isolated: NDArray[np.bool_]
    steady: float = 0.0


def check_contamination(value: Any) -> float | None:
    """Return the share of corrupt rows as a number, None for ``"auto"``; explain why it stays below one half."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, str) or value is None:
        raise ValueError(f"contamination must be 'auto' or a number in [0, 0.5). Got {value!r}.")
    return check_number("contamination", value, 0, 0.5, closed="left",
                        fix="With half of the rows corrupt nothing in the data says which half is good.")


def check_gamma(gamma: Any) -> None:
    """Refuse ``gamma="scale"``: it is made of a variance, which one outlier moves."""
    if isinstance(gamma, str) and gamma == "scale":
        raise ValueError("gamma must be a positive number or 'auto' (1/d) here. Got 'scale', which is one over the "
                         "variance of X, and corrupt rows move that. Scale with RobustScaler and use 'auto'.")


def default_kernel(estimator: Any, X: Any) -> Kernel:
    """Return the estimator's kernel; where neither it nor gamma was chosen, an RBF kernel of several widths.

    They are in units of one over the squared length of an ordinary row: d, if its columns are scaled. Where nearly all
    entries are 0, as in counts of words, columns are not scaled, and the median of the squared lengths is taken.

    A width cannot be chosen by errors or likelihoods that corrupt rows have a part in, nor from moments of X; the mean
    of several kernels costs little where one width would do.
    """
    if isinstance(estimator.kernel, str) and estimator.kernel == "rbf" and estimator.gamma == "auto":
        return MultiscaleRBF([width / _ordinary_length(X) for width in WIDTHS])
    return fitted_kernel(estimator, X)


def _ordinary_length(X: Any) -> float:
    some = X[drawn_rows(X.shape[0], ENOUGH)]
    filled = some.count_nonzero() if issparse(some) else np.count_nonzero(some)
    wanted = filled < MOSTLY_ZERO * some.shape[0] * some.shape[1]
    return (float(np.median(row_norms(some.astype(np.float64), squared=True))) if wanted else 0.0) or float(X.shape[1])


def warn_of_near_copies(kernel: Any, X: Any) -> None:
    """Warn of dense rows that repeat another but for rounding: left out alone, each is foretold by its copy."""
    if is_precomputed(kernel) or issparse(X):
        return
    rows = near_copies(X)
    if len(rows):
        named = ", ".join(map(str, rows[:10])) + (", ..." if len(rows) > 10 else "")
        warn_user(f"{len(rows)} rows of X repeat another but for a last digit (rows {named}). Equal rows are left out "
                  "together where rows are judged; these are not equal, and a corrupt target would be borne out by its "
                  "copy. Round X, or drop the copies.")


def kernel_design(kernel: Kernel, X: Any, *, n_landmarks: int | str, rng: np.random.RandomState) -> Design:
    """Return the design of the rows of X, (n, d), or of a precomputed Gram matrix, for a positive definite kernel.

    A float32 X is turned into float64 part by part. X may be CSR.
    """
    if kernel.definiteness in ("cpd", "indefinite"):
        raise ValueError(f"Leave-one-out fits need a positive definite kernel. {kernel!r} is {kernel.definiteness}. "
                         "Use RBF, Laplacian, Cauchy, InverseMultiquadric, Linear or Polynomial.")
    Z = centers(kernel, X)
    m = _count(X, Z, n_landmarks)
    return _exact_design(kernel, X, Z, rng) if m == X.shape[0] else _nystroem_design(kernel, X, m, rng)


def design_threads(kernel: Kernel, X: Any, n_landmarks: int | str) -> AbstractContextManager[None]:
    """Return the block to make a design and fit in: small exact ones with one thread, features in several of our own.

    Kernels of users' own may not be made for being called from several.
    """
    Z = centers(kernel, X)
    if _count(X, Z, n_landmarks) == X.shape[0]:
        return threads_for(X.shape[0] ** 3)
    return own_threads() if entries(kernel, X[:1], np.float64).cost(1, 1) > 0 else nullcontext()


def _count(X: Any, Z: Any, n_landmarks: int | str) -> int:
    """Return how many landmarks there are to be, n where the fit is exact; a Gram matrix has none."""
    n = int(X.shape[0])
    if n_landmarks == "auto":
        return n if n <= EXACT_ROWS or Z is not X else LANDMARKS
    m = check_count("n_landmarks", n_landmarks)
    return n if Z is not X else min(m, n)


def _exact_design(kernel: Kernel, X: Any, Z: Any, rng: np.random.RandomState) -> Design:
    X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
    K = kernel(X, Z)
    K = (K + K.T) / 2
    unit = _unit(np.diagonal(K))
    features, pivots, L = pivoted_cholesky(np.array(K, order="F"))
    probe = rng.normal(size=len(K))
    if np.abs(features @ (features.T @ probe) - K @ probe).max() > 1e-5 * np.abs(K).max() * len(K):
        raise ValueError(f"The Gram matrix of {kernel!r} is not positive semi-definite. Use such a kernel.")
    few = rng.permutation(len(K))[:COARSE]
    coarse, _, _ = _coarse(K, few)
    isolated, groups = _isolated(K), equal_rows(X)
    if features.shape[1] > 0.6 * len(K):
        ridge: Any = GramRidge(K + unit, groups)

        def expand(coef: Array) -> KernelExpansion:
            return KernelExpansion(kernel, Z, coef, unit * coef.sum(axis=0))
    else:
        ridge = FeatureRidge(_with_constant(features, unit), groups=groups)

        def expand(coef: Array) -> KernelExpansion:
            dual = solve_triangular(L, coef[:-1], lower=True, trans="T", check_finite=False)
            return KernelExpansion(kernel, Z[pivots], dual, np.sqrt(unit) * coef[-1])
    missed = _missed(np.diagonal(K), coarse, unit)
    rough = FeatureRidge(_with_constant(coarse, unit), groups=groups, missed=missed)
    return Design(ridge, rough, np.arange(len(K)), Z, expand, unit, True, isolated)


def _nystroem_design(kernel: Kernel, X: Any, m: int, rng: np.random.RandomState) -> Design:
    n = X.shape[0]
    # Landmarks are drawn evenly: a choice that spreads them out would spend them on rows thrown far off.
    points = distinct_rows(X[rng.choice(n, m, replace=False)].astype(np.float64))
    feature_map = nystroem(kernel, points)
    unit = _unit(kernel.diagonal(points))
    features = LandmarkFeatures(feature_map, X, unit)
    crowding = n / (FEW * points.shape[0])
    searched = rng.choice(n, min(n, SEARCHED), replace=False)
    some = X[searched].astype(np.float64)
    few = nystroem(kernel, points[rng.permutation(points.shape[0])[:COARSE]])(some)
    coarse = FeatureRidge(_with_constant(few, unit), groups=equal_rows(some),
                          missed=_missed(kernel.diagonal(some), few, unit))
    return Design(LandmarkRidge(features, equal_rows(X)), coarse, searched, points,
                  lambda coef: feature_map.expansion(coef[:-1], np.sqrt(unit) * coef[-1]), unit, False, features.faint,
                  unit * crowding if crowding > 1 else 0.0)


def _coarse(K: Array, few: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp], Array]:
    _, pivots, L = pivoted_cholesky(np.array(K[np.ix_(few, few)], order="F"))
    pivots = few[pivots]
    return solve_triangular(L, K[pivots], lower=True, check_finite=False).T, pivots, L


def _with_constant(Z: Array, unit: float) -> Array:
    return np.column_stack([Z, np.full(len(Z), np.sqrt(unit))])


def _missed(diagonal: Array, Z: Array, unit: float) -> Array:
    """Return what features Z (n, m) leave out of k(x_i, x_i), in units of an ordinary one."""
    return np.maximum(diagonal - np.einsum("ij,ij->i", Z, Z), 0) / unit


def _unit(diagonal: Array) -> float:
    """Return the middle of k(x, x): what a ridge is measured in."""
    middle = float(np.median(diagonal))
    return middle if middle > 0 else 1.0


def _isolated(K: Array) -> NDArray[np.bool_]:
    """Return the rows whose cosines in feature space with all others sum to almost nothing.

    That is a fiftieth of an ordinary row's; or a millionth, where X is so far out of scale that no row is ordinary.
    """
    length = np.sqrt(np.maximum(np.diagonal(K), 0))
    length[length == 0] = np.inf
    near = (np.abs(K) / length).sum(axis=1) / length - 1
    upper = np.median(np.sort(near)[len(near) // 2 :])
    return (near < max(0.02 * upper, 1e-6)) & np.isfinite(length)
