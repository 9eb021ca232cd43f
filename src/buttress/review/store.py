"""Decisions on rows in one SQLite file beside the data: who decided what, when and why; nothing is ever changed in it.

Every decision is a new row, and so is taking one back. A decision is on the disk before the page says so. The journal
of SQLite is the one that is gone after each transaction: the file alone can be copied, and no decision is beside it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from threading import RLock

FORMAT = "buttress.review/1"
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS decisions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, who TEXT NOT NULL, key TEXT NOT NULL, row TEXT NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('keep', 'correct', 'drop', 'unsure', 'undo')),
  value TEXT NOT NULL, why TEXT NOT NULL, undoes INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS decisions_of_key ON decisions (key);
CREATE TABLE IF NOT EXISTS draws (key TEXT PRIMARY KEY, after INTEGER NOT NULL);
"""


class Action(StrEnum):
    """What a person decided of a row."""

    keep = "keep"
    correct = "correct"
    drop = "drop"
    unsure = "unsure"
    undo = "undo"


class RefusedError(ValueError):
    """A decision that somebody else's came before, or that cannot be made."""


@dataclass(frozen=True)
class Said:
    """What is to be recorded of a row: its key and name, the action, for a correction the new target, and why."""

    key: str
    row: str
    action: Action
    value: str = ""
    why: str = ""


@dataclass(frozen=True)
class Decision(Said):
    """A decision as it is recorded; ``undoes`` is the number of the one that it takes back, 0 for none."""

    id: int = 0
    at: str = ""
    who: str = ""
    undoes: int = 0


@dataclass(frozen=True)
class RandomDraw:
    """A row that was drawn at random, and the number of the last decision before that."""

    key: str
    after: int


def digest_of(keys: Sequence[str], target: str) -> str:
    """Return a digest of a table by the keys of its rows, which speak of every column, and the name of its target."""
    return blake2b("\n".join([target, *keys]).encode(), digest_size=16).hexdigest()


class Store:
    """The decisions on one table.

    Parameters
    ----------
    path : Path
        The file, made where there is none.
    digest : str
        Of the table, see :func:`digest_of`.
    who : str
        Who decides.

    Raises
    ------
    ValueError
        Where the file is no such file, or holds decisions on another table.
    """

    def __init__(self, path: Path, digest: str, who: str):
        self.path = path
        self.who = who
        self.history: list[Decision] = []
        self.current: dict[str, Decision] = {}
        self.draws: list[RandomDraw] = []
        self._lock = RLock()
        # seconds for another writer
        self._db = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            with self._writing():  # what is refused is left as it was
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._check(digest)
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ValueError(f"Cannot keep decisions in {path.name!r}: {error}. Name another file.") from None
        except ValueError:
            self._db.close()
            raise
        self.read()

    def _check(self, digest: str) -> None:
        known = dict(self._db.execute("SELECT name, value FROM about"))
        others = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
                                  "AND name NOT IN ('about', 'decisions', 'draws')").fetchone()
        if others:
            raise ValueError(f"{self.path.name} is a database of something else: it has a table {others[0]!r}. Name "
                             "another file.")
        if not known:
            self._db.executemany("INSERT INTO about VALUES (?, ?)", [("format", FORMAT), ("table", digest)])
        elif known.get("format") != FORMAT:
            raise ValueError(f"{self.path.name} has the format {known.get('format')!r}, expected {FORMAT!r}. Name "
                             "another file.")
        elif known.get("table") != digest:
            raise ValueError(f"{self.path.name} holds decisions on another table: the data or the target changed since."
                             " Name another file, or put the data back as they were.")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make the block one transaction that no other writer can come into."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise RefusedError(f"Nothing was recorded in {self.path.name}: {error}. Close what else writes to it, "
                                   "or make it writable.") from None
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def read(self) -> None:
        """Take up what is in the file, by whomever."""
        with self._lock:
            for key, row, action, *more in self._db.execute(
                    "SELECT key, row, action, value, why, id, at, who, undoes FROM decisions WHERE id > ? ORDER BY id",
                    (self.last,)):
                decision = Decision(key, row, Action(action), *more)
                self.history.append(decision)
                if decision.action is not Action.undo:
                    self.current[decision.key] = decision
                elif self.current[decision.key].id == decision.undoes:
                    del self.current[decision.key]
            self.draws = [RandomDraw(*entry)
                          for entry in self._db.execute("SELECT key, after FROM draws ORDER BY rowid")]

    @property
    def last(self) -> int:
        """The number of the last decision that was read."""
        return self.history[-1].id if self.history else 0

    def record(self, said: Iterable[Said], seen: int, undoes: int = 0) -> None:
        """Record decisions, all or none; ``seen`` is the last one that the person could know of.

        Raises
        ------
        RefusedError
            Where somebody decided on one of these rows since.
        """
        with self._writing():
            for one in said:
                newer = self._db.execute(
                    "SELECT who, action, value FROM decisions WHERE key = ? AND id > ? ORDER BY id DESC",
                    (one.key, seen)).fetchone()
                if newer:
                    raise RefusedError(f"Row {one.row} was left as it is: {newer[0]} decided on it meanwhile "
                                       f"({' '.join(newer[1:]).strip()}). Look at it again.")
                self._db.execute(
                    "INSERT INTO decisions (at, who, key, row, action, value, why, undoes) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (datetime.now(UTC).isoformat(timespec="seconds"), self.who, one.key, one.row, one.action, one.value,
                     one.why, undoes))
        self.read()

    def undo(self, number: int) -> Decision:
        """Take back a decision, by a new row that says so, and return it; RefusedError where it is not the last."""
        self.read()
        taken = next((one for one in self.current.values() if one.id == number), None)
        if taken is None:
            raise RefusedError("Nothing was taken back: that decision was taken back or replaced before.")
        self.record([Said(taken.key, taken.row, Action.undo)], number, number)
        return taken

    def draw(self, key: str) -> None:
        """Record that a row was drawn at random, before it is shown."""
        with self._writing():
            self._db.execute("INSERT OR IGNORE INTO draws SELECT ?, COALESCE(MAX(id), 0) FROM decisions", (key,))
        self.read()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()
