"""Wrong targets: which look wrong, how many would have to be to change predictions, and what correcting them gains.

A robust fit judges each row without it, trained on or held out alike. Of more rows than the fit is made of, the others
are judged by it as rows that it has not seen.

How many labels would have to be wrong is counted exactly where predictions are linear in the labels. For that a machine
is fitted that nothing else is measured of, and that is not recommended: a least-squares classifier, tuned to stand as
many wrong labels as there may be. Beside it stands the majority class, which it has to beat, and which it becomes where
it is asked to stand more than models can.

Following the advice gains today's score beside that of the recommended model, with targets corrected or not. Scores are
on held-out rows whose targets nobody would correct, so that no correction is its own judge. Left out are those that
look wrong, which are hard for any model: all these scores are a little better than those of the table.
"""

import math

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import agreeing, counted
from buttress._types import Labels, Mask, Predictor
from buttress.audit.baselines import NAMES, takes_logarithms
from buttress.audit.measurements.scores import AS_IS
from buttress.audit.measuring.cells import (
    Cell,
    accuracy,
    balanced,
    balanced_accuracy,
    drawn_mean,
    mean_loss,
    median_error,
    root_mean,
    standard_error,
)
from buttress.audit.measuring.fits import answers, fitted, recommended
from buttress.audit.measuring.judging import CHUNK, judged_by, with_others
from buttress.audit.measuring.measurement import Cost, Gain, Hanging, Measured, Measurement, Stages, WrongLabels
from buttress.audit.measuring.split_table import Places, SplitTable
from buttress.audit.measuring.suspicion import Plain, judge, nearest, plain
from buttress.audit.options import Metric
from buttress.certificates.training.flips import TrainingFlips, training_flips
from buttress.certificates.training.hinge import is_hinge_machine
from buttress.least_squares import LeastSquaresClassifier


def _take_judged(split: SplitTable, measured: Measured) -> Stages:
    yield "judging labels: a robust fit", 0.0
    known = np.concatenate([split.train.places, split.test.places])
    others = np.setdiff1d(np.arange(len(split.table)), known)
    if split.options.rows:  # the user said which rows are used
        others = others[:0]
    others = np.random.default_rng(split.options.seed).permutation(others)
    more = others[: max(0, split.plan.judging - len(known))]
    fitted = np.concatenate([more, known])
    logarithms = takes_logarithms(split.table)
    target = split.table.target
    first, model = judge(split.prepared(fitted), target[fitted], split.table.task, seed=split.options.seed,
                         logarithms=logarithms)
    waiting = others[len(more) :]
    parts = []
    for start in range(0, len(waiting), CHUNK):
        yield f"judging labels: {len(waiting) - start} rows to go", 0.5 + 0.5 * start / len(waiting)
        rows = waiting[start : start + CHUNK]
        parts.append(judged_by(model, split.prepared(rows), target[rows], logarithms))
    result = Measured(judged=np.concatenate([fitted, waiting]))
    result.verdicts = with_others(first, parts, target[result.judged])
    result.verdicts.near = nearest(result.verdicts, result.judged, len(fitted), split.prepared)
    result.on = {"rows of the fit that judges targets": f"{len(fitted)} of {len(split.table)}",
                 "rows whose targets are judged": f"{len(result.judged)} of {len(split.table)}"}
    result.told = [result.verdicts.counts(len(split.table), np.isin(result.judged, split.test.places)).says()]
    if len(result.judged) > len(fitted):
        result.notes = [f"Labels were judged by a robust fit of {len(fitted)} rows: those without themselves, "
                        f"{len(result.judged) - len(fitted)} others as it had not seen them."]
    return result


JUDGED = Measurement("wrong targets", _take_judged, Cost(4.0, rows=1.0))


MACHINE = "least squares"
MOST_ROWS = 2_500  # that the machine is fitted to: its time grows with their cube
SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the training labels: the curve


def _needed(split: SplitTable, measured: Measured) -> Stages:
    yield f"{MACHINE}: how many labels would have to be wrong", 0.0
    assert measured.verdicts is not None
    high, places = measured.verdicts.interval[1], split.at_most(split.train.places, MOST_ROWS)
    X, y = split.prepared(places), split.table.target[places]
    labels = max(1, math.ceil(high * len(y)))
    # where more labels are wrong only the majority class stands: the machine is not tuned for them
    machine = LeastSquaresClassifier(alpha="loo", flips=min(labels, max(1, int(0.05 * len(y))))).fit(X, y)
    try:
        flips = training_flips(machine, X, y, split.test.X)
    except ValueError as why:
        return Measured(notes=[f"Wrong labels were not counted. {why}"])
    right = flips.prediction == split.test.y
    needed = {MACHINE: _capped(flips, right, len(y))}
    for name, model in measured.models.items():
        least = _flips_needed(split, name, model, measured.losses[name] == 0)
        needed |= {} if least is None else {name: least}
    result = _columns_and_curve(split, needed, len(y), labels)
    together = split.test.together
    result.cells |= {"as_is": {**measured.cells["as_is"], MACHINE: accuracy(right, together)}, "balanced": {
        **measured.cells["balanced"], MACHINE: balanced_accuracy(right, split.test.y, together)}}
    hanging = _hanging(split, measured, flips, places)
    proven = result.cells["labels_proven"]
    result.labels = WrongLabels(MACHINE, len(y), labels, high, result.cells["labels_needed"][MACHINE], proven[MACHINE],
                                proven[split.baseline], hanging)
    result.models = {MACHINE: machine}
    return result


def _capped(flips: TrainingFlips, right: NDArray[np.bool_], trained: int) -> NDArray[np.float64]:
    """Return the fewest wrong labels that make each row wrong: 0 where it is so already, at most all labels."""
    return np.where(right, np.minimum(flips.needed, trained), 0.0)


def _flips_needed(
    split: SplitTable, name: str, model: Predictor, right: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    """Return the same of a model of the table, None where it is not known exactly."""
    y = split.train.y
    if name == split.baseline:  # the majority loses its lead of two for each label; a tie counts as lost
        second, first = np.sort(np.unique(y, return_counts=True)[1])[-2:]
        return np.where(right, np.ceil((first - second) / 2), 0.0)
    if name not in split.unfitted or is_hinge_machine(getattr(model, "steps", [("", model)])[-1][1]):
        return None
    try:
        return _capped(training_flips(model, split.train.taken_by(name), y, split.test.taken_by(name)), right, len(y))
    except ValueError:  # it says of which models it is known
        return None


def _columns_and_curve(
    split: SplitTable, needed: dict[str, NDArray[np.float64]], trained: int, labels: int
) -> Measured:
    """Return the two columns and the curve."""
    result = Measured(columns={
        "labels_needed": f"how many of {trained} training labels would have to be wrong: the median held-out row",
        "labels_proven": f"share of held-out rows right whichever {counted(labels, 'training label')} "
                         f"{agreeing(labels, 'is', 'are')} wrong, proven"})
    result.cells = {key: {} for key in result.columns}
    result.curves["labels"] = {"x": list(SHARES)}
    for name, least in needed.items():
        middle = median_error(least, split.options.seed, split.test.together)
        result.cells["labels_needed"][name] = Cell(*(float(end(value)) for end, value in zip(
            (math.floor, math.floor, math.ceil), (middle.value or 0.0, middle.low or 0.0, middle.high or 0.0),
            strict=True)))
        result.cells["labels_proven"][name] = accuracy(least > labels, split.test.together)
        result.curves["labels"][name] = [float((least > math.floor(share * trained)).mean()) for share in SHARES]
    return result


def _hanging(split: SplitTable, measured: Measured, flips: TrainingFlips, trained: Places) -> list[Hanging]:
    """Return the training rows that look wrong or are borderline, those on which most predictions hang first."""
    assert measured.verdicts is not None
    doubtful = np.isin(trained, measured.judged[measured.verdicts.wrong | measured.verdicts.borderline])
    on: dict[int, list[Plain]] = {place: [] for place in trained[doubtful].tolist()}
    names = split.table.row_numbers
    for k in np.argsort(flips.needed, kind="stable"):
        for i in flips.rows[k][doubtful[flips.rows[k]]].tolist():
            on[int(trained[i])].append(plain(names[split.test.places[k]]))
    found = [Hanging(plain(names[place]), len(rows), rows[:10]) for place, rows in on.items()]
    return sorted(found, key=lambda one: -one.count)


LABELS = Measurement("wrong labels it would take", _needed, Cost(0.7, rows=1.5, classes=1.0), (AS_IS.name, JUDGED.name),
                     lambda split: split.classifies and len(np.unique(split.train.y)) <= 20)  # each pair is counted


def _take_gained(split: SplitTable, measured: Measured) -> Stages:
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
    model = fitted(split, after, split.unfitted[after], y)[0] if corrected else measured.models[after]
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


GAINED = Measurement("what the advice gains", _take_gained, Cost(1.0, rows=1.3), (AS_IS.name, JUDGED.name))
