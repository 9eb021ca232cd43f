"""The methods of classifiers that say how sure they are: probabilities that agree with predict, and prediction sets."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from buttress._checks import Array
from buttress._documented import Documented
from buttress._state import Attribute, Later, State
from buttress._types import Labels, MatrixLike, Rows
from buttress.certainty.calibration import Calibration, HeldOut, calibrate
from buttress.certainty.conformal import GroupPair, grouped, lower_threshold, thresholds

KEPT = 25_000_000  # numbers of X, 200 MB: a fit to more keeps no rows until it is asked, but scores them at once


@dataclass
class Certainty:
    """What a fit keeps for its probabilities: scores of left-out rows, and the calibration once it was asked for.

    The scores may be given as a function, which makes them when they are asked for too. ``missing`` says why there are
    none, where there are none.
    """

    _state = State(
        Attribute("held", "part", "one or none", of="HeldOut", shares="n_classes, n_scores"),
        Attribute("calibration", "part", "one or none", of="Calibration", shares="n_classes, n_scores"),
        Attribute("missing", "text"))

    held: Later[HeldOut] = Later()  # noqa: RUF009 (a descriptor)
    calibration: Calibration | None = None
    missing: str = ""

    @classmethod
    def later(cls, made: Callable[[Array], HeldOut], X: Array) -> "Certainty":
        """Return that of scores ``made`` of X (n, d): of a copy once they are asked for, of many numbers at once."""
        return cls(partial(made, X.copy()) if X.size <= KEPT else made(X))


class Probabilities(Documented):
    """``predict_proba``, ``predict_log_proba`` and ``predict_set`` of a classifier, calibrated at the first call.

    A class that is mixed with this sets ``_certainty`` when it is fitted, and has ``_scores_of``.
    """

    _state = State(
        Attribute("classes_", "label", "n_classes", "The labels, sorted."),
        Attribute("_certainty", "part", of="Certainty", shares="n_classes", when="if rows were left out"))

    classes_: Labels
    _certainty: Certainty
    # the scores of X, (n, k) as those left out, and the number of the class that ``predict`` names
    _scores_of: Callable[[MatrixLike], tuple[Array, Rows]]

    def _held_out(self) -> HeldOut:
        """Return the scores of left-out rows, which most fits keep ready."""
        held = self._certainty.held
        assert held is not None, "a fit that keeps no scores makes them here"
        return held

    def predict_proba(self, X: MatrixLike) -> Array:
        """Return the probability of each class for the rows of X (n, d), shape (n, n_classes), columns as ``classes_``.

        Rows sum to 1, and the class that :meth:`predict` names has the largest probability.
        """
        calibration = self._calibrated()
        scores, winners = self._scores_of(X)
        return calibration.probabilities(scores, winners)

    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Return the logarithms of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict_set(
        self, X: MatrixLike, coverage: float = 0.9, *, by_class: bool = False, groups: GroupPair | None = None
    ) -> NDArray[np.bool_]:
        """Return which classes are in the prediction set of each row of X, (n, n_classes), columns as ``classes_``.

        Of new rows like the training rows the share ``coverage`` has its class in its set. A set of several classes
        says that the row does not tell them apart; an empty one that each class would be an exception.

        With ``by_class`` this holds of the rows of each class, with ``groups``, a pair of labels of the training rows
        as given to ``fit`` and of the rows of X, of the rows of each group, with both of each class in each group.
        Where one has too few training rows to promise it, fewer than coverage / (1 - coverage), the class is in every
        set, or the sets hold all classes, and a warning says so. Weights compare rows of one class or group, and do not
        add to their number.

        Raises ValueError for a coverage outside (0, 1), or too large for the number of training rows, and for groups
        that are not two arrays as long as the rows.
        """
        calibration = self._calibrated()
        held = self._held_out()
        own, weight = calibration.own_leads(held)
        leads = calibration.leads(self._scores_of(X)[0])
        if not by_class and groups is None:
            return leads >= lower_threshold(own, weight, coverage)
        used = held.weight > 0
        of = grouped(groups, held, len(leads))
        kinds = [f"class {label!r}" for label in self.classes_.tolist()] if by_class else [""]
        names = [kind if groups is None else f"{kind} of group {group!r}".removeprefix(" of ")
                 for group in of.names for kind in kinds]
        part = of.own[used] * len(kinds) + (held.codes[used] if by_class else 0)
        part[of.own[used] < 0] = -1
        return leads >= thresholds(own, weight, part, names, coverage).reshape(-1, len(kinds))[of.new]

    def _calibrated(self) -> Calibration:
        certainty = getattr(self, "_certainty", None)
        if certainty is None:
            check_is_fitted(self)
            raise ValueError(f"This {type(self).__name__} holds no scores of rows left out: it was fitted by "
                             "partial_fit, or it is a step of a fit that goes on. Call fit, or use "
                             "CalibratedClassifierCV(FrozenEstimator(model)) on rows it has not seen; callbacks need "
                             "scores of predict or decision_function.")
        if certainty.missing:
            raise ValueError(f"This {type(self).__name__} holds no scores of rows left out: {certainty.missing}")
        if certainty.calibration is None:
            certainty.calibration = calibrate(self._held_out())
        return certainty.calibration
