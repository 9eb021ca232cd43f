"""What the exact machines share: the checks of their parameters, the rows they are solved on, and their expansion."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, check_limits, check_number, check_option
from buttress._state import Attribute
from buttress._types import DenseOrSparse
from buttress.expansion import KernelExpansion
from buttress.gram.entries import Index
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel, centers
from buttress.solvers.qp.solve import SOLVERS, Limits
from buttress.solvers.run import Step
from buttress.svm.device import on_device
from buttress.svm.indefinite import MACHINE_POLICIES, Settled

GAP = 1e-3  # of the primal objective: what the duality gap is brought to beside ``tol``
LARGEST_ENTRY = 1e30  # curvatures and bounds of larger kernels overflow in products


# what SVC and SVR hold alike; of one problem an objective is a number, of several an array with one a problem
OF_MACHINES = (
    Attribute("primal_objective_", "real", "one or n_problems",
              "What was reached of the objective above; a number for one problem, else one a problem."),
    Attribute("dual_objective_", "real", "one or n_problems", "A lower bound of the optimum."),
    Attribute("dual_gap_", "real", "one or n_problems",
              "Their difference, in float64: the optimum lies between them. NaN for an indefinite kernel."),
    Attribute("converged_", "bool",
              meaning="Whether ``tol`` was met and the gap is at most 1e-3 of the primal objective (of an "
                      "interior-point solution: the latter; with ``gap``, whether that was met)."),
    Attribute("n_iter_", "count", meaning="Pair updates, or interior-point steps, over all problems."),
    Attribute("n_kernel_rows_", "nonnegative", meaning="Kernel rows computed, in whole rows of all training rows."),
    Attribute("n_negative_curvature_", "count",
              meaning="Pair updates along which the kernel curved downwards: 0 for a positive definite one."),
    Attribute("history_", "history", meaning="After each block, of the last problem."),
    Attribute("expansion_", "part", of="KernelExpansion", shares="n_features, n_scores",
              meaning="The scores as a function of rows, for attacks."),
    Attribute("_left_out", "part", of="LeftOut", shares="n_rows, n_scores"),
    Attribute("_start_size", "count", length="n_rows"),
    Attribute("_start_rows", "index", "n_start", below="n_rows"),
    Attribute("_start_coef", "finite", "n_start, n_scores"))


class Machine(Protocol):
    """An exact machine: the parameters that the classifier and the regressor have in common."""

    C: float
    tol: float
    cache_size: float
    max_iter: int
    max_time: float | None
    solver: str
    indefinite: str
    progress: bool
    gap: float | None


class Remembering(Protocol):
    """An estimator that keeps the solver's coefficients of its last fit."""

    _start_size: int
    _start_rows: Index
    _start_coef: Array


def check_machine(model: Machine, words: str) -> None:
    """Check the parameters that all exact machines have; ``words`` says which words C takes, where it is one."""
    check_number("C", model.C, 0, closed="right", fix=words if isinstance(model.C, str) else "")
    check_number("tol", model.tol, 0)
    if model.gap is not None:
        check_number("gap", model.gap, 0, 1)
    check_number("cache_size", model.cache_size, 0)
    check_option("solver", model.solver, SOLVERS)
    check_option("indefinite", model.indefinite, MACHINE_POLICIES)
    check_limits(model.max_iter, model.max_time)


def kernel_rows(
    settled: Settled, cache_size: float, sections: Sequence[int] | Index | None = None, device: str | None = None
) -> KernelRows:
    """Return the cached rows of the settled kernel; refuse a kernel whose values are beyond float64's reach."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.abs(settled.kernel.diagonal(settled.X)).max()
    if not largest <= LARGEST_ENTRY:
        raise ValueError(f"The kernel reaches {largest:.3g} on these rows, and the program's products would overflow "
                         "float64. Scale the columns of X (StandardScaler), or lower gamma, degree or coef0.")
    changed = settled.change is not None  # a matrix then, which is there already
    kernel = settled.kernel if changed else on_device(settled.kernel, settled.X, device)
    return KernelRows(kernel, settled.X, cache_size, real=None, sections=sections)


def limits_of(
    model: Machine, *, convex: bool, max_time: float | None, report: Callable[[Step], bool | None] | None,
    inner: bool = False,
) -> Limits:
    """Return the limits that a model's parameters ask for."""
    return Limits(tol=model.tol, max_iter=None if model.max_iter == -1 else model.max_iter, max_time=max_time,
                  callback=report, progress=model.progress, solver=model.solver, convex=convex, inner=inner,
                  gap_tol=GAP if model.gap is None else model.gap, by_gap=model.gap is not None)


def expansion(
    kernel: Kernel, X: DenseOrSparse, support: NDArray[np.int32], coef: Array, intercept: Array
) -> KernelExpansion:
    """Return the expansion over the support vectors, for coefficients (n, k) of the rows of X."""
    made = KernelExpansion(kernel, centers(kernel, X)[support], coef[support], intercept)
    made.freeze()
    return made


def as_input(scores: Array, X: DenseOrSparse) -> Array:
    """Return scores in float32 when X is float32."""
    return scores.astype(X.dtype, copy=False)


def remember(model: Remembering, coef: Array) -> None:
    """Keep the solver's coefficients (n, k) of the training rows, those that are not 0, for a warm start."""
    model._start_size = len(coef)
    model._start_rows = np.flatnonzero(coef.any(axis=1))
    model._start_coef = coef[model._start_rows]


def recalled(model: Remembering) -> Array | None:
    """Return the coefficients (n, k) of the model's last fit, None before the first."""
    if not hasattr(model, "_start_coef"):
        return None
    coef = np.zeros((model._start_size, model._start_coef.shape[1]))
    coef[model._start_rows] = model._start_coef
    return coef
