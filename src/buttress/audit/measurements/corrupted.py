"""What wrong training targets do: every estimator fitted again to targets of which a share is corrupt."""

from typing import Any

from buttress._types import Labels, Supervised
from buttress.audit.contenders import key_of, settled
from buttress.audit.keeping import kept_stage
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measuring.cells import Cell, accuracy, rmse
from buttress.audit.measuring.fitting import answers, fitted
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.checkpoints.memory import Memory
from buttress.datasets import contaminate


def _take(split: SplitTable, measured: Measured) -> Course:
    shares = split.plan.shares
    kind, says = ("flip", "accuracy, {:.0%} of training labels flipped") if split.classifies else (
        "noise", "RMSE, {:.0%} of training targets corrupted")
    columns = (0.1, 0.3)  # the shares that the table shows
    keys = {share: f"{'flipped' if kind == 'flip' else kind}_{share:.0%}".rstrip("%") for share in columns}
    found = Measured(columns={key: says.format(share) for share, key in keys.items()},
                     cells={key: {} for key in keys.values()})
    curve: dict[str, list[Any]] = {"x": [0.0, *shares]}
    curve |= {name: [measured.cells["as_is"][name].value] for name in split.entries}
    for k, share in enumerate(shares):
        _, dirty, _ = contaminate(split.train.X, split.train.y, share, kind, random_state=split.options.seed)
        known: dict[str, tuple[Cell, bool]] = {}
        for name, estimator in split.unfitted.items():
            again = settled(estimator, measured.models[name])
            key = key_of(name, again)
            if key not in known:  # of rows of the table that are one machine it is fitted once
                yield f"{share:.0%} of training targets corrupted: {name}", k / len(shares)
                known[key] = _scored(split, name, again, share, dirty)
            cell, converged = known[key]
            found.unfinished += [] if converged else [name]
            curve[name].append(cell.value)
            if share in keys:
                found.cells[keys[share]][name] = cell
    found.curves["noise"] = {name: values for name, values in curve.items() if name == "x" or len(values) > 1}
    return found


def _scored(
    split: SplitTable, name: str, estimator: Supervised, share: float, dirty: Labels
) -> tuple[Cell, bool]:
    """Return the score after a fit to such targets, and whether the fit converged."""

    def scored() -> Memory:
        fit = fitted(split, name, estimator, dirty, quiet=True)
        predicted, y = answers(fit.model, split.test.taken_by(name)), split.test.y
        cell = (accuracy(predicted == y, split.test.together) if split.classifies
                else rmse(predicted - y, split.options.seed, split.test.together))
        return {"cell": vars(cell), "converged": fit.converged}

    known = kept_stage(["corrupted", name, share], scored)
    return Cell(**known["cell"]), known["converged"]


CORRUPTED = Measurement("wrong training targets", _take, Cost(9.0, rows=1.3), needs=(AS_IS.name,))
