"""Which rows are for training and which are held out, and which of them are drawn when all are too many."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from buttress.audit.table import Table

HELD_OUT = 0.3
Rows = NDArray[np.intp]


def split(table: Table, classifies: bool, seed: int) -> tuple[Rows, Rows]:
    """Return the numbers of the training rows (70%) and of those held out, stratified by class."""
    y = table.target
    if classifies:
        _check_classes(y, table.target_name)
    train, test = train_test_split(np.arange(len(y)), test_size=HELD_OUT, random_state=seed,
                                   stratify=y if classifies else None)
    return train, test


def _check_classes(y: NDArray[Any], name: str) -> None:
    names, counts = np.unique(y, return_counts=True)
    if counts.min() < 4:
        rare = names.tolist()[counts.argmin()]
        number = y.dtype.kind in "iuf"
        raise ValueError(f"Class {rare!r} of {name!r} has {counts.min()} rows; an audit needs 4 of each. Merge or drop "
                         f"the class{', or use --task regression' if number else ''}.")


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
    return np.sort(order[np.argsort(rank[order] >= 4, kind="stable")][:size])
