"""Memory for the stored rows, which one fit leaves to the next."""

import numpy as np

from buttress._checks import Array

WAITING_BYTES = 512 * 2**20  # largest buffer that is kept for the next fit

_kept: list[Array] = []  # at most one buffer: the first use of new memory takes as long as computing what it holds


def borrow(size: int) -> Array:
    """Return a buffer of at least ``size`` bytes: the one kept from an earlier fit if it is large enough."""
    try:
        buffer = _kept.pop()
    except IndexError:
        return np.empty(size, dtype=np.uint8)
    return buffer if buffer.size >= size else np.empty(size, dtype=np.uint8)


def give_back(buffer: Array) -> None:
    """Keep the buffer for the next fit, unless it is large or one is kept already."""
    if buffer.size <= WAITING_BYTES and not _kept:
        _kept.append(buffer)
