"""The search for moves that do most harm: numbers within a radius, and at most so many cells changed."""

from collections.abc import Iterator, Sequence

import numpy as np

from buttress._types import Array, Rows
from buttress.attacks.swaps import Cells, Change, WorstCells
from buttress.audit.moves.asking import Harm
from buttress.audit.moves.space import Axis, SpaceRows

CORNERS = 20  # of the box of all moves, tried at random before the columns one by one
SWEEPS = 2  # over the columns


def worst_numbers(
    harm: Harm, rows: SpaceRows, axes: Sequence[Axis], radii: Sequence[float], seed: int
) -> list[Array]:
    """Return the harm (n,) of the worst move found within each of the rising radii, in robust deviations.

    A model without scores is moved where that alone turns its label.
    """
    boxes = []
    for radius in radii:
        reach = np.zeros(rows.shape[1])
        for axis in axes:
            reach[axis.place] = np.floor(radius * axis.spread) if axis.whole else radius * axis.spread
        boxes.append((rows - reach, rows + reach))
    return [most for _, most in worst_within(harm, rows, boxes, seed)]


def worst_within(
    harm: Harm, rows: Array, boxes: Sequence[tuple[Array, Array]], seed: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the worst moves of rows (n, d) found by trying, and their harm (n,), within each of the rising boxes.

    Random corners, then each column to either end where that does more harm; the worst of a smaller box is where the
    search of the next one starts. A box is (low, high), each (n, d); what is missing there stays.
    """
    rng = np.random.default_rng(seed)
    worst, most = rows.copy(), harm(rows)
    for low, high in boxes:
        for trials in _trials(worst, low, high, rng):
            # all are asked for at once, which takes less than in turns
            for trial, harms in zip(trials, harm(np.concatenate(trials)).reshape(len(trials), -1), strict=True):
                better = harms > most
                worst[better] = trial[better]
                most = np.maximum(most, harms)
        yield worst, most


def _trials(worst: Array, low: Array, high: Array, rng: np.random.Generator) -> Iterator[list[Array]]:
    """Yield rows to try at once; ``worst`` changes between one and the next."""
    yield [np.where(rng.choice([-1.0, 1.0], size=low.shape) > 0, high, low) for _ in range(CORNERS)]
    for _ in range(SWEEPS):
        for j in rng.permutation(np.flatnonzero((high > low).any(axis=0))):
            trials = [worst.copy(), worst.copy()]
            for trial, end in zip(trials, (low, high), strict=True):
                trial[:, j] = end[:, j]
            yield trials


def worst_changes(
    harm: Harm, rows: SpaceRows, changes: Sequence[Change], count: int, enough: float = np.inf
) -> list[Array]:
    """Return the harm (n,) of the worst rows found with at most 1, 2, ..., ``count`` cells changed.

    All changes of one cell are tried; each further one is the worst that can be added to those before. Rows whose harm
    reaches ``enough`` are settled.
    """
    def harm_of(numbers: Rows, cells: Cells) -> Array:
        trial = rows[numbers]
        for place, values in cells.items():
            trial[:, place] = values
        return harm(trial)

    given = {place: rows[:, place] for place in dict.fromkeys(place for place, _ in changes)}
    worst = WorstCells(given, harm_of, len(rows), enough=enough)
    found = []
    for _ in range(count):
        worst.add_one(changes)
        found.append(worst.most.copy())
    return found


def swaps_of(axes: Sequence[Axis]) -> list[Change]:
    """Return every value seen in training of every column of categories."""
    return [(axis.place, level) for axis in axes for level in axis.levels]


def blanks_of(axes: Sequence[Axis]) -> list[Change]:
    """Return an empty cell for every column that can have one."""
    return [(axis.place, axis.gap) for axis in axes if axis.gap is not None]
