"""The columns and curves of the audit about moves in the data as they came, of every estimator of the table."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from buttress.attacks.swaps import WRONG
from buttress.audit.baselines import reads_columns
from buttress.audit.fitted import takes_numbers
from buttress.audit.keeping import kept_stage
from buttress.audit.measuring.cells import Cell, accuracy, rmse
from buttress.audit.measuring.study import Study
from buttress.audit.moves.asking import Asked, InPlace, on_prepared_rows
from buttress.audit.moves.search import CORNERS, SWEEPS, blanks_of, swaps_of, worst_changes, worst_numbers
from buttress.audit.moves.space import Axis, Space
from buttress.checkpoints.memory import Memory

KINDS = ("moved", "swapped", "blanked")
RADII = (0.5, 1.0, 2.0)  # of moved numbers, in multiples of eps
MOST_CHANGED = 3  # cells of a row, at the end of a curve
FEWEST = 30  # rows: of fewer an interval of an accuracy is wider than .35
ONE_SEARCH = 0.04  # of the time left may go to one search of one estimator
PILOT = 20  # rows that, with all of them, tell how long a model takes to answer


def pose(study: Study) -> None:
    """Try a fitted model of the user's on a few rows, and settle which moves of its columns are measured.

    Sets ``space``, ``yours``, ``in_place`` (models that can be asked in no other way), ``moves`` and notes of it.
    """
    for name, model in study.entries.items():
        if name in study.unfitted:
            continue
        space = Space(study.table, study.raw, study.train)
        yours = InPlace(model, space, study.table.target, study.classifies)
        yours.try_rows(space.rows(study.test), name)
        study.notes += _keep_takeable(space, yours, study.test, name)
        study.space = space
        study.yours[name] = yours
        study.moves = _columns(study, space)
        if not takes_numbers(model, study.table):
            study.in_place.add(name)


def _columns(study: Study, space: Space) -> dict[str, str]:
    """Return the columns of the table, and what they say, for the moves there are in these data."""
    what, swaps = "accuracy" if study.classifies else "RMSE", study.options.swaps
    said = {}
    if any(axis.spread for axis in space.axes):
        said["moved"] = (f"{what}, numbers as they came moved by at most {study.options.eps:g} robust deviations to do "
                         "harm")
    if swaps_of(space.axes):
        cells = "one category" if swaps == 1 else f"at most {swaps} categories"
        said["swapped"] = f"{what}, {cells} of a row swapped for another one seen in training, to do harm"
    if blanks_of(space.axes):
        said["blanked"] = f"{what}, one cell of a row left empty, to do harm"
    return said


def _keep_takeable(space: Space, yours: InPlace, places: NDArray[np.intp], name: str) -> list[str]:
    """Take the empty cells out of the space that the user's model fails on, and return a sentence that says so."""
    some = space.rows(places[:PILOT])
    failing = []
    for k, axis in enumerate(space.axes):
        if axis.gap is not None:
            trial = some.copy()
            trial[:, axis.place] = axis.gap
            if yours.fails_on(trial):
                failing.append(axis.name)
                space.axes[k] = Axis(axis.name, axis.place, axis.spread, axis.whole, axis.levels, None)
    if not failing:
        return []
    more = f" and {len(failing) - 3} more" if len(failing) > 3 else ""
    return [f"{name} raises an error on rows with an empty cell in {', '.join(map(repr, failing[:3]))}{more}: those "
            "were not left empty."]


def measure_moves(study: Study, space: Space) -> None:
    """Fill the cells and the curves of moves for every fitted estimator, on as many held-out rows as time allows."""
    keys, yours = list(study.moves), study.yours
    for key in keys:
        xs = list(_steps(study, space, key))
        study.curves[key] = {"x": xs} | {name: [None] * len(xs) for name in study.models}
    few: dict[str, int] = {}
    for name, model in study.models.items():
        asked = yours[name].asked() if name in yours else on_prepared_rows(
            model, study.native_of if reads_columns(name) else study.prepared_of, study.table.target, study.classifies)
        for key in keys:
            study.report(f"{name}: {key}", 0.55)
            count = _kept_search(study, space, name, asked, key)
            if count < len(study.test):
                few[f"{name}, {key}"] = count
    if few:
        least = min(few, key=lambda one: few[one])
        study.subsampled["moves"] = (f"Of the {len(study.test)} held-out rows as few as {few[least]} ({least}), for "
                                     f"{len(few)} cells about moves in the data as they came,")


def _steps(study: Study, space: Space, key: str) -> Sequence[float]:
    if key == "moved":
        return [0.0, *(share * study.options.eps for share in RADII)]
    axes = [axis for axis in space.axes if (axis.levels if key == "swapped" else axis.gap is not None)]
    most = min(len(axes), max(MOST_CHANGED, study.options.swaps))
    return [float(count) for count in range(most + 1)]


def _kept_search(study: Study, space: Space, name: str, asked: Asked, key: str) -> int:
    """Return :func:`_search`, or fill the cell and the curve from what the checkpoint of the audit keeps."""

    def searched() -> Memory:
        count = _search(study, space, name, asked, key)
        return {"count": count, "cell": vars(study.rows[name][key]), "curve": study.curves[key][name]}

    found = kept_stage(["moves", name, key], searched)
    study.rows[name][key] = Cell(**found["cell"])
    study.curves[key][name] = found["curve"]
    count: int = found["count"]
    return count


def _search(study: Study, space: Space, name: str, asked: Asked, key: str) -> int:
    """Fill one cell and one curve; return on how many rows, 0 where there was no time for the fewest."""
    xs = study.curves[key]["x"]
    changes = swaps_of(space.axes) if key == "swapped" else blanks_of(space.axes)
    movable = [axis for axis in space.axes if axis.spread]
    asks = len(RADII) * (CORNERS + 2 * SWEEPS * len(movable)) if key == "moved" else (len(xs) - 1) * len(changes)
    rows = space.rows(study.test)
    harms = asked.harms(study.table.target)
    count = _affordable(lambda some: harms[0](rows[:some]), len(rows), asks * len(harms), ONE_SEARCH * study.left())
    if count < min(FEWEST, len(rows)):
        return 0
    rows = rows[:count]
    enough = WRONG if study.classifies else np.inf
    searched = [[harm(rows), *(worst_numbers(harm, rows, movable, xs[1:], study.options.seed) if key == "moved"
                               else worst_changes(harm, rows, changes, len(xs) - 1, enough))] for harm in harms]
    found = [np.max(one, axis=0) for one in zip(*searched, strict=True)]
    cells = [_cell(most, study) for most in found]
    study.curves[key][name] = [cell.value for cell in cells]
    at = {"moved": study.options.eps, "swapped": float(study.options.swaps), "blanked": 1.0}[key]
    study.rows[name][key] = cells[int(np.argmin(np.abs(np.array(xs) - at)))]
    return count


def _affordable(ask: Callable[[int], object], rows: int, asks: int, seconds: float) -> int:
    """Return on how many rows a model can be asked so often: it takes a fixed time, and some for each row."""
    timed = []
    for some in (min(PILOT, rows), rows):
        begun = time.monotonic()
        ask(some)
        timed.append(time.monotonic() - begun)
    if timed[1] * asks <= seconds or rows <= PILOT:
        return rows
    a_row = max((timed[1] - timed[0]) / (rows - PILOT), 1e-9)
    fixed = max(0.0, timed[0] - PILOT * a_row)
    return max(0, min(rows, int((seconds / asks - fixed) / a_row)))


def _cell(harms: NDArray[np.float64], study: Study) -> Cell:
    return accuracy(harms < WRONG) if study.classifies else rmse(harms, study.options.seed)


