"""From a file, a bundled set or a frame to columns of numbers and of categories, with everything dropped on record.

Loads scikit-learn only to prepare the features, so that the command refuses unusable data at once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress._as_given import refuse_unread
from buttress._suggest import LARGEST, column_called, counted, listed, near
from buttress._types import Frame, Labels, NamedColumns, is_frame
from buttress.audit.reading.entries import (
    EXACT,
    MISSING,
    MISSING_WORDS,
    NEARLY_ALL,
    NOTATIONS,
    WHOLE,
    Notation,
    Reading,
    Texts,
    are_dates,
    as_array,
    factorised,
    numbers_of,
    python_times,
    read_numbers,
    texts_of,
)
from buttress.threats.declared import is_key

TIMES = "what may matter of them must be given as numbers, such as days since the first, the month or the weekday."
MAX_CLASSES = 10  # whole-number targets with at most this many values are classes


@dataclass
class DataTable:
    """Feature columns by name and the target, rows aligned; numbers are float64 with NaN, categories are text.

    ``row_numbers`` are the labels of a pandas index, else the row numbers. ``read_as`` names the columns of texts that
    were read as numbers, the target among them; ``origin`` is the file, folder or bundled set it was read from, empty
    for data given as objects, and the kind of data; the names x0, x1, ... stand for columns of an array.
    ``given`` and ``given_target`` are the columns as they came, all rows of them; ``places`` (n,) says which of those
    rows are in use. ``indexes`` are dropped columns that only number the rows, ``units`` the units of columns that have
    several, ``target_words`` the entries of the target that mean, or may mean, that it is missing. ``identifiers`` and
    ``dates`` are columns that were dropped as such. Where the user said so, ``groups`` (n,) numbers the rows that
    belong together, ``times`` (n,) says when they were, and ``to_test`` (n,) marks those that models are tested on.
    ``task`` is "classification" or "regression".
    """

    numeric: dict[str, NDArray[np.float64]]
    categorical: dict[str, NDArray[Any]]
    target: NDArray[Any]
    target_name: str
    row_numbers: NDArray[Any]
    task: str
    notes: list[str] = field(default_factory=list)
    read_as: dict[str, Notation] = field(default_factory=dict)
    origin: tuple[str, str] = ("", "")
    given: Mapping[str, object] = field(default_factory=dict)
    given_target: object = None
    places: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    indexes: dict[str, NDArray[Any]] = field(default_factory=dict)
    constant: list[str] = field(default_factory=list)
    units: dict[str, dict[str, int]] = field(default_factory=dict)
    target_words: dict[str, int] = field(default_factory=dict)
    identifiers: list[str] = field(default_factory=list)
    dates: list[str] = field(default_factory=list)
    groups: NDArray[np.intp] | None = None
    times: NDArray[np.float64] | None = None
    to_test: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.target)

    @property
    def classifies(self) -> bool:
        """Whether the target is one of classes."""
        return self.task == "classification"

    @cached_property
    def factors(self) -> dict[str, tuple[Labels, NDArray[np.intp]]]:
        """The different values of each column of categories in order, and the place of each row's among them."""
        return {name: factorised(texts) for name, texts in self.categorical.items()}

    @cached_property
    def target_codes(self) -> NDArray[np.intp]:
        """The place of each row's target among the different ones."""
        return factorised(self.target)[1]

    def array(self) -> NDArray[Any]:
        """Return the features as one object array (n, d), numbers first."""
        columns = [*self.numeric.values(), *self.categorical.values()]
        return np.array([np.asarray(column, dtype=object) for column in columns], dtype=object).T

    def coded(self) -> NDArray[np.float64]:
        """Return the features as numbers (n, d), numbers first: NaN where missing, categories by place among theirs."""
        codes = [self.factors[name][1] for name in self.categorical]
        return np.column_stack([*self.numeric.values(), *codes]).astype(np.float64)

    def preparation(self) -> Any:
        """Return the transformer of :meth:`array`: numbers median-filled and standardised, categories to 0/1."""
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        return self._transformer(make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
                                 OneHotEncoder(handle_unknown="ignore", sparse_output=False))

    def native(self) -> Any:
        """Return the transformer of :meth:`array` that keeps missing values: numbers standardised, categories coded."""
        from sklearn.preprocessing import OrdinalEncoder, StandardScaler

        return self._transformer(StandardScaler(),
                                 OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=math.nan))

    def _transformer(self, numbers: Any, categories: Any) -> Any:
        from sklearn.compose import ColumnTransformer

        first, every = len(self.numeric), len(self.numeric) + len(self.categorical)
        return ColumnTransformer([("numeric", numbers, list(range(first))),
                                  ("categorical", categories, list(range(first, every)))])


def columns_of(X: ArrayLike | Frame) -> NamedColumns:
    """Return the columns of an array (named by number) or of a pandas or polars frame."""
    refuse_unread("X", X)
    if is_frame(X):
        names = [str(name) for name in X.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"X has two columns called {max(names, key=names.count)!r}. Rename one of them: what is "
                             "found is said of columns by name.")
        return {str(name): X[name] for name in X.columns}
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, rows by columns. Got shape {X.shape}.")
    return {f"x{j}": X[:, j] for j in range(X.shape[1])}


def make_table(
    columns: Mapping[str, object], target: object, target_name: str, task: str, labels: NDArray[Any] | None = None,
    drop: Sequence[str] = (),
) -> DataTable:
    """Sort columns into numbers and categories, drop what cannot be used (each with a note), and settle the task.

    ``labels`` are what rows are called, their numbers by default. Columns to ``drop`` are no features.
    """
    refuse_unread("y", target)
    y = as_array(target)
    if y.ndim != 1:
        raise ValueError(f"The target {target_name!r} must be one column. Got shape {y.shape}.")
    present, words = _present(y)
    names = np.arange(len(y)) if labels is None or len(labels) != len(y) else python_times(np.asarray(labels))
    table = DataTable({}, {}, y[present], target_name, names[present], task, given=columns, given_target=target,
                      places=np.flatnonzero(present), target_words=words)
    if not present.all():
        gone = int((~present).sum())
        table.notes.append(f"{counted(gone, 'row')} without a target {target_name!r} {'was' if gone == 1 else 'were'} "
                           f"dropped, the first of them row {names[~present][0]}.")
    if len(table) < 20:
        raise ValueError(f"An audit needs at least 20 rows with a target. Got {len(table)}.")
    _settle_target(table)
    for name, column in columns.items():
        values = as_array(column)
        if len(values) != len(present):
            raise ValueError(f"{column_called(name)} has {counted(len(values), 'row')}, the target {target_name!r} has "
                             f"{len(present)}.")
        if name not in drop and is_index(name, values):
            table.notes.append(f"{column_called(name)}, the index of a frame that was written with it, was dropped.")
            table.indexes[name] = values[present]
        elif name not in drop:
            _place(name, values[present], table)
    if not table.numeric and not table.categorical:
        raise ValueError(f"No usable feature column is left. {' '.join(table.notes)}")
    return table


def given_column(table: DataTable, name: str, option: str) -> NDArray[Any]:
    """Return a column as it came, of the rows in use; ValueError where there is none of that name."""
    check_named(name, table.given, option)
    return as_array(table.given[name])[table.places]


def check_named(name: str, columns: Mapping[str, object], option: str) -> None:
    """Raise ValueError where an option names a feature column that is not there."""
    if name not in columns:
        raise ValueError(f"{option} names the column {name!r}, which is not among the features."
                         f"{near(name, list(columns))} The columns are {', '.join(map(repr, columns))}.")


def taken(column: object, part: slice | NDArray[np.intp]) -> object:
    """Return some rows of a column of a frame, or of a sequence, numbered anew."""
    if hasattr(column, "iloc"):
        return column.iloc[part].reset_index(drop=True)
    return column[part] if hasattr(column, "to_numpy") else np.asarray(column)[part]  # type: ignore[index]


def _settle_target(table: DataTable) -> None:
    """Settle the task, and have the target as floats or as labels; texts that are numbers become numbers."""
    name, y, asked = table.target_name, table.target, table.task
    if y.dtype.kind in "mM" or (y.dtype.kind not in "iufb" and asked != "classification" and are_dates(texts_of(y))):
        raise ValueError(f"The target {name!r} holds dates or durations. Give it as numbers, such as days.")
    if y.dtype.kind not in "iufbmM":
        reading = read_numbers(texts_of(y))
        many = len(set(reading.numbers[~np.isnan(reading.numbers)].tolist())) > MAX_CLASSES
        wanted = reading.share > 0 if asked == "regression" else asked == "auto" and many and reading.share > 0.5
        if wanted and reading.strays:
            raise ValueError(f"{reading.culprits(name, table.row_numbers)}. Correct such entries of the target, or "
                             "leave them empty: their rows are dropped. If all are classes, use --task classification.")
        if wanted:
            y, table.read_as[name] = reading.numbers, reading.notation
    if y.dtype.kind == "f":
        refuse_extremes(name, y, table.row_numbers)
    table.task = settle_task(y, name, asked)
    if table.classifies and y.dtype.kind in "uf" and y.max() >= 2**63:  # beyond int64
        raise ValueError(f"The target {name!r} holds {y.max()!s}, too large a whole number for a class. Give the "
                         "classes as texts.")
    table.target = labels_as_read(y) if table.classifies else y.astype(np.float64)
    values = len(np.unique(table.target))
    if asked == "auto" and table.target.dtype.kind == "i" and values > 2:
        table.notes.append(f"The {values} whole numbers of the target {name!r} were taken for classes. If they are "
                           "amounts, use --task regression.")


def _present(y: NDArray[Any]) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Return which rows have a target, and the words that say, or may say, that it is missing, with their counts.

    Where the target holds many different numbers another stray word is a mistake to be named, and not looked for here.
    """
    if y.dtype.kind not in "OUST":
        return (~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), dtype=bool)), {}
    texts = texts_of(y)
    reading = read_numbers(texts)
    numbers = reading.share > 0.5 and len(np.unique(reading.numbers)) > MAX_CLASSES
    perhaps = set() if numbers else {"none", "unknown", "not available", "unspecified"}
    plain = [text.strip().lower() for text in texts.distinct]
    words = {text: int(count) for text, word, count in zip(texts.distinct, plain, texts.counts, strict=True)
             if word in MISSING_WORDS | perhaps}
    present = texts.spread(np.array([word not in MISSING_WORDS for word in plain], dtype=bool), False)
    return present, dict(sorted(words.items()))


def is_index(name: str, values: NDArray[Any]) -> bool:
    """Say whether a column is an index that pandas wrote: it has no name of its own, and its whole numbers are unique.

    They need not count from 0 without gaps: an index that was sampled or filtered does not.
    """
    unnamed = name == "" or name.startswith(("Unnamed: ", "_duplicated_", "__index_level_"))
    if not unnamed or values.dtype.kind not in "iuf":
        return False
    whole = bool(np.all(np.isfinite(values))) and bool(np.all(values % 1 == 0))
    return whole and len(np.unique(values)) == len(values)


def _place(name: str, values: NDArray[Any], table: DataTable) -> None:
    """Put a column among the numbers or the categories, or drop it; whatever is not plain is noted."""
    numbers, texts = numbers_of(values), None
    if numbers is None and values.dtype.kind not in "mM":
        texts = texts_of(values)
        reading = read_numbers(texts)
        codes = reading.mixed and not is_key(len(texts.distinct), texts.known)  # 1st, 2nd, 3rd: nothing is lost then
        if reading.known and reading.numbered >= NEARLY_ALL and not codes:
            numbers = reading.numbers
            table.units |= {name: dict(reading.units)} if reading.mixed else {}
            table.read_as[name] = reading.notation
            table.notes.append(_read_note(name, reading, table.row_numbers))
    known, levels = _known_and_levels(values, numbers, texts)
    if numbers is not None:
        refuse_extremes(name, numbers, table.row_numbers)
    if numbers is not None and not _told_apart(values, numbers, texts):
        _drop(name, "holds whole numbers beyond 2^53 that floating point does not tell apart, and was dropped as an "
                    "identifier. Subtract the smallest if they are numbers.", table, table.identifiers)
    elif not known or levels < 2:
        _drop(name, f"is {'constant' if known else 'empty'} and was dropped.", table, table.constant)
    elif numbers is not None:
        table.numeric[name] = numbers
    elif texts is None:
        kind = "durations" if values.dtype.kind == "m" else "dates"
        _drop(name, f"holds {kind} and was dropped: {TIMES}", table, table.dates if kind == "dates" else [])
    elif are_dates(texts):
        _drop(name, f"holds dates and was dropped: {TIMES}", table, table.dates)
    elif is_key(levels, known):
        why = f" {reading.culprits(name, table.row_numbers)}." if reading.share > 0.5 else ""
        _drop(name, f"has {levels} different texts and was dropped, as identifiers and free text are.{why}", table,
              table.identifiers)
    else:
        table.categorical[name] = texts.spread(np.array(texts.distinct, dtype=object), MISSING)


def _known_and_levels(
    values: NDArray[Any], numbers: NDArray[np.float64] | None, texts: Texts | None
) -> tuple[int, int]:
    """Return how many entries are not missing, and how many differ, of numbers 2 at most; a gap is one but of numbers.
    """
    if numbers is not None:
        known = values[~np.isnan(numbers)] if texts is None else numbers[~np.isnan(numbers)]
        return len(known), 1 + int(known.min() < known.max()) if len(known) else 0
    if texts is not None:
        return texts.known, len(texts.distinct) + (texts.known < len(values))
    known = values[~np.isnat(values)]
    return len(known), len(np.unique(known)) + (len(known) < len(values))


def _told_apart(values: NDArray[Any], numbers: NDArray[np.float64], texts: Texts | None) -> bool:
    """Say whether whole numbers that differ are different in float64, as those up to 2^53 are; also those in texts."""
    if np.nanmax(np.abs(numbers), initial=0.0) < EXACT:
        return True
    entries = (values[~np.isnan(numbers)].tolist() if texts is None else
               filter(WHOLE.fullmatch, map(str.strip, texts.distinct)))
    exact = {int(entry): float(entry) for entry in entries}
    return len(exact) == len(set(exact.values()))


def _drop(name: str, why: str, table: DataTable, among: list[str]) -> None:
    table.read_as.pop(name, None)
    table.notes.append(f"{column_called(name)} {why}")
    among.append(name)


def _read_note(name: str, reading: Reading, rows: NDArray[Any]) -> str:
    if reading.strays:
        return f"{reading.culprits(name, rows)}: what is not was read as missing."
    words = f"; {listed(reading.words, 3)} in {reading.words.total()} rows as missing" if reading.words else ""
    return (f"{column_called(name)} holds {reading.notation.name}, but not in a type of numbers; it was read as such"
            f"{words}.")


def read_as_before(name: str, column: object, notation: Notation | None) -> NDArray[np.float64]:
    """Return a column of other rows than the table's as numbers, NaN where missing or no number.

    ``notation`` is that of the table's column of texts, None if it was one of numbers (or truth values).
    Raises ValueError for a column without any number, and for huge ones.
    """
    values = as_array(column)
    numbers = numbers_of(values)
    if numbers is None:
        texts = texts_of(values)
        ways = [one.number for one in ([notation] if notation is not None else NOTATIONS)]
        if notation is None:  # or of truth values, which are texts beside any other word
            ways.append(lambda text: {"true": 1.0, "false": 0.0}.get(text.strip().lower(), np.nan))
        readings = [texts.spread(np.array([way(text) for text in texts.distinct]), np.nan) for way in ways]
        numbers = max(readings, key=lambda reading: int(np.isfinite(reading).sum()))
        if texts.distinct and np.isnan(numbers).all():
            raise ValueError(f"{column_called(name)} held numbers before. Now it holds {texts.distinct[0]!r}. Correct "
                             "such entries, or leave them empty.")
    refuse_extremes(name, numbers, np.arange(len(numbers)))
    return numbers


def targets_as_before(name: str, column: object, notation: Notation | None) -> NDArray[np.float64]:
    """Return targets of other rows than the table's as numbers; ValueError for a row that has none."""
    numbers = read_as_before(name, column, notation)
    gaps = np.flatnonzero(~np.isfinite(numbers))
    if len(gaps):
        raise ValueError(f"The target {name!r} holds {as_array(column)[gaps[0]]!r} in row {gaps[0]}, which is no "
                         "finite number. Leave such rows out.")
    return numbers


def refuse_extremes(name: str, numbers: NDArray[Any], rows: NDArray[Any]) -> None:
    bad = np.flatnonzero(np.abs(numbers) > np.float64(LARGEST))  # of float32 it would be inf
    if bad.size:
        raise ValueError(f"{column_called(name)} holds {numbers[bad[0]]:g} in row {rows[bad[0]]} "
                         f"({counted(bad.size, 'such row')}). Replace infinite and huge entries or drop those rows.")


def settle_task(y: NDArray[Any], name: str, task: str) -> str:
    """Return "classification" or "regression": text, bools and whole numbers with at most 10 values are classes."""
    number = y.dtype.kind in "iuf"
    values = np.unique(y.astype(str) if y.dtype.kind == "O" else y)
    first = values.tolist()[0]
    whole = number and bool(np.all(np.asarray(values, dtype=np.float64) % 1 == 0))
    classes = not number or (whole and len(values) <= MAX_CLASSES)
    if task == "classification" and number and not whole:
        raise ValueError(f"The target {name!r} is continuous, which is not a set of classes. Use --task regression.")
    if task == "regression" and not number:
        raise ValueError(f"The target {name!r} holds {first!r}, which is not a number. Use --task classification.")
    if len(values) < 2:
        raise ValueError(f"The target {name!r} has only one value, {first!r}: there is nothing to predict.")
    return task if task != "auto" else ("classification" if classes else "regression")


def labels_as_read(y: NDArray[Any]) -> NDArray[Any]:
    """Return class labels as text, or as whole numbers where they are numbers."""
    return y.astype(np.int64) if y.dtype.kind in "iuf" else np.array([str(value) for value in y])
