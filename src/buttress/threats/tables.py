"""What the columns of a table hold, as far as a threat by default asks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress._suggest import near
from buttress._types import MatrixLike

Column = Any  # a name or a number

MOST_LEVELS = 50  # of a column of texts; one with more is a name or a key


def found_at(name: Column, columns: Mapping[Column, Any]) -> Any:
    """Return what stands at a column; ValueError where it is not there."""
    if name not in columns:
        close = near(str(name), map(str, columns))
        raise ValueError(f"The threat names column {name!r}, which X lacks.{close}")
    return columns[name]


def columns_by_name(X: MatrixLike) -> dict[Column, Any]:
    """Return the columns of a frame by name, of an array by number, as arrays."""
    if hasattr(X, "columns"):
        frame: Any = X
        return {name: frame[name].to_numpy() for name in frame.columns}
    rows = np.asarray(X)
    return {place: rows[:, place] for place in range(rows.shape[1])}


def one_hot_groups(columns: Mapping[Column, Array], binary: Sequence[Column]) -> list[list[Column]]:
    """Return the runs of neighbouring 0/1 columns of which exactly one is 1 in every row, from the first on."""
    names = list(columns)
    groups: list[list[Column]] = []
    start = 0
    while start < len(names):
        run = _run_of_one(columns, names[start:], binary)
        groups += [run] if run else []
        start += len(run) or 1
    return groups


def _run_of_one(columns: Mapping[Column, Array], names: list[Column], binary: Sequence[Column]) -> list[Column]:
    """Return the columns from the first on of which one is 1 in every row, none where there is no such run."""
    total: Any = 0.0
    for count, name in enumerate(names, 1):
        total = total + columns[name].astype(np.float64) if name in binary else np.inf
        if not np.all(total <= 1):
            break
        if count > 1 and np.all(total == 1):
            return names[:count]
    return []


def known_of(values: Any) -> Any:
    """Return the entries of a column that are not missing, as far as it is one of numbers."""
    return values[~np.isnan(values)] if values.dtype.kind == "f" else values


def is_binary(values: Any) -> bool:
    return values.dtype.kind in "iufb" and set(np.unique(known_of(values)).tolist()) == {0, 1}


def is_movable(values: Any) -> bool:
    """Say whether a column holds numbers that vary and are no key."""
    if values.dtype.kind not in "iuf" or np.isinf(values).any():
        return False
    known = known_of(values)
    different = len(np.unique(known))
    key = different == len(known) >= 20 and bool((known % 1 == 0).all())
    return different > 1 and not key


def is_category(values: Any) -> bool:
    """Say whether a column holds texts of few kinds."""
    return values.dtype.kind in "OUST" and len(set(values.tolist())) <= MOST_LEVELS
