"""All rows of a small join by one SELECT, and the exact oracle of rows that are listed."""

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.margins import Evaluation, MarginLoss, evaluation
from buttress.relational.sql.text import SqlTree, base, fan_out, own_weight, same, weight_columns


def every_row(tree: SqlTree) -> str:
    """Return the SELECT of the join's rows: label side, weight, features in the order of the nodes."""
    parts = []
    for i in reversed(tree.order):
        columns = [*weight_columns(tree, i), *(f"{name} AS x{j}" for j, name in enumerate(tree.nodes[i].features))]
        parts.append(f"t{i} AS ({base(tree, i, ', '.join(columns))})")
        if tree.per_label_row and i != tree.root:
            parts.append(f"f{i} AS ({fan_out(tree, i)})")
    weight, more = own_weight(tree, tree.root)
    parts.append(f"w AS (SELECT t.*, {weight} AS mass FROM t{tree.root} t {more})")
    alias = {i: "w" if i == tree.root else f"t{i}" for i in tree.order}
    joined = ["w"]
    for i in tree.order[1:]:
        node = tree.nodes[i]
        how = "LEFT JOIN" if node.optional else "JOIN"
        joined.append(f"{how} t{i} ON {same(alias[node.parent], alias[i], node.shared)}")
    one = tree.dialect.number(1.0)
    mass = " * ".join(["w.mass", *(f"COALESCE(t{i}.w, {one})" for i in tree.order[1:])])
    names = [f"{alias[i]}.x{j}" for i, node in enumerate(tree.nodes) for j in range(len(node.features))]
    return f"WITH {', '.join(parts)} SELECT {', '.join(['w.side', mass, *names])} FROM {' '.join(joined)}"


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
        """Return all rows of positive weight, which are few: features, labels and weights."""
        kept = self.weight > 0
        return self.X[kept], self.y[kept], self.weight[kept]
