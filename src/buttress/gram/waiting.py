"""Memory that one fit leaves to the next: its first use takes as long as computing what a small fit puts there."""

import sys

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_waiting: list[Bytes] = []


def memory_of(size: int, most: int) -> Bytes:
    """Return at least ``size`` bytes: those of an earlier fit if they are enough and nothing refers to them any more.

    No more than ``most`` wait for the next fit.
    """
    new: Bytes = np.empty(size, dtype=np.uint8)
    try:
        found = _waiting.pop()  # by one thread
    except IndexError:
        found = new
    if found.size < size or sys.getrefcount(found) > sys.getrefcount(new):
        found = new
    if found.size <= most:
        _waiting.append(found)
    return found
