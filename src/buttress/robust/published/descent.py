"""The common part of kernel machines under a risk: their parameters, the space of the fit, and the descent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from buttress._callbacks import CallbackSupportMixin, Report, showing
from buttress._checks import (
    Array,
    NotConvergedWarning,
    check_count,
    check_limits,
    check_number,
    check_option,
    warn_user,
)
from buttress._documented import Documented
from buttress._state import Attribute, State
from buttress._threads import own_threads, threads_for
from buttress._types import Attributes, RandomStateLike, Rows, Targets
from buttress.expansion import KernelExpansion
from buttress.features import landmarks, nystroem
from buttress.features.stored import StoredFeatures, landmark_features
from buttress.gram.entries import threads_of
from buttress.kernels import (
    Kernel,
    KernelLike,
    Linear,
    Precomputed,
    centers,
    fitted_kernel,
    is_precomputed,
    warn_of_scale,
)
from buttress.kernels.choose import check_positive
from buttress.losses import Loss
from buttress.risks import PerClass, Risk, Subquantile, Tilted
from buttress.robust.report import OF_RUN, keep_run
from buttress.solvers.gradient.descent import STEP_RULES, StepLike, descent
from buttress.solvers.gradient.space import Dual, Primal, Space
from buttress.solvers.run import Outcome, Steps, run

GRAM_ROWS = 5000  # rows up to which the Gram matrix is formed: 200 MB
AUTO_LANDMARKS = 1000  # landmarks for more rows than that: features of 5,001 rows then take 40 MB


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRisk(Documented, CallbackSupportMixin, BaseEstimator):
    """The parameters, checks and descent of :class:`KernelRegressor` and :class:`KernelClassifier`."""

    _state = State(
        Attribute("dual_coef_", "finite", "n_centers or n_centers, *",
                  "Coefficients, a column a class beyond two; of a linear kernel ``coef_``, with one more for a coef0 "
                  "> 0, in its place."),
        Attribute("inlier_mask_", "bool", "n_rows",
                  "Training rows that are kept: those with at least half the weight of the heaviest."),
        Attribute("weights_", "nonnegative", "n_rows",
                  "Weight of each training row at the solution, summing to 1."),
        *OF_RUN)

    risk: Risk | None = None
    alpha: float = 1.0
    kernel: KernelLike = "rbf"
    degree: float = 3
    gamma: float | str = "auto"
    coef0: float = 0.0
    acceleration: str | float | None = "nesterov"
    step: StepLike = "spectral"
    radius: float | None = None
    init: str = "zero"
    n_landmarks: int | str | None = "auto"
    tol: float = 1e-4
    max_iter: int | None = 1000
    max_time: float | None = None
    random_state: RandomStateLike = None
    progress: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def _checked_risk(self) -> Risk:
        """Return the risk; raise ValueError for parameters out of range."""
        check_number("alpha", self.alpha, 0, closed="left")
        check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)
        if self.acceleration is None or isinstance(self.acceleration, str):
            check_option("acceleration", self.acceleration, (None, "nesterov"))
        else:
            check_number("acceleration", self.acceleration, 0, 1, closed="left")
        check_option("init", self.init, ("zero", "glorot", "normal"))
        if self.radius is not None:
            check_number("radius", self.radius, 0, np.inf)
        check_step(self.step, self.radius)
        risk = Subquantile() if self.risk is None else self.risk
        if not isinstance(risk, Risk):
            raise ValueError(f"risk must be Mean(), Subquantile(quantile) or Tilted(tilt). Got {risk!r}.")
        _ = risk.kept  # raises for a quantile out of range
        return risk

    def _descend(
        self, X: Array, y: Targets, loss: Loss, risk: Risk, weight: Array, codes: Rows, n_scores: int,
        report: Report,
    ) -> None:
        """Run the descent and set the attributes of both estimators; rows are compared within groups ``codes``."""
        rng = check_random_state(self.random_state)
        space, expand = self._space(X, weight, rng)
        shape = (space.n_coefs,) if n_scores == 1 else (space.n_coefs, n_scores)
        steps = descent(
            space, y, loss, risk, ridge=self.alpha / (risk.kept * weight.sum()),
            start=first_coefficients(self.init, shape, len(X), rng), sample_weight=weight,
            acceleration=self.acceleration, step=self.step, radius=np.inf if self.radius is None else self.radius,
        )

        def at(state: Array) -> Attributes:
            found = expand(state if state.ndim == 2 else state[:, None])
            return {"expansion_": found, "coef_" if isinstance(found.kernel, Linear) else "dual_coef_": state}

        # a factorisation of many rows gains more from a BLAS of several threads than steps lose
        with threads_for(space.n_coefs**3) if self.step == "preconditioned" else own_threads():
            outcome = self._run(steps, showing(report, lambda step: at(step.state)))
            self.weights_ = risk.weights(loss.value(y, space.point(outcome.state).f), weight)
        self.__dict__.update(at(outcome.state))
        self.inlier_mask_ = kept_rows(self.weights_, weight, codes)
        warn_of_few(self.weights_, risk, len(X))
        keep_run(self, outcome)

    def _run(self, steps: Steps, report: Report) -> Outcome:
        """Return the end of the descent, with a warning where its steps were so long that no number held it."""
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = run(steps, tol=self.tol, max_iter=self.max_iter, max_time=self.max_time, callback=report,
                          progress=self.progress, name=type(self).__name__)
        if outcome.status == "exhausted":
            warn_user(f"{type(self).__name__} stopped after {outcome.n_iter} iterations: its objective overflowed, "
                      f"because step={self.step!r} is too long. Use step='spectral'.", NotConvergedWarning)
        return outcome

    def _space(
        self, X: Array, weight: Array, rng: np.random.RandomState
    ) -> tuple[Space, Callable[[Array], KernelExpansion]]:
        """Return the space of the descent, and a function from its coefficients (m, k) to an expansion.

        A linear kernel is fitted in the primal, any other with Nystroem features or its whole Gram matrix. Landmarks
        are drawn uniformly, because k-means++ would prefer outlying rows.
        """
        kernel = fitted_kernel(self, X, weight)
        check_positive(kernel, f"{type(self).__name__} needs")
        wanted = self._wanted_landmarks(kernel, len(X))
        if isinstance(kernel, Linear) and kernel.definiteness == "pd":
            offset = float(np.sqrt(kernel.coef0))
            Z = np.column_stack([X, np.full(len(X), offset)]) if offset else X
            return Primal(StoredFeatures(Z)), lambda c: linear_expansion(c, X.shape[1], offset)
        with threads_of(kernel, X):
            if wanted is not None:
                chosen = nystroem(kernel, landmarks(X[weight > 0], wanted, rng=rng, method="uniform"))
                warn_of_scale(kernel, X, chosen.landmarks)
                features = landmark_features(chosen, X, 1.0, constant=False)
                return Primal(features), lambda c: chosen.expansion(c, np.zeros(c.shape[1]))
            Z = centers(kernel, X).copy()  # the model is not to change with the rows of the caller
            warn_of_scale(kernel, X, Z)
            space = Dual(kernel(X, Z), weight / weight.sum())
        return space, lambda c: KernelExpansion(kernel, Z, c, np.zeros(c.shape[1]))

    def _wanted_landmarks(self, kernel: Kernel, n_rows: int) -> int | None:
        if self.n_landmarks is None:
            return None
        if isinstance(self.n_landmarks, str):
            check_option("n_landmarks", self.n_landmarks, ("auto",))
            fits = kernel.definiteness == "pd" and not isinstance(kernel, Precomputed)
            return AUTO_LANDMARKS if fits and n_rows > GRAM_ROWS else None
        if isinstance(kernel, Precomputed):
            raise ValueError("n_landmarks needs a kernel of rows, not a Gram matrix. Use n_landmarks=None.")
        return check_count("n_landmarks", self.n_landmarks)


def check_step(step: StepLike, radius: float | None) -> None:
    """Raise ValueError for a step that is not a rule, positive number or function, or does not work with a radius."""
    if isinstance(step, str):
        check_option("step", step, STEP_RULES)
        if step == "preconditioned" and radius is not None:
            raise ValueError("step='preconditioned' does not go with a radius: scaling into the ball is no projection "
                             "in its metric. Use step='spectral', or alpha in place of the radius.")
    elif not callable(step):
        names = ", ".join(STEP_RULES)
        check_number("step", step, 0, fix=f"Use one of {names}, a number or a function of the iteration.")


def linear_expansion(c: Array, width: int, offset: float) -> KernelExpansion:
    """Return x -> x'c[:width] + offset c[width] as an expansion of the linear kernel over one centre a column of c."""
    intercept = offset * c[width] if offset else np.zeros(c.shape[1])
    return KernelExpansion(Linear(), np.ascontiguousarray(c[:width].T), np.eye(c.shape[1]), intercept)


def warn_of_few(weights: Array, risk: Risk, n: int) -> None:
    """Warn if a tilted risk depends on less than a tenth of the n rows: it is meant for losses of about one."""
    tilted = risk.risk if isinstance(risk, PerClass) else risk
    effective = weights.sum() ** 2 / float(weights @ weights)
    if isinstance(tilted, Tilted) and effective < 0.1 * n:
        warn_user(f"{tilted!r} weights the rows as if they were {effective:.0f} of {n}: the losses differ by many "
                  "units of 1 / |tilt|. Scale y, or use a smaller tilt.")


def kept_rows(q: Array, weight: Array, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Say which rows have at least half of the weight of the heaviest row in their group, per unit of sample weight."""
    ratio = np.divide(q, weight, out=np.zeros_like(q), where=weight > 0)
    most = np.zeros(codes.max() + 1)
    np.maximum.at(most, codes, ratio)
    return (ratio > 0) & (ratio >= 0.5 * most[codes])  # a row is kept from half of the heaviest row's weight on


def first_coefficients(init: str, shape: tuple[int, ...], n: int, rng: np.random.RandomState) -> Array:
    """Return the coefficients to start from: zeros, uniform as in algorithm 3, or normal as in algorithm 1.

    The paper does not say sigma in algorithm 1; it is that of algorithm 3's distribution here, sqrt(2/n).
    """
    if init == "normal":
        return np.asarray(rng.normal(scale=np.sqrt(2 / n), size=shape))
    reach = np.sqrt(6 / n) if init == "glorot" else 0.0
    return np.asarray(rng.uniform(-reach, reach, shape))
