"""The exact oracle of rows that are all here, and the mean features of the join rows of each label row."""

from typing import Any

import numpy as np
from scipy import sparse

from buttress._checks import Array
from buttress.relational.counting.margins import Evaluation, MarginLoss, evaluation
from buttress.relational.plan.plan import Index, Plan, count_rows


class ListedOracle:
    """Evaluate the mean loss over rows that are all here: exact, so there is nothing to refine.

    ``X`` (n, width) holds scaled features, ``y`` -1/+1, ``weight`` the rows' weights.
    """

    can_refine = False

    def __init__(self, X: Array, y: Array, weight: Array):
        self.X = X
        self.y = y
        self.weight = weight
        self.total = float(weight.sum())

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = 0) -> Evaluation:
        """Return the plane and the bounds, which are equal, at ``beta``."""
        z = self.y * (self.X @ beta)
        mass = self.weight / self.total
        b = self.X.T @ (mass * self.y * loss.slope(z))
        return evaluation(loss, beta, np.asarray(b), z, mass, 0.0)

    def sample(self, n: int) -> tuple[Array, Array, Array]:
        """Return all rows of positive weight: features, labels and weights."""
        kept = self.weight > 0
        return self.X[kept], self.y[kept], self.weight[kept]


def label_means(plan: Plan) -> tuple[Array, Array, Array]:
    """Return a row for each row of the label's table that takes part in the join.

    Returns the mean scaled features of its join rows (n, plan.width), its label -1/+1, and their total weight.

    A score is linear in the features, so the mean score of an entity's join rows is the score of their mean features.
    These are found by one pass up the tree per table, a row a key at a time.
    """
    counts = count_rows(plan.nodes, plan.weights())
    place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    entity, place = np.unique(place, return_inverse=True)
    blocks: list[Any] = [None] * len(plan.tables)
    for i, node in enumerate(plan.nodes):
        for t, rows in node.members:
            blocks[t] = _up(plan, i, plan.tables[t].X[rows], counts, place)
    y = np.zeros(len(entity))
    y[place] = plan.y
    dense = [block.toarray() if sparse.issparse(block) else block for block in blocks]
    weight: Array = np.bincount(place, counts[0].astype(np.float64), len(entity)).astype(np.float64)
    return np.hstack(dense), y, weight


def _up(plan: Plan, i: int, values: Any, counts: list[Any], entity: Index) -> Any:
    """Return the means of a node's rows over the join rows of each entity."""
    while i > 0:
        node = plan.nodes[i]
        means = _means(values, node.key, counts[i], node.n_keys)
        values = means[plan.nodes[node.parent].down[i]]
        i = node.parent
    return _means(values, entity, counts[0], int(entity.max(initial=-1)) + 1)


def _means(values: Any, group: Index, weight: Array, n_groups: int) -> Any:
    """Return the weighted mean of rows of each group, 0 where all weights are."""
    weight = weight.astype(np.float64)
    mass = np.bincount(group, weight, n_groups)
    share = np.divide(weight, mass[group], out=np.zeros(len(weight)), where=mass[group] > 0)
    return sparse.csr_array((share, (group, np.arange(len(group)))), shape=(n_groups, len(group))) @ values
