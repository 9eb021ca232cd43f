"""From a fitted model and labelled rows to a folder of evidence, and what is measured on these rows.

Each number measured stands with its interval, rows, seed and what measured it.
"""

import platform
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from buttress._checks import check_number
from buttress._types import Labels
from buttress.audit.measuring.cells import Cell, accuracy, rmse
from buttress.audit.measuring.threatened import Units, behind
from buttress.audit.models.answering import TableColumns, rows_for
from buttress.audit.models.attacking import Posed, attack, default_threat, pose
from buttress.audit.models.table_model import TableModel, codes_of, labelled
from buttress.audit.reading.table import targets_as_before
from buttress.evidence.certificates import as_csv, prove_labels, prove_optimum, prove_rows
from buttress.evidence.folder import MODEL, EvidenceReport, Proven, Statement, check_folder, write
from buttress.files.container import check_key
from buttress.persistence import save
from buttress.threats import ThreatModel
from buttress.verify.core import Model
from buttress.verify.evidence import ROWS


def of_labels(y: Labels, predicted: Labels) -> list[Statement]:
    """Return the accuracy, that of the commonest class, and the share that is right of each class."""
    right = predicted == y
    commonest = max(sorted(set(y.tolist())), key=y.tolist().count)
    each = [(label, y == label) for label in sorted(set(y.tolist()))]
    return [_measured("accuracy", accuracy(right), len(y), "of the rows are predicted right"),
            _measured("accuracy of the commonest class", accuracy(y == commonest), len(y),
                      f"would be right if {commonest!r} were predicted for every row"),
            *(_measured(f"right of class {label}", accuracy(right[rows]), int(rows.sum()),
                        f"of the rows of class {label!r} are predicted right") for label, rows in each)]


def of_numbers(y: Labels, predicted: Labels, seed: int) -> list[Statement]:
    """Return the root mean squared error, and that of the mean of these rows."""
    target = y.astype(np.float64)
    error, least = rmse(target - predicted, seed), rmse(target - target.mean(), seed)
    return [_measured("root mean squared error", error, len(y), "in units of the target", seed),
            _measured("error of the mean", least, len(y),
                      "if the mean of these rows were predicted for every row", seed)]


def under_attack(posed: Posed, allowed: ThreatModel, eps: float, seed: int) -> Statement:
    """Return the accuracy that an attack leaves: the true one is no larger."""
    found = attack(posed, allowed, [eps], rows=len(posed.y), seed=seed)
    rows = found.rows
    blind = ". The attack was blind: near most rows no score changed, so this says nothing" if found.blind[-1] else ""
    cell = accuracy(np.arange(rows) < round(found.attacked[-1] * rows))
    return _measured("accuracy under attack", cell, rows,
                     f"of the rows are still right after {found.how}: under the threat it is at most this{blind}", seed,
                     "attack")


def _measured(name: str, cell: Cell, rows: int, says: str, seed: int | None = None, by: str = "predict") -> Statement:
    return Statement("measured", name, cell.value,
                     f"{cell.value:.4g} (95% interval {cell.low:.3g} to {cell.high:.3g}) {says}.",
                     {"rows": rows, "interval": [cell.low, cell.high], "seed": seed, "by": by})


HEADINGS = ("purpose", "data", "limits")  # what a person may declare
PACKAGES = ("buttress", "numpy", "scikit-learn")  # whose versions decide what is written
UNKNOWN = "the training rows were not given"


@dataclass
class _Evidence:
    """What was found of a model: proofs by their names, what was measured, the rows, and the threat in words."""

    proofs: dict[str, Proven]
    measured: list[Statement]
    rows: dict[str, list[Any]]
    threat: str = "none: of a regressor nothing is proven about moved rows"
    units: list[Model] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


def write_evidence(
    model: object,
    columns: TableColumns,
    y: object,
    target_name: str,
    folder: str | Path,
    *,
    training: tuple[TableColumns, object] | None = None,
    threat: ThreatModel | None = None,
    eps: float | None = None,
    declared: Mapping[str, str] | None = None,
    key: bytes | None = None,
    random_state: int = 0,
) -> EvidenceReport:
    """Write what is proven, measured and declared of a fitted model into a folder, for ``buttress-verify`` to recheck.

    Parameters
    ----------
    model : fitted classifier or regressor
        Of ``buttress train``, of this package, of scikit-learn, or whatever has ``predict``, and ``classes_`` if it is
        a classifier.
    columns, y, target_name
        Labelled rows that the model has not seen: columns by name, the labels, and what these are called.
    folder : path
        Made if need be; files of earlier evidence in it are replaced.
    training : (columns, y) or None
        The rows it was fitted to, for proofs of its optimum and of what wrong labels could change. Rows without a
        label are left out, as by ``buttress train``.
    threat : ThreatModel or None
        By default all numbers move, in standard deviations, and one cell is swapped besides.
    eps : float or None
        A multiple of the threat's budgets; by default 1, and .1 standard deviations without a threat.
    declared : mapping of "purpose", "data" and "limits" to str
        What a person says; what is left out is listed as left blank.
    key : bytes or None
        Signs ``evidence.json``, and by the digests in it all files.
    random_state : int
        Of attacks.

    Returns
    -------
    EvidenceReport

    Raises
    ------
    ValueError
        For data that do not suit the model, other headings, a short key, a negative eps, and a folder with files of
        yours that are called like those of evidence.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from buttress import SVC
    >>> from buttress.evidence import write_evidence
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = SVC().fit(X[::2], y[::2])
    >>> folder = tempfile.mkdtemp()
    >>> found = write_evidence(model, dict(X[1::2]), y[1::2], "species", folder, training=(dict(X[::2]), y[::2]))
    >>> found.counts()
    {'proven': 3, 'measured': 6, 'declared': 0}
    """
    said = _declared(declared or {})
    check_folder(Path(folder))
    check_key(key)
    share = check_number("eps", (1.0 if threat else 0.1) if eps is None else eps, 0, closed="left")
    training = labelled(*training) if training else None
    classifies = model.task == "classification" if isinstance(model, TableModel) else hasattr(model, "classes_")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # a model fitted on a frame
        found = (_of_classifier(model, columns, y, target_name, training, threat, share, random_state) if classifies
                 else _of_regressor(model, columns, y, target_name, training, random_state))
    content = _model_file(model)
    files = found.files | content
    for proof in found.proofs.values():
        files |= proof.files
    proven = [statement for proof in found.proofs.values() for statement in proof.statements]
    called = model.estimator if isinstance(model, TableModel) else type(model).__name__
    about = {"model": called, "target": target_name, "threat": found.threat, "units": found.units, "seed": random_state,
             "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
             "model_file": "kept" if content else "none: this kind of model cannot be kept as a file",
             "left_blank": [heading for heading in HEADINGS if heading not in (declared or {})]}
    reasons = {name: proof.why_not for name, proof in found.proofs.items() if proof.why_not}
    evidence = EvidenceReport(proven + found.measured + said, reasons, about, found.rows)
    write(evidence, files, Path(folder), key)
    return evidence


def _of_classifier(
    model: object, columns: TableColumns, y: Any, target: str, training: tuple[TableColumns, Any] | None,
    threat: ThreatModel | None, share: float, seed: int,
) -> _Evidence:
    posed = pose(model, columns, y, target)
    allowed = default_threat(posed, 1) if threat is None else threat
    words = [str(word) for word in (model.written if isinstance(model, TableModel) else posed.estimator.classes_)]
    predicted = np.asarray(posed.estimator.predict(posed.X))
    labels, given = (np.array(words)[np.searchsorted(posed.estimator.classes_, part)] for part in (posed.y, predicted))
    text = f"Times {share:g}: {allowed}"
    inner = behind(allowed, posed.units, posed.X).scaled(share)
    radii = prove_rows(posed.estimator, posed.X, words, labels.tolist(), inner, text)
    proofs = {"radii": radii}
    if training is None:
        proofs |= {name: Proven([], {}, UNKNOWN) for name in ("optimum", "labels")}
    else:
        fitted, old = _as_fitted(model, training[0])
        goals = codes_of(model, training[1], target)
        proofs["optimum"] = prove_optimum(fitted, old, goals)
        proofs["labels"] = prove_labels(fitted, old, goals, _as_fitted(model, columns)[1], words)
    measured = [*of_labels(labels, given), under_attack(posed, allowed, share, seed)]
    rows = {"row": list(range(len(labels))), "label": labels.tolist(), "prediction": given.tolist(),
            "radius": radii.radius or [None] * len(labels)}
    return _Evidence(proofs, measured, rows, text, _units(posed.units), {ROWS: as_csv(posed.X, labels)})


def _units(units: Units) -> list[Model]:
    """Return how the columns of rows.csv come from those of the data: numbers, then categories."""
    plain = [{"name": name, "mean": units.mean[name], "scale": units.scale[name], "levels": None, "codes": False}
             for name in units.numeric]
    return plain + [{"name": name, "levels": [str(level) for level in levels], "codes": units.native}
                    for name, levels in units.coded.items()]


def _of_regressor(
    model: object, columns: TableColumns, y: object, target: str, training: tuple[TableColumns, object] | None,
    seed: int,
) -> _Evidence:
    estimator, X = _as_fitted(model, columns)
    numbers = _numbers(model, y, target)
    predicted = np.asarray(estimator.predict(X), dtype=np.float64).ravel()
    proof = Proven([], {}, UNKNOWN) if training is None else (
        prove_optimum(*_as_fitted(model, training[0]), _numbers(model, training[1], target)))
    rows = {"row": list(range(len(numbers))), "label": numbers.tolist(), "prediction": predicted.tolist()}
    return _Evidence({"optimum": proof}, of_numbers(numbers, predicted, seed), rows)


def _as_fitted(model: Any, columns: TableColumns) -> tuple[Any, Any]:
    """Return what predicts, and rows as it was fitted to them."""
    return (model.pipeline, model.rows_of(columns)) if isinstance(model, TableModel) else (
        model, rows_for(model, columns))


def _numbers(model: Any, y: object, target: str) -> Labels:
    """Return targets as numbers; ValueError for what is none."""
    return targets_as_before(target, y, model.read_as.get(target) if isinstance(model, TableModel) else None)


def _declared(declared: Mapping[str, str]) -> list[Statement]:
    """Return what a person says, as statements; ValueError for another heading."""
    unknown = [heading for heading in declared if heading not in HEADINGS]
    if unknown:
        raise ValueError(f"Declared are {', '.join(HEADINGS)}. Got {unknown[0]!r}.")
    return [Statement("declared", heading, None, str(text)) for heading, text in declared.items()]


def _model_file(model: object) -> dict[str, bytes]:
    """Return the model as a file, nothing where it cannot be kept as one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            save(model, Path(folder) / MODEL)
        except (TypeError, ValueError):
            return {}
        return {MODEL: (Path(folder) / MODEL).read_bytes()}
