"""SELECTs of rows one by one: all of a small join, some at random, numbered, means of label rows, and their scores."""

from collections.abc import Mapping, Sequence

import numpy as np

from buttress.relational.declare import Join
from buttress.relational.plan.plan import EncodedFeature, indicator_name
from buttress.relational.sql.plan import seen_items, sql_home, sql_tree, typed_sample
from buttress.relational.sql.text import (
    SqlTree,
    as_number,
    base,
    fan_out,
    feature_columns,
    feature_expressions,
    join_of,
    joins,
    keys_of,
    own_weight,
    reduced,
    rows_of,
    same,
    score,
    weight_columns,
)


def every_row(tree: SqlTree) -> str:
    """Return the SELECT of the join's rows: label side, weight, features in the order of ``tree.columns``."""
    our = tree.prefix
    alias = {i: f"t{i}" for i in tree.order} | {tree.root: "w"}
    parts = [part for i in reversed(tree.order) for part in rows_of(tree, i, feature_columns(tree, i))]
    weight, fans = own_weight(tree, tree.root)
    parts.append(f"{our}w AS (SELECT t.*, {weight} AS mass FROM {our}t{tree.root} t {fans})")
    joined = [f"{our}w w"]
    for i in tree.order[1:]:
        node = tree.nodes[i]
        how = "LEFT JOIN" if node.optional else "JOIN"
        joined.append(f"{how} {our}t{i} t{i} ON {same(alias[node.parent], alias[i], node.shared)}")
    mass = " * ".join(["w.mass", *(f"COALESCE(t{i}.w, {tree.dialect.number(1.0)})" for i in tree.order[1:])])
    names = [f"{alias[i]}.x{j}" for i in tree.below(tree.root) for j in range(len(tree.nodes[i].features))]
    return f"WITH {', '.join(parts)} SELECT {', '.join(['w.side', mass, *names])} FROM {' '.join(joined)}"


def label_means(tree: SqlTree) -> str:
    """Return the SELECT of the label table's rows: side, weight of their join rows, and the mean features of these.

    The features are in the order of ``tree.columns``. Going up the tree, each key keeps its weight and its means.
    """
    parts = []
    our = tree.prefix
    for i in reversed(tree.order):
        parts += rows_of(tree, i, feature_columns(tree, i))
        if i != tree.root:
            parts.append(mean_message(tree, i, _values(tree, i)))
    text, read = joins(tree, tree.root, "m")
    weight, more = own_weight(tree, tree.root)
    mass = " * ".join([weight, *(column.format("c", 1) for column in read.values())])
    return (f"WITH {', '.join(parts)} SELECT {', '.join(['t.side', mass, *_values(tree, tree.root)])} "
            f"FROM {our}t{tree.root} t {text} {more}")


def mean_message(tree: SqlTree, i: int, values: Sequence[str]) -> str:
    """Return the expression m<i>: per key the weight c of the rows of the subtree, and the means g<j> of values."""
    text, read = joins(tree, i, "m")
    mass = " * ".join(["t.w", *(column.format("c", 1) for column in read.values())])
    means = [f"COALESCE(SUM({mass} * ({value})) / NULLIF(SUM({mass}), 0), 0) AS g{j}" for j, value in enumerate(values)]
    by = ", ".join(keys_of(tree, i))
    chosen = ", ".join([by, f"SUM({mass}) AS c", *means])
    return f"{tree.prefix}m{i} AS (SELECT {chosen} FROM {tree.prefix}t{i} t {text} GROUP BY {by})"


def _values(tree: SqlTree, i: int) -> list[str]:
    """Return a node's own features and the means of its children's, in the order of ``tree.columns``."""
    own = [f"t.x{j}" for j in range(len(tree.nodes[i].features))]
    _, read = joins(tree, i, "m")
    return own + [column.format(f"g{j}", 0) for c, column in read.items() for j in range(len(tree.columns(c)))]


def numbered(tree: SqlTree, i: int) -> str:
    """Return the SELECT of a node's rows that take part in the join, as 64-bit floats.

    Its columns are the number of the row's key among those of the node (but for the root), that of its key in each
    child (-1 where a left join finds none), its weight, in the root also the label's side, and its features. Rows come
    in the order of the first column. The database compares the keys, so that equal ones have one number.
    """
    rows = base(tree, i, ", ".join(feature_columns(tree, i)))  # those that the joins leave are in r<i>
    our = tree.prefix
    parts = [f"{our}x{i} AS ({rows})", *reduced(tree)]
    if tree.per_label_row and i == tree.root:
        parts += [f"{our}f{c} AS ({fan_out(tree, c)})" for c in reversed(tree.order) if c != tree.root]
    own = [i] if i != tree.root else []
    edges = [*own, *tree.nodes[i].children]
    parts += [f"{our}n{c} AS ({_numbers(tree, c)})" for c in edges]
    weight, more = own_weight(tree, i)
    text = " ".join([more, *(f"JOIN {our}n{c} n{c} ON {same('t', f'n{c}', tree.nodes[c].shared)}" for c in own),
                     *(join_of(tree, c, "n") for c in tree.nodes[i].children)])
    none = tree.dialect.number(-1.0)
    codes = [f"COALESCE({_double(tree, f'n{c}.code')}, {none})" for c in edges]
    side = [] if own else [_double(tree, "t.side")]
    features = [_double(tree, f"t.x{j}") for j in range(len(tree.nodes[i].features))]
    chosen = [f"{value} AS v{j}" for j, value in enumerate([*codes, _double(tree, weight), *side, *features])]
    order = " ORDER BY 1" if own else ""
    return f"WITH {', '.join(parts)} SELECT {', '.join(chosen)} FROM {our}x{i} t {text}{order}"


def _double(tree: SqlTree, value: str) -> str:
    return f"CAST({value} AS {tree.dialect.double})"


def _numbers(tree: SqlTree, c: int) -> str:
    """Return the SELECT of a node's distinct keys and their numbers from 0."""
    keys = ", ".join(f"k{a}" for a in tree.nodes[c].shared)
    found = f"SELECT DISTINCT {keys} FROM {tree.prefix}r{c}"
    return f"SELECT {keys}, ROW_NUMBER() OVER (ORDER BY {keys}) - 1 AS code FROM ({found}) q"


def sample_rows(tree: SqlTree, n: int, total: float, repeats: int) -> str:
    """Return the SELECT of about n rows drawn by weight: label side, how often, features as ``tree.columns`` has them.

    ``total`` is the weight of all rows of the join. A row of the root is offered ``repeats`` times, each time accepted
    floor(expected number + a random number) times, so that the numbers are right on average; each child's row is found
    by a random point of its key's total weight (Zhao, Christensen, Li, Hu & Yi, SIGMOD 2018, with running sums as
    windows).
    """
    our = tree.prefix
    parts = [part for i in reversed(tree.order)
             for part in (*rows_of(tree, i, feature_columns(tree, i)), *_weighed(tree, i))]
    parts += _drawn(tree, n, total, repeats)
    names = [f"s.x{i}_{j}" for i in tree.below(tree.root) for j in range(len(tree.nodes[i].features))]
    return f"WITH {', '.join(parts)} SELECT {', '.join(['s.side', 's.copies', *names])} FROM {our}s{tree.order[-1]} s"


def _weighed(tree: SqlTree, i: int) -> list[str]:
    """Return w<i>, a node's rows with the weight c of their part of the join, and per key totals and running sums."""
    text, read = joins(tree, i, "d")
    weight, more = own_weight(tree, i)
    mass = " * ".join([weight, *(column.format("c", 1) for column in read.values())])
    our = tree.prefix
    parts = [f"{our}w{i} AS (SELECT t.*, {mass} AS c FROM {our}t{i} t {text} {more})"]
    if i != tree.root:
        by = ", ".join(keys_of(tree, i))
        parts += [f"{our}d{i} AS (SELECT {by}, SUM(t.c) AS c FROM {our}w{i} t GROUP BY {by})",
                  f"{our}h{i} AS (SELECT t.*, SUM(t.c) OVER (PARTITION BY {by} ORDER BY t.c ROWS UNBOUNDED PRECEDING) "
                  f"AS e FROM {our}w{i} t)"]
    return parts


def _drawn(tree: SqlTree, n: int, total: float, repeats: int) -> list[str]:
    """Return s<i> for every node in tree order: the rows drawn, with the columns of the nodes so far."""
    dialect = tree.dialect
    root = tree.root
    our = tree.prefix
    share = dialect.number(n / total / repeats)
    digits = int(np.ceil(np.log10(repeats))) if repeats > 1 else 0
    offers = " CROSS JOIN ".join([f"{our}w{root} t", *(f"{our}digit d{p}" for p in range(digits))])
    number = " + ".join(["0", *(f"{10**p} * d{p}.d" for p in range(digits))])
    listed = ", ".join(f"({d})" for d in range(10))  # not by UNION ALL, whose plan Spark fails to send to its workers
    parts = [f"{our}digit AS (SELECT v.d FROM (VALUES {listed}) AS v(d))"] if digits else []
    parts.append(f"{our}offered AS (SELECT t.*, FLOOR({share} * t.c + {dialect.random}) AS copies FROM {offers} "
                 f"WHERE {number} < {repeats})")
    parts.append(f"{our}s{root} AS (SELECT {', '.join(['t.side', 't.copies', *_named(tree, root, 't')])} "
                 f"FROM {our}offered t WHERE t.copies > 0)")
    before = root
    for i in tree.order[1:]:
        shared = tree.nodes[i].shared
        match = " AND ".join(f"s.k{tree.nodes[i].parent}_{a} = {{0}}.k{a}" for a in shared)
        how = "LEFT JOIN" if tree.nodes[i].optional else "JOIN"
        parts.append(f"{our}p{i} AS (SELECT s.*, {dialect.random} * d.c AS at{i} FROM {our}s{before} s {how} {our}d{i} "
                     f"d ON {match.format('d')})")
        parts.append(f"{our}s{i} AS (SELECT {', '.join(['s.*', *_named(tree, i, 'h')])} FROM {our}p{i} s {how} "
                     f"{our}h{i} h ON {match.format('h')} AND s.at{i} < h.e AND s.at{i} >= h.e - h.c)")
        before = i
    return parts


def _named(tree: SqlTree, i: int, alias: str) -> list[str]:
    """Return the features and keys of node i under names that tell them from those of other nodes."""
    node = tree.nodes[i]
    features = [f"{alias}.x{j} AS x{i}_{j}" for j in range(len(node.features))]
    return features + [f"{alias}.k{a} AS k{i}_{a}" for a in sorted(node.keys)]


def scoring(join: Join, coefficients: Mapping[str, float], intercept: float, alone: float,
            features: Sequence[tuple[str, str, Sequence[str] | None]], fills: Mapping[str, float],
            columns: Sequence[str]) -> str:
    """Return the SELECT of the given columns of the label's table and the score of each of its rows.

    A score is the weighted mean over the join rows that extend the row, or ``alone`` where there are none.
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
    scores = [score(tree, i, np.array(part)) for i, part in enumerate(beta)]
    return _mean_scores(tree, scores, intercept, alone, columns)


def _mean_scores(tree: SqlTree, scores: Sequence[str], intercept: float, alone: float,
                 columns: Sequence[str]) -> str:
    """Return the SELECT: going up the tree, each key's weight and mean score; at the root, each row's.

    ``scores`` are the nodes' own shares of a score.
    """
    our = tree.prefix
    root = tree.root
    quote = tree.dialect.quote
    constant, otherwise = map(tree.dialect.number, (intercept, alone))
    parts = []
    for i in reversed(tree.order[1:]):
        parts += rows_of(tree, i, [*weight_columns(tree, i), f"{scores[i]} AS s"])
        parts.append(mean_message(tree, i, [_score(tree, i)]))
    node = tree.nodes[root]
    chosen = [*weight_columns(tree, root), f"{scores[root]} AS s",
              *(f"{quote(name)} AS o{j}" for j, name in enumerate(columns)),
              *(f"{names[0]} AS k{a}" for a, names in sorted(node.keys.items()))]
    parts.append(f"{our}t{root} AS (SELECT {', '.join(chosen)} FROM {node.item} b)")  # of a NULL key too
    text, _ = joins(tree, root, "m")
    matched = " AND ".join(f"m{c}.c IS NOT NULL" for c in tree.nodes[root].children
                           if not tree.nodes[c].optional) or "1 = 1"
    outer = text.replace("LEFT JOIN", "JOIN").replace("JOIN", "LEFT JOIN")
    listed = [f"t.o{j} AS {quote(name)}" for j, name in enumerate(columns)]
    value = f"CASE WHEN {matched} THEN {constant} + {_score(tree, root)} ELSE {otherwise} END AS score"
    return f"WITH {', '.join(parts)} SELECT {', '.join([*listed, value])} FROM {our}t{root} t {outer}"


def _score(tree: SqlTree, i: int) -> str:
    """Return the expression of a row's own share of the score and its children's mean scores."""
    _, read = joins(tree, i, "m")
    return " + ".join(["t.s", *(column.format("g0", 0) for column in read.values())])
