"""python -m reproduce.subquantile: the paper's tables and figures, its numbers beside ours."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.finished import Parts, finished_parts
from reproduce.subquantile import figures, tables
from reproduce.subquantile.protocol import FILES

TABLES = (1, 2, 3)
FIGURES = (1, 2, 3, 4)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m reproduce.subquantile", description=__doc__)
    p.add_argument("--data-dir", type=Path, help="local copies of the sets; default: download from OpenML and UCI")
    p.add_argument("--output", type=Path, default=Path("subquantile-reproduction"), help="where to write the results")
    p.add_argument("--trials", type=int, default=10, help="random splits a column (at most 5 for Drug)")
    p.add_argument("--tables", type=int, nargs="*", choices=TABLES, help="default: all; none with --figures alone")
    p.add_argument("--figures", type=int, nargs="*", choices=FIGURES, help="default: all; none with --tables alone")
    p.add_argument("--iterations", type=int, default=1000, help="of figures 1 and 2")
    p.add_argument("--row", default="", help="only rows whose name contains this")
    p.add_argument("--sets", nargs="*", choices=("Polynomial", "Diabetes", *FILES), help="of the tables, only these")
    p.add_argument("--resume", action="store_true", help="go on from what this command had finished when it was killed")
    p.add_argument("--short", action="store_true", help="only sets that need no file, for a quick check")
    return p


def _report(line: str) -> None:
    sys.stderr.write(line + "\n")


def _table(number: int, options: argparse.Namespace, parts: Parts) -> None:
    """Run the columns of a table, write it down after each, and print it."""
    records: list[dict[str, Any]] = []
    for column in tables.columns(number, options.short):
        if options.sets is None or column.data in options.sets:
            records += tables.measure(number, column, options.trials, options.data_dir, options.row, parts)
            tables.save(options.output, f"table{number}", tables.markdown(number, records), records)
            _report(f"table {number}: {column} done")
    sys.stdout.write(tables.markdown(number, records) + "\n")


def _figure(number: int, options: argparse.Namespace, parts: Parts) -> None:
    """Compute a figure, write it down and print it."""
    make = getattr(figures, f"figure_{number}")
    given = (10, np.linspace(200, 2000, 10)) if number > 2 else (
        options.trials, options.iterations, options.data_dir, options.short)
    curves = parts.of(f"figure {number}", [str(value) for value in given], lambda: make(*given))
    text = figures.describe(number, curves)
    tables.save(options.output, f"figure{number}", text, curves)
    figures.draw(number, curves, options.output / f"figure{number}.png")
    sys.stdout.write(text + "\n")
    _report(f"figure {number} done")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; returns the exit status."""
    options = parser().parse_args(arguments)
    if options.trials < 1:
        sys.stderr.write(f"--trials must be at least 1. Got {options.trials}.\n")
        return 2
    everything = options.tables is None and options.figures is None
    with finished_parts(options.output, options.resume) as parts:
        for number in TABLES if everything else options.tables or ():
            _table(number, options, parts)
        for number in FIGURES if everything else options.figures or ():
            _figure(number, options, parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
