"""The curves of an audit, as SVG and by matplotlib, and the quartiles of columns along the rows, as SVG.

The SVG follows the page's colours, light or dark, with a text for who cannot see it.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, cast

from buttress.audit.data import AuditData
from buttress.audit.measuring.cells import number
from buttress.audit.measuring.measurement import ColumnBand

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 460
HEIGHT = 240
LINES = 11  # that the page has for lines
BOTTOM = 28
TOP = 12
RIGHT = 18
NUMBERS = 5  # of an axis, beside its 0, at most
SAYS = {
    "eps": "how far every number may be moved (standard deviations)",
    "noise": "share of training targets made wrong",
    "labels": "share of training labels that are wrong, whichever they are",
    "moved": "how far numbers as they came may be moved (robust deviations)",
    "swapped": "categories of a row that may be swapped",
    "blanked": "cells of a row that may be left empty",
}


def figures(result: AuditData) -> list[tuple[str, str]]:
    """Return (SVG, caption) of each curve."""
    return [(_figure(result, key), _caption(result, key)) for key in SAYS if key in result.curves]


def _caption(result: AuditData, key: str) -> str:
    return f"{'Accuracy' if result.task == 'classification' else 'RMSE'} by {says(result, key)}"


def says(result: AuditData, key: str) -> str:
    """Return what a curve is drawn over."""
    if key == "eps" and result.settings.get("threat"):
        return "how far every number may be moved (multiples of the threat's budgets)"
    return SAYS[key]


def _figure(result: AuditData, key: str) -> str:
    curve = result.curves[key]
    right, top = max(curve["x"]) or 1.0, _top(result, key)
    left = 14 + 8 * max(len(number(y)) for y in ticks(top))  # beside the numbers of the axis, and of a digit

    def place(x: float, y: float) -> tuple[float, float]:
        return left + x / right * (WIDTH - left - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - BOTTOM - TOP)

    parts = [_grid(left, right, top)]
    for k, name in enumerate(result.rows):
        known = [(x, y) for x, y in zip(curve["x"], curve.get(name, ()), strict=False) if y is not None]
        points = [place(x, min(max(y, 0.0), top)) for x, y in known]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        wide = " chosen" if name == result.recommended else ""
        parts.append(f'<polyline class="line c{k % LINES}{wide}" points="{line}"/>')
        parts += [f'<circle class="dot c{k % LINES}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    said = escape(f"{_caption(result, key)}. {_in_words(result, key)}", quote=True)
    return (f'<svg role="img" aria-label="{said}" viewBox="0 0 {WIDTH} {HEIGHT}">'
            f'<title>{said}</title>{"".join(parts)}</svg>')


def _top(result: AuditData, key: str) -> float:
    if result.task == "classification":
        return 1.0
    ordered = sorted(y for name in result.rows for y in result.curves[key].get(name, ()) if y is not None)
    return 1.05 * ordered[int(0.9 * (len(ordered) - 1))] or 1.0  # one estimator that fails must not flatten the others


def _grid(left: float, right: float, top: float) -> str:
    parts = []
    for value in ticks(top):
        y = HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                     f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
    for value in ticks(right):
        x = left + value / right * (WIDTH - left - RIGHT)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">'
                     f"{number(value)}</text>")
    return "".join(parts)


def ticks(top: float) -> list[float]:
    """Return round numbers from 0 to ``top`` at most, at equal steps.

    >>> ticks(0.25), ticks(3.0)
    ([0.0, 0.05, 0.1, 0.15, 0.2, 0.25], [0.0, 1.0, 2.0, 3.0])
    """
    size = 10.0 ** math.floor(math.log10(top / NUMBERS))
    # between the numbers of an axis, times a power of ten
    step = next(step * size for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * size * NUMBERS >= top * (1 - 1e-9))
    return [float(f"{k * step:.10g}") for k in range(math.floor(top / step + 1e-9) + 1)]


def _in_words(result: AuditData, key: str) -> str:
    known = {name: [y for y in result.curves[key].get(name, ()) if y is not None] for name in result.rows}
    return "; ".join(f"{name} goes from {values[0]:.3g} to {values[-1]:.3g}" for name, values in known.items()
                     if len(values) > 1) + "."


def bands(result: AuditData) -> list[tuple[str, str]]:
    """Return (SVG, caption) of each column."""
    columns = result.along.columns if result.along else []
    return [(_band(one), one.column if one.category is None else f"{one.column}: share of {one.category}")
            for one in columns]


def _band(one: ColumnBand) -> str:
    known = [(k, low, middle, high) for k, (low, middle, high) in enumerate(
        zip(one.low, one.middle, one.high, strict=True)) if low is not None and middle is not None and high is not None]
    bottom, top = min(low for _, low, _, _ in known), max(high for *_, high in known)
    width, height, edge = 240, 110, 10
    left = edge + 8 * max(len(number(bottom)), len(number(top)))  # of a digit

    def place(k: int, value: float) -> str:
        x = left + k / max(len(one.middle) - 1, 1) * (width - left - edge)
        return f"{x:.1f},{height - edge - (value - bottom) / ((top - bottom) or 1.0) * (height - 2 * edge):.1f}"

    around = " ".join([*(place(k, high) for k, *_, high in known), *(place(k, low) for k, low, *_ in reversed(known))])
    line = " ".join(place(k, middle) for k, _, middle, _ in known)
    what = "median" if one.category is None else f"share of {one.category}"
    said = escape(f"{one.column}: {what} from {number(known[0][2])} to {number(known[-1][2])}.", quote=True)
    ends = "".join(f'<text class="tick" x="{left - 6}" y="{y}" text-anchor="end">{number(value)}</text>'
                   for y, value in ((height - edge + 4, bottom), (edge + 4, top)))
    return (f'<svg role="img" aria-label="{said}" viewBox="0 0 {width} {height}"><title>{said}</title>{ends}'
            f'<polygon class="band" points="{around}"/><polyline class="line c1" points="{line}"/></svg>')


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
    ax.set_ylabel("accuracy" if result.task == "classification" else "RMSE")
    if result.task == "classification":
        ax.set_ylim(-0.02, 1.02)
    else:
        ax.set_ylim(bottom=0)
    ax.grid(alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8.5)
