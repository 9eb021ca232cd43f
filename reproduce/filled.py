"""Numbers of the claims that stand in kept tables: a comment behind each names its cell.

    64.05<!--adv-svm-cifar; Natural; Normal-->        .54<!--adv-svm-cifar-file; published file; Normal; 2-->

is the first number, or the second, in the column Normal of the row that begins so, of
``benchmarks/results/adv-svm-cifar.json``, with as many digits as are written. The site shows what the table says
(``docs/_ext/measured.py``); ``python -m reproduce.check`` fails where a page says another, and with ``--keep`` writes
the page anew first.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from reproduce.held import NUMBER, value

CELL = re.compile(rf"({NUMBER.pattern})<!--([^;>]+); ([^;>]+); ([^;>]+?)(?:; (\d))?-->")


def in_table(cell: re.Match[str], results: Path) -> str:
    """Return the number of a cell as it is to be written; ValueError where there is no such cell."""
    written, name, row, column, place = cell.groups()
    try:
        table = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        line = next(line for line in table["rows"] if line[0] == row)
        found = NUMBER.findall(line[table["columns"].index(column)])[int(place or 1) - 1]
    except (OSError, StopIteration, ValueError, IndexError):
        raise ValueError(f"there is no number {place or 1} in row {row!r}, column {column!r} of {name}.json") from None
    digits = len(written.partition(".")[2])
    text = f"{value(found):{',' * (',' in written)}.{digits}f}"
    return text.removeprefix("0") if written.startswith(".") else text


def filled(text: str, results: Path) -> str:
    """Return a page with each number that names its cell as the table has it."""
    return CELL.sub(lambda cell: in_table(cell, results) + cell[0].removeprefix(cell[1]), text)


def differing(page: Path, results: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the complaint of each number that is another than its cell, or has none."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        for cell in CELL.finditer(line):
            try:
                says = in_table(cell, results)
            except ValueError as error:
                yield number, str(error)
                continue
            if says != cell[1]:
                yield number, f"{cell[1]} is {says} in {cell[2]}.json: python -m reproduce.check --keep"


def without_names(text: str) -> str:
    """Return a page without the names of cells."""
    return CELL.sub(lambda cell: cell[1], text)
