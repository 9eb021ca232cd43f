"""The entries of one column that came as text: numbers, numbers in somebody's notation, dates, or words.

A column is numeric when nine in ten of its entries are. The few others, a stray 'n.a.' or 'missing', then count as
missing; taken as texts, one word would turn the best feature into an identifier.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
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
        return float(text) if re.fullmatch(PLAIN, text, re.IGNORECASE) else np.nan


# of equals the first
NOTATIONS = (
    Notation("numbers", PLAIN),
    Notation("numbers with commas between thousands", r"[-+]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d*)?", ((",", ""),)),
    Notation("percentages", rf"({PLAIN}) ?%", (("%", ""), (" ", ""))),
    Notation("numbers with decimal commas", r"[-+]?\d+(,\d+)?", ((",", "."),)),
)


# an entry with a unit: a sign of a currency in front, or letters behind; a number in any notation between them
UNITED = re.compile(r"([£$€¥]?) ?([-+]?[\d.,]*\d(?:e[-+]?\d+)?) ?((?:[^\W\d_]|[%°µ£$€¥])[^\d\s,;]{0,9})?")
MISSING_WORDS = frozenset(("", "?", "-", "--", ".", "n.a.", "n/a", "na", "nan", "null", "missing", "#n/a", "<na>"))
PERHAPS_MISSING = frozenset(("none", "unknown", "not available", "unspecified"))


@dataclass
class Reading:
    """A column of texts read as numbers: NaN where an entry is missing or one of the ``words`` (by position)."""

    notation: Notation
    numbers: NDArray[np.float64]
    words: dict[int, str]
    known: int  # entries that are not missing
    units: Counter[str] = field(default_factory=Counter)  # how many entries have which unit, where some have one

    @property
    def numbered(self) -> float:
        """Share of the entries there are that are numbers, in whatever unit."""
        return max(self.share, self.units.total() / max(self.known, 1))

    @property
    def mixed(self) -> bool:
        """Say whether entries have different units; none counts as the commonest."""
        return len([unit for unit in self.units if unit]) > 1

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
        found = _read_as(notation, texts, known)
        if best is None or len(found.words) < len(best.words):
            best = found
    assert best is not None
    return best if best.share >= NEARLY_ALL else _read_united(texts, known) or best


def _read_united(texts: list[str | None], known: list[int]) -> Reading | None:
    """Return the reading of numbers with a unit, those in the commonest one; None where few entries have one."""
    matches = {i: UNITED.fullmatch(str(texts[i]).strip()) for i in known}
    units = Counter(match[1] + (match[3] or "") for match in matches.values() if match)
    named = Counter({unit: count for unit, count in units.items() if unit})
    if units.total() < NEARLY_ALL * len(known) or named.total() < len(known) / 2:
        return None
    unit, count = named.most_common(1)[0]
    if count < len(known) / 4:  # codes such as A12, B7: no unit is common
        return None
    best = min((_read_as(_with_unit(base, unit), texts, known) for base in NOTATIONS if base.name != "percentages"),
               key=lambda reading: len(reading.words))
    best.units = units
    return best


def _read_as(notation: Notation, texts: list[str | None], known: list[int]) -> Reading:
    numbers = np.array([np.nan if text is None else notation.number(text) for text in texts])
    return Reading(notation, numbers, {i: str(texts[i]) for i in known if np.isnan(numbers[i])}, len(known))


def _with_unit(base: Notation, unit: str) -> Notation:
    escaped = re.escape(unit)
    pattern = rf"(?:{escaped})? ?(?:{base.pattern}) ?(?:{escaped})?"
    return Notation(f"{base.name} in {unit!r}", pattern, ((unit, ""), (" ", ""), *base.replacements))


def are_dates(texts: list[str | None]) -> bool:
    """Say whether nine in ten entries look like a date, as in 2024-03-31 or 31.03.2024."""
    known = [text for text in texts if text is not None]
    return bool(known) and sum(bool(DATE.fullmatch(text.strip())) for text in known) >= NEARLY_ALL * len(known)
