"""Which rows are for training and which are held out, and which of them are drawn when all are too many."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from buttress._suggest import counted
from buttress.audit.reading.table import Table
from buttress.audit.reading.texts import factorised

HELD_OUT = 0.3  # of the rows
ROWS_A_CLASS = 4  # so that about one is held out and three are trained on
Rows = NDArray[np.intp]


def split(table: Table, classifies: bool, seed: int) -> tuple[Rows, Rows, str]:
    """Return the numbers of the training rows (70%) and of those held out, stratified by class, and a note if any.

    Rows of equal features stay on one side, so that none is scored by having learned its copy; where most rows are
    copies, as with a few columns of few values, they cannot.
    """
    y = table.target
    if classifies:
        _check_classes(y, table.target_name)
    group = groups(table)
    firsts = np.unique(group, return_index=True)[1]
    copies = len(y) - len(firsts)
    note = ""
    if copies and (len(firsts) < len(y) / 2 or (classifies and not _enough(y[firsts], y))):
        firsts = group = np.arange(len(y))
        note = f"Rows that repeat the features of another: {copies}, so many that some are on both sides of the split."
    elif copies:
        note = f"Rows that repeat the features of another: {copies}; they were kept on one side of the split."
    held = train_test_split(np.arange(len(firsts)), test_size=HELD_OUT, random_state=seed,
                            stratify=y[firsts] if classifies else None)
    train, test = (part if not copies else _members(group, part) for part in held)
    return train, test, note


def groups(table: Table) -> Rows:
    """Return a number for each row, the same for rows of equal features, counted by their first appearance."""
    group = np.zeros(len(table), dtype=np.intp)
    for name in (*table.categorical, *table.numeric):
        codes = table.factors(name)[1] if name in table.categorical else factorised(table.numeric[name])[1]
        _, first, group = np.unique(group * (codes.max() + 1) + codes, return_index=True, return_inverse=True)
        if len(first) == len(table):  # all rows differ already
            break
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group.ravel()]


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
    rng = check_random_state(seed)
    order = rng.permutation(len(y))
    if not classifies:
        return np.sort(order[:size])
    rank = np.empty(len(y), dtype=np.intp)  # how many rows of its class come before a row
    for label in np.unique(y):
        mine = order[y[order] == label]
        rank[mine] = np.arange(len(mine))
    return np.sort(order[np.argsort(rank[order] >= ROWS_A_CLASS, kind="stable")][:size])
