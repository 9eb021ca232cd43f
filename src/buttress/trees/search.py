"""The least sum of trees over boxes: tree by tree, then of halves of a box at thresholds; compiled.

Each tree gives a box at least the least of the leaves that it reaches, so what these sum to is a lower bound of every
sum in it, and is one where no tree reaches two leaves of different value. A box whose bound is too low is halved at the
first threshold in it of the tree whose leaves differ most; the half of that tree's least leaf is looked at first.
"""

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_inner, compile_kernel
from buttress._types import Rows


@compile_inner()
def _look(
    feature: Rows, threshold: Array, left: Rows, right: Rows, value: Array, roots: Rows, total: float, lows: Array,
    highs: Array, box: int, waiting: Rows,
) -> tuple[float, int, bool]:
    """Return the bound of a box, the node to halve it at (-1 where the bound is a sum), and whether to go below first.

    A tree is walked with what lies below a node before what lies above.
    """
    widest = 0.0
    cut = -1
    down = False
    for root in roots:
        least = np.inf
        largest = -np.inf
        least_below = np.inf
        first = -1
        waiting[0] = root
        size = 1
        while size > 0:
            size -= 1
            node = waiting[size]
            if first >= 0 and node == right[first]:
                least_below = least
            if left[node] < 0:
                least = min(least, value[node])
                largest = max(largest, value[node])
                continue
            below = lows[box, feature[node]] <= threshold[node]
            above = highs[box, feature[node]] > threshold[node]
            if below and above and first < 0:
                first = node
            if above:
                waiting[size] = right[node]
                size += 1
            if below:
                waiting[size] = left[node]
                size += 1
        total += least
        if largest - least > widest:
            widest = largest - least
            cut = first
            down = least_below <= least
    return total, cut, down


@compile_kernel("f8[:, ::1](i8[::1], f8[::1], i8[::1], i8[::1], f8[::1], i8[::1], f8, f8[:, ::1], f8[:, ::1], f8, i8, "
                "i8[::1], f8[:, ::1], f8[:, ::1])", makes_arrays=True)
def least_sums(
    feature: Rows, threshold: Array, left: Rows, right: Rows, value: Array, roots: Rows, start: float, low: Array,
    high: Array, enough: float, most: int, waiting: Rows, lows: Array, highs: Array,
) -> Array:
    """Return for boxes low to high (n, d): a lower bound, the least sum met, and whether the search is over, (n, 3).

    ``feature``, ``threshold``, ``left``, ``right`` and ``value`` are of the nodes of all trees. At most ``most`` boxes
    a row are looked at. The search is over where all sums are known to be above ``enough`` or at least the one met, or
    where one below -enough is met: low and high then become the box of the one met. ``waiting`` is room for the nodes
    of a tree, ``lows`` and ``highs`` (most + 2, d) for boxes.
    """
    n, d = low.shape
    found = np.empty((n, 3))
    for row in range(n):
        whole = -np.inf
        floor = np.inf
        met = np.inf
        for j in range(d):
            lows[0, j] = low[row, j]
            highs[0, j] = high[row, j]
        size, seen = 1, 0
        while size > 0 and seen < most and met >= -enough:
            box = size - 1
            total, cut, down = _look(feature, threshold, left, right, value, roots, start, lows, highs, box, waiting)
            whole = total if seen == 0 else whole
            seen += 1
            if cut >= 0 and total <= enough and total < met:
                for j in range(d):
                    lows[size, j] = lows[box, j]
                    highs[size, j] = highs[box, j]
                below = size if down else box
                above = box if down else size
                highs[below, feature[cut]] = threshold[cut]
                lows[above, feature[cut]] = np.nextafter(threshold[cut], np.inf)
                size += 1
                continue
            floor = min(floor, total)
            if total <= enough and total < met:
                met = total
                for j in range(d):
                    low[row, j] = lows[box, j]
                    high[row, j] = highs[box, j]
            size -= 1
        found[row, 0] = floor if size == 0 else whole
        found[row, 1] = met
        found[row, 2] = size == 0 or met < -enough
    return found
