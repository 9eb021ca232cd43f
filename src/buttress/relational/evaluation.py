"""A query over the rows of a join, in any commutative semiring, under no or one additive inequality (FAQ-AI).

    SumProd   Q = sum over the rows x of the join with g(x) <= L of   prod_i F_i(x_i)
    SumSum    Q = sum over the same rows of                           sum_i F_i(x_i)

where g(x) = sum_j g_j(x_j), the x_i are columns, and "sum" and "prod" are the semiring's. The join is never listed.

Source: Abo Khamis et al., On functional aggregate queries with additive inequalities, PODS 2019; section B.4 of
Abo-Khamis, Im, Moseley, Pruhs & Samadian (APOCS 2021).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, check_number, check_option
from buttress.relational.checks import EmptyJoinError
from buttress.relational.counting.lists import COUNTING, DECLARED, Semiring
from buttress.relational.counting.queries import Answer, below, root_list, thresholds
from buttress.relational.declare import Join
from buttress.relational.plan.plan import Plan
from buttress.relational.plan.prepare import prepare_with
from buttress.relational.query_checks import (
    FACTORS,
    Function,
    Functions,
    Inequality,
    ScoreTerms,
    check_domain,
    check_eps,
    check_functions,
    check_inequality,
    check_ring,
    check_scores,
    coefficient,
)
from buttress.relational.sources.columns import Column, objects

SCORES = Semiring("", np.minimum, np.add, zero=np.inf, one=0.0)  # a row's score is the sum of those of its columns


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
    eps: float | None = None,
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
        SumProd or SumSum, which is a sum of SumProds, one for each of the columns.
    where : (dict of "table.column" to a coefficient or a function, threshold) or None
        Only rows with sum_j g_j(x_j) <= threshold take part.
    eps : float in [1e-4, 1] or None
        For products of "counting" or "sum-product" with values of at least 0: where the distinct scores are too many to
        list, sums are kept within a factor of 1 + eps, as the source's rank sketches do, and scores as they are. None
        rounds scores instead.

    Returns
    -------
    Answer
        Exact, in the numbers of the semiring, where the distinct scores below the first table can be listed, and
        without an inequality always; else with its error. Of no rows it is the semiring's zero.

    Raises
    ------
    ValueError
        For two inequalities, left joins, columns that are not there, NULLs in a named
        column, functions that do not return one value a row, values outside the semiring, or ``eps`` with another
        ring, form or values below 0.
    MemoryError
        Where even the sketches of ``eps`` are too many to hold.

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
    _check_join(join)
    check_option("form", form, ("product", "sum"))
    if not isinstance(ring, Semiring):
        check_option("ring", ring, tuple(DECLARED))
    rule = ring if isinstance(ring, Semiring) else DECLARED[ring]
    functions = check_functions(values)
    check_eps(eps, rule, form)
    scores, threshold = check_inequality(where, len(join.tables))
    terms = {join.find_column(key): function for key, function in functions.items()}
    parts = {join.find_column(key): coefficient(key, g) for key, g in scores.items()}
    try:
        plan, columns = _read(join, [*terms, *parts])
    except EmptyJoinError:
        return Answer(rule.zero, rule.zero, rule.zero, 0.0)
    apart = [terms] if form == "product" else [{at: function} for at, function in terms.items()]
    annotations = [_annotations(plan, columns, rule, some) for some in apart]
    if eps is not None and any((node < 0).any() for nodes in annotations for node in nodes):
        raise ValueError("With eps the values must be at least 0. Leave eps out.")
    sums = _node_sums(plan, columns, parts)
    return _added(rule, [below(plan, sums, rule, nodes, threshold, eps) for nodes in annotations])


def score_thresholds(join: Join, scores: ScoreTerms, *, eps: float = 0.1) -> tuple[Array, Array]:
    """Return which scores are reached by 1, 1 + eps, (1 + eps)^2, ... rows of a join: the source's arrays H_k.

    H_k is the largest H such that at least (1 + eps)^k rows of the join have sum_j g_j(x_j) >= H.

    Parameters
    ----------
    join : Join
        Inner joins only; labels and weights play no part.
    scores : dict of "table.column" to a coefficient or a function of an array
        The g_j.
    eps : float in [1e-4, 1]

    Returns
    -------
    thresholds : ndarray (K,), descending
    rows : ndarray (K,), (1 + eps)^k
        Both empty for a join of no rows.

    Raises
    ------
    ValueError
        As :func:`evaluate`.
    MemoryError
        Where the join's distinct scores are too many to list.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, Table, score_thresholds
    >>> loan = pd.DataFrame({"account": [1, 1, 2], "sum": [10.0, 20.0, 5.0]})
    >>> account = pd.DataFrame({"id": [1, 2, 2], "age": [30.0, 50.0, 60.0]})
    >>> join = Join([Table("loan", loan), Table("account", account)], on=[("loan.account", "account.id")])
    >>> [part.tolist() for part in score_thresholds(join, {"loan.sum": 1.0, "account.age": 1.0}, eps=1.0)]
    [[65.0, 55.0, 40.0], [1.0, 2.0, 4.0]]
    """
    _check_join(join)
    check_number("eps", eps, *FACTORS, closed="both")
    parts = {join.find_column(key): coefficient(key, g) for key, g in check_scores(scores).items()}
    try:
        plan, columns = _read(join, list(parts))
    except EmptyJoinError:
        return np.zeros(0), np.zeros(0)
    lists = root_list(plan, _node_sums(plan, columns, parts), COUNTING, [np.ones((n.n_rows, 1)) for n in plan.nodes])
    return thresholds(lists.score, lists.value[:, 0], eps)


def _check_join(join: object) -> None:
    if not isinstance(join, Join):
        raise ValueError(f"Queries are over a Join. Got {type(join).__name__}. For one table use "
                         "Join([Table(name, source)]).")


def _read(join: Join, wanted: Sequence[tuple[int, str]]) -> tuple[Plan, list[dict[str, Column]]]:
    """Return the plan of a join's rows, labels and weights aside, and each table's wanted columns (its place, name)."""
    if any("left" in pair[2:] for pair in join.on):
        raise ValueError("Queries are over inner joins. Got a left join. Leave out 'left', or add a row for what is "
                         "missing.")
    return prepare_with(join.bare(), wanted, intercept=False, root=join.root)


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
    if ring is not None:
        found: NDArray[Any] = check_domain(where, returned, ring)
    else:  # a list of tuples is an array of objects
        found = objects(returned) if isinstance(returned, list) else np.asarray(returned, dtype=object)
    if found.shape != (len(rows),):
        raise ValueError(f"The function of {where!r} must return one value for each of {len(rows)} rows. Got shape "
                         f"{found.shape}. Write it for arrays, as with np.vectorize.")
    return found


def _node_sums(plan: Plan, columns: list[dict[str, Column]],
               functions: dict[tuple[int, str], Function]) -> list[Array]:
    """Return for each node's rows the sum of functions of their columns."""
    return [sums[:, 0] for sums in _annotations(plan, columns, SCORES, functions)]


def _annotations(plan: Plan, columns: list[dict[str, Column]], rule: Semiring,
                 functions: dict[tuple[int, str], Function]) -> list[Array]:
    """Return each node's annotations: the product of functions of the columns of its rows."""
    declared = rule in (SCORES, DECLARED.get(rule.name))
    one: NDArray[Any] = np.array([rule.one], dtype=np.float64) if declared else objects([rule.one])
    annotations = [np.repeat(one[:, None], node.n_rows, axis=0) for node in plan.nodes]
    for at, function in functions.items():
        found = _applied(plan, columns, at, function, rule.name if declared else None)[:, None]
        for i, node in enumerate(plan.nodes):
            for table, place in node.members:
                if table == at[0]:
                    annotations[i] = rule.multiply(annotations[i], found[place])
    return annotations


def _added(rule: Semiring, answers: Sequence[Answer]) -> Answer:
    """Return the sum of answers: the sum over rows of a sum is that of its terms' sums over the same rows."""
    value, sure, possible = (rule.add.reduce(objects([rule.zero, *parts])) for parts in (
        [answer.value for answer in answers], [answer.sure for answer in answers],
        [answer.possible for answer in answers]))
    return Answer(value, sure, possible, max((answer.score_error for answer in answers), default=0.0))
