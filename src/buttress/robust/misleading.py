"""Warn where the rows named corrupt have something in common that genuine rows often have, and say what to do.

A mixture of good and corrupt targets explains three kinds of clean data well: one side of a step, or a group with rules
of its own; targets of which many are equal, such as sales that are mostly 0; and the long tail of skewed targets. The
data do not say which it is. So the fit stands, and the warning says what was seen.
"""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, warn_user
from buttress.robust.tuning import MISLEADING
from buttress.solvers.contamination.tuning import TRIMMING


def warn_of_misleading(y: Array, residual: Array, bad: NDArray[np.bool_], *, together: bool) -> None:
    """Warn where rows named corrupt, ``bad`` (n,), may well be genuine.

    ``residual`` (n,) are targets y less what is expected of them; ``together`` says whether bad rows lie together in X.
    """
    seen = what_they_share(y, residual, bad, together=together)
    if seen is not None:
        what, fix = seen
        warn_user(f"{bad.sum()} of {len(y)} rows are named corrupt, but {what}. Look at them with outlier_report. If "
                  f"they are genuine, {fix}, or fit with contamination=0.")


def what_they_share(
    y: Array, residual: Array, bad: NDArray[np.bool_], *, together: bool
) -> tuple[str, str] | None:
    """Return what bad rows have in common with genuine ones, and what to do then; None where nothing, or they are few.
    """
    if not enough(bad):
        return None
    if together:
        return ("they lie together in X, as one side of a step of the function does, or a group with rules of its own",
                "give the fit a column that tells the two sides apart")
    values, counts = np.unique(y, return_counts=True)
    most = int(counts.argmax())
    if counts[most] > TRIMMING.shared_share * len(y) and (y[~bad] == values[most]).any():
        return (f"{counts[most] / len(y):.0%} of the targets are equal ({values[most]:g}), so that these may pass for "
                "the good rows and the others for corrupt",
                "model apart whether a target has this value and how large the others are")
    above = float(np.mean(residual[bad] > 0))
    if max(above, 1 - above) >= MISLEADING.one_side:
        side = "above" if above > 0.5 else "below"
        return (f"they lie {side} what is expected, nearly all of them, as the long tail of prices or salaries does",
                "fit the logarithm of the targets" if side == "above" and y.min() > 0 else
                "fit a function of the targets that shortens the tail")
    return None


def enough(bad: NDArray[np.bool_]) -> bool:
    """Say whether the rows named corrupt are enough to ask what they have in common."""
    return bool(bad.sum() >= max(MISLEADING.named * len(bad), MISLEADING.fewest))
