"""A fitted model of the user's, tried on a few rows before any work is done, and the moves its columns can make."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import listed
from buttress._types import Predictor
from buttress.audit.fitted import is_fitted, takes_numbers
from buttress.audit.moves.asking import InPlace
from buttress.audit.moves.search import blanks_of, swaps_of
from buttress.audit.moves.space import Space
from buttress.audit.options import Options
from buttress.audit.reading.table import Table


@dataclass(frozen=True)
class Yours:
    """The user's fitted model: what it is called, how it is asked, and which moves of the columns are measured.

    ``columns`` of the audit's table say what the moves are; with ``on_numbers`` it reads all the table's columns of
    numbers and no others, so that it can be asked at prepared features, where its scores may have gradients.
    """

    name: str
    model: InPlace
    columns: dict[str, str]
    on_numbers: bool
    notes: list[str]


def yours_of(
    table: Table, classifies: bool, entries: dict[str, Predictor], options: Options, raw: NDArray[np.float64],
    train: NDArray[np.intp], test: NDArray[np.intp],
) -> Yours | None:
    """Return the fitted model among the entries, None where there is none; ValueError says why it suits no rows."""
    for name, model in entries.items():
        if is_fitted(model):
            space = Space(table, raw, train)
            asked = InPlace(model, space, table.target, classifies)
            asked.try_rows(space.rows(test), name)
            notes = _keep_takeable(space, asked, test, name)
            return Yours(name, asked, _columns(space, classifies, options), takes_numbers(model, table), notes)
    return None


def _columns(space: Space, classifies: bool, options: Options) -> dict[str, str]:
    """Return the columns of the audit's table, and what they say, for the moves there are in these data."""
    what, swaps = "accuracy" if classifies else "RMSE", options.swaps
    said = {}
    if any(axis.spread for axis in space.axes):
        said["moved"] = f"{what}, numbers as they came moved by at most {options.eps:g} robust deviations to do harm"
    if swaps_of(space.axes):
        cells = "one category" if swaps == 1 else f"at most {swaps} categories"
        said["swapped"] = f"{what}, {cells} of a row swapped for another one seen in training, to do harm"
    if blanks_of(space.axes):
        said["blanked"] = f"{what}, one cell of a row left empty, to do harm"
    return said


def _keep_takeable(space: Space, yours: InPlace, places: NDArray[np.intp], name: str) -> list[str]:
    """Take the empty cells out of the space that the user's model fails on, and return a sentence that says so."""
    some = space.rows(places[:20])  # on which it is asked
    width = np.arange(some.shape[1])
    failing = [axis for axis in space.axes if axis.gap is not None
               and yours.fails_on(np.where(width == axis.place, axis.gap, some))]
    space.axes = [replace(axis, gap=None) if axis in failing else axis for axis in space.axes]
    return [f"{name} raises an error on rows with an empty cell in {listed([axis.name for axis in failing], 3)}: those "
            "were not left empty."] if failing else []
