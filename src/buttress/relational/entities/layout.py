"""A statement laid out for people: an expression after the other, each with a line on what it holds, and in lines."""

import re
from collections.abc import Mapping, Sequence

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


def laid_out(parts: Sequence[str], chosen: str, tables: Mapping[int, str], prefix: str, dialect: Dialect) -> str:
    """Return a SELECT in lines, from its table expressions and what it selects; ``tables`` has names by number."""
    text = []
    for part in parts:
        name, _, body = part.partition(" AS (")
        kind, number = re.fullmatch(r"([a-z]+)(\d*).*", name.removeprefix(prefix)).groups()  # type: ignore[union-attr]
        table = " ".join(tables.get(int(number or -1), "").split())
        text.append(f"-- {HELD[kind].format(table=table)}\n{name} AS (\n{in_lines(body[:-1], dialect, 4)}\n)")
    return "WITH\n" + ",\n".join(text) + "\n" + in_lines(chosen, dialect, 0)


def in_lines(select: str, dialect: Dialect, indent: int) -> str:
    """Return a SELECT with a line for each of its clauses and of the columns it chooses; only spaces are changed."""
    lines = []
    clauses = r"(?<!LEFT)\s(?=(?:FROM|(?:LEFT )?JOIN|WHERE|GROUP BY|UNION ALL)\b)"
    for clause in _divided(select, clauses, dialect):
        first, *others = _divided(clause, r"(?<=,) ", dialect) if clause.startswith("SELECT ") else [clause]
        lines += [first, *(f"    {column}" for column in others)]
    return "\n".join(" " * indent + line for line in lines)


def _divided(text: str, at: str, dialect: Dialect) -> list[str]:
    """Return the parts of a text between what matches ``at``, but in brackets and quotes."""
    literal = r"'(?:[^'\\]|\\.)*'" if dialect.backslash else "'[^']*'"
    mark = dialect.mark
    depth = begin = 0
    parts = []
    for found in re.finditer(rf"{literal}|{mark}[^{mark}]*{mark}|[()]|{at}", text, re.DOTALL):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth == 0 and found[0].isspace():
            parts.append(text[begin:found.start()])
            begin = found.end()
    return [*parts, text[begin:]]
