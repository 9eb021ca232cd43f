"""A folder of evidence: every proven statement is proven again from the files, and what it says is what follows.

``evidence.json`` holds ``statements``. One of the kind "proven" names a file that holds a certificate or a model, and
which value follows from it and its rows (:data:`VALUES`); it may say less than that, not more. Beside them files are
compared with their digests, and with a key ``evidence.json`` with its signature. A digest is no proof: who changes a
file can change that too.

:data:`PROOFS` and :data:`CERTIFICATES` say which proof belongs to which model and certificate.
"""

import csv
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import balls, joins, machines
from .core import Array, Claim, Columns, Model, agreed, read_model, single, table
from .foreign import prove_certificate, read_certificate
from .inputs import threatened, trees
from .machines import same_label
from .training import LEAST_SQUARES, TARGETS, prove_flips, prove_moves

Prove = Callable[[Model, Array, Any, Array], list[Claim]]
PROOFS: dict[str, tuple[Callable[[Model], Model], Prove]] = {
    "SVC": (machines.problem, machines.machine), "SVR": (machines.problem, machines.machine),
    "LinearSVC": (machines.problem, machines.hyperplane), "SVDD": (balls.problem, balls.ball),
    "MultiKernelSVDD": (balls.problem, balls.ball), "RobustBoostingClassifier": (trees.problem, trees.sound)}
CERTIFICATES = {LEAST_SQUARES: prove_flips, TARGETS: prove_moves, trees.TREES: trees.prove_trees,
                threatened.THREATENED: threatened.prove_threat}


def prove(model: Model, X: Array, y: Any = None, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a model read by :func:`read_model`, on its training rows X (n, d) and targets y (n,)."""
    if model["class"] not in PROOFS:
        raise ValueError(f"{model['class']} makes no claim that is checked here, but {', '.join(PROOFS)} do.")
    proof, rows = PROOFS[model["class"]][1], table(X)
    weight = np.ones(len(rows)) if weight is None else np.maximum(weight, 0)  # a negative one leaves its row out
    claims = proof(model, rows, y, weight)
    # a proof that rounding spoils is tried again with longer numbers, which are slow
    if len(rows) > 3_000 or all(claim.holds for claim in claims) or not claims[0].holds:
        return claims
    return proof(model, rows.astype(np.longdouble), y, weight)


def prove_held(model: Model, X: Array, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a model or of a certificate."""
    if "certificate" not in model:
        return prove(model, X, y, weight)
    return CERTIFICATES.get(model["problem"]["model"], prove_certificate)(model, X, y, weight)


def problem_of(model: Model) -> Model:
    """Return the problem that a model or a certificate states, as plain JSON."""
    if "certificate" in model:
        return dict(model["problem"])
    stated = joins.problem(model) if model["class"] == "RelationalLinearSVC" else PROOFS[model["class"]][0](model)
    return dict(json.loads(json.dumps(stated, default=lambda value: np.asarray(value).tolist())))


STATED, SIGNED, SCHEMA = "evidence.json", "evidence.sig", "buttress.evidence/1"
SHORTEST_KEY = 16  # bytes
SAME = 1e-9  # by which an entry may differ from the data's, in standard deviations
KINDS = {"proven": "words of what is proven", "measured": "measured", "declared": "declared"}


class StatementProof(NamedTuple):
    """What a statement rests on: the model or certificate, the targets of its rows, its claims, and at which number."""

    held: Model
    y: list[str]
    claims: list[Claim]
    at: float

    def kept(self) -> Array:
        """Say which rows keep their class at ``at`` times the budgets."""
        radius = self.held["claim"]["radius"]
        return np.array([each is not None and each >= self.at for each in radius], bool)

    def right(self) -> Array:
        """Say which rows are predicted as they are labelled."""
        given = [same_label(label) for label in self.held["claim"]["prediction"]]
        return np.array([each == same_label(label) for each, label in zip(given, self.y, strict=True)], bool)

    def needed(self) -> Array:
        """Say which predictions stand as many wrong labels as ``at``."""
        return np.array([each is None or each > self.at for each in self.held["claim"]["needed"]], bool)


ROWS, TRAINING, TARGET = "rows.csv", "training.csv", "label"
VALUES: dict[str, tuple[str, Callable[[StatementProof], float]]] = {  # of which rows, from a proof; a large gap is bad
    "gap": (TRAINING, lambda proof: max(claim.proven for claim in proof.claims if "gap" in claim.name)),
    "rows kept": (ROWS, lambda proof: float(proof.kept().mean())),
    "rows right and kept": (ROWS, lambda proof: float((proof.kept() & proof.right()).mean())),
    "predictions kept": (TRAINING, lambda proof: float(proof.needed().mean()))}


def read_columns(path: Any) -> Columns:
    """Return the columns of a CSV file, by its header."""
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    if len(set(names)) < len(names):
        raise ValueError(f"{Path(path).name} has two columns of one name.")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def read_folder(folder: Path) -> Model:
    """Return what ``evidence.json`` says; ValueError for anything else."""
    held = json.loads((folder / STATED).read_text(encoding="utf-8"), object_pairs_hook=single)
    if held.get("schema") != SCHEMA:
        raise ValueError(f"{STATED} is no evidence of the schema {SCHEMA}.")
    return dict(held)


def prove_folder(folder: Path, held: Model, key: bytes | None) -> tuple[list[Claim], Model]:
    """Return the claims of a folder whose ``evidence.json`` was read, and the problem of each file that proves."""
    found = [agreed(f"digest of {name}", False)
             for name, stated in held["files"].items() if digest_of(folder / inside(name)) != stated]
    if key is not None:
        if len(key) < SHORTEST_KEY or not (folder / SIGNED).is_file():
            raise ValueError(f"The folder has no {SIGNED}, or the key is shorter than {SHORTEST_KEY} bytes.")
        made = hmac.new(key, (folder / STATED).read_bytes(), hashlib.sha256).hexdigest()
        signed = hmac.compare_digest(made, (folder / SIGNED).read_text(encoding="ascii").strip())
        found.append(agreed(f"signature of {STATED}", signed))
    problems: Model = {}
    for statement in held["statements"]:
        if statement["kind"] == "proven":
            claims, problems[inside(statement["rests_on"]["file"])] = prove_statement(folder, statement)
            found += claims
    return found, problems | ({"units": held["units"]} if problems else {})


def prove_statement(folder: Path, statement: Model) -> tuple[list[Claim], Model]:
    """Return the claim of a statement, before it those of its proof that do not hold, and its problem."""
    rests = statement["rests_on"]
    if not float(rests["at"]) >= 0:  # of fewer wrong labels than none also wrong predictions are kept
        raise ValueError(f"A statement is proven at a number >= 0. Got {rests['at']!r}.")
    rows, value_of = VALUES[rests["value"]]
    path, columns = folder / inside(rests["file"]), read_columns(folder / rows)
    if path.suffix not in (".json", ".buttress"):  # a file called "units" would hide its problem behind theirs
        raise ValueError(f"A proof is a .json or .buttress file. Got {path.name!r}.")
    model = read_certificate(path) if path.suffix == ".json" else read_model(path)
    y = columns.pop(TARGET)
    claims = prove_held(model, np.array(list(columns.values()), float).T.copy(), y)
    value, stated = value_of(StatementProof(model, y, claims, float(rests["at"]))), float(statement["value"])
    room = 1e-9 * abs(value)  # share by which a stated value may be off, being written in decimals
    says = stated >= value - room if rests["value"] == "gap" else stated <= value + room
    false = [claim for claim in claims if not claim.holds]
    of = len(model["claim"]["needed"]) if rests["value"] == "predictions kept" else len(y)
    name = f"{rests['value']} at {float(rests['at'])!r} ({rests['file']}, {of} rows)"
    return [*false, Claim(name, stated, value, not false and says)], problem_of(model)


def rows_agree(folder: Path, held: Model, data: Columns, target: str) -> list[Claim]:
    """Return the claim that the rows of a folder are those of the examiner's own data, as far as these are numbers.

    A column of numbers is (value - mean) / scale of the data's, a category a 0/1 column a level, or its code.
    """
    if not (folder / ROWS).is_file():
        raise ValueError(f"The folder has no {ROWS} to compare the data with. Leave them out.")
    rows, names = read_columns(folder / ROWS), [unit["name"] for unit in held["units"]]
    if target not in data or target in names or len(set(names)) < len(names) or not set(names) <= data.keys():
        raise ValueError(f"The folder's units are of other columns than the data's, or {target!r} is none of these.")
    given = rows.pop(TARGET)
    if len(given) != len(data[target]):
        return [Claim(f"{ROWS} has as many rows as the data", len(given), len(data[target]), False)]
    found = [same_label(label) for label in given] == [same_label(label) for label in data[target]]
    asked, wrong, prepared = 0, 0 if found else len(given), list(rows.values())
    for unit in held["units"]:
        wide = 1 if unit["levels"] is None or unit["codes"] else len(unit["levels"])
        own, prepared = np.array(prepared[:wide], float).T, prepared[wide:]
        for entry, row in zip(data[unit["name"]], own, strict=True):
            known = entry_of(unit, entry)
            asked += known is not None
            wrong += known is not None and not np.allclose(known, row, rtol=SAME, atol=SAME)
    agree = not wrong and not prepared and asked > 0
    return [agreed(f"{ROWS} holds the rows of the data given ({asked} entries)", agree)]


def entry_of(unit: Model, entry: str) -> list[float] | None:
    """Return an entry of the data as the model takes it; None where that is not known: a gap, or another notation."""
    levels = unit["levels"]
    if levels is not None:
        known = [str(level) for level in levels]
        if entry not in known:
            return None
        return [float(known.index(entry))] if unit["codes"] else [float(entry == level) for level in known]
    if not (np.isfinite(unit["mean"]) and 0 < unit["scale"] < np.inf):
        raise ValueError(f"The unit of column {unit['name']!r} is no finite mean and no scale above 0.")
    try:
        value = (float(entry) - unit["mean"]) / unit["scale"]
    except ValueError:
        return None
    return [value] if np.isfinite(value) else None


def inside(name: Any) -> str:
    """Return the name of a file of the folder; ValueError for one that leads out of it."""
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
        raise ValueError(f"A folder of evidence names files in it. Got {name!r}.")
    return name


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unchecked(held: Model) -> list[str]:
    """Return a line for each statement that nobody can prove from the files, for the words of those that somebody can,
    and one on digests; ValueError for a statement of another kind, which could look like a proof.
    """
    other = [statement["kind"] for statement in held["statements"] if statement["kind"] not in KINDS]
    if other:
        raise ValueError(f"A statement is one of {', '.join(KINDS)}. Got {other[0]!r}.")
    kept = f"the digests of {len(held['files'])} files are compared: no proof, who changes a file can change them too"
    return [kept] + [f"{KINDS[statement['kind']]}, not checked: {statement['name']}: {statement['says']}"
                     for statement in held["statements"]]
