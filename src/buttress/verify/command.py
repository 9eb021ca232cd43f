"""The command: reads model, data and the caller's problem, prints what was proven, and says for which problem."""

import argparse
import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import balls, joins, machines, trees
from .core import Array, Claim, Columns, Model, read_model, table
from .foreign import prove_certificate, read_certificate
from .joins import relational
from .moves import TARGETS, prove_moves
from .radii import NORMS, radii
from .training import LEAST_SQUARES, prove_flips

PROVEN, NOT_PROVEN, CANNOT_CHECK, FOR_THE_FILE = range(4)  # exit codes
MOST_LONG = 3_000  # rows of which a proof that rounding spoils is tried again with longer numbers, which are slow
Proof = Callable[[Model, Array, Any, Array], list[Claim]]
PROOFS: dict[str, tuple[Callable[[Model], Model], Proof]] = {
    "SVC": (machines.problem, machines.machine), "SVR": (machines.problem, machines.machine),
    "LinearSVC": (machines.problem, machines.hyperplane), "SVDD": (balls.problem, balls.ball),
    "MultiKernelSVDD": (balls.problem, balls.ball), "RobustBoostingClassifier": (trees.problem, trees.sound)}


def prove(model: Model, X: Array, y: Any = None, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a model read by :func:`read_model`, on its training rows X (n, d) and targets y (n,)."""
    if model["class"] not in PROOFS:
        raise ValueError(f"{model['class']} makes no claim that is checked here, but {', '.join(PROOFS)} do.")
    proof, rows = PROOFS[model["class"]][1], table(X)
    weight = np.ones(len(rows)) if weight is None else weight
    claims = proof(model, rows, y, weight)
    if len(rows) > MOST_LONG or all(claim.holds for claim in claims) or not claims[0].holds:
        return claims
    return proof(model, rows.astype(np.longdouble), y, weight)


def problem_of(model: Model) -> Model:
    """Return the problem that a model or a certificate states, as plain JSON."""
    if "certificate" in model:
        return dict(model["problem"])
    stated = joins.problem(model) if model["class"] == "RelationalLinearSVC" else PROOFS[model["class"]][0](model)
    return dict(json.loads(json.dumps(stated, default=lambda value: np.asarray(value).tolist())))


def read_columns(path: str) -> Columns:
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def claims_of(model: Model, given: argparse.Namespace) -> list[Claim]:
    """Return the claims of a model on the data that the caller names."""
    if given.table:
        tables = {name: read_columns(path) for name, path in (entry.split("=", 1) for entry in given.table)}
        return relational(model, tables, [entry.split("=", 1) for entry in given.on], given.target)
    columns, rows = read_columns(given.data), read_columns(given.radii) if given.radii else {}
    weight = np.array(columns.pop(given.weights), dtype=float) if given.weights else None
    y = columns.pop(given.target or list(columns)[-1]) if "SVDD" not in model.get("class", "") else None
    stated = np.array(rows.pop("radius"), dtype=float) if "radius" in rows else None
    X, Z = (np.array(list(held.values()), dtype=float).T.copy() for held in (columns, rows))
    if "certificate" in model:
        others = {LEAST_SQUARES: prove_flips, TARGETS: prove_moves, trees.TREES: trees.prove_trees}
        return others.get(model["problem"]["model"], prove_certificate)(model, X, y, weight)
    if not rows:
        return prove(model, X, y, weight)
    found = trees.tree_radii(model, Z, stated) if "forest_" in model else radii(model, Z, stated, given.norm)
    return prove(model, X, y, weight) + found


def verdict(claims: list[Claim], stated: Model, given: str | None) -> int:
    """Print what was proven and of which problem; return the exit code."""
    for name, value, proven, holds in claims:
        sys.stdout.write(f"{'proven' if holds else 'NOT PROVEN'}: {name}: stated {value:.10g}, found {proven:.10g}\n")
    if not all(claim.holds for claim in claims):
        return NOT_PROVEN
    sys.stdout.write(f"problem: {json.dumps(stated)}\n")
    text = given if given is None or given.lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
    asked = {} if text is None else json.loads(text)
    other = [name for name in stated if name not in asked or asked[name] != stated[name]]
    if not other and asked.keys() <= stated.keys():
        sys.stdout.write("proven for the problem that was given\n")
        return PROVEN
    names = ", ".join(other or sorted(asked.keys() - stated.keys()))
    sys.stdout.write(f"proven for the problem that the file states; of the one given differ or lack: {names}\n")
    return FOR_THE_FILE


def main(arguments: list[str] | None = None) -> int:
    """Run the command with these arguments, those of the process by default; return its exit code."""
    parser = argparse.ArgumentParser(prog="buttress-verify", description="Prove a model's claims from file and data.")
    for name, count in (("model", None), ("data", "?"), ("--target", None), ("--weights", None), ("--radii", None),
                        ("--problem", None)):
        parser.add_argument(name, nargs=count)
    parser.add_argument("--norm", choices=NORMS, default=NORMS[0])
    for name in ("--table", "--on"):
        parser.add_argument(name, action="append", default=[])
    given = parser.parse_args(arguments)
    try:
        with open(given.model, "rb") as file:
            other = file.read(1) == b"{"
        model = read_certificate(given.model) if other else read_model(given.model)
        return verdict(claims_of(model, given), problem_of(model), given.problem)
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        sys.stderr.write(f"buttress-verify: cannot check: {error!r}\n")
        return CANNOT_CHECK
