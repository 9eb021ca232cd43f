"""Linear classifiers against attackers whose worst move is known: in a ball, or over a free range."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_box, check_number, check_option, warn_user
from buttress._documented import ADVICE, advises
from buttress._state import State
from buttress._types import BoundsLike, Rows
from buttress.adversarial.plane import AttackedPlane, PlaneUnits
from buttress.attacks.collapse import HOPELESS, NOTHING, learnable
from buttress.solvers.linear.attacked_bounds import BallMoves, BoxMoves
from buttress.solvers.linear.ball_attack import ball_descent
from buttress.solvers.linear.free_range import free_range_descent, free_range_margins
from buttress.solvers.run import Steps
from buttress.threats.moves import check_radii, warn_of_rounding

FLAT = 0.01  # of scores whose margin is 1: rows that differ by less are all told the same


@advises(**ADVICE["AdversarialLinearSVC"])
@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialLinearSVC(AttackedPlane[BallMoves]):
    """Linear support vector classifier against inputs moved within a ball, solved exactly.

    Minimises 1/2 ||w||^2 + C sum_i max(0, 1 - y_i (w'x_i + b) + eps ||w||_*): every row is moved by at most ``eps`` in
    a norm, and ||w||_* is its dual norm: the l1 norm for "linf", the l2 norm for "l2", the largest entry for "l1". The
    program is convex and solved to a certified gap. ``certificates.certified_within`` and ``attacks.exact`` agree on
    every row of the fitted machine. Compare other machines with this one. With more than two classes, each is trained
    against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge losses relative to the norm, > 0.
    norm : {"linf", "l2", "l1"}, default="linf"
        The norm of the moves.
    eps : float or array of shape (d,) or (1, d), default=0.1
        The radius, >= 0, in the units of X; 0 is the plain linear machine. For "linf" it may be one for each column;
        then sum_j eps_j |w_j| replaces eps ||w||_*.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int or None, default=200
        Most interior-point steps per class, None for no limit; 15 to 30 are usual, in l2 and l1 40 to 100.
    max_time : float or None
        Most seconds a fit.
    progress : bool, default=False
        Show a progress line.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from buttress import AdversarialLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdversarialLinearSVC(eps=0.25).fit(scale(X), y)
    >>> fall = 0.25 * np.abs(model.coef_).sum()
    >>> bool(((2 * y - 1) * model.decision_function(scale(X)) > fall).mean() > 0.88)  # proven for these rows
    True
    """

    _state = State()  # what the base declares

    norm: str = "linf"
    eps: ArrayLike = 0.1

    def _check_attack(self) -> None:
        check_option("norm", self.norm, ("linf", "l2", "l1"))

    def _moves(self, X: Array) -> BallMoves:
        eps = check_radii(self.eps, X.shape[1])
        warn_of_rounding(X, eps)
        if isinstance(eps, float):
            return BallMoves(eps, self.norm)
        if self.norm != "linf":
            raise ValueError(f"eps may be one number a column for norm='linf' only. Got norm={self.norm!r}. Divide the "
                             "columns of X by their radii, if all are positive, and give eps=1.")
        return BallMoves(eps[0], self.norm)

    def _steps(self, X: Array, y: Array, c: Array, moves: BallMoves, units: PlaneUnits) -> Steps:
        eps = moves.eps if isinstance(moves.eps, float) else moves.eps[units.varying]
        return ball_descent(X, y, c, eps=eps / units.unit, norm=self.norm)

    def _bend(self, w: Array, multipliers: Array) -> float | None:
        largest = float(np.max(self.eps))
        if self.norm != "l2" and largest > 0:
            return None
        return largest * float(multipliers.sum()) / (float(np.linalg.norm(w)) or 1.0)

    def _warn(self, X: Array, codes: Rows, weight: Array) -> None:
        """Warn where the radius leaves next to nothing of some machine."""
        flat = np.ptp(X @ self.coef_.T, axis=0) < FLAT
        if np.max(self.eps) > 0 and flat.any():
            warn_user(f"eps={self.eps} is so large that the coefficients of {int(flat.sum())} of {len(flat)} "
                      f"machines are next to 0: their scores vary by less than {FLAT:g} over the rows. "
                      f"{self._mend(X, codes, weight)}")

    def _mend(self, X: Array, codes: Rows, weight: Array) -> str:
        """Return what to try: where it is known, the radius below which something is learned."""
        eps = np.asarray(self.eps, dtype=np.float64)
        if eps.ndim > 0 or self.norm == "l1":
            return "Use a smaller eps, or a larger C."
        least = learnable(X, codes, weight)
        if least < NOTHING * eps:
            return f"{HOPELESS} Give the rarer classes larger weights (sample_weight)."
        return f"Use eps below {least:.3g}." if least < eps else "Use a larger C."


@advises(**ADVICE["FreeRangeSVC"])
@dataclass(kw_only=True, eq=False, repr=False)
class FreeRangeSVC(AttackedPlane[BoxMoves]):
    """Linear support vector classifier against attackers who move features part of the way to their limits.

    Minimises 1/2 ||w||^2 + C sum_i max(0, 1 - y_i (w'x_i + b) + t_i), with

        t_i = C_f sum_j [ max(w_j, 0) (x_ij - low_j) + max(-w_j, 0) (high_j - x_ij) ]

    for attacked rows of the positive class. For attacked rows of the other class the two distances are swapped, and for
    rows that are not attacked t_i = 0. The worst move d has C_f (low_j - x_ij) <= d_j <= C_f (high_j - x_ij). This is
    the free-range model of Zhou et al. (2012), without its n d extra variables, solved to a certified gap. With more
    than two classes, each is trained against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge losses relative to the norm, > 0.
    C_f : float, default=0.1
        Share of the way to its limits that an attacker can move a feature, in [0, 1]; 0 is the plain linear machine.
    attacked_class : {"positive", "both"}, default="positive"
        Whose rows are attacked. ``"positive"``: those of ``classes_[1]``, as in the paper, where only malicious rows
        are moved; with more than two classes, those of each class in turn. ``"both"``: those of all classes.
    bounds : (low, high) or None
        Limits of the features, numbers or arrays of shape (d,); by default the least and largest value of each feature.
    tol : float, default=1e-6
        Largest duality gap, relative to the objective.
    max_iter : int or None, default=200
        Most interior-point steps per class, None for no limit; 15 to 30 are usual.
    max_time : float or None
        Most seconds a fit.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Zhou, Kantarcioglu, Thuraisingham & Xi, Adversarial support vector machine learning, KDD 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from buttress import FreeRangeSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FreeRangeSVC(C_f=0.05, attacked_class="both").fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.93)
    True
    """

    _state = State()  # what the base declares

    C_f: float = 0.1
    attacked_class: str = "positive"
    bounds: BoundsLike | None = None

    def _check_attack(self) -> None:
        check_number("C_f", self.C_f, 0, 1, closed="both", fix="It is the share of the way to the limits.")
        check_option("attacked_class", self.attacked_class, ("positive", "both"))

    def _moves(self, X: Array) -> BoxMoves:
        low, high = X.min(axis=0), X.max(axis=0)
        if self.bounds is not None:
            low, high = check_box(self.bounds, X, finite=True)  # which must contain every row
        if low.ndim > 1 or high.ndim > 1:
            raise ValueError(f"bounds must be numbers or arrays of shape ({X.shape[1]},), a limit a feature. Got "
                             f"shapes {low.shape} and {high.shape}.")
        return BoxMoves(np.broadcast_to(low, X.shape[1:]), np.broadcast_to(high, X.shape[1:]), self.C_f,
                        self.attacked_class == "both")

    def _steps(self, X: Array, y: Array, c: Array, moves: BoxMoves, units: PlaneUnits) -> Steps:
        low, high = (units.scaled(end) for end in (moves.low, moves.high))
        return free_range_descent(free_range_margins(X, y, low, high, share=self.C_f, both=moves.both), y, c)

    def _bend(self, w: Array, multipliers: Array) -> float | None:
        return None if self.C_f > 0 else 0.0
