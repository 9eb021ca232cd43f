"""The plan of an audit: how much of everything is measured, by a fixed rule from the size and kind of the table.

No clock is read: the same table gets the same plan on any machine, busy or idle. The sizes are those at which a table
of 50 columns and two classes takes about ten seconds, a minute and five minutes on one core.
"""

from dataclasses import dataclass, replace

from buttress.audit.options import Effort, Options
from buttress.audit.reading.table import Table


@dataclass(frozen=True)
class Plan:
    """How much is measured: rows, unless it says otherwise."""

    trained: int  # that the models are fitted to
    held_out: int  # that they are scored on and attacked on
    prepared_by: int  # whose medians, means and deviations prepare all rows
    shares: tuple[float, ...]  # of the training targets that are made wrong
    radii: tuple[float, ...]  # of attacks, in multiples of eps
    programs: float  # work of an exact attack on trees, about a tenth of a millisecond each (``attacks.exact``)
    queries: float  # predictions asked of a model without gradients, an attack or a search
    judging: int  # of the fit that judges targets
    novelty: int  # that held-out rows are compared with


PLANS = {
    Effort.quick: Plan(400, 250, 50_000, (0.1, 0.3), (1.0,), 5e3, 2e5, 2_000, 2_000),
    Effort.standard: Plan(1_000, 500, 50_000, (0.1, 0.3), (0.5, 1.0, 2.0), 5e4, 5e5, 40_000, 5_000),
    Effort.thorough: Plan(2_500, 2_000, 50_000, (0.1, 0.2, 0.3, 0.4), (0.25, 0.5, 1.0, 1.5, 2.0), 1e6, 5e6, 40_000,
                          20_000),
}


def plan_of(table: Table, task: str, options: Options) -> Plan:
    """Return the plan for a table: fewer rows are trained on where there are many classes, each of which costs a fit.

    The rows that the user asked for are those trained on, and all that the targets are judged by.
    """
    plan = PLANS[Effort(options.effort)]
    if options.rows is not None:
        return replace(plan, trained=options.rows)
    classes = int(table.target_codes.max()) + 1 if task == "classification" else 2
    # eighty rows, however many classes there are
    return replace(plan, trained=max(80, int(plan.trained * (2 / max(2, classes)) ** 0.5)))
