"""What evidence says, on what each statement rests, and the folder it is in.

The folder holds evidence.json with the digests of all files, the page, the table of rows, and the files of proofs.
"""

import hashlib
import hmac
import io
import json
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from buttress.files.disk import replace_files
from buttress.verify.core import Model
from buttress.verify.evidence import SCHEMA, SIGNED, STATED


@dataclass(frozen=True)
class Statement:
    """One sentence of a folder of evidence.

    Parameters
    ----------
    kind : {"proven", "measured", "declared"}
        Proven again from the files by ``buttress-verify``; seen on some rows; or said by the person who wrote it.
    name : str
        Short, such as "accuracy".
    value : float or None
    says : str
        The sentence.
    rests_on : dict
        Of what is proven the ``file`` of the certificate, and which ``value`` follows ``at`` which number; of what is
        measured the ``rows``, ``interval``, ``seed`` and ``by``.
    """

    kind: str
    name: str
    value: float | None
    says: str
    rests_on: Model = field(default_factory=dict)

    def to_dict(self) -> Model:
        """Return it as plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Proven:
    """What a kind of proof came to: statements with their files, or why there are none; and the radii of rows."""

    statements: list[Statement]
    files: dict[str, bytes]
    why_not: str = ""
    radius: list[float | None] = field(default_factory=list)


PAGE, TABLE, MODEL = "evidence.html", "rows.parquet", "model.buttress"
TEMPLATE = Path(__file__).with_name("evidence.html.jinja")
OWN = (STATED, SIGNED, MODEL, PAGE, TABLE, "rows.csv", "training.csv", "moved.json", "labels.json", "optimum.json",
       "optimum.buttress")  # what an earlier folder may hold


@dataclass(frozen=True)
class EvidenceReport:
    """What a folder says.

    Parameters
    ----------
    statements : list of Statement
    not_proven : dict of str to str
        Why there is no proof of "radii", "optimum" and "labels", where there is none.
    about : dict
        The model, the data, versions, seed, threat, and the headings that were left blank.
    rows : dict of str to list
        A row of the data each: ``row``, ``label``, ``prediction`` and, of classifiers, ``radius``, None for none.
    """

    statements: list[Statement]
    not_proven: dict[str, str]
    about: Model
    rows: dict[str, list[Any]]

    def counts(self) -> dict[str, int]:
        """Return how many statements there are of each kind."""
        kinds = [statement.kind for statement in self.statements]
        return {kind: kinds.count(kind) for kind in ("proven", "measured", "declared")}


def check_folder(folder: Path) -> None:
    """Refuse a folder with files that are called like ours, but are not as earlier evidence there lists them."""
    listed = _listed(folder / STATED)
    for path in (folder / name for name in OWN):
        if path.exists() and (path.is_dir() or (
                not listed if path.name in (STATED, SIGNED) else listed.get(path.name) != _digest(path.read_bytes()))):
            raise ValueError(f"Folder {str(folder)!r} holds {path.name!r}, which is of no earlier evidence and would "
                             "be lost. Name a new folder.")


def _listed(stated: Path) -> dict[str, str]:
    """Return the digests of the files that an evidence.json lists, none of what is no such file."""
    try:
        said = json.loads(stated.read_bytes())
        return dict(said["files"]) if said["schema"] == SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write(evidence: EvidenceReport, files: dict[str, bytes], folder: Path, key: bytes | None) -> None:
    """Write a folder, made if need be; what an earlier evidence left in it goes first."""
    files = {**files, **_table(evidence.rows), **_page(evidence)}
    stated = {"schema": SCHEMA, **evidence.about, "not_proven": evidence.not_proven,
              "statements": [statement.to_dict() for statement in evidence.statements],
              "files": {name: _digest(content) for name, content in sorted(files.items())}}
    # it goes last and comes first, so that what a kill leaves is known as ours
    files = {STATED: (json.dumps(stated, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode(), **files}
    if key is not None:
        files[SIGNED] = hmac.new(key, files[STATED], hashlib.sha256).hexdigest().encode()
    replace_files(folder, {name: partial(Path.write_bytes, data=content) for name, content in files.items()}, OWN[::-1])


def _table(rows: dict[str, list[Any]]) -> dict[str, bytes]:
    """Return the table of rows as Parquet, nothing where polars is missing."""
    if not find_spec("polars"):
        return {}
    import polars as pl

    written = io.BytesIO()
    pl.DataFrame(rows, strict=False).write_parquet(written)
    return {TABLE: written.getvalue()}


def _page(evidence: EvidenceReport) -> dict[str, bytes]:
    """Return the page that needs nothing else, nothing where jinja2 is missing."""
    if not find_spec("jinja2"):
        return {}
    import jinja2

    made = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = made.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        evidence=evidence, rows=list(zip(*evidence.rows.values(), strict=True)), limit=500)
    return {PAGE: text.encode()}
