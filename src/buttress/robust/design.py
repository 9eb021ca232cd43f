"""Make a ridge solver from a kernel and training rows: exact up to a few thousand rows, Nystroem features above."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import issparse
from sklearn.utils.extmath import row_norms

from buttress._checks import Array, check_count, warn_user
from buttress._rows import distinct_rows, drawn_rows, equal_rows, near_copies, row_sums
from buttress._threads import threads_for
from buttress.expansion import KernelExpansion
from buttress.features import nystroem
from buttress.features.stored import BatchedRows, FeaturesOfRows, landmark_features
from buttress.gram.entries import threads_of
from buttress.kernels import Kernel, MultiscaleRBF, centers, is_precomputed
from buttress.kernels.choose import check_positive, held_square
from buttress.robust.tuning import DESIGN
from buttress.solvers.ridge.landmarks import LandmarkRidge
from buttress.solvers.ridge.leave_one_out import FeatureRidge, GramRidge, Ridge, pivoted_cholesky, spectral
from buttress.solvers.ridge.tuning import LEVERAGES

LANDMARK_SECONDS = 2e-9  # times n m^2: what a fit takes that is soon cut short, one thread of a common machine of 2026
FEWEST_LANDMARKS = 100  # whatever the time


class Regime(Enum):
    """How many rows there are for the landmarks."""

    EXACT = "no landmarks: every row is a centre"
    FEW = "few rows a landmark"
    MANY = "many rows a landmark: what landmarks cannot follow outweighs the noise"


@dataclass
class Design:
    """A ridge solver on all rows, a coarse one for the search, and the function that gives a kernel expansion.

    The constant is one of the features, with the same ridge as the others. ``coarse`` is the solver of ``searched``
    rows on at most 100 landmarks. ``features`` are those of all rows on landmarks, None for exact fits. ``points`` are
    the landmarks, or the centres of the exact fit. ``unit`` is a typical k(x, x), the unit of ridges. ``isolated`` are
    rows that are similar to no other row. ``steady`` is the ridge at which many rows are first judged: ``unit`` times
    the rows per landmark divided by 20, and at least ``unit``.
    """

    ridge: Ridge
    coarse: FeatureRidge
    searched: NDArray[np.intp]
    features: FeaturesOfRows | None
    groups: NDArray[np.intp] | None
    points: Array
    expand: Callable[[Array], KernelExpansion]
    unit: float
    steady: float
    regime: Regime
    isolated: NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """What one fit works with: the rows, the kernel, the landmarks asked for and the random numbers.

    ``alike`` says that most of its fits weight all rows alike.
    """

    X: Any
    kernel: Kernel
    n_landmarks: int | str
    rng: np.random.RandomState
    alike: bool

    def design(self, rows: NDArray[np.intp] | None = None) -> Design:
        """Return the design of the numbered rows, default all."""
        X = self.X if rows is None else self.X.keeping(rows) if isinstance(self.X, BatchedRows) else self.X[rows]
        design = kernel_design(self.kernel, X, n_landmarks=self.n_landmarks, rng=self.rng)
        return replace(design, ridge=spectral(design.ridge) if self.alike else design.ridge)

    def threads(self) -> AbstractContextManager[None]:
        """Return the block to make designs and fit in: one BLAS thread if small, our own threads for features."""
        n = self.X.shape[0]
        if _count(self.X, centers(self.kernel, self.X), self.n_landmarks) == n:
            return threads_for(n**3)
        return threads_of(self.kernel, self.X)


def affordable(n: int, seconds: float) -> int | str:
    """Return "auto" where its fit of n rows takes so many seconds, else the number of landmarks that do.

    One solve on n rows and m landmarks takes some n m^2 operations, and cannot be ended early; an exact fit has m = n.
    """
    most = max(FEWEST_LANDMARKS, int(np.sqrt(seconds / (LANDMARK_SECONDS * n))))
    # exact fits of 500 rows take a quarter of a second
    return "auto" if n <= 500 or most >= (n if n <= DESIGN.exact_rows else DESIGN.landmarks) else most


def given(value: float | str) -> float | None:
    """Return a parameter as a number, None for "auto"."""
    return None if isinstance(value, str) else value


def several_widths(X: Any) -> Kernel:
    """Return an RBF kernel of several widths for rows X.

    The gammas are in units of one over the squared length of a typical row. That length is d if columns are scaled.
    Where nearly all entries are 0, as in counts of words, or rows are much shorter, as pixels between 0 and 1, columns
    are not scaled; it is then the median of the squared lengths.

    Corrupt rows affect errors, likelihoods and moments of X, so none of these can choose a width. The mean of several
    kernels loses little accuracy where a single width would be enough.
    """
    length = held_square(_ordinary_length(X), "gamma='multiscale'")
    return MultiscaleRBF([width / length for width in DESIGN.widths])


def _ordinary_length(X: Any) -> float:
    some = X[drawn_rows(X.shape[0])]
    columns = float(X.shape[1])
    length = float(np.median(row_norms(some.astype(np.float64), squared=True))) or columns
    filled = some.count_nonzero() if issparse(some) else np.count_nonzero(some)
    mostly_zero = filled < DESIGN.mostly_zero * some.shape[0] * some.shape[1]
    return length if mostly_zero or length < columns * DESIGN.short else columns


def warn_of_near_copies(kernel: Any, X: Any) -> None:
    """Warn of dense rows that equal another up to rounding: if one is left out, its copy still predicts it."""
    if is_precomputed(kernel) or issparse(X):
        return
    rows = near_copies(X)
    if len(rows):
        named = ", ".join(map(str, rows[:10])) + (", ..." if len(rows) > 10 else "")
        warn_user(f"{len(rows)} rows of X repeat another row, except for a last digit (rows {named}). Equal rows are "
                  "left out together when a row is judged. These are not equal, so a copy would confirm a corrupt "
                  "target. Round X, or drop the copies.")


def kernel_design(kernel: Kernel, X: Any, *, n_landmarks: int | str, rng: np.random.RandomState) -> Design:
    """Return the design of the rows of X, (n, d), or of a precomputed Gram matrix, for a positive definite kernel.

    A float32 X is turned into float64 part by part. X may be CSR.
    """
    check_positive(kernel, "Leave-one-out fits need")
    Z = centers(kernel, X)
    m = _count(X, Z, n_landmarks)
    if m == X.shape[0]:
        return _exact_design(kernel, X, Z.copy(), rng)  # the model is not to change with the rows of the caller
    return _nystroem_design(kernel, X, m, rng)


def _count(X: Any, Z: Any, n_landmarks: int | str) -> int:
    """Return the number of landmarks; n if the fit is exact, as it always is for a precomputed Gram matrix."""
    n = int(X.shape[0])
    if n_landmarks == "auto":
        return n if n <= DESIGN.exact_rows or Z is not X else DESIGN.landmarks
    m = check_count("n_landmarks", n_landmarks)
    return n if Z is not X else min(m, n)


def _exact_design(kernel: Kernel, X: Any, Z: Any, rng: np.random.RandomState) -> Design:
    X = X.astype(np.float64, copy=False)
    Z = Z.astype(np.float64, copy=False)
    K = kernel(X, Z)
    K = (K + K.T) / 2
    unit = _unit(np.diagonal(K))
    features, pivots, L = pivoted_cholesky(np.array(K, order="F"))
    probe = rng.normal(size=len(K))
    if np.abs(features @ (features.T @ probe) - K @ probe).max() > 1e-5 * np.abs(K).max() * len(K):
        raise ValueError(f"The Gram matrix of {kernel!r} is not positive semi-definite. Use such a kernel.")
    few = rng.permutation(len(K))[: DESIGN.coarse]
    coarse = _coarse(K, few)
    isolated = _isolated(K)
    groups = equal_rows(X)
    if features.shape[1] > 0.6 * len(K):  # so many features cost more than the matrix itself
        ridge: Ridge = GramRidge(K + unit, groups)

        def expand(coef: Array) -> KernelExpansion:
            return KernelExpansion(kernel, Z, coef, unit * coef.sum(axis=0))
    else:
        ridge = FeatureRidge(_with_constant(features, unit), groups=groups)

        def expand(coef: Array) -> KernelExpansion:
            dual = solve_triangular(L, coef[:-1], lower=True, trans="T", check_finite=False)
            return KernelExpansion(kernel, Z[pivots], dual, np.sqrt(unit) * coef[-1])
    rough = _rough(coarse, np.diagonal(K), unit, groups)
    return Design(ridge, rough, searched=np.arange(len(K)), features=None, groups=groups, points=Z, expand=expand,
                  unit=unit, steady=unit, regime=Regime.EXACT, isolated=isolated)


def _nystroem_design(kernel: Kernel, X: Any, m: int, rng: np.random.RandomState) -> Design:
    n = X.shape[0]
    # Landmarks are drawn uniformly: a choice that spreads them out would waste them on outlying rows.
    points = distinct_rows(X[rng.choice(n, m, replace=False)].astype(np.float64))
    feature_map = nystroem(kernel, points)
    unit = _unit(kernel.diagonal(points))
    batched = isinstance(X, BatchedRows)
    features = landmark_features(feature_map, X, unit)
    groups = equal_rows(X, sums=np.concatenate([*X.batches.each(row_sums)])) if batched else equal_rows(X)
    searched = rng.choice(n, min(n, DESIGN.searched), replace=False)
    some = X[searched].astype(np.float64)
    few = nystroem(kernel, points[rng.permutation(points.shape[0])[: DESIGN.coarse]])(some)
    coarse = _rough(few, kernel.diagonal(some), unit, equal_rows(some))

    def expand(coef: Array) -> KernelExpansion:
        return feature_map.expansion(coef[:-1], np.sqrt(unit) * coef[-1])

    steady = unit * max(n / (LEVERAGES.few_rows * points.shape[0]), 1.0)
    regime = Regime.MANY if n > LEVERAGES.few_rows * points.shape[0] else Regime.FEW
    return Design(LandmarkRidge(features, groups), coarse, searched=searched, features=features, groups=groups,
                  points=points, expand=expand, unit=unit, steady=steady, isolated=features.faint, regime=regime)


def _coarse(K: Array, few: NDArray[np.intp]) -> Array:
    """Return the features of all rows of a Gram matrix on ``few`` of them as landmarks."""
    _, pivots, L = pivoted_cholesky(np.array(K[np.ix_(few, few)], order="F"))
    return np.asarray(solve_triangular(L, K[few[pivots]], lower=True, check_finite=False).T)


def _with_constant(Z: Array, unit: float) -> Array:
    return np.column_stack([Z, np.full(len(Z), np.sqrt(unit))])


def _rough(Z: Array, diagonal: Array, unit: float, groups: NDArray[np.intp] | None) -> FeatureRidge:
    """Return the ridge solver of the search, for rows of features Z (n, m) on few landmarks.

    What features leave out of k(x_i, x_i) counts in units of an ordinary one.
    """
    missed = np.maximum(diagonal - np.einsum("ij,ij->i", Z, Z), 0) / unit
    return FeatureRidge(_with_constant(Z, unit), groups=groups, missed=missed)


def _unit(diagonal: Array) -> float:
    """Return the median of k(x, x), the unit of ridges."""
    middle = float(np.median(diagonal))
    return middle if middle > 0 else 1.0


def _isolated(K: Array) -> NDArray[np.bool_]:
    """Return the rows whose cosines in feature space with all others sum to almost 0.

    That is a fiftieth of a typical row's sum; or a millionth, if X is so badly scaled that all sums are almost 0.
    """
    length = np.sqrt(np.maximum(np.diagonal(K), 0))
    length[length == 0] = np.inf
    near = (np.abs(K) / length).sum(axis=1) / length - 1
    upper = np.median(np.sort(near)[len(near) // 2 :])
    return (near < max(DESIGN.isolated * upper, 1e-6)) & np.isfinite(length)
