"""The command: reads model, data and the caller's problem, prints what was proven, and says for which problem."""

import argparse
import csv
import json
import sys
from pathlib import Path

import numpy as np

from .core import Array, Claim, Columns, Model, read_model
from .evidence import (
    SIGNED,
    STATED,
    problem_of,
    prove_folder,
    prove_held,
    read_columns,
    read_folder,
    rows_agree,
    unchecked,
)
from .foreign import read_certificate
from .inputs.radii import NORMS, radii
from .inputs.trees import tree_radii
from .joins import relational

PROVEN, NOT_PROVEN, CANNOT_CHECK, FOR_THE_FILE = range(4)  # exit codes


def claims_of(model: Model, given: argparse.Namespace) -> list[Claim]:
    """Return the claims of a model on the data that the caller names."""
    if given.table:
        tables = {name: read_columns(path) for name, path in (entry.split("=", 1) for entry in given.table)}
        return relational(model, tables, [entry.split("=", 1) for entry in given.on], given.target)
    columns, rows = read_columns(given.data), read_columns(given.radii) if given.radii else {}
    weight = np.array(columns.pop(given.weights), dtype=float) if given.weights else None
    y = columns.pop(given.target or list(columns)[-1]) if "SVDD" not in model.get("class", "") else None
    stated = np.array(rows.pop("radius"), dtype=float) if "radius" in rows else None
    X, Z = (numbers(held) for held in (columns, rows))
    claims = prove_held(model, X, y, weight)
    if not rows:
        return claims
    return claims + (tree_radii(model, Z, stated) if "forest_" in model else radii(model, Z, stated, given.norm))


def numbers(columns: Columns) -> Array:
    """Return columns of a table as numbers (n, d)."""
    for name, entries in columns.items():
        try:
            np.array(entries, dtype=float)
        except ValueError:
            raise ValueError(f"column {name!r} of the data holds texts: leave it out, or name the --target") from None
    return np.array(list(columns.values()), dtype=float).T.copy()


def one_line(text: str) -> str:
    """Return a text that a file may have written, without what would make another line or another colour of it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text) + "\n"


def say(line: str) -> None:
    """Print a line that a file may have written."""
    sys.stdout.write(one_line(line))


def verdict(claims: list[Claim], stated: Model, given: str | None) -> int:
    """Print what was proven and of which problem; return the exit code."""
    for name, value, proven, holds in claims:
        say(f"{'proven' if holds else 'NOT PROVEN'}: {name}: stated {value:.10g}, found {proven:.10g}")
    if not all(claim.holds for claim in claims):
        return NOT_PROVEN
    sys.stdout.write(f"problem: {json.dumps(stated)}\n")
    text = given if given is None or given.lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
    asked = {} if text is None else json.loads(text)
    other = [name for name in stated if name not in asked or asked[name] != stated[name]]
    if text is not None and not other and asked.keys() <= stated.keys():
        sys.stdout.write("proven for the problem that was given\n")
        return PROVEN
    names = ", ".join(other or sorted(asked.keys() - stated.keys()))
    given_one = "none was given (--problem)" if text is None else f"of the one given differ or lack: {names}"
    say(f"proven for the problem that the file states; {given_one}")
    return FOR_THE_FILE


def folder_verdict(given: argparse.Namespace) -> int:
    """Print what was proven of a folder of evidence, and what nobody can prove from it; return the exit code."""
    folder = Path(given.model)
    held = read_folder(folder)
    for line in unchecked(held):
        say(line)
    for name in sorted({path.name for path in folder.iterdir()} - {STATED, SIGNED, *held["files"]}):
        say(f"not of this evidence: {name}")
    claims, problems = prove_folder(folder, held, Path(given.key).read_bytes() if given.key else None)
    if given.data:
        claims = rows_agree(folder, held, read_columns(given.data), given.target or held["target"]) + claims
    if not problems and all(claim.holds for claim in claims):
        raise ValueError("no statement of this folder says that it is proven")
    return verdict(claims, problems, given.problem)


def main(arguments: list[str] | None = None) -> int:
    """Run the command with these arguments, those of the process by default; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="buttress-verify", description="Prove a model's claims from its file and the data.",
        epilog="Exit codes: 0 proven, 1 not proven, 2 cannot be checked, 3 proven, but no --problem was given like it.")
    for name, count, what in (
            ("model", None, "a model file, a certificate, or a folder of evidence"), ("data", "?", "a CSV of numbers"),
            ("--target", None, "the column of the target, by default the last"),
            ("--weights", None, "the column of the weights"), ("--radii", None, "a CSV of rows whose radii to prove"),
            ("--problem", None, "what was to be solved: JSON, or its file"),
            ("--key", None, "the file of the key of a signature")):
        parser.add_argument(name, nargs=count, help=what)
    parser.add_argument("--norm", choices=NORMS, default=NORMS[0], help="of the radii")
    for name, what in (("--table", "NAME=FILE of a join, for each table"), ("--on", "COLUMN=COLUMN that are equal")):
        parser.add_argument(name, action="append", default=[], help=what)
    given = parser.parse_args(arguments)
    try:
        if Path(given.model).is_dir():
            return folder_verdict(given)
        with open(given.model, "rb") as file:
            other = file.read(1) == b"{"
        model = read_certificate(given.model) if other else read_model(given.model)
        return verdict(claims_of(model, given), problem_of(model), given.problem)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError,
            csv.Error) as error:
        sys.stderr.write(one_line(f"buttress-verify: cannot check: {type(error).__name__}: {error}"))
        return CANNOT_CHECK
