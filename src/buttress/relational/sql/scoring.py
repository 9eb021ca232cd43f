"""A fitted linear model as one SELECT that scores the rows of the label's table where they are."""

from collections.abc import Mapping, Sequence

import numpy as np

from buttress.relational.declare import Join
from buttress.relational.plan.plan import EncodedFeature, indicator_name
from buttress.relational.sql.listing import mean_message
from buttress.relational.sql.plan import seen_items, sql_home, sql_tree, typed_sample
from buttress.relational.sql.text import (
    SqlTree,
    as_number,
    feature_expressions,
    joins,
    rows_of,
    score,
    weight_columns,
)


def scoring(join: Join, coefficients: Mapping[str, float], intercept: float,
            features: Sequence[tuple[str, str, Sequence[str] | None]], fills: Mapping[str, float],
            columns: Sequence[str]) -> str:
    """Return the SELECT of the given columns of the label's table and the score of each of its rows.

    A score is the weighted mean over the join rows that extend the row, or the ``intercept`` where there are none.
    ``coefficients`` are by name, in original units; ``features`` are (table, column, the values of a text), ``fills``
    what stands for NULL.
    """
    pairs = join.check()
    connection, dialect, items = sql_home(join, pairs, 0.0)
    seen = seen_items(join, pairs, connection, dialect, items)
    tree, names, node_of = sql_tree(join, *seen, connection, dialect, False)
    numbers = {table.name: i for i, table in enumerate(join.tables)}
    samples = [typed_sample(connection, dialect, item, [column for name, column, _ in features if name == table.name])
               for table, item in zip(join.tables, items)]
    beta: list[list[float]] = [[] for _ in tree.nodes]
    for table, column, categories in features:
        i = numbers[table]
        full = f"{table}.{column}"
        fill = fills.get(full)
        feature = EncodedFeature(column, 1.0, fill, None if categories is None else list(categories),
                                 indicator_name(full) in coefficients)
        quoted = names[i, column]
        read = quoted if categories is not None else as_number(quoted, samples[i][column], dialect, fill is not None)
        tree.nodes[node_of[i]].features += feature_expressions(feature, quoted, read, dialect)
        beta[node_of[i]] += [coefficients[name] for name in feature.columns_of(table)]
    for i, one in enumerate(join.tables):
        if one.weights is not None:
            tree.nodes[node_of[i]].weights.append(names[i, one.weights])
    tree.nodes[tree.root].label = dialect.number(0.0)
    return _mean_scores(tree, [score(tree, i, np.array(part)) for i, part in enumerate(beta)], intercept, columns)


def _mean_scores(tree: SqlTree, scores: Sequence[str], intercept: float, columns: Sequence[str]) -> str:
    """Return the SELECT: going up the tree, each key's weight and mean score; at the root, each row's.

    ``scores`` are the nodes' own shares of a score.
    """
    our = tree.prefix
    root = tree.root
    quote = tree.dialect.quote
    constant = tree.dialect.number(intercept)
    parts = []
    for i in reversed(tree.order[1:]):
        parts += rows_of(tree, i, [*weight_columns(tree, i), f"{scores[i]} AS s"])
        parts.append(mean_message(tree, i, [_score(tree, i)]))
    parts.append(f"{our}t{root} AS ({_all_rows(tree, scores[root], columns)})")
    text, _ = joins(tree, root, "m")
    matched = " AND ".join(f"m{c}.c IS NOT NULL" for c in tree.nodes[root].children
                           if not tree.nodes[c].optional) or "1 = 1"
    outer = text.replace("LEFT JOIN", "JOIN").replace("JOIN", "LEFT JOIN")
    listed = [f"t.o{j} AS {quote(name)}" for j, name in enumerate(columns)]
    value = f"CASE WHEN {matched} THEN {constant} + {_score(tree, root)} ELSE {constant} END AS score"
    return f"WITH {', '.join(parts)} SELECT {', '.join([*listed, value])} FROM {our}t{root} t {outer}"


def _score(tree: SqlTree, i: int) -> str:
    """Return the expression of a row's own share of the score and its children's mean scores."""
    _, read = joins(tree, i, "m")
    return " + ".join(["t.s", *(column.format("g0", 0) for column in read.values())])


def _all_rows(tree: SqlTree, score_of_row: str, columns: Sequence[str]) -> str:
    """Return the SELECT of the root's rows, those with a NULL key too; o<j> are the ``columns`` that are asked for."""
    node = tree.nodes[tree.root]
    chosen = [*weight_columns(tree, tree.root), f"{score_of_row} AS s",
              *(f"{tree.dialect.quote(name)} AS o{j}" for j, name in enumerate(columns)),
              *(f"{names[0]} AS k{a}" for a, names in sorted(node.keys.items()))]
    return f"SELECT {', '.join(chosen)} FROM {node.item} b"
