"""What a kept model answers: predictions for the rows of a file, written to another, and what it says of itself."""

import io
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np

from buttress._suggest import listed
from buttress._types import Labels
from buttress.audit.measuring.cells import shown
from buttress.audit.models.table_model import TableModel
from buttress.audit.reading.entries import check_there, python_times
from buttress.files.disk import write_bytes
from buttress.persistence import FileContent

TableColumns = Mapping[str, object]


PARQUET = (".parquet", ".pq")


def check_format(output: Path) -> None:
    """Refuse a file of rows whose name is that of another format."""
    if output.suffix.lower() not in (".csv", *PARQUET):
        raise ValueError(f"Rows are written as CSV or Parquet. Got --output {str(output)!r}: end its name in "
                         ".csv, .parquet or .pq.")


def remarks(model: object, columns: TableColumns) -> dict[str, str]:
    """Return a sentence for each column of new rows with entries that the model could not read, or has not seen."""
    return model.remarks_by_column(columns) if isinstance(model, TableModel) else {}


def predictions(model: object, columns: TableColumns) -> dict[str, Labels]:
    """Return the columns of a file of predictions: ``row``, ``prediction``, and ``probability`` where there is one.

    The probability is that of the predicted class. Models of ours and scikit-learn's are asked with a frame of the
    columns they were fitted on, or with all columns as numbers if they know no names.
    """
    if isinstance(model, TableModel):
        rows: Any = model.rows_of(columns)
        found, asked = model.pipeline.predict(rows), model.pipeline
        words = model.in_words(found, model.written) if model.written else found
    else:
        rows, asked = rows_for(model, columns), model
        found = words = asked.predict(rows)  # type: ignore[attr-defined]
    answer = {"row": np.arange(len(found)), "prediction": np.asarray(words)}
    if hasattr(asked, "predict_proba") and hasattr(asked, "classes_"):
        answer["probability"] = np.asarray(asked.predict_proba(rows)).max(axis=1)
    return answer


def rows_for(model: object, columns: TableColumns) -> object:
    """Return the columns as a model that was not trained here takes them."""
    taken = columns_for(model, columns)
    if not hasattr(model, "feature_names_in_"):
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in taken.values()])
    library = import_module("pandas" if find_spec("pandas") else "polars")
    return library.DataFrame({name: np.asarray(column) for name, column in taken.items()})


def columns_for(model: object, columns: TableColumns) -> TableColumns:
    """Return the columns that a model which was not trained here takes, in its order."""
    if not hasattr(model, "predict"):
        raise ValueError(f"The file holds a {type(model).__name__}, which predicts nothing.")
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        given = len(list(columns))  # a frame's own length is its rows
        if given != (width := getattr(model, "n_features_in_", given)):
            raise ValueError(f"The model was fitted on {width} columns without names. The file has {given}.")
        return columns
    check_there(map(str, names), columns, "The data", "the model was trained on")
    return {str(name): columns[name] for name in names}


def write(answer: Mapping[str, Labels], output: Path) -> None:
    """Write the columns as Parquet if the name says so, else as CSV, whole or not at all."""
    try:
        import polars as pl
    except ImportError:
        raise ImportError("Writing predictions needs polars. Install it with: pip install 'buttress[report]'") from None
    frame = pl.DataFrame({name: python_times(column).tolist() for name, column in answer.items()}, strict=False)
    written = io.BytesIO()
    (frame.write_parquet if output.suffix.lower() in PARQUET else frame.write_csv)(written)
    write_bytes(output, [written.getbuffer()])


INDENT = "  "
SHOWN = 30  # of columns, in a line


def contents(file: FileContent) -> str:
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
    lines.append(f"held-out {score['metric']}: {shown(float(score['value']), 3)} ({score['interval']}) on "
                 f"{score['rows']} rows, of a fit to the others")
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
