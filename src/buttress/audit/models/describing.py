"""What a model file says of itself, as lines of text."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from buttress._suggest import listed
from buttress.audit.models.table_model import TableModel
from buttress.persistence import FileContent

INDENT = "  "
SHOWN = 30  # of columns, in a line


def describe(file: FileContent) -> str:
    """Return what is in a model file: versions, the model, its columns and classes, and its certificate."""
    lines = [f"format {file.version}, {file.bytes:,} bytes, written {file.written_at or 'at an unknown time'} by "
             + ", ".join(f"{name} {version}" for name, version in file.written_by.items())]
    model = file.model
    lines += _of_table(model) if isinstance(model, TableModel) else _of_estimator(model)
    return "\n".join(lines)


def _of_table(model: TableModel) -> list[str]:
    score, trained = model.score, model.trained_on
    lines = [f"model: {model.estimator}, {model.task} of {model.target!r}",
             f"trained on: {trained['rows']} rows of {trained['source']}"]
    if model.written:
        lines.append(f"classes: {', '.join(model.written)}")
    lines.append(f"held-out {score['metric']}: {float(score['value']):.3g} ({score['interval']}) on {score['rows']} "
                 "rows, of a fit to the others")
    for kind, names in (("numbers", model.numeric), ("categories", model.categorical)):
        if names:
            lines.append(f"columns of {kind}: {listed(names, SHOWN, str)}")
    lines += [f"column {name!r}: {notation.name}" for name, notation in model.read_as.items()]
    notes = cast(list[str], trained["notes"])
    return [*lines, *_of_estimator(model.pipeline[-1]), *(f"note: {note}" for note in notes)]


def _of_estimator(model: Any, depth: int = 0) -> list[str]:
    """Return the estimator with its steps, what it was fitted on, and its certificate."""
    lines = [f"{INDENT * depth}{' '.join(repr(model).split()) if not hasattr(model, 'steps') else 'Pipeline'}"]
    names = getattr(model, "feature_names_in_", None)
    if names is not None and depth == 0:
        lines.append(f"columns: {listed([str(name) for name in names], SHOWN, str)}")
    for _, step in getattr(model, "steps", ()):
        lines += _of_estimator(step, depth + 1)
    return [*lines, *(f"{INDENT * (depth + 1)}{fact}" for fact in _facts(model))]


def _facts(model: object) -> Iterator[str]:
    classes = getattr(model, "class_texts_", getattr(model, "classes_", None))
    if classes is not None and not hasattr(model, "steps"):
        yield f"classes: {listed([str(word) for word in classes], SHOWN, str)}"
    if hasattr(model, "objective_interval_"):
        low, high = model.objective_interval_
        yield f"optimum within [{low:.6g}, {high:.6g}]"
    for name in ("gap_", "dual_gap_", "duality_gap_", "n_join_rows_", "n_iter_", "n_support_", "contamination_",
                     "converged_"):
        value = getattr(model, name, None)
        if value is not None and not hasattr(model, "steps") and np.size(value) <= SHOWN:
            entries = np.ravel(value).tolist()
            yield f"{name}: {' '.join(f'{entry:.4g}' if isinstance(entry, float) else str(entry) for entry in entries)}"
