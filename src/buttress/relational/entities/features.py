"""Which features a table gives, from which statistics of its rows they follow, and their values.

A statistic can be merged: that of a set of rows follows from those of its parts. So every table is brought to one row
a key before it meets the next, and nothing larger than a table is made, but where rows of two tables each have a time:
their pairs are made for some entities at a time. What looks at a window before each date is of pairs of a date and a
row, which are never kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array
from buttress.relational.entities.words import WORDS, needs_date, split
from buttress.relational.plan.times import Window, window_of

BETWEEN = "\0"  # a number and what its rows share with others, in a name that no column has
GOLDEN = (5**0.5 - 1) / 2  # no fraction


@dataclass(frozen=True)
class Feature:
    """A function of the rows of a table that belong to an entity; "value" and "is" are of the entity's own row.

    ``category`` is a text of ``column``, or of the column ``by``; without one, ``by`` is what rows share with others.
    """

    table: str
    function: str
    column: str = ""
    category: str = ""
    by: str = ""

    @property
    def name(self) -> str:
        """``table.count``, ``table.column.mean``, ``table.column=category.share``; ``table.column`` of its own row.

        ``table.column.by=category.sum_by`` of a part of its rows, ``table.column.by.bias`` beside what they share.
        """
        column = "".join(f".{part}" for part in (self.column, self.by) if part)
        category = f"={self.category}" if self.category or self.word in ("share", "is", "sum_by") else ""
        function = "" if self.function in ("value", "is") else f".{self.function}"
        return f"{self.table}{column}{category}{function}"

    @property
    def source(self) -> str:
        """``table.column``."""
        return f"{self.table}.{self.column}"

    @property
    def word(self) -> str:
        """The function without its window."""
        return split(self.function)[0]

    @property
    def read(self) -> str:
        """The column that statistics are of, or the name of its excess over earlier rows with the same ``by``."""
        return f"{self.column}{BETWEEN}{self.by}" if self.word == "bias" else self.column

    @property
    def per(self) -> str:
        """The column by whose values rows are one, "" where they are as they are."""
        return self.column if self.word in WORDS and WORDS[self.word].of == "value" else ""

    @property
    def whole(self) -> "Feature | None":
        """The feature of all rows that this one is divided by, if it is."""
        return replace(self, function=self.word) if self.function.endswith("/all") else None


@dataclass(frozen=True)
class Statistic:
    """What is known of a set of rows: values ``of`` the rows, merged by SUM, MIN, MAX or LAST.

    ``of`` is "row" (1), "known" (1 where there is a value), "value", "centred" (the value less the ``center``, the
    column's mean, so that squares do not cancel), "square" (of that), "category" (1 where it is that one), "part" (the
    value where the column ``by`` is that category), "time" (when the row became known), or "hash" (of all columns).
    """

    name: str
    merge: str
    of: str
    column: str = ""
    category: str = ""
    by: str = ""
    center: float = 0.0


@dataclass(frozen=True)
class Ranged:
    """A statistic of the rows in a window before a date: of ``base``, times a ``power`` of their age (time less date).

    The least and the largest age are of the rows whose base is above 0.
    """

    name: str
    base: str
    merge: str
    power: int
    window: Window


ROWS = Statistic("r:", "SUM", "row")
_KINDS = {"r": ("SUM", "row"), "n": ("SUM", "known"), "s": ("SUM", "value"), "l": ("MIN", "value"),
          "h": ("MAX", "value"), "d": ("SUM", "centred"), "q": ("SUM", "square"), "p": ("LAST", "value"),
          "c": ("SUM", "category"), "m": ("SUM", "part"), "z": ("MAX", "time"), "a": ("MIN", "time")}
# Of ages: the letter of the statistic they are multiplied by, how they are merged, their power, the window if fixed
_AGES = {"x": ("n", "SUM", 1, ""), "y": ("n", "SUM", 2, ""), "v": ("d", "SUM", 1, ""), "i": ("n", "MIN", 1, ""),
         "j": ("n", "MAX", 1, ""), "b": ("r", "MIN", 1, "2rows")}


def letters_of(feature: Feature) -> dict[str, str]:
    """Return the names of the statistics a feature follows from, by their letters, without as_of and the day."""
    window = split(feature.function)[1]
    found = {}
    for letter in WORDS[feature.word].letters.replace("t", "").replace("u", ""):
        wide = _AGES[letter][3] or window if letter in _AGES else window
        found[letter] = _named(letter, feature) + (f"@{wide}" if wide or letter in _AGES else "")
    return found


def _named(letter: str, feature: Feature) -> str:
    column = "" if letter in "rzab" else feature.read
    return f"{letter}:{column}:{feature.by}={feature.category}" if letter in "cm" else f"{letter}:{column}"


def _parts(features: Iterable[Feature]) -> list[Feature]:
    """Return features and those they are divided by."""
    return [part for feature in features for part in (feature, feature.whole) if part is not None]


def statistics_of(features: Iterable[Feature], centers: Mapping[str, float]) -> list[Statistic]:
    """Return the statistics of rows that features of one table need, each once; the number of rows is the first.

    ``centers`` are what is subtracted before squares are added up, by "table.column".
    """
    found = {ROWS.name: ROWS}
    for feature in _parts(features):
        for letter in letters_of(feature):
            letter = _AGES[letter][0] if letter in _AGES else letter
            name = _named(letter, feature)
            if name not in found:
                center = centers.get(feature.source, 0.0) if letter in "dq" else 0.0
                by = feature.by if feature.read == feature.column else ""
                found[name] = Statistic(name, *_KINDS[letter], feature.read, feature.category, by, center)
    return list(found.values())


def ranged_of(features: Iterable[Feature], day: float) -> list[Ranged]:
    """Return the statistics of windows that features of one table need, each once."""
    found = {}
    for feature in _parts(features):
        for letter, name in letters_of(feature).items():
            if "@" in name[len(_named(letter, feature)):]:
                plain = (letter, _KINDS[letter][0], 0, "") if letter in _KINDS else None
                base, merge, power, fixed = plain or _AGES[letter]
                window = window_of(fixed or split(feature.function)[1], day)
                found[name] = Ranged(name, _named(base, feature), merge, power, window)
    return list(found.values())


def center(mean: float, deviation: float, largest: float) -> float:
    """Return the mean, rounded to a power of two of about half the ``deviation``: a few more rows mostly leave it.

    Squares of what is left do not cancel: it is at most two fifths of a deviation from the mean, or 2^-27 of the
    ``largest`` magnitude, which with deviations below that costs no more digits than the values themselves lack. What
    tips it is where no mean or deviation of few digits is: other engines and orders of rows change their last bits.
    """
    width = max(deviation, largest * 2.0**-26)
    step = 2.0 ** np.floor(np.log2(width * GOLDEN)) if width > 0 else 1.0
    return float(np.floor(mean / step + GOLDEN) * step) + 0.0  # not -0.0, which is written otherwise


def features_of(table: str, columns: Sequence[str], categories: Mapping[str, Sequence[str]],
                functions: Sequence[str], own_time: bool, dated: bool, shared: Sequence[str]) -> list[Feature]:
    """Return the features of a table, its number of rows among them always, in the order of columns and functions.

    ``own_time`` says that the table has a time, ``dated`` that entities see its rows by a date, and ``shared`` are
    columns of what its rows share with others.
    """
    def given(of: str) -> list[str]:
        return [function for function in functions if function != "count" and WORDS[split(function)[0]].of == of
                and (dated or not needs_date(function)) and (own_time or function != "last")]

    found = [Feature(table, "count"), *(Feature(table, function) for function in given("row"))]
    if own_time and dated:
        found += [Feature(table, function) for function in given("time")]
    for column in columns:
        held = categories.get(f"{table}.{column}")
        found += [Feature(table, function, column) for function in given("number")] if held is None else [
            Feature(table, function, column, category) for function in given("text") for category in held]
        found += [Feature(table, function, column) for function in given("value")]
    if own_time and dated:
        found += [Feature(table, function, column, "", by) for column in columns for by in shared
                  for function in given("excess") if f"{table}.{column}" not in categories]
    found += [Feature(table, function, column, category, by) for function in given("part") for column in columns
              if f"{table}.{column}" not in categories for by in columns
              for category in categories.get(f"{table}.{by}", ())]
    return found


def own_features(table: str, columns: Sequence[str], categories: Mapping[str, Sequence[str]],
                 functions: Sequence[str], date: Sequence[str]) -> list[Feature]:
    """Return the features of an entity's own row: its numbers, a column for each category of its text, and its date."""
    found = [Feature(table, function, column) for column in date for function in functions
             if WORDS[split(function)[0]].of == "date"]
    for column in columns:
        held = categories.get(f"{table}.{column}")
        found += [Feature(table, "value", column)] if held is None else [
            Feature(table, "is", column, category) for category in held]
    return found


def kept(features: Sequence[Feature], words: Mapping[str, Sequence[str]], single: Iterable[str]) -> list[Feature]:
    """Return the features without counts that are not among the ``words`` of a table, and without repetitions.

    In the tables ``single`` no entity has more than one row: all functions of a number are then the number itself, or
    say nothing, and only the first of them stays; of its time, only how long ago it was.
    """
    left = []
    seen = set()
    for feature in features:
        once = feature.table in set(single)
        if feature.function == "count" and "count" not in words[feature.table]:
            continue
        if once and (feature.word in ("std", "shrunk", "trend", "since_first", "gap_mean", "gap_last", "overdue")
                     or feature.function.endswith(("row", "rows", "/all"))):
            continue
        if once and feature.function in ("mean", "sum", "min", "max", "last"):  # of one row all are the value itself
            if feature.source in seen:
                continue
            seen.add(feature.source)
        left.append(feature)
    return left


def fills_of(values: Array, missing: str) -> Array:
    """Return what stands for missing values: the mean of each feature, or 0."""
    known = ~np.isnan(values)
    if missing != "mean":
        return np.zeros(values.shape[1])
    return np.where(known, values, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
