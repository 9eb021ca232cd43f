"""Predictions of a kept model for the rows of a file, and the file they are written to."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from buttress._suggest import near
from buttress._types import Labels
from buttress.audit.models.table_model import TableModel

Columns = Mapping[str, object]


PARQUET = (".parquet", ".pq")


def check_format(output: Path) -> None:
    """Refuse a file of rows whose name is that of another format."""
    if output.suffix.lower() not in (".csv", *PARQUET):
        raise ValueError(f"Rows are written as CSV or Parquet. Got --output {str(output)!r}: end its name in "
                         ".csv, .parquet or .pq.")


def remarks(model: object, columns: Columns) -> list[str]:
    """Return a sentence for each column of new rows with entries that the model could not read, or has not seen."""
    return model.remarks(columns) if isinstance(model, TableModel) else []


def predictions(model: object, columns: Columns) -> dict[str, Labels]:
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


def rows_for(model: object, columns: Columns) -> object:
    """Return the columns as a model that was not trained here takes them."""
    if not hasattr(model, "predict"):
        raise ValueError(f"The file holds a {type(model).__name__}, which predicts nothing.")
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        if len(columns) != (width := getattr(model, "n_features_in_", len(columns))):
            raise ValueError(f"The model was fitted on {width} columns without names. The file has {len(columns)}.")
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns.values()])
    missing = [str(name) for name in names if name not in columns]
    if missing:
        raise ValueError(f"The data lack the columns {', '.join(map(repr, missing))}, which the model was trained on."
                         f"{near(missing[0], list(columns))}")
    library = import_module("pandas" if find_spec("pandas") else "polars")
    return library.DataFrame({name: np.asarray(columns[name]) for name in names})


def write(answer: Mapping[str, Labels], output: Path) -> None:
    """Write the columns as Parquet if the name says so, else as CSV."""
    try:
        import polars as pl
    except ImportError:
        raise ImportError("Writing predictions needs polars. Install it with: pip install 'buttress[report]'") from None
    frame = pl.DataFrame({name: column.tolist() for name, column in answer.items()}, strict=False)
    if output.suffix.lower() in PARQUET:
        frame.write_parquet(output)
    else:
        frame.write_csv(output)
