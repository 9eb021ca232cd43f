"""The SELECT that makes the features of entities where the tables are: from the rows of each path to what a date sees.

Where keys have few dates, rows are paired with each date that sees them; of many dates, rows are added up once between
two dates of a key, and then over the dates by a window.

For people it is laid out: an expression after the other, each with a line on what it holds.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from buttress.relational.entities.features import Feature, Ranged, letters_of
from buttress.relational.entities.text import AGGREGATE, Path, SqlTable, is_category, merged, numbered, up_the_path
from buttress.relational.entities.words import TURN, WORDS
from buttress.relational.plan.times import Window
from buttress.relational.sources.dialects import Dialect

# By the letter that a name begins with behind the prefix, before the number of a table
HELD = {"asked": "the rows that features are for: keys a0, a1, ..., and their date t",
        "r": "rows of {table} that reach the label's table, by its keys, and statistics s0, ... or values v0, ...",
        "m": "the same merged, a row a key, before the next table",
        "w": "rows of {table} with a key that is asked for",
        "e": "these rows and the dates that are asked for, in one list",
        "n": "the same; seg counts dates back from the latest to the first that sees a row",
        "g": "statistics of {table} between two dates of a key",
        "p": "pairs of a row of {table} and a date that sees it; later counts rows of the key between the two",
        "f": "statistics of {table} of all rows that a date of a key sees, and b0, ... in windows before it",
        "c": "rows of {table}; c counts those of a key up to the time of a row",
        "b": "statistics b0, b1, ... of {table} in windows before each date of a key"}


def laid_out(parts: Sequence[str], chosen: str, tables: Mapping[int, str], prefix: str) -> str:
    """Return a SELECT with a line for each of its table expressions, and what that holds before it.

    ``tables`` has names by number.
    """
    text = []
    for part in parts:
        kind, number = re.match(r"([a-z]+)(\d*)", part.removeprefix(prefix)).groups()  # type: ignore[union-attr]
        table = " ".join(tables.get(int(number or -1), "").split())
        text.append(f"-- {HELD[kind].format(table=table)}\n{part}")
    return "WITH\n" + ",\n".join(text) + "\n" + chosen


def path_parts(path: Path) -> tuple[list[str], bool]:
    """Return the expressions that end in f<number>: the statistics per key, and per date where rows have a time.

    Also returns whether there are dates.
    """
    parts, timed = up_the_path(path)
    keys = numbered(len(path.asked))
    if path.latest:
        return [*parts, _until_latest(path, keys, timed)], False
    if timed and path.paired:
        return parts + _for_each_date(path, keys), True
    t = path.t
    same = " AND ".join(f"a.{name} = r.{key}" for name, key in zip(path.asked, keys))
    our = path.place.prefix
    wanted = f"SELECT r.* FROM {our}r{t} r WHERE EXISTS (SELECT 1 FROM {our}asked a WHERE {same})"
    parts.append(f"{our}w{t} AS ({wanted})")
    if not timed:
        by = ", ".join(keys)
        parts.append(f"{our}f{t} AS (SELECT {by}, {merged(path.named(of_time=False))} FROM {our}w{t} w GROUP BY {by})")
        return parts, False
    return parts + _until_dates(path, keys) + (_in_windows(path, keys) if path.ranged else []), True


def _dates(path: Path, keys: Sequence[str]) -> str:
    """Return the FROM item of the dates that are asked for, each once a key."""
    dates = ", ".join(f"a.{name} AS {key}" for name, key in zip(path.asked, keys))
    there = " AND ".join(f"a.{name} IS NOT NULL" for name in path.asked)
    return f"(SELECT DISTINCT {dates}, a.t FROM {path.place.prefix}asked a WHERE {there})"


def _for_each_date(path: Path, keys: Sequence[str]) -> list[str]:
    """Return the expressions from rows with a time to f<number>, with windows b0, b1, ..., by pairs of row and date.

    Of a pair, later counts the rows of its key after the row and before the date.
    """
    t = path.t
    our = path.place.prefix
    dates = [*(f"f.{key}" for key in keys), "f.t"]
    chosen = [*dates[:-1], "f.t AS due", "w.t", *(f"w.{name}" for name in path.held)]
    if path.of_latest:
        chosen.append(f"{_later(path, ', '.join(dates))} AS later")
    same = " AND ".join(f"w.{key} = f.{key}" for key in keys)
    found = [f"{AGGREGATE[s.merge]}({value}) AS {name}"
             for s, value, name in zip(path.statistics, path.of_rows, path.names)]
    inside = _windowed(path, _tests(path, "w.due", "w.later"), "w.due")
    by = ", ".join([*keys, "due"])
    return [
        f"{our}p{t} AS (SELECT {', '.join(chosen)} FROM {_dates(path, keys)} f JOIN {our}r{t} w ON {same} "
        "AND w.t < f.t)",
        f"{our}f{t} AS (SELECT {', '.join(keys)}, due AS t, {', '.join(found + inside)} FROM {our}p{t} w "
        f"GROUP BY {by})"]


def _until_dates(path: Path, keys: Sequence[str]) -> list[str]:
    """Return the expressions from rows with a time to f<number>, a row for each key and date that is asked.

    ``seg`` counts the dates of a key from the latest one back to a row: the first date that may see the row.
    """
    t = path.t
    our = path.place.prefix
    listed = ", ".join(keys)
    empty = ", ".join("NULL" for _ in path.held)
    between = ", ".join(f"{AGGREGATE[s.merge]}(CASE WHEN later = 1 THEN {value} END) AS {name}"
                        for s, value, name in zip(path.statistics, path.of_rows, path.names))
    back = f"OVER (PARTITION BY {listed} ORDER BY t DESC, later DESC ROWS UNBOUNDED PRECEDING)"
    forward = f"OVER (PARTITION BY {listed} ORDER BY seg DESC ROWS UNBOUNDED PRECEDING)"
    total = ", ".join(f"{AGGREGATE[s.merge]}({name}) {forward} AS {name}"
                      for s, name in zip(path.statistics, path.names))
    return [
        f"{our}e{t} AS (SELECT {listed}, t, 1 AS later, CAST(NULL AS {path.place.dialect.double}) AS due, "
        f"{', '.join(path.held)} FROM {our}w{t} w UNION ALL SELECT {listed}, t, 0, t, {empty} "
        f"FROM {_dates(path, keys)} q)",
        f"{our}n{t} AS (SELECT e.*, SUM(1 - later) {back} AS seg FROM {our}e{t} e)",
        f"{our}g{t} AS (SELECT {listed}, seg, MAX(CASE WHEN later = 0 THEN due END) AS t, "
        f"{between} FROM {our}n{t} w WHERE seg > 0 GROUP BY {listed}, seg)",
        f"{our}f{t} AS (SELECT {listed}, t, {total} FROM {our}g{t} g)",
    ]


def _until_latest(path: Path, keys: Sequence[str], timed: bool) -> str:
    """Return the expression f<number>: statistics of the rows before the latest date of a key; hashes are of times too.
    """
    our = path.place.prefix
    dates = ", ".join(f"{name} AS {key}" for name, key in zip(path.asked, keys))
    latest = f"SELECT {dates}{', MAX(t) AS t' if timed else ''} FROM {our}asked a GROUP BY {', '.join(path.asked)}"
    same = " AND ".join([f"a.{key} = r.{key}" for key in keys] + (["r.t < a.t"] if timed else []))
    added = {name: path.place.dialect.hashed.format(f"r.{name}, r.t") if timed and s.of == "hash" else f"r.{name}"
             for s, name in zip(path.statistics, path.names)}
    listed = ", ".join(f"r.{key}" for key in keys)
    summed = ", ".join(f"SUM({value}) AS {name}" for name, value in added.items())
    return (f"{our}f{path.t} AS (SELECT {listed}, {summed} FROM {our}r{path.t} r JOIN ({latest}) a ON {same} "
            f"GROUP BY {listed})")


def _in_windows(path: Path, keys: Sequence[str]) -> list[str]:
    """Return the expressions that end in b<number>: statistics of the rows in windows before each key and date.

    Rows meet the dates of their key; c counts the rows of a key up to the time of a row, s0 those before a date.
    """
    t = path.t
    our = path.place.prefix
    listed = ", ".join(keys)
    tests = _tests(path, "f.t", "f.s0 - w.c")
    near = " OR ".join(tests.values())
    same = " AND ".join(f"w.{key} = f.{key}" for key in keys)
    by = ", ".join([*(f"f.{key}" for key in keys), "f.t"])
    counted = [f"{our}c{t} AS (SELECT w.*, SUM({path.of_rows[0]}) OVER (PARTITION BY {listed} ORDER BY "
               f"{', '.join(_up(path))}) AS c FROM {our}w{t} w)" for _ in range(path.of_latest)]
    chosen = ", ".join([by, *_windowed(path, tests, "f.t")])
    return [*counted, f"{our}b{t} AS (SELECT {chosen} FROM {our}f{t} f JOIN {our}{'c' if counted else 'w'}{t} w ON "
                      f"{same} AND w.t < f.t AND ({near}) GROUP BY {by})"]


def _up(path: Path) -> list[str]:
    """Return what orders the rows w of a key."""
    return ["w.t", *(f"w.{name}" for name in path.carried)]


def _later(path: Path, dates: str) -> str:
    """Return how many rows are later than a row w of the same ``dates``: by its rank, where each row counts once."""
    up = _up(path)
    if len(path.hops) == 1:
        return f"RANK() OVER (PARTITION BY {dates} ORDER BY {', '.join(f'{part} DESC' for part in up)}) - 1"
    count = f"SUM({path.of_rows[0]}) OVER (PARTITION BY {dates}"
    return f"{count}) - {count} ORDER BY {', '.join(up)})"


def _tests(path: Path, due: str, later: str) -> dict[Window, str]:
    """Return for each window the condition that a row w is in it: before the date ``due``, with ``later`` rows between.
    """
    number = path.place.dialect.number
    return {one.window: "1 = 1" if one.window.text == "" else
            f"{later} < {number(one.window.size)}" if one.window.rows else
            f"w.t >= {due} - {number(one.window.size)}" for one in path.ranged}


def _windowed(path: Path, tests: Mapping[Window, str], due: str) -> list[str]:
    """Return the statistics b0, b1, ... of rows w in windows before the date ``due``."""
    return [f"{AGGREGATE[one.merge]}(CASE WHEN {tests[one.window]} THEN {_term(path, one, due)} END) AS b{j}"
            for j, one in enumerate(path.ranged)]


def _term(path: Path, one: Ranged, due: str) -> str:
    """Return what is added up, or compared, of a row w before a date."""
    base = path.of_rows[[s.name for s in path.statistics].index(one.base)]
    if one.merge == "SUM" or not one.power:
        return " * ".join([base] + [f"(w.t - {due})"] * one.power)
    return f"CASE WHEN {base} > {path.place.dialect.number(0.0)} THEN w.t - {due} END"


def expression(feature: Feature, path: Path) -> str:
    """Return the expression of a feature from f<number> and b<number>, NULL where an entity has no value."""
    of = {letter: path.found[name] for letter, name in letters_of(feature).items()}
    if "p" in of:
        of["p"] = path.place.dialect.item.format(of["p"], 2 + len(path.place.tables[path.number].order))
    number = path.place.dialect.number
    value = WORDS[feature.word].sql.format(t="a.t", u=number(path.day), zero=number(0.0), one=number(1.0), **of)
    if feature.whole is None:
        return value
    return f"({value}) / NULLIF({expression(feature.whole, path)}, {number(0.0)})"


def own_expression(feature: Feature, table: SqlTable, dialect: Dialect) -> str:
    """Return the expression of a feature of the label table's own row, of the alias b of its table."""
    if feature.word in WORDS:
        return WORDS[feature.word].sql.format(t=table.time, turn=dialect.number(TURN))
    value = table.values[feature.column]
    return value if feature.function == "value" else is_category(value, feature.category, dialect)


def whole(asked: str, paths: Iterable[Path], chosen: Sequence[str], prefix: str) -> tuple[list[str], str]:
    """Return the SELECT of ``chosen`` expressions over "asked a" and the statistics of every path, and what is before.

    That are its common table expressions. ``asked`` is the SELECT of the entities, ``prefix`` that of every path.
    """
    parts = [f"{prefix}asked AS ({asked})"]
    joined = [f"{prefix}asked a"]
    for path in paths:
        more, dated = path_parts(path)
        parts += more
        tests = [f"a.{name} = f{path.t}.k{j}" for j, name in enumerate(path.asked)]
        tests += [f"a.t = f{path.t}.t"] if dated else []
        joined.append(f"LEFT JOIN {prefix}f{path.t} f{path.t} ON {' AND '.join(tests)}")
        if path.ranged and not path.paired:
            near = " AND ".join(test.replace(f" f{path.t}.", f" b{path.t}.") for test in tests)
            joined.append(f"LEFT JOIN {prefix}b{path.t} b{path.t} ON {near}")
    columns = ",\n    ".join(chosen)
    return parts, "\n".join([f"SELECT {columns}", f"FROM {joined[0]}", *joined[1:]])
