"""Constants of weighted ridge regression, chosen by trial."""

from dataclasses import dataclass

from buttress._tuned import THEORY, UNBEATEN, tuned

SCALE = "`benchmarks/robust.py scale`, made data of 100,000 and 1,000,000 rows"
CHOSEN = "`benchmarks/robust_trial.py regression --sets choosing`, kernel=\"columns\""


@dataclass(frozen=True)
class Leverages:
    """How leverages and Gram matrices of many rows are approximated: the leverages, known by half, within .1."""

    directions: int = tuned(8, "vectors", "random directions that leverages of many rows are projected on", THEORY)
    exact_from: float = tuned(0.2, "leverage", "projected leverage from which the exact one is computed", THEORY)
    few_rows: int = tuned(20, "rows a landmark", "up to this rows count as few", SCALE)
    weight_steps: int = tuned(4, "steps", "weights of many rows are rounded to one over this", SCALE)


@dataclass(frozen=True)
class Rounding:
    """What protects solutions from rounding."""

    least_weight: float = tuned(1e-6, "weight", "a row of less weight counts as this in the dual solution", UNBEATEN)
    rank: float = tuned(1e-8, "share of the largest diagonal entry", "less ends the Cholesky factor", UNBEATEN)
    least_free: float = tuned(1e-10, "1 - leverage", "least value: 0 but for rounding", "the precision of float64")


@dataclass(frozen=True)
class Columns:
    """How weights of columns are learned."""

    spread: float = tuned(0.5, "natural logarithms", "of the law that weights of columns come from", CHOSEN)
    linear: float = tuned(0.03, "of the narrowest gamma", "weight of the linear part at the start", CHOSEN)
    ridge: float = tuned(0.1, "of k(x, x)", "at the start, where no fit has chosen one", UNBEATEN)
    steps: int = tuned(6, "steps", "of the quasi-Newton method: more gain little", CHOSEN)
    rows: int = tuned(1000, "rows", "that columns are learned on: a step inverts their matrix", "its cost of n^3")
    widest: float = tuned(400.0, "times", "what a weight is at the start bounds it, above and below", UNBEATEN)
    least_weight: float = tuned(1e-3, "weight", "a row of less says nothing of columns", UNBEATEN)


LEVERAGES = Leverages()
ROUNDING_OF_RIDGE = Rounding()
COLUMNS = Columns()
