"""What ends a query before its time: the limit of a fit, known to every query that it sends, and Ctrl-C."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
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
    ended = threading.Event()

    def watch() -> None:
        wait = left
        while not ended.wait(wait):
            cancel()
            wait = CANCEL_EVERY

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if seconds_left():
            raise
        raise TimeoutError("max_time was spent during a query, which was cancelled. Raise max_time.") from error
    finally:
        ended.set()
        watcher.join()


def heard(query: Callable[[], Found], cancel: Callable[[], object]) -> Found:
    """Return ``query()``, made by another thread while this one listens: after Ctrl-C ``cancel`` until it ends.

    DuckDB listens too, but not from the first: version 2.0 loses Ctrl-C that comes while it plans a query. Only the
    main thread hears signals; from any other the query is made there.
    """
    if threading.current_thread() is not threading.main_thread():
        return query()
    pending: Future[Found] = Future()

    def make() -> None:
        if pending.set_running_or_notify_cancel():
            try:
                pending.set_result(query())
            except BaseException as error:
                pending.set_exception(error)

    try:
        threading.Thread(target=make, daemon=True).start()
        while not wait([pending], CANCEL_EVERY).done:
            pass
    except KeyboardInterrupt:
        while not (pending.cancel() or wait([pending], CANCEL_EVERY).done):  # it cannot be where it has begun
            cancel()
        raise
    return pending.result()
