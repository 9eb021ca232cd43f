"""The root of a star by Fourier transforms: its rows multiply the spectra of the lists that they consult.

A row's scores are the Minkowski sum of its lists, whose spectrum is the product of theirs. What is asked of it (sums
with the slope, histograms, what each entry is worth) is linear, so that no row needs a transform of its own: time grows
linearly in the number of lists. Sums are off by about 1e-15 of the weight of all rows, as sums of floats are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress.relational.counting.lists import Lists
from buttress.relational.counting.schedule import Product, Schedule
from buttress.relational.plan.plan import Index

COMPLEX_MEGABYTES = 16e-6  # of a frequency of a spectrum: two 64-bit floats
LARGEST_SHARE = 1 / 2  # of the memory that spectra may take
# time that two entries of lists take to be multiplied, as a share of that of two frequencies with what follows of them:
# 0.08 to 0.3 in a trial on stars of 4 and 8 tables, 10 and 100 rows a key; benchmarks/relational.py --parts calls times
# stars of 100
SCATTERED = 0.15


def lengths_of(work: Schedule, bins: int) -> tuple[list[float], list[int]]:
    """Return about how long the lists are that the root consults, and how many there are of each."""
    lengths: list[float] = []
    n_keys: list[int] = []
    for operation in work.operations[:-1]:
        if isinstance(operation, Product):
            lengths.append(min(lengths[operation.left] * lengths[operation.right], bins))
            n_keys.append(len(operation.keys[0]))
            continue
        n_keys.append(len(operation.start) - 1)
        below = lengths[operation.lists[0][0]] if operation.lists else 1.0
        lengths.append(min(operation.n_rows / max(n_keys[-1], 1) * below, bins))
    return [lengths[op] for op, _ in work.root.lists], [n_keys[op] for op, _ in work.root.lists]


def pays(lengths: Sequence[float], n_keys: Sequence[int], bins: int, memory: float) -> bool:
    """Say whether spectra of lists fit ``memory`` megabytes and take less time than products of the lists."""
    frequencies = bins // 2
    tables = 2 * sum(n_keys) + bins  # of lists, what they are worth, and shifts
    if COMPLEX_MEGABYTES * frequencies * tables > memory * LARGEST_SHARE:
        return False
    products = 0.0
    made = 1.0
    for length in lengths:
        entries = min(length, bins / len(lengths))
        products += made * entries
        made = min(made * entries, bins)
    return SCATTERED * products > len(lengths) * frequencies


@dataclass(frozen=True)
class Spectra:
    """Real and imaginary parts, a row a key."""

    re: Array
    im: Array

    @property
    def arrays(self) -> tuple[Array, Array]:
        return self.re, self.im


def _spectra(values: Array, n: int) -> Spectra:
    found = np.atleast_2d(rfft(values, n=n))
    return Spectra(np.ascontiguousarray(found.real), np.ascontiguousarray(found.imag))


def _blank(rows: int, n: int) -> Spectra:
    return Spectra(np.zeros((rows, n // 2 + 1)), np.zeros((rows, n // 2 + 1)))


def _joined(parts: Sequence[Spectra]) -> Spectra:
    return Spectra(np.vstack([part.re for part in parts]), np.vstack([part.im for part in parts]))


def _dense(lists: Lists) -> Array:
    """Return the lists as rows (keys, width)."""
    key, at = _entries(lists)
    made = np.zeros((len(lists.begin), lists.width))
    made[key, lists.bins[at]] = lists.mass[at]
    return made


def _entries(lists: Lists) -> tuple[Index, Index]:
    """Return the list and the place of each entry that is in use."""
    sizes = lists.end - lists.begin
    key = np.repeat(np.arange(len(sizes)), sizes)
    return key, np.repeat(lists.begin - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))


class Meeting:
    """Rows that consult several lists, met with all of them at once, some rows after the other.

    ``n_bins`` bounds the rows' own bins, and the width of ``slope`` all bins: ``slope[side, z]`` is y u at score bin z.
    """

    def __init__(self, lists: Sequence[Lists], n_bins: int, slope: Array):
        self.lists = lists
        self.width = slope.shape[1]
        self.n = n = next_fast_len(self.width, real=True)
        self.spectra = _joined([_spectra(_dense(part), n) for part in lists])
        self.first = np.cumsum([0, *(len(part.begin) for part in lists)])
        self.shift = _spectra(np.eye(n_bins, n), n)
        self.asked = _spectra(slope, n)
        self.worth = _blank(len(self.spectra.re), n)
        self.total = _blank(2, n)
        self.twice = np.full(n // 2 + 1, 2.0 / n)
        self.twice[0] = 1.0 / n
        if n % 2 == 0:
            self.twice[-1] = 1.0 / n

    def add(self, q: Index, weight: Array, side: Index, keys: Sequence[Index]) -> Array:
        """Meet rows, whose bins are ``q`` and whose lists are those of ``keys``; return their signed counts."""
        consulted = np.column_stack([key + start for key, start in zip(keys, self.first)]).astype(np.int64)
        count = np.zeros(len(q))
        _rows(q, weight, side, consulted, *self.spectra.arrays, *self.shift.arrays, self.asked.re, -self.asked.im,
              self.twice, *self.worth.arrays, *self.total.arrays, count)
        return count

    def end(self, adjoint: Sequence[Array]) -> Array:
        """Return the histogram per label of all rows; adds to ``adjoint`` what the entries of the lists are worth."""
        for start, part, out in zip(self.first, self.lists, adjoint):
            place = slice(start, start + len(part.begin))
            back = irfft(self.worth.re[place] - 1j * self.worth.im[place], n=self.n)
            key, at = _entries(part)
            out[at] += back[key, part.bins[at]]
        histogram: Array = irfft(self.total.re + 1j * self.total.im, n=self.n)[:, : self.width]
        return np.maximum(histogram, 0.0)


_TABLE = "float64[:,::1], float64[:,::1]"


@compile_kernel(f"void(int32[::1], float64[::1], int64[::1], int64[:,::1], {_TABLE}, {_TABLE}, {_TABLE}, float64[::1], "
                f"{_TABLE}, {_TABLE}, float64[::1])", fastmath={"reassoc", "contract", "nsz"})
def _rows(q: Index, weight: Array, side: Index, consulted: Index, re: Array, im: Array, shift_re: Array,
          shift_im: Array, asked_re: Array, asked_im: Array, twice: Array, worth_re: Array, worth_im: Array,
          total_re: Array, total_im: Array, count: Array) -> None:
    """Multiply each row's spectra from the left, and from the right by what is asked: products without each of them.

    ``asked`` is the conjugate of the slope's spectrum, ``twice`` what each frequency counts for in a sum.
    """
    n_lists = consulted.shape[1]
    left_re = np.zeros((n_lists + 1, re.shape[1]))
    left_im = np.zeros((n_lists + 1, re.shape[1]))
    right_re = np.zeros(re.shape[1])
    right_im = np.zeros(re.shape[1])
    for t in range(q.size):
        s = side[t]
        w = weight[t]
        left_re[0] = shift_re[q[t]]
        left_im[0] = shift_im[q[t]]
        for j in range(n_lists):
            k = consulted[t, j]
            for f in range(re.shape[1]):
                left_re[j + 1, f] = left_re[j, f] * re[k, f] - left_im[j, f] * im[k, f]
                left_im[j + 1, f] = left_re[j, f] * im[k, f] + left_im[j, f] * re[k, f]
        found = 0.0
        for f in range(re.shape[1]):
            x = left_re[n_lists, f]
            y = left_im[n_lists, f]
            found += twice[f] * (asked_re[s, f] * x - asked_im[s, f] * y)
            total_re[s, f] += w * x
            total_im[s, f] += w * y
            right_re[f] = w * asked_re[s, f]
            right_im[f] = w * asked_im[s, f]
        count[t] = w * found
        for j in range(n_lists - 1, -1, -1):
            k = consulted[t, j]
            for f in range(re.shape[1]):
                x = right_re[f]
                y = right_im[f]
                worth_re[k, f] += x * left_re[j, f] - y * left_im[j, f]
                worth_im[k, f] += x * left_im[j, f] + y * left_re[j, f]
                right_re[f] = x * re[k, f] - y * im[k, f]
                right_im[f] = x * im[k, f] + y * re[k, f]
