"""The entries of one column: the different ones, and what texts are: numbers, in somebody's notation, dates, or words.

What is done with texts is done once for each different one. Of a million rows of a category there are a few different
texts, so that reading them costs next to nothing.

A column is numeric when nine in ten of its entries are. The few others, a stray 'n.a.' or 'missing', then count as
missing; taken as texts, one word would turn the best feature into an identifier.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._state import Attribute, State
from buttress._suggest import listed, near
from buttress._types import Labels

EXACT = 2**53  # whole numbers up to here are float64 numbers
WHOLE = re.compile(r"[-+]?[0-9]{1,1000}")
MISSING = "(missing)"
MISSING_TYPES = ("<NA>", "NaT")  # how missing values of pandas print


@dataclass(frozen=True)
class Texts:
    """The different texts of a column in the order they come in, and the number of each row's, -1 where missing."""

    distinct: list[str]
    codes: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many rows have each text."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    @property
    def known(self) -> int:
        """How many entries are not missing."""
        return int((self.codes >= 0).sum())

    def spread(self, values: NDArray[np.generic], missing: object) -> Labels:
        """Return for each row the entry of ``values`` that belongs to its text."""
        return np.append(values, np.array([missing], dtype=values.dtype))[self.codes]


def check_there(needed: Iterable[str], columns: Iterable[str], whose: str, why: str) -> None:
    """Raise ValueError where columns are lacking: of what data they are, and ``why`` they are needed."""
    there = dict.fromkeys(columns)
    missing = [name for name in needed if name not in there]
    if missing:
        raise ValueError(f"{whose} lack the column{'s'[:len(missing) > 1]} {listed(missing, 20)}, which {why}."
                         f"{near(missing[0], there)} They have {listed(there, 20)}.")


def as_array(column: Any) -> NDArray[Any]:
    """Return a column of a frame, or a sequence, as an array; of objects where it would be another.

    A frame makes floats of whole numbers with a gap; polars makes no array of those of 128 bits, and several columns of
    one that is nested.
    """
    kind = str(getattr(column, "dtype", "")).lower()
    if not kind.endswith("int128"):
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        rounded = values.dtype.kind == "f" and "int" in kind and np.nanmax(np.abs(values), initial=0.0) >= EXACT
        if not rounded and (values.ndim == 1 or not hasattr(column, "to_list")):
            return values
    return np.fromiter(column.to_list(), object, len(column))


def python_times(values: Labels) -> Labels:
    """Return times to the microsecond: of finer ones numpy makes no dates for Python, but whole numbers."""
    return values.astype(values.dtype.str.replace("[ns]", "[us]"), copy=False)


def as_list(column: object) -> list[Any]:
    """Return a column of a frame, or a sequence, as a list of Python values."""
    return list(column.to_list() if hasattr(column, "to_list") else python_times(np.asarray(column)).tolist())


def texts_of(values: Labels) -> Texts:
    """Return the entries of a column (n,) as texts; None, NaN and the missing values of pandas are missing."""
    numbers: dict[object, int] = {}
    entries = values.tolist() if values.dtype.kind == "O" else values
    if values.dtype.kind != "O" or not {type(entry) for entry in entries} <= {str, type(None)}:
        entries = [None if is_missing(value) else str(bytes(value) if isinstance(value, bytearray) else value)
                   for value in values]  # DuckDB has bytearrays where polars has bytes
    codes = np.fromiter((numbers.setdefault(entry, len(numbers)) for entry in entries), np.intp, len(values))
    distinct = list(numbers)
    if None in numbers:
        gap = numbers[None]
        del distinct[gap]
        codes = np.where(codes == gap, -1, codes - (codes > gap))
    return Texts([str(text) for text in distinct], codes)


def is_missing(value: object) -> bool:
    """Say whether an entry stands for none."""
    if isinstance(value, str):
        return value in MISSING_TYPES
    nan = isinstance(value, (float, np.floating)) and math.isnan(value)
    return value is None or nan or str(value) in MISSING_TYPES


def numbers_of(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return the values as float64 with NaN where missing, or None when they are not numbers."""
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)
    if values.dtype.kind == "O" and all(is_missing(v) or isinstance(v, (int, float, np.number)) for v in values):
        return np.array([np.nan if is_missing(v) else float(v) for v in values])
    return None


def categories_of(column: object, missing: str | None = MISSING) -> NDArray[Any]:
    """Return a column of categories as texts, ``missing`` where there is none."""
    texts = texts_of(as_array(column))
    return texts.spread(np.array(texts.distinct, dtype=object), missing)


def spelled(value: object) -> str:
    """Return a class as a text, a whole number as one whatever its type."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def factorised(column: Labels) -> tuple[Labels, NDArray[np.intp]]:
    """Return the different values of a column (n,) in order, and the place of each row's among them.

    As ``numpy.unique`` does, but without sorting the rows where they are texts.
    """
    if column.dtype.kind not in "OU":
        values, codes = np.unique(column, return_inverse=True)
        return values, codes.ravel()
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(str(entry), len(numbers)) for entry in column.tolist()), np.intp,
                        len(column))
    order = np.argsort(np.array(list(numbers)))
    return np.array(list(numbers))[order], np.argsort(order)[codes]


NEARLY_ALL = 0.9  # of the entries: what they are read as, the column is
PLAIN = r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?|[-+]?inf(inity)?"  # no two parts of it take one digit
LONGEST = 1100  # letters of an entry that may be a number or a date: a float in full has 1,077 at most
DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d\d)([ T].*)?")


def _stripped(text: str) -> str:
    """Return an entry without spaces around it, and nothing of one too long to be a number, a date or a unit."""
    text = text.strip()
    return text if len(text) <= LONGEST else ""


@dataclass(frozen=True)
class Notation:
    """How numbers are written: the pattern of an entry, and the replacements after which Python and polars read it."""

    _state = State(
        Attribute("name", "text"),
        Attribute("pattern", "text"),
        Attribute("replacements", "any"))

    name: str
    pattern: str
    replacements: tuple[tuple[str, str], ...] = ()

    def number(self, text: str) -> float:
        """Return the entry as a number, NaN where it is none."""
        text = _stripped(text)
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
    Notation("numbers with decimal commas", r"[-+]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?",
             ((".", ""), (",", "."))),
)


# an entry with a unit: a sign of a currency in front, or letters behind; a number in any notation between them
UNITED = re.compile(r"([£$€¥]?) ?([-+]?[\d.,]*\d(?:e[-+]?\d+)?) ?((?:[^\W\d_]|[%°µ£$€¥])[^\d\s,;]{0,9})?")
MISSING_WORDS = frozenset(("", "?", "-", "--", ".", "n.a.", "n/a", "na", "nan", "null", "missing", "#n/a", "<na>"))


@dataclass
class Reading:
    """A column of texts read as numbers: NaN where an entry is missing or a stray, which is no number."""

    notation: Notation
    numbers: NDArray[np.float64]
    strays: int
    first: tuple[int, str]  # the position of the first stray and its text; (-1, "") if there is none
    known: int  # entries that are not missing
    words: Counter[str] = field(default_factory=Counter)  # how many entries have which word for a missing one
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
        return (self.known - self.strays) / max(self.known, 1)

    def culprits(self, name: str, rows: NDArray[Any]) -> str:
        """Return a sentence that says which entries are no numbers, by the labels of their rows."""
        place, word = self.first
        more = self.strays - 1
        others = f", nor are {more} others" if more > 1 else ", nor is one other" if more else ""
        count = f"{self.known - self.strays} of {self.known} entries of {name!r} are {self.notation.name}"
        return f"{count}; {word!r} in row {rows[place]} is not{others}"


def read_numbers(texts: Texts) -> Reading:
    """Return the reading under which most entries are numbers; words for a missing entry do not count as one."""
    says_missing = np.array([text.strip().lower() in MISSING_WORDS for text in texts.distinct], dtype=bool)
    words = {text: count for text, count, missing in zip(texts.distinct, texts.counts.tolist(), says_missing,
                                                         strict=True) if missing}
    texts = Texts(texts.distinct, np.where(texts.spread(says_missing, True), -1, texts.codes))
    looked = _sampled(texts)
    best = min(NOTATIONS, key=lambda notation: _strays(notation, looked))
    reading = _read_as(best, texts)
    reading = reading if reading.share >= NEARLY_ALL else _read_united(texts, looked) or reading
    reading.words.update(words)
    return reading


def _sampled(texts: Texts) -> Texts:
    """Return a column of at most so many different texts: a notation shows in some thousands of them."""
    step = -(-len(texts.distinct) // 20_000)  # in so many a notation is sought
    if step <= 1:
        return texts
    codes = texts.codes[texts.codes % step == 0]
    return Texts(texts.distinct[::step], codes // step)


def _strays(notation: Notation, texts: Texts) -> int:
    strays = np.isnan([notation.number(text) for text in texts.distinct])
    return int(texts.counts[strays].sum()) if texts.distinct else 0


def _read_united(texts: Texts, looked: Texts) -> Reading | None:
    """Return the reading of numbers with a unit, those in the commonest one; None where few entries have one.

    ``looked`` are the texts, or of very many some, by which units are sought.
    """
    units = _units(looked)
    named = Counter({unit: count for unit, count in units.items() if unit})
    if units.total() < NEARLY_ALL * looked.known or named.total() < max(looked.known / 2, 1):
        return None
    unit, count = named.most_common(1)[0]
    if count < looked.known / 4:  # codes such as A12, B7: no unit is common
        return None
    notations = [_with_unit(base, unit) for base in NOTATIONS if base.name != "percentages"]
    best = _read_as(min(notations, key=lambda notation: _strays(notation, looked)), texts)
    best.units = units if looked is texts else _units(texts)
    return best


def _units(texts: Texts) -> Counter[str]:
    """Return how many entries have which unit; those that are no number with or without a unit are not counted."""
    units: Counter[str] = Counter()
    for text, count in zip(texts.distinct, texts.counts.tolist(), strict=True):
        match = UNITED.fullmatch(_stripped(text))
        if match:
            units[match[1] + (match[3] or "")] += count
    return units


def _read_as(notation: Notation, texts: Texts) -> Reading:
    numbers = texts.spread(np.array([notation.number(text) for text in texts.distinct], dtype=np.float64), np.nan)
    strays = np.flatnonzero(np.isnan(numbers) & (texts.codes >= 0))
    first = (int(strays[0]), texts.distinct[texts.codes[strays[0]]]) if len(strays) else (-1, "")
    return Reading(notation, numbers, len(strays), first, texts.known)


def _with_unit(base: Notation, unit: str) -> Notation:
    escaped = re.escape(unit)
    pattern = rf"(?:{escaped})? ?(?:{base.pattern}) ?(?:{escaped})?"
    return Notation(f"{base.name} in {unit!r}", pattern, ((unit, ""), (" ", ""), *base.replacements))


def are_dates(texts: Texts) -> bool:
    """Say whether nine in ten entries look like a date, as in 2024-03-31 or 31.03.2024."""
    looked = _sampled(texts)
    dates = np.array([bool(DATE.fullmatch(_stripped(text))) for text in looked.distinct], dtype=bool)
    return looked.known > 0 and int(looked.counts[dates].sum()) >= NEARLY_ALL * looked.known
