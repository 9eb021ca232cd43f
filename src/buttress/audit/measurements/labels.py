"""How many training labels would have to be wrong: counted exactly where predictions are linear in the labels.

For that a machine is fitted that nothing else is measured of, and that is not recommended: a least-squares classifier,
tuned to stand as many wrong labels as there may be. Beside it stands the majority class, which it has to beat, and
which it becomes where it is asked to stand more than models can.
"""

import math

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import agreeing, counted
from buttress._types import Predictor
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measurements.judged import JUDGED
from buttress.audit.measuring.cells import Cell, accuracy, balanced_accuracy, median_error
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.shown import Hanging, WrongLabels
from buttress.audit.measuring.split_table import Places, SplitTable
from buttress.audit.measuring.suspicion import Plain, plain
from buttress.certificates.training.flips import TrainingFlips, training_flips
from buttress.certificates.training.hinge import is_hinge_machine
from buttress.least_squares import LeastSquaresClassifier

MACHINE = "least squares"
MOST_ROWS = 2_500  # that the machine is fitted to: its time grows with their cube
SHARES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # of the training labels: the curve


def _take(split: SplitTable, measured: Measured) -> Course:
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


LABELS = Measurement("wrong labels it would take", _take, Cost(0.7, rows=1.5, classes=1.0), (AS_IS.name, JUDGED.name),
                     lambda split: split.classifies and len(np.unique(split.train.y)) <= 20)  # each pair is counted
