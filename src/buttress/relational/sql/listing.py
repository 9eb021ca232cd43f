"""SELECTs over the rows of a join one by one: all of a small one, sums over those of a larger, means of label rows."""

from collections.abc import Sequence

from buttress._checks import Array
from buttress.relational.sql.meeting import Window, of_side
from buttress.relational.sql.text import (
    SqlTree,
    base,
    fan_out,
    joins,
    keys_of,
    own_weight,
    same,
    score,
    weight_columns,
)

# Rows of the join for each row of its tables up to which sums over them one by one take less time than going up the
# tree. For a hinge, of chains and stars of three tables: with 1, 2 and 5 rows a key (1, 2 and 8 rows of the join a row)
# half as long or less on DuckDB, on PostgreSQL a third as long, two fifths and as long; with 10 (33 rows) four fifths
# on DuckDB, twice as long on PostgreSQL. See docs/relational/counting.md
PLAIN_ROWS = 10
FINER = 16  # times as many steps of the grid there, which cost nothing


def every_row(tree: SqlTree) -> str:
    """Return the SELECT of the join's rows: label side, weight, features in the order of the nodes."""
    parts, joined, mass = _joined(tree, [])
    names = [f"{_alias(tree, i)}.x{j}" for i, node in enumerate(tree.nodes) for j in range(len(node.features))]
    return f"WITH {', '.join(parts)} SELECT {', '.join(['w.side', mass, *names])} FROM {joined}"


def rows_by_bin(tree: SqlTree, betas: Sequence[Array], offset: float, step: float, window: Window | None) -> str:
    """Return the SELECT of (label side, bin, weight, weighted feature sums in tree order) over the rows of the join.

    A bin is that of a row's score, which is rounded once. With a ``window`` its bins are those of ``meeting_pass``.
    """
    number = tree.dialect.number
    parts, joined, mass = _joined(tree, [score(node.features, beta, tree.dialect)
                                         for node, beta in zip(tree.nodes, betas)])
    shares = [f"COALESCE({_alias(tree, i)}.s, {number(0.0)})" for i in tree.order]
    at = f"CAST(FLOOR(({' + '.join([number(offset), *shares])}) / {number(step)} + {number(0.5)}) AS BIGINT)"
    names = [f"{_alias(tree, i)}.x{j}" for i in _preorder(tree, tree.root) for j in range(len(tree.nodes[i].features))]
    listed = ", ".join(["w.side AS side", f"{mass} AS c", f"{at} AS bin",
                        *(f"{name} AS x{j}" for j, name in enumerate(names))])
    bin_ = "t.bin" if window is None else f"GREATEST(t.bin, {of_side(window.low)} - 1)"
    near = "" if window is None else f" WHERE t.bin <= {of_side(window.high)}"
    sums = [f"COALESCE(SUM(t.c * t.x{j}), {number(0.0)}) AS g{j}" for j in range(len(names))]
    return (f"WITH {', '.join(parts)} SELECT {', '.join(['t.side', f'{bin_} AS bin', 'SUM(t.c) AS c', *sums])} "
            f"FROM (SELECT {listed} FROM {joined}) t{near} GROUP BY t.side, {bin_}")


def _preorder(tree: SqlTree, i: int) -> list[int]:
    """Return a node and those below it, as ``tree.owners`` lists them."""
    return [i, *(below for c in tree.nodes[i].children for below in _preorder(tree, c))]


def _alias(tree: SqlTree, i: int) -> str:
    return "w" if i == tree.root else f"t{i}"


def _joined(tree: SqlTree, shares: Sequence[str]) -> tuple[list[str], str, str]:
    """Return the expressions of the nodes' rows (with their ``shares`` s of the score), their join, a row's weight."""
    parts = []
    our = tree.prefix
    for i in reversed(tree.order):
        columns = [*weight_columns(tree, i), *(f"{name} AS x{j}" for j, name in enumerate(tree.nodes[i].features)),
                   *(f"{share} AS s" for share in shares[i : i + 1])]
        parts.append(f"{our}t{i} AS ({base(tree, i, ', '.join(columns))})")
        if tree.per_label_row and i != tree.root:
            parts.append(f"{our}f{i} AS ({fan_out(tree, i)})")
    weight, more = own_weight(tree, tree.root)
    parts.append(f"{our}w AS (SELECT t.*, {weight} AS mass FROM {our}t{tree.root} t {more})")
    joined = [f"{our}w w"]
    for i in tree.order[1:]:
        node = tree.nodes[i]
        how = "LEFT JOIN" if node.optional else "JOIN"
        joined.append(f"{how} {our}t{i} t{i} ON {same(_alias(tree, node.parent), _alias(tree, i), node.shared)}")
    one = tree.dialect.number(1.0)
    return parts, " ".join(joined), " * ".join(["w.mass", *(f"COALESCE(t{i}.w, {one})" for i in tree.order[1:])])


def label_means(tree: SqlTree) -> str:
    """Return the SELECT of the label table's rows: side, weight of their join rows, and the mean features of these.

    The features are in the order of ``tree.owners``. Going up the tree, each key keeps its weight and its means.
    """
    parts = []
    our = tree.prefix
    for i in reversed(tree.order):
        own = [f"{name} AS x{j}" for j, name in enumerate(tree.nodes[i].features)]
        parts.append(f"{our}t{i} AS ({base(tree, i, ', '.join([*weight_columns(tree, i), *own]))})")
        if i == tree.root:
            continue
        if tree.per_label_row:
            parts.append(f"{our}f{i} AS ({fan_out(tree, i)})")
        text, read = joins(tree, i, "m")
        mass = " * ".join(["t.w", *(column.format("c", 1) for column in read.values())])
        means = [f"COALESCE(SUM({mass} * {value}) / NULLIF(SUM({mass}), 0), 0) AS g{j}"
                 for j, value in enumerate(_values(tree, i, read))]
        by = ", ".join(keys_of(tree, i))
        chosen = ", ".join([by, f"SUM({mass}) AS c", *means])
        parts.append(f"{our}m{i} AS (SELECT {chosen} FROM {our}t{i} t {text} GROUP BY {by})")
    text, read = joins(tree, tree.root, "m")
    weight, more = own_weight(tree, tree.root)
    mass = " * ".join([weight, *(column.format("c", 1) for column in read.values())])
    return (f"WITH {', '.join(parts)} SELECT {', '.join(['t.side', mass, *_values(tree, tree.root, read)])} "
            f"FROM {our}t{tree.root} t {text} {more}")


def _values(tree: SqlTree, i: int, read: dict[int, str]) -> list[str]:
    """Return a node's own features and the means of its children's, in the order of ``tree.owners``."""
    own = [f"t.x{j}" for j in range(len(tree.nodes[i].features))]
    return own + [column.format(f"g{j}", 0) for c, column in read.items() for j in range(len(tree.owners(c)))]
