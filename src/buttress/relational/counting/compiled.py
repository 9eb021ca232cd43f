"""Compiled passes over lists of (bin, weight): up the tree, at the root, and back down.

The lists of an operation are slices [begin[k], end[k]) of two flat arrays, bins ascending; those that are made here
follow each other without a gap. Adjoints run parallel to the weights: adjoint[e] is the derivative of sum w y u with
respect to the weight of entry e. Inner loops count in unsigned numbers: of signed ones the compiler asks at each access
whether they count from the end.
"""

import numba
import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress.relational.plan.plan import Index

# of functions that are called for each key or row: a call counts references to its arrays, which would cost more
_inline = numba.njit(error_model="numpy", inline="always")
_LISTS = "int64[::1], int64[::1], int32[::1], float64[::1]"


@_inline
def _inserted(bins: Index, mass: Array, first: int, last: int, z: int, v: float) -> int:
    """Add weight v to bin z of the list in [first, last), whose bins ascend; return where the list ends then."""
    if v == 0:
        return last
    place = last
    while place > first and bins[place - 1] > z:
        place -= 1
    if place > first and bins[place - 1] == z:
        mass[place - 1] += v
        return last
    for e in range(last, place, -1):
        bins[e] = bins[e - 1]
        mass[e] = mass[e - 1]
    bins[place] = z
    mass[place] = v
    return last + 1


@_inline
def _in_order(q: Index, w: Array, key: Index, first: int, last: int, begin: Index, end: Index, bins: Index,
              mass: Array, out_bins: Index, out_mass: Array, out_begin: int) -> int:
    """Make the list of the rows [first, last), its entries put in order one by one; return where it ends."""
    place = out_begin
    for t in range(first, last):
        for e in range(begin[key[t]], end[key[t]]):
            place = _inserted(out_bins, out_mass, out_begin, place, q[t] + bins[e], w[t] * mass[e])
    return place


@_inline
def _packed(acc: Array, low: int, high: int, bins: Index, mass: Array, place: int) -> int:
    """Move what is not 0 of the bins low to high to a list at ``place``, and clear them; return where the list ends."""
    for z in range(low, high + 1):  # without a branch, which no processor could predict
        v = acc[z]
        bins[place] = z
        mass[place] = v
        acc[z] = 0.0
        place += int(v != 0)
    return place


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[::1], {_LISTS}, int64, {_LISTS})", makes_arrays=True)
def block_up(q: Index, w: Array, start: Index, key: Index, begin: Index, end: Index, bins: Index, mass: Array,
             width: int, out_begin: Index, out_end: Index, out_bins: Index, out_mass: Array) -> None:
    """Lists of a block's keys: shift the list that each row consults by its bin, weigh it, add up per key.

    Entries are added up in a dense array, or sorted where that takes fewer steps than there are bins.
    """
    acc = np.zeros(width)
    for k in range(start.size - 1):
        out_begin[k] = out_end[k - 1] if k else 0
        entries = 0
        for t in range(start[k], start[k + 1]):
            entries += end[key[t]] - begin[key[t]]
        if start[k + 1] - start[k] == 1 or 0 < entries * entries < width:
            out_end[k] = _in_order(q, w, key, start[k], start[k + 1], begin, end, bins, mass, out_bins, out_mass,
                                   out_begin[k])
            continue
        low = width
        high = -1
        for t in range(start[k], start[k + 1]):
            first = begin[key[t]]
            last = end[key[t]]
            for e in range(np.uint64(first), np.uint64(last)):
                acc[np.uint64(q[t] + bins[e])] += w[t] * mass[e]
            if last > first:
                low = min(low, q[t] + bins[first])
                high = max(high, q[t] + bins[last - 1])
        out_end[k] = _packed(acc, low, high, out_bins, out_mass, out_begin[k])


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[::1], {_LISTS}, int64, {_LISTS}, "
                "float64[::1], float64[::1], float64[::1])", makes_arrays=True)
def block_down(q: Index, w: Array, start: Index, key: Index, begin: Index, end: Index, bins: Index, mass: Array,
               width: int, out_begin: Index, out_end: Index, out_bins: Index, out_mass: Array, out_adjoint: Array,
               adjoint: Array, worth: Array) -> None:
    """Reverse of ``block_up``: what a weight of 1 of each row is worth; adds to the consulted lists' adjoints."""
    dense = np.zeros(width)
    for k in range(start.size - 1):
        for e in range(out_begin[k], out_end[k]):
            dense[out_bins[e]] = out_adjoint[e]
        for t in range(start[k], start[k + 1]):
            total = 0.0
            for e in range(np.uint64(begin[key[t]]), np.uint64(end[key[t]])):
                v = dense[np.uint64(q[t] + bins[e])]
                total += mass[e] * v
                adjoint[e] += w[t] * v
            worth[t] = total


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], {_LISTS}, float64[::1], float64[::1], float64[::1], "
                "float64[::1])")
def meet(q: Index, w: Array, key: Index, begin: Index, end: Index, bins: Index, mass: Array, slope: Array,
         histogram: Array, adjoint: Array, worth: Array) -> None:
    """Root: the histogram of the scores, what a weight of 1 of each row is worth, adjoints of the list it consults.

    ``slope[z]`` is y u at bin z, which tells the label as well.
    """
    for t in range(q.size):
        low = q[t]  # what does not change in the inner loop, which the compiler cannot know
        g = w[t]
        total = 0.0
        for e in range(np.uint64(begin[key[t]]), np.uint64(end[key[t]])):
            z = np.uint64(low + bins[e])
            v = slope[z]
            total += mass[e] * v
            adjoint[e] += g * v
            histogram[z] += g * mass[e]
        worth[t] = total
