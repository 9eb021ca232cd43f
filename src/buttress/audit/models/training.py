"""Training of a model that is to be kept: on all rows, with its score on rows held out of a first fit."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from buttress._types import Labels, Supervised
from buttress.audit.baselines import OF_LOG, baselines, reads_columns
from buttress.audit.contenders import contenders
from buttress.audit.measuring.cells import accuracy, rmse
from buttress.audit.measuring.fits import answers
from buttress.audit.models.table_model import TableModel
from buttress.audit.reading.entries import as_list
from buttress.audit.reading.source import csv_options, kind_of, packing, unpacked
from buttress.audit.reading.split import split
from buttress.audit.reading.table import DataTable
from buttress.audit.writing.words import family_of


def estimators(table: DataTable, eps: float, seed: int) -> dict[str, Supervised]:
    """Return what the audit compares, unfitted, by name."""
    return contenders(table.task, eps, seed) | baselines(table, seed)


def named(short: str, entries: dict[str, Supervised]) -> str:
    """Return the name of the audit's estimator that the command calls ``short``."""
    found = {f"{family_of(name) or name.split()[0]}{'-log' * name.endswith(OF_LOG)}": name for name in entries}
    if short not in found:
        raise ValueError(f"--estimator {short} does not suit this target. Use one of {', '.join(found)}.")
    return found[short]


def train(
    table: DataTable, name: str, estimator: Supervised, *, source: str, written: dict[str, str],
    seed: int = 0, max_time: float | None = None,
) -> TableModel:
    """Return a model of all rows of ``table``, with the score that a fit to most of them had on the others.

    ``written`` are the texts of the classes in a file, by class; those without one are written as they are.
    """
    rows = table.array()
    train_rows, test_rows, _ = split(table, seed)
    first = _fit(table, name, estimator, rows[train_rows], table.target[train_rows], max_time)
    score = score_of(answers(first, rows[test_rows]), table.target[test_rows], table.task, seed)
    pipeline = _fit(table, name, estimator, rows, table.target, max_time)
    return model_of(table, name, pipeline, source, written, score)


def model_of(
    table: DataTable, name: str, pipeline: Pipeline, source: str, written: dict[str, str],
    score: dict[str, float | str],
) -> TableModel:
    """Return a pipeline behind the columns of a table, with the words for its classes; arguments as of :func:`train`.
    """
    values = as_list(table.given_target)
    first = {code: values[place] for place, code in zip(table.places[::-1].tolist(), table.target[::-1].tolist(),
                                                        strict=True)}
    given = [word if isinstance(word := first[code], bool | int | float | str | np.generic) else code  # bytes as text
             for code in np.unique(table.target).tolist()] if table.classifies else []
    read_as = {column: notation for column, notation in table.read_as.items() if column != table.target_name}
    return TableModel(
        table.target_name, table.task, name, pipeline, list(table.numeric), list(table.categorical), read_as, given,
        [written.get(str(word), str(word)) for word in given], score,
        {"source": source, "rows": len(table), "notes": list(table.notes)})


def _fit(
    table: DataTable, name: str, estimator: Supervised, rows: Labels, y: Labels, max_time: float | None
) -> Pipeline:
    preparation = table.native() if reads_columns(name) else table.preparation()
    model: Any = clone(estimator)
    if max_time is not None and "max_time" in model.get_params():
        model.set_params(max_time=max_time)
    X = np.asarray(preparation.fit_transform(rows), dtype=np.float64)
    return Pipeline([("columns", preparation), ("model", model.fit(X, y))])


def score_of(predicted: Labels, y: Labels, task: str, seed: int) -> dict[str, float | str]:
    """Return the score of predictions of held-out rows, its metric, interval and rows."""
    metric = "accuracy" if task == "classification" else "RMSE"
    cell = accuracy(predicted == y) if task == "classification" else rmse(predicted - y, seed)
    assert cell.value is not None
    return {"metric": metric, "value": cell.value, "interval": cell.interval(), "rows": len(y)}


def texts_of(source: str, target: str, file_format: str | None, y: Any) -> dict[str, str]:
    """Return the commonest text of each class of the column ``y``, which was read from ``target`` of a file.

    Empty for what is no text file, and for columns that were read as text.
    """
    values = as_list(y)
    if kind_of(source, file_format) != "csv" or any(isinstance(value, str) for value in values):
        return {}
    import polars as pl

    path = Path(source)
    options = {name: value for name, value in csv_options(path).items()
               if name not in ("decimal_comma", "infer_schema_length")}
    frame = pl.read_csv(path if packing(path) is None else unpacked(path).read(), infer_schema=False, **options)
    pairs = Counter((str(value), text.strip()) for value, text in zip(values, frame[target].to_list(), strict=True)
                    if text is not None)
    return dict(pair for pair, _ in reversed(pairs.most_common()))  # the last of a class stays
