"""Memory for the stored rows, which one fit leaves to the next, and what of it is still in use."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array

Index = NDArray[np.intp]

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


def live_fills(fills: Sequence[tuple[Index, int]], filling: Index) -> dict[str, Any]:
    """Return the fillings of which a row is still stored, numbered anew."""
    live, numbers = np.unique(filling, return_inverse=True)
    kept = [fills[k] for k in live if k >= 0]
    return {"filling": numbers.reshape(filling.shape) - (len(live) - len(kept)), "fills": [rows for rows, _ in kept],
            "sections": [section for _, section in kept]}
