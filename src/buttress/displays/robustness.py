"""Accuracy against the radius of perturbations, and the boundary of two features with what is certified around rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from buttress._as_given import frames_like, one_label_each
from buttress._checks import Array, check_count, check_known, check_option
from buttress._types import BoundsLike, Labels, Mask, MatrixLike, Rows, ScoredClassifier
from buttress.attacks import pgd, worst_case
from buttress.attacks.scoring import Fallen
from buttress.certificates import certified_radius, certified_within
from buttress.certificates.radius import where_known
from buttress.displays.axes import COLOURS, Display, by_full_names, given_or_new, next_colour
from buttress.scores import as_classifier
from buttress.threats import ThreatModel, check_threat

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ATTACKS = {"pgd": pgd, "worst_case": worst_case}
POINTS = 11  # radii of a curve


@dataclass(kw_only=True, eq=False, repr=False)
class RobustnessCurveDisplay(Display):
    """Accuracy against the radius of perturbations: attacked from above, certified from below.

    The true accuracy under the worst perturbations of each radius lies between the two curves: above what is proven,
    below what an attack has achieved.

    Parameters
    ----------
    eps : array of shape (m,)
        Radii, in the units of X, or multiples of a threat's budgets.
    attacked_accuracy : array of shape (m,)
        Share of rows still classified rightly after the attack within each radius.
    certified_accuracy : array of shape (m,) or None
        Share of rows classified rightly whose prediction is proven not to change; None for models without certificates.
    norm : {"linf", "l2", "threat"}
    estimator_name : str or None
    blind : bool array of shape (m,) or None
        Radii at which the attack saw no score change near half of the rows that stand: its accuracy there says nothing.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, once plotted.
    lines_ : list of matplotlib lines
        The attacked curve, and the certified one where there is one.
    gap_ : matplotlib collection or None
        The region between them.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import SVC, RobustnessCurveDisplay
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> display = RobustnessCurveDisplay.from_estimator(SVC().fit(X, y), X, y, eps=[0.0, 0.1, 0.2], plot=False)
    >>> bool((display.certified_accuracy <= display.attacked_accuracy).all())
    True
    """

    eps: Array
    attacked_accuracy: Array
    certified_accuracy: Array | None = None
    norm: str = "linf"
    estimator_name: str | None = None
    blind: Mask | None = None

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: MatrixLike, y: ArrayLike, *, eps: ArrayLike | None = None, norm: str = "linf",
        bounds: BoundsLike | None = None, threat: ThreatModel | None = None, attack: str = "pgd",
        random_state: int | np.random.RandomState | None = None, name: str | None = None, ax: "Axes | None" = None,
        plot: bool = True, attack_options: Mapping[str, Any] | None = None, **line_options: Any,
    ) -> "RobustnessCurveDisplay":
        """Attack and certify a fitted classifier on labelled rows at each radius, and plot the curves.

        Parameters
        ----------
        estimator : fitted classifier
        X, y
            Rows (n, d) and labels (n,), best not the training ones.
        eps : array or None
            Radii, >= 0, increasing; default 11 from 0 to where half the rows of a certifiable model lose their
            certificate twice over, or to half the mean standard deviation of the columns.
        norm, bounds, random_state
            As in :func:`buttress.attacks.pgd`.
        threat : ThreatModel or None
            What may be done to each column; ``eps`` are then multiples of its budgets, 0 to 1 by default. At 0 nothing
            is done; its swaps are allowed at each above.
        attack : {"pgd", "worst_case"}
            ``attack_options`` go to it. Rows that fell at a smaller radius count as fallen.
        name, ax, line_options
            Label, axes and options of the plot.
        plot : bool, default=True
            False only computes; call ``plot()`` later.

        Raises
        ------
        ValueError
            For radii that are negative or not increasing, a regressor, and as the attack does.
        """
        check_option("attack", attack, tuple(ATTACKS))
        check_option("norm", norm, ("linf", "l2"))
        predicted = as_classifier(estimator).predict(X)
        if not hasattr(as_classifier(estimator), "classes_"):  # none of its rows may be right, and no attack be asked
            raise ValueError(f"{_name(estimator)} is no classifier: it has no classes_. Give a fitted classifier.")
        right = np.asarray(predicted == one_label_each(y, len(predicted)))
        values = np.asarray(X, dtype=np.float64)
        given = X if hasattr(X, "columns") else values  # a model may ask for column names
        if threat is None:
            radius = where_known(lambda: getattr(certified_radius(estimator, given, bounds=bounds), norm))
            radii = _default_eps(values, radius) if eps is None else _checked_eps(eps)
            proven = None if radius is None else radius > radii[:, None]
        else:
            check_threat(None, norm, bounds, threat)
            threat = threat.on(given)  # of some rows the standard deviations are others
            radii = np.linspace(0, 1, POINTS) if eps is None else _checked_eps(eps)
            proven = where_known(lambda: np.array([certified_within(estimator, given, threat=threat.scaled(size))
                                                   for size in radii.tolist()]))

        def limits(size: float, rows: Rows) -> Mapping[str, Any]:
            if threat is not None:
                return {"threat": threat.scaled(size)}
            return {"eps": size, "norm": norm, "bounds": _of_rows(bounds, rows, values.shape)}

        options = {"random_state": random_state, **(attack_options or {})}
        attacked, blind = _attacked(attack, estimator, given, np.asarray(y), right, radii, limits, options)
        certified = None if proven is None else _certified(right, proven, radii)
        display = cls(eps=radii, attacked_accuracy=attacked, certified_accuracy=certified,
                      norm=norm if threat is None else "threat", blind=blind,
                      estimator_name=_name(estimator) if name is None else name)
        return display.plot(ax=ax, **line_options) if plot else display

    def plot(
        self, ax: "Axes | None" = None, *, name: str | None = None, **line_options: Any
    ) -> "RobustnessCurveDisplay":
        """Draw the curves on ``ax``, new axes by default; ``line_options`` go to matplotlib. Returns self."""
        ax = given_or_new(ax)
        line_options = {"color": next_colour(ax), "label": self.estimator_name, **by_full_names(line_options)}
        name = line_options.pop("label") if name is None else name
        label = f"{name}, " if name else ""
        (attacked,) = ax.plot(self.eps, self.attacked_accuracy, **{**line_options, "label": f"{label}attacked"})
        self.lines_, self.gap_ = [attacked], None
        if self.blind is not None and self.blind.any():
            ax.scatter(np.asarray(self.eps)[self.blind], np.asarray(self.attacked_accuracy)[self.blind], marker="x",
                       color=attacked.get_color(), label=f"{label}attack was blind")
        if self.certified_accuracy is not None:
            options = {**line_options, "linestyle": "--", "label": f"{label}certified"}
            self.lines_ += ax.plot(self.eps, self.certified_accuracy, **options)
            self.gap_ = ax.fill_between(self.eps, self.certified_accuracy, self.attacked_accuracy, alpha=0.15,
                                        color=attacked.get_color(), linewidth=0)
        what = "multiple of the threat's budgets" if self.norm == "threat" else f"radius of perturbations ({self.norm})"
        ax.set(xlabel=what, ylabel="accuracy", ylim=(-0.02, 1.02))
        ax.legend(loc="lower left")  # accuracies fall to the right
        return self.drawn_on(ax)


def _attacked(
    attack: str, estimator: BaseEstimator, X: MatrixLike, y: NDArray[Any], right: Mask, radii: Array,
    limits: Callable[[float, Rows], Mapping[str, Any]], options: Mapping[str, Any],
) -> tuple[Array, Mask]:
    """Return the accuracy after an attack within each radius, and where it was blind; a row that fell stays fallen.

    ``limits`` says how far some rows may be moved at a radius.
    """
    fallen = Fallen(right)
    shares, blind = [], []
    for size in radii:
        unseen = 0

        def survives(rows: Rows, size: float = float(size)) -> Mask:
            nonlocal unseen
            _, info = ATTACKS[attack](estimator, _safe_indexing(X, rows), y[rows], return_info=True,
                                      **{**limits(size, rows), **options})
            unseen = int(info.blind.sum())
            return np.asarray(~info.success)

        standing = fallen.attack(float(size), survives)
        shares.append(standing.mean())
        blind.append(2 * unseen > standing.sum())
    return np.array(shares), np.array(blind)


def _certified(right: Mask, proven: Mask, radii: Array) -> Array:
    """Return the accuracy proven within each radius, from what is ``proven`` of each row (m, n); 0 needs no proof."""
    held = np.logical_or.accumulate(proven[::-1])[::-1]  # a proof within more is one within less
    return np.asarray((right & (held | (radii == 0)[:, None])).mean(axis=1))


def _default_eps(X: Array, radius: Array | None) -> Array:
    finite = radius[np.isfinite(radius) & (radius > 0)] if radius is not None else np.empty(0)
    end = 2 * np.median(finite) if len(finite) else X.std(axis=0).mean() / 2
    return np.linspace(0, float(end) or 1.0, POINTS)


def _checked_eps(given: ArrayLike) -> Array:
    eps = np.asarray(given, dtype=np.float64)
    if eps.ndim != 1 or len(eps) == 0 or not np.isfinite(eps).all() or eps[0] < 0 or (np.diff(eps) <= 0).any():
        raise ValueError(f"eps must be radii >= 0 in increasing order. Got {eps.tolist()}.")
    return eps


def _of_rows(bounds: BoundsLike | None, rows: Rows, shape: tuple[int, ...]) -> BoundsLike | None:
    """Return the box of some of the rows."""
    if bounds is None:
        return None
    return np.broadcast_to(bounds[0], shape)[rows], np.broadcast_to(bounds[1], shape)[rows]


def _name(estimator: BaseEstimator) -> str:
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    return type(last).__name__


@dataclass(kw_only=True, eq=False, repr=False)
class CertifiedBoundaryDisplay(Display):
    """The classes that a model of two features predicts, and around each row the region in which a proof holds.

    No region crosses the boundary: within it no input, found by an attack or not, is of another class.

    Parameters
    ----------
    grid : pair of arrays of shape (m, m)
        Where the model was asked.
    codes : array of shape (m, m)
        The number of the class predicted there.
    rows : array of shape (n, 2)
    row_codes : array of shape (n,)
        The number of the class of each row: given, or predicted where no labels were given.
    radius : array of shape (n,)
        Certified radii, 0 where nothing is certified.
    classes : array of shape (n_classes,)
    norm : {"linf", "l2"}
        Squares, or disks.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, once plotted.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress import SVC, CertifiedBoundaryDisplay
    >>> X, y = make_moons(40, noise=0.1, random_state=0)
    >>> display = CertifiedBoundaryDisplay.from_estimator(SVC().fit(X, y), X, y, plot=False)
    >>> display.radius.shape
    (40,)
    """

    grid: tuple[Array, Array]
    codes: Rows
    rows: Array
    row_codes: Rows
    radius: Array
    classes: Labels
    norm: str = "linf"

    @classmethod
    def from_estimator(
        cls, estimator: ScoredClassifier, X: MatrixLike, y: ArrayLike | None = None, *, norm: str = "linf",
        resolution: int = 120, ax: "Axes | None" = None, plot: bool = True,
    ) -> "CertifiedBoundaryDisplay":
        """Ask a fitted classifier on a grid, certify the rows X (n, 2), and plot.

        ``resolution`` are the points of the grid along each axis. Raises ValueError for rows of another width than 2,
        labels that the model does not know, and models without certified radii.
        """
        check_option("norm", norm, ("linf", "l2"))
        check_count("resolution", resolution, 2)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise ValueError(f"X must have two columns to be drawn. Got shape {rows.shape}. Fit on two of them.")
        given = frames_like(X)  # a model may ask for column names
        radius = np.asarray(getattr(certified_radius(estimator, given(rows)), norm))
        room = 0.1 * np.ptp(rows, axis=0)  # on each side of the picture
        sides = [np.linspace(*ends, resolution) for ends in zip(rows.min(axis=0) - room, rows.max(axis=0) + room)]
        across, up = np.meshgrid(*sides)
        classes = np.asarray(estimator.classes_)
        asked = np.searchsorted(classes, estimator.predict(given(np.column_stack([across.ravel(), up.ravel()]))))
        labels = one_label_each(estimator.predict(given(rows)) if y is None else y, len(rows))
        display = cls(grid=(across, up), codes=asked.reshape(across.shape), rows=rows,
                      row_codes=check_known(labels, classes), radius=radius, classes=classes, norm=norm)
        return display.plot(ax) if plot else display

    def plot(self, ax: "Axes | None" = None) -> "CertifiedBoundaryDisplay":
        """Draw regions, rows and certificates on ``ax``, new axes by default. Returns self."""
        ax = given_or_new(ax)
        levels = np.arange(len(self.classes) + 1) - 0.5
        ax.contourf(*self.grid, self.codes, levels=levels, colors=COLOURS, alpha=0.15)
        for place in np.unique(self.codes)[1:]:
            ax.contour(*self.grid, self.codes >= place, levels=[0.5], colors="black", linewidths=1)
        self._draw_certificates(ax)
        for code, name in enumerate(self.classes):
            own = self.rows[self.row_codes == code]
            colour = COLOURS[code % len(COLOURS)]
            ax.scatter(own[:, 0], own[:, 1], s=16, color=colour, edgecolors="black", linewidths=0.4,
                       label=f"class {name}")
        ax.set_aspect("equal")
        ax.legend()
        return self.drawn_on(ax)

    def _draw_certificates(self, ax: "Axes") -> None:
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Circle, Rectangle

        extent = float(np.ptp(self.rows))
        sizes = np.minimum(self.radius, extent)  # a constant model is certified without end
        shapes = [Circle((centre[0], centre[1]), size) if self.norm == "l2" else
                  Rectangle((centre[0] - size, centre[1] - size), 2 * size, 2 * size)
                  for centre, size in zip(self.rows, sizes)]
        left, right = ax.get_xlim()
        low, high = ax.get_ylim()
        ax.add_collection(PatchCollection(shapes, facecolor="0.3", edgecolor="0.3", alpha=0.2))
        ax.set(xlim=(left, right), ylim=(low, high))
