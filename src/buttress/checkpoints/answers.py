"""What expensive calls of a fit returned, kept in the order in which the fit makes them.

A fit whose time goes into many calls, of a ridge solver or of a database, keeps what each returned. When it is repeated
it makes the same calls in the same order, so the ones that are kept need not be computed: :func:`kept`.

A solver may hold something that rounding depends on and that its calls change. It is *followed*: what it holds is
written with the answers, and given back before the first call that is computed again.
"""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from buttress._checks import warn_user
from buttress.checkpoints.folder import Folder
from buttress.checkpoints.memory import Memory

ANSWERS = "answers-"  # how the names of files of answers begin
STATE = "answered"  # the name of how many answers count, and of what solvers held after the last of them


class Followed(Protocol):
    """What holds something that its calls change."""

    def memory(self) -> Memory:
        """Return what it holds; not changed in place afterwards."""

    def recall(self, memory: Memory) -> None:
        """Hold what ``memory`` returned."""


class Answers:
    """The answers of one fit, in a folder. Each has a number, a question (a summary of the arguments) and a value."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self._known: dict[int, Mapping[str, Any]] = {}
        self._states: Sequence[Memory | None] = ()
        self._followed: list[weakref.ref[Followed]] = []
        self._asked = 0
        self._new: list[Mapping[str, Any]] = []
        self._files = 0

    def load(self) -> None:
        """Read what the folder holds; ValueError for a file that is not whole."""
        names = self.folder.names(ANSWERS)
        self._files = len(names)
        state = self.folder.read(STATE)
        if state is None:
            return
        for name in names:  # in the order in which they were written: a later answer of a number replaces an older one
            self._known |= {answer["number"]: answer for answer in self.folder.read(name)}
        self._known = {number: answer for number, answer in self._known.items() if number < state["count"]}
        self._states = state["states"]

    def clear(self) -> None:
        """Remove all answers."""
        for name in [*self.folder.names(ANSWERS), STATE]:
            self.folder.remove(name)
        self._files = 0
        self._known = {}
        self._states = ()

    def follow(self, holder: Followed) -> None:
        """Keep from now on what this solver holds, beside the answers."""
        self._followed.append(weakref.ref(holder))

    def known(self, question: str) -> Mapping[str, Any] | None:
        """Return the answer to the question that is asked next, None where it is to be computed."""
        answer = self._known.pop(self._asked, None)
        if answer is not None and answer["question"] == question:
            self._asked += 1
            return answer
        if answer is not None:
            warn_user(f"Call {self._asked} of this fit differs from the one in the checkpoint, which is of no use from "
                      "there on. Fits with max_time, or in several threads, may take another course each time.")
            self._states = ()
        for holder, state in self._living(self._states):
            holder.recall(state)
        self._known = {}
        self._states = ()
        return None

    def _living(self, states: Sequence[Memory | None]) -> Iterator[tuple[Followed, Memory]]:
        for reference, state in zip(self._followed, states, strict=False):
            holder = reference()
            if holder is not None and state is not None:
                yield holder, state

    def note(self, question: str, value: Memory, runs: int) -> None:
        """Add the answer to the question asked last; ``runs`` is the number of runs the fit has begun so far."""
        self._new.append({"number": self._asked, "question": question, "value": value, "runs": runs})
        self._asked += 1

    def write(self) -> None:
        """Write the new answers, and then what solvers hold after them."""
        if not self._new:
            return
        self.folder.write(f"{ANSWERS}{self._files:06d}", self._new)
        self._files += 1
        self._new = []
        holders = [reference() for reference in self._followed]
        states = [None if holder is None else holder.memory() for holder in holders]
        self.folder.write(STATE, {"count": self._asked, "states": states})
