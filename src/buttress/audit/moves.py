"""The search for moves of rows that do most harm: numbers within a radius, and at most so many cells changed.

How much harm a move does to a row, the model says by its scores where it gives them, else by its labels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Array, Labels, MatrixLike, Predictor
from buttress.attacks.swaps import WRONG, WorstVersions, harm_done, rivals_of
from buttress.audit.measuring.cells import has_scores
from buttress.audit.models.table_model import TableModel
from buttress.audit.move_space import Axis, MoveSpace, SpaceRows, chosen, names_of
from buttress.audit.options import Options
from buttress.audit.reading.entries import check_there
from buttress.threats.moves import Group

Change = tuple[int, float]  # of a cell: its place, and what it becomes
Harm = Callable[[SpaceRows], NDArray[np.float64]]  # of moved rows, as many as were given, in their order


@dataclass(frozen=True)
class AskedModel:
    """A fitted model to be asked with rows of a :class:`MoveSpace`.

    ``scores`` gives (n, classes), the largest being likeliest, in the order of ``classes``; None of a model that gives
    labels only, and of a regression.
    """

    predict: Callable[[SpaceRows], Labels]
    scores: Callable[[SpaceRows], NDArray[np.float64]] | None
    classes: Labels
    classifies: bool

    def harms(self, target: Labels) -> list[Harm]:
        """Return what a search makes as large as it can: the error to either side, or how far a class is from right.

        Of classes that is ``WRONG`` and more where the row is wrong; below that, scores say how near it is to it.
        ``target`` holds the targets of all rows of the table.
        """
        def targets(rows: SpaceRows) -> Labels:
            return target[rows[:, 0].astype(np.intp)]

        if self.classifies:
            return [lambda rows: self._from_right(rows, targets(rows))]
        return [lambda rows: self.predict(rows) - targets(rows), lambda rows: targets(rows) - self.predict(rows)]

    def _from_right(self, rows: SpaceRows, y: Labels) -> NDArray[np.float64]:
        wrong = np.asarray(self.predict(rows) != y)
        if self.scores is None:
            return harm_done(wrong, None)
        places = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
        return harm_done(wrong, rivals_of(self.scores(rows), places)[1])


class InPlace:
    """A fitted model of the user's, asked with rows of a :class:`MoveSpace` in the columns as they came."""

    def __init__(self, model: Any, space: MoveSpace, target: Labels, classifies: bool):
        self.model = model
        self.space = space
        self.target = target
        self.classifies = classifies
        self.names = names_of(model)

    def predict(self, X: MatrixLike) -> Labels:
        """Return the predictions for rows of the space, as the table has its targets."""
        found = np.asarray(self.model.predict(self._data(np.asarray(X))))
        return as_targets(found.ravel(), self.target, self.classifies)

    def asked(self) -> AskedModel:
        """Return the model as a search asks it, with its probabilities where it gives them for known classes."""
        known = getattr(self.model, "classes_", None)
        if isinstance(self.model, TableModel):
            known = np.array(self.model.given, dtype=object)
        proba = hasattr(self.model, "predict_proba") and self._gives_proba()
        if not self.classifies or known is None or not proba:
            return AskedModel(self.predict, None, np.empty(0), self.classifies)
        own = as_targets(np.asarray(known), self.target, True)
        order = np.argsort(own)
        return AskedModel(self.predict, lambda rows: self._proba(rows)[:, order], own[order], True)

    def try_rows(self, rows: SpaceRows, name: str) -> None:
        """Ask for a few rows; ValueError says what the model made of them."""
        if self.space.library != "array":
            check_there(self.names or (), self.space.table.given, "The data", f"{name} was fitted on")
        try:
            self.predict(rows[:5])  # before any work is done
        except Exception as error:  # a model of the user's may fail in any way
            said = " ".join(str(error).split())[:200]
            raise ValueError(f"{name} cannot predict the rows as they came ({type(error).__name__}: {said}). Give the "
                             "columns it was fitted on, as it was fitted on them.") from None
        if self.classifies and not np.isin(self.predict(rows), self.target).any():
            said = np.ravel(self.model.predict(self._data(rows[:1]))).tolist()[0]
            raise ValueError(f"{name} predicts {said!r}, which is no class of the target "
                             f"{self.space.table.target_name!r}: {np.unique(self.target).tolist()}.")

    def fails_on(self, rows: SpaceRows) -> bool:
        """Say whether the model raises an error on rows, whatever error it is."""
        try:
            self.predict(rows)
        except Exception:  # a model of the user's may fail in any way
            return True
        return False

    def _data(self, rows: SpaceRows) -> Any:
        if isinstance(self.model, TableModel):
            return self.space.columns(rows)
        return chosen(self.space.data(rows), self.names if self.space.library != "array" else None)

    def _proba(self, rows: SpaceRows) -> NDArray[np.float64]:
        return np.asarray(self.model.predict_proba(self._data(rows)), dtype=np.float64)

    def _gives_proba(self) -> bool:
        try:
            return self._proba(self.space.rows(np.arange(2))).ndim == 2
        except (AttributeError, NotImplementedError):  # of TableModel, whose pipeline may have none
            return False


def as_targets(found: Labels, target: Labels, classifies: bool) -> Labels:
    """Return predictions as the table has its targets: floats, whole numbers (the least for others), or texts."""
    if not classifies:
        return found.astype(np.float64)
    if target.dtype.kind not in "iu":
        return np.array([str(label) for label in found.tolist()])
    if found.dtype.kind in "iub":
        return found.astype(np.int64)
    try:
        numbers = found.astype(np.float64)
    except ValueError:
        numbers = np.full(len(found), np.nan)
    return np.where(numbers % 1 == 0, numbers, np.iinfo(np.int64).min).astype(np.int64)


def on_prepared_rows(
    model: Predictor, prepare: Callable[[NDArray[np.float64]], NDArray[np.float64]], target: Labels, classifies: bool
) -> AskedModel:
    """Return a model of prepared features as a search asks it; ``prepare`` makes them of the columns."""
    def predict(rows: SpaceRows) -> Labels:
        return np.asarray(model.predict(prepare(rows[:, 1:])))

    if not (classifies and has_scores(model)):
        return AskedModel(predict, None, np.empty(0), classifies)
    ask = getattr(model, "predict_proba" if hasattr(model, "predict_proba") else "decision_function")

    def scores(rows: SpaceRows) -> NDArray[np.float64]:
        found = np.asarray(ask(prepare(rows[:, 1:])))
        return np.column_stack([-found, found]) if found.ndim == 1 else found

    return AskedModel(predict, scores, np.unique(target), True)


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
    groups = [Group(np.array([place]), np.array([[value]])) for place, value in changes]
    worst = WorstVersions(rows, lambda _, X: harm(X), groups, enough=enough)
    found = []
    for _ in range(count):
        worst.add_one()
        found.append(worst.most.copy())
    return found


def swaps_of(axes: Sequence[Axis]) -> list[Change]:
    """Return every value seen in training of every column of categories."""
    return [(axis.place, level) for axis in axes for level in axis.levels]


def blanks_of(axes: Sequence[Axis]) -> list[Change]:
    """Return an empty cell for every column that can have one."""
    return [(axis.place, axis.gap) for axis in axes if axis.gap is not None]


@dataclass(frozen=True)
class Move:
    """A kind of move: what its column says, and its rows; the ``steps`` of its curve, and which of them the table has.

    ``worst`` gives the harm (n,) of the worst rows found at each step after the first; it asks ``asks`` times a row.
    """

    says: str
    on: str
    steps: list[float]
    shown: float
    asks: int
    worst: Callable[[Harm, SpaceRows], list[Array]]


def moves_of(axes: Sequence[Axis], classifies: bool, options: Options) -> dict[str, Move]:
    """Return the moves there are in these columns, by the column of the audit's table."""
    what, swaps, moves = "accuracy" if classifies else "RMSE", options.swaps, {}
    movable = [axis for axis in axes if axis.spread]
    if movable:
        radii = [share * options.eps for share in (0.5, 1.0, 2.0)]
        moves["moved"] = Move(
            f"{what}, numbers as they came moved by at most {options.eps:g} robust deviations to do harm",
            "numbers are moved as they came", [0.0, *radii], options.eps,
            len(radii) * (CORNERS + 2 * SWEEPS * len(movable)),
            lambda harm, rows: worst_numbers(harm, rows, movable, radii, options.seed))
    swapped = "one category" if swaps == 1 else f"at most {swaps} categories"
    for key, changes, shown, says, on in (
            ("swapped", swaps_of(axes), swaps, f"{swapped} of a row swapped for another one seen in training",
             "categories are swapped"),
            ("blanked", blanks_of(axes), 1, "one cell of a row left empty", "cells are left empty")):
        if changes:
            most = min(len({place for place, _ in changes}), max(3, swaps))  # cells of a row, at the end of a curve
            worst = partial(worst_changes, changes=changes, count=most, enough=WRONG if classifies else np.inf)
            moves[key] = Move(f"{what}, {says}, to do harm", on, [float(count) for count in range(most + 1)],
                              float(shown), most * len(changes), worst)
    return moves
