"""Where a join is counted: in this process, on rows in memory or streamed from files, or in the database as SQL."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.random import RandomState

from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.listed import ListedOracle, label_means
from buttress.relational.counting.margins import MarginOracle
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.declare import Join
from buttress.relational.plan.plan import Encoding, Plan
from buttress.relational.plan.prepare import prepare
from buttress.relational.plan.rows import unrank
from buttress.relational.plan.weighting import ClassWeight, weigh
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sql.memory import needed_megabytes
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.plan import LEAST_MEMORY, VALUE_MEGABYTES
from buttress.relational.stream.build import streamed
from buttress.relational.stream.memory import DATABASE_SHARE


class CountingOptions(Protocol):
    """The parameters of an estimator that say how the rows of a join are counted: see RelationalLinearSVC."""

    engine: str
    memory_limit: float
    sketch: str
    sketch_error: float
    solver: str
    n_samples: int
    row_weight: str
    objective: str
    class_weight: ClassWeight
    fit_intercept: bool
    missing: str
    scaling: str
    random_state: RandomState | int | None


def encoding_of(model: CountingOptions) -> Encoding:
    """Return how an estimator's features become columns."""
    return Encoding(model.missing, model.scaling)


def choose_oracle(join: Join, model: CountingOptions, held: ExitStack) -> tuple[MarginOracle, Plan]:
    """Return the oracle for a join and its plan, by the model's engine, sketch and row_weight.

    While the rows stay in a database, one snapshot of it is ``held``; it ends once they are in this process.
    """
    held.enter_context(one_snapshot(join.connections))
    large = model.engine == "auto" and needed_megabytes(join, join.check(), outside_only=True) > model.memory_limit
    if model.engine in ("sql", "stream") or large:
        oracle = sql_oracle(join, model, large)
        if model.objective == "mean":
            check_means(oracle.label_rows(), oracle.plan.width, model)
            means = oracle.label_means()
            held.close()
            return means, oracle.plan
        if oracle.plan.n_rows * oracle.plan.width * VALUE_MEGABYTES > model.memory_limit \
                or oracle.plan.n_rows > model.n_samples:
            if model.engine == "sql":
                return oracle, oracle.plan
            rows = streamed(oracle, max(model.memory_limit, LEAST_MEMORY), model.random_state)
            held.close()
            return rows, oracle.plan
        few = oracle.listed()
        held.close()
        return few, oracle.plan
    plan = prepare(join, intercept=model.fit_intercept, encoding=encoding_of(model))
    held.close()
    weigh(plan, model.row_weight, model.class_weight)
    return memory_oracle(plan, model), bare(plan, model)


def bare(plan: Plan, model: CountingOptions) -> Plan:
    """Return the plan that a model is fitted to: without the rows of the join where label rows are what counts."""
    return replace(plan, nodes=[]) if model.objective == "mean" else plan


def check_means(n_rows: int, width: int, model: CountingOptions) -> None:
    """Refuse mean features of label rows that would take more memory than the model may."""
    needed = n_rows * width * VALUE_MEGABYTES
    if needed > model.memory_limit:
        raise MemoryError(f"objective='mean' needs {needed:.3g} megabytes for the mean features of {n_rows} label rows,"
                          f" and memory_limit is {model.memory_limit:g}. Raise it, or use objective='rows'.")


def memory_oracle(plan: Plan, model: CountingOptions) -> MarginOracle:
    """Return the in-process oracle of a plan for a model's sketch; few rows (at most ``n_samples``) are listed."""
    if model.objective == "mean":
        check_means(plan.base_rows[plan.label_table], plan.width, model)
        return ListedOracle(*label_means(plan))
    if model.sketch == "rank":
        return RankOracle(plan, error=model.sketch_error)
    few = plan.n_rows <= model.n_samples
    return grid_oracle(plan, rows=unrank(plan, np.arange(plan.n_rows)) if few else None, memory=model.memory_limit)


def sql_oracle(join: Join, model: CountingOptions, large: bool) -> SqlOracle:
    """Return the plan and oracle inside the database; raises ValueError for what only this process can do."""
    for name, alone, usual in (("sketch", "rank", "grid"), ("solver", "paper", "auto")):
        if getattr(model, name) == alone:
            raise ValueError(f"{name}={alone!r} needs the tables in memory"
                             + (f", and there they would exceed memory_limit={model.memory_limit:g} megabytes. "
                                "Raise memory_limit" if large else ". Use engine='memory'") + f", or {name}={usual!r}.")
    memory = model.memory_limit * (1.0 if model.engine == "sql" else DATABASE_SHARE)
    return SqlOracle(join, intercept=model.fit_intercept, per_label_row=model.row_weight == "label_row",
                     class_weight=model.class_weight, memory=memory, encoding=encoding_of(model),
                     keep=model.engine == "sql")
