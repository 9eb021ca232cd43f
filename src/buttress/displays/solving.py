"""How a fit proceeded, and what it gave weight to."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from buttress._checks import Array
from buttress._types import Estimator
from buttress.displays.axes import COLOURS, given_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST = 1e-16  # a gap of 0 on a logarithmic axis
# estimators whose gap is the width of the interval that holds the optimum, over its upper end
CERTIFIED = ("AdversarialLinearSVC", "LinearSVC", "RelationalLinearSVC")


class KeepsHistory(Estimator, Protocol):
    """A fitted estimator that iterated."""

    history_: list[dict[str, Any]]


class WeighsKernels(Estimator, Protocol):
    """A fitted estimator over several kernels."""

    kernels_: list[object]
    kernel_weights_: Array


class ConvergenceDisplay:
    """The objective after each iteration, how far from optimal it was known to be, and where the optimum had to be.

    The optimum is between the objective and ``lower``, two curves that meet. Only fits that bound the optimum at every
    step have the second: ``LinearSVC``, ``AdversarialLinearSVC`` and ``RelationalLinearSVC``. ``SVC``, ``SVR`` and
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

    def __init__(
        self, *, iteration: Array, objective: Array, distance: Array, measure: str = "gap",
        lower: Array | None = None, estimator_name: str | None = None,
    ):
        self.iteration = iteration
        self.objective = objective
        self.distance = distance
        self.measure = measure
        self.lower = lower
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls, estimator: KeepsHistory, *, ax: "Axes | None" = None, plot: bool = True
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
        known = name in CERTIFIED and measure == "gap"
        lower = np.maximum.accumulate(columns[1] * (1 - columns[2])) if known else None
        display = cls(iteration=columns[0], objective=columns[1], distance=columns[2], measure=measure, lower=lower,
                      estimator_name=name)
        return display.plot(ax) if plot else display

    def plot(self, ax: "Axes | None" = None) -> "ConvergenceDisplay":
        """Draw them on ``ax``, new axes by default. Returns self."""
        ax = given_or_new(ax)
        right = ax.twinx()
        finite = np.where(np.isfinite(self.distance), np.maximum(self.distance, SMALLEST), np.nan)
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
        self.ax_ = ax
        self.figure_ = ax.figure
        return self


class KernelWeightsDisplay:
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

    def __init__(self, *, names: list[str], weights: Array):
        self.names = names
        self.weights = weights

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
        self.ax_ = ax
        self.figure_ = ax.figure
        return self
