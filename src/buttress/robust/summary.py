"""What a robust linear fit says of its coefficients: estimates, standard errors, intervals and weights, as a table."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import t as student

from buttress._checks import Array, check_number
from buttress._types import Labels
from buttress.robust.columns import ColumnUnits
from buttress.solvers.contamination.mm import MMEstimate, mm_estimate
from buttress.solvers.ridge.leave_one_out import FeatureRidge

NUMBERS = ("estimate", "std_error", "low", "high", "t", "p_value")


class Summarised(Protocol):
    """A fitted linear model with its MM estimate."""

    mm_: MMEstimate | None
    n_features_in_: int
    fit_intercept: bool


@dataclass(frozen=True)
class LinearSummary:
    """The MM estimate of a linear model, one entry a coefficient, the constant first where there is one.

    ``low`` and ``high`` are the ends of intervals of this ``coverage``, from Student's t with ``freedom`` degrees of
    freedom; ``t`` is the estimate over its standard error, and ``p_value`` belongs to a coefficient of 0. ``scale`` is
    that of the errors, ``weights`` (n,) are the rows', 0 for rows rejected. Printed it is a table.
    """

    name: Labels
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    t: Array
    p_value: Array
    coverage: float
    scale: float
    freedom: int
    weights: Array

    def columns(self) -> dict[str, Labels]:
        """Return the table as a dict of columns, which any frame library takes."""
        return {name: getattr(self, name) for name in ("name", *NUMBERS)}

    def __str__(self) -> str:
        names = [str(name) for name in self.name]
        wide = max(map(len, [*names, "coefficient"]))
        head = f"{'coefficient':{wide}}" + "".join(f"{name:>12}" for name in NUMBERS)
        rows = [f"{name:{wide}}" + "".join(f"{getattr(self, key)[i]:12.4g}" for key in NUMBERS)
                for i, name in enumerate(names)]
        end = (f"scale of the errors {self.scale:.4g}, {self.freedom} degrees of freedom; low and high at "
               f"{self.coverage:g}; {np.count_nonzero(self.weights == 0)} of {len(self.weights)} rows have no weight")
        return "\n".join([head, *rows, end])


def estimate_of(ridge: FeatureRidge, y: Array, starts: Array, units: ColumnUnits, middle: float) -> MMEstimate | None:
    """Return the MM estimate in the units given, the constant first, from fits (k, m) in the units of ``ridge``."""
    found = mm_estimate(ridge.Z, y, starts)
    if found is None:
        return None
    slope, constant = units.original(np.eye(starts.shape[1]))
    back = np.vstack([constant, slope]) if units.intercept else slope
    shift = np.append(middle, np.zeros(len(slope))) if units.intercept else 0.0
    return MMEstimate(back @ found.coef + shift, back @ found.covariance @ back.T, found.scale * units.unit,
                      found.weights, found.freedom)


def summary_of(model: Summarised, coverage: object) -> LinearSummary:
    """Return the table of a fitted linear model; ValueError where it holds no estimate."""
    if model.mm_ is None:
        raise ValueError("There are no standard errors: the rows are no more than the columns, columns depend on "
                         "others, or half of the rows lie on one plane. Drop columns, or add rows.")
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    constant = ["intercept"] if model.fit_intercept else []
    return summarise(model.mm_, [*constant, *map(str, names)], coverage)


def summarise(estimate: MMEstimate, names: list[str], coverage: object) -> LinearSummary:
    """Return the table of an estimate; ValueError for a coverage outside (0, 1)."""
    level = check_number("coverage", coverage, 0, 1)
    error = np.sqrt(np.maximum(np.diagonal(estimate.covariance), 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = estimate.coef / error
    half = student.ppf((1 + level) / 2, estimate.freedom) * error
    return LinearSummary(np.array(names), estimate.coef, error, estimate.coef - half, estimate.coef + half, t,
                         2 * student.sf(np.abs(t), estimate.freedom), level, estimate.scale, estimate.freedom,
                         estimate.weights)
