"""How a fit proceeded, what it gave weight to, and whether the probabilities it states are met."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from buttress._as_given import one_label_each, one_row
from buttress._checks import Array, check_count
from buttress._types import Estimator, MatrixLike, ProbabilisticClassifier, VectorLike
from buttress.certainty.detector import novel_columns
from buttress.displays.axes import COLOURS, Display, by_full_names, given_or_new, next_colour
from buttress.robust.report import JudgesRows, outlier_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class WeighsKernels(Estimator, Protocol):
    """A fitted estimator over several kernels."""

    kernels_: list[object]
    kernel_weights_: Array


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay(Display):
    """The objective after each iteration, how far from optimal it was known to be, and where the optimum had to be.

    The optimum is between the objective and ``lower``, two curves that meet. Fits that bound the optimum at every step
    have the second: linear machines, ``AdvSVM``, ``MultiKernelSVDD`` and ``RelationalLinearSVC``. ``SVC``, ``SVR`` and
    ``SVDD`` climb the dual objective, and know the interval when they end (``dual_gap_``).

    Parameters
    ----------
    iteration : array of shape (m,)
    objective : array of shape (m,)
    distance : array of shape (m,)
        What the solver stops by.
    measure : {"gap", "violation", "change"}
        A gap bounds the distance from the optimum, as a share of the objective; a violation is of the conditions of
        optimality; a change only says how much the last step moved.
    lower : array of shape (m,) or None
        The highest lower bound of the optimum so far, in the units of the objective.
    estimator_name : str or None

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, once plotted. The distance is on an axis of its own, on the right.
    lines_ : list of matplotlib lines
        The objective, the distance, and the lower bound where there is one.
    interval_ : matplotlib collection or None
        The region between the objective and the lower bound.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from buttress import LinearSVC, ConvergenceDisplay
    >>> model = LinearSVC().fit(*load_breast_cancer(return_X_y=True))
    >>> display = ConvergenceDisplay.from_estimator(model, plot=False)
    >>> display.measure, bool(display.distance[-1] <= model.tol)
    ('gap', True)
    >>> bool(display.lower[-1] <= model.dual_objective_ + 1e-9 <= display.objective[-1] + 1e-9)
    True
    """

    iteration: Array
    objective: Array
    distance: Array
    measure: str = "gap"
    lower: Array | None = None
    estimator_name: str | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, *, ax: "Axes | None" = None, plot: bool = True
    ) -> "ConvergenceDisplay":
        """Read the ``history_`` of a fitted estimator (of several problems, the last one's), and plot.

        Raises ValueError for an estimator without one.
        """
        history = getattr(estimator, "history_", None)
        if not history:
            raise ValueError(f"{type(estimator).__name__} keeps no history_ of its fit. Those that iterate do, such as "
                             "SVC, LinearSVC, KernelClassifier or MultiKernelSVDD.")
        measure = next(name for name in ("gap", "violation", "change") if name in history[-1])
        columns = [np.array([float(step.get(key, np.nan)) for step in history])
                   for key in ("n_iter", "objective", measure)]
        name = type(estimator).__name__
        # their gap is the width of the interval that holds the optimum, over its upper end
        certified = ("AdversarialLinearSVC", "AdvSVM", "FreeRangeSVC", "LinearSVC", "LinearSVR", "MultiKernelSVDD",
                     "RelationalLinearSVC")
        known = name in certified and measure == "gap"
        lower = np.maximum.accumulate(columns[1] * (1 - columns[2])) if known else None
        display = cls(iteration=columns[0], objective=columns[1], distance=columns[2], measure=measure, lower=lower,
                      estimator_name=name)
        return display.plot(ax) if plot else display

    def plot(self, ax: "Axes | None" = None) -> "ConvergenceDisplay":
        """Draw them on ``ax``, new axes by default. Returns self."""
        ax = given_or_new(ax)
        right = ax.twinx()
        # a gap of 0 on a logarithmic axis
        finite = np.where(np.isfinite(self.distance), np.maximum(self.distance, 1e-16), np.nan)
        (objective,) = ax.plot(self.iteration, self.objective, color=COLOURS[0], label="objective")
        (distance,) = right.semilogy(self.iteration, finite, "--", color=COLOURS[5], label=self.measure)
        self.lines_ = [objective, distance]
        self.interval_ = None
        if self.lower is not None:
            self.lines_ += ax.plot(self.iteration, self.lower, ":", color=COLOURS[0], label="the optimum is not below")
            self.interval_ = ax.fill_between(self.iteration, self.lower, self.objective, color=COLOURS[4], alpha=0.3,
                                             linewidth=0)
        ax.set(xlabel="iteration", ylabel="objective", title=self.estimator_name or "")
        right.set_ylabel(self.measure)
        ax.legend(handles=self.lines_)
        return self.drawn_on(ax)


@dataclass(kw_only=True, eq=False, repr=False)
class KernelWeightsDisplay(Display):
    """The weights of a mixture of kernels, as bars.

    Parameters
    ----------
    names : list of str
    weights : array of shape (m,)

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, once plotted.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from buttress import KernelWeightsDisplay, MultiKernelSVDD
    >>> from buttress.kernels import RBF, Linear
    >>> model = MultiKernelSVDD([Linear(), RBF(0.5)]).fit(load_iris().data)
    >>> KernelWeightsDisplay.from_estimator(model, plot=False).names
    ['Linear()', 'RBF(gamma=0.5)']
    """

    names: list[str]
    weights: Array

    @classmethod
    def from_estimator(
        cls, estimator: WeighsKernels, *, ax: "Axes | None" = None, plot: bool = True
    ) -> "KernelWeightsDisplay":
        """Read the weights of a fitted ``MultiKernelSVDD``, and plot; ValueError for a model of one kernel."""
        if not hasattr(estimator, "kernel_weights_"):
            raise ValueError(f"{type(estimator).__name__} has no kernel weights. MultiKernelSVDD has.")
        names = [repr(kernel) for kernel in estimator.kernels_]
        display = cls(names=names, weights=np.asarray(estimator.kernel_weights_))
        return display.plot(ax) if plot else display

    def plot(self, ax: "Axes | None" = None) -> "KernelWeightsDisplay":
        """Draw the bars on ``ax``, new axes by default. Returns self."""
        ax = given_or_new(ax)
        places = np.arange(len(self.names))[::-1]
        ax.barh(places, self.weights, color=COLOURS[0])
        ax.set_yticks(places, self.names)
        ax.set(xlabel="weight in the mixture", xlim=(0, 1))
        return self.drawn_on(ax)


@dataclass(kw_only=True, eq=False, repr=False)
class NovelColumnsDisplay(Display):
    """How much more typical a row would be with a usual value in one column, as bars, the largest on top.

    Parameters
    ----------
    names : list of str
    gains : array of shape (d,)
        By :func:`novel_columns`, in the units of the detector's scores.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, once plotted.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVDD, NovelColumnsDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> shown = NovelColumnsDisplay.from_detector(SVDD().fit(X), [0.0, 6.0, 0.0], X, plot=False)
    >>> shown.names[shown.gains.argmax()]
    'x1'
    """

    names: list[str]
    gains: Array

    @classmethod
    def from_detector(
        cls, detector: Any, row: MatrixLike, known: MatrixLike, *, ax: "Axes | None" = None, plot: bool = True
    ) -> "NovelColumnsDisplay":
        """Explain one row (d,) beside the typical rows ``known`` (m, d), whose columns may have names, and plot."""
        (gains,) = novel_columns(detector, one_row(row), known)
        names = [str(name) for name in getattr(known, "columns", [f"x{j}" for j in range(len(gains))])]
        display = cls(names=names, gains=gains)
        return display.plot(ax) if plot else display

    def plot(self, ax: "Axes | None" = None) -> "NovelColumnsDisplay":
        """Draw the bars on ``ax``, new axes by default. Returns self."""
        ax = given_or_new(ax)
        order = np.argsort(self.gains, kind="stable")
        ax.barh(np.arange(len(order)), self.gains[order], color=COLOURS[0])
        ax.set_yticks(np.arange(len(order)), [self.names[j] for j in order])
        ax.set(xlabel="how much more typical with a usual value there")
        return self.drawn_on(ax)


@dataclass(eq=False, repr=False)
class OutlierDisplay(Display):
    """Rows of a robust fit by how far each lies from what the fit without it predicts, coloured by P(corrupt).

    Parameters
    ----------
    report : frame or dict
        What :func:`outlier_report` returned.

    Attributes
    ----------
    ax_, figure_
        Set by :meth:`plot`.
    """

    report: Any

    @classmethod
    def from_estimator(
        cls, estimator: JudgesRows, X: MatrixLike, y: VectorLike, *, ax: "Axes | None" = None
    ) -> "OutlierDisplay":
        """Plot the training data (X, y) of a fitted estimator."""
        return cls(outlier_report(estimator, X, y)).plot(ax)

    def plot(self, ax: "Axes | None" = None) -> "OutlierDisplay":
        """Draw sorted sigmas or margins on ``ax``, new axes by default. Returns self."""
        ax = given_or_new(ax)
        name = "sigmas" if "sigmas" in self.report else "margin"
        size = np.asarray(self.report[name], dtype=np.float64)
        height = np.abs(size) if name == "sigmas" else size
        order = np.argsort(height if name == "margin" else -height)
        colour = np.asarray(self.report["probability"])[order]
        dots = ax.scatter(np.arange(len(order)), height[order], c=colour, cmap="cividis_r", vmin=0, vmax=1, s=12)
        ax.figure.colorbar(dots, ax=ax, label="probability that the row is corrupt")
        ax.set_xlabel("training rows, the most suspicious first")
        if name == "sigmas":
            ax.set_yscale("symlog", linthresh=3.0)
            ax.set_ylabel("standard deviations from the fit without the row")
        else:
            ax.axhline(0, color="grey", linewidth=0.8)
            ax.set_ylabel("margin of the given label without the row")
        return self.drawn_on(ax)


@dataclass(kw_only=True, eq=False, repr=False)
class ReliabilityDisplay(Display):
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

    stated: Array
    right: Array
    count: Array
    estimator_name: str | None = None

    def __post_init__(self) -> None:
        self.calibration_error_ = float(np.average(np.abs(self.stated - self.right), weights=self.count))

    @classmethod
    def from_estimator(
        cls, estimator: ProbabilisticClassifier, X: MatrixLike, y: ArrayLike, *, n_bins: int = 10,
        name: str | None = None, ax: "Axes | None" = None, plot: bool = True, **line_options: Any,
    ) -> "ReliabilityDisplay":
        """Compare ``predict_proba`` of a fitted classifier with labelled rows that it has not seen, and plot.

        Raises ValueError for fewer rows than bins, where y has not one label a row, and without ``predict_proba``.
        """
        check_count("n_bins", n_bins)
        if not hasattr(estimator, "predict_proba"):
            raise ValueError(f"{type(estimator).__name__} states no probabilities: it has no predict_proba. Give a "
                             "classifier that has, such as SVC.")
        p = np.asarray(estimator.predict_proba(X))
        if len(p) < n_bins:
            raise ValueError(f"n_bins must be at most the number of rows, {len(p)}. Got {n_bins}.")
        best = p.argmax(axis=1)
        hit = np.asarray(estimator.classes_)[best] == one_label_each(y, len(p))
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
        (self.line_,) = ax.plot(self.stated, self.right, **{**options, **by_full_names(line_options)})
        ax.set(xlabel="probability stated for the prediction", ylabel="share of rows predicted rightly")
        ax.legend(loc="upper left")
        return self.drawn_on(ax)
