"""The audit's two curves, drawn with matplotlib."""

from typing import Any

COLOURS = ("#8a8f98", "#0b6e99", "#c2571a", "#4a7c3a", "#7b4ea3", "#a33b5e", "#54606e")


def draw(result: Any, axes: Any = None) -> Any:
    """Draw each curve of ``result`` on one of ``axes`` (made when None); returns the figure."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("Plots need matplotlib. Install it with: pip install 'buttress[report]'") from None
    curves = [key for key in ("eps", "noise") if key in result.curves]
    with mpl.rc_context({"font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "buttress"}):
        if axes is None:
            figure = Figure(figsize=(5.2 * len(curves), 3.6), layout="constrained")
            axes = figure.subplots(1, len(curves), squeeze=False)[0]
        for ax, key in zip(axes, curves, strict=False):
            _draw_curve(ax, result, key)
        return axes[0].figure


def _draw_curve(ax: Any, result: Any, key: str) -> None:
    curve = result.curves[key]
    for k, name in enumerate(result.rows):
        points = [(x, value) for x, value in zip(curve["x"], curve[name], strict=True) if value is not None]
        ax.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name, color=COLOURS[k % len(COLOURS)],
                linewidth=2.2 if name == result.recommended else 1.4)
    ax.set_xlabel("attack radius eps (standard deviations)" if key == "eps" else "share of training targets corrupted")
    ax.set_ylabel("accuracy" if result.metric == "accuracy" else "RMSE")
    if result.metric == "accuracy":
        ax.set_ylim(-0.02, 1.02)
    else:
        ax.set_ylim(bottom=0)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8.5)
