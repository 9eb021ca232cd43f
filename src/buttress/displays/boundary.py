"""The decision boundary of two features, with what is certified around each row."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress._checks import Array, check_count, check_option
from buttress._types import Labels, MatrixLike, ScoredClassifier
from buttress.certificates import certified_radius
from buttress.displays.axes import COLOURS, given_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Codes = NDArray[np.intp]
MARGIN = 0.1  # of the range of the rows, added on each side of the picture
POINTS = 120  # of the grid, along each axis


class CertifiedBoundaryDisplay:
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

    def __init__(
        self, *, grid: tuple[Array, Array], codes: Codes, rows: Array, row_codes: Codes, radius: Array,
        classes: Labels, norm: str = "linf",
    ):
        self.grid = grid
        self.codes = codes
        self.rows = rows
        self.row_codes = row_codes
        self.radius = radius
        self.classes = classes
        self.norm = norm

    @classmethod
    def from_estimator(
        cls, estimator: ScoredClassifier, X: MatrixLike, y: ArrayLike | None = None, *, norm: str = "linf",
        resolution: int = POINTS, ax: "Axes | None" = None, plot: bool = True,
    ) -> "CertifiedBoundaryDisplay":
        """Ask a fitted classifier on a grid, certify the rows X (n, 2), and plot.

        Raises ValueError for rows of another width than 2, and for models without certified radii.
        """
        check_option("norm", norm, ("linf", "l2"))
        check_count("resolution", resolution, 2)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise ValueError(f"X must have two columns to be drawn. Got shape {rows.shape}. Fit on two of them.")
        radius = np.asarray(getattr(certified_radius(estimator, rows), norm))
        room = MARGIN * np.ptp(rows, axis=0)
        sides = [np.linspace(*ends, resolution) for ends in zip(rows.min(axis=0) - room, rows.max(axis=0) + room)]
        across, up = np.meshgrid(*sides)
        classes = np.asarray(estimator.classes_)
        asked = np.searchsorted(classes, estimator.predict(np.column_stack([across.ravel(), up.ravel()])))
        labels = estimator.predict(rows) if y is None else np.asarray(y)
        display = cls(grid=(across, up), codes=asked.reshape(across.shape), rows=rows,
                      row_codes=np.searchsorted(classes, labels), radius=radius, classes=classes, norm=norm)
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
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

    def _draw_certificates(self, ax: "Axes") -> None:
        from matplotlib.collections import PatchCollection
        from matplotlib.patches import Circle, Patch, Rectangle

        extent = float(np.ptp(self.rows))
        sizes = np.minimum(self.radius, extent)  # a constant model is certified without end
        shapes: list[Patch] = []
        for centre, size in zip(self.rows, sizes):
            if self.norm == "l2":
                shapes.append(Circle((centre[0], centre[1]), size))
            else:
                shapes.append(Rectangle((centre[0] - size, centre[1] - size), 2 * size, 2 * size))
        left, right = ax.get_xlim()
        low, high = ax.get_ylim()
        ax.add_collection(PatchCollection(shapes, facecolor="0.3", edgecolor="0.3", alpha=0.2))
        ax.set(xlim=(left, right), ylim=(low, high))
