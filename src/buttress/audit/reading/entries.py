"""The entries of one column that came as text: numbers, numbers in somebody's notation, dates, or words.

A column is numeric when nine in ten of its entries are. The few others, a stray 'n.a.' or 'missing', then count as
missing; taken as texts, one word would turn the best feature into an identifier.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEARLY_ALL = 0.9
PLAIN = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?inf(inity)?"
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d\d)([ T].*)?")


@dataclass(frozen=True)
class Notation:
    """How numbers are written: the pattern of an entry, and the replacements after which Python and polars read it."""

    name: str
    pattern: str
    replacements: tuple[tuple[str, str], ...] = ()

    def number(self, text: str) -> float:
        """Return the entry as a number, NaN where it is none."""
        text = text.strip()
        if not re.fullmatch(self.pattern, text, re.IGNORECASE):
            return np.nan
        for old, new in self.replacements:
            text = text.replace(old, new)
        return float(text)


# of equals the first
NOTATIONS = (
    Notation("numbers", PLAIN),
    Notation("numbers with commas between thousands", r"[-+]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d*)?", ((",", ""),)),
    Notation("percentages", rf"({PLAIN}) ?%", (("%", ""), (" ", ""))),
    Notation("numbers with decimal commas", r"[-+]?\d+(,\d+)?", ((",", "."),)),
)


@dataclass
class Reading:
    """A column of texts read as numbers: NaN where an entry is missing or one of the ``words`` (by position)."""

    notation: Notation
    numbers: NDArray[np.float64]
    words: dict[int, str]
    known: int  # entries that are not missing

    @property
    def share(self) -> float:
        """Share of the entries there are that are numbers."""
        return (self.known - len(self.words)) / max(self.known, 1)

    def culprits(self, name: str, rows: NDArray[Any]) -> str:
        """Return a sentence that says which entries are no numbers, by the labels of their rows."""
        (first, word), more = next(iter(self.words.items())), len(self.words) - 1
        others = f", nor are {more} others" if more > 1 else ", nor is one other" if more else ""
        count = f"{self.known - len(self.words)} of {self.known} entries of {name!r} are {self.notation.name}"
        return f"{count}; {word!r} in row {rows[first]} is not{others}"


def read_numbers(texts: list[str | None]) -> Reading:
    """Return the reading under which most entries are numbers; None stands for a missing entry."""
    known = [i for i, text in enumerate(texts) if text is not None]
    best: Reading | None = None
    for notation in NOTATIONS:
        numbers = np.array([np.nan if text is None else notation.number(text) for text in texts])
        words = {i: str(texts[i]) for i in known if np.isnan(numbers[i])}
        if best is None or len(words) < len(best.words):
            best = Reading(notation, numbers, words, len(known))
    assert best is not None
    return best


def are_dates(texts: list[str | None]) -> bool:
    """Say whether nine in ten entries look like a date, as in 2024-03-31 or 31.03.2024."""
    known = [text for text in texts if text is not None]
    return bool(known) and sum(bool(DATE.fullmatch(text.strip())) for text in known) >= NEARLY_ALL * len(known)
