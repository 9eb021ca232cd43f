"""The parameters of RelationalLinearSVC, which every part of a fit reads, and what they are refused for."""

from dataclasses import dataclass, field

from numpy.random import RandomState

from buttress._checks import check_count, check_limits, check_number, check_option
from buttress._types import ClassWeight
from buttress.relational.declare import Join


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """See RelationalLinearSVC."""

    alpha: float = field(default=1e-3, kw_only=False)
    C: float | None = field(default=None, kw_only=False)
    loss: str = "hinge"
    tol: float = 1e-3
    solver: str = "auto"
    objective: str = "rows"
    row_weight: str = "label_row"
    class_weight: ClassWeight = None
    fit_intercept: bool = True
    missing: str = "raise"
    scaling: str = "max"
    unmatched: str = "intercept"
    n_samples: int = 100_000
    engine: str = "auto"
    memory_limit: float = 4000
    max_iter: int | None = 500
    max_time: float | None = None
    random_state: RandomState | int | None = None
    progress: bool = False
    checkpoint: str | None = None
    resume: bool | str = False


def check_parameters(model: Parameters, join: object, y: object) -> None:
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
    else:
        check_number("C", model.C, 0)
    check_number("tol", model.tol, 0)
    check_number("memory_limit", model.memory_limit, 0)
    check_count("n_samples", model.n_samples)
    check_limits(model.max_iter, model.max_time)
    for name, options in (("missing", ("raise", "zero", "mean")), ("scaling", ("max", "robust")),
                          ("loss", ("hinge", "squared_hinge", "logistic")),
                          ("solver", ("auto", "sample")),
                          ("objective", ("rows", "mean")), ("row_weight", ("join", "label_row")),
                          ("unmatched", ("intercept", "nan")), ("engine", ("auto", "memory", "stream", "sql"))):
        check_option(name, getattr(model, name), options)
