"""What following the advice gains: today's score beside that of the recommended model, with targets corrected or not.

Scores are on held-out rows whose targets nobody would correct, so that no correction is its own judge. Left out are
those that look wrong, which are hard for any model: all these scores are a little better than those of the table.
"""


import numpy as np
from numpy.typing import NDArray

from buttress._types import Labels, Mask
from buttress.audit.baselines import NAMES
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measurements.judged import JUDGED
from buttress.audit.measuring.cells import (
    Cell,
    accuracy,
    balanced,
    balanced_accuracy,
    drawn_mean,
    mean_loss,
    root_mean,
    standard_error,
)
from buttress.audit.measuring.choosing import recommended
from buttress.audit.measuring.fitting import answers, fitted
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.shown import Gain
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.options import Metric


def _take(split: SplitTable, measured: Measured) -> Course:
    after = recommended(split, measured)
    if after is None or measured.verdicts is None:
        return Measured()
    yield f"{after}: with the corrections", 0.0
    untouched = ~np.isin(split.test.places, measured.judged[measured.verdicts.wrong])
    before = next((name for name in measured.answers if split.yours is not None and name == split.yours.name),
                  next(name for name in split.entries if name not in NAMES))
    if not untouched.any():
        return Measured()
    y, corrected = _corrected(split, measured)
    model = fitted(split, after, split.unfitted[after], y, quiet=True).model if corrected else measured.models[after]
    given = [measured.answers[before], measured.answers[after], answers(model, split.test.taken_by(after))]
    scores = _compared(split, untouched, *(answer[untouched] for answer in given))
    return Measured(gain=Gain(before, after, int(untouched.sum()), corrected, *scores))


def _compared(split: SplitTable, rows: Mask, first: Labels, second: Labels, last: Labels) -> tuple[Cell, ...]:
    """Return the scores of three sets of answers on some held-out rows, and how much better the last is than the first.

    All are by the metric that models are compared by.
    """
    y, seed, given = split.test.y[rows], split.options.seed, (first, second, last)
    together = None if split.test.together is None else split.test.together[rows]
    if split.classifies:
        balances = split.metric == Metric.balanced_accuracy
        scores = [balanced_accuracy(answer == y, y, together) if balances else accuracy(answer == y, together)
                  for answer in given]
        better = (last == y).astype(np.float64) - (first == y)
        value, spread = balanced(better, y) if balances else (float(better.mean()), better)
        half = 1.96 * standard_error(spread, together)
        return *scores, Cell(value, value - half, value + half)
    score, power = (root_mean, 2.0) if split.metric == Metric.rmse else (mean_loss, 1.0)
    losses = [np.abs(answer - y) ** power for answer in given]
    scores = [score(loss, seed, together) for loss in losses]
    drawn = [drawn_mean(loss, seed, together) ** (1 / power) for loss in (losses[0], losses[2])]
    low, high = np.quantile(drawn[0] - drawn[1], [0.025, 0.975])
    return *scores, Cell((scores[0].value or 0.0) - (scores[2].value or 0.0), float(low), float(high))


def _corrected(split: SplitTable, measured: Measured) -> tuple[Labels, int]:
    """Return the training targets with those that look wrong as they are expected to be, and how many those are."""
    verdicts = measured.verdicts
    assert verdicts is not None
    y: NDArray[np.generic] = split.train.y.copy()
    _, mine, theirs = np.intersect1d(split.train.places, measured.judged[verdicts.wrong], return_indices=True)
    y[mine] = verdicts.expected[verdicts.wrong][theirs]
    return y, len(mine)


GAINED = Measurement("what the advice gains", _take, Cost(1.0, rows=1.3), (AS_IS.name, JUDGED.name))
