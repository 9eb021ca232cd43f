"""Measured tables: a block ``{measured} NAME`` becomes the table kept in ``benchmarks/results/NAME.json``.

So do numbers of claims that name a cell of one (``reproduce/filled.py``).
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent)]

import results  # noqa: E402

from reproduce import filled  # noqa: E402

BLOCK = re.compile(r"^```\{measured\} (\S+)\n(.*?)^```$", flags=re.M | re.S)


def shown(text: str) -> str:
    """Return a page with its measured tables, and numbers of them, in place of their names."""
    text = filled.without_names(filled.filled(text, results.FOLDER))
    return BLOCK.sub(lambda block: f"{block[2]}\n{results.read(block[1]).markdown()}", text)


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill in the tables of a page, which is made anew when one of them changes."""
    for name in {found[i] for pattern, i in ((BLOCK, 0), (filled.CELL, 1)) for found in pattern.findall(source[0])}:
        app.env.note_dependency(str(results.FOLDER / f"{name}.json"))
    source[0] = shown(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", read, priority=400)
    return {"parallel_read_safe": True}
