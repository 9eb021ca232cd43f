"""The map of the house, drawn from the imports of the source: ``python docs/figures/house.py`` writes images/house.svg.

Rooms stand on the floors of import-linter's layers in pyproject.toml. An arrow means "imports". An arrow that follows
from others is left out: with a -> b -> c, a -> c is not drawn. So are arrows to the tools, whose names begin with _:
nearly every room has some. Arrows to one room may share a line on their way.
"""

import ast
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "buttress"
PICTURE = ROOT / "docs" / "images" / "house.svg"
OPENED = ("buttress", "buttress.solvers")  # drawn by the rooms inside; any other room is one box

Edges = set[tuple[str, str]]
Spot = tuple[str, int]  # a room, or a place where the lines to a room pass a floor between; with the floor's number

SWEEPS = 24  # over the floors, down and up, to put rooms near what they are joined to
BOX, STOREY, GAP, LANE, LETTER, EDGE = 26, 66, 14, 8, 7.4, 16  # sizes in pixels

STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; text-anchor: middle; }
rect { fill: #eef3fa; stroke: #57606a; }
.tool { fill-opacity: .3; stroke-dasharray: 4 3; }
path { fill: none; stroke: #57606a; stroke-opacity: .65; }
marker path { fill: #57606a; stroke: none; }
.floor { stroke: #57606a; stroke-opacity: .25; stroke-dasharray: 2 5; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
rect { fill: #1c2533; stroke: #9aa6b2; }
path { stroke: #9aa6b2; }
marker path { fill: #9aa6b2; }
.floor { stroke: #9aa6b2; }
}
"""


def floors() -> list[list[str]]:
    """Return the rooms of each floor, top floor first; an opened room stands as the rooms inside."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [c for c in config["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    layers = {container: [_names(layer) for layer in contract["layers"]]
              for contract in contracts for container in contract["containers"] if container in OPENED}
    house: list[list[str]] = []
    for names in layers["buttress"]:
        stacks = [_stack(name, layers) for name in names]
        for level in range(max(map(len, stacks))):
            house.append([room for stack in stacks if level < len(stack) for room in stack[level]])
    return house


def _names(layer: str) -> list[str]:
    return [name.strip(" ()") for name in layer.replace(":", "|").split("|")]


def _stack(name: str, layers: dict[str, list[list[str]]]) -> list[list[str]]:
    inside = layers.get(f"buttress.{name}")
    return [[f"{name}.{room}" for room in floor] for floor in inside] if inside else [[name]]


def imports(rooms: set[str]) -> Edges:
    """Return the pairs (importing room, imported room) of the source, imports inside functions among them."""
    edges = set()
    for file in sorted(SOURCE.rglob("*.py")):
        here = room_of(file.relative_to(SOURCE).with_suffix("").parts, rooms)
        for parts in _imported(file):
            there = room_of(parts, rooms)
            if here and there and here != there:
                edges.add((here, there))
    return edges


def room_of(parts: tuple[str, ...], rooms: set[str]) -> str | None:
    """Return the room that a module such as ("solvers", "qp", "smo") is in, None for the package's own page."""
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in names if name in rooms), None)


def _imported(file: Path) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "buttress":
            parts = tuple(node.module.split(".")[1:])
            yield from ((*parts, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (tuple(a.name.split(".")[1:]) for a in node.names if a.name.startswith("buttress."))


def reduced(edges: Edges) -> Edges:
    """Return the edges that do not follow from two or more others."""
    below: dict[str, set[str]] = {}
    for a, b in edges:
        below.setdefault(a, set()).add(b)

    def reach(room: str) -> set[str]:
        found = set(below.get(room, ()))
        return found.union(*map(reach, found)) if found else found

    return {(a, b) for a, b in edges if not any(b in reach(other) for other in below[a] - {b})}


def lines(house: list[list[str]], edges: Edges) -> set[tuple[Spot, Spot]]:
    """Return the edges cut into pieces from one floor to the next; those to one room share their pieces."""
    level = {room: k for k, floor in enumerate(house) for room in floor}
    pieces: set[tuple[Spot, Spot]] = set()
    for a, b in edges:
        spots = [(a, level[a]), *((b, k) for k in range(level[a] + 1, level[b] + 1))]
        pieces.update(pairwise(spots))
    return pieces


def placed(house: list[list[str]], pieces: set[tuple[Spot, Spot]]) -> dict[Spot, float]:
    """Return the x of every spot: near the mean of its neighbours, and clear of the others on its floor."""
    spots = {(room, k) for k, floor in enumerate(house) for room in floor} | {s for piece in pieces for s in piece}
    rows = [sorted(s for s in spots if s[1] == k) for k in range(len(house))]
    near: dict[Spot, list[Spot]] = {spot: [] for spot in spots}
    for a, b in sorted(pieces):
        near[a].append(b)
        near[b].append(a)
    x = {spot: 100.0 * (place - len(row) / 2) for row in rows for place, spot in enumerate(row)}
    for sweep in range(SWEEPS):
        middle = sum(x.values()) / len(x)
        for row in rows if sweep % 2 else reversed(rows):
            wish = {s: sum(x[other] for other in near[s]) / len(near[s]) if near[s] else middle for s in row}
            x.update(_spread(sorted(row, key=lambda s: (round(wish[s], 3), s)), wish, house))
    left = min(x[s] - width(s, house) / 2 for s in spots)
    return {spot: x[spot] - left + EDGE for spot in spots}


def _spread(row: list[Spot], wish: dict[Spot, float], house: list[list[str]]) -> dict[Spot, float]:
    """Return places in this order, each its own width from the next: the mean of pushing right and pushing left."""
    right, left = dict(wish), dict(wish)
    for a, b in pairwise(row):
        right[b] = max(right[b], right[a] + (width(a, house) + width(b, house)) / 2 + GAP)
    for b, a in pairwise(reversed(row)):
        left[a] = min(left[a], left[b] - (width(a, house) + width(b, house)) / 2 - GAP)
    return {spot: (right[spot] + left[spot]) / 2 for spot in row}


def width(spot: Spot, house: list[list[str]]) -> float:
    """Return the width of a room's box, or of a line that passes."""
    return LETTER * len(spot[0]) + 16 if spot[0] in house[spot[1]] else LANE


def picture() -> str:
    """Return the map as the text of an SVG file."""
    house = floors()
    arrows = reduced(imports({room for floor in house for room in floor}))
    pieces = lines(house, {(a, b) for a, b in arrows if not b.startswith("_")})
    x = placed(house, pieces)
    wide = max(x[s] + width(s, house) / 2 for s in x) + EDGE
    high = STOREY * (len(house) - 1) + BOX + 2 * EDGE
    drawn = [f'<line class="floor" x1="0" x2="{wide:.0f}" y1="{_top(k) + BOX / 2}" y2="{_top(k) + BOX / 2}"/>'
             for k in range(len(house))]
    drawn += [_line(a, b, x, house) for a, b in sorted(pieces)]
    drawn += [_box(spot, x[spot], house) for spot in sorted(x) if spot[0] in house[spot[1]]]
    arrow = ('<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
             '<path d="M0 1 L8 4 L0 7 z"/></marker>')
    size = f'viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" height="{high}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    title = "<title>The rooms of buttress and what they import</title>"
    return "\n".join([head, title, f"<style>{STYLE}</style>", f"<defs>{arrow}</defs>", *drawn, "</svg>", ""])


def _top(floor: int) -> int:
    return EDGE + STOREY * floor


def _line(a: Spot, b: Spot, x: dict[Spot, float], house: list[list[str]]) -> str:
    """Return one piece of an arrow; it goes on straight across a floor where it only passes."""
    arrives = b[0] in house[b[1]]
    across = "" if arrives else f" V{_top(b[1]) + BOX}"
    head = ' marker-end="url(#arrow)"' if arrives else ""
    y, end = _top(a[1]) + BOX, _top(b[1])
    middle = (y + end) // 2
    return f'<path d="M{x[a]:.0f} {y} C{x[a]:.0f} {middle} {x[b]:.0f} {middle} {x[b]:.0f} {end}{across}"{head}/>'


def _box(spot: Spot, x: float, house: list[list[str]]) -> str:
    wide, top = width(spot, house), _top(spot[1])
    tool = ' class="tool"' if spot[0].startswith("_") else ""
    return (f'<rect{tool} x="{x - wide / 2:.0f}" y="{top}" width="{wide:.0f}" height="{BOX}" rx="4"/>'
            f'<text x="{x:.0f}" y="{top + 17}">{escape(spot[0])}</text>')


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
