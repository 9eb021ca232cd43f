"""Random rows of a join as one SELECT: in proportion to their weight, without materialising it.

Source: Zhao, Christensen, Li, Hu & Yi, SIGMOD 2018 (exact weights), with running sums as windows. A row of the root is
offered ``repeats`` times, each time accepted floor(expected number + a random number) times, so that the numbers are
right on average; each child's row is found by a random point of its key's total weight.
"""

import numpy as np

from buttress.relational.sql.text import SqlTree, feature_columns, joins, keys_of, own_weight, rows_of


def sample_rows(tree: SqlTree, n: int, total: float, repeats: int) -> str:
    """Return the SELECT of about n rows (label side, how often, features in the order of ``tree.columns``).

    ``total`` is the weight of all rows of the join.
    """
    parts = []
    our = tree.prefix
    for i in reversed(tree.order):
        parts += [*rows_of(tree, i, feature_columns(tree, i)), *_weighed(tree, i)]
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
    keep = ["side", "copies"]
    parts.append(f"{our}s{root} AS ({_columns(tree, root, 't', keep)} FROM {our}offered t WHERE t.copies > 0)")
    before = root
    for i in tree.order[1:]:
        shared = tree.nodes[i].shared
        match = " AND ".join(f"s.k{tree.nodes[i].parent}_{a} = {{0}}.k{a}" for a in shared)
        how = "LEFT JOIN" if tree.nodes[i].optional else "JOIN"
        parts.append(f"{our}p{i} AS (SELECT s.*, {dialect.random} * d.c AS at FROM {our}s{before} s {how} {our}d{i} d "
                     f"ON {match.format('d')})")
        carried = [*keep, *_carried(tree, i)]
        parts.append(f"{our}s{i} AS ({_columns(tree, i, 'h', carried)} FROM {our}p{i} s {how} {our}h{i} h "
                     f"ON {match.format('h')} AND s.at < h.e AND s.at >= h.e - h.c)")
        before = i
    return parts


def _carried(tree: SqlTree, i: int) -> list[str]:
    """Return the columns of the nodes that come before node i in the tree's order."""
    earlier = tree.order[: tree.order.index(i)]
    return [name for j in earlier for name in _own(tree, j)]


def _own(tree: SqlTree, i: int) -> list[str]:
    node = tree.nodes[i]
    return [f"x{i}_{j}" for j in range(len(node.features))] + [f"k{i}_{a}" for a in sorted(node.keys)]


def _columns(tree: SqlTree, i: int, alias: str, carried: list[str]) -> str:
    """Return SELECT with the columns carried along and those of node i under their own names."""
    node = tree.nodes[i]
    start = "t" if alias == "t" else "s"
    fresh = [f"{alias}.x{j} AS x{i}_{j}" for j in range(len(node.features))]
    fresh += [f"{alias}.k{a} AS k{i}_{a}" for a in sorted(node.keys)]
    return f"SELECT {', '.join([*(f'{start}.{name}' for name in carried), *fresh])}"
