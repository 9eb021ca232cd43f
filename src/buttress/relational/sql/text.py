"""The plan as SQL text: one SELECT with common table expressions a pass, the same for DuckDB, PostgreSQL and Spark.

A message of node i holds, per key and bin of the score, the weight of the rows of its subtree and the weighted sums
of the subtree's features: one pass up the tree gives histogram and gradient at once, and nothing is written.
Functions here return text; identifiers are always quoted by the dialect.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from buttress._checks import Array
from buttress.relational.plan.plan import EncodedFeature
from buttress.relational.sources.columns import Column
from buttress.relational.sources.dialects import Dialect


@dataclass
class SqlNode:
    """A node of the join tree: a FROM item, its key columns per attribute (several must be equal), and what it adds.

    ``features`` are SQL expressions of scaled features, ``columns`` their coefficients; ``weights`` are multiplied;
    ``optional`` marks the right side of a left join; ``nullable`` are the attributes whose key may be NULL because a
    left join keeps the row.
    """

    item: str
    keys: dict[int, list[str]]
    parent: int
    children: list[int]
    shared: list[int]
    optional: bool
    nullable: set[int]
    weights: list[str] = field(default_factory=list)
    label: str | None = None
    features: list[str] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)


@dataclass
class SqlTree:
    """Nodes in the order of the declaration, their order with parents first, and how they are counted.

    ``per_label_row`` divides the weight of a row of the root by the number of join rows that extend it.
    """

    nodes: list[SqlNode]
    order: list[int]
    dialect: Dialect
    per_label_row: bool = False

    @property
    def root(self) -> int:
        return self.order[0]

    @property
    def prefix(self) -> str:
        """What the names of our common table expressions begin with, and no table's of the join."""
        return own_prefix([node.item for node in self.nodes])

    def below(self, i: int) -> list[int]:
        """Return a node and all below it, in the order in which a message holds the sums of their features."""
        return [i, *(node for c in self.nodes[i].children for node in self.below(c))]

    def columns(self, i: int) -> list[int]:
        """Return the coefficient of each weighted sum of a message, in its order."""
        return [column for node in self.below(i) for column in self.nodes[node].columns]


def own_prefix(items: Iterable[str]) -> str:
    """Return the shortest of buttress_, buttress__, ... that occurs in no FROM item, whatever its case."""
    taken = " ".join(items).casefold()
    prefix = "buttress_"
    while prefix in taken:
        prefix += "_"
    return prefix


def as_number(quoted: str, column: Column, dialect: Dialect, nan_is_null: bool) -> str:
    """Return the expression of a column of numbers or truth values as a 64-bit float; ``column`` is some of it."""
    if column.null.all():  # nothing is known of its type
        return f"(CASE WHEN {quoted} IS NULL THEN NULL ELSE {dialect.number(0.0)} END)"
    if column.values.dtype.kind == "b":
        return f"(CASE WHEN {quoted} THEN {dialect.number(1.0)} WHEN NOT {quoted} THEN {dialect.number(0.0)} END)"
    number = f"CAST({quoted} AS {dialect.double})"
    return f"NULLIF({number}, {dialect.number(np.nan)})" if nan_is_null else number


def feature_expressions(feature: EncodedFeature, quoted: str, read: str, dialect: Dialect) -> list[str]:
    """Return the expressions of a feature's columns; ``read`` gives its numbers, NULL where they are missing."""
    one = dialect.number(1.0)
    zero = dialect.number(0.0)
    if feature.categories is None:
        filled = read if feature.fill is None else f"COALESCE({read}, {dialect.number(feature.fill)})"
        found = [f"({filled} / {dialect.number(feature.scale)})"]
    else:
        found = [f"(CASE WHEN {quoted} = {dialect.text(value)} THEN {one} ELSE {zero} END)"
                 for value in feature.categories]
    return [*found, f"(CASE WHEN {read} IS NULL THEN {one} ELSE {zero} END)"] if feature.indicator else found


def base(tree: SqlTree, i: int, columns: str) -> str:
    """Return the SELECT of a node's rows whose keys are not NULL (and agree, where two columns are one key)."""
    node = tree.nodes[i]
    keys = "".join(f", {names[0]} AS k{a}" for a, names in sorted(node.keys.items()))
    tests = []
    for a, names in sorted(node.keys.items()):
        if a not in node.nullable:
            tests.append(f"{names[0]} IS NOT NULL")
        tests += [f"{names[0]} = {name}" for name in names[1:]]
    return f"SELECT {columns}{keys} FROM {node.item} b{_where(tests)}"


def _where(tests: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def same(left: str, right: str, attributes: Sequence[int]) -> str:
    """Return the condition that two aliases have equal keys."""
    return " AND ".join(f"{left}.k{a} = {right}.k{a}" for a in attributes)


def reduced(tree: SqlTree, read: int = -1, columns: str = "") -> list[str]:
    """Return the expressions u<i> (after semi-joins up the tree) and r<i> (up and down) for every node.

    Beside its keys node ``read`` has ``columns``.
    """
    parts = []
    nodes = tree.nodes
    our = tree.prefix
    for i in reversed(tree.order):
        kept = [f"EXISTS (SELECT 1 FROM {our}u{c} c WHERE {same('c', 't', nodes[c].shared)})"
                for c in nodes[i].children if not nodes[c].optional]
        parts.append(f"{our}t{i} AS ({base(tree, i, columns if i == read else '1 AS one')})")
        parts.append(f"{our}u{i} AS (SELECT t.* FROM {our}t{i} t{_where(kept)})")
    for i in tree.order:
        p = nodes[i].parent
        above = [] if p < 0 else [f"EXISTS (SELECT 1 FROM {our}r{p} p WHERE {same('p', 't', nodes[i].shared)})"]
        parts.append(f"{our}r{i} AS (SELECT t.* FROM {our}u{i} t{_where(above)})")
    return parts


def prepared(tree: SqlTree) -> list[str]:
    """Return per node the SELECT of its rows that take part in the join: weight, label side, features x<j>, keys."""
    return [f"WITH {', '.join(reduced(tree, i, ', '.join(feature_columns(tree, i))))} SELECT * FROM {tree.prefix}r{i}"
            for i in range(len(tree.nodes))]


def statistics(tree: SqlTree, i: int, expressions: Sequence[str], more: Sequence[str] = ()) -> str:
    """Return the SELECT of, per expression over the reduced rows of node i: greatest magnitude, NULLs and NaNs.

    ``more`` are further aggregates, of a value {}.
    """
    columns = ", ".join(["1 AS one", *(f"{e} AS x{j}" for j, e in enumerate(expressions))])
    wanted = ["COUNT(*)"]
    nan = tree.dialect.number(np.nan)
    for j in range(len(expressions)):
        wanted += [f"MAX(ABS(x{j}))", f"SUM(CASE WHEN x{j} IS NULL OR x{j} = {nan} THEN 1 ELSE 0 END)"]
        wanted += [aggregate.format(f"x{j}") for aggregate in more]
    return f"WITH {', '.join(reduced(tree, i, columns))} SELECT {', '.join(wanted)} FROM {tree.prefix}r{i}"


def distinct(tree: SqlTree, i: int, column: str, chosen: str = "DISTINCT x") -> str:
    """Return the SELECT of the distinct values x of a column over the reduced rows of node i, or what is ``chosen``."""
    return f"WITH {', '.join(reduced(tree, i, f'{column} AS x'))} SELECT {chosen} FROM {tree.prefix}r{i}"


def score(tree: SqlTree, i: int, beta: Array) -> str:
    """Return the expression of a node's share of the score."""
    number = tree.dialect.number
    terms = [f"{number(b)} * {name}" for name, b in zip(tree.nodes[i].features, beta.tolist())]
    return " + ".join(terms) or number(0.0)


def ranges(tree: SqlTree, betas: Sequence[Array]) -> str:
    """Return one SELECT of (node, least share of the score, largest) of every node with features."""
    shares = {i: base(tree, i, f"{score(tree, i, beta)} AS s")
              for i, beta in enumerate(betas) if tree.nodes[i].features}
    return " UNION ALL ".join(f"SELECT {i}, MIN(s), MAX(s) FROM ({share}) q{i}" for i, share in shares.items())


def counting_pass(tree: SqlTree, betas: Sequence[Array], step: float) -> str:
    """Return the SELECT of (label side, bin, weight, weighted feature sums) of the join's rows.

    The sums are in the order of ``tree.columns``.
    """
    parts = []
    number = tree.dialect.number
    for i in reversed(tree.order):
        share = f"CAST(FLOOR(({score(tree, i, betas[i])}) / {number(step)} + {number(0.5)}) AS BIGINT) AS bin"
        parts += rows_of(tree, i, [*feature_columns(tree, i), share])
        parts.append(f"{tree.prefix}m{i} AS ({_message(tree, i)})")
    return f"WITH {', '.join(parts)} SELECT * FROM {tree.prefix}m{tree.root}"


def rows_of(tree: SqlTree, i: int, columns: Sequence[str]) -> list[str]:
    """Return the expressions t<i>, a node's rows, and f<i>, the number of rows of its subtree per key, where needed."""
    parts = [f"{tree.prefix}t{i} AS ({base(tree, i, ', '.join(columns))})"]
    if tree.per_label_row and i != tree.root:
        parts.append(f"{tree.prefix}f{i} AS ({fan_out(tree, i)})")
    return parts


def weight_columns(tree: SqlTree, i: int) -> list[str]:
    """Return the columns w (a row's own weight) and, in the root, side (1 for the second class)."""
    node = tree.nodes[i]
    dialect = tree.dialect
    weight = " * ".join(f"CAST({w} AS {dialect.double})" for w in node.weights) or dialect.number(1.0)
    return [f"{weight} AS w", *([f"{node.label} AS side"] if node.parent < 0 else [])]


def feature_columns(tree: SqlTree, i: int) -> list[str]:
    """Return the columns of ``weight_columns`` and the node's features x<j>."""
    return [*weight_columns(tree, i), *(f"{name} AS x{j}" for j, name in enumerate(tree.nodes[i].features))]


def joins(tree: SqlTree, i: int, kind: str) -> tuple[str, dict[int, str]]:
    """Return the JOINs of the children's expressions of a kind ("m", "f") and, per child, how a column of it reads."""
    children = tree.nodes[i].children
    read = {c: f"COALESCE({kind}{c}.{{}}, {{}})" if tree.nodes[c].optional else f"{kind}{c}.{{}}" for c in children}
    return " ".join(join_of(tree, c, kind) for c in children), read


def join_of(tree: SqlTree, c: int, kind: str) -> str:
    """Return the JOIN of a child's expression of a kind to its parent's rows t."""
    how = "LEFT JOIN" if tree.nodes[c].optional else "JOIN"
    return f"{how} {tree.prefix}{kind}{c} {kind}{c} ON {same('t', f'{kind}{c}', tree.nodes[c].shared)}"


def keys_of(tree: SqlTree, i: int) -> list[str]:
    """Return the columns that a node's rows are grouped by: its keys, or the label's side in the root."""
    shared = tree.nodes[i].shared
    return [f"t.k{a}" for a in shared] if tree.nodes[i].parent >= 0 else ["t.side"]


def fan_out(tree: SqlTree, i: int) -> str:
    """Return the SELECT of the number n of rows of the subtree per key."""
    text, read = joins(tree, i, "f")
    many = " * ".join([tree.dialect.number(1.0), *(column.format("n", 1) for column in read.values())])
    by = keys_of(tree, i)
    return f"SELECT {', '.join(by)}, SUM({many}) AS n FROM {tree.prefix}t{i} t {text} GROUP BY {', '.join(by)}"


def own_weight(tree: SqlTree, i: int) -> tuple[str, str]:
    """Return a row's own weight, divided by its number of join rows where that is asked, and the JOINs it needs."""
    if not tree.per_label_row or i != tree.root or not tree.nodes[i].children:
        return "t.w", ""
    text, read = joins(tree, i, "f")
    return f"(t.w / ({' * '.join(column.format('n', 1) for column in read.values())}))", text


def _message(tree: SqlTree, i: int) -> str:
    """Return the SELECT of a message: group rows times children's messages by key (label side at the root) and bin.

    One child after the other is joined and its key summed out, so that rows meet the last one in groups of equal bins:
    without that a row with several children meets every combination of their entries.
    """
    children = tree.nodes[i].children
    if not children:
        return _step(tree, i, None, keys_of(tree, i))
    source = ""
    for place, child in enumerate(children):
        left = sorted({a for c in children[place + 1:] for a in tree.nodes[c].shared})
        by = list(dict.fromkeys([*keys_of(tree, i), *(f"t.k{a}" for a in left)]))
        source = _step(tree, i, child, by, source)
    return source


def _step(tree: SqlTree, i: int, child: int | None, by: Sequence[str], source: str = "") -> str:
    """Return the SELECT of a node's rows, or of the ``source`` of them and some children, times a child's message.

    Its columns are those of ``by``, the bin, the weight c and the weighted sums so far of the features, each named
    after its place in the owners of the node.
    """
    started = bool(source)
    _, read = joins(tree, i, "m")
    weight, more = ("t.c", "") if started else own_weight(tree, i)
    text = "" if child is None else join_of(tree, child, "m")
    mass = "" if child is None else " * " + read[child].format("c", 1)
    at = "t.bin" if child is None else f"t.bin + {read[child].format('bin', 0)}"
    chosen = [*(f"{key} AS {key[2:]}" for key in by), f"{at} AS bin", f"SUM({weight}{mass}) AS c",
              *_sums(tree, i, child, started, weight, mass)]
    item = f"({source})" if started else f"{tree.prefix}t{i}"
    return f"SELECT {', '.join(chosen)} FROM {item} t {text} {more} GROUP BY {', '.join([*by, at])}"


def _sums(tree: SqlTree, i: int, child: int | None, started: bool, weight: str, mass: str) -> list[str]:
    """Return the weighted sums of the features of a node, of the children joined before, and of this child."""
    n_own = len(tree.nodes[i].features)
    sums = [f"SUM({f't.g{j}' if started else f'{weight} * t.x{j}'}{mass}) AS g{j}" for j in range(n_own)]
    place = n_own
    for c in tree.nodes[i].children:
        wide = len(tree.columns(c))
        if c == child:
            _, read = joins(tree, i, "m")
            return sums + [f"SUM({weight} * {read[c].format(f'g{j}', 0)}) AS g{place + j}" for j in range(wide)]
        if child is not None:
            sums += [f"SUM(t.g{place + j}{mass}) AS g{place + j}" for j in range(wide)]
        place += wide
    return sums
