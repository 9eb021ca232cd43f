"""The audit's curves, drawn with matplotlib."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from buttress.audit.data import AuditData
from buttress.audit.writing.curves import SAYS, says

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = ("#6a717a", "#0b6e99", "#b2480f", "#3f7a2c", "#7b4ea3", "#a3315a", "#7a6410", "#1b2027", "#00857a",
           "#d0178f", "#4444dd")


def draw(result: AuditData, axes: "Sequence[Axes] | None" = None) -> "Figure":
    """Draw each curve of ``result`` on one of ``axes`` (made when None); returns the figure."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Plots need matplotlib. Install it with: pip install 'buttress[report]'") from None
    curves = [key for key in SAYS if key in result.curves]
    with mpl.rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "buttress"}):
        if axes is None:
            figure = Figure(figsize=(5.2 * len(curves), 3.6), layout="constrained")  # inches
            axes = figure.subplots(1, len(curves), squeeze=False)[0]
        for ax, key in zip(axes, curves, strict=False):
            _draw_curve(ax, result, key)
    return cast("Figure", axes[0].figure)  # what you gave axes of, be it part of a larger figure


def _draw_curve(ax: "Axes", result: AuditData, key: str) -> None:
    curve = result.curves[key]
    for k, name in enumerate(result.rows):
        points = [(x, value) for x, value in zip(curve["x"], curve.get(name, ()), strict=False) if value is not None]
        if not points:  # there was no time
            continue
        ax.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name, color=COLOURS[k % len(COLOURS)],
                linewidth=2.2 if name == result.recommended else 1.4)
    ax.set_xlabel(says(result, key))
    ax.set_ylabel("accuracy" if result.metric == "accuracy" else "RMSE")
    if result.metric == "accuracy":
        ax.set_ylim(-0.02, 1.02)
    else:
        ax.set_ylim(bottom=0)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8.5)
