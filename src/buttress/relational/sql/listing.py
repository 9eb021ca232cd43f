"""SELECTs over the rows of a join one by one: all of a small one, sums over those of a larger, means of label rows."""

from collections.abc import Mapping, Sequence

from buttress._checks import Array
from buttress.relational.sql.text import (
    SqlTree,
    bin_of,
    feature_columns,
    joins,
    keys_of,
    own_weight,
    rows_of,
    same,
    score,
)

# Rows of the join for each row of its tables up to which sums over them one by one take less time than going up the
# tree: see docs/relational/counting.md
PLAIN_ROWS = 10
FINER = 16  # times as many steps of the grid there, which cost nothing


def every_row(tree: SqlTree) -> str:
    """Return the SELECT of the join's rows: label side, weight, features in the order of ``tree.columns``."""
    parts, joined, mass = _joined(tree, {})
    names = [f"{_alias(tree, i)}.x{j}" for i in tree.below(tree.root) for j in range(len(tree.nodes[i].features))]
    return f"WITH {', '.join(parts)} SELECT {', '.join(['w.side', mass, *names])} FROM {joined}"


def rows_by_bin(tree: SqlTree, betas: Sequence[Array], step: float) -> str:
    """Return what ``counting_pass`` does, by a sum over the rows of the join; the score of each is rounded once."""
    number = tree.dialect.number
    parts, joined, mass = _joined(tree, {i: [f"{score(tree, i, beta)} AS s"] for i, beta in enumerate(betas)})
    shares = [f"COALESCE({_alias(tree, i)}.s, {number(0.0)})" for i in tree.order]
    names = [f"{_alias(tree, i)}.x{j}" for i in tree.below(tree.root) for j in range(len(tree.nodes[i].features))]
    listed = ", ".join(["w.side AS side", f"{mass} AS c", f"{bin_of(' + '.join(shares), step, tree.dialect)} AS bin",
                        *(f"{name} AS x{j}" for j, name in enumerate(names))])
    sums = [f"COALESCE(SUM(t.c * t.x{j}), {number(0.0)}) AS g{j}" for j in range(len(names))]
    return (f"WITH {', '.join(parts)} SELECT {', '.join(['t.side', 't.bin', 'SUM(t.c) AS c', *sums])} "
            f"FROM (SELECT {listed} FROM {joined}) t GROUP BY t.side, t.bin")


def _alias(tree: SqlTree, i: int) -> str:
    return "w" if i == tree.root else f"t{i}"


def _joined(tree: SqlTree, more: Mapping[int, Sequence[str]]) -> tuple[list[str], str, str]:
    """Return the expressions of the nodes' rows (with ``more`` columns of each), their join, and a row's weight."""
    our = tree.prefix
    parts = [part for i in reversed(tree.order)
             for part in rows_of(tree, i, [*feature_columns(tree, i), *more.get(i, ())])]
    weight, fans = own_weight(tree, tree.root)
    parts.append(f"{our}w AS (SELECT t.*, {weight} AS mass FROM {our}t{tree.root} t {fans})")
    joined = [f"{our}w w"]
    for i in tree.order[1:]:
        node = tree.nodes[i]
        how = "LEFT JOIN" if node.optional else "JOIN"
        joined.append(f"{how} {our}t{i} t{i} ON {same(_alias(tree, node.parent), _alias(tree, i), node.shared)}")
    one = tree.dialect.number(1.0)
    return parts, " ".join(joined), " * ".join(["w.mass", *(f"COALESCE(t{i}.w, {one})" for i in tree.order[1:])])


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
