"""Rows of a Gram matrix, computed block by block with one matrix product each, and kept in a cache of bounded size."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from buttress._arrays import memory_of
from buttress._checks import TINY, Array
from buttress._threads import share
from buttress._types import DenseOrSparse, Rows
from buttress.checkpoints.journal import Memory
from buttress.gram.compiled import WIDTH_MULTIPLE, add_rows, gather
from buttress.gram.entries import KernelEntries, entries, worst_error
from buttress.gram.products import Exact, exact_entries, tiled_product, tiles, unstored_sums
from buttress.gram.rounding import Product, Summed
from buttress.kernels import Kernel

FLOAT64_ROWS = 2000  # up to this many rows float64 costs little, and the solution can be finished to rounding
COLUMNS_A_THREAD = 4096  # columns of stored rows that one thread adds at a time: shorter pieces are read more slowly
WIDE = 128  # if X has more columns, entries are taken from stored rows instead of computed again


class RowCache:
    """The stored rows of one Gram matrix; when the cache is full, the row that was used longest ago is discarded.

    Columns are divided into sections, filled separately: problems on some of them compute only those, and share them.
    """

    def __init__(
        self, kernel: Kernel, X: DenseOrSparse, megabytes: float, prepared: KernelEntries,
        sections: Sequence[int] | Rows, at_once: bool = False,
    ):
        self.kernel = kernel
        self.X = X
        self.megabytes = float(megabytes)
        self.sections = np.asarray(sections).tolist()
        self.diagonal = kernel.diagonal(X).astype(np.float64)
        self._scratch: Array = np.empty(0, dtype=np.uint8)
        self.n_computed = 0.0  # entries computed so far, in units of whole rows
        self._allocate(prepared)
        self.whole = at_once and self.real == np.float64 and self.capacity == X.shape[0]
        if self.whole:
            self._fill_all()

    def _allocate(self, prepared: KernelEntries) -> None:
        n = self.X.shape[0]
        self.entries = prepared
        self.real = np.dtype(prepared.real)
        self.capacity = int(min(max(self.megabytes * 2**20 / (self.real.itemsize * n), 2), n))
        size = self.capacity * n * self.real.itemsize
        self.store: Array = memory_of(size, 8 * FLOAT64_ROWS**2)[:size].view(self.real).reshape(self.capacity, n)
        self._slot = np.full(n, -1)  # where row i is stored, -1 if it is not
        self._owner = np.full(self.capacity, -1)
        self._stamp = np.zeros(self.capacity, dtype=np.int64)
        self._filled = np.zeros((self.capacity, len(self.sections) - 1), dtype=bool)
        self._clock = 0
        self._fills: list[tuple[Rows, int]] = []  # the rows and the section of each filling
        self._filling = np.full(self._filled.shape, -1)  # which of them each stored row's section is from
        self._due: Memory | None = None  # what is to be restored before the stored rows are next used

    def scratch(self, height: int, width: int, real: DTypeLike) -> Array:
        """Return memory for a matrix in a precision, which the next call returns again."""
        size = height * width * np.dtype(real).itemsize
        if self._scratch.size < size:
            self._scratch = np.empty(size, dtype=np.uint8)
        return self._scratch[:size].view(real).reshape(height, width)

    def memory(self) -> Memory:
        """Return which rows are stored, and from which fillings: entries depend a little on what else is computed."""
        if self.whole:
            return {"n_computed": self.n_computed}
        if self._due is not None:
            return self._due
        return {"n_computed": self.n_computed, "slot": self._slot.copy(), "owner": self._owner.copy(),
                "stamp": self._stamp.copy(), "clock": self._clock, "filled": self._filled.copy(),
                "from": partial(live_fills, tuple(self._fills), self._filling.copy())}

    def restore(self, memory: Memory) -> None:
        """Return to the state of a memory. Its rows are computed again once they are needed."""
        self.n_computed = memory["n_computed"]
        if not self.whole:
            self._due = memory

    def _settle(self) -> None:
        """Compute the rows that are to be restored, in the groups in which they were computed first."""
        if self._due is None:
            return
        memory = self._due
        self._due = None
        self._slot = memory["slot"].copy()
        self._owner = memory["owner"].copy()
        self._stamp = memory["stamp"].copy()
        self._clock = memory["clock"]
        self._filled = memory["filled"].copy()
        self._filling = memory["from"]["filling"].copy()
        self._fills = list(zip(memory["from"]["fills"], memory["from"]["sections"], strict=True))
        for number, (index, section) in enumerate(self._fills):
            self._fill_again(index, np.flatnonzero(self._filling[:, section] == number), section)

    def _fill_again(self, index: Rows, slots: Rows, section: int) -> None:
        """Compute the entries of a filling once more, and store those that are wanted."""
        start, stop = self.sections[section : section + 2]
        found = np.empty((len(index), self.X.shape[0]), dtype=self.real)
        self.entries.write(index, start, stop, found, np.arange(len(index)))
        place = {row: k for k, row in enumerate(index.tolist())}
        rows = self._owner[slots]
        self.store[slots, start:stop] = found[[place[row] for row in rows.tolist()], start:stop]
        own = (rows >= start) & (rows < stop)
        self.store[slots[own], rows[own]] = self.diagonal[rows[own]]

    def _fill_all(self) -> None:
        everything = np.arange(self.X.shape[0])
        self._slot = everything
        self._owner = everything.copy()
        self._filled[:] = True
        for start, stop in tiles(0, len(everything)):
            self.store[start:stop, start:] = self.entries(slice(start, stop), slice(start, len(everything)))
            self.store[stop:, start:stop] = self.store[start:stop, stop:].T
        np.fill_diagonal(self.store, self.diagonal)
        self.n_computed += len(everything)

    def widen(self) -> None:
        """Discard the float32 rows and go on in float64."""
        del self.store
        self._allocate(entries(self.kernel, self.X, np.float64))

    def stored(self, index: Rows, sections: list[int]) -> tuple[NDArray[np.bool_], Rows]:
        """Return which of these rows are stored in all of these sections, and their places in ``store``."""
        self._settle()
        slots = self._slot[index]
        here = (slots >= 0) & self._filled[slots][:, sections].all(axis=1)
        return here, slots[here]

    def slots(self, index: Rows, sections: Sequence[int]) -> Rows:
        """Return the places in ``store`` of the rows ``index`` (at most ``capacity``); compute what is missing."""
        if self.whole:
            return index
        self._settle()
        self._clock += 1
        self._stamp[self._slot[index[self._slot[index] >= 0]]] = self._clock
        missing = index[self._slot[index] < 0]
        if missing.size:
            slots = np.argsort(self._stamp, kind="stable")[: missing.size]
            evicted = self._owner[slots]
            self._slot[evicted[evicted >= 0]] = -1
            self._owner[slots] = missing
            self._slot[missing] = slots
            self._stamp[slots] = self._clock
            self._filled[slots] = False
            self._filling[slots] = -1
        found: Rows = self._slot[index]
        for section in sections:
            todo = ~self._filled[found, section]
            if todo.any():
                self._fill(index[todo], found[todo], section)
        return found

    def _fill(self, index: Rows, slots: Rows, section: int) -> None:
        start, stop = self.sections[section : section + 2]
        self.entries.write(index, start, stop, self.store, slots)
        own = (index >= start) & (index < stop)
        self.store[slots[own], index[own]] = self.diagonal[index[own]]
        self._filled[slots, section] = True
        self._filling[slots, section] = len(self._fills)
        self._fills.append((index, section))
        if len(self._fills) > 64 + 2 * self._filling.size:  # beyond twice the number that stored rows can be from
            live = live_fills(self._fills, self._filling)
            self._fills = list(zip(live["fills"], live["sections"], strict=True))
            self._filling = live["filling"]
        self.n_computed += len(index) * (stop - start) / self.X.shape[0]


class KernelRows:
    """Rows of the Gram matrix of X, or of some sections of it, from a shared cache.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, d)
    cache_size : float
        Megabytes of rows to keep. At least two rows are always kept.
    real : dtype or None
        Precision of the stored rows. None chooses float32 if n > 2,000 and it is precise enough on a sample of the
        entries, else float64; up to 2,000 rows that fit into the cache are then computed at once.
    sections : sequence of int or None
        First column of each section, and n at the end; None for one section.
    """

    def __init__(
        self, kernel: Kernel, X: DenseOrSparse, cache_size: float = 200.0, real: DTypeLike | None = np.float64,
        sections: Sequence[int] | Rows | None = None,
    ):
        n = X.shape[0]
        at_once = real is None and n <= FLOAT64_ROWS
        prepared = entries(kernel, X, np.float32) if real is None and n > FLOAT64_ROWS else None
        if prepared is None or worst_error(kernel, X, prepared) > 1e-5:
            prepared = entries(kernel, X, np.float64 if real is None else real)
        self.cache = RowCache(kernel, X, cache_size, prepared, [0, n] if sections is None else sections, at_once)
        self._choose(range(len(self.cache.sections) - 1))

    def _choose(self, chosen: Sequence[int]) -> None:
        self.chosen = list(chosen)
        self.ranges = [tuple(self.cache.sections[s : s + 2]) for s in chosen]
        self.index = np.concatenate([np.arange(start, stop) for start, stop in self.ranges])

    def part(self, chosen: Sequence[int]) -> "KernelRows":
        """Return the rows of the Gram matrix of these sections only, numbered in their order, from the same cache."""
        view = KernelRows.__new__(KernelRows)
        view.cache = self.cache
        view._choose(chosen)
        return view

    def __len__(self) -> int:
        return len(self.index)

    @property
    def capacity(self) -> int:
        return min(self.cache.capacity, len(self))

    @property
    def diagonal(self) -> Array:
        return self.cache.diagonal[self.index]

    @property
    def real(self) -> np.dtype[Any]:
        return self.cache.real

    @property
    def n_computed(self) -> float:
        return self.cache.n_computed

    @property
    def wide(self) -> bool:
        """Whether an entry costs more to compute than to look up."""
        return bool(self.cache.X.shape[1] > WIDE)

    def fetch(self, index: Rows) -> Array:
        """Return the rows of ``index`` (at most ``capacity`` of them), shape (len(index), n)."""
        slots = self.cache.slots(self.index[index], self.chosen)
        return np.concatenate([self.cache.store[slots, start:stop] for start, stop in self.ranges], axis=1)

    def block(self, index: Rows) -> Array:
        """Return the entries among the rows ``index``, with zero columns up to a multiple of 64, not of 512.

        The next block of the same cache overwrites it, unless it is that of all rows.
        """
        size = len(index)
        width = -(-size // WIDTH_MULTIPLE) * WIDTH_MULTIPLE
        # in rows of a multiple of 512 entries, those below each other share lines of the processor's first cache, and
        # transposing takes two to three times as long
        width += WIDTH_MULTIPLE if width % 512 == 0 else 0
        K = np.empty((size, width), self.real) if size == len(self) else self.cache.scratch(size, width, self.real)
        K[:, size:] = 0
        where = self.index[index]
        if self.cache.whole and size == len(self):
            self._copy_sections(K)
        elif self.cache.whole or self.wide:
            self._gather(where, K)
        else:
            self.cache.entries.among(where, K)
        np.fill_diagonal(K, self.cache.diagonal[where])
        return K

    def _gather(self, where: Rows, K: Array) -> None:
        """Put the entries among the rows ``where`` into the first columns of K; compute those that are not stored."""
        here, slots = self.cache.stored(where, self.chosen)
        known = np.flatnonzero(here)
        new = np.flatnonzero(~here)

        def work(tops: Iterator[int]) -> None:
            for top in tops:
                gather(self.cache.store, slots[top : top + 64], where, K, known[top : top + 64])

        share(work, range(0, len(known), 64), 10.0 * len(known) * len(where))  # one read costs about ten products
        if not known.size:
            self.cache.entries.among(where, K)
        elif new.size:
            K[np.ix_(new, known)] = K[np.ix_(known, new)].T
            among = np.empty((len(new), len(new)), dtype=self.real)
            self.cache.entries.among(where[new], among)
            K[np.ix_(new, new)] = among

    def add(self, total: Array, index: Rows, weights: Array) -> None:
        """Add sum_r weights[r] * row index[r] to ``total`` (n,) in place, summed in float64."""
        for first in range(0, len(index), self.capacity):
            some = slice(first, first + self.capacity)
            slots = self.cache.slots(self.index[index[some]], self.chosen)
            left = 0
            for start, stop in self.ranges:
                self._add_stored(slots, weights[some], total[left : left + stop - start], start, stop)
                left += stop - start

    def _add_stored(self, slots: Rows, weights: Array, total: Array, start: int, stop: int) -> None:
        def work(lefts: Iterator[int]) -> None:
            for left in lefts:
                right = min(left + COLUMNS_A_THREAD, stop)
                add_rows(self.cache.store, slots, weights, total[left - start : right - start], left)

        share(work, range(start, stop, COLUMNS_A_THREAD), 2.0 * len(slots) * (stop - start))

    def times(self, b: Array) -> Array:
        """Return K b (n,) in the precision of the stored rows; where these have no room, nothing is stored."""
        active = np.flatnonzero(b)
        if len(active) > self.capacity:
            self.cache.n_computed += len(active) * len(self) / len(self.cache.diagonal)
            return unstored_sums(self.cache.entries, self.index[active], b[active], self.index)
        total = np.zeros(len(self))
        self.add(total, active, b[active])
        return total

    def single_times(self, b: Array, wanted: Rows, known: Summed | None = None) -> Product | None:
        """Return K b at the ``wanted`` rows, (len(wanted),), from float32 entries with a bound of its error, or None.

        Stored rows are added up if all are stored, else nothing is stored. What is ``known`` is not summed again.
        """
        bounds = self.cache.entries.single_errors() if self.real == np.float32 else None
        if bounds is None:
            return None
        f, mass, moved = known or Summed(b, np.full(len(b), np.inf), b)
        f, mass, size = f[wanted], mass[wanted], np.maximum(moved, np.abs(b))
        new = np.isinf(mass)
        up, down = (self._single_sums(np.maximum(part, 0), wanted[new], b) for part in (b, -b))
        f[new], mass[new] = up - down, np.maximum(up + down, TINY)  # more than 0: an infinite bound stays infinite
        sums = (lambda part: self.times(part)[wanted]) if self.wide and np.count_nonzero(b) <= self.capacity else None
        errors = bounds.of_single_sums(size, self.index, 2 * len(b), mass, self.index[wanted], sums)
        return Product(f, errors, proven=True)

    def _single_sums(self, part: Array, wanted: Rows, whole: Array) -> Array:
        """Return K times a part of the coefficients at the ``wanted`` rows."""
        if np.count_nonzero(whole) <= self.capacity:
            return self.times(part)[wanted]
        active = np.flatnonzero(part)
        self.cache.n_computed += len(active) * len(wanted) / len(self.cache.diagonal)
        return unstored_sums(self.cache.entries, self.index[active], part[active], self.index[wanted])

    def proven_times(self, b: Array, wanted: Rows | None = None) -> Product:
        """Return K b from float64 entries, with a proven bound of its error where one is known; only where ``wanted``.

        A tile among the wanted rows where b is not 0 counts twice.
        """
        if self.cache.whole:
            return Exact(self.cache.entries, self.index).product(b, lambda: self.times(b))
        active = np.flatnonzero(b)
        asked = np.arange(len(self)) if wanted is None else wanted
        chosen = np.intersect1d(asked, active, assume_unique=True)
        seen = np.concatenate([chosen, np.setdiff1d(active, chosen, True), np.setdiff1d(asked, active, True)])
        exact = self.exact(seen)
        tiled = partial(tiled_product, exact, b[seen], self.diagonal[seen], len(active), len(chosen))
        found = exact.product(b[seen], tiled)
        f, errors = np.zeros((2, len(self)))
        f[seen], errors[seen] = found.f, found.errors
        return Product(f, errors, found.proven)

    @property
    def diagonal_errors(self) -> Array:
        """Bounds (n,) of the errors of the diagonal in float64; 0 where none are known."""
        return self.exact(np.arange(len(self))).diagonal_errors(len(self))

    def exact(self, index: Rows) -> Exact:
        """Return the float64 entries among the rows ``index``, by place in it."""
        numbers = self.index[index]
        if self.cache.whole:
            return Exact(self.cache.entries, numbers)
        return exact_entries(self.cache.kernel, self.cache.X, numbers)

    def _copy_sections(self, K: Array) -> Array:
        """Copy the Gram matrix from a cache that holds all of it into the first columns of K."""
        top = 0
        for first, last in self.ranges:
            left = 0
            for start, stop in self.ranges:
                K[top : top + last - first, left : left + stop - start] = self.cache.store[first:last, start:stop]
                left += stop - start
            top += last - first
        return K

    def gram(self, out: Array | None = None) -> Array:
        """Return the whole Gram matrix in float64, (n, n), in ``out`` if it is given."""
        K = np.empty((len(self), len(self))) if out is None else out
        if self.cache.whole:
            return self._copy_sections(K)
        exact = self.exact(np.arange(len(self)))
        for start, stop in tiles(0, len(self)):
            K[start:stop] = exact(slice(start, stop), slice(0, len(self)))
        np.fill_diagonal(K, self.diagonal)
        return K


def live_fills(fills: Sequence[tuple[Rows, int]], filling: Rows) -> dict[str, Any]:
    """Return the fillings of which a row is still stored, numbered anew."""
    live, numbers = np.unique(filling, return_inverse=True)
    kept = [fills[k] for k in live if k >= 0]
    return {"filling": numbers.reshape(filling.shape) - (len(live) - len(kept)), "fills": [rows for rows, _ in kept],
            "sections": [section for _, section in kept]}
