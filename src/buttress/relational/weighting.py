"""Weighting of the label's rows."""

import numpy as np

from buttress.relational.plan import Plan


def weigh_label_rows(plan: Plan) -> None:
    """Divide the weight of every row of the label's table by its number of join rows."""
    place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    counts = plan.counts[0].astype(np.float64)
    per_label_row = np.bincount(place, counts)
    plan.row_weight = 1 / per_label_row[place]
