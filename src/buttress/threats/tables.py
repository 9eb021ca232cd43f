"""What the columns of a table hold, as far as a threat by default asks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress._suggest import near
from buttress._types import MatrixLike

Column = Any  # a name or a number

MOST_LEVELS = 50  # of a column of texts; one with more is a name or a key
FEWEST_KEYS = 20  # rows from which on a column of different whole numbers is a key


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
    """Return the runs of neighbouring 0/1 columns of which exactly one is 1 in every row."""
    groups: list[list[Column]] = []
    run: list[Column] = []
    total = np.zeros(0)
    for name in columns:
        values = columns[name].astype(np.float64) if name in binary else None
        if values is None:
            run = []
            continue
        fits = bool(run) and bool((total + values <= 1).all())
        run, total = ([*run, name], total + values) if fits else ([name], values)
        if len(run) > 1 and (total == 1).all():
            groups.append(run)
            run = []
    return groups


def is_binary(values: Any) -> bool:
    return values.dtype.kind in "iufb" and set(np.unique(values).tolist()) == {0, 1}


def is_movable(values: Any) -> bool:
    """Say whether a column holds numbers that vary and are no key."""
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return False
    different = len(np.unique(values))
    key = different == len(values) >= FEWEST_KEYS and bool((values % 1 == 0).all())
    return different > 1 and not key


def is_category(values: Any) -> bool:
    """Say whether a column holds texts of few kinds."""
    return values.dtype.kind in "OUST" and len(set(values.tolist())) <= MOST_LEVELS
