"""The classifier that chooses between machines trained against attacks, by what they keep on held-out rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import all_or_nothing, without_callbacks
from buttress._checks import Array, check_classes, check_option, check_X, check_X_y
from buttress._documented import ADVICE, Documented, advises
from buttress._state import Attribute, State
from buttress._types import BoundsLike, Labels, MatrixLike, RandomStateLike, Rows, VectorLike
from buttress.adversarial.boosting import RobustBoostingClassifier
from buttress.adversarial.certified import CertifiedSVC
from buttress.adversarial.machine import MOST_CENTRES, AttackedMachine
from buttress.adversarial.moved_inputs import AdversarialSVC
from buttress.attacks.collapse import warn_if_given_up, warn_if_lost
from buttress.attacks.scoring import AttackedAccuracy, Tried, best_of, movable, search, trial
from buttress.certainty.conformal import GroupPair
from buttress.solvers.run import countdown
from buttress.threats import ThreatModel, at_places, region_of

TUNING_FITS = 6  # most fits a candidate that choose its C and gamma
COMPARED_ROWS = 2000  # most rows with which candidates are compared, a quarter of them held out
HELD_OUT = 4  # of so many rows of a class one is held out
MOST_WORK = 1e10  # rows times columns^2 times scores of the certified machine's linear start, about 10 s


def _set(candidate: Any, attacked: AttackedAccuracy, **parameters: Any) -> Any:
    """Return a copy of the candidate with what it has of these parameters and of what the attacker may do."""
    copy = clone(candidate)
    has = copy.get_params()
    names = ("eps", "norm", "bounds", "threat") if attacked.threat is None else ("threat",)
    declared = {name: getattr(attacked, name) for name in names}
    return copy.set_params(**{name: value for name, value in {**declared, **parameters}.items() if name in has})


@advises(**ADVICE["AdversarialClassifier"])
@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialClassifier(Documented, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier for inputs that may be moved within a radius: it fits candidates, attacks them, and keeps the best.

    Each candidate is fitted to three quarters of the rows (of 2,000 at most) and attacked on the other quarter. A later
    candidate replaces an earlier one if it keeps more rows, by more than the standard error of the paired differences.
    The chosen one is fitted to all rows. A candidate that puts all rows in one class is not chosen if another keeps
    about as many. The default candidates are :class:`buttress.CertifiedSVC`, which has proofs,
    :class:`buttress.AdversarialSVC`, and in "linf" :class:`buttress.RobustBoostingClassifier`. The first is left out if
    it would take minutes (ten classes of 784 columns from 1,600 rows on).

    Parameters
    ----------
    candidates : list of classifiers or None
        In order of preference. ``eps``, ``norm`` and ``bounds``, or the ``threat``, are set on those that have these
        parameters.
    eps : float or array of shape (d,) or (1, d), default=0.1
        Radius of the perturbations, >= 0, in the units of X; one number, or one for each column.
    norm : {"linf", "l2"}, default="linf"
    bounds : (low, high) or None
        Box of allowed inputs, which contains the rows: numbers, or arrays that broadcast to X.
    threat : ThreatModel or None
        What may be done to each column, in place of ``eps``, ``norm`` and ``bounds``. Candidates are trained against
        the box that holds all its moves and swaps together, and judged under the threat itself.
    tune : {None, "attacked"}
        "attacked": C and gamma of each candidate are chosen too, from those given, as by
        :func:`buttress.attacks.tuned`, at up to 6 fits a candidate to three quarters of all rows.
    max_time : float or None
        Most seconds of the whole fit, shared by the candidates that have the parameter.
    random_state : int, RandomState or None
        For the rows held out, and for the candidates.
    progress : bool, default=False
        Show a progress line of the last fit.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import AdversarialClassifier
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> model = AdversarialClassifier(eps=0.05, random_state=0).fit(X, y)
    >>> model.chosen_
    'CertifiedSVC'
    """

    _state = State(
        Attribute("classes_", "label", "n_classes", "The labels, sorted."),
        Attribute("estimator_", "part", of="BaseEstimator", shares="n_features, n_classes",
                  meaning="The candidate chosen, fitted to all rows."),
        Attribute("chosen_", "text", meaning="The name of its class."),
        Attribute("tuned_params_", "any", meaning="C and gamma that ``tune`` chose, else empty."))

    candidates: list[Any] | None = field(default=None, kw_only=False)
    eps: ArrayLike = 0.1
    norm: str = "linf"
    bounds: BoundsLike | None = None
    threat: ThreatModel | None = None
    tune: str | None = None
    max_time: float | None = None
    random_state: RandomStateLike = None
    progress: bool = False

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike) -> "AdversarialClassifier":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or what a candidate refuses.
        """
        clock = countdown(self.max_time)
        if self.tune is not None:
            check_option("tune", self.tune, ("attacked",))
        given = X
        X, y = check_X_y(self, X, y)
        region = region_of(self.eps, self.norm, self.bounds, self.threat, X, given)
        attack = partial(self._attack, region.box, None if self.threat is None else at_places(self.threat, given))
        self.classes_, codes = check_classes(y, "AdversarialClassifier")
        candidates = self.candidates
        if candidates is None:
            candidates = default_candidates(X, len(self.classes_), region.norm)
        best, self.tuned_params_ = candidates[0], dict[str, float]()
        if len(candidates) > 1 or self.tune is not None:
            best, self.tuned_params_ = self._chosen(candidates, X, y, codes, attack, region.eps)
        self.estimator_ = _set(best, attack(slice(None)), random_state=self.random_state, progress=self.progress,
                               max_time=clock(), **self.tuned_params_).fit(X, y)
        self.chosen_ = type(self.estimator_).__name__
        if not isinstance(self.estimator_, AttackedMachine):  # which warn themselves
            predicted = np.searchsorted(self.classes_, self.estimator_.predict(X))
            warn_if_given_up(self.chosen_, predicted, X, codes, region.eps)
        return self

    def _attack(
        self, box: tuple[Array, Array] | None, threat: ThreatModel | None, rows: Rows | slice
    ) -> AttackedAccuracy:
        """Return the accuracy under attack on some of the rows, which are arrays, the ``box`` one of them all."""
        if threat is not None:
            return AttackedAccuracy(threat=threat)
        return AttackedAccuracy(self.eps, self.norm, None if box is None else (box[0][rows], box[1][rows]))

    def _chosen(
        self, candidates: list[Any], X: Array, y: Labels, codes: Rows,
        attack: Callable[[Rows | slice], AttackedAccuracy], eps: float | None,
    ) -> tuple[Any, dict[str, float]]:
        """Return the candidate that keeps most held-out rows, and its C and gamma where they are tuned."""
        seed = check_random_state(self.random_state).randint(2**31) if self.random_state is not None else 0
        most = len(X) if self.tune is not None else COMPARED_ROWS  # the best C depends on the number of rows
        fitted, held_out = parts(codes, check_random_state(seed), most)
        if not len(held_out):
            return candidates[0], {}
        fits = len(candidates) * (1 if self.tune is None else TUNING_FITS) + 1
        share = None if self.max_time is None else self.max_time / fits  # all fits share it equally
        copies = [without_callbacks(_set(candidate, attack(fitted), random_state=seed, max_time=share))
                  for candidate in candidates]
        trials = [self._tried(copy, X, y, fitted, held_out, attack(held_out)) for copy in copies]
        best = 0
        for number, other in enumerate(trials):
            best = number if other.is_better(trials[best]) else best
        warn_if_lost(trials[best].accuracy, y[held_out], X, codes, eps)
        return candidates[best], trials[best].parameters

    def _tried(
        self, candidate: Any, X: Array, y: Labels, fitted: Rows, held_out: Rows, score: AttackedAccuracy
    ) -> Tried:
        """Return the candidate's fit that keeps most rows; the only one where nothing is tuned."""
        sides = X[fitted], X[held_out], y[fitted], y[held_out]
        names, start = ([], {}) if self.tune is None else movable(candidate, X, y)
        return best_of(search(lambda at: trial(candidate, at, score, *sides), names, start, TUNING_FITS))

    def predict(self, X: MatrixLike) -> Labels:
        """Return the class of each row of X (n, d)."""
        check_is_fitted(self)
        return self.estimator_.predict(check_X(self, X))

    def decision_function(self, X: MatrixLike) -> Array:
        """Return the scores of X (n, d): (n,) for two classes, positive for ``classes_[1]``, else (n, n_classes)."""
        check_is_fitted(self)
        return self.estimator_.decision_function(check_X(self, X))

    def predict_proba(self, X: MatrixLike) -> Array:
        """Return the probability of each class for the rows of X (n, d), shape (n, n_classes), columns as ``classes_``.

        Rows sum to 1, and the class that :meth:`predict` names has the largest probability.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(check_X(self, X))

    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Return the logarithms of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict_set(
        self, X: MatrixLike, coverage: float = 0.9, *, by_class: bool = False, groups: GroupPair | None = None
    ) -> NDArray[np.bool_]:
        """Return which classes are in the prediction set of each row of X, as the kernel machines of this package do.

        Raises ValueError where the candidate chosen has none, such as trees.
        """
        check_is_fitted(self)
        if not hasattr(self.estimator_, "predict_set"):
            raise ValueError(f"{self.chosen_} has no prediction sets. Use candidates that have them, such as "
                             "candidates=[CertifiedSVC(), AdversarialSVC()].")
        return self.estimator_.predict_set(check_X(self, X), coverage, by_class=by_class, groups=groups)


def default_candidates(X: Array, n_classes: int, norm: str) -> list[Any]:
    """Return the machine with proofs, where it takes some seconds and not hours, the one on moved inputs, and trees.

    Trees are trained against boxes, so in l_2 they are none.
    """
    n, d = X.shape
    scores = 1 if n_classes == 2 else n_classes
    machines: list[Any] = [AdversarialSVC()]
    if n * d**2 * scores <= MOST_WORK and n * min(n, MOST_CENTRES) <= 3e7:  # lines of 1 GB
        machines.insert(0, CertifiedSVC())
    return [*machines, RobustBoostingClassifier()] if norm == "linf" else machines


def parts(codes: Rows, rng: np.random.RandomState, most: int) -> tuple[Rows, Rows]:
    """Draw rows to fit to and rows to hold out, every class in its proportion; none of a class of fewer than 4."""
    order = rng.permutation(len(codes))
    share = min(1.0, most / len(codes))
    fitted, held_out = [], []
    for code in np.unique(codes):
        of_class = order[codes[order] == code]
        of_class = of_class[: max(HELD_OUT, int(share * len(of_class)))]
        count = len(of_class) // HELD_OUT
        held_out.append(of_class[:count])
        fitted.append(of_class[count:])
    return np.concatenate(fitted), np.concatenate(held_out)
