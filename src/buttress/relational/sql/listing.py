"""All rows of a small join by one SELECT, and the mean features of the join rows of each label row by another."""

from buttress.relational.sql.text import SqlTree, base, fan_out, joins, keys_of, own_weight, same, weight_columns


def every_row(tree: SqlTree) -> str:
    """Return the SELECT of the join's rows: label side, weight, features in the order of the nodes."""
    parts = []
    our = tree.prefix
    for i in reversed(tree.order):
        columns = [*weight_columns(tree, i), *(f"{name} AS x{j}" for j, name in enumerate(tree.nodes[i].features))]
        parts.append(f"{our}t{i} AS ({base(tree, i, ', '.join(columns))})")
        if tree.per_label_row and i != tree.root:
            parts.append(f"{our}f{i} AS ({fan_out(tree, i)})")
    weight, more = own_weight(tree, tree.root)
    parts.append(f"{our}w AS (SELECT t.*, {weight} AS mass FROM {our}t{tree.root} t {more})")
    alias = {i: "w" if i == tree.root else f"t{i}" for i in tree.order}
    joined = [f"{our}w w"]
    for i in tree.order[1:]:
        node = tree.nodes[i]
        how = "LEFT JOIN" if node.optional else "JOIN"
        joined.append(f"{how} {our}t{i} t{i} ON {same(alias[node.parent], alias[i], node.shared)}")
    one = tree.dialect.number(1.0)
    mass = " * ".join(["w.mass", *(f"COALESCE(t{i}.w, {one})" for i in tree.order[1:])])
    names = [f"{alias[i]}.x{j}" for i, node in enumerate(tree.nodes) for j in range(len(node.features))]
    return f"WITH {', '.join(parts)} SELECT {', '.join(['w.side', mass, *names])} FROM {' '.join(joined)}"


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
