"""Where a join is counted: in this process on its base tables, or in the database as SQL."""

from contextlib import ExitStack
from typing import Protocol

import numpy as np

from buttress.relational.counting.grid import GridOracle
from buttress.relational.counting.margins import MarginOracle
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.declare import Join
from buttress.relational.plan.plan import Encoding, Plan
from buttress.relational.plan.prepare import prepare
from buttress.relational.plan.rows import unrank
from buttress.relational.plan.weighting import ClassWeight, weigh
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.plan import VALUE_MEGABYTES, megabytes


class CountingOptions(Protocol):
    """The parameters of an estimator that say how the rows of a join are counted: see RelationalLinearSVC."""

    engine: str
    memory_limit: float
    sketch: str
    sketch_error: float
    solver: str
    n_samples: int
    row_weight: str
    class_weight: ClassWeight
    fit_intercept: bool
    missing: str
    scaling: str


def encoding_of(model: CountingOptions) -> Encoding:
    """Return how an estimator's features become columns."""
    return Encoding(model.missing, model.scaling)


def choose_oracle(join: Join, model: CountingOptions, held: ExitStack) -> tuple[MarginOracle, Plan]:
    """Return the oracle for a join and its plan, by the model's engine, sketch and row_weight.

    While the rows stay in a database, one snapshot of it is ``held``; it ends once they are in this process.
    """
    held.enter_context(one_snapshot(join.connections))
    large = model.engine == "auto" and megabytes(join, join.check()) > model.memory_limit
    if model.engine == "sql" or large:
        oracle = sql_oracle(join, model, large)
        if oracle.plan.n_rows * oracle.plan.width * VALUE_MEGABYTES > model.memory_limit \
                or oracle.plan.n_rows > model.n_samples:
            return oracle, oracle.plan
        few = oracle.listed()
        held.close()
        return few, oracle.plan
    plan = prepare(join, intercept=model.fit_intercept, encoding=encoding_of(model))
    held.close()
    weigh(plan, model.row_weight, model.class_weight)
    return memory_oracle(plan, model), plan


def memory_oracle(plan: Plan, model: CountingOptions) -> MarginOracle:
    """Return the in-process oracle of a plan for a model's sketch; few rows (at most ``n_samples``) are listed."""
    if model.sketch == "rank":
        return RankOracle(plan, error=model.sketch_error)
    few = plan.n_rows <= model.n_samples
    return GridOracle(plan, rows=unrank(plan, np.arange(plan.n_rows)) if few else None, memory=model.memory_limit)


def sql_oracle(join: Join, model: CountingOptions, large: bool) -> SqlOracle:
    """Return the oracle inside the database; raises ValueError for what only this process can do."""
    for name, alone, usual in (("sketch", "rank", "grid"), ("solver", "paper", "auto")):
        if getattr(model, name) == alone:
            raise ValueError(f"{name}={alone!r} is counted in this process only"
                             + (f", and the base tables exceed memory_limit={model.memory_limit:g} megabytes. Raise "
                                "memory_limit" if large else ". Use engine='memory'") + f", or {name}={usual!r}.")
    return SqlOracle(join, intercept=model.fit_intercept, per_label_row=model.row_weight == "label_row",
                     class_weight=model.class_weight, memory=model.memory_limit, encoding=encoding_of(model))
