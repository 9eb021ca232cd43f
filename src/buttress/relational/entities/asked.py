"""The rows that features are asked for: rows of the label's table, or its keys, as a frame or an array."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, near
from buttress.relational.declare import Join
from buttress.relational.sources.columns import Column, make_column
from buttress.relational.sources.tables import frame_column


def asked_columns(X: Any, table: str, names: Sequence[str]) -> dict[str, Column]:
    """Return the named columns of rows of the label's ``table``.

    ``X`` is a frame, whose columns are found by name (``column`` or ``table.column``), an array with the columns in
    the order of ``names``, of one dimension where there is one, or a dict of columns that were read. Raises ValueError
    for a column that is not there, and for rows of another shape.
    """
    if isinstance(X, Join):
        raise ValueError(f"EntityFeatures has its join already, and takes rows of its label's table {table!r}: a frame "
                         f"with the columns {', '.join(names)}. Got a Join.")
    there = [str(name) for name in getattr(X, "column_names", getattr(X, "columns", []))]
    if isinstance(X, dict):
        found = {name: X[name] for name in names}
    elif there:
        found = {name: frame_column(X, _name_in(there, table, name)) for name in names}
    else:
        values = np.asarray(X, dtype=getattr(X, "dtype", object))
        values = values[:, None] if values.ndim == 1 and len(names) == 1 else values
        if values.ndim != 2 or values.shape[1] != len(names):
            raise ValueError(f"Rows of table {table!r} have {len(names)} columns here: {', '.join(names)}. Got an "
                             f"array of shape {values.shape}. Use a frame with them, or an array in this order.")
        found = {name: make_column(values[:, j]) for j, name in enumerate(names)}
    n = len(next(iter(found.values())).null) if found else 0
    if not n:
        raise ValueError(f"Found array with 0 sample(s) (rows of table {table!r}) while a minimum of 1 is required.")
    return found


def _name_in(there: Sequence[str], table: str, name: str) -> str:
    for candidate in (name, f"{table}.{name}"):
        if candidate in there:
            return candidate
    raise ValueError(f"X has no column {name!r} of table {table!r}.{near(name, there)} It has: {', '.join(there)}.")


def moments(column: Column, what: str) -> Array:
    """Return times as numbers that order them: microseconds since 1970, or the numbers; NaN where NULL."""
    values: NDArray[Any] = column.values
    if column.kind == "time" and values.dtype.kind == "M":
        numbers = values.astype("datetime64[us]").astype(np.int64).astype(np.float64)
    elif column.kind == "number" or column.null.all():
        numbers = np.where(column.null, 0, values).astype(np.float64)
    else:
        raise ValueError(f"{what} must hold dates or numbers. Got {column.kind}. Convert it, with pandas.to_datetime "
                         "or CAST.")
    return np.where(column.null, np.nan, numbers)


def check_times(kinds: Mapping[str, Column]) -> None:
    """Refuse dates in one table and numbers in another, which cannot be compared; ``kinds`` are columns by name.

    Dates with a time zone and dates without one cannot be compared either.
    """
    held = {name: f"{column.kind} with a time zone" if column.zoned else column.kind
            for name, column in kinds.items() if not column.null.all()}
    if len(set(held.values())) > 1:
        listed = ", ".join(f"{name} ({kind})" for name, kind in held.items())
        raise ValueError(f"as_of and the times of tables must be of one kind. Got {listed}. Convert one of them.")
