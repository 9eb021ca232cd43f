"""Where a join is counted: in this process, on rows in memory or streamed from files, or in the database as SQL.

How much memory that takes is known before a fit, and what it will cost is told in words and numbers.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from buttress._checks import check_number
from buttress._suggest import counted
from buttress.relational.checks import used_columns
from buttress.relational.counting.grid import grid_oracle, listed_oracle
from buttress.relational.counting.margins import MarginOracle
from buttress.relational.counting.queries import label_means
from buttress.relational.counting.schedule import is_exact
from buttress.relational.declare import Join, Pair, Table, key_columns
from buttress.relational.parameters import Parameters
from buttress.relational.plan.plan import Encoding, Plan, weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.columns import Column, make_column, objects
from buttress.relational.sources.databases import item_of, one_snapshot
from buttress.relational.sources.dialects import DUCKDB, dialect_of
from buttress.relational.sources.files import is_files, scanned
from buttress.relational.sources.tables import row_count
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.plan import KIND_ROWS, LEAST_MEMORY, VALUE_MEGABYTES, column_sample
from buttress.relational.stream import streamed

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

DATABASE_SHARE = 1 / 2  # of the memory, for a DuckDB of our own that rows are streamed from: the rest is for the rows


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


def choose_oracle(join: Join, model: Parameters, held: ExitStack) -> tuple[MarginOracle, Plan]:
    """Return the oracle for a join and its plan, by the model's engine and row_weight.

    While the rows stay in a database, one snapshot of it is ``held``; it ends once they are in this process.
    """
    held.enter_context(one_snapshot(join.connections))
    large = model.engine == "auto" and needed_megabytes(join, join.check(), outside_only=True) > model.memory_limit
    if model.engine in ("sql", "stream") or large:
        oracle = SqlOracle(join, intercept=model.fit_intercept, per_label_row=model.row_weight == "label_row",
                           class_weight=model.class_weight, encoding=Encoding(model.missing, model.scaling),
                           memory=model.memory_limit * (1.0 if model.engine == "sql" else DATABASE_SHARE),
                           keep=model.engine == "sql")
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
    plan = prepare(join, intercept=model.fit_intercept, encoding=Encoding(model.missing, model.scaling))
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
    """Return the in-process oracle of a plan; few rows (at most ``n_samples``) are listed."""
    if model.objective == "mean":
        check_means(plan.base_rows[plan.label_table], plan.width, model)
        return listed_oracle(*label_means(plan))
    return grid_oracle(plan, listed=model.n_samples, memory=model.memory_limit)


@dataclass(frozen=True)
class JoinDescription:
    """Facts of a join; printing it shows ``text``.

    ``edges`` maps a table (or the keys joined beforehand) to "exact" or "sketched", how its rows reach its parent;
    ``megabytes`` estimates the memory that a fit in this process takes at its peak, beside the frames it is given.
    """

    n_join_rows: int
    base_rows: dict[str, int]
    edges: dict[str, str]
    megabytes: float
    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def describe(join: Join, memory_limit: float = 4000) -> JoinDescription:
    """Read the keys of a join, and a hundred rows of its features, and return its JoinDescription.

    ``memory_limit`` are the megabytes that a fit may take, > 0, as of RelationalLinearSVC.
    """
    check_number("memory_limit", memory_limit, 0)
    pairs = join.check()
    plan = prepare(join.bare(), root=join.root)
    names = ["+".join([plan.tables[t].name for t, _ in node.members] or [f"keys {', '.join(node.bound)}"])
             for node in plan.nodes]
    edges = {name: "exact" if is_exact(plan, i) else "sketched" for i, name in enumerate(names) if i}
    base = {table.name: rows for table, rows in zip(plan.tables, plan.base_rows)}
    megabytes = needed_megabytes(join, pairs, sampled=min(plan.n_rows, Parameters.n_samples))
    what = "root, has the label" if join.tables[join.root].label is not None else "root"
    lines = _tree_lines(plan, names, edges, what, 0, 0)
    lines += ["", f"rows of the join   {plan.n_rows:,} (exact), from {sum(base.values()):,} base rows",
              f"memory of a fit    about {megabytes:.3g} megabytes in this process"]
    outside = needed_megabytes(join, pairs, outside_only=True)
    if outside:
        chosen = "streamed from files" if outside > memory_limit else "in memory"
        lines.append(f"engine='auto'      {chosen}; streamed where memory_limit is below {outside:.3g}")
    labelled = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    if gone := plan.base_rows[plan.label_table] - len(np.unique(labelled)):
        known = f" known by {join.date}" if join.date else ""
        plan.notes.append(f"{counted(gone, 'row')} of {plan.tables[plan.label_table].name} left out, which join no row"
                          f"{known}; a pair with 'left' keeps them")
    lines += [f"note               {note}" for note in plan.notes]
    return JoinDescription(plan.n_rows, base, edges, megabytes, "\n".join(lines))


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
