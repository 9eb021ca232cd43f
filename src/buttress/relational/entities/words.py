"""The words a feature is asked for by: each says which statistics of rows it follows from, in SQL.

A word may look at a window of the rows before the date: ``"sum:30d"`` those of 30 days, ``"mean:3rows"`` the latest
three, and ``"count:30d/all"`` divides by what the word says of all rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, near
from buttress.relational.plan.times import DAY, UNITS, WINDOW

USUAL_ROWS = 10  # rows at the centre of a column that "shrunk" adds
TURN = 2 * np.pi / (365.2425 * DAY)  # radians that the earth goes in a microsecond, from 1970 on


@dataclass(frozen=True)
class Word:
    """What a feature is of a set of rows, from their statistics: each has a letter.

    ``of`` is what there is a feature for: "row" (a table), "time" (a table with a time), "number" or "text" (a column),
    "part" (a number of the rows with one text), "value" (a column of either kind, whose rows are first made one a
    value), "excess" (a number less that of earlier rows with which its row shares something), "date" (as_of itself,
    whose words have ``numpy`` too). The letter t is as_of, and u a day in its unit. ``windowed`` words may have a
    window.
    """

    letters: str
    sql: str
    of: str = "number"
    windowed: bool = False
    numpy: Callable[[Array], Array] = np.asarray

    @property
    def dated(self) -> bool:
        """Whether the word says nothing without an as_of."""
        return self.of in ("time", "excess", "date") or "u" in self.letters


MEAN = "{s} / NULLIF({n}, {zero})"
# with n - 1, as pandas and SQL have it; 0 where all values are equal
DEVIATION = ("CASE WHEN {n} > {one} THEN CASE WHEN {l} = {h} THEN {zero} ELSE "
             "SQRT(GREATEST({q} - {d} * {d} / {n}, {zero}) / ({n} - {one})) END END")
# least squares, a day, from sums of ages x, their squares y, values d and products v; NULL of rows so close together
# beside their ages that rounding leaves less than seven digits of their spread
SLOPE = ("CASE WHEN {i} < {j} AND {n} * {y} - {x} * {x} > 1e-9 * {n} * {y} "
         "THEN ({n} * {v} - {x} * {d}) / ({n} * {y} - {x} * {x}) * {u} END")
WORDS = {
    "count": Word("r", "COALESCE({r}, {zero})", "row", windowed=True),
    "mean": Word("sn", MEAN, windowed=True),
    "sum": Word("s", "COALESCE({s}, {zero})", windowed=True),
    "min": Word("l", "{l}", windowed=True),
    "max": Word("h", "{h}", windowed=True),
    "std": Word("ndqlh", DEVIATION, windowed=True),
    "shrunk": Word("dn", f"COALESCE({{d}} / ({{n}} + {USUAL_ROWS}), {{zero}})", windowed=True),
    "last": Word("p", "{p}"),
    "share": Word("cr", "COALESCE({c} / NULLIF({r}, {zero}), {zero})", "text", windowed=True),
    "distinct": Word("r", "COALESCE({r}, {zero})", "value"),
    "sum_by": Word("m", "COALESCE({m}, {zero})", "part", windowed=True),
    "bias": Word("sn", MEAN, "excess", windowed=True),
    "trend": Word("ndxyviju", SLOPE, windowed=True),
    "since_last": Word("ztu", "({t} - {z}) / {u}", "time"),
    "since_first": Word("atu", "({t} - {a}) / {u}", "time"),
    "gap_mean": Word("zaru", "({z} - {a}) / NULLIF({r} - {one}, {zero}) / {u}", "time"),
    "gap_last": Word("zbrtu", "CASE WHEN {r} > {one} THEN ({z} - {t} - {b}) / {u} END", "time"),
    "overdue": Word("zart", "({t} - {z}) * ({r} - {one}) / NULLIF({z} - {a}, {zero})", "time"),
    "hour": Word("t", "FLOOR({t} / 3.6e9) - 24 * FLOOR({t} / 8.64e10)", "date",
                 numpy=lambda t: np.floor(t / 3.6e9) - 24 * np.floor(t / DAY)),
    "weekday": Word("t", "FLOOR({t} / 8.64e10) + 3 - 7 * FLOOR((FLOOR({t} / 8.64e10) + 3) / 7)", "date",
                    numpy=lambda t: np.floor(t / DAY) + 3 - 7 * np.floor((np.floor(t / DAY) + 3) / 7)),
    "season_sin": Word("t", "SIN({t} * {turn})", "date", numpy=lambda t: np.sin(t * TURN)),
    "season_cos": Word("t", "COS({t} * {turn})", "date", numpy=lambda t: np.cos(t * TURN)),
}
ALWAYS = ("count", "mean", "shrunk", "sum", "min", "max", "std", "last", "share")


def default_functions(dated: bool, day: float) -> tuple[str, ...]:
    """Return the words of a default set: those of time need an as_of, and windows of days need dates."""
    of_time = ("since_last", "since_first", "gap_mean", "gap_last", "overdue", "mean:3rows", "mean:10rows",
               "bias", "bias:3rows", "bias:10rows")
    windows = ("count:30d", "count:90d", "count:30d/all", "count:90d/all", "sum:30d", "sum:90d")
    return ALWAYS + (of_time if dated else ()) + (windows if dated and day == DAY else ())


def split(function: str) -> tuple[str, str, bool]:
    """Return the word, the text of its window, and whether it is divided by that of all rows."""
    word, _, window = function.partition(":")
    return word, window.removesuffix("/all"), window.endswith("/all")


def needs_date(function: str) -> bool:
    """Return whether a function says nothing without an as_of."""
    word, window, _ = split(function)
    return bool(window) or WORDS[word].dated


def check_functions(functions: Sequence[str]) -> None:
    """Refuse what is no list of words, a word that comes twice, and a window that is none or that it cannot have."""
    if isinstance(functions, str):
        raise ValueError(f"functions must be a list. Got {functions!r}. Use [{functions!r}].")
    known: dict[tuple[object, ...], str] = {}
    for function in functions:
        word, window, shared = split(str(function))
        if word not in WORDS:
            raise ValueError(f"functions must be among {', '.join(WORDS)}. Got {function!r}.{near(word, WORDS)}")
        asked = ":" in str(function)
        if asked and not WORDS[word].windowed:
            wide = ", ".join(name for name, other in WORDS.items() if other.windowed)
            raise ValueError(f"{word!r} has no window. Got {function!r}. Use {word!r}, or one of {wide}.")
        size = WINDOW.fullmatch(window)
        if asked and (size is None or float(size[1]) <= 0 or (size[2].startswith("row") and not size[1].isdigit())):
            raise ValueError(f"A window is a length such as '{word}:30d' (s, min, h, d, w), a number where times are "
                             f"numbers, or the latest rows, '{word}:3rows'. Got {function!r}.")
        length = float(size[1]) * UNITS.get(size[2], 1.0) if size else 0.0
        meaning = word, length, "row" in window, shared
        if meaning in known:
            raise ValueError(f"functions has one feature twice, {known[meaning]!r} and {function!r}. Name each once.")
        known[meaning] = function


def check_dated(functions: Sequence[str], as_of: str | None, dates: bool) -> None:
    """Refuse words of time without an as_of, and words of the calendar where it holds numbers."""
    for function in functions:
        if as_of is None and needs_date(function):
            raise ValueError(f"{function!r} is counted back from a date, and the join has none. Use Join(..., "
                             "as_of='table.column'), or leave it out of functions.")
        if WORDS[split(function)[0]].of == "date" and not dates:
            raise ValueError(f"{function!r} is of a date, and as_of={as_of!r} holds numbers. Convert it, with "
                             "pandas.to_datetime, or leave it out of functions.")
