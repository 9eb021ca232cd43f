"""What was known at the time: a join with an ``as_of`` as an equi-join, on dates too.

A row of a table with a time belongs to a row of the label's table only if it became known before that row's date. So
each row on the way from the label's table to tables with a time is taken once for each date that asks for its key and
sees it, and the dates are equal along the way.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.relational.checks import check_dates, check_seen
from buttress.relational.declare import Join, Pair, Table
from buttress.relational.plan.keys import AttributeCodes, combine
from buttress.relational.plan.plan import Index
from buttress.relational.plan.shape import KeyNames
from buttress.relational.sources.columns import Column

AT = "\0as_of"  # the column of a row's date, a name that no table has
DAY = 86_400e6  # microseconds, in which dates are compared
UNITS = {"s": 1e6, "min": 60e6, "h": 3600e6, "d": DAY, "w": 7 * DAY}
WINDOW = re.compile(r"(\d+(?:\.\d+)?)(rows?|s|min|h|d|w|)")


@dataclass(frozen=True)
class Window:
    """Rows at most ``size`` before a date, in the unit of times, or the ``size`` latest rows; ``text`` "" is all."""

    text: str
    size: float
    rows: bool


def window_of(text: str, day: float) -> Window:
    """Return a window from its text; ``day`` is what a day is in times, 1 where they are numbers.

    Raises ValueError for a window of numbers in days, and of dates without a unit.
    """
    found = WINDOW.fullmatch(text)
    if found is None:
        return Window("", np.inf, False)
    size, unit = float(found[1]), found[2]
    if unit.startswith("row"):
        return Window(text, size, True)
    if (unit == "") != (day == 1.0):
        what, use = ("numbers", f"{found[1]!r}, in their unit") if unit else ("dates", f"'{text}d'")
        raise ValueError(f"The times of this join are {what}, and it has a window or delay {text!r}. Use {use}.")
    return Window(text, size * UNITS.get(unit, 1.0), False)


def moments(column: Column, what: str) -> Array:
    """Return times as numbers that order them: microseconds since 1970, or the numbers; NaN where NULL."""
    if column.kind == "time" and column.values.dtype.kind == "M":
        whole = column.values.astype("datetime64[us]").astype(np.int64)
        if (np.abs(whole[~column.null]) == np.iinfo(np.int64).max).any():  # DuckDB's
            raise ValueError(f"{what} holds infinity. Write a date in its place, such as one before all others, or "
                             "NULL for what is never known.")
        numbers = whole.astype(np.float64)
    elif column.kind == "number" or column.null.all():
        numbers = np.where(column.null, 0, column.values).astype(np.float64)
    else:
        raise ValueError(f"{what} must hold dates or numbers. Got {column.kind}. Convert it, with pandas.to_datetime "
                         "or CAST.")
    return np.where(column.null, np.nan, numbers)


def dates_of(join: Join, column: Column) -> Array:
    """Return the dates of rows of the label's table as :func:`moments`; ValueError where one is missing."""
    date = moments(column, f"as_of={join.as_of!r}")
    counts = column.kind == "number"
    check_dates(join, int(np.isnan(date).sum()), float(np.abs(date).max(initial=0.0, where=counts)))
    return date


def delay_of(table: Table, time: Column) -> float:
    """Return how much later than its time a row became known, in the unit of :func:`moments`.

    Raises ValueError for a delay that is no length of time.
    """
    if table.delay is None or time.null.all():
        return 0.0
    found = window_of(table.delay, DAY if time.kind == "time" else 1.0)
    if found.rows or not found.text:
        raise ValueError(f"delay of table {table.name!r} is a length such as '30d' (s, min, h, d, w), or a number "
                         f"where times are numbers. Got {table.delay!r}.")
    return found.size


def date_column(join: Join, root: int | None = None) -> list[str]:
    """Return the column of the label's table that says until when rows are known, if there is one, as a list.

    ``root`` is the label's table, where the join does not say so.
    """
    root = join.root if root is None else root
    timed = [table for i, table in enumerate(join.tables) if i != root and table.time is not None]
    if join.as_of is None and timed:
        raise ValueError(f"Table {timed[0].name!r} has a time, and the join has no as_of: features would count rows "
                         f"from after the label was given. Give the join as_of = '{join.tables[root].name}.date', with "
                         "the column of when each row was asked about, or as_of = 'all' for a picture of all rows.")
    if join.date is None:
        return []
    t, column = join.find_column(join.date)
    if t != root:
        raise ValueError(f"as_of must be a column of the label's table {join.tables[root].name!r}. Got "
                         f"{join.as_of!r}.")
    if not timed:
        raise ValueError(f"as_of={join.as_of!r} needs tables that say when their rows became known. Give at least "
                         "one Table(..., time='column').")
    return [column]


def check_times(kinds: Mapping[str, Column]) -> None:
    """Refuse dates in one table and numbers in another, which cannot be compared; ``kinds`` are columns by name.

    Dates with a time zone and dates without one cannot be compared either.
    """
    held = {name: f"{column.kind} with a time zone" if column.zoned else column.kind
            for name, column in kinds.items() if not column.null.all()}
    if len(set(held.values())) > 1:
        listed = ", ".join(f"{name} ({kind})" for name, kind in held.items())
        raise ValueError(f"as_of and the times of tables must be of one kind. Got {listed}. Convert one of them.")


def times_of(join: Join, root: int) -> dict[int, str]:
    """Return the column of dates of the label's table ``root``, and of others when their rows became known.

    Nothing without a date, by which no row is left out; ValueError for times without one.
    """
    date = date_column(join, root)
    timed = {t: table.time for t, table in enumerate(join.tables) if table.time is not None and t != root}
    return {root: date[0], **timed} if date else {}


def steps_to(times: Mapping[int, str], pairs: Sequence[Pair], root: int) -> list[Pair]:
    """Return a pair of dates for each step from the label's table ``root`` towards tables with a time, nearest first.

    A table that pairs reach on two ways is stepped to on a shortest one.
    """
    steps: dict[int, Pair] = {}
    order = [root]
    for near in order:
        for pair in pairs:
            far = sum(pair.ends) - near
            if near in pair.ends and far not in order:
                order.append(far)
                steps[far] = Pair((near, AT), (far, AT), pair.left)
    asked = set(times)
    for t in reversed(order[1:]):
        if t in asked:
            asked.add(steps[t].first[0])
    return [steps[t] for t in order[1:] if t in asked]


def is_of_dates(attribute: KeyNames) -> bool:
    """Say whether an attribute is that of the dates of steps."""
    return any(AT in names for names in attribute.values())


def see(join: Join, times: Mapping[int, str], steps: Sequence[Pair], groups: Sequence[KeyNames],
        columns: Sequence[Mapping[str, Column]], codes: list[AttributeCodes], rows: list[Index]) -> None:
    """Take each row of the tables that ``steps`` lead to once for each date that asks for its key and sees it.

    ``codes`` and ``rows`` are those of the tables' rows with keys, and change in place; ``groups`` are the attributes,
    of which those of dates get their codes. Raises ValueError for dates and times that cannot be compared, for dates
    that are NULL, and for more than ``max_bag_rows`` rows of a table.
    """
    if not steps:
        return
    check_times({f"{join.tables[t].name}.{name}": columns[t][name] for t, name in times.items()})
    root = steps[0].first[0]
    date = dates_of(join, columns[root][times[root]])
    dates, number = np.unique(date, return_inverse=True)
    asked = {root: number[rows[root]]}
    for near, far in (step.ends for step in steps):
        n = len(rows[near])
        shared = [np.concatenate([codes[near][a], codes[far][a]]) for a in codes[near].keys() & codes[far].keys()]
        keys = combine(shared)
        first = np.zeros(len(rows[far]), dtype=np.int64)
        if far in times:
            time = columns[far][times[far]]
            known = moments(time, f"Time {join.tables[far].name}.{times[far]}") + delay_of(join.tables[far], time)
            first = np.searchsorted(dates, known[rows[far]], side="right")
        questions = np.unique((keys[:n] * len(dates) + asked[near])[keys[:n] >= 0])
        low = np.searchsorted(questions, keys[n:] * len(dates) + first)
        many = np.searchsorted(questions, (keys[n:] + 1) * len(dates)) - low
        check_seen(join, far, int(many.sum()))
        at = np.repeat(np.arange(len(many)), many)
        asked[far] = questions[np.arange(len(at)) + np.repeat(low - np.cumsum(many) + many, many)] % len(dates)
        rows[far] = rows[far][at]
        codes[far] = {a: code[at] for a, code in codes[far].items()}
    for a, group in enumerate(groups):
        if is_of_dates(group):
            for t in group:
                codes[t][a] = asked[t]
