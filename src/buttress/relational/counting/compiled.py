"""Compiled passes over lists of (bin, weight): up the tree, at the root, and back down.

The lists of an operation are slices [begin[k], end[k]) of two flat arrays, bins ascending; those that are made here
follow each other without a gap. Adjoints run parallel to the weights: adjoint[e] is the derivative of sum w y u with
respect to the weight of entry e.
"""

import numba
import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel, prefetch
from buttress.relational.plan.plan import Index

FETCHED_ENTRIES = 64  # entries at the start of a list that are asked for ahead of time
ROWS_AHEAD = 4  # rows ahead of the one in work whose lists are asked for

# of functions that are called for each key or row: a call counts references to its arrays, which would cost more
_inline = numba.njit(error_model="numpy", inline="always")
_LISTS = "int64[::1], int64[::1], int32[::1], float64[::1]"


@numba.njit(error_model="numpy")
def _fetch_list(begin: Index, end: Index, bins: Index, mass: Array, k: int) -> None:
    """Ask for the start of list k: lists that follow in random order are not in the processor's cache."""
    first = begin[k]
    for e in range(first, min(end[k], first + FETCHED_ENTRIES), 8):  # 64-bit weights in a cache line of 64 bytes
        prefetch(mass, (e,))
    for e in range(first, min(end[k], first + FETCHED_ENTRIES), 16):  # 32-bit bins in such a line
        prefetch(bins, (e,))


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
def _extent(q: Index, key: Index, first: int, last: int, begin: Index, end: Index, bins: Index, mass: Array,
            width: int) -> tuple[int, int]:
    """Return the number of entries of the rows [first, last), and of the bins that they span; asks for lists ahead."""
    low = width
    high = -1
    entries = 0
    for t in range(first, last):
        if t + ROWS_AHEAD < key.size and key[t + ROWS_AHEAD] != key[t + ROWS_AHEAD - 1]:
            _fetch_list(begin, end, bins, mass, key[t + ROWS_AHEAD])
        if end[key[t]] > begin[key[t]]:
            low = min(low, q[t] + bins[begin[key[t]]])
            high = max(high, q[t] + bins[end[key[t]] - 1])
            entries += end[key[t]] - begin[key[t]]
    return entries, high - low + 1


@_inline
def _few(q: Index, key: Index, first: int, last: int, begin: Index, end: Index, bins: Index, mass: Array,
         width: int) -> bool:
    """Say whether the rows [first, last) have so few entries that sorting them takes fewer steps than their bins."""
    if (last - first) * (last - first) > width:
        return False
    entries, span = _extent(q, key, first, last, begin, end, bins, mass, width)
    return entries * entries < span


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


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[::1], {_LISTS}, int64, {_LISTS})")
def block_up(q: Index, w: Array, start: Index, key: Index, begin: Index, end: Index, bins: Index, mass: Array,
             width: int, out_begin: Index, out_end: Index, out_bins: Index, out_mass: Array) -> None:
    """Lists of a block's keys: shift the list that each row consults by its bin, weigh it, add up per key.

    Entries are added up in a dense array, or sorted where they are few beside the bins that they span.
    """
    acc = np.zeros(width)
    for k in range(start.size - 1):
        out_begin[k] = out_end[k - 1] if k else 0
        if start[k + 1] - start[k] == 1 or _few(q, key, start[k], start[k + 1], begin, end, bins, mass, width):
            out_end[k] = _in_order(q, w, key, start[k], start[k + 1], begin, end, bins, mass, out_bins, out_mass,
                                   out_begin[k])
            continue
        low = width
        high = -1
        for t in range(start[k], start[k + 1]):
            if t + ROWS_AHEAD < key.size and key[t + ROWS_AHEAD] != key[t + ROWS_AHEAD - 1]:
                _fetch_list(begin, end, bins, mass, key[t + ROWS_AHEAD])
            first = begin[key[t]]
            last = end[key[t]]
            for e in range(first, last):
                acc[q[t] + bins[e]] += w[t] * mass[e]
            if last > first:
                low = min(low, q[t] + bins[first])
                high = max(high, q[t] + bins[last - 1])
        out_end[k] = _packed(acc, low, high, out_bins, out_mass, out_begin[k])


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[::1], {_LISTS}, int64, {_LISTS}, "
                "float64[::1], float64[::1], float64[::1])")
def block_down(q: Index, w: Array, start: Index, key: Index, begin: Index, end: Index, bins: Index, mass: Array,
               width: int, out_begin: Index, out_end: Index, out_bins: Index, out_mass: Array, out_adjoint: Array,
               adjoint: Array, count: Array) -> None:
    """Reverse of ``block_up``: fills the rows' signed counts and adds to the consulted lists' adjoints."""
    dense = np.zeros(width)
    for k in range(start.size - 1):
        for e in range(out_begin[k], out_end[k]):
            dense[out_bins[e]] = out_adjoint[e]
        for t in range(start[k], start[k + 1]):
            if t + ROWS_AHEAD < key.size and key[t + ROWS_AHEAD] != key[t + ROWS_AHEAD - 1]:
                _fetch_list(begin, end, bins, mass, key[t + ROWS_AHEAD])
                _fetch_list(begin, end, bins, adjoint, key[t + ROWS_AHEAD])
            total = 0.0
            for e in range(begin[key[t]], end[key[t]]):
                v = dense[q[t] + bins[e]]
                total += mass[e] * v
                adjoint[e] += w[t] * v
            count[t] = w[t] * total


@compile_kernel(f"void(int64[::1], int64[::1], {_LISTS}, {_LISTS}, int64, {_LISTS})")
def product_up(first: Index, second: Index, begin: Index, end: Index, bins: Index, mass: Array, begin2: Index,
               end2: Index, bins2: Index, mass2: Array, width: int, out_begin: Index, out_end: Index,
               out_bins: Index, out_mass: Array) -> None:
    """Minkowski sums of pairs of lists."""
    acc = np.zeros(width)
    for p in range(first.size):
        out_begin[p] = out_end[p - 1] if p else 0
        a = begin[first[p]]
        z = end[first[p]]
        a2 = begin2[second[p]]
        z2 = end2[second[p]]
        for e in range(a, z):
            for f in range(a2, z2):
                acc[bins[e] + bins2[f]] += mass[e] * mass2[f]
        out_end[p] = out_begin[p]
        if z > a and z2 > a2:
            out_end[p] = _packed(acc, bins[a] + bins2[a2], bins[z - 1] + bins2[z2 - 1], out_bins, out_mass,
                                 out_begin[p])


@compile_kernel(f"void(int64[::1], int64[::1], {_LISTS}, {_LISTS}, int64, {_LISTS}, float64[::1], float64[::1], "
                "float64[::1])")
def product_down(first: Index, second: Index, begin: Index, end: Index, bins: Index, mass: Array, begin2: Index,
                 end2: Index, bins2: Index, mass2: Array, width: int, out_begin: Index, out_end: Index,
                 out_bins: Index, out_mass: Array, out_adjoint: Array, adjoint: Array, adjoint2: Array) -> None:
    """Reverse of ``product_up``."""
    dense = np.zeros(width)
    for p in range(first.size):
        for e in range(out_begin[p], out_end[p]):
            dense[out_bins[e]] = out_adjoint[e]
        for e in range(begin[first[p]], end[first[p]]):
            total = 0.0
            for f in range(begin2[second[p]], end2[second[p]]):
                v = dense[bins[e] + bins2[f]]
                total += mass2[f] * v
                adjoint2[f] += mass[e] * v
            adjoint[e] += total


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[::1], {_LISTS}, float64[:,::1], float64[:,::1], "
                "float64[::1], float64[::1])")
def root_one(q: Index, w: Array, side: Index, key: Index, begin: Index, end: Index, bins: Index, mass: Array,
             slope: Array, histogram: Array, adjoint: Array, count: Array) -> None:
    """Root with one list: histograms per label, rows' signed counts, adjoints of the list.

    ``side`` is 1 for label +1 and 0 for -1; ``slope[side, z]`` is y u at score bin z.
    """
    for t in range(q.size):
        s = side[t]
        total = 0.0
        for e in range(begin[key[t]], end[key[t]]):
            z = q[t] + bins[e]
            v = slope[s, z]
            total += mass[e] * v
            adjoint[e] += w[t] * v
            histogram[s, z] += w[t] * mass[e]
        count[t] = w[t] * total


@numba.njit(error_model="numpy")
def _gather(weight: Array, side: Index, q: Index, w: Array, key: Index, i: int, j: int, begin: Index, end: Index,
            bins: Index, mass: Array) -> tuple[int, int]:
    """Add the lists of the rows [i, j) to the dense weights of their sides; return their least and largest bin."""
    low = weight.shape[1]
    high = -1
    for t in range(i, j):
        if t + ROWS_AHEAD < key.size:
            _fetch_list(begin, end, bins, mass, key[t + ROWS_AHEAD])
        s = side[t]
        first = begin[key[t]]
        last = end[key[t]]
        for e in range(first, last):
            weight[s, q[t] + bins[e]] += w[t] * mass[e]
        if last > first:
            low = min(low, q[t] + bins[first])
            high = max(high, q[t] + bins[last - 1])
    return low, high


@numba.njit(error_model="numpy")
def _consult(value: Array, s: int, q: int, w: float, bins: Index, mass: Array, adjoint: Array, first: int,
             last: int) -> float:
    """Return the sum of a list's weights times the dense values at its bins; add w times the values to its adjoint."""
    total = 0.0
    for e in range(first, last):
        v = value[s, q + bins[e]]
        total += mass[e] * v
        adjoint[e] += w * v
    return total


@numba.njit(error_model="numpy")
def _meet(weight: Array, value: Array, low: int, slope: Array, histogram: Array, bins: Index, mass: Array,
          adjoint: Array) -> None:
    """Meet the weights of bins low, low + 1, ... with one list: what each bin is worth; the weights are cleared."""
    for z in range(weight.size):
        g = weight[z]
        if g == 0:
            continue
        total = 0.0
        for f in range(bins.size):
            at = low + z + bins[f]
            v = slope[at]
            total += mass[f] * v
            adjoint[f] += g * v
            histogram[at] += g * mass[f]
        value[z] = total
        weight[z] = 0.0


@_inline
def _few_pairs(q: Index, key: Index, first: int, last: int, begin: Index, end: Index, bins: Index, mass: Array,
               width: int, n_second: int) -> bool:
    """Say whether the rows [first, last) make fewer pairs with a second list than both labels have bins there."""
    if (last - first) * n_second > 2 * width:
        return False
    entries, span = _extent(q, key, first, last, begin, end, bins, mass, width)
    return entries * n_second < 2 * span


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[::1], int64[::1], {_LISTS}, {_LISTS}, "
                "float64[:,::1], float64[:,::1], float64[::1], float64[::1], float64[::1])")
def root_two(q: Index, w: Array, side: Index, key: Index, key2: Index, begin: Index, end: Index, bins: Index,
             mass: Array, begin2: Index, end2: Index, bins2: Index, mass2: Array, slope: Array, histogram: Array,
             adjoint: Array, adjoint2: Array, count: Array) -> None:
    """Root with two lists; rows are sorted by the second list's key.

    Per key of the second list the first is gathered into a dense array, so that a row costs one list, not a product.
    Where the pairs of entries are fewer than the bins of that array, or a row is alone, they are met one by one.
    """
    width = slope.shape[1]
    weight = np.zeros((2, width))
    value = np.zeros((2, width))
    i = 0
    while i < key2.size:
        j = i
        while j < key2.size and key2[j] == key2[i]:
            j += 1
        first2 = begin2[key2[i]]
        last2 = end2[key2[i]]
        if j - i == 1 or _few_pairs(q, key, i, j, begin, end, bins, mass, width, last2 - first2):
            for t in range(i, j):  # no function: a call costs more than the few pairs of a row
                s = side[t]
                found = 0.0
                for e in range(begin[key[t]], end[key[t]]):
                    g = w[t] * mass[e]
                    total = 0.0
                    for f in range(first2, last2):
                        z = q[t] + bins[e] + bins2[f]
                        v = slope[s, z]
                        total += mass2[f] * v
                        adjoint2[f] += g * v
                        histogram[s, z] += g * mass2[f]
                    found += mass[e] * total
                    adjoint[e] += w[t] * total
                count[t] = w[t] * found
        else:
            low, high = _gather(weight, side, q, w, key, i, j, begin, end, bins, mass)
            for s in range(2):
                _meet(weight[s, low : high + 1], value[s, low : high + 1], low, slope[s], histogram[s],
                      bins2[first2:last2], mass2[first2:last2], adjoint2[first2:last2])
            for t in range(i, j):
                if t + ROWS_AHEAD < key.size:
                    _fetch_list(begin, end, bins, mass, key[t + ROWS_AHEAD])
                    _fetch_list(begin, end, bins, adjoint, key[t + ROWS_AHEAD])
                count[t] = w[t] * _consult(value, side[t], q[t], w[t], bins, mass, adjoint, begin[key[t]], end[key[t]])
        i = j
