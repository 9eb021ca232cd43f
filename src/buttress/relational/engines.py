"""Where a join is counted: in this process."""

from typing import Any

import numpy as np

from buttress.relational.declare import Join
from buttress.relational.grid import GridOracle
from buttress.relational.plan import Plan
from buttress.relational.prepare import prepare
from buttress.relational.rank import RankOracle
from buttress.relational.sampling import unrank
from buttress.relational.weighting import weigh_label_rows


def choose_oracle(join: Join, model: Any) -> tuple[Any, Plan]:
    """Return the oracle for a join and its plan, by the model's engine, sketch and row_weight."""
    plan = prepare(join, intercept=model.fit_intercept)
    if model.row_weight == "label_row":
        weigh_label_rows(plan)
    return memory_oracle(plan, model), plan


def memory_oracle(plan: Plan, model: Any) -> Any:
    """Return the in-process oracle of a plan for a model's sketch; few rows (at most ``n_samples``) are listed."""
    if model.sketch == "rank":
        return RankOracle(plan, error=model.sketch_error)
    few = plan.n_rows <= model.n_samples
    return GridOracle(plan, rows=unrank(plan, np.arange(plan.n_rows)) if few else None)
