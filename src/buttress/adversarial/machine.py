"""What kernel machines trained against attacks share: their input, checked, their time, and scores of rows left out.

Those scores are by one Newton step of the smoothed losses, once they are asked for. At most SCORED rows are taken,
drawn at random, and stand for all: to score a row takes as long as all centres, or all random features, of f.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from buttress._arrays import NUMPY, check_device
from buttress._callbacks import CallbackSupportMixin, Report, showing, step_callback
from buttress._checks import Array, check_classes, check_count, check_limits, check_number, check_X_y, warn_user
from buttress._predicting import ExpansionPredictions
from buttress._rows import drawn_rows
from buttress._state import Attribute, State
from buttress._types import BoundsLike, MatrixLike, RandomStateLike, Rows, VectorLike
from buttress.attacks.collapse import warn_if_given_up
from buttress.certainty.calibration import HeldOut
from buttress.certainty.left_out import Slopes, hinge_slopes, kernel_features, left_over, leverages, one_step
from buttress.certainty.probabilities import Probabilities
from buttress.expansion import KernelExpansion, class_contrasts, margins, one_against_rest, winners
from buttress.features import RandomExpansion
from buttress.kernels import Kernel, KernelLike, as_kernel, is_precomputed
from buttress.solvers.gradient.worst_inputs import cross_entropy
from buttress.solvers.run import Steps, countdown, run
from buttress.threats import BallInBox, ThreatModel, region_of

MOST_CENTRES = 300  # the default


@dataclass(frozen=True)
class MachineProblem:
    """What a machine is trained on: rows X (n, d) of classes ``codes`` (n,), against what, and within which means.

    ``contrasts`` (n_classes, rivals, k) are the leads of each class over its rivals. ``clock`` returns the seconds
    left.
    """

    X: Array
    codes: Rows
    contrasts: Array
    region: BallInBox
    kernel: Kernel
    rng: np.random.RandomState
    report: Report
    clock: Callable[[], float | None]

    @property
    def signs(self) -> Array:
        """The labels -1 and 1 (n, k) of each score: one for two classes, else each class against the rest."""
        return one_against_rest(self.codes, len(self.contrasts))


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
        self, X: MatrixLike, y: VectorLike, random_state: RandomStateLike, device: str | None,
        bounds: BoundsLike | None, threat: ThreatModel | None,
    ) -> MachineProblem:
        """Return the checked problem, and set ``classes_`` and ``contrasts_``; ValueError for what fits share."""
        clock = countdown(self.max_time)
        check_number("C", self.C, 0)
        check_limits(self.max_iter, self.max_time)
        check_device(device)
        given = X
        X, y = check_X_y(self, X, y)
        region = region_of(self.eps, self.norm, bounds, threat, X, given)
        self.classes_, codes = check_classes(y, type(self).__name__)
        warn_of_units(X, region.radius)
        self.contrasts_ = class_contrasts(len(self.classes_))
        report = step_callback(self, X, y, None, {"classes_": self.classes_, "contrasts_": self.contrasts_})
        if is_precomputed(self.kernel):
            raise ValueError(f"{type(self).__name__} moves rows, and kernel='precomputed' knows none. Give X its rows, "
                             "and the kernel by name, as an object or as a function.")
        kernel = as_kernel(self.kernel, gamma=self.gamma, X=X)
        return MachineProblem(X, codes, self.contrasts_, region, kernel, check_random_state(random_state), report,
                              clock)

    def _warn_if_given_up(self, problem: MachineProblem) -> None:
        """Warn of a fit that is no better on its rows than one class for all."""
        warn_if_given_up(type(self).__name__, winners(self.expansion_(problem.X), problem.contrasts), problem.X,
                         problem.codes, problem.region.eps)


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
        self, problem: MachineProblem, steps: Steps, expansion: Callable[[Any], KernelExpansion], name: str
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


SCORED = 2000  # rows whose scores tell how sure the machine is
LANDMARKS = 500  # rows that stand for all of them in the curvature, where the fit has no landmarks of its own


@dataclass(frozen=True)
class ScoredRows(MachineProblem):
    """The part of a problem whose rows are scored, copied; ``row`` are their numbers among the ``given`` rows."""

    row: Rows
    given: int

    @classmethod
    def of(cls, problem: MachineProblem) -> "ScoredRows":
        n = len(problem.X)
        _, first = np.unique(problem.codes, return_index=True)  # one row of each class is among them
        some = np.union1d(np.arange(n)[drawn_rows(n, SCORED)], first)
        part = {"X": problem.X[some], "codes": problem.codes[some], "report": None}
        return cls(**{**vars(problem), **part}, row=some, given=n)


@dataclass(frozen=True)
class Losses:
    """One score's losses at the rows scored, their ``weight`` in the sum of all, and the ridge of 1/2 ||f||^2."""

    slopes: Slopes
    weight: float
    ridge: float = 1.0


def cross_entropy_held_out(part: ScoredRows, expansion: KernelExpansion, C: float) -> HeldOut:
    """Return the left-out scores of a machine trained on moved inputs, its losses taken at the rows themselves."""
    scores = expansion(part.X)
    V = part.contrasts[part.codes]
    _, shares = cross_entropy(np.einsum("irk,ik->ir", V, scores))
    pull = np.einsum("ir,irk->ik", shares, V)
    curvature = np.einsum("ir,irk->ik", shares, V**2) - pull**2
    losses = [Losses(Slopes(-first, second), C) for first, second in zip(pull.T, curvature.T, strict=True)]
    return _held_out(part, scores, losses, *kernel_features(expansion.kernel, part.X, expansion.centers))


def hinge_held_out(part: ScoredRows, expansion: KernelExpansion, bounds: Array, middle: Array, C: float) -> HeldOut:
    """Return those of a machine trained on ``bounds`` (n,) of its leads.

    A row's hinge pulls its score and its rival's. The linear part has features of its own, from the ``middle`` (d,).
    Centres next to 0 stay there, as do columns that may move by as much each: the bounds have a kink at 0.
    """
    X = part.X
    scores = expansion(X)
    _, closest = margins(scores, part.codes, part.contrasts)
    hinge = hinge_slopes(np.ones(len(X)), 1 - bounds[part.row], np.full(len(X), C))
    losses = [Losses(Slopes(sign * hinge.first, sign**2 * hinge.second), C) for sign in closest.T]
    Z, _ = kernel_features(expansion.kernel, X, expansion.centers[_weighted(expansion.coef)])
    columns = X - middle
    if part.region.norm == "linf" and expansion.linear is not None:
        columns = columns[:, _weighted(expansion.linear)]
    return _held_out(part, scores, losses, np.hstack([Z, columns]), np.zeros(len(X)))


def _weighted(coef: Array) -> Rows:
    """Return the rows of coef (m, k) that are not next to 0."""
    largest = np.abs(coef).max(axis=1)
    # the descent leaves so much where 0 is best; on two sets drawn to choose it nothing depended on it from .001 to .03
    return np.flatnonzero(largest > 0.01 * largest.max())


def feature_ball_held_out(
    part: ScoredRows, landmarks: Array, expansion: KernelExpansion | RandomExpansion, C: float, radius: float,
    norm: Array, *, intercept: bool,
) -> HeldOut:
    """Return those of the machine against a ball in feature space, with the norms of f held fixed.

    Its hinges have the margin 1 + r ||f|| and C times their mean, and r sum_i C_i l_i' / ||f|| adds to the ridge.
    """
    X, n = part.X, part.given
    scores = _scores(expansion, X)
    losses = []
    for y, score, length in zip(part.signs.T, scores.T, norm, strict=True):
        weight = np.full(len(X), C / n)
        slopes = hinge_slopes(y, 1 + radius * length - y * score, weight)
        # f is 0 at the start of a fit, and no ridge is to be infinite
        added = radius / max(length, 1e-100) * float(weight @ np.abs(slopes.first)) * n / len(X)
        losses.append(Losses(slopes, C / n, 1 + added))
    return _held_out(part, scores, losses, *kernel_features(part.kernel, X, landmarks), intercept=intercept)


def _held_out(
    part: ScoredRows, scores: Array, losses: list[Losses], Z: Array, missed: Array, *, intercept: bool = True
) -> HeldOut:
    """Return the scores (n, k) of the rows moved by the leverages of their features, a loss a column."""
    out = np.empty_like(scores)
    for column, loss in enumerate(losses):
        weight = np.full(len(scores), loss.weight)
        curvature = weight * loss.slopes.second
        h = leverages(Z, curvature * part.given / len(scores), loss.ridge, intercept=intercept)
        h += left_over(missed, curvature, loss.ridge)
        out[:, column] = one_step(scores[:, column], loss.slopes, weight, h, None)
    return HeldOut(out, part.codes, np.ones(len(out)), len(part.contrasts), row=part.row, given=part.given)


def _scores(expansion: KernelExpansion | RandomExpansion, X: Array) -> Array:
    """Return the scores (n, k); of random features in single precision, as the fit takes them."""
    if isinstance(expansion, RandomExpansion):
        # by a copy, so that the model keeps no features in single precision
        return np.asarray(expansion.moved(NUMPY)(X.astype(np.float32)), dtype=np.float64)
    return expansion(X)
