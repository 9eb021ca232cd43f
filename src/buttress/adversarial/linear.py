"""The linear classifier trained against attackers whose worst move is known: in a ball, or over a free range."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin

from buttress._callbacks import CallbackSupportMixin, Report, showing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_box,
    check_classes,
    check_limits,
    check_number,
    check_option,
    check_X_y,
    warn_user,
)
from buttress._documented import ADVERSARIAL_LINEAR, advises
from buttress._predicting import PlanePredictions, beside
from buttress._rows import counted_once
from buttress._state import Attribute, State, one_or_each
from buttress._suggest import LARGEST
from buttress._types import BoundsLike, MatrixLike, Rows, VectorLike
from buttress._weights import check_weights
from buttress.certainty.calibration import HeldOut
from buttress.certainty.left_out import left_out_scores
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.solvers.linear.attacked_bounds import BallMoves, BoxMoves, Moves, attacked_bounds
from buttress.solvers.linear.ball_attack import ball_descent
from buttress.solvers.linear.free_range import free_range_descent, free_range_margins
from buttress.solvers.linear.primal import LinearProblem
from buttress.solvers.run import Outcome, all_or_nothing, countdown, run

NO_WEIGHT = 1e-6  # of the largest: smaller weights are rounding
FLAT = 0.01  # of scores whose margin is 1: rows that differ by less are all told the same


class Fit(NamedTuple):
    """w, b and multipliers in the units of X, and the run that ended there."""

    w: Array
    b: float
    multipliers: Array
    outcome: Outcome


@advises(**ADVERSARIAL_LINEAR)
@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialLinearSVC(PlanePredictions, Probabilities, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classifier against attackers whose worst move is known exactly.

    Minimises 1/2 ||w||^2 + C sum_i max(0, 1 - y_i (w'x_i + b) + t_i), where t_i is the loss of margin by the worst
    move of row i. The program is convex and solved to a certified gap. What an attacker can do to the fitted machine is
    known too: ``certificates.certified_within`` and ``attacks.exact`` agree on every row.

    ``attack="ball"`` moves every row by at most ``eps`` in a norm. Then t_i = eps ||w||_*, with the dual norm: the l1
    norm for "linf", the l2 norm for "l2", the largest entry for "l1". This is the machine to compare others with.

    ``attack="free-range"`` moves every feature part of the way to its limits:

        t_i = C_f sum_j [ max(w_j, 0) (x_ij - low_j) + max(-w_j, 0) (high_j - x_ij) ]

    for attacked rows of the positive class. For attacked rows of the other class the two distances are swapped, and for
    rows that are not attacked t_i = 0. The worst move d has C_f (low_j - x_ij) <= d_j <= C_f (high_j - x_ij). This is
    the free-range model of Zhou et al. (2012), without its n d extra variables.

    With more than two classes, each is trained against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge losses relative to the norm, > 0.
    attack : {"free-range", "ball"}, default="free-range"
    norm : {"linf", "l2", "l1"}, default="linf"
        Of "ball": the norm of the moves.
    eps : float, default=0.1
        Of "ball": the radius, >= 0, in the units of X; 0 is the plain linear machine.
    C_f : float, default=0.1
        Of "free-range": share of the way to its limits that an attacker can move a feature, in [0, 1]; 0 is the plain
        linear machine.
    attacked_class : {"positive", "both"}, default="positive"
        Of "free-range": whose rows are attacked. ``"positive"``: those of ``classes_[1]``, as in the paper, where only
        malicious rows are moved; with more than two classes, those of each class in turn. ``"both"``: those of all
        classes.
    bounds : (low, high) or None
        Of "free-range": limits of the features, numbers or arrays of shape (d,); by default the least and largest value
        of each feature.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int or None, default=200
        Most interior-point steps per class, None for no limit; 15 to 30 are usual, for "ball" in l2 and l1 40 to 100.
    max_time : float or None
        Most seconds a fit.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Zhou, Kantarcioglu, Thuraisingham & Xi, Adversarial support vector machine learning, KDD 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from buttress import AdversarialLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdversarialLinearSVC(C_f=0.05, attacked_class="both").fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.93)
    True
    >>> model = AdversarialLinearSVC(attack="ball", eps=0.25).fit(scale(X), y)
    >>> fall = 0.25 * np.abs(model.coef_).sum()
    >>> bool(((2 * y - 1) * model.decision_function(scale(X)) > fall).mean() > 0.88)  # proven for these rows
    True
    """

    _state = State(
        Attribute("classes_", "label", "n_classes", "The labels, sorted."),
        Attribute("primal_objective_", "real", "one or n_scores", "An upper bound of the objective as stated above."),
        Attribute("dual_gap_", "real", "one or n_scores",
                  "How far above the optimum it can be at most. Proven in floating point."),
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
        Attribute("n_iter_", "count", meaning="Interior-point steps, plus one."),
        Attribute("history_", "history", meaning="Of the last class, in the solver's own scaling."))

    C: float = 1.0
    attack: str = "free-range"
    norm: str = "linf"
    eps: float = 0.1
    C_f: float = 0.1
    attacked_class: str = "positive"
    bounds: BoundsLike | None = None
    tol: float = 1e-6
    max_iter: int | None = 200
    max_time: float | None = None
    progress: bool = False

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: ArrayLike | None = None) -> "AdversarialLinearSVC":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        ``sample_weight`` (n,) multiplies C row by row: a row of weight two is two equal rows, one of weight 0 is not
        there. Raises ValueError for parameters out of range, bounds that exclude rows of X, NaN, inf or entries beyond
        1e100 (naming the column), fewer than two classes, or negative weights.
        """
        self._check_parameters()
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, "AdversarialLinearSVC")
        report = step_callback(self, X, y, None)
        X, own, weight = counted_once(X, codes.astype(np.float64), check_weights(sample_weight, X))
        codes = own.astype(np.intp)
        n_classes = len(self.classes_)
        if len(np.unique(codes)) < n_classes:
            lost = self.classes_[np.setdiff1d(np.arange(n_classes), codes)].tolist()
            raise ValueError(f"sample_weight is zero for every row of class {lost[0]!r}. Give one of them a weight.")
        low, high = self._limits(X)
        positives = [1] if n_classes == 2 else range(n_classes)
        clock = countdown(self.max_time)
        fits: list[Fit] = []
        for c in positives:
            fits.append(self._fit_column(X, np.where(codes == c, 1.0, -1.0), weight, low, high, report, clock, fits,
                                         inner=c < n_classes - 1))
        self.coef_ = np.stack([fit.w for fit in fits])
        self.intercept_ = np.array([fit.b for fit in fits])
        self._prove(X, codes, weight, low, high, fits)
        self._keep_left_out(X, codes, weight, low, high, fits)
        self.converged_ = all(fit.outcome.converged for fit in fits)
        self.n_iter_ = sum(fit.outcome.n_iter + 1 for fit in fits)
        self.history_ = fits[-1].outcome.history
        if self.attack == "ball" and self.eps > 0:
            self._warn_if_flat(X)
        return self

    def _prove(self, X: Array, codes: Rows, counts: Array, low: Array, high: Array, fits: list[Fit]) -> None:
        """Set the objective and the gap of each column, from its hyperplane and multipliers in the units of X."""
        moves: Moves = BoxMoves(low, high, self.C_f, self.attacked_class == "both")
        if self.attack == "ball":
            moves = BallMoves(self.eps, self.norm)
        found = []
        for column, fit in enumerate(fits):
            y = np.where(codes == (column if len(fits) > 1 else 1), 1.0, -1.0)
            c = self.C * counts
            found.append(attacked_bounds(X, y, c, fit.w, fit.b, np.minimum(fit.multipliers, c), moves))
        self.primal_objective_ = one_or_each(primal for primal, _ in found)
        self.dual_gap_ = one_or_each(primal - dual for primal, dual in found)

    def _keep_left_out(self, X: Array, codes: Rows, counts: Array, low: Array, high: Array, fits: list[Fit]) -> None:
        """Keep the scores of rows left out, of which probabilities are made.

        A move counts as a margin that is asked for besides, t_i, as it is at the fitted plane. Columns without weight
        stay so, for t_i has a kink there, but under norm="l2", where t_i = eps ||w|| bends in all directions across w
        as a ridge does.
        """
        scores = []
        for column, fit in enumerate(fits):
            y = np.where(codes == (column if len(fits) > 1 else 1), 1.0, -1.0)
            size = float(np.linalg.norm(fit.w)) or 1.0
            round_ball = self.attack == "ball" and self.norm == "l2"
            ridge = 1 + round_ball * self.eps * float(fit.multipliers.sum()) / size
            used = round_ball | (np.abs(fit.w) > NO_WEIGHT * np.abs(fit.w).max())
            problem = LinearProblem(X[:, used] / np.sqrt(ridge), y, self.C * counts,
                                    margin=1 + self._lost(X, y, low, high, fit.w))
            scores.append(left_out_scores(problem, np.sqrt(ridge) * fit.w[used], fit.b, fit.multipliers, None))
        self._certainty = Certainty(HeldOut(np.stack(scores, axis=1), codes, counts, len(self.classes_)))

    def _lost(self, X: Array, y: Array, low: Array, high: Array, w: Array) -> Array:
        """Return t_i (n,): the margin that each row loses by its worst move."""
        if self.attack == "ball":
            return np.full(len(y), self.eps * np.linalg.norm(w, {"linf": 1, "l2": 2, "l1": np.inf}[self.norm]))
        up, down = np.maximum(w, 0), np.maximum(-w, 0)
        above, below = (X - low) @ up + (high - X) @ down, (high - X) @ up + (X - low) @ down
        other = below if self.attacked_class == "both" else 0.0
        return self.C_f * np.where(y > 0, above, other)

    def _warn_if_flat(self, X: Array) -> None:
        """Warn where the radius leaves next to nothing of some machine."""
        reach = np.ptp(X @ self.coef_.T, axis=0)
        if (reach < FLAT).any():
            warn_user(f"eps={self.eps:g} is so large that the coefficients of {int((reach < FLAT).sum())} of "
                      f"{len(reach)} machines are next to 0: their scores vary by less than {FLAT:g} over the rows. "
                      "Use a smaller eps, or a larger C.")

    def _check_parameters(self) -> None:
        check_number("C", self.C, 0)
        check_option("attack", self.attack, ("free-range", "ball"))
        check_option("norm", self.norm, ("linf", "l2", "l1"))
        check_number("eps", self.eps, 0, closed="left", fix="It is a radius in the units of X; 0 is natural training.")
        if self.attack == "ball" and self.bounds is not None:
            raise ValueError(f"bounds are the limits of attack='free-range'. Got bounds={self.bounds!r} with 'ball'. "
                             "Leave bounds at None: the ball alone is what it is trained against.")
        check_number("C_f", self.C_f, 0, 1, closed="both", fix="It is the share of the way to the limits.")
        check_option("attacked_class", self.attacked_class, ("positive", "both"))
        check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)

    def _limits(self, X: Array) -> tuple[Array, Array]:
        """Return the least and largest value of each feature, or the given bounds, which must contain every row."""
        if self.bounds is None:
            return X.min(axis=0), X.max(axis=0)
        low, high = check_box(self.bounds, X, finite=True)
        if low.ndim > 1 or high.ndim > 1:
            raise ValueError(f"bounds must be numbers or arrays of shape ({X.shape[1]},), a limit a feature. Got "
                             f"shapes {low.shape} and {high.shape}.")
        return np.broadcast_to(low, X.shape[1:]), np.broadcast_to(high, X.shape[1:])

    def _fit_column(
        self, X: Array, y: Array, counts: Array, low: Array, high: Array, report: Report,
        clock: Callable[[], float | None], before: list[Fit], *, inner: bool,
    ) -> Fit:
        """Return the fit of one column.

        Columns that do not vary get w_j = 0, which is optimal. The others are centred and divided by one number, so
        that rows have a length of about 1 in any units. C is multiplied by the square of that number, and w is scaled
        back.
        """
        varying = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
        varying = varying if varying.size else np.arange(1)
        centre = np.average(X[:, varying], axis=0, weights=counts)
        unit = float(np.sqrt(np.average(np.sum((X[:, varying] - centre) ** 2, axis=1), weights=counts))) or 1.0
        if not 1 / LARGEST < self.C * unit**2 < LARGEST:
            raise ValueError(f"The rows of X are {unit:.3g} from their middle, which with C={self.C:g} is beyond the "
                             "solver's reach. Scale the columns (StandardScaler).")
        scaled, bottom, top = ((part - centre) / unit for part in (X[:, varying], low[varying], high[varying]))
        weight = self.C * unit**2 * counts
        if self.attack == "ball":
            steps = ball_descent(scaled, y, weight, eps=self.eps / unit, norm=self.norm)
        else:
            margins = free_range_margins(scaled, y, bottom, top, share=self.C_f, both=self.attacked_class == "both")
            steps = free_range_descent(margins, y, weight)
        units = _Units(X.shape[1], varying, centre, unit)
        if not inner:
            known = [(fit.w, fit.b) for fit in before]
            report = showing(report, lambda step: beside(known, *units.of_X(step.state)))
        try:
            outcome = run(steps, tol=self.tol, max_iter=self.max_iter, max_time=clock(), callback=report,
                          progress=self.progress, name=f"{self.attack} machine", inner=inner)
        except np.linalg.LinAlgError:
            raise ValueError(f"Rounding hides the rows of X from the solver: their largest entry is "
                             f"{np.abs(X).max():.3g}, and most are much smaller. Scale the columns (RobustScaler), or "
                             "mend the largest entries.") from None
        return Fit(*units.of_X(outcome.state), outcome.state[2] / unit**2, outcome)


class _Units(NamedTuple):
    """The columns of X, of d, that a machine was fitted to, their centre, and the number they were divided by."""

    d: int
    varying: Rows
    centre: Array
    unit: float

    def of_X(self, state: Any) -> tuple[Array, float]:
        """Return w (d,) and b for rows as they came."""
        w = np.zeros(self.d)
        w[self.varying] = state[0] / self.unit
        return w, float(state[1] - w[self.varying] @ self.centre)
