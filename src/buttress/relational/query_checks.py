"""What a query over the rows of a join is refused for: its functions, its inequality, its semiring and its factor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, check_number
from buttress._suggest import brief
from buttress.relational.counting.lists import DECLARED, Semiring

Function = Callable[[NDArray[Any]], Any]  # of the values (n,) of a column
Functions = Mapping[str, Function]  # by "table.column"
ScoreTerms = Mapping[str, Function | float]  # a number is a coefficient
Inequality = tuple[ScoreTerms, float]

FACTORS = (1e-4, 1)  # least and largest eps
LARGEST = float(np.finfo(float).max)
FINITE = (-LARGEST, LARGEST, "finite numbers")
# What the numbers of a declared semiring are, "" being scores: the least and the largest, and the same in words.
DOMAINS = {
    "": FINITE,
    "counting": FINITE,
    "sum-product": FINITE,
    "min-plus": (-LARGEST, np.inf, "numbers above -inf"),
    "max-plus": (-np.inf, LARGEST, "numbers below inf"),
    "max-product": (0.0, LARGEST, "finite numbers of at least 0, for negative ones turn max into min"),
    "boolean": (0.0, 1.0, "truth values, as those of v > 0"),
}


def check_functions(values: Functions | None) -> Functions:
    """Return the functions by column, none for None."""
    form = "values must be a dict of 'table.column' to a function of an array"
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ValueError(f"{form}. Got {brief(values)}.")
    for key, function in values.items():
        if not isinstance(key, str) or not callable(function):
            raise ValueError(f"{form}. Got {brief(key)}: {brief(function)}. For a constant write lambda v: "
                             "np.full(len(v), 3.0).")
    return values


def check_inequality(where: Inequality | None, n_tables: int) -> Inequality:
    """Return the inequality, one that always holds for None; refuse two."""
    if where is None:
        return {}, np.inf
    listed = isinstance(where, Sequence) and not isinstance(where, str)
    if listed and len(where) > 1 and all(isinstance(part, Sequence) and not isinstance(part, str) for part in where):
        raise ValueError(
            f"where must be one inequality, ({{'table.column': coefficient}}, threshold). Got {len(where)}: a query "
            "under two (FAQ-AI(2)) has no list of scores to read the answer from. The known way takes about n^(m/2) "
            f"steps for m tables of n rows, here n^{n_tables / 2:g}. Draw rows with JoinSampler, or put one inequality "
            "into a function of a single column.")
    one = listed and len(where) == 2 and isinstance(where[0], Mapping)
    if not one or not all(isinstance(key, str) for key in where[0]):
        raise ValueError(f"where must be ({{'table.column': coefficient}}, threshold). Got {brief(where)}.")
    return where[0], check_number("The threshold of where", where[1], -np.inf, np.inf, closed="both")


def check_scores(scores: ScoreTerms) -> ScoreTerms:
    """Return the scores of a query without a threshold."""
    if not isinstance(scores, Mapping) or not all(isinstance(key, str) for key in scores):
        raise ValueError(f"scores must be a dict of 'table.column' to a number or a function. Got {brief(scores)}.")
    return scores


def check_eps(eps: float | None, rule: Semiring, form: str) -> None:
    """Refuse what is no factor, and what a factor does not hold for."""
    if eps is None:
        return
    check_number("eps", eps, *FACTORS, closed="both")
    if form != "product" or rule not in (DECLARED["counting"], DECLARED["sum-product"]):
        raise ValueError(f'eps is for form="product" with ring="counting" or "sum-product". Got form={form!r} and '
                         f"ring={rule.name!r}. Leave eps out.")


def check_ring(add: Callable[[Any, Any], Any], multiply: Callable[[Any, Any], Any], zero: Any, one: Any) -> None:
    """Refuse what is no function, and identities that are none for each other."""
    for name, function in (("add", add), ("multiply", multiply)):
        if not callable(function):
            raise ValueError(f"{name} must be a function of two values. Got {brief(function)}.")
    for law, found, right in (("add(zero, one) = one", add(zero, one), one),
                              ("multiply(zero, one) = zero", multiply(zero, one), zero),
                              ("multiply(one, one) = one", multiply(one, one), one)):
        if not _same(found, right):
            raise ValueError(f"{law} must hold. Got {brief(found)} with zero={brief(zero)} and one={brief(one)}. "
                             "For min and + they are inf and 0, for + and * 0 and 1.")


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(np.all(a == b))
    except ValueError:  # of objects that have no truth value
        return True


def coefficient(key: str, g: Function | float) -> Function:
    """Return a term of a score as a function of its column."""
    if callable(g):
        return g
    factor = check_number(f"The coefficient of {key!r}", g, -np.inf, fix="It may be a function of an array, too.")
    return lambda values: factor * as_numbers(f"Column {key!r}", values)


def as_numbers(what: str, found: Any) -> Array:
    """Return what a function returned, or a column holds, as numbers."""
    try:
        return np.asarray(found, dtype=np.float64)
    except (ValueError, TypeError):
        first = np.asarray(found, dtype=object).ravel()[:1]
        got = brief(first[0]) if len(first) else "nothing"
        raise ValueError(f"{what} must be of numbers. Got {got}. Give a function that turns it into numbers, as "
                         "lambda v: v == 'red'.") from None


def check_domain(where: str, found: Any, ring: str) -> Array:
    """Return what the function of column ``where`` returned as numbers of a declared semiring."""
    least, largest, words = DOMAINS[ring]
    numbers = as_numbers(f"What the function of {where!r} returns", found)
    good = (numbers >= least) & (numbers <= largest)
    if ring == "boolean":
        good &= numbers == np.round(numbers)
    if not good.all():
        what = f"values of the {ring!r} semiring" if ring else "scores"
        raise ValueError(f"The function of {where!r} must return {what}: {words}. Got {numbers[~good].ravel()[0]:g}.")
    return numbers
