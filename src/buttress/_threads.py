"""Share work among as many Python threads as the BLAS may use, while the BLAS itself uses one thread in each.

The threads of a BLAS wait for each other at the end of every product, in a busy loop. If other programs use the
machine, a fit of many small products then takes several times as long as with one thread. Here idle threads sleep.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from buttress._checks import Array

WORTH = 2e6  # multiplications: for less work, waking a thread costs more than it saves
BLOCK_ENTRIES = 4_000_000  # entries of one block of rows, 32 MB
SMALL = 1e9  # multiplications: up to this, a product or factorisation is faster with one BLAS thread

Part = TypeVar("Part")
_taken = threading.Lock()  # held by the block that set the BLAS to one thread
_local = threading.local()


@cache
def _blas() -> Any:
    """Return the controller of the BLAS libraries; finding them takes a millisecond."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def own_threads() -> Iterator[None]:
    """Inside the block, :func:`share` uses as many threads as the BLAS had, and the BLAS uses one.

    The limit on the BLAS holds for the whole process. When several blocks run at the same time, only the first one
    uses threads.
    """
    if not _taken.acquire(blocking=False):
        yield
        return
    try:
        threads = max((library.num_threads or 1 for library in _blas().lib_controllers), default=1)
        if threads == 1:
            yield
            return
        with _blas().limit(limits=1), ThreadPoolExecutor(threads - 1) as _local.pool:
            _local.helpers = threads - 1
            yield
    finally:
        _local.pool = None
        _taken.release()


def threads_for(cost: float) -> AbstractContextManager[None]:
    """Return a block for products and factorisations of ``cost`` multiplications; small ones get one BLAS thread."""
    return own_threads() if cost <= SMALL else nullcontext()


@contextmanager
def ending(seconds: float | None) -> Iterator[None]:
    """Inside the block, :func:`in_time` and :func:`share` raise TimeoutError once so many seconds are over."""
    before = getattr(_local, "end", math.inf)
    _local.end = math.inf if seconds is None else time.monotonic() + seconds
    try:
        yield
    finally:
        _local.end = before


def in_time(parts: Iterable[Part]) -> Iterator[Part]:
    """Iterate over parts, from any number of threads, until the time that :func:`ending` gave this thread is over."""
    end = getattr(_local, "end", math.inf)

    def checked(part: Part) -> Part:
        if time.monotonic() > end:
            raise TimeoutError("No time is left for another part.")
        return part

    return map(checked, parts)


def _help(work: Callable[[Iterator[int]], None], queue: Iterator[int], end: float) -> None:
    _local.end = end
    work(queue)


def share(work: Callable[[Iterator[int]], None], starts: range, cost: float) -> None:
    """Call ``work`` on an iterator over ``starts``, from several threads if ``cost`` (multiplications) is large enough.

    All threads draw from the same iterator, so a slow thread simply does less.
    """
    pool = getattr(_local, "pool", None)
    left = iter(starts)
    queue = in_time(left)
    if pool is None or cost < WORTH or len(starts) < 2:
        return work(queue)
    end = getattr(_local, "end", math.inf)
    waiting = [pool.submit(_help, work, queue, end) for _ in range(min(_local.helpers, len(starts) - 1))]
    try:
        work(queue)
    except BaseException:
        for _ in left:  # empty the queue, so that no other thread goes on writing to arrays that are used again
            pass
        raise
    finally:
        running = [helper for helper in waiting if not helper.cancel()]
        wait(running)
    for helper in running:
        helper.result()
    return None


def for_each(work: Callable[[Part], None], parts: Sequence[Part]) -> None:
    """Call ``work`` on each part, from several threads; a part must be large enough to be worth a thread."""

    def some(numbers: Iterator[int]) -> None:
        for k in numbers:
            work(parts[k])

    share(some, range(len(parts)), WORTH)


def total(term: Callable[[Part], Array], parts: Sequence[Part], shape: tuple[int, ...]) -> Array:
    """Return the sum over all parts of their terms, arrays of this shape, in float64.

    Every eighth part goes to the same sum, and these sums are added in a fixed order. So the result does not depend on
    the number of threads.
    """
    # 16 million entries of all these sums together are 128 MB
    count = max(1, min(8, len(parts), 16_000_000 // max(1, math.prod(shape))))
    sums = np.zeros((count, *shape))

    def add(number: int) -> None:
        for part in parts[number::count]:
            sums[number] += term(part)

    for_each(add, range(count))
    return np.add.reduce(sums, axis=0)


def slices(n: int, width: int, entries: int = BLOCK_ENTRIES) -> list[slice]:
    """Return slices over n rows, each of about ``entries`` of a matrix of this width."""
    step = max(1, entries // width)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
