"""Support vector data description in a learned mixture of kernels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike

from buttress._callbacks import Report, all_or_nothing, showing, step_callback, with_callbacks
from buttress._checks import Array, check_option, check_values, check_X, warn_user
from buttress._documented import advises
from buttress._proof import PROOF, U, proof_word
from buttress._state import Attribute, State
from buttress._types import Attributes, MatrixLike, VectorLike
from buttress._weights import check_weights
from buttress.gram.spectrum import known_diagonal
from buttress.kernels import Combination, Kernel, KernelLike, Precomputed, centers, is_precomputed
from buttress.outlier.detector import (
    OF_BALLS,
    BallDetector,
    Settling,
    checked_diag,
    refuse_diag,
    settle,
    warn_unproven,
)
from buttress.outlier.kernel_values import near_distance2
from buttress.solvers.ball.kernel_stack import KernelStack, Trial, find_copies, variance
from buttress.solvers.ball.kernel_weights import BestSoFar, alternate, fixed, harmonic, joint_cuts, level_cuts
from buttress.solvers.ball.soft_ball import in_the_end
from buttress.solvers.run import Outcome, Steps, countdown, run

METHODS: dict[str, Callable[[KernelStack, Array], Steps]] = {
    "minimax": level_cuts, "joint": joint_cuts, "spread": alternate, "uniform": fixed,
}


@advises(weights="Use objective='uniform', or SVDD(kernel=Combination(kernels, weights)).")
@dataclass(kw_only=True, eq=False, repr=False)
class MultiKernelSVDD(BallDetector):
    """Support vector data description in a mixture of kernels whose weights are learned, with an optimality gap.

    The kernel is K = sum_p eta_p K_p / s_p with eta >= 0 summing to 1. With V_p(a) = sum_i a_i ||phi_p(x_i) - c_p||^2,
    the variance of the rows under a dual point a of SVDD, in the p-th kernel divided by s_p:

    - ``objective="minimax"``: min over eta of max_a sum_p eta_p V_p(a), the ball of least cost over all weights. It is
      convex and solved to a stated gap. It prefers kernels in which the outermost rows are close to the others.
    - ``objective="spread"``: max over a of ||V(a)||_2 by gamma_p = V_p / ||V||, eta = gamma / sum(gamma). It is not
      convex; each round increases it. It prefers kernels in which the outermost rows are far from the others.
    - ``objective="joint"``: min over gamma >= 0 of sum 1 of max_a sum_p gamma_p^2 V_p(a), the ball of the feature map
      sum_p gamma_p phi_p / sqrt(s_p), with eta = gamma^2. It is convex and solved to a stated gap. gamma_p is
      proportional to 1/V_p: every kernel gets a weight, and kernels with a small variance get more.
    - ``objective="uniform"``: all weights are 1/m, for comparison. For other weights use SVDD with
      ``Combination(kernels, weights)``.

    Parameters
    ----------
    kernels : list of str, kernel objects or functions, "precomputed" or None
        The kernels; None is linear, poly, rbf, laplacian, imq, log and cauchy. ``"precomputed"``: X is a stack
        (m, n, n) of Gram matrices, in prediction (m, n_new, n).
    nu : float, default=0.9
        Upper bound on the share of rows outside and lower bound on the share of support vectors, in (0, 1]. At 1 all
        rows count alike, and the score is that of a kernel density estimate.
    contamination : float in (0, 1), "auto" or None, default="auto"
        Where a row is outside. A number is the share of new rows, if they are like the training rows, that may be: the
        threshold is the score whose p-value it is (:meth:`p_values`). ``"auto"`` leaves a tenth of the training rows
        outside, by scores that each of them had a part in; new rows like them are outside more often. None is the
        radius of the ball.
    objective : {"minimax", "spread", "joint", "uniform"}, default="minimax"
    normalize : {"variance", None}, default="variance"
        ``"variance"`` divides each kernel by s_p, its variance tr(H K_p H)/n over the rows. None does not; the weights
        then depend on the units of the kernels.
    degree, gamma, coef0
        As in :class:`SVDD`, for each kernel given by name; coef0 is 1 here.
    tol : float, default=1e-4
        Stop when the certified gap is at most this share of the objective ("minimax", "joint"), or the objective and
        the weights change by at most this ("spread"); > 0.
    indefinite : {"warn", "raise", "clip", "flip"}, default="warn"
        As in :class:`SVDD`, for each kernel.
    cache_size : float, default=800
        Megabytes of kernel rows to keep, for all kernels together.
    max_iter : int or None, default=100
        Most rounds; None is no limit.
    max_time : float or None
        Most seconds, as in :class:`SVDD`.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Liu, A demo of reduced gradient descent optimization, 2020, Eq. 3-11; the documentation lists its errors.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import MultiKernelSVDD
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = MultiKernelSVDD(["linear", "rbf", "laplacian"]).fit(X)
    >>> bool(model.dual_gap_ <= 1e-4 * model.primal_objective_), round(float(model.kernel_weights_.sum()), 12)
    (True, 1.0)
    """

    _state = State(
        *OF_BALLS,
        Attribute("kernel_weights_", "nonnegative", "n_kernels",
                  'eta, which sums to 1; under "joint" gamma^2, which does not.'),
        Attribute("mixing_", "nonnegative", "n_kernels",
                  'The weights of the feature maps, sqrt(eta) divided by its sum; under "joint" this is gamma.'),
        Attribute("kernel_scales_", "positive", "n_kernels", "s_p; all 1 for a single kernel."),
        Attribute("kernel_variances_", "real", "n_kernels",
                  'V_p at the solution. Under "minimax" equal for all kernels with weight, and larger for the others; '
                  'under "joint" gamma_p V_p is the same for all.'),
        Attribute("kernels_", "part", "n_kernels", "The fitted kernels.", of="Kernel"),
        Attribute("bound_coef_", "nonnegative", "n_rows", "The dual point that proves the lower bound of "
                                                          "``dual_gap_``.",
                  when='under "minimax" and "joint"'),
        Attribute("primal_objective_", "finite",
                  meaning="Objective of the ball for the weights found; under \"joint\" the value of Liu's Eq. 3."),
        Attribute("dual_objective_", "finite", meaning="A lower bound of the optimum of the ball for these weights."),
        Attribute("dual_gap_", "real",
                  meaning='After normalisation. "minimax" and "joint": the objective minus a lower bound of its '
                          "minimum over all weights. Otherwise the gap of the ball for these weights. NaN if a kernel "
                          "is indefinite and not corrected."),
        PROOF,
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
        Attribute("n_iter_", "count", meaning="Rounds."),
        Attribute("n_solved_", "count", meaning="Balls solved for."),
        Attribute("history_", "history", columns="n_iter, seconds, gap, violation, change, objective, weights",
                  meaning="After each round."))

    kernels: Sequence[KernelLike] | str | None = field(default=None, kw_only=False)
    objective: str = "minimax"
    normalize: str | None = "variance"
    coef0: float = 1.0
    tol: float = 1e-4
    cache_size: float = 800
    max_iter: int | None = 100

    def _stacked(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    @all_or_nothing
    @with_callbacks
    def fit(
        self, X: MatrixLike, y: VectorLike | None = None, sample_weight: ArrayLike | None = None
    ) -> "MultiKernelSVDD":
        """Fit to X of shape (n, d), rows counted by ``sample_weight`` (n,); returns self. y is ignored.

        Raises ValueError for parameters out of range, an empty list of kernels, a kernel with no variance over the rows
        (named), NaN, inf or entries beyond 1e100 (naming the column), fewer than two rows, or negative weights.
        """
        self._check()
        check_option("objective", self.objective, tuple(METHODS))
        check_option("normalize", self.normalize, ("variance", None))
        clock = countdown(self.max_time)
        parts, kernels, weight = self._parts(X, sample_weight)
        self._fit_diagonal = np.stack([np.diagonal(part) for part in parts]) if self._stacked() else None
        settled = [settle(kernel, part, weight, self.indefinite) for kernel, part in zip(kernels, parts, strict=True)]
        report = step_callback(self, X, y, None)
        self._in_time(weight, clock, lambda counted: self._solve(parts, settled, counted, report, clock))
        return self

    def _solve(
        self, parts: list[Array], settled: list[Settling], weight: Array, report: Report,
        clock: Callable[[], float | None],
    ) -> None:
        """Set the attributes of the mixture, learned from the rows that have weight."""
        steps = METHODS[self.objective]
        stack = self._stack(parts, settled, weight, clock)
        self.kernels_ = [kernel for kernel, _, _ in settled]
        shown = showing(report, lambda step: self._of_trial(parts, stack, step.state.trial, weight))
        start = np.full(len(settled), 1 / len(settled))
        seen: list[Array] = []
        outcome = run(noting_weights(steps(stack, start), seen), tol=self.tol, max_iter=self.max_iter, max_time=clock(),
                      callback=shown, progress=self.progress, name="MultiKernelSVDD")
        self._set_solution(parts, stack, outcome, all(sure for _, _, sure in settled), weight)
        sign = -1 if steps is alternate else 1
        self.history_ = [{**entry, "objective": sign * entry["objective"], "weights": weights}
                         for entry, weights in zip(outcome.history, seen, strict=False)]  # Ctrl-C may come between

    def _parts(self, X: MatrixLike, sample_weight: ArrayLike | None) -> tuple[list[Array], list[Kernel], Array]:
        """Return the rows for each kernel, the kernels, and the weights of the rows."""
        if self._stacked():
            stack = checked_stack(X)
            self.n_features_in_ = stack.shape[1]
            return list(stack), [Precomputed() for _ in stack], check_weights(sample_weight, stack[0])
        rows = self._training_rows(X)
        weight = check_weights(sample_weight, rows)
        near = cache(partial(near_distance2, rows, weight))
        kernels = [self._kernel(kernel, rows, weight, near) for kernel in listed(self.kernels)]
        return [rows] * len(kernels), kernels, weight

    def _stack(
        self, parts: list[Array], settled: list[Settling], weight: Array, clock: Callable[[], float | None],
    ) -> KernelStack:
        """Return the scaled kernels on the rows with positive weight; warn of kernels that are equal.

        Raises ValueError for a kernel without variance over these rows.
        """
        keep = np.flatnonzero(weight)
        kernels = []
        inputs = []
        for part, (kernel, gram, _) in zip(parts, settled, strict=True):
            known = part if isinstance(kernel, Precomputed) else gram
            kernels.append(kernel if known is None else Precomputed())
            inputs.append(part[keep] if known is None else known[np.ix_(keep, keep)])
        stack = KernelStack(kernels, inputs, weight[keep], self.nu, cache_size=self.cache_size, gap_tol=0.1 * self.tol,
                            left=clock)
        share = weight[keep] / weight.sum()
        for p, source in enumerate(stack.sources):
            scale = variance(source, share)
            if not scale > 0:
                raise ValueError(f"kernels[{p}], {settled[p][0]!r}, has no variance over the rows: all are the same "
                                 "point in it. Drop it or change its parameters.")
            stack.scales[p] = scale if self.normalize == "variance" and len(kernels) > 1 else 1.0
        copies = find_copies(stack.sources)
        if copies:
            pairs = ", ".join(f"{p} and {q}" for p, q in copies)
            warn_user(f"Some kernels are the same after centring and scaling: {pairs}. Drop one of each pair; "
                      "their weights are not determined separately.")
        return stack

    def _set_solution(
        self, parts: list[Array], stack: KernelStack, outcome: Outcome, certified: bool, weight: Array
    ) -> None:
        best: BestSoFar = outcome.state
        try:
            with in_the_end(stack.left()):
                trial, gap, proven = self._proven(stack, best)
        except TimeoutError:
            trial, gap, proven = best.trial, best.gap, False
            outcome.status = "late"
            warn_unproven("MultiKernelSVDD")
        self.__dict__.update(self._of_trial(parts, stack, trial, weight))
        self.__dict__.pop("bound_coef_", None)
        if best.point is not None:
            self.bound_coef_ = np.zeros(len(weight))
            self.bound_coef_[weight > 0] = best.point
        self.dual_gap_ = float(gap) if certified else float("nan")
        definite = all(kernel.definiteness in ("pd", "cpd") for kernel in self.kernels_)
        self.proof_ = proof_word([proven, definite and not self._stacked()])
        self.converged_ = outcome.converged
        self.n_iter_ = outcome.n_iter
        self.n_solved_ = stack.n_solved

    def _proven(self, stack: KernelStack, best: BestSoFar) -> tuple[Trial, float, bool]:
        """Return the trial with proven bounds, the gap of ``dual_gap_``, and whether the kernels allow such bounds."""
        trial = stack.proven(best.trial)
        if best.point is None:
            return trial, trial.ball.gap, trial.ball.proven
        variances, proven = stack.least_variances(best.point)
        bound = harmonic if self.objective == "joint" else np.min
        room = 8 * len(variances) * U  # the weights sum to 1 up to rounding
        gap = max(0.0, (1 + room) * trial.upper - (1 - room) * float(bound(variances)))
        return trial, gap, proven and trial.ball.proven

    def _of_trial(
        self, parts: list[Array], stack: KernelStack, trial: Trial, weight: Array
    ) -> Attributes:
        """Return the attributes of the model of one mixture of the kernels and its ball."""
        weights = [float(w) for w in trial.eta / stack.scales]
        kernel = Precomputed() if self._stacked() else Combination(self.kernels_, weights)
        found = self._described(kernel, parts[0], centers(kernel, parts[0]), weight, trial.ball)
        if self._stacked():
            found["support_vectors_"] = np.stack([part[found["support_"]] for part in parts])
        return {
            **found,
            "kernel_weights_": trial.eta,
            "mixing_": np.sqrt(trial.eta) / np.sqrt(trial.eta).sum(),
            "kernel_scales_": stack.scales,
            "kernel_variances_": trial.variances,
        }

    def _rows_and_diagonal(self, X: MatrixLike, diag: ArrayLike | None) -> tuple[Array, Array]:
        if not self._stacked():
            refuse_diag(diag)
            plain = check_X(self, X)
            return plain, self.kernel_.diagonal(plain)
        stack = checked_stack(X, (len(self.kernels_), self.n_features_in_))
        diagonals = checked_diag(diag, stack.shape[:2], np.asarray(self._fit_diagonal))
        rows = np.zeros(stack.shape[1:])
        diagonal = np.zeros(stack.shape[1])
        numbers = np.arange(self.n_features_in_, dtype=np.float64)[:, None]
        for p, weight in enumerate(self.kernel_weights_ / self.kernel_scales_):
            rows += weight * self.kernels_[p](stack[p], numbers)
            diagonal += weight * known_diagonal(self.kernels_[p], stack[p], diagonals[p])
        return rows, diagonal


def noting_weights(steps: Steps, seen: list[Array]) -> Steps:
    """Yield the steps, and put the weights of each into ``seen``."""
    for step in steps:
        seen.append(step.state.trial.eta)
        yield step


def listed(kernels: Sequence[KernelLike] | str | None) -> list[KernelLike]:
    """Return the kernels as a list; raise ValueError if it is empty, not a list, or contains "precomputed"."""
    if kernels is None:
        # those of Liu's note that are positive definite, or conditionally so: the sigmoid is neither
        return ["linear", "poly", "rbf", "laplacian", "imq", "log", "cauchy"]
    if isinstance(kernels, str) or not isinstance(kernels, Sequence):
        raise ValueError(f"kernels must be a list of names, kernel objects or functions, or 'precomputed'. Got "
                         f"{kernels!r}. Use [{kernels!r}] for a single kernel.")
    if len(kernels) == 0:
        raise ValueError("kernels must hold at least one kernel. Got an empty list. Use None for the default seven.")
    if any(is_precomputed(kernel) for kernel in kernels):
        raise ValueError("kernels must not hold 'precomputed' beside others. Use kernels='precomputed' with X a stack "
                         "of Gram matrices of shape (m, n, n).")
    return list(kernels)


def checked_stack(X: MatrixLike, fitted: tuple[int, int] | None = None) -> Array:
    """Return a stack of kernel values of shape (m, n, n), in prediction (m, n_new, n) with the fitted (m, n)."""
    try:
        stack = np.asarray(X, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"A precomputed stack must be an array of shape (m, n, n). Got {error}.") from None
    wanted = "(m, n, n)" if fitted is None else f"({fitted[0]}, n_new, {fitted[1]})"
    good = stack.ndim == 3 and len(stack) > 0
    good = good and (stack.shape[1] == stack.shape[2] if fitted is None else (len(stack), stack.shape[2]) == fitted)
    if not good:
        raise ValueError(f"A precomputed stack must have shape {wanted}, one matrix a kernel. Got shape {stack.shape}.")
    check_values(stack.reshape(-1, stack.shape[2]), [str(j) for j in range(stack.shape[2])], "MultiKernelSVDD")
    for p, K in enumerate(stack if fitted is None else ()):
        if not np.allclose(K, K.T, rtol=1e-6, atol=1e-8 * np.abs(K).max()):
            raise ValueError(f"A precomputed kernel must be symmetric. Matrix {p} is not. Use (K + K.T) / 2.")
    return stack
