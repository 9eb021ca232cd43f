"""What the exact machines share: the checks of their parameters, the rows they are solved on, and their expansion."""

from typing import Any

import numpy as np

from buttress._checks import Array, check_limits, check_number, check_option
from buttress.expansion import KernelExpansion
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel, Precomputed, centers
from buttress.solvers.qp.solve import SOLVERS, Limits
from buttress.svm.indefinite import POLICIES, Settled

LARGEST_ENTRY = 1e30  # curvatures and bounds of larger kernels overflow in products


def check_machine(model: Any) -> None:
    """Check the parameters that all exact machines have."""
    check_number("C", model.C, 0, closed="right")
    check_number("tol", model.tol, 0)
    check_number("cache_size", model.cache_size, 0)
    check_option("solver", model.solver, SOLVERS)
    check_option("indefinite", model.indefinite, POLICIES)
    check_limits(model.max_iter, model.max_time)


def rows_of(kernel: Kernel, X: Any, index: Any) -> Any:
    """Return the training rows ``index`` of X: rows and columns of a Gram matrix, rows of anything else."""
    return X[np.ix_(index, index)] if isinstance(kernel, Precomputed) else X[index]


def kernel_rows(settled: Settled, cache_size: float, sections: Any = None) -> KernelRows:
    """Return the cached rows of the settled kernel; refuse a kernel whose values are beyond float64's reach."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.abs(settled.kernel.diagonal(settled.X)).max()
    if not largest <= LARGEST_ENTRY:
        raise ValueError(f"The kernel reaches {largest:.3g} on these rows, and the program's products would overflow "
                         "float64. Scale the columns of X (StandardScaler), or lower gamma, degree or coef0.")
    return KernelRows(settled.kernel, settled.X, cache_size, real=None, sections=sections)


def limits_of(model: Any, report: Any, *, convex: bool, max_time: float | None = None) -> Limits:
    """Return the limits that a model's parameters ask for."""
    return Limits(tol=model.tol, max_iter=None if model.max_iter == -1 else model.max_iter, max_time=max_time,
                  callback=report, progress=model.progress, solver=model.solver, convex=convex)


def expansion(kernel: Kernel, X: Any, support: Any, coef: Array, intercept: Array) -> KernelExpansion:
    """Return the expansion over the support vectors, for coefficients (n, k) of the rows of X."""
    return KernelExpansion(kernel, centers(kernel, X)[support], coef[support], intercept)


def as_input(scores: Array, X: Any) -> Array:
    """Return scores in float32 when X is float32."""
    return scores.astype(X.dtype, copy=False)


def remember(model: Any, coef: Array) -> None:
    """Keep the solver's coefficients (n, k) of the training rows, those that are not 0, for a warm start."""
    model._start_size, model._start_rows = len(coef), np.flatnonzero(coef.any(axis=1))
    model._start_coef = coef[model._start_rows]


def recalled(model: Any) -> Array | None:
    """Return the coefficients (n, k) of the model's last fit, None before the first."""
    if not hasattr(model, "_start_coef"):
        return None
    coef = np.zeros((model._start_size, model._start_coef.shape[1]))
    coef[model._start_rows] = model._start_coef
    return coef
