"""Where a join is counted: in this process, on rows in memory or streamed from files, or in the database as SQL."""

from contextlib import ExitStack

from buttress.relational.counting.grid import grid_oracle, listed_oracle
from buttress.relational.counting.margins import MarginOracle
from buttress.relational.counting.queries import label_means
from buttress.relational.counting.rank_oracle import RankOracle
from buttress.relational.declare import Join
from buttress.relational.memory import DATABASE_SHARE, needed_megabytes
from buttress.relational.parameters import Parameters
from buttress.relational.plan.plan import Plan, weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.plan import LEAST_MEMORY, VALUE_MEGABYTES
from buttress.relational.stream import streamed


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
