"""Whether stated probabilities are met."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_count
from buttress._types import MatrixLike, ProbabilisticClassifier
from buttress.displays.axes import given_or_new, next_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ReliabilityDisplay:
    """The share of rows predicted rightly against the probability stated for the prediction, in bins of equal counts.

    Of predictions made with probability p, about the share p should be right: points on the diagonal. Below it the
    model is too sure.

    Parameters
    ----------
    stated : array of shape (m,)
        Mean probability of the predicted class in each bin.
    right : array of shape (m,)
        Share of the rows of the bin that are of that class.
    count : array of shape (m,)
        Rows in the bin.
    estimator_name : str or None

    Attributes
    ----------
    calibration_error_ : float
        Mean difference of the two over the rows, in size.
    ax_, figure_ : matplotlib axes and figure, once plotted.
    line_ : matplotlib line

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import SVC, ReliabilityDisplay
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> display = ReliabilityDisplay.from_estimator(SVC().fit(X[:200], y[:200]), X[200:], y[200:], plot=False)
    >>> bool(display.calibration_error_ < 0.1)
    True
    """

    def __init__(self, *, stated: Array, right: Array, count: Array, estimator_name: str | None = None):
        self.stated = stated
        self.right = right
        self.count = count
        self.estimator_name = estimator_name
        self.calibration_error_ = float(np.average(np.abs(stated - right), weights=count))

    @classmethod
    def from_estimator(
        cls, estimator: ProbabilisticClassifier, X: MatrixLike, y: ArrayLike, *, n_bins: int = 10,
        name: str | None = None, ax: "Axes | None" = None, plot: bool = True, **line_options: Any,
    ) -> "ReliabilityDisplay":
        """Compare ``predict_proba`` of a fitted classifier with labelled rows that it has not seen, and plot.

        Raises ValueError for fewer rows than bins.
        """
        check_count("n_bins", n_bins)
        p = np.asarray(estimator.predict_proba(X))
        if len(p) < n_bins:
            raise ValueError(f"n_bins must be at most the number of rows, {len(p)}. Got {n_bins}.")
        best = p.argmax(axis=1)
        hit = np.asarray(estimator.classes_)[best] == np.asarray(y)
        sure = p[np.arange(len(p)), best]
        bins = np.array_split(np.argsort(sure, kind="stable"), n_bins)
        display = cls(
            stated=np.array([sure[rows].mean() for rows in bins]),
            right=np.array([hit[rows].mean() for rows in bins]),
            count=np.array([float(len(rows)) for rows in bins]),
            estimator_name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, **line_options) if plot else display

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **line_options: Any) -> "ReliabilityDisplay":
        """Draw the bins and the diagonal on ``ax``, new axes by default; ``line_options`` go to matplotlib."""
        ax = given_or_new(ax)
        name = self.estimator_name if name is None else name
        label = f"{name or 'model'}, off by {self.calibration_error_:.3f}"
        options = {"marker": "o", "color": next_colour(ax), "label": label}
        ax.axline((0, 0), slope=1, color="0.6", linewidth=1)
        (self.line_,) = ax.plot(self.stated, self.right, **{**options, **line_options})
        ax.set(xlabel="probability stated for the prediction", ylabel="share of rows predicted rightly")
        ax.legend(loc="upper left")
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
