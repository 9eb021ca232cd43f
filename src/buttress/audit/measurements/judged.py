"""Which targets look wrong: a robust fit judges each row without it, trained on or held out alike.

Of more rows than the fit is made of, the others are judged by it as rows that it has not seen.
"""

import numpy as np

from buttress._suggest import agreeing, counted
from buttress.audit.baselines import takes_logarithms
from buttress.audit.measuring.judging import CHUNK, judge_others, with_others
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import Places, SplitTable
from buttress.audit.measuring.suspicion import Verdicts, judge, plain


def _take(split: SplitTable, measured: Measured) -> Course:
    yield "judging labels: a robust fit", 0.0
    known = np.concatenate([split.train.places, split.test.places])
    others = np.setdiff1d(np.arange(len(split.table)), known)
    if split.options.rows:  # the user said which rows are used
        others = others[:0]
    others = np.random.default_rng(split.options.seed).permutation(others)
    more = others[: max(0, split.plan.judging - len(known))]
    fitted = np.concatenate([more, known])
    logarithms = takes_logarithms(split.table, split.task)
    first, model = judge(split.prepared(fitted), split.table.target[fitted], split.task, held_out=len(split.test),
                         seed=split.options.seed, logarithms=logarithms)
    waiting = others[len(more) :]
    course = judge_others(model, first, split.prepared, split.table.target, fitted, waiting, logarithms)
    parts = []
    for left in range(len(waiting), 0, -CHUNK):
        yield f"judging labels: {left} rows to go", 1 - 0.5 * left / len(waiting)
        parts.append(next(course))
    result = Measured()
    result.verdicts, result.judged = with_others(first, parts, split.table.target, np.concatenate([fitted, waiting]),
                                                 split.test.places)
    result.on = {"rows of the fit that judges targets": f"{len(fitted)} of {len(split.table)}",
                 "rows whose targets are judged": f"{len(result.judged)} of {len(split.table)}"}
    result.told = [_counted_wrong(split, first, fitted)]
    if len(result.judged) > len(fitted):
        result.notes = [f"Labels were judged by a robust fit of {len(fitted)} rows: those without themselves, "
                        f"{len(result.judged) - len(fitted)} others as it had not seen them."]
    return result


def _counted_wrong(split: SplitTable, verdicts: Verdicts, fitted: Places) -> str:
    """Return how many targets look wrong among the rows of the robust fit, and the first of them."""
    kind = "label" if split.classifies else "target"
    places = np.flatnonzero(verdicts.wrong)
    if not len(places):
        low, high = verdicts.interval
        return (f"No single {kind} of the first {len(fitted)} rows judged stands out; between {low:.0%} and {high:.0%} "
                "may be wrong.")
    worst = places[verdicts.probability[places].argmax()]
    given, expected = (plain(labels[worst]) for labels in (verdicts.given, verdicts.expected))
    row = plain(split.table.row_numbers[fitted[worst]])
    return (f"{counted(len(places), kind)} of the first {len(fitted)} rows judged "
            f"{agreeing(len(places), 'looks', 'look')} wrong, such as row {row}: given {given!r}, expected "
            f"{expected!r}.")


JUDGED = Measurement("wrong targets", _take, Cost(4.0, rows=1.0))
