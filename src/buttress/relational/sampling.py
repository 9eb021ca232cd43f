"""Uniform rows of a join that is never materialised, by exact counts along the join tree.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state

from buttress._checks import Array, check_count
from buttress.relational.declare import Join
from buttress.relational.plan import Index, Node, Plan, count_rows
from buttress.relational.prepare import prepare


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

    def __init__(self, join: Join, *, weighted: bool = False, random_state: Any = None):
        self.join = join
        self.weighted = weighted
        self.random_state = random_state
        self.plan_ = prepare(join, intercept=False)
        self.n_rows_ = self.plan_.n_rows
        self.feature_names_ = [name for table in self.plan_.tables for name in table.names]
        self._rng = check_random_state(random_state)

    def take(self, numbers: Any) -> tuple[Array, NDArray[Any]]:
        """Return features (n, d) in original units and labels (n,) of the rows with the given numbers."""
        return self._design(unrank(self.plan_, _numbers(numbers, self.n_rows_)))

    def rows(self, numbers: Any) -> dict[str, Index]:
        """Return for each table the row number in its source of each join row; -1 where a left join found none."""
        found = table_rows(self.plan_, unrank(self.plan_, _numbers(numbers, self.n_rows_)))
        out = {}
        for table, place in zip(self.plan_.tables, found):
            out[table.name] = np.append(table.rows, -1)[np.minimum(place, len(table.rows))]
        return out

    def sample(self, n: int) -> tuple[Array, NDArray[Any]]:
        """Return n rows drawn with repetition: features (n, d) in original units and labels (n,)."""
        check_count("n", n)
        return self._design(draw(self.plan_, n, self._rng, weighted=self.weighted))

    def batches(self, batch_size: int = 1000, n_batches: int | None = None) -> Iterator[tuple[Array, NDArray[Any]]]:
        """Yield ``n_batches`` samples (without end when None), for ``partial_fit`` and the like."""
        check_count("batch_size", batch_size)
        done = 0
        while n_batches is None or done < n_batches:
            yield self.sample(batch_size)
            done += 1

    def _design(self, rows: list[Index]) -> tuple[Array, NDArray[Any]]:
        plan = self.plan_
        X = scaled_design(plan, rows) * np.concatenate([table.scale for table in plan.tables])
        y = plan.y[rows[0]]
        return X, y if plan.classes is None else plan.classes[(y > 0).astype(int)]


def _numbers(numbers: Any, n_rows: int) -> NDArray[Any]:
    ranks = np.asarray(list(numbers) if not isinstance(numbers, np.ndarray) else numbers)
    if ranks.size and not (ranks.min() >= 0 and ranks.max() < n_rows):
        raise ValueError(f"Row numbers must be in [0, {n_rows}). Got {ranks.min()} to {ranks.max()}.")
    return ranks if n_rows >= 2**62 else ranks.astype(np.int64)


def unrank(plan: Plan, ranks: NDArray[Any]) -> list[Index]:
    """Return the row of every node for join rows given by number, by division with remainder down the tree."""
    rows: list[Any] = [None] * len(plan.nodes)
    rest: list[Any] = [None] * len(plan.nodes)
    kind: Any = plan.counts[0].dtype
    ends = np.cumsum(plan.counts[0])
    rows[0], rest[0] = _locate(ends, ranks.astype(kind))
    for i, node in enumerate(plan.nodes):
        left = rest[i]
        for child, key in node.down.items():
            below = plan.nodes[child]
            ends = np.cumsum(plan.counts[child])
            total, base = _groups(below, ends)
            groups = key[rows[i]]
            inside, left = left % total[groups], left // total[groups]
            rows[child], rest[child] = _locate(ends, base[groups] + inside)
    return rows


def _groups(node: Node, ends: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each key's total and where its range begins, from the running totals of the node's rows."""
    last = ends[np.searchsorted(node.key, np.arange(node.n_keys), side="right") - 1]
    base = np.concatenate([np.zeros(1, dtype=ends.dtype), last[:-1]])
    return last - base, base


def _locate(ends: NDArray[Any], position: NDArray[Any]) -> tuple[Index, NDArray[Any]]:
    row = np.searchsorted(ends, position, side="right")
    start = np.where(row > 0, ends[row - 1], 0)
    return row, position - start


def draw(plan: Plan, n: int, rng: Any, *, weighted: bool) -> list[Index]:
    """Return the nodes' rows of n join rows drawn with repetition, uniformly or by weight."""
    if not weighted and plan.n_rows < 2**62:
        return unrank(plan, rng.randint(0, plan.n_rows, size=n, dtype=np.int64))
    if not weighted:
        source = random.Random(int(rng.randint(2**31)))
        return unrank(plan, np.array([source.randrange(plan.n_rows) for _ in range(n)], dtype=object))
    counts = count_rows(plan.nodes, plan.weights())
    rows: list[Any] = [None] * len(plan.nodes)
    ends = np.cumsum(counts[0])
    rows[0] = _pick(ends, rng.uniform(size=n) * ends[-1], counts[0])
    for i, node in enumerate(plan.nodes):
        for child, key in node.down.items():
            ends = np.cumsum(counts[child])
            total, base = _groups(plan.nodes[child], ends)
            groups = key[rows[i]]
            rows[child] = _pick(ends, base[groups] + rng.uniform(size=n) * total[groups], counts[child])
    return rows


def _pick(ends: Array, position: Array, counts: Array) -> Index:
    """Return the row at each position of the running totals, never one of weight zero."""
    positive = np.flatnonzero(counts > 0)
    return positive[np.minimum(np.searchsorted(ends[positive], position, side="right"), len(positive) - 1)]


def table_rows(plan: Plan, rows: list[Index]) -> list[Index]:
    """Return each table's row from the nodes' rows."""
    found: list[Any] = [None] * len(plan.tables)
    for node, row in zip(plan.nodes, rows):
        for table, place in node.members:
            found[table] = place[row]
    return found


def scaled_design(plan: Plan, rows: list[Index]) -> Array:
    """Return the scaled features (n, plan.width) of join rows given by the nodes' rows."""
    blocks = [table.X[place] for table, place in zip(plan.tables, table_rows(plan, rows))]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr").toarray()
    return np.hstack(blocks)
