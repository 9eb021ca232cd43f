"""The plan as SQL text: one SELECT with common table expressions a pass, the same for DuckDB, PostgreSQL and Spark.

A message of table i holds, per key and bin of the score, the weight of the rows of its subtree and the weighted sums
of the subtree's features: one pass up the tree gives histogram and gradient at once, and nothing is written.
Functions here return text; identifiers are always quoted by the dialect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from buttress._checks import Array
from buttress.relational.dialects import Dialect


@dataclass
class SqlTable:
    """One table: a FROM item, its key columns per attribute (several must be equal), features and how they read.

    ``features`` are SQL expressions of scaled features, in the order of the coefficients; ``optional`` marks the right
    side of a left join; ``nullable`` are the attributes whose key may be NULL because a left join keeps the row.
    """

    item: str
    keys: dict[int, list[str]]
    parent: int
    children: list[int]
    shared: list[int]
    optional: bool
    nullable: set[int]
    weight: str | None = None
    label: str | None = None
    features: list[str] = field(default_factory=list)


def base(tables: Sequence[SqlTable], i: int, dialect: Dialect, columns: str) -> str:
    """Return the SELECT of a table's rows whose keys are not NULL (and agree, where two columns are one key)."""
    table = tables[i]
    keys = "".join(f", {dialect.quote(names[0])} AS k{a}" for a, names in sorted(table.keys.items()))
    tests = []
    for a, names in sorted(table.keys.items()):
        if a not in table.nullable:
            tests.append(f"{dialect.quote(names[0])} IS NOT NULL")
        tests += [f"{dialect.quote(names[0])} = {dialect.quote(name)}" for name in names[1:]]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    return f"SELECT {columns}{keys} FROM {table.item}{where}"


def same(left: str, right: str, attributes: Sequence[int]) -> str:
    return " AND ".join(f"{left}.k{a} = {right}.k{a}" for a in attributes)


def reduced(tables: Sequence[SqlTable], order: Sequence[int], dialect: Dialect, columns: Sequence[str]) -> list[str]:
    """Return the expressions u<i> (after semi-joins up the tree) and r<i> (up and down) for every table."""
    parts = []
    for i in reversed(order):
        kept = [f"EXISTS (SELECT 1 FROM u{c} c WHERE {same('c', 't', tables[c].shared)})"
                for c in tables[i].children if not tables[c].optional]
        where = f" WHERE {' AND '.join(kept)}" if kept else ""
        parts.append(f"t{i} AS ({base(tables, i, dialect, columns[i])})")
        parts.append(f"u{i} AS (SELECT t.* FROM t{i} t{where})")
    for i in order:
        p = tables[i].parent
        where = "" if p < 0 else f" WHERE EXISTS (SELECT 1 FROM r{p} p WHERE {same('p', 't', tables[i].shared)})"
        parts.append(f"r{i} AS (SELECT t.* FROM u{i} t{where})")
    return parts


def statistics(tables: Sequence[SqlTable], order: Sequence[int], dialect: Dialect, i: int,
               expressions: Sequence[str]) -> str:
    """Return the SELECT of, per feature of table i over its reduced rows: greatest magnitude and number of NULLs."""
    columns = ["1 AS one"] * len(tables)
    columns[i] = ", ".join(["1 AS one", *(f"{e} AS x{j}" for j, e in enumerate(expressions))])
    wanted = ["COUNT(*)"]
    for j in range(len(expressions)):
        wanted += [f"MAX(ABS(x{j}))", f"SUM(CASE WHEN x{j} IS NULL THEN 1 ELSE 0 END)"]
    return f"WITH {', '.join(reduced(tables, order, dialect, columns))} SELECT {', '.join(wanted)} FROM r{i}"


def distinct(tables: Sequence[SqlTable], order: Sequence[int], dialect: Dialect, i: int, column: str) -> str:
    """Return the SELECT of the distinct values of a column of table i over its reduced rows."""
    columns = ["1 AS one"] * len(tables)
    columns[i] = f"{column} AS x"
    return f"WITH {', '.join(reduced(tables, order, dialect, columns))} SELECT DISTINCT x FROM r{i}"


def score(features: Sequence[str], beta: Array, dialect: Dialect) -> str:
    """Return the expression of a table's share of the score."""
    terms = [f"{dialect.number(b)} * {name}" for name, b in zip(features, beta.tolist())]
    return " + ".join(terms) or dialect.number(0.0)


def ranges(tables: Sequence[SqlTable], dialect: Dialect, betas: Sequence[Array]) -> str:
    """Return one SELECT of (table, least share of the score, largest) of every table with features."""
    parts = []
    for i, (table, beta) in enumerate(zip(tables, betas)):
        if table.features:
            columns = f"{score(table.features, beta[: len(table.features)], dialect)} AS s"
            parts.append(f"SELECT {i}, MIN(s), MAX(s) FROM ({base(tables, i, dialect, columns)}) q{i}")
    return " UNION ALL ".join(parts)


def counting_pass(tables: Sequence[SqlTable], order: Sequence[int], dialect: Dialect, betas: Sequence[Array],
                  step: float, sums: bool = True) -> str:
    """Return the SELECT of (label side, bin, weight, rows, weighted feature sums in tree order) of the join's rows.

    With ``sums`` False: only the weight and the number of rows per label side.
    """
    parts = []
    for i in reversed(order):
        table = tables[i]
        columns = _row_columns(table, betas[i], step, dialect, sums)
        parts.append(f"t{i} AS ({base(tables, i, dialect, columns)})")
        parts.append(f"m{i} AS ({_message(tables, i, dialect, sums)})")
    return f"WITH {', '.join(parts)} SELECT * FROM m{order[0]}"


def _row_columns(table: SqlTable, beta: Array, step: float, dialect: Dialect, sums: bool) -> str:
    one = dialect.number(1.0)
    weight = f"CAST({table.weight} AS {dialect.double})" if table.weight else one
    columns = [f"{weight} AS w"]
    if table.parent < 0:
        columns.append(f"{table.label} AS side")
    if sums:
        share = score(table.features, beta[: len(table.features)], dialect)
        offset = f"{share} + {dialect.number(beta[-1])}" if len(beta) > len(table.features) else share
        columns.append(f"CAST(FLOOR(({offset}) / {dialect.number(step)} + {dialect.number(0.5)}) AS BIGINT) AS bin")
        columns += [f"{name} AS x{j}" for j, name in enumerate(table.features)]
    return ", ".join(columns)


def _message(tables: Sequence[SqlTable], i: int, dialect: Dialect, sums: bool) -> str:
    """Return the SELECT of a message: group rows times children's messages by key (label side at the root) and bin."""
    table = tables[i]
    joins, rows, weights, bins, mass = [], [dialect.number(1.0)], ["t.w"], ["t.bin"], {}
    for c in table.children:
        how, optional = ("LEFT JOIN", True) if tables[c].optional else ("JOIN", False)
        joins.append(f"{how} m{c} ON {same('t', f'm{c}', tables[c].shared)}")
        mass[c] = f"COALESCE(m{c}.c, 1)" if optional else f"m{c}.c"
        weights.append(mass[c])
        rows.append(f"COALESCE(m{c}.n, 1)" if optional else f"m{c}.n")
        bins.append(f"COALESCE(m{c}.bin, 0)" if optional else f"m{c}.bin")
    by = [f"t.k{a}" for a in table.shared] if table.parent >= 0 else ["t.side"]
    names = [f"{key} AS {key[2:]}" for key in by]
    chosen = [*names, f"SUM({' * '.join(weights)}) AS c", f"SUM({' * '.join(rows)}) AS n"]
    if sums:
        chosen.insert(len(names), f"{' + '.join(bins)} AS bin")
        by.append(" + ".join(bins))
        total = " * ".join(weights)
        own = [f"SUM({total} * t.x{j})" for j in range(len(table.features))]
        for c in table.children:
            others = " * ".join(["t.w", *(mass[o] for o in table.children if o != c)])
            own += [f"SUM({others} * COALESCE(m{c}.g{j}, 0))" for j in range(subtree_width(tables, c))]
        chosen += [f"{expression} AS g{j}" for j, expression in enumerate(own)]
    return f"SELECT {', '.join(chosen)} FROM t{i} t {' '.join(joins)} GROUP BY {', '.join(by)}"


def subtree_width(tables: Sequence[SqlTable], i: int) -> int:
    """Return how many features the subtree of table i has."""
    return len(tables[i].features) + sum(subtree_width(tables, c) for c in tables[i].children)


def subtree_columns(tables: Sequence[SqlTable], i: int) -> list[tuple[int, int]]:
    """Return (table, feature number) of each weighted sum of a message, in its order."""
    own = [(i, j) for j in range(len(tables[i].features))]
    return own + [pair for c in tables[i].children for pair in subtree_columns(tables, c)]


def share_of(tables: Sequence[SqlTable]) -> int:
    """Return how many tables' shares of the score are rounded."""
    return int(np.sum([bool(table.features) or table.parent < 0 for table in tables]))
