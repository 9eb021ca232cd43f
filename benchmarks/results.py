"""Results that the documentation shows: tables with the command that printed them, its commit and its date.

    python benchmarks/results.py NAME -- python benchmarks/certainty.py choice     runs it and keeps its table
    python benchmarks/results.py - NAME -- COMMAND                                 passes over the first table it prints

A table is one file, ``benchmarks/results/NAME.json``. A page shows it where it says

    ```{measured} NAME
    What was measured, in a sentence.
    ```
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "results"
TABLE = re.compile(r"(?:^\|.*\|[ ]*\n?)+", flags=re.M)


@dataclass(frozen=True)
class Result:
    """A table and where it comes from.

    ``commit`` and ``date`` are those of the run; a commit that ends in "-dirty" had changes beside it, and the tests
    refuse the table. ``transcribed`` says that it was copied from a page that stated the
    command alone: they are then those of the last change to its rows there.
    """

    command: str
    commit: str
    date: str
    columns: list[str]
    rows: list[list[str]]
    transcribed: bool = False
    machine: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"every row must have {len(self.columns)} cells, as the columns of {self.command!r} have")

    def markdown(self) -> str:
        """Return the table, and under it the command, the date and the commit."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        when = "as of" if self.transcribed else "run on"
        where = f" {self.machine}." if self.machine else ""
        return f"{table}\n\n*`{self.command}`, {when} {self.date}, commit {self.commit}.{where}*"


def read(name: str) -> Result:
    """Return a kept table."""
    return Result(**json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def write(name: str, result: Result) -> Path:
    """Keep a table, a row a line, and return its file."""
    head = {key: value for key, value in asdict(result).items() if key != "rows"}
    rows = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in result.rows)
    text = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}") + f',\n "rows": [\n  {rows}\n ]\n}}\n'
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{name}.json"
    file.write_text(text, encoding="utf-8")
    return file


def of_today(command: str, columns: Sequence[str], rows: Iterable[Sequence[object]], machine: str = "") -> Result:
    """Return a table measured just now, at the commit that is checked out."""
    asked = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True,
                           text=True)
    cells = [[str(cell) for cell in row] for row in rows]
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    return Result(command, asked.stdout.strip() or "unknown", today, list(columns), cells, machine=machine)


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables in Markdown as lists of rows of cells, the headings first."""
    found = []
    for block in TABLE.findall(text):
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] for line in block.splitlines()]
        found.append([row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)])
    return found


def main() -> None:
    """Run a benchmark and keep the tables that it prints under the names given."""
    if "--" not in sys.argv:
        sys.exit(str(__doc__))
    split = sys.argv.index("--")
    names, command = sys.argv[1:split], sys.argv[split + 1 :]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    sys.stdout.write(ran.stdout)
    printed = tables(ran.stdout)
    if len(names) > len(printed):
        sys.exit(f"{len(names)} names were given, and {len(printed)} tables printed.")
    made = [of_today(shlex.join(command), columns, rows) for columns, *rows in printed]
    for name, table in zip(names, made, strict=False):
        if name != "-":
            print(f"Written: {write(name, table)}")


if __name__ == "__main__":
    main()
