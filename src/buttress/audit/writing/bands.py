"""Small pictures of the columns that change along the rows: their quartiles part by part, as SVG."""

from html import escape

from buttress.audit.data import AuditData
from buttress.audit.measuring.cells import number
from buttress.audit.measuring.measurement import ColumnBand

WIDTH = 240
HEIGHT = 110
EDGE = 10


def bands(result: AuditData) -> list[tuple[str, str]]:
    """Return (SVG, caption) of each column."""
    columns = result.along.columns if result.along else []
    return [(_band(one), one.column if one.category is None else f"{one.column}: share of {one.category}")
            for one in columns]


def _band(one: ColumnBand) -> str:
    known = [(k, low, middle, high) for k, (low, middle, high) in enumerate(
        zip(one.low, one.middle, one.high, strict=True)) if low is not None and middle is not None and high is not None]
    bottom, top = min(low for _, low, _, _ in known), max(high for *_, high in known)
    left = EDGE + 8 * max(len(number(bottom)), len(number(top)))  # of a digit

    def place(k: int, value: float) -> str:
        x = left + k / max(len(one.middle) - 1, 1) * (WIDTH - left - EDGE)
        return f"{x:.1f},{HEIGHT - EDGE - (value - bottom) / ((top - bottom) or 1.0) * (HEIGHT - 2 * EDGE):.1f}"

    around = " ".join([*(place(k, high) for k, *_, high in known), *(place(k, low) for k, low, *_ in reversed(known))])
    line = " ".join(place(k, middle) for k, _, middle, _ in known)
    what = "median" if one.category is None else f"share of {one.category}"
    said = escape(f"{one.column}: {what} from {number(known[0][2])} to {number(known[-1][2])}.", quote=True)
    ticks = "".join(f'<text class="tick" x="{left - 6}" y="{y}" text-anchor="end">{number(value)}</text>'
                    for y, value in ((HEIGHT - EDGE + 4, bottom), (EDGE + 4, top)))
    return (f'<svg role="img" aria-label="{said}" viewBox="0 0 {WIDTH} {HEIGHT}"><title>{said}</title>{ticks}'
            f'<polygon class="band" points="{around}"/><polyline class="line c1" points="{line}"/></svg>')
