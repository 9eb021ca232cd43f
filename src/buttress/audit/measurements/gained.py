"""What following the advice gains: today's score beside that of the recommended model, with targets corrected or not.

Scores are on held-out rows whose targets nobody would correct, so that no correction is its own judge. Left out are
those that look wrong, which are hard for any model: all these scores are a little better than those of the table.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress._types import Mask
from buttress.audit.baselines import NAMES
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measurements.judged import JUDGED
from buttress.audit.measuring.cells import Cell, accuracy, drawn_mean, rmse, standard_error
from buttress.audit.measuring.choosing import recommended
from buttress.audit.measuring.fitting import fitted
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.protocols import Labels


@dataclass(frozen=True)
class Gain:
    """Scores on ``rows`` held-out rows: of the model ``before`` as the data are, of the one ``after``, and of that one
    trained on ``corrected`` targets; accuracies, or RMSE. ``gained`` is by how much the last is better than the first.
    """

    before: str
    after: str
    rows: int
    corrected: int
    today: Cell
    model: Cell
    both: Cell
    gained: Cell


def _take(split: SplitTable, measured: Measured) -> Course:
    after = recommended(split, measured)
    if after is None or measured.verdicts is None:
        return Measured()
    yield f"{after}: with the corrections", 0.0
    wrong = measured.judged[measured.verdicts.wrong]
    untouched = ~np.isin(split.test.places, wrong)
    before = next((name for name in measured.answers if split.yours is not None and name == split.yours.name),
                  next(name for name in split.entries if name not in NAMES))
    if not untouched.any():
        return Measured()
    y, corrected = _corrected(split, measured)
    model = fitted(split, after, split.unfitted[after], y, quiet=True).model if corrected else measured.models[after]
    answers = [measured.answers[before], measured.answers[after], model.predict(split.test.taken_by(after))]
    scores = _compared(split, untouched, *(answer[untouched] for answer in answers))
    return Measured(gain=Gain(before, after, int(untouched.sum()), corrected, *scores))


def _compared(split: SplitTable, rows: Mask, first: Labels, second: Labels, last: Labels) -> tuple[Cell, ...]:
    """Return the scores of three sets of answers on some held-out rows, and how much better the last is than the first.
    """
    y, seed = split.test.y[rows], split.options.seed
    together = None if split.test.together is None else split.test.together[rows]
    if split.classifies:
        better = (last == y).astype(np.float64) - (first == y)
        value, half = float(better.mean()), 1.96 * standard_error(better, together)
        scores = [accuracy(answer == y, together) for answer in (first, second, last)]
        return *scores, Cell(value, value - half, value + half)
    scores = [rmse(answer - y, seed, together) for answer in (first, second, last)]
    drawn = [np.sqrt(drawn_mean((answer - y) ** 2, seed, together)) for answer in (first, last)]
    low, high = np.quantile(drawn[0] - drawn[1], [0.025, 0.975])
    return *scores, Cell((scores[0].value or 0.0) - (scores[2].value or 0.0), float(low), float(high))


def _corrected(split: SplitTable, measured: Measured) -> tuple[Labels, int]:
    """Return the training targets with those that look wrong as they are expected to be, and how many those are."""
    verdicts = measured.verdicts
    assert verdicts is not None
    y: NDArray[np.generic] = split.train.y.copy()
    place = {int(row): k for k, row in enumerate(split.train.places)}
    changed = [(place[int(measured.judged[i])], verdicts.expected[i]) for i in np.flatnonzero(verdicts.wrong)
               if int(measured.judged[i]) in place]
    for k, expected in changed:
        y[k] = expected
    return y, len(changed)


GAINED = Measurement("what the advice gains", _take, Cost(0.5), (AS_IS.name, JUDGED.name))
