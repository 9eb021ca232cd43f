"""Uniform rows of a join that is never materialised, by exact counts along the join tree.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from buttress._checks import Array, check_count
from buttress.relational.counting.rows import drawn, memory_nodes, scaled_design, table_rows, unrank
from buttress.relational.declare import Join
from buttress.relational.plan.plan import Index
from buttress.relational.plan.prepare import prepare

RowNumbers = Iterable[int] | NDArray[np.integer]


class JoinSampler:
    """Rows of a join by number, or drawn at random, without materialising it.

    Row numbers run from 0 to ``n_rows_ - 1`` and always mean the same rows, so that ranges of them can be shared out,
    resumed, or drawn without repetition.

    Parameters
    ----------
    join : Join
    weighted : bool, default=False
        Draw rows in proportion to the product of their tables' weights instead of uniformly.
    random_state : int, RandomState or None

    Attributes
    ----------
    n_rows_ : int
        Exact number of rows of the join.
    feature_names_ : list of str
        Names of the columns of X, ``table.column``, or ``table.column=value`` for one-hot columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, JoinSampler, Table
    >>> a = pd.DataFrame({"k": [1, 1, 2], "y": [0, 1, 1]})
    >>> b = pd.DataFrame({"k": [1, 1, 2], "x": [5.0, 6.0, 7.0]})
    >>> sampler = JoinSampler(Join([Table("a", a, label="y"), Table("b", b, features=["x"])], on=[("a.k", "b.k")]))
    >>> sampler.n_rows_
    5
    >>> X, y = sampler.take(range(5))
    >>> X.ravel(), y
    (array([5., 6., 5., 6., 7.]), array([0, 0, 1, 1, 1]))
    """

    def __init__(self, join: Join, *, weighted: bool = False, random_state: RandomState | int | None = None):
        self.join = join
        self.weighted = weighted
        self.random_state = random_state
        self.plan_ = prepare(join, intercept=False)
        self.n_rows_ = self.plan_.n_rows
        self.feature_names_ = [name for table in self.plan_.tables for name in table.names]
        self._rng = check_random_state(random_state)

    def take(self, numbers: RowNumbers) -> tuple[Array, NDArray[Any]]:
        """Return features (n, d) in original units and labels (n,) of the rows with the given numbers."""
        return self._design(unrank(self.plan_, _numbers(numbers, self.n_rows_)))

    def rows(self, numbers: RowNumbers) -> dict[str, Index]:
        """Return for each table the row number in its source of each join row; -1 where a left join found none."""
        found = table_rows(self.plan_, unrank(self.plan_, _numbers(numbers, self.n_rows_)))
        return {table.name: np.append(table.rows, -1)[np.minimum(place, len(table.rows))]
                for table, place in zip(self.plan_.tables, found)}

    def sample(self, n: int) -> tuple[Array, NDArray[Any]]:
        """Return n rows drawn with repetition: features (n, d) in original units and labels (n,)."""
        check_count("n", n)
        plan = self.plan_
        if self.weighted:
            return self._original(*drawn(memory_nodes(plan, fold=True, listed=0), plan.width, n, self._rng))
        if self.n_rows_ < 2**62:
            numbers = self._rng.randint(0, self.n_rows_, size=n, dtype=np.int64)
        else:
            source = random.Random(int(self._rng.randint(2**31)))
            numbers = np.array([source.randrange(self.n_rows_) for _ in range(n)], dtype=object)
        return self._design(unrank(plan, numbers))

    def _design(self, rows: list[Index]) -> tuple[Array, NDArray[Any]]:
        return self._original(scaled_design(self.plan_, rows), self.plan_.y[rows[0]])

    def _original(self, X: Array, y: Array) -> tuple[Array, NDArray[Any]]:
        """Return scaled features in original units, and labels -1/+1 as classes."""
        plan = self.plan_
        X = X * np.concatenate([table.scale for table in plan.tables])
        return X, y if plan.classes is None else plan.classes[(y > 0).astype(int)]


def _numbers(numbers: RowNumbers, n_rows: int) -> NDArray[Any]:
    ranks = np.asarray(list(numbers) if not isinstance(numbers, np.ndarray) else numbers)
    if ranks.size and not (ranks.min() >= 0 and ranks.max() < n_rows):
        raise ValueError(f"Row numbers must be in [0, {n_rows}). Got {ranks.min()} to {ranks.max()}.")
    return ranks if n_rows >= 2**62 else ranks.astype(np.int64)
