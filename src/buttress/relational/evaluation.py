"""A query over the rows of a join, in any commutative semiring, under no or one additive inequality (FAQ-AI).

    SumProd   Q = sum over the rows x of the join with g(x) <= L of   prod_i F_i(x_i)
    SumSum    Q = sum over the same rows of                           sum_i F_i(x_i)

where g(x) = sum_j g_j(x_j), the x_i are columns, and "sum" and "prod" are the semiring's. The join is never listed.

Source: Abo Khamis et al., On functional aggregate queries with additive inequalities, PODS 2019; section B.4 of
Abo-Khamis, Im, Moseley, Pruhs & Samadian (APOCS 2021).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, check_number, check_option
from buttress._suggest import brief
from buttress.relational.checks import EmptyJoinError
from buttress.relational.counting.queries import lists_on_grid, total_below
from buttress.relational.counting.semiring import DECLARED, SUM, Semiring, TooManyEntriesError
from buttress.relational.declare import Join, Table
from buttress.relational.plan.plan import Plan
from buttress.relational.plan.prepare import assemble, read
from buttress.relational.sources.columns import Column, objects
from buttress.relational.sources.databases import one_snapshot

Function = Callable[[NDArray[Any]], Any]  # of the values (n,) of a column
Functions = Mapping[str, Function]  # by "table.column"
Scores = Mapping[str, Function | float]  # a number is a coefficient
Inequality = tuple[Scores, float]

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


@dataclass(frozen=True)
class Answer:
    """What a query over a join is.

    ``value`` is exact where ``score_error`` is 0. Otherwise each row's score was rounded by at most ``score_error``:
    ``sure`` is the query over rows that satisfy the inequality for certain, ``possible`` over those that may.
    """

    value: Any
    sure: Any
    possible: Any
    score_error: float


def semiring(add: Callable[[Any, Any], Any], multiply: Callable[[Any, Any], Any], *, zero: Any, one: Any,
             name: str = "own") -> Semiring:
    """Return the semiring of two functions of two values, both commutative, ``multiply`` distributing over ``add``.

    ``zero`` is what ``add`` leaves as it is and what ``multiply`` turns all into, ``one`` what ``multiply`` leaves. Its
    values may be any Python objects. That the identities do so for each other is checked, the other laws are not.

    Raises ValueError where they do not, or for what is no function.
    """
    check_ring(add, multiply, zero, one)
    product = np.frompyfunc(multiply, 2, 1)
    return Semiring(name, np.frompyfunc(add, 2, 1), lambda a, b: product(a, b), zero=zero, one=one)


def evaluate(
    join: Join,
    ring: str | Semiring = "counting",
    values: Functions | None = None,
    *,
    form: str = "product",
    where: Inequality | None = None,
) -> Answer:
    """Return the sum over the rows of a join of the product (or sum) of functions of their columns.

    Parameters
    ----------
    join : Join
        Inner joins only; labels and weights play no part.
    ring : {"counting", "sum-product", "min-plus", "max-plus", "max-product", "boolean"} or Semiring
        What "sum" and "product" are: + and x, min and +, max and +, max and x, or and and; :func:`semiring` makes one
        of two functions. Numbers are 64-bit floats: counts are exact up to 2^53.
    values : dict of "table.column" to a function of an array
        F_i; columns that are not named contribute the one of a product and nothing to a sum. Its values must be of the
        declared semiring: truth values for "boolean", numbers of at least 0 for "max-product", numbers else, where
        "min-plus" takes inf and "max-plus" -inf too, which leave a row out.
    form : {"product", "sum"}
        SumProd or SumSum. "sum" needs only the semiring's addition.
    where : (dict of "table.column" to a coefficient or a function, threshold) or None
        Only rows with sum_j g_j(x_j) <= threshold take part.

    Returns
    -------
    Answer
        Exact where the distinct scores below the first table can be listed, and without an inequality always; else
        with its error. Of no rows it is the semiring's zero.

    Raises
    ------
    ValueError
        For two inequalities, left joins, columns that are not there, NULLs in a named column, functions that do not
        return one value a row, or values outside the semiring.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, Table, evaluate
    >>> loan = pd.DataFrame({"account": [1, 1, 2], "sum": [10.0, 20.0, 5.0]})
    >>> account = pd.DataFrame({"id": [1, 2, 2], "age": [30.0, 50.0, 60.0]})
    >>> join = Join([Table("loan", loan), Table("account", account)], on=[("loan.account", "account.id")])
    >>> evaluate(join).value, evaluate(join, where=({"loan.sum": 1.0, "account.age": 1.0}, 50.0)).value
    (4.0, 2.0)
    >>> evaluate(join, "min-plus", {"loan.sum": lambda v: v, "account.age": lambda v: -v}).value
    -55.0
    """
    if not isinstance(join, Join):
        raise ValueError(f"evaluate answers queries over a Join. Got {type(join).__name__}. For one table use "
                         "Join([Table(name, source)]).")
    check_option("form", form, ("product", "sum"))
    if not isinstance(ring, Semiring):
        check_option("ring", ring, tuple(DECLARED))
    rule = ring if isinstance(ring, Semiring) else DECLARED[ring]
    functions = check_functions(values)
    scores, threshold = check_inequality(where, len(join.tables))
    plain = Join([Table(table.name, table.source) for table in join.tables], join.on, max_bag_rows=join.max_bag_rows)
    pairs = plain.check()
    if any(pair.left for pair in pairs):
        raise ValueError("evaluate answers queries over inner joins. Got a left join. Leave out 'left', or add a row "
                         "for what is missing.")
    terms = {plain.find_column(key): function for key, function in functions.items()}
    parts = {plain.find_column(key): coefficient(key, g) for key, g in scores.items()}
    wanted = [[column for t, column in {**terms, **parts} if t == i] for i in range(len(plain.tables))]
    with one_snapshot(plain.connections):
        columns = [read(plain, i, pairs, wanted[i]) for i in range(len(plain.tables))]
    try:
        plan = assemble(plain, pairs, columns, intercept=False)
    except EmptyJoinError:
        return Answer(rule.zero, rule.zero, rule.zero, 0.0)
    used, annotations = _annotations(plan, columns, rule, form, terms)
    paired = form == "sum" and not (_is_declared(rule) or rule.idempotent)
    return _answer(plan, _node_sums(plan, columns, parts), used, annotations, threshold, paired)


def _applied(plan: Plan, columns: list[dict[str, Column]], at: tuple[int, str],
             function: Function, ring: str | None) -> NDArray[Any]:
    """Return a function of a column for the table's rows in use, as an array of one value a row.

    Values are numbers of the declared semiring ``ring``, or finite scores where that is ""; objects for None.
    """
    table, name = at
    rows = plan.tables[table].rows
    column = columns[table][name]
    where = f"{plan.tables[table].name}.{name}"
    if column.null[rows].any():
        raise ValueError(f"Column {where!r} is NULL in {int(column.null[rows].sum())} rows of the join. Fill them, or "
                         "drop the rows.")
    returned = function(column.values[rows])
    found: NDArray[Any] = _values_of(returned) if ring is None else check_domain(where, returned, ring)
    if found.shape != (len(rows),):
        raise ValueError(f"The function of {where!r} must return one value for each of {len(rows)} rows. Got shape "
                         f"{found.shape}. Write it for arrays, as with np.vectorize.")
    return found


def _values_of(returned: Any) -> NDArray[Any]:
    """Return an array of objects; a list of tuples is one of them."""
    return objects(returned) if isinstance(returned, list) else np.asarray(returned, dtype=object)


def _placed(plan: Plan, table: int, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield each node that holds a table, and the values of the table's rows for each row of the node."""
    for i, node in enumerate(plan.nodes):
        for t, place in node.members:
            if t == table:
                yield i, values[place]


def _node_sums(plan: Plan, columns: list[dict[str, Column]],
               functions: dict[tuple[int, str], Function]) -> list[Array]:
    """Return for each node's rows the sum of functions of their columns."""
    totals = [np.zeros(node.n_rows) for node in plan.nodes]
    for at, function in functions.items():
        for i, values in _placed(plan, at[0], _applied(plan, columns, at, function, "")):
            totals[i] += values
    return totals


def _annotations(plan: Plan, columns: list[dict[str, Column]], rule: Semiring, form: str,
                 functions: dict[tuple[int, str], Function]) -> tuple[Semiring, list[Array]]:
    """Return the semiring to count in and each node's annotations in it."""
    declared = _is_declared(rule)
    used, lift, one = _summing(rule, declared) if form == "sum" else (rule, _column, rule.one)
    row = np.array(one, dtype=np.float64).reshape(1, -1) if declared else _column(objects([one]))
    annotations = [np.repeat(row, node.n_rows, axis=0) for node in plan.nodes]
    for at, function in functions.items():
        found = lift(_applied(plan, columns, at, function, rule.name if declared else None))
        for i, values in _placed(plan, at[0], found):
            annotations[i] = used.multiply(annotations[i], values)
    return used, annotations


def _is_declared(rule: Semiring) -> bool:
    return rule is DECLARED.get(rule.name)


def _column(values: NDArray[Any]) -> NDArray[Any]:
    return values[:, None]


def _summing(rule: Semiring, declared: bool) -> tuple[Semiring, Callable[[NDArray[Any]], NDArray[Any]], Any]:
    """Return a semiring whose product is the sum over columns, how a value enters it, and its one.

    Where a + a = a the addition itself serves. Else the annotations are pairs of a sum and the number of rows it is of:
    (a, n) (b, k) = (k a + n b, n k), k a being a added k times.
    """
    if rule.idempotent:
        return replace(rule, multiply=rule.add, one=rule.zero), _column, rule.zero
    if declared:
        return SUM, lambda values: np.column_stack([np.ones(len(values)), values]), [1.0, 0.0]

    def plus(a: Any, b: Any) -> Any:
        return rule.add.reduce(objects([a, b]))  # which takes tuples for values, not for arrays

    def add(a: Any, b: Any) -> Any:
        return plus(a[0], b[0]), a[1] + b[1]

    def multiply(a: Any, b: Any) -> Any:
        return plus(_times(plus, rule.zero, a[0], b[1]), _times(plus, rule.zero, b[0], a[1])), a[1] * b[1]

    pairs = semiring(add, multiply, zero=(rule.zero, 0), one=(rule.zero, 1), name=rule.name)
    return pairs, lambda values: _column(objects([(value, 1) for value in values])), (rule.zero, 1)


def _times(add: Callable[[Any, Any], Any], zero: Any, a: Any, k: int) -> Any:
    """Return a added k times, by doubling."""
    total = zero
    while k:
        total = add(total, a) if k & 1 else total
        a = add(a, a)
        k >>= 1
    return total


def _answer(plan: Plan, sums: list[Array], used: Semiring, annotations: list[Array], threshold: float,
            paired: bool) -> Answer:
    """Return the answer, exact or on a grid of scores; ``paired`` annotations hold a value and a number of rows."""
    try:
        value = _value(total_below(plan, sums, used, annotations, threshold), used, paired)
        return Answer(value, value, value, 0.0)
    except TooManyEntriesError:
        entries, error = lists_on_grid(plan, sums, used, annotations)

    def total(most: float) -> Any:
        chosen = entries.value[entries.score <= most]
        return _value(used.add.reduce(chosen, axis=0) if len(chosen) else None, used, paired)

    return Answer(total(threshold), total(threshold - error), total(threshold + error), error)


def _value(total: NDArray[Any] | None, used: Semiring, paired: bool) -> Any:
    """Return what annotations add up to, None being no rows."""
    if total is None:
        return used.zero[0] if paired else used.zero
    last = total[-1]  # of SUM: (number of rows, sum)
    if paired:
        return last[0]
    return float(last) if total.dtype == np.float64 else last


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


def check_ring(add: object, multiply: object, zero: Any, one: Any) -> None:
    """Refuse what is no function, and identities that are none for each other."""
    for name, function in (("add", add), ("multiply", multiply)):
        if not callable(function):
            raise ValueError(f"{name} must be a function of two values. Got {brief(function)}.")
    assert callable(add)
    assert callable(multiply)
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
