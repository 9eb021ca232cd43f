"""What kernel machines trained against attacks have in common: their input, checked, and how their time is counted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from buttress._arrays import check_device
from buttress._callbacks import CallbackSupportMixin, Report, showing, step_callback
from buttress._checks import (
    Array,
    check_classes,
    check_count,
    check_limits,
    check_number,
    check_X_y,
    warn_user,
)
from buttress._predicting import ExpansionPredictions
from buttress._state import Attribute, State
from buttress._types import BoundsLike, MatrixLike, RandomStateLike, Rows, VectorLike
from buttress.attacks.collapse import warn_if_given_up
from buttress.certainty.probabilities import Probabilities
from buttress.expansion import KernelExpansion, class_contrasts, winners
from buttress.kernels import Kernel, KernelLike, as_kernel
from buttress.solvers.run import Steps, countdown, run
from buttress.threats import Region, ThreatModel, region_of

MOST_CENTRES = 300  # the default


@dataclass(frozen=True)
class Problem:
    """What a machine is trained on: rows X (n, d) of classes ``codes`` (n,), against what, and within which means.

    ``contrasts`` (n_classes, rivals, k) are the leads of each class over its rivals. ``clock`` returns the seconds
    left.
    """

    X: Array
    codes: Rows
    contrasts: Array
    region: Region
    kernel: Kernel
    rng: np.random.RandomState
    report: Report
    clock: Callable[[], float | None]

    @property
    def signs(self) -> Array:
        """The labels -1 and 1 (n, k) of each score: one for two classes, else each class against the rest."""
        k = self.contrasts.shape[2]
        return np.where(self.codes[:, None] == ([1] if k == 1 else range(k)), 1.0, -1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class AttackedMachine(Probabilities, CallbackSupportMixin, ExpansionPredictions, ClassifierMixin, BaseEstimator):
    """A kernel machine for a radius ``eps`` of perturbations in a norm, in the units of X."""

    _state = State(
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."),
        Attribute("expansion_", "part", of="KernelExpansion, RandomExpansion", shares="n_features, n_scores",
                  meaning="The scores as a function of rows, for attacks."))

    C: float = 1.0
    eps: ArrayLike = 0.1
    norm: str = "linf"
    kernel: KernelLike = "rbf"
    gamma: float | str = "scale"
    max_time: float | None = None
    progress: bool = False

    max_iter: int | None

    def _problem(
        self, X: MatrixLike, y: VectorLike, random_state: RandomStateLike, device: str | None
    ) -> Problem:
        """Return the checked problem, and set ``classes_`` and ``contrasts_``; ValueError for what fits share."""
        clock = countdown(self.max_time)
        check_number("C", self.C, 0)
        check_limits(self.max_iter, self.max_time)
        check_device(device)
        given = X
        X, y = check_X_y(self, X, y)
        region = region_of(self.eps, self.norm, getattr(self, "bounds", None), getattr(self, "threat", None), X, given)
        self.classes_, codes = check_classes(y, type(self).__name__)
        warn_of_units(X, region.radius)
        n_classes = len(self.classes_)
        self.contrasts_ = class_contrasts(n_classes)
        report = step_callback(self, X, y, None, {"classes_": self.classes_, "contrasts_": self.contrasts_})
        kernel = as_kernel(self.kernel, gamma=self.gamma, X=X)
        return Problem(X, codes, self.contrasts_, region, kernel, check_random_state(random_state), report, clock)

    def _warn_if_given_up(self, problem: Problem) -> None:
        """Warn of a fit that is no better on its rows than one class for all."""
        predicted = winners(self.expansion_(problem.X), problem.contrasts)
        warn_if_given_up(type(self).__name__, predicted, problem.X, problem.codes,
                         problem.region.eps)


@dataclass(kw_only=True, eq=False, repr=False)
class LandmarkMachine(AttackedMachine):
    """A machine whose centres are some of the rows, or come from them, trained by a number of iterations."""

    _state = State(
        Attribute("landmarks_", "finite", "n_landmarks, n_features", "The centres."),
        Attribute("n_iter_", "count", meaning="Iterations."),
        Attribute("converged_", "bool", meaning="Whether all iterations were made."))

    bounds: BoundsLike | None = None
    threat: ThreatModel | None = None
    random_state: RandomStateLike = None
    device: str | None = None

    def _trained(
        self, problem: Problem, steps: Steps, expansion: Callable[[Any], KernelExpansion], name: str
    ) -> Any:
        """Run the training, set what it leaves, and return the machine of which ``expansion`` makes the model."""
        report = showing(problem.report, lambda step: {"expansion_": expansion(step.state)})
        outcome = run(steps, max_iter=self.max_iter, max_time=problem.clock(), callback=report, progress=self.progress,
                      name=name, warn=("max_time",))
        self.expansion_ = expansion(outcome.state)
        self.landmarks_ = self.expansion_.centers
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.converged
        self.history_ = outcome.history
        return outcome.state


def check_landmarks(n_landmarks: int | None) -> None:
    """Raise ValueError unless it is a number of centres, or None for every row."""
    if n_landmarks is not None:
        check_count("n_landmarks", n_landmarks)


def warn_of_units(X: Array, eps: float) -> None:
    """Warn if X looks like pixels from 0 to 255 while eps is for pixels from 0 to 1."""
    if 0 < eps < 1 and X.min() >= 0 and 128 <= X.max() <= 255 and (np.rint(X) == X).all():
        warn_user(f"X holds whole numbers from 0 to {X.max():g}, and eps={eps:g} is less than one of them. Divide "
                  "X by 255, or give eps in the units of X.", UserWarning)
