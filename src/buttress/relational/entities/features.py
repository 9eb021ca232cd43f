"""Which features a table gives, from which statistics of its rows they follow, and their values.

A statistic can be merged: that of a set of rows follows from those of its parts. So every table is brought to one row
a key before it meets the next, and nothing larger than a table is made.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array

FUNCTIONS = ("count", "mean", "sum", "min", "max", "std", "last", "share")
OF_ONE_ROW = ("mean", "sum", "min", "max", "last")  # functions that are all the value itself, of one row


@dataclass(frozen=True)
class Feature:
    """A function of the rows of a table that belong to an entity; "value" and "is" are of the entity's own row."""

    table: str
    function: str
    column: str = ""
    category: str = ""

    @property
    def name(self) -> str:
        """``table.count``, ``table.column.mean``, ``table.column=category.share``; ``table.column`` of its own row."""
        column = f".{self.column}" if self.column else ""
        category = f"={self.category}" if self.function in ("share", "is") else ""
        function = "" if self.function in ("value", "is") else f".{self.function}"
        return f"{self.table}{column}{category}{function}"

    @property
    def source(self) -> str:
        """``table.column``."""
        return f"{self.table}.{self.column}"


@dataclass(frozen=True)
class Statistic:
    """What is known of a set of rows: values ``of`` the rows, merged by SUM, MIN, MAX or LAST.

    ``of`` is "row" (1), "known" (1 where there is a value), "value", "centred" (the value less the ``center``, the
    column's mean, so that squares do not cancel), "square" (of that) or "category" (1 where it is that one).
    """

    name: str
    merge: str
    of: str
    column: str = ""
    category: str = ""
    center: float = 0.0


ROWS = Statistic("rows", "SUM", "row")
_KINDS = {"n": ("SUM", "known"), "s": ("SUM", "value"), "l": ("MIN", "value"), "h": ("MAX", "value"),
          "d": ("SUM", "centred"), "q": ("SUM", "square"), "p": ("LAST", "value")}
# The statistics that each function of numbers needs, by their letters, and what it is of them in SQL
SQL = {"count": ("", "COALESCE({rows}, {zero})"), "share": ("", "COALESCE({share} / {rows}, {zero})"),
       "sum": ("s", "COALESCE({s}, {zero})"), "mean": ("ns", "{s} / NULLIF({n}, {zero})"), "min": ("l", "{l}"),
       "max": ("h", "{h}"), "last": ("p", "{p}"),
       "std": ("ndqlh", "CASE WHEN {n} > {one} THEN CASE WHEN {l} = {h} THEN {zero} ELSE "
                        "SQRT(GREATEST({q} - {d} * {d} / {n}, {zero}) / ({n} - {one})) END END")}


def letters_of(feature: Feature) -> str:
    """Return the letters of the statistics that a feature follows from."""
    return SQL[feature.function][0]


def statistics_of(features: Iterable[Feature], centers: Mapping[str, float]) -> list[Statistic]:
    """Return the statistics that features of one table need, each once; the number of rows is the first.

    ``centers`` are what is subtracted before squares are added up, by "table.column".
    """
    found = {ROWS.name: ROWS}
    for feature in features:
        if feature.function == "share":
            name = share_name(feature)
            found[name] = Statistic(name, "SUM", "category", feature.column, feature.category)
        for letter in letters_of(feature):
            name = f"{letter}:{feature.column}"
            center = centers.get(feature.source, 0.0) if letter in "dq" else 0.0
            found[name] = Statistic(name, *_KINDS[letter], feature.column, center=center)
    return list(found.values())


def share_name(feature: Feature) -> str:
    """Return the name of the statistic that a share follows from."""
    return f"c:{feature.column}={feature.category}"


def features_of(table: str, columns: Sequence[str], categories: Mapping[str, Sequence[str]],
                functions: Sequence[str], dated: bool) -> list[Feature]:
    """Return the features of a table, its number of rows among them always, in the order of columns and functions."""
    found = [Feature(table, "count")]
    for column in columns:
        held = categories.get(f"{table}.{column}")
        if held is None:
            found += [Feature(table, function, column) for function in functions
                      if function not in ("count", "share") and (dated or function != "last")]
        elif "share" in functions:
            found += [Feature(table, "share", column, category) for category in held]
    return found


def own_features(table: str, columns: Sequence[str], categories: Mapping[str, Sequence[str]]) -> list[Feature]:
    """Return the features of an entity's own row: its numbers, and a column for each category of its text."""
    found = []
    for column in columns:
        held = categories.get(f"{table}.{column}")
        found += [Feature(table, "value", column)] if held is None else [
            Feature(table, "is", column, category) for category in held]
    return found


def kept(features: Sequence[Feature], functions: Sequence[str], single: Iterable[str]) -> list[Feature]:
    """Return the features without counts that are not asked for, and without repetitions.

    In the tables ``single`` no entity has more than one row: all functions of a number are then the number itself, or
    say nothing, and only the first of them stays.
    """
    left = []
    seen = set()
    for feature in features:
        once = feature.table in set(single)
        if feature.function == "count" and "count" not in functions:
            continue
        if once and feature.function == "std":
            continue
        if once and feature.function in OF_ONE_ROW:
            if feature.source in seen:
                continue
            seen.add(feature.source)
        left.append(feature)
    return left


def value_of(feature: Feature, found: Mapping[str, Array]) -> Array:
    """Return a feature's values from statistics of the same rows; NaN where it has none."""
    rows = found[ROWS.name]
    if feature.function == "count":
        return rows
    if feature.function == "share":
        return np.divide(found[share_name(feature)], rows, out=np.zeros(len(rows)), where=rows > 0)
    statistic = {letter: found[f"{letter}:{feature.column}"] for letter in letters_of(feature)}
    if feature.function == "sum":
        return statistic["s"]
    if feature.function == "mean":
        return np.divide(statistic["s"], statistic["n"], out=np.full(len(rows), np.nan), where=statistic["n"] > 0)
    if feature.function == "std":
        return _deviation(**statistic)
    (end,) = statistic.values()
    return np.where(np.isfinite(end), end, np.nan)


def _deviation(n: Array, d: Array, q: Array, l: Array, h: Array) -> Array:
    """Return the standard deviation with n - 1, as pandas and SQL have it; 0 where all values are equal."""
    spread = np.maximum(q - np.square(d) / np.maximum(n, 1), 0)
    return np.where(n > 1, np.where(l == h, 0.0, np.sqrt(spread / np.maximum(n - 1, 1))), np.nan)
