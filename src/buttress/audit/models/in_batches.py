"""Models of more rows than memory holds: trained, asked, and judging targets, a batch at a time.

Of a folder a sample is read whole: it says how columns are read, scaled and coded, and holds the landmarks. Everything
else is learned, predicted and judged from batches in the order of :mod:`buttress.audit.reading.folder`, on one thread
of the linear algebra, so that the result depends on the files, parameters and seed alone.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from buttress._suggest import counted
from buttress._types import AuditProgress, Labels, Rows
from buttress.audit.baselines import takes_logarithms
from buttress.audit.measuring.judging import judged_by
from buttress.audit.measuring.suspicion import BORDERLINE, WRONG, judge
from buttress.audit.models.answering import PARQUET, predictions, remarks, write
from buttress.audit.models.table_model import TableModel
from buttress.audit.models.training import model_of, score_of
from buttress.audit.reading.entries import as_array
from buttress.audit.reading.folder import MOST_CLASSES, ParquetRows, ReadColumns
from buttress.audit.reading.split import split
from buttress.audit.reading.table import DataTable, labels_as_read, make_table, settle_task, targets_as_before
from buttress.batched_ridge import BatchedRidge, BatchedRidgeClassifier
from buttress.features import Nystroem

Write = Callable[[Mapping[str, Labels]], None]


@dataclass(frozen=True)
class Sample:
    """A table of rows drawn from a folder; ``numbers`` (n,) are theirs in it."""

    rows: ParquetRows
    numbers: Rows
    table: DataTable

    def target(self, columns: ReadColumns) -> Labels:
        """Return the targets of other rows as the table has them: numbers, or labels."""
        name = self.table.target_name
        if not self.table.classifies:
            return targets_as_before(name, columns[name], self.table.read_as.get(name))
        return labels_as_read(as_array(columns[name]))

    def model(self, pipeline: Pipeline, estimator: str) -> TableModel:
        """Return a model of the table's columns around a pipeline of estimators on them."""
        return model_of(self.table, estimator, pipeline, self.rows.source, {}, {})


def remark(said: dict[str, list[str]], model: object, numbers: Rows, batch: ReadColumns) -> None:
    """Add what is to be said of entries of a batch that a model could not read to the sentences on each column."""
    for name, sentence in remarks(model, batch).items():
        said.setdefault(name, []).append(
            f"Rows {numbers[0]} to {numbers[-1]}, counted from the first of these: {sentence}")


def summed_up(said: dict[str, list[str]]) -> list[str]:
    """Return of each column the first sentence, and of how many batches there are more."""
    return [first + (f" So are entries in later batches, {len(more)} of them." if more else "")
            for first, *more in said.values()]


def sampled(rows: ParquetRows, target: str | None, task: str, size: int, seed: int) -> Sample:
    """Return a table of ``size`` rows drawn without replacement, of all where there are fewer.

    Raises ValueError as :func:`make_table`, for targets that are missing anywhere in the folder, for a target of one
    value, and for a class that the sample does not hold.
    """
    values = rows.check_target(target)
    assert target is not None
    drawn = np.random.default_rng(seed).choice(len(rows), min(size, len(rows)), replace=False)
    numbers = np.sort(drawn).astype(np.intp)
    columns = rows.at(numbers, list(rows.columns))
    y = columns.pop(target)
    _check_classes(target, values, y, task)
    table = make_table(columns, y, target, task, numbers)
    table.origin = rows.source, "folder"
    if len(table) < len(y):
        raise ValueError(f"The target {target!r} holds entries that mean that it is missing, such as "
                         f"{next(iter(table.target_words))!r}. Write the files without such rows.")
    return Sample(rows, numbers, table)


def _check_classes(target: str, values: Labels, drawn: Labels, task: str) -> None:
    """Refuse classes of a folder that the sample does not hold, or that are too many; of numbers to predict none."""
    numbers = values.dtype.kind in "iuf"
    if (settle_task(values, target, task) if numbers else task) == "regression":
        return
    if len(values) > MOST_CLASSES:
        raise ValueError(f"The target {target!r} holds more than {MOST_CLASSES} different values. Name a column of "
                         "fewer classes, or one of numbers with --task regression.")
    seen = set(drawn.tolist())
    absent = [value for value in values.tolist() if value not in seen]
    if absent:
        raise ValueError(f"The target {target!r} holds {absent[0]!r}, which none of the {len(drawn)} rows of the "
                         "sample has. Draw more with --sample, or write the files without rows of such few.")


@threadpool_limits.wrap(limits=1)
def train_in_batches(
    sample: Sample, *, landmarks: int, seed: int, max_time: float | None, report: AuditProgress
) -> tuple[TableModel, bool]:
    """Return a machine on landmarks of all rows, and whether it was cut short.

    The score is that of the rows of the sample that are held out (30%) under the fit to all others; then they are
    learned too. Ctrl-C, or ``max_time`` seconds, ends it with the model of the rows so far, which a note says; Ctrl-C
    in the first batch is passed on.
    """
    table = sample.table
    train, test, _ = split(table, seed)
    X = table.array()
    columns = table.preparation().fit(X[train])
    features = Nystroem(n_components=landmarks, landmarks="uniform", random_state=seed)
    features.fit(columns.transform(X[train]))
    machine = BatchedRidgeClassifier() if table.classifies else BatchedRidge()
    pipeline = Pipeline([("columns", columns), ("features", features), ("model", machine)])
    model = sample.model(pipeline, "least squares on landmarks")
    known = {"classes": np.unique(table.target)} if table.classifies else {}

    def learn(rows: Labels, y: Labels) -> None:
        machine.partial_fit(features.transform(columns.transform(rows)), y, **known)

    said: dict[str, list[str]] = {}
    why = _pass(sample, model, learn, sample.numbers[test], max_time, report, said)
    model.score = score_of(model.pipeline.predict(X[test]), table.target[test], table.task, seed)
    learn(X[test], table.target[test])
    ended = [f"{why} ended the training after {machine.n_rows_seen_} of {len(sample.rows)} rows: the first of them, in "
             "the order of the files, and those held out. The model is the one of these rows."] if why else []
    model.trained_on |= {"notes": [*table.notes, *summed_up(said), *ended], "rows": machine.n_rows_seen_}
    return model, bool(why)


def _pass(
    sample: Sample, model: TableModel, learn: Callable[[Labels, Labels], None], held: Rows,
    max_time: float | None, report: AuditProgress, said: dict[str, list[str]],
) -> str:
    """Learn every row but those held out, a batch at a time; return what ended it early, empty for nothing."""
    rows = sample.rows
    started = monotonic()
    learned = 0
    try:
        for numbers, batch in rows.batches([*model.feature_names_in_, sample.table.target_name]):
            if max_time is not None and learned and monotonic() - started > max_time:
                return "--max-time"
            kept = ~np.isin(numbers, held)
            if kept.any():
                with rows.named(numbers):
                    X, y = model.rows_of(batch), sample.target(batch)
                remark(said, model, numbers, batch)
                learn(X[kept], y[kept])
                learned += len(numbers)
            report(f"training: {int(numbers[-1]) + 1} of {counted(len(rows), 'row')}", (numbers[-1] + 1) / len(rows))
    except KeyboardInterrupt:
        if not learned:
            raise
        return "Ctrl-C"
    return ""


@threadpool_limits.wrap(limits=1)
def predict_in_batches(model: Any, rows: ParquetRows, put: Write, report: AuditProgress) -> list[str]:
    """Write a prediction for every row, and return a few sentences on entries that could not be read."""
    names = [str(name) for name in getattr(model, "feature_names_in_", rows.columns)]
    said: dict[str, list[str]] = {}
    for numbers, batch in rows.batches([name for name in names if name in rows.columns]):
        with rows.named(numbers):
            answer = predictions(model, batch)
        put({**answer, "row": numbers})
        remark(said, model, numbers, batch)
        report(f"predicting: {numbers[-1] + 1} of {counted(len(rows), 'row')}", (numbers[-1] + 1) / len(rows))
    return summed_up(said)


@threadpool_limits.wrap(limits=1)
def judge_in_batches(sample: Sample, seed: int, put: Write, report: AuditProgress) -> str:
    """Write the verdict on the target of every row of the folder, by a robust fit of the sample; returns it in words.

    Columns: row, file, row_in_file, given, expected, probability (that the target is wrong), score and verdict, as in
    ``suspicious.csv``.
    """
    table = sample.table
    report("judging: a robust fit of the sample", 0.0)
    counts: Counter[str] = Counter()
    columns = table.preparation()
    X = columns.fit_transform(table.array())
    logarithms = takes_logarithms(table)
    verdicts, machine = judge(X, table.target, table.task, seed=seed, logarithms=logarithms)
    model = sample.model(Pipeline([("columns", columns), ("model", machine)]), "robust")
    own = {"expected": verdicts.expected, "probability": verdicts.probability, "score": verdicts.score,
           "verdict": np.array(verdicts.kinds(), dtype=object)}
    for numbers, batch in sample.rows.batches([*model.feature_names_in_, table.target_name]):
        with sample.rows.named(numbers):
            X, y = model.rows_of(batch), sample.target(batch)
        if logarithms and y.min() <= 0:
            raise ValueError(f"The target {table.target_name!r} is positive in the sample, and {y.min():g} in row "
                             f"{numbers[y.argmin()]}. Draw more rows with --sample, or correct that row.")
        told = judged_by(machine, columns.transform(X), y, logarithms)
        verdict = np.where(told.probability >= WRONG, "wrong", np.where(
            told.probability >= BORDERLINE, "borderline", "fine")).astype(object)
        found = {"expected": told.expected, "probability": told.probability, "score": told.score,
                 "verdict": verdict}
        here = np.isin(sample.numbers, numbers)
        for name, values in found.items():
            values[sample.numbers[here] - numbers[0]] = own[name][here]
        counts.update(verdict.tolist())
        put({"row": numbers, **sample.rows.place(numbers), "given": y, **found})
        report(f"judging: {numbers[-1] + 1} of {counted(len(sample.rows), 'row')}",
               (numbers[-1] + 1) / len(sample.rows))
    drawn, rows = len(table), len(sample.rows)
    return (f"The audit is of a sample of {drawn} of {rows} rows. Every row is judged, by a robust fit of the {drawn} "
            "of the sample (these by the fit without them, the others as it had not seen them): "
            f"{counts['wrong']} look wrong ({counts['wrong'] / rows:.2%}), {counts['borderline']} are borderline.")


@contextmanager
def in_parts(output: Path) -> Iterator[Write]:
    """Yield what writes columns below those before; the file, CSV or Parquet, is there once the block ends well."""
    with tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=".parts-") as folder:
        parts: list[Path] = []

        def put(columns: Mapping[str, Labels]) -> None:
            parts.append(Path(folder) / f"{len(parts):09}.parquet")
            write(columns, parts[-1])

        yield put
        import polars as pl

        whole = Path(folder) / "whole"
        frame = pl.scan_parquet(parts, glob=False)
        (frame.sink_parquet if output.suffix.lower() in PARQUET else frame.sink_csv)(whole)
        os.replace(whole, output)
