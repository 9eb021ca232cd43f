"""A fitted linear model as one SELECT that scores the rows of the label's table where they are."""

from collections.abc import Mapping, Sequence

from buttress.relational.declare import Join
from buttress.relational.plan.plan import indicator_name
from buttress.relational.sources.columns import Column
from buttress.relational.sources.dialects import Dialect
from buttress.relational.sql.plan import sql_home, sql_tree, typed_sample
from buttress.relational.sql.text import SqlTree, as_number, base, joins, keys_of, weight_columns


def scoring(join: Join, coefficients: Mapping[str, float], intercept: float, features: Sequence[tuple[str, str]],
            categories: Mapping[str, Sequence[str]], fills: Mapping[str, float], columns: Sequence[str]) -> str:
    """Return the SELECT of the given columns of the label's table and the score of each of its rows.

    A score is the weighted mean over the join rows that extend the row, or the ``intercept`` where there are none.
    ``coefficients`` are by name, in original units; ``features`` are (table, column), ``categories`` the values of
    those that are text, ``fills`` what stands for NULL.
    """
    pairs = join.check()
    connection, dialect, items = sql_home(join, pairs, 0.0)
    tree, names, node_of = sql_tree(join, pairs, connection, dialect, items, False)
    numbers = {table.name: i for i, table in enumerate(join.tables)}
    samples = [typed_sample(connection, dialect, item, [column for name, column in features if name == table.name])
               for table, item in zip(join.tables, items)]
    for table, column in features:
        i = numbers[table]
        full = f"{table}.{column}"
        tree.nodes[node_of[i]].features += _terms(
            full, names[i, column], None if full in categories else samples[i][column], coefficients,
            categories.get(full, ()), fills.get(full), dialect)
    for i, one in enumerate(join.tables):
        if one.weights is not None:
            tree.nodes[node_of[i]].weights.append(names[i, one.weights])
    tree.nodes[tree.root].label = dialect.number(0.0)
    return _mean_scores(tree, intercept, columns)


def _terms(full: str, quoted: str, numbers: Column | None, coefficients: Mapping[str, float], categories: Sequence[str],
           fill: float | None, dialect: Dialect) -> list[str]:
    """Return what a feature adds to the score: ``numbers`` are some of its values, None where it is text."""
    number = dialect.number
    terms = [f"CASE WHEN {quoted} = {dialect.text(value)} THEN {number(coefficients[f'{full}={value}'])} "
             f"ELSE {number(0.0)} END" for value in categories]
    read = quoted
    if numbers is not None:
        read = as_number(quoted, numbers, dialect, nan_is_null=fill is not None)
        filled = read if fill is None else f"COALESCE({read}, {number(fill)})"
        terms.append(f"{number(coefficients[full])} * {filled}")
    if indicator_name(full) in coefficients:
        terms.append(f"CASE WHEN {read} IS NULL THEN {number(coefficients[indicator_name(full)])} "
                     f"ELSE {number(0.0)} END")
    return terms


def _mean_scores(tree: SqlTree, intercept: float, columns: Sequence[str]) -> str:
    """Return the SELECT: going up the tree, each key's weight and mean score; at the root, each row's."""
    parts = []
    our = tree.prefix
    number = tree.dialect.number
    for i in reversed(tree.order):
        node = tree.nodes[i]
        own = " + ".join(f"({term})" for term in node.features) or number(0.0)
        chosen = [*weight_columns(tree, i), f"{own} AS s"]
        if i == tree.root:
            chosen += [f"{tree.dialect.quote(name)} AS o{j}" for j, name in enumerate(columns)]
            parts.append(f"{our}t{i} AS ({_all_rows(tree, ', '.join(chosen))})")
            continue
        parts.append(f"{our}t{i} AS ({base(tree, i, ', '.join(chosen))})")
        text, read = joins(tree, i, "m")
        mass = " * ".join(["t.w", *(column.format("c", 1) for column in read.values())])
        score = " + ".join(["t.s", *(column.format("s", 0) for column in read.values())])
        by = ", ".join(keys_of(tree, i))
        parts.append(f"{our}m{i} AS (SELECT {by}, SUM({mass}) AS c, COALESCE(SUM({mass} * ({score})) / "
                     f"NULLIF(SUM({mass}), 0), 0) AS s FROM {our}t{i} t {text} GROUP BY {by})")
    text, read = joins(tree, tree.root, "m")
    score = " + ".join(["t.s", *(column.format("s", 0) for column in read.values())])
    matched = " AND ".join(f"m{c}.c IS NOT NULL" for c in tree.nodes[tree.root].children
                           if not tree.nodes[c].optional) or "1 = 1"
    outer = text.replace("LEFT JOIN", "JOIN").replace("JOIN", "LEFT JOIN")
    listed = [f"t.o{j} AS {tree.dialect.quote(name)}" for j, name in enumerate(columns)]
    value = f"CASE WHEN {matched} THEN {number(intercept)} + {score} ELSE {number(intercept)} END AS score"
    return f"WITH {', '.join(parts)} SELECT {', '.join([*listed, value])} FROM {our}t{tree.root} t {outer}"


def _all_rows(tree: SqlTree, columns: str) -> str:
    """Return the SELECT of the root's rows, those with a NULL key too."""
    node = tree.nodes[tree.root]
    keys = "".join(f", {names[0]} AS k{a}" for a, names in sorted(node.keys.items()))
    return f"SELECT {columns}{keys} FROM {node.item} b"
