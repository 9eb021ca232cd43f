"""What a fit keeps of its runs while it goes on: those that have ended, and the one it is in.

The runs of a fit come in the same order whenever it is repeated, so a number names a run. When the fit is repeated,
:func:`buttress.solvers.run.run` asks the journal of each, and restarts its algorithm from what is kept. Beside runs a
fit may keep what single calls returned: :func:`kept`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from buttress._checks import warn_user
from buttress._types import Array
from buttress.checkpoints.answers import Answers, Followed
from buttress.checkpoints.digest import summary
from buttress.checkpoints.folder import Folder
from buttress.checkpoints.memory import Memory

FIRST = 10.0  # seconds from the start of a fit to its first write: a shorter one pays for none
INTERVAL = 2.0  # seconds from one write to the next, at least
SHARE = 0.01  # of the time that writing may take: after a slow write the next one waits for longer
NOW = "now"  # the name of the run that goes on
ENDED = "runs-"  # how the names of those that have ended begin


@dataclass
class Record:
    """What is kept of one run.

    Parameters
    ----------
    start : str
        The objective of its first step, to the bit: another one means another problem.
    best, last : Memory
        Of the best step, whose state is the outcome, and of the last one, from which the algorithm goes on.
    n_iter, seconds : number
        Of the run so far.
    status : str
        How it ended, empty while it goes on.
    history : mapping of str to array of shape (n_steps,)
    """

    start: str
    best: Memory
    last: Memory
    n_iter: int
    seconds: float
    status: str
    history: Mapping[str, Array]


def columns_of(history: list[dict[str, float]]) -> dict[str, Array]:
    """Return a history as an array a measure; NaN where a step lacks it."""
    names = sorted({name for entry in history for name in entry})
    return {name: np.array([entry.get(name, np.nan) for entry in history]) for name in names}


def history_of(columns: Mapping[str, Array]) -> list[dict[str, float]]:
    """Return the history that ``columns_of`` was given."""
    names = [name for name in ("n_iter", "seconds", "gap", "change", "objective") if name in columns]
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    history = [dict(zip(names, row, strict=True)) for row in rows]
    for entry in history:
        entry["n_iter"] = int(entry["n_iter"])
    return history


class Journal:
    """The records of one fit, in a folder that it holds.

    Records of runs that have ended are written together, when the next write is due. After a run that ended for lack
    of time, or because the user stopped it, nothing more is kept: a fit taken up again goes on from there.
    """

    def __init__(self, folder: Folder):
        self.folder = folder
        self.answers = Answers(folder)
        self.ended: dict[int, Record] = {}
        self.current: tuple[int, Record] | None = None
        self.cut = False  # whether a run was ended from outside, so that there is something to go on with
        self.opening: Callable[[], None] | None = None  # writes what comes before all records
        self._pending: dict[int, Record] = {}
        self._count = 0
        self._files = 0
        self._next_write = time.monotonic() + FIRST
        self._broken = False

    def load(self) -> None:
        """Read the records of the folder; ValueError for a file that is not whole."""
        for name in self.folder.names(ENDED):
            for number, record in self.folder.read(name):
                self.ended[int(number)] = Record(**record)
        self._files = len(self.folder.names(ENDED))
        found = self.folder.read(NOW)
        if found is not None and found["number"] not in self.ended:
            self.current = (found["number"], Record(**found["record"]))
        self.answers.load()

    def clear(self) -> None:
        """Remove all records and answers."""
        self._forget_runs()
        self.answers.clear()

    def _forget_runs(self) -> None:
        for name in [*self.folder.names(ENDED), NOW]:
            self.folder.remove(name)
        self._files = 0
        self.ended = {}
        self.current = None

    def enter(self) -> int:
        """Return the number of the run that begins."""
        self._count += 1
        return self._count - 1

    def saved(self, number: int, start: str) -> Record | None:
        """Return what is kept of a run that starts at this objective, None if there is nothing."""
        record = self.ended.get(number)
        if record is None and self.current is not None and self.current[0] == number:
            record = self.current[1]
        if record is None or record.start == start:
            return record
        warn_user(f"Run {number} of this fit starts elsewhere than the one in the checkpoint, which is of no use from "
                  "there on. Fits with max_time, or in several threads, may take another course each time.")
        kept = {other: entry for other, entry in self.ended.items() if other < number}
        self._forget_runs()
        self.ended = kept
        self._pending = dict(kept)
        return None

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return not (self.cut or self._broken) and time.monotonic() >= self._next_write

    def keep(self, number: int, record: Record) -> None:
        """Write the record of the run that goes on, and before it those of runs that have ended since the last time."""
        if not self.cut:
            self._write({NOW: {"number": number, "record": vars(record)}})

    def end(self, number: int, record: Record) -> None:
        """Keep the record of a run that has ended, to be written when a write is due."""
        if self.cut or self._broken:
            return
        self._pending[number] = record
        if self.due:
            self._write({})

    def answer(self, question: str, compute: Callable[[], Memory]) -> Memory:
        """Return what is kept of the call that comes next, or what it returns now, and keep that.

        Runs within a call that is kept are not begun again, so their numbers are skipped.
        """
        found = self.answers.known(question)
        if found is not None:
            self._count = found["runs"]
            value: Memory = found["value"]
            return value
        value = compute()
        if not (self.cut or self._broken):
            self.answers.note(question, value, self._count)
            if self.due:
                self._write({})
        return value

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
            self._flush()
            for name, value in current.items():
                self.folder.write(name, value)
        except OSError as error:
            self._broken = True
            warn_user(f"The checkpoint cannot be written: {error}. The fit goes on without it.")
        finished = time.monotonic()
        self._next_write = finished + max(INTERVAL, (finished - started) / SHARE)

    def _flush(self) -> None:
        if self._pending:
            records = [[number, vars(record)] for number, record in sorted(self._pending.items())]
            self.folder.write(f"{ENDED}{self._files:06d}", records)
            self._files += 1
            self._pending = {}
        self.answers.write()


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
    return compute() if journal is None else journal.answer(summary(question), compute)


def follow(holder: Followed) -> None:
    """Keep what this solver holds beside the calls of the fit that is going on, if that keeps any."""
    journal = _CURRENT.get()
    if journal is not None:
        journal.answers.follow(holder)
