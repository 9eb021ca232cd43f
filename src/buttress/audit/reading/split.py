"""Which rows are for training and which are held out, and which of them are drawn when all are too many."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from buttress._suggest import column_called, counted
from buttress._types import Mask, Rows
from buttress.audit.reading.entries import (
    EXACT,
    as_array,
    categories_of,
    check_there,
    factorised,
    numbers_of,
    texts_of,
)
from buttress.audit.reading.table import DataTable, check_named, given_column, make_table, read_as_before

HELD_OUT = 0.3  # of the rows
FEWEST_TRAINED = 20  # rows
ROWS_A_CLASS = 4  # so that about one is held out and three are trained on


def split(table: DataTable, seed: int) -> tuple[Rows, Rows, str]:
    """Return the numbers of the training rows (70%) and of those held out, and a note if any.

    Rows to test on are held out, where the user gave some; else the latest, where times are known; else whole groups.
    Without any of these rows are held out at random, stratified by class: rows of equal features stay on one side, so
    that none is scored by having learned its copy; where most rows are copies, as with a few columns of few values,
    they cannot.
    """
    y = table.target
    if table.classifies:
        _check_classes(y, table.target_name)
    held = told_to_hold_out(table)
    if held is not None:
        parts = np.flatnonzero(~held), np.flatnonzero(held)
        note = "The latest rows are held out, the earlier trained on."
        if table.to_test is not None:
            note = f"Models are trained on {len(parts[0])} rows and tested on the {len(parts[1])} given to test them."
    elif table.groups is not None:
        parts = _by_groups(table.groups, y, table.classifies, seed)
        note = f"Groups stay whole: {int(table.groups.max()) + 1} of them, each on one side of the split."
    else:
        return _at_random(table, seed)
    _check_sides(table, *parts)
    return *parts, note


def told_to_hold_out(table: DataTable) -> Mask | None:
    """Return the rows to test on, where the user gave some, else the latest, where times are known; else None."""
    if table.to_test is not None or table.times is None:
        return table.to_test
    return np.asarray(table.times >= np.sort(table.times)[int((1 - HELD_OUT) * len(table))])


def _at_random(table: DataTable, seed: int) -> tuple[Rows, Rows, str]:
    y, group = table.target, groups(table)
    firsts = np.unique(group, return_index=True)[1]
    copies = len(y) - len(firsts)
    note = ""
    if copies and (len(firsts) < len(y) / 2 or (table.classifies and not _enough(y[firsts], y))):
        group, copies = np.arange(len(y)), 0
        note = (f"Rows that repeat the features of another: {len(y) - len(firsts)}, so many that some are on both "
                "sides of the split.")
    elif copies:
        note = f"Rows that repeat the features of another: {copies}; they were kept on one side of the split."
    return *_by_groups(group if copies else None, y, table.classifies, seed), note


def _by_groups(group: Rows | None, y: NDArray[Any], classifies: bool, seed: int) -> tuple[Rows, Rows]:
    """Return the rows of 70% of the groups and of the others, stratified by the class of each group's first row.

    Without groups each row is one. Classes of too few groups are not stratified.
    """
    firsts = np.arange(len(y)) if group is None else np.unique(group, return_index=True)[1]
    classes = y[firsts]
    stratified = classifies and _enough(classes, classes)
    train, test = train_test_split(np.arange(len(firsts)), test_size=HELD_OUT, random_state=seed,
                                   stratify=classes if stratified else None)
    return (train, test) if group is None else (_members(group, train), _members(group, test))


def _check_sides(table: DataTable, train: Rows, test: Rows) -> None:
    """Refuse sides that nothing can be learned from, or tested on."""
    if len(train) < FEWEST_TRAINED or not len(test):
        raise ValueError(f"{len(train)} rows are left to train on and {len(test)} to test on. At least "
                         f"{FEWEST_TRAINED} and 1 are needed: give other groups, times or rows to test on.")
    unknown = np.setdiff1d(table.target[test], table.target[train]) if table.classifies else np.empty(0)
    if len(unknown) or (table.classifies and len(np.unique(table.target[train])) < 2):
        what = repr(unknown.tolist()[0]) if len(unknown) else "any other"
        raise ValueError(f"Class {what} of {table.target_name!r} is in no row that models would be trained on. Drop or "
                         "merge it, or give other groups, times or rows to test on.")


def table_to_test(
    columns: Mapping[str, object], target: object, name: str, task: str, more: Mapping[str, object] | None = None,
    labels: NDArray[Any] | None = None, drop: Sequence[str] = (),
) -> DataTable:
    """Return what :func:`make_table` does, with rows ``more`` to test on below; they may lack columns to ``drop``."""
    for column in drop:
        check_named(column, columns, "drop")
    if more is None:
        return make_table(columns, target, name, task, labels, drop)
    needed = (*(column for column in columns if column not in drop), name)
    check_there(needed, more, "The rows to test on", "the others have")
    below, first = _joined(target, more[name]), len(as_array(target))
    gaps = [None] * (len(as_array(below)) - first)
    added = {column: _joined(given, more.get(column, gaps)) if column in drop else _added(column, given, more[column])
             for column, given in columns.items()}
    mixed = as_array(target).dtype.kind != as_array(below).dtype.kind
    numbers = numbers_of(as_array(below)) if mixed else None  # True is 1 where the others have that
    table = make_table(added, below if numbers is None else numbers, name, task, labels, drop)
    table.given_target = below
    table.to_test = table.places >= first
    return table


def _added(name: str, column: object, more: object) -> object:
    """Return a column with that of the rows to test on below; of numbers it stays, or is refused."""
    texts = numbers_of(as_array(column)) is not None and numbers_of(as_array(more)) is None
    return _joined(column, read_as_before(name, more, None) if texts else more)


def _joined(first: Any, second: Any) -> Any:
    """Return two columns as one: of the library they both came from, else an array."""
    library = type(first).__module__.partition(".")[0]
    if library in ("polars", "pandas") and type(first) is type(second) and first.dtype == second.dtype:
        return import_module(library).concat([first, second])
    above, below = as_array(first), as_array(second)
    if above.dtype.kind != below.dtype.kind and not (_promoted(above) and _promoted(below)):
        above, below = _as_objects(above), _as_objects(below)
    return np.concatenate([above, below])


def _promoted(values: NDArray[Any]) -> bool:
    """Say whether values are numbers that float64 holds."""
    return values.dtype.kind in "iuf" and bool(np.nanmax(np.abs(values.astype(float)), initial=0.0) < EXACT)


def _as_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as objects that have their texts, by which keys of rows are made; times as these texts."""
    return categories_of(values, None) if values.dtype.kind in "mMS" else values.astype(object)


def set_apart(table: DataTable, by_groups: str | None, by_time: str | None) -> None:
    """Take the column that says which rows belong together, or when they were, out of the features and note it.

    Raises ValueError where there is none of that name, no feature is left, or times are missing or no times.
    """
    if by_groups is not None:
        given = texts_of(given_column(table, by_groups, "groups"))
        if not len(given.distinct):
            raise ValueError(f"{column_called(by_groups)} is empty. Name a column of which rows belong together.")
        alone = given.codes.max() + 1 + np.arange(len(table))  # a row without a group is one
        table.groups = np.unique(np.where(given.codes < 0, alone, given.codes), return_inverse=True)[1].ravel()
        if not table.groups.any():
            raise ValueError(f"{column_called(by_groups)} puts all rows into one group. Name a column of several.")
    if by_time is not None:
        table.times = moments(by_time, given_column(table, by_time, "time"), table)
    for name in (by_groups, by_time):
        table.numeric.pop(name or "", None)
        table.categorical.pop(name or "", None)
    if not table.numeric and not table.categorical:
        raise ValueError(f"No feature column is left beside {by_groups or by_time!r}.")


def moments(name: str, values: NDArray[Any], table: DataTable) -> NDArray[np.float64]:
    """Return when each row was, as numbers: of dates and times, of numbers, or of texts such as 2024-03-31."""
    if values.dtype.kind in "OUST":
        texts = texts_of(values)
        try:
            values = texts.spread(np.array(texts.distinct, dtype="datetime64[us]"), np.datetime64("NaT"))
        except ValueError:
            raise ValueError(f"{column_called(name)} holds texts such as {texts.distinct[0]!r}. Times must be numbers, "
                             "or dates such as 2024-03-31 or 2024-03-31T12:00.") from None
    missing = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values.astype(np.float64))
    if missing.any():
        raise ValueError(f"{column_called(name)} has no time in {counted(int(missing.sum()), 'row')}, such as row "
                         f"{table.row_numbers[missing][0]}. Fill in the times, or drop such rows.")
    return values.astype(np.int64 if values.dtype.kind in "mM" else np.float64).astype(np.float64)


def groups(table: DataTable) -> Rows:
    """Return a number for each row, the same for rows of equal features, counted by their first appearance."""
    group = np.zeros(len(table), dtype=np.intp)
    for name in (*table.categorical, *table.numeric):
        codes = table.factors[name][1] if name in table.categorical else factorised(table.numeric[name])[1]
        _, first, group = np.unique(group * (codes.max() + 1) + codes, return_index=True, return_inverse=True)
        if len(first) == len(table):  # all rows differ already
            break
    return np.argsort(np.argsort(first))[group.ravel()]


def _enough(kept: NDArray[Any], y: NDArray[Any]) -> bool:
    """Say whether every class has four rows among those kept."""
    return all(int((kept == label).sum()) >= ROWS_A_CLASS for label in np.unique(y))


def _members(group: Rows, chosen: Rows) -> Rows:
    """Return the rows of the chosen groups, group by group in their order."""
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(group.max() + 2))
    return np.concatenate([order[bounds[k] : bounds[k + 1]] for k in chosen])


def _check_classes(y: NDArray[Any], name: str) -> None:
    names, counts = np.unique(y, return_counts=True)
    if counts.min() < ROWS_A_CLASS:
        rare = names.tolist()[counts.argmin()]
        number = y.dtype.kind in "iuf"
        raise ValueError(f"Class {rare!r} of {name!r} has {counted(int(counts.min()), 'row')}; an audit needs "
                         f"{ROWS_A_CLASS} of each. Merge or drop the class"
                         f"{', or use --task regression' if number else ''}.")


def draw(y: NDArray[Any], size: int, classifies: bool, seed: int) -> Rows:
    """Draw row numbers at random, four of each class at least."""
    order = check_random_state(seed).permutation(len(y))
    if not classifies:
        return np.sort(order[:size])
    rank = np.empty(len(y), dtype=np.intp)  # how many rows of its class come before a row
    for label in np.unique(y):
        rank[order[y[order] == label]] = np.arange(np.sum(y == label))
    return np.sort(order[np.argsort(rank[order] >= ROWS_A_CLASS, kind="stable")][:size])
