"""What ends a query before its time: the limit of a fit, known to every query that it sends, and Ctrl-C."""

import threading
import time
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Found = TypeVar("Found")

CANCEL_EVERY = 0.2  # seconds between two requests to cancel a query, which may not have begun at the first

_END: ContextVar[float | None] = ContextVar("end", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Give the block at most so many seconds; an outer limit that ends sooner stays."""
    ends = [end for end in (_END.get(), None if seconds is None else time.monotonic() + seconds) if end is not None]
    token = _END.set(min(ends, default=None))
    try:
        yield
    finally:
        _END.reset(token)


def seconds_left() -> float | None:
    """Return the seconds that are left, 0 when the time is up, None where there is no limit."""
    end = _END.get()
    return None if end is None else max(0.0, end - time.monotonic())


def check_time() -> None:
    """Raise TimeoutError when the time is up: for work in this process, which nobody cancels, between its parts."""
    if seconds_left() == 0:
        raise TimeoutError("max_time was spent while the join was prepared or counted. Raise max_time.")


@contextmanager
def cancelled_in_time(cancel: Callable[[], object]) -> Iterator[None]:
    """Call ``cancel`` from another thread when the time is up, until the block ends.

    Raises TimeoutError when the time was up before the block, or when the block failed after it was cancelled.
    """
    left = seconds_left()
    if left is None:
        yield
        return
    if not left:
        raise TimeoutError("max_time was spent before the first pass over the join had ended. Raise max_time.")
    ended, watched = _taken(), allocate_lock()

    def watch() -> None:
        wait = min(left, threading.TIMEOUT_MAX)
        with watched:
            while not ended.acquire(timeout=wait):
                cancel()
                wait = CANCEL_EVERY

    try:
        start_new_thread(watch, ())
        yield
    except Exception as error:
        if seconds_left():
            raise
        raise TimeoutError("max_time was spent during a query, which was cancelled. Raise max_time.") from error
    finally:
        ended.release()
        with watched:  # what comes next is not cancelled
            pass


def _taken() -> LockType:
    """Return a lock that is taken.

    Threads meet at such locks alone here: an Event, a Future and the start of a Thread are written in Python, where
    Ctrl-C may leave a lock taken for which the other thread waits for ever, or be lost.
    """
    lock = allocate_lock()
    lock.acquire()
    return lock


def heard(query: Callable[[], Found], cancel: Callable[[], object] | None) -> Found:
    """Return ``query()``, made by another thread while this one listens: after Ctrl-C ``cancel`` until it ends.

    Without ``cancel`` it is made to its end. DuckDB listens too, but not from the first: version 2.0 loses Ctrl-C that
    comes while it plans a query. Only the main thread hears signals; from any other the query is made there.
    """
    if threading.current_thread() is not threading.main_thread():
        return query()
    pending: Future[Found] = Future()
    begun, ended = allocate_lock(), _taken()
    made: list[bool] = []

    def make() -> None:
        if begun.acquire(blocking=False):
            try:
                pending.set_result(query())
            except BaseException as error:
                pending.set_exception(error)
            made.append(True)
            ended.release()

    def end() -> None:
        while not (made or (cancel and begun.acquire(blocking=False)) or ended.acquire(timeout=CANCEL_EVERY)):
            (cancel or make)()  # the other thread may never begin

    try:
        start_new_thread(make, ())
        while not made:
            ended.acquire(timeout=CANCEL_EVERY)
    except KeyboardInterrupt:
        heard(end, None)  # however often Ctrl-C comes
        raise
    return pending.result()
