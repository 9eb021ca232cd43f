"""The columns of a table as they came, as numbers that a search can move, and back as a model's user has them.

A row is its place in the table followed by its features, numbers first: NaN where missing, categories by their code.
Columns the audit does not use (texts, dates, constants) go with the row as they came, and stay.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Labels, NamedColumns, is_frame
from buttress.audit.reading.cautions import quartiles_of
from buttress.audit.reading.entries import MISSING, as_array, is_missing
from buttress.audit.reading.table import DataTable, taken

UNSEEN = -1.0  # the code of an empty cell in a column of categories without any
SpaceRows = NDArray[np.float64]  # (n, 1 + d): the place in the table, then the features


@dataclass(frozen=True)
class Axis:
    """One column that can be moved: where it is, by how much numbers move, which values categories had in training."""

    name: str
    place: int
    spread: float = 0.0  # robust deviation of numbers, 0 for categories
    whole: bool = False  # numbers of a type of whole numbers move by whole numbers
    levels: tuple[float, ...] = ()
    gap: float | None = np.nan  # what an empty cell is, None where the type of the column has none


class MoveSpace:
    """The rows of a table as numbers, and as columns like those that came."""

    def __init__(self, table: DataTable, raw: NDArray[np.float64], train: NDArray[np.intp]):
        self.table = table
        self.raw = raw
        self.axes = [*self._numbers(train), *self._categories(train)]
        self.library = _library(table)
        self._entries: dict[str, dict[int, object]] = {}

    def rows(self, places: NDArray[np.intp]) -> SpaceRows:
        """Return rows of the table."""
        return np.column_stack([places.astype(np.float64), self.raw[places]])

    def columns(self, rows: SpaceRows) -> NamedColumns:
        """Return rows as columns of the types that came: pandas or polars series, or arrays."""
        places = self.table.places[rows[:, 0].astype(np.intp)]
        axes = {axis.name: axis for axis in self.axes}
        return {name: self._written(axes[name], given, rows) if name in axes else taken(given, places)
                for name, given in self.table.given.items()}

    def data(self, rows: SpaceRows) -> Any:
        """Return rows as the data came: a frame, or an array of numbers, or of objects where some are none."""
        columns = self.columns(rows)
        if self.library == "array":
            arrays = [np.asarray(column) for column in columns.values()]
            mixed = any(column.dtype.kind not in "iufb" for column in arrays)
            return np.column_stack([column.astype(object) if mixed else column for column in arrays])
        library = import_module(self.library)
        if self.library == "polars":
            return library.DataFrame(columns)
        return library.DataFrame({name: _in_pandas(column) for name, column in columns.items()})

    def _numbers(self, train: NDArray[np.intp]) -> list[Axis]:
        axes = []
        for place, (name, column) in enumerate(self.table.numeric.items(), start=1):
            given = as_array(self.table.given[name])
            if given.dtype.kind == "b":
                axes.append(Axis(name, place, levels=(0.0, 1.0), gap=None))
            elif given.dtype.kind in "iufO" and name not in self.table.read_as:
                axes.append(Axis(name, place, quartiles_of(column[train]).spread, given.dtype.kind in "iu"))
        return axes

    def _categories(self, train: NDArray[np.intp]) -> list[Axis]:
        axes = []
        for place, name in enumerate(self.table.categorical, start=1 + len(self.table.numeric)):
            values = self.table.factors[name][0]
            seen = np.unique(self.raw[train, place - 1])
            levels = tuple(float(code) for code in seen if values[int(code)] != MISSING)
            found = np.flatnonzero(values == MISSING)
            axes.append(Axis(name, place, levels=levels, gap=float(found[0]) if len(found) else UNSEEN))
        return axes

    def _written(self, axis: Axis, given: object, rows: SpaceRows) -> object:
        """Return one moved column in the type that came, as far as that holds what it was moved to."""
        moved = rows[:, axis.place]
        if axis.name in self.table.categorical:
            words = self._words(axis.name, given)
            return _like(given, [words[int(code)] for code in moved])
        kind = as_array(given).dtype
        holds = kind.kind != "O" and not np.isnan(moved).any()
        return _like(given, moved.astype(kind) if holds else moved)

    def _words(self, name: str, given: object) -> dict[int, object]:
        """Return the entry, as it came, that each code of a column of categories stands for."""
        if name not in self._entries:
            place = 1 + len(self.table.numeric) + list(self.table.categorical).index(name)
            codes, first = np.unique(self.raw[:, place - 1], return_index=True)
            entries = as_array(given)[self.table.places[first]].tolist()
            known = {int(code): None if is_missing(entry) and not isinstance(entry, float) else entry
                     for code, entry in zip(codes, entries, strict=True)}
            self._entries[name] = {int(UNSEEN): None} | known
        return self._entries[name]


def _library(table: DataTable) -> str:
    """Return what the data are given to a model as: a frame of pandas or polars, or an array."""
    kind = table.origin[1].removesuffix(" frame")
    if kind in ("pandas", "polars", "array"):
        return kind
    return "pandas" if find_spec("pandas") else "polars"


def _like(given: object, values: list[object] | Labels) -> object:
    """Return values as a column of the library that came, and of its type where that takes them."""
    module = type(given).__module__.partition(".")[0]
    if module not in ("pandas", "polars"):
        return values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    series = import_module(module).Series
    return series(values, dtype=None if isinstance(values, np.ndarray) else given.dtype)  # type: ignore[attr-defined]


def _in_pandas(column: object) -> object:
    """Return a column for a pandas frame, missing entries of texts as pandas reads them from a file."""
    if type(column).__module__.startswith("pandas"):
        return column
    values = as_array(column)
    return [np.nan if entry is None else entry for entry in values.tolist()] if values.dtype.kind == "O" else values


def names_of(model: object) -> list[str] | None:
    """Return the columns a model was fitted on, None where it does not say."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def chosen(data: Any, names: list[str] | None) -> Any:
    """Return the columns of a frame, or of a mapping, that a model asks for, in its order."""
    if names is None or not (is_frame(data) or isinstance(data, Mapping)):
        return data
    return data[names]
