"""What a fit keeps of its runs and of expensive calls while it goes on: those that have ended, and the run it is in.

Runs and calls come in the same order whenever a fit is repeated, so a number names one. When the fit is repeated,
:func:`buttress.solvers.run.run` asks the journal of each run, and restarts its algorithm from what is kept; a call, of
the rows of a join or of a stage of an audit, is answered by :func:`kept`.

:func:`resumable` gives an estimator the parameters ``checkpoint`` and ``resume``. What is kept is data, never code.
"""

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from buttress._checks import check_option, warn_user
from buttress._types import Rng
from buttress.checkpoints.fingerprint import Fingerprint, differences, digest, fingerprint
from buttress.checkpoints.folder import Folder

# By name: arrays, numbers, text, None, and lists and mappings of these. A partial, called when the value is written,
# stands for what it returns.
Memory: TypeAlias = Mapping[str, Any]


def rng_state(rng: Rng) -> Memory:
    """Return the state of a random generator, as part of a memory."""
    if isinstance(rng, np.random.RandomState):
        return dict(rng.get_state(legacy=False))
    return dict(rng.bit_generator.state)


def set_rng_state(rng: Rng, state: Memory) -> None:
    """Put a random generator into a state that ``rng_state`` returned."""
    if isinstance(rng, np.random.RandomState):
        rng.set_state(dict(state))
    else:
        rng.bit_generator.state = state


FIRST = 10.0  # seconds from the start of a fit to its first write: a shorter one pays for none
INTERVAL = 2.0  # seconds from one write to the next, at least
TIME_SHARE = 0.01  # of the time that writing may take: after a slow write the next one waits for longer
NOW = "now"  # the name of the run that goes on
ENDED = "ended-"  # how the names of files begin that hold what has ended


class Journal:
    """What one fit keeps, in a folder that it holds: runs that have ended and calls, and the run that goes on.

    They are numbered as they begin, and come in the same order when the fit is repeated. What has ended is written
    together, when the next write is due. After a run that ended for lack of time, or because the user stopped it,
    nothing more is kept: a fit taken up again goes on from there.
    """

    def __init__(self, folder: Folder):
        self.folder = folder
        self.cut = False  # whether a run was ended from outside, so that there is something to go on with
        self.opening: Callable[[], None] | None = None  # writes what comes before all records
        self._known: dict[int, Memory] = {}  # from the folder, until it is asked for
        self._pending: list[Memory] = []  # to be written
        self._count = 0
        self._files = 0
        self._next_write = time.monotonic() + FIRST
        self._broken = False

    def load(self) -> None:
        """Read what the folder holds; ValueError for a file that is not whole."""
        names = self.folder.names(ENDED)
        self._files = len(names)
        for name in names:
            entries = {entry["number"]: entry for entry in self.folder.read(name)}
            valid = {number: entry for number, entry in self._known.items() if number < min(entries)}
            self._known = valid | entries  # a later file replaces what earlier ones hold from its first number on
        current = self.folder.read(NOW)
        if current is not None:
            self._known.setdefault(current["number"], current)

    def clear(self) -> None:
        """Remove everything."""
        for name in [*self.folder.names(ENDED), NOW]:
            self.folder.remove(name)

    def enter(self) -> int:
        """Return the number of the run or call that begins."""
        self._count += 1
        return self._count - 1

    def saved(self, number: int, question: str) -> Memory | None:
        """Return what is kept of a run or call, None if there is nothing.

        ``question`` tells whether it is the same: the objective of the first step, or a digest of the arguments.
        """
        entry = self._known.pop(number, None)
        if entry is None:
            return None
        if entry["question"] == question:
            self._count = entry["after"]
            return entry["value"]
        warn_user(f"Step {number} of this fit differs from the checkpoint, which is not used from there on. Fits with "
                  "max_time, or in several threads, may differ from run to run.")
        self._known = {}
        return None

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return not (self.cut or self._broken) and time.monotonic() >= self._next_write

    def keep(self, number: int, question: str, value: Memory) -> None:
        """Write what the run that goes on needs, and before it what has ended since the last time."""
        if not self.cut:
            self._write({NOW: self._entry(number, question, value)})

    def end(self, number: int, question: str, value: Memory) -> None:
        """Keep what is known of a run or call that has ended, to be written when a write is due."""
        if self.cut or self._broken:
            return
        self._pending.append(self._entry(number, question, value))
        if self.due:
            self._write({})

    def _entry(self, number: int, question: str, value: Memory) -> Memory:
        """Return an entry; runs and calls within a call that is kept are not begun again, so their numbers are skipped.
        """
        return {"number": number, "question": question, "value": value, "after": self._count}

    def stop(self) -> None:
        """Write what is pending, and keep no more: a part of the fit was ended from outside."""
        if not (self.cut or self._broken):
            self._write({})
        self.cut = True

    def _write(self, current: Mapping[str, object]) -> None:
        """Write what is pending, and the run that goes on; a full disk costs the checkpoint, not the fit."""
        started = time.monotonic()
        try:
            if self.opening is not None:
                self.opening()
                self.opening = None
            if self._pending:
                self.folder.write(f"{ENDED}{self._files:06d}", self._pending)
                self._files += 1
                self._pending = []
            for name, value in current.items():
                self.folder.write(name, value)
        except OSError as error:
            self._broken = True
            warn_user(f"The checkpoint cannot be written: {error}. The fit continues without it.")
        finished = time.monotonic()
        self._next_write = finished + max(INTERVAL, (finished - started) / TIME_SHARE)


_CURRENT: ContextVar[Journal | None] = ContextVar("_CURRENT", default=None)


@contextmanager
def journal_of_fit(journal: Journal | None) -> Iterator[None]:
    """Have the runs in the block keep their records in this journal, or in none."""
    token = _CURRENT.set(journal)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_journal() -> Journal | None:
    """Return the journal of the fit that is going on in this thread, None where it keeps none."""
    return _CURRENT.get()


def kept(question: object, compute: Callable[[], Memory]) -> Memory:
    """Return ``compute()``, or what the checkpoint of the fit that is going on keeps of this call.

    Parameters
    ----------
    question : object
        All that the call depends on and that may differ in another fit to the same data, such as a list of arrays and
        numbers. A call that is kept is used only for an equal question.
    compute : function
        Makes the call; what it returns must not be changed in place afterwards.
    """
    journal = _CURRENT.get()
    if journal is None:
        return compute()
    number, asked = journal.enter(), digest(question)
    value = journal.saved(number, asked)
    if value is None:
        value = compute()
        journal.end(number, asked, value)
    return value


F = TypeVar("F", bound=Callable[..., Any])

FIT = "fit"  # the name of what is kept of the fit itself


def resumable(fit: F) -> F:
    """Decorate the fit of an estimator with the parameters ``checkpoint`` and ``resume``.

    With ``checkpoint=folder`` its runs keep there, every few seconds, what they need to go on. With ``resume=True`` it
    goes on from what a fit that was killed has left, and ends in the same bits; ValueError where that was a fit with
    other data or parameters, or under other versions or threads. A whole fit removes its files.
    """
    named = inspect.signature(fit)

    @functools.wraps(fit)
    def recorded(model: Any, *args: Any, **kwargs: Any) -> Any:
        check_option("resume", model.resume, (False, True, "approximately"))
        if model.checkpoint is None:
            if model.resume:
                raise ValueError(f"resume={model.resume!r} needs a checkpoint. Got checkpoint=None. Name a folder.")
            return fit(model, *args, **kwargs)
        bound = list(named.bind(model, *args, **kwargs).arguments.items())[1:]
        data = {name: value for name, value in bound if value is not None}  # y=None is no other fit than no y
        folder = Folder(model.checkpoint)
        with folder.held():
            journal = taken_up(folder, model.resume, fingerprint(model, data), _global_rng(model))
            with journal_of_fit(journal):
                fitted = fit(model, *args, **kwargs)
            if not journal.cut:
                journal.clear()
                folder.remove(FIT)
        return fitted

    return cast(F, recorded)


def _global_rng(model: object) -> np.random.RandomState | None:
    """Return numpy's global generator where the fit draws from it."""
    draws = getattr(model, "_draws", True) and hasattr(model, "random_state") and model.random_state is None
    return np.random.mtrand._rand if draws else None


def taken_up(
    folder: Folder, resume: bool | str, now: Callable[[], Fingerprint], rng: np.random.RandomState | None
) -> Journal:
    """Return the journal of a fit, with what the folder holds of it, or empty where the fit starts anew.

    A global generator is put into the state in which the first fit found it. The fingerprint of a fit that starts anew
    is written with its first records, so that a short fit pays for none. ValueError where the folder is of another fit.
    """
    journal = Journal(folder)
    kept = folder.read(FIT) if resume else None
    if kept is None:
        journal.clear()
        folder.remove(FIT)
        state = None if rng is None else rng_state(rng)
        journal.opening = lambda: folder.write(FIT, {"fingerprint": now(), "rng": state})
        return journal
    current, then = now(), kept["fingerprint"]
    others = [*differences(current, then, "parameters"), *differences(current, then, "data")]
    if others:
        raise ValueError(f"checkpoint={str(folder.path)!r} is of another fit: {'; '.join(others)}. Delete the "
                         "folder to start anew, as an estimator does with resume=False, or name another one.")
    elsewhere = differences(current, then, "environment")
    if elsewhere and resume != "approximately":
        raise ValueError(f"checkpoint={str(folder.path)!r} was written elsewhere, where numbers are rounded otherwise: "
                         f"{'; '.join(elsewhere)}. Delete the folder to start anew. An estimator with "
                         "resume='approximately' goes on from it all the same: the model then meets the tolerance, but "
                         "is not the same to the bit.")
    if rng is not None and kept["rng"] is not None:
        set_rng_state(rng, kept["rng"])
    journal.load()
    return journal
