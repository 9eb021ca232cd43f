"""The rows of a node as numbers alone: its keys by their place among the distinct ones, ready to be streamed."""

from collections.abc import Sequence

from buttress.relational.sql.text import SqlTree, base, fan_out, feature_columns, own_weight, reduced, same


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
    edges = [*([i] if i != tree.root else []), *tree.nodes[i].children]
    parts += [f"{our}n{c} AS ({_numbers(tree, c)})" for c in edges]
    weight, more = own_weight(tree, i)
    text = " ".join([more, *(_join(tree, i, c) for c in edges)])
    return f"WITH {', '.join(parts)} SELECT {', '.join(_chosen(tree, i, edges, weight))} FROM {our}x{i} t {text}" \
           + (" ORDER BY 1" if i != tree.root else "")


def _chosen(tree: SqlTree, i: int, edges: Sequence[int], weight: str) -> list[str]:
    none = tree.dialect.number(-1.0)
    codes = [f"COALESCE({_double(tree, f'n{c}.code')}, {none})" for c in edges]
    side = [_double(tree, "t.side")] if i == tree.root else []
    features = [_double(tree, f"t.x{j}") for j in range(len(tree.nodes[i].features))]
    return [f"{value} AS v{j}" for j, value in enumerate([*codes, _double(tree, weight), *side, *features])]


def _double(tree: SqlTree, value: str) -> str:
    return f"CAST({value} AS {tree.dialect.double})"


def _numbers(tree: SqlTree, c: int) -> str:
    """Return the SELECT of a node's distinct keys and their numbers from 0."""
    keys = ", ".join(f"k{a}" for a in tree.nodes[c].shared)
    found = f"SELECT DISTINCT {keys} FROM {tree.prefix}r{c}"
    return f"SELECT {keys}, ROW_NUMBER() OVER (ORDER BY {keys}) - 1 AS code FROM ({found}) q"


def _join(tree: SqlTree, i: int, c: int) -> str:
    """Return the JOIN of the numbers of the keys of node c, which is the node itself or a child."""
    how = "LEFT JOIN" if c != i and tree.nodes[c].optional else "JOIN"
    return f"{how} {tree.prefix}n{c} n{c} ON {same('t', f'n{c}', tree.nodes[c].shared)}"
