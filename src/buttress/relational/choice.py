"""Where a join is counted: in this process, on rows in memory or streamed from files, or in the database as SQL.

How much memory that takes is known before a fit, and what it will cost is told in words and numbers.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from buttress._checks import check_number
from buttress.relational.checks import used_columns
from buttress.relational.counting.grid import grid_oracle, listed_oracle
from buttress.relational.counting.lists import ENTRY_MEGABYTES
from buttress.relational.counting.margins import FIRST_BINS, MarginOracle
from buttress.relational.counting.queries import label_means
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.counting.schedule import is_exact, schedule
from buttress.relational.declare import Join, Pair, Table, key_columns
from buttress.relational.parameters import Parameters
from buttress.relational.plan.plan import Node, Plan, weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.columns import Column, make_column, objects
from buttress.relational.sources.databases import item_of, one_snapshot
from buttress.relational.sources.dialects import DUCKDB, dialect_of
from buttress.relational.sources.files import is_files, scanned
from buttress.relational.sources.tables import row_count
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.plan import KIND_ROWS, LEAST_MEMORY, VALUE_MEGABYTES, column_sample
from buttress.relational.stream import CHUNK_SHARE, LIST_SHARE, Layout, streamed

# Bytes at the peak of a fit, from the arrays that are alive then (measured: benchmarks/relational.py --parts memory)
VALUE = 9  # a value that was read: 8, and 1 for whether it is missing
KEY = 24  # a key, more than its value: its code, its code among the rows that are left, its place in their order
FEATURE = 8  # a feature, more than its value: the matrix
COPIES = 24  # a feature while its table is scaled: three copies
SAMPLED = 32  # a feature of a row of the sample: the row, its copy for the start's solver, and that solver's own
ROW = 16  # any row: its number, and how many rows of the join it is part of
WORD = 57  # a text that Python holds, with the pointer to it
OBJECT = 56  # a value that a driver hands over as a Python object in a tuple
CODE = 45e6  # bytes that a process grows by when it loads solvers and compiled loops, after its sample is gone
FREED = 1.15  # memory that was given back, and that the system still counts

# measured: benchmarks/relational_streams.py --parts large
LIBRARIES = 100.0  # megabytes of DuckDB's code and of loops that are compiled, as a process that has neither grows
DATABASE_SHARE = 1 / 2  # of the memory, for a DuckDB of our own that rows are streamed from: the rest is for the rows
IN_DATABASE = 2.0  # bytes that DuckDB holds for one of a table's while it numbers the keys
ALIVE = 10  # arrays of a chunk's size that are alive while it is counted


def needed_megabytes(join: Join, pairs: Sequence[Pair], outside_only: bool = False, sampled: int = 0) -> float:
    """Return the megabytes that a fit to a join in this process takes at its peak, beside the frames it is given.

    ``pairs`` are those of :meth:`Join.check`. A few queries a table: the number of its rows, and a few of them.
    ``outside_only`` leaves out the frames of this process; ``sampled`` are the rows of the sample, which is left out
    without.
    """
    kept = scaled = 0.0
    for i, table in enumerate(join.tables):
        outside = isinstance(table.source, tuple) or is_files(table.source)
        if outside or not outside_only:
            keys = key_columns(pairs, i)
            n = row_count(table.source)
            kept += n * _row_bytes(table, keys, outside, i == join.root)
            scaled = max(scaled, n * COPIES * (len(table.features) + (i == join.root)))
    solving = max(CODE, sampled * SAMPLED * sum(map(column_count, join.tables))) if sampled else 0.0
    return (kept + max(scaled, solving)) * FREED / 1e6


def _row_bytes(table: Table, keys: Sequence[str], outside: bool, root: bool) -> float:
    """Return the bytes of a row of a table at the peak of a fit."""
    used = used_columns(table, keys)
    size = float(ROW + KEY * len(set(keys)) + FEATURE * (len(table.features) + root))
    if not outside:
        return size
    words = sum(column.kind == "text" for column in _few_rows(table, used).values())
    handed = OBJECT * (len(used) + 1) if isinstance(table.source, tuple) and dialect_of(table.source[0]) is not DUCKDB \
        else 0
    return size + VALUE * len(used) + WORD * words + handed


def column_count(table: Table) -> int:
    """Return about how many columns a table's features become: of text, one for each value that a few rows hold.

    A frame's text counts once.
    """
    read = _few_rows(table, table.features)
    return sum(len(set(read[name].values[~read[name].null].tolist())) if name in read and read[name].kind == "text"
               else 1 for name in table.features)


def _few_rows(table: Table, names: Sequence[str]) -> dict[str, Column]:
    """Return up to KIND_ROWS rows of a table outside of this process."""
    if isinstance(table.source, tuple):
        dialect = dialect_of(table.source[0])
        return column_sample(table.source[0], dialect, item_of(dialect, table.source[1], names), names)
    if not names or not is_files(table.source):
        return {}
    chosen = ", ".join(DUCKDB.quote(name) for name in names)
    rows = scanned(table.source, lambda scan: f"SELECT {chosen} FROM ({scan}) LIMIT {KIND_ROWS}")
    read = list(zip(*rows)) if rows else [()] * len(names)
    return {name: make_column(objects(values)) for name, values in zip(names, read)}


def streamed_megabytes(join: Join, plan: Plan, memory: float) -> float:
    """Return the megabytes that a streamed fit takes at its peak when it may take ``memory`` of them, as an estimate.

    ``plan`` is of the keys of the join. The larger of what the database takes while rows are brought, and of lists
    and a chunk in a pass. A DuckDB of the user's has a limit of its own, which is not
    known here, and a category that no row of a sample has is not counted.
    """
    memory = max(memory, LEAST_MEMORY)
    row_megabytes = [_node_bytes(join, node, i) / 1e6 for i, node in enumerate(plan.nodes)]
    largest = max(max((plan.base_rows[t] for t, _ in node.members), default=node.n_rows) * each
                  for node, each in zip(plan.nodes, row_megabytes))
    ours = not join.connections or dialect_of(join.connections[0]) is DUCKDB
    brought = min(IN_DATABASE * largest, max(DATABASE_SHARE * memory, LEAST_MEMORY)) if ours else 0.0
    lists = min(_entries(plan) * ENTRY_MEGABYTES, LIST_SHARE * memory)
    return LIBRARIES + max(brought, lists + ALIVE * min(largest, CHUNK_SHARE * memory))


def _node_bytes(join: Join, node: Node, i: int) -> int:
    """Return the bytes of a row of a node in memory."""
    width = sum(column_count(join.tables[t]) for t, _ in node.members) + (i == 0)  # the root's ones
    return Layout(i == 0, list(node.down), [False] * width).row_bytes


def _entries(plan: Plan) -> float:
    """Return about how many entries the lists of all nodes but the root have, on however fine a grid."""
    lengths = np.ones(len(plan.nodes))
    total = 0.0
    for i in reversed(range(1, len(plan.nodes))):
        node = plan.nodes[i]
        entries = node.n_rows * float(np.prod([lengths[child] for child in node.down]))
        lengths[i] = entries / max(node.n_keys, 1)
        total += entries
    return total


def choose_oracle(join: Join, model: Parameters, held: ExitStack) -> tuple[MarginOracle, Plan]:
    """Return the oracle for a join and its plan, by the model's engine, sketch and row_weight.

    While the rows stay in a database, one snapshot of it is ``held``; it ends once they are in this process.
    """
    held.enter_context(one_snapshot(join.connections))
    large = model.engine == "auto" and needed_megabytes(join, join.check(), outside_only=True) > model.memory_limit
    if model.engine in ("sql", "stream") or large:
        oracle = sql_oracle(join, model, large)
        if model.objective == "mean":
            check_means(oracle.label_rows(), oracle.plan.width, model)
            here = oracle.label_means()
        elif oracle.plan.n_rows * oracle.plan.width * VALUE_MEGABYTES <= model.memory_limit \
                and oracle.plan.n_rows <= model.n_samples:
            here = oracle.listed()
        elif model.engine == "sql":
            return oracle, oracle.plan
        else:
            here = streamed(oracle, max(model.memory_limit, LEAST_MEMORY))
        held.close()
        return here, oracle.plan
    plan = prepare(join, intercept=model.fit_intercept, encoding=model._encoding())
    held.close()
    weigh(plan, model.row_weight, model.class_weight)
    return memory_oracle(plan, model), plan


def check_means(n_rows: int, width: int, model: Parameters) -> None:
    """Refuse mean features of label rows that would take more memory than the model may."""
    needed = n_rows * width * VALUE_MEGABYTES
    if needed > model.memory_limit:
        raise MemoryError(f"objective='mean' needs {needed:.3g} megabytes for the mean features of {n_rows} label rows,"
                          f" and memory_limit is {model.memory_limit:g}. Raise it, or use objective='rows'.")


def memory_oracle(plan: Plan, model: Parameters) -> MarginOracle:
    """Return the in-process oracle of a plan for a model's sketch; few rows (at most ``n_samples``) are listed."""
    if model.objective == "mean":
        check_means(plan.base_rows[plan.label_table], plan.width, model)
        return listed_oracle(*label_means(plan))
    if model.sketch == "rank":
        return RankOracle(plan, error=model.sketch_error)
    return grid_oracle(plan, listed=model.n_samples, memory=model.memory_limit)


def sql_oracle(join: Join, model: Parameters, large: bool) -> SqlOracle:
    """Return the plan and oracle inside the database; raises ValueError for what only this process can do."""
    for name, alone, usual in (("sketch", "rank", "grid"), ("solver", "paper", "auto")):
        if getattr(model, name) == alone:
            raise ValueError(f"{name}={alone!r} needs the tables in memory"
                             + (f", and there they would exceed memory_limit={model.memory_limit:g} megabytes. "
                                "Raise memory_limit" if large else ". Use engine='memory'") + f", or {name}={usual!r}.")
    memory = model.memory_limit * (1.0 if model.engine == "sql" else DATABASE_SHARE)
    return SqlOracle(join, intercept=model.fit_intercept, per_label_row=model.row_weight == "label_row",
                     class_weight=model.class_weight, memory=memory, encoding=model._encoding(),
                     keep=model.engine == "sql")


@dataclass(frozen=True)
class Explanation:
    """Facts of a join; printing it shows ``text``.

    ``edges`` maps a table (or the keys joined beforehand) to "exact" or "sketched", how its rows reach its parent;
    ``edge_cover`` maps each table to its weight in the least fractional edge cover of the join attributes, and
    ``agm_bound`` is the bound on the number of rows that it gives (times the most rows that share a key).
    ``cost`` estimates the additions of one oracle call, ``megabytes`` the memory that a fit in this process takes at
    its peak, beside the frames it is given, and ``stream_megabytes`` the most that one takes whose rows are streamed.
    """

    n_join_rows: int
    base_rows: dict[str, int]
    edges: dict[str, str]
    edge_cover: dict[str, float]
    agm_bound: float
    cost: float
    megabytes: float
    stream_megabytes: float
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def explain(join: Join, memory_limit: float = 4000) -> Explanation:
    """Read the keys of a join, and a hundred rows of its features, and return its Explanation.

    ``memory_limit`` are the megabytes that a fit may take, > 0, as of RelationalLinearSVC.
    """
    check_number("memory_limit", memory_limit, 0)
    pairs = join.check()
    plan = prepare(join.bare(), root=join.root)
    names = ["+".join([plan.tables[t].name for t, _ in node.members] or [f"keys {', '.join(node.bound)}"])
             for node in plan.nodes]
    edges = {name: "exact" if is_exact(plan, i) else "sketched" for i, name in enumerate(names) if i}
    base = {table.name: rows for table, rows in zip(plan.tables, plan.base_rows)}
    cover = {table.name: abs(round(float(w), 6)) for table, w in zip(plan.tables, plan.cover)}
    with np.errstate(over="ignore"):
        bound = float(np.exp(plan.agm_log))
    cost = _cost(plan)
    megabytes = needed_megabytes(join, pairs, sampled=min(plan.n_rows, Parameters.n_samples))
    streamed = streamed_megabytes(join, plan, memory_limit)
    what = "root, has the label" if join.tables[join.root].label is not None else "root"
    lines = _tree_lines(plan, names, edges, what, 0, 0)
    lines += ["", f"rows of the join   {plan.n_rows:,} (exact), from {sum(base.values()):,} base rows",
              f"AGM bound          {bound:.4g} rows; fractional edge cover {sum(cover.values()):g}: "
              + ", ".join(f"{name} {w:g}" for name, w in cover.items()),
              f"cost of a call     about {cost:.3g} additions on a grid of {FIRST_BINS} steps",
              f"memory of a fit    about {megabytes:.3g} megabytes in this process",
              f"  streamed         at most {streamed:.3g} megabytes where memory_limit is {memory_limit:g}"]
    outside = needed_megabytes(join, pairs, outside_only=True)
    if outside:
        chosen = "streamed from files" if outside > memory_limit else "in memory"
        lines.append(f"engine='auto'      {chosen}; streamed where memory_limit is below {outside:.3g}")
    lines += [f"note               {note}" for note in plan.notes]
    return Explanation(plan.n_rows, base, edges, cover, bound, cost, megabytes, streamed, "\n".join(lines))


def _tree_lines(plan: Plan, names: list[str], edges: dict[str, str], root: str, i: int, depth: int) -> list[str]:
    """Return a line for node i and for each below it; ``root`` says what the root is."""
    node = plan.nodes[i]
    what = root
    if i:
        fan = node.n_rows / max(node.n_keys, 1)
        what = f"{edges[names[i]]}, {node.n_keys:,} keys, {fan:.3g} rows a key"
    if node.bound:
        what += f", keys {', '.join(node.bound)} joined beforehand because the join is cyclic"
    lines = [f"{'  ' * depth}{names[i]}: {node.n_rows:,} rows ({what})"]
    for child in node.down:
        lines += _tree_lines(plan, names, edges, root, child, depth + 1)
    return lines


def _cost(plan: Plan) -> float:
    """Estimate the additions of one oracle call: rows times the length of the lists they consult, up and down."""
    lengths: list[float] = []
    total = 0.0
    *others, root = schedule(plan, products=False).blocks
    for block in (*others, root):
        lists = block.lists if block is not root else block.lists[:-1] or block.lists  # two are met without a product
        consulted = float(np.prod([lengths[op] for op, _ in lists]))
        total += 2 * block.n_rows * consulted
        lengths.append(min(block.n_rows / max(len(block.start) - 1, 1) * consulted, FIRST_BINS))
    return total
