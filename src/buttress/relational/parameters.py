"""The parameters of RelationalLinearSVC, checked before any table is read."""

from typing import Any

from buttress._checks import check_count, check_limits, check_number, check_option
from buttress.relational.declare import Join

SOLVERS = ("auto", "sample", "lbfgs", "bundle", "paper", "projected")


def check_parameters(model: Any, join: object, y: object) -> None:
    """Raise ValueError for parameters of the estimator ``model`` out of range, or what is no join with a label."""
    if not isinstance(join, Join):
        raise ValueError(f"RelationalLinearSVC is fitted to a Join. Got {type(join).__name__}. For one table use "
                         "Join([Table(name, source, features=..., label=...)]).")
    if y is not None:
        raise ValueError("The target is the label of one of the join's tables. Leave y out.")
    if not any(table.label for table in join.tables):
        raise ValueError("No table of the join has a label. Give one table label='column'.")
    if model.C is None:
        check_number("alpha", model.alpha, 0)
    if model.C is not None:
        check_number("C", model.C, 0)
    check_number("tol", model.tol, 0)
    check_number("sketch_error", model.sketch_error, 0, 1, closed="right")
    check_number("memory_limit", model.memory_limit, 0)
    check_count("n_samples", model.n_samples)
    check_limits(model.max_iter, model.max_time)
    for name, options in (("missing", ("raise", "zero", "mean")), ("scaling", ("max", "robust")),
                          ("loss", ("hinge", "squared_hinge", "logistic")), ("solver", SOLVERS),
                          ("sketch", ("grid", "rank")), ("objective", ("rows", "mean")),
                          ("row_weight", ("join", "label_row")), ("unmatched", ("intercept", "nan")),
                          ("step_rule", ("theorem", "section")), ("engine", ("auto", "memory", "stream", "sql"))):
        check_option(name, getattr(model, name), options)
    if model.loss != "hinge" and (model.sketch == "rank" or model.solver in ("paper", "projected")):
        raise ValueError("sketch='rank' and the solvers paper and projected are for loss='hinge'. Got "
                         f"loss={model.loss!r}, sketch={model.sketch!r}, solver={model.solver!r}.")
    if model.scaling != "max" and model.solver in ("paper", "projected"):
        raise ValueError(f"solver={model.solver!r} looks for the optimum in a ball that holds it where features lie in "
                         f"[-1, 1]. Got scaling={model.scaling!r}. Use scaling='max', or solver='auto'.")
    if model.objective == "mean" and (model.sketch == "rank" or model.solver == "paper"):
        raise ValueError("sketch='rank' and solver='paper' count join rows. Use objective='rows'.")
