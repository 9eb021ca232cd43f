"""python -m reproduce.check: reread the claims pages, rerun their quick commands, and compare the figures.

A page is a table of claim, verdict, command and run. A command stands in backquotes; its first word may be an
abbreviation that the page explains as: `T` stands for `pytest ...`. Run is one of

    quick                            run here, in under a minute
    quick with art                   the same where the module art can be imported; elsewhere the row counts as not run
    quick; `name` = 1.2 ± 0.1; ...   and the line "name = value" of its output must lie within the tolerance
    long: 2026-11-21, 91a0dd7        not run here: when, and at which commit, it last was
    long: 2026-11-21, 91a0dd7, 66 s  the same, and the processor seconds of its commands together
    none: reason                     no command can show it

Numbers of kept tables name their cell (``reproduce/filled.py``).

The check fails where a command fails, a figure or a cell differs, a pytest selector selects nothing or nothing but
skipped tests, a row has none of these, the index docs/claims.md counts other verdicts than the pages hold, or a line
with a digit, of a page or of a table that it shows, is not as it was last kept. ``--keep`` writes the numbers of cells
anew, then keeps all lines, if nothing else is wrong with what it checked. ``--unheld`` lists the rows with numbers that
nothing holds (``reproduce/held.py``). ``--long`` runs nothing and says, for each long command, when it was run, which
rows state it, and whether a file that it imports has changed.
"""

import argparse
import importlib.util
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reproduce import filled, held
from reproduce.forks import Forks
from reproduce.long_rows import Run, lines

RESULTS = Path("benchmarks", "results")
VERDICTS = ("reproduces", "does not", "cannot be told")
MOST_SECONDS = 60.0  # of processor time, which a busy machine does not stretch, for a quick command
WIDTH = 4  # columns of a table of claims
NOTHING_SELECTED = 5  # pytest's exit status
SHORTHAND = re.compile(r"`([A-Za-z]+)`\s+stands\s+for\s+`([^`]+)`")
FIGURE = re.compile(r"`([^`]+)` = ([^\s;]+) ± ([^\s;]+)")
QUICK = re.compile(r"quick(?: with (\w+))?(?:;|$)")
LAST_RUN = re.compile(r"long: (\d{4}-\d{2}-\d{2}), ([0-9a-f]{7,})(?:, (\d+) s)?$")
PRINTED = re.compile(r"^(.+?) = (\S+)$", re.M)


@dataclass
class Row:
    """One claim: where it stands, its text, its verdict, its commands in full, how they are run, its figures."""

    where: str
    claim: str
    verdict: str
    commands: list[str]
    run: str
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)


def claims(page: Path) -> list[Row]:
    """Return the rows of a page's tables of claims."""
    text = filled.without_names(page.read_text())
    short = dict(SHORTHAND.findall(re.sub(r"\s+", " ", text)))
    rows = []
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if len(cells) != WIDTH or not inside or set(line) <= set("|- "):
            inside = cells[:1] == ["claim"] or (inside and bool(cells))
            continue
        commands = [_in_full(command, short) for command in re.findall(r"`([^`]+)`", cells[2])]
        figures = {name: (float(value), float(off)) for name, value, off in FIGURE.findall(cells[3])}
        rows.append(Row(f"{page.name}:{number}", cells[0], cells[1], commands, cells[3], figures))
    return rows


def _in_full(command: str, short: dict[str, str]) -> str:
    first, _, rest = command.partition(" ")
    return f"{short[first]} {rest}".strip() if first in short else command


def complaints_of_form(row: Row) -> list[str]:
    """Return what is wrong with how a row is written."""
    found = []
    if not row.verdict.startswith(VERDICTS):
        found.append(f"the verdict must begin with {', '.join(VERDICTS)}. Got {row.verdict[:40]!r}")
    reason = row.run.removeprefix("none:").strip()
    if not row.commands and not (row.run.startswith("none:") and reason):
        found.append("no command, and no reason why none is possible")
    if row.commands and not (QUICK.match(row.run) or LAST_RUN.match(row.run)):
        found.append(f"run must be quick, quick with MODULE, or long with the date and commit of the last run. "
                     f"Got {row.run!r}")
    stated = [part for part in row.run.split("; ")[1:] if not FIGURE.fullmatch(part)]
    found += [f"a figure must be written `name` = value ± tolerance. Got {part!r}" for part in stated]
    return found


def complaints_of_run(row: Row, root: Path, forks: Forks) -> list[str]:
    """Return what is wrong with what a quick row's commands do."""
    found = []
    printed: dict[str, float] = {}
    for command in row.commands:
        ran = forks.run(command, root)
        if ran.status == NOTHING_SELECTED and command.startswith("pytest"):
            found.append(f"{command} selects nothing")
        elif ran.status:
            found.append(f"{command} failed: {ran.output.strip()[-300:]}")
        elif ran.seconds > MOST_SECONDS:
            found.append(f"{command} took more than {MOST_SECONDS:.0f} s of processor time: mark it long")
        elif command.startswith("pytest") and " passed" not in ran.output:
            found.append(f"{command} shows nothing: all its tests were skipped")
        printed |= {name: float(value) for name, value in PRINTED.findall(ran.output) if _is_number(value)}
    return found + differing(row, printed)


def differing(row: Row, printed: dict[str, float]) -> list[str]:
    """Return the stated figures that were not printed, or outside their tolerance."""
    found = []
    for name, (value, off) in row.figures.items():
        if name not in printed:
            found.append(f"{name!r} was not printed")
        elif not abs(printed[name] - value) <= off * (1 + 1e-12):
            found.append(f"{name!r} is {printed[name]:g}, where {value:g} ± {off:g} is stated")
    return found


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", text) is not None


def missing(row: Row) -> str:
    """Return the module that a quick row needs and this Python lacks, or an empty string."""
    needs = QUICK.match(row.run)
    name = needs[1] if needs else None
    return name if name and importlib.util.find_spec(name) is None else ""


def kind(row: Row) -> str:
    """Return which of the three verdicts a row has."""
    return next((verdict for verdict in VERDICTS if row.verdict.startswith(verdict)), VERDICTS[0])


def index_line(page: Path, rows: Sequence[Row]) -> str:
    """Return the cells of a page in the index: claims and how many have each verdict."""
    counts = [sum(kind(row) == verdict for row in rows) for verdict in VERDICTS]
    return f"(claims/{page.name}) | {len(rows)} | " + " | ".join(map(str, counts)) + " |"


def pages(folder: Path) -> dict[Path, list[Row]]:
    """Return the pages that hold claims, with their rows."""
    read = {page: claims(page) for page in sorted((folder / "claims").glob("*.md"))}
    return {page: rows for page, rows in read.items() if rows}


def check(folder: Path, forks: Forks, *, only: str = "", run: bool = True) -> Iterable[tuple[str, list[str], str]]:
    """Yield (where, complaints, the module it could not run without) for rows that contain ``only``, and the index."""
    index = (folder / "claims.md").read_text()
    for page, rows in pages(folder).items():
        if index_line(page, rows) not in index:
            yield f"claims.md, {page.name}", [f"the index must have: {index_line(page, rows)}"], ""
        for line, complaint in filled.differing(page, folder.parent / RESULTS):
            yield f"{page.name}:{line}", [complaint], ""
        for row in rows:
            if only in row.where:
                found = complaints_of_form(row)
                lacks = missing(row) if run else ""
                if run and not found and not lacks and QUICK.match(row.run):
                    found = complaints_of_run(row, folder.parent, forks)
                yield row.where, found, lacks


def long_runs(folder: Path, only: str = "") -> dict[Run, list[str]]:
    """Return the commands that are not run here, as they were last run, with the rows that state them."""
    found: dict[Run, list[str]] = {}
    for rows in pages(folder).values():
        for row in rows:
            last = LAST_RUN.match(row.run)
            if last is None or only not in row.where:
                continue
            for command in row.commands:
                found.setdefault(Run(last[1], last[2], command, last[3]), []).append(row.where)
    return found


def unheld_rows(folder: Path) -> dict[str, list[str]]:
    """Return the rows with numbers in their verdict that nothing holds, and these."""
    found = {row.where: held.unheld(row.claim, row.verdict, row.figures, row.commands, folder.parent)
             for rows in pages(folder).values() for row in rows}
    return {where: numbers for where, numbers in found.items() if numbers}


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m reproduce.check",
                                description="Reread the claims pages and rerun their quick commands.")
    p.add_argument("--docs", type=Path, default=Path("docs"), help="folder with claims.md and claims/")
    p.add_argument("--only", default="", help="only rows whose PAGE.md:LINE contains this")
    p.add_argument("--form", action="store_true", help="only read the pages, run nothing")
    p.add_argument("--keep", action="store_true", help="keep the lines as they are now, if all else is right")
    p.add_argument("--unheld", action="store_true", help="run nothing; list the rows with numbers that nothing holds")
    p.add_argument("--long", action="store_true", help="run nothing; say whether the code of long commands has changed")
    return p


def report(arguments: Sequence[str] | None, forks: Forks) -> int:
    """Check the pages and print what is wrong; returns 1 if anything is."""
    options = parser().parse_args(arguments)
    if options.long:
        for line in lines(long_runs(options.docs, options.only), options.docs.parent):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        return 0
    if options.unheld:
        for row, numbers in unheld_rows(options.docs).items():
            sys.stdout.write(f"{row}: {' '.join(numbers)}\n")
        return 0
    for page in pages(options.docs) if options.keep else ():
        with suppress(ValueError):  # a cell that is not there is said below
            page.write_text(filled.filled(page.read_text(), options.docs.parent / RESULTS))
    wrong = 0
    rows = 0
    for where, found, lacks in check(options.docs, forks, only=options.only, run=not options.form):
        rows += 1
        wrong += bool(found)
        for complaint in found:
            sys.stdout.write(f"{where}: {complaint}\n")
        if lacks:
            sys.stdout.write(f"{where}: not run, for want of the module {lacks}\n")
        sys.stdout.flush()
    if options.keep and not wrong:
        held.keep(options.docs)
    for name, complaint in held.changed(options.docs):
        wrong += 1
        sys.stdout.write(f"{name}: {complaint}\n")
    took = f"{forks.count} commands in {forks.seconds:.0f} s of processor time"
    sys.stdout.write(f"{rows} rows, {wrong} wrong; {took}\n")
    return int(wrong > 0 or rows == 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the pages; returns the exit status."""
    with Forks() as forks:
        return report(arguments, forks)


if __name__ == "__main__":
    sys.exit(main())
