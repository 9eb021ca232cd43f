"""What a join is refused for, in one text for all engines: they count differently and must refuse alike.

Each function takes what an engine has counted, in this process or by SQL, and raises ValueError naming table, column,
what was found and what to do.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from buttress._checks import LARGEST
from buttress.relational.declare import Join, Table


def used_columns(table: Table, keys: Sequence[str]) -> list[str]:
    """Return the columns of a table that a join with these key columns uses, each once."""
    return list(dict.fromkeys([*table.features, *filter(None, (table.label, table.weights)), *keys]))


def check_feature(table: str, column: str, kind: str, n_null: int, largest: float) -> None:
    """Refuse NULL, NaN, times, and numbers whose ``largest`` magnitude is beyond 1e100."""
    if n_null:
        raise ValueError(f"Feature {table}.{column} is NULL or NaN in {n_null} rows. Impute or drop those rows, or fit "
                         "with missing='mean', which fills and marks them.")
    if kind == "nested":
        raise ValueError(f"Feature {table}.{column} holds arrays, structures or bytes. Make a column of each part that "
                         "is a number or a word, and use those.")
    if kind == "time":  # which number to make of it (age, weekday, season) depends on the problem
        raise ValueError(f"Feature {table}.{column} holds times. Turn it into numbers that mean something to a linear "
                         "model, such as days before the label's date, the hour or the month, and use those.")
    if not largest <= LARGEST:
        raise ValueError(f"Feature {table}.{column} holds {largest:g}, too large. Rescale or drop those rows.")


def check_scale(table: str, column: str, scale: float) -> None:
    """Refuse numbers so small that a coefficient, which is divided by their ``scale``, would be infinite."""
    if 0 < scale < 1 / LARGEST:
        raise ValueError(f"Feature {table}.{column} holds numbers of about {scale:g}, too small. Use a larger unit, or "
                         "drop it.")


def check_categories(table: str, column: str, n_values: int, n_rows: int, example: Callable[[], str]) -> None:
    """Refuse text with nearly one value a row: identifiers, or numbers with a stray word among them.

    The values are counted before they are encoded, or fetched from a database; only an ``example`` is asked for.
    """
    if n_values > max(50, n_rows / 2):
        raise ValueError(f"Feature {table}.{column} is text with {n_values} values in {n_rows} rows (such as "
                         f"{example()!r}): an identifier, or numbers with a word among them. Leave it out of features, "
                         "or correct the column.")


def check_decimals(table: str, column: str, values: Sequence[str]) -> None:
    """Refuse text that is numbers with decimal commas: no number is a category."""
    commas = [value for value in values if "," in value]
    if commas and all(re.fullmatch(r"\s*[-+]?\d+(,\d+)?\s*", value) for value in values):
        raise ValueError(f"Feature {table}.{column} is text such as {commas[0]!r}, numbers with decimal commas. Write "
                         "them with points, or read the file into a frame with decimal=',' and give that.")


def check_weights_kind(table: str, column: str, kind: str) -> None:
    """Refuse weights that are text or times."""
    if kind != "number":
        raise ValueError(f"Weights {table}.{column} must be numbers. Got {kind}.")


def check_weights(table: str, column: str, n_null: int, n_negative: int, largest: float) -> None:
    """Refuse weights that are NULL, NaN, negative, or of a ``largest`` magnitude beyond 1e100."""
    if n_null:
        raise ValueError(f"Weights {table}.{column} are NULL or NaN in {n_null} rows. Impute or drop those rows.")
    if n_negative or not largest <= LARGEST:
        raise ValueError(f"Weights {table}.{column} must be in [0, {LARGEST:g}]. Got {n_negative} negative ones, and "
                         f"up to {largest:g} in magnitude. Correct or drop those rows.")


def check_label(table: str, column: str, n_null: int) -> None:
    """Refuse labels that are NULL or NaN."""
    if n_null:
        raise ValueError(f"Label {table}.{column} is NULL or NaN in {n_null} rows. Drop those rows.")


def check_classes(table: str, column: str, found: NDArray[Any], known: NDArray[Any] | None = None) -> None:
    """Refuse labels ``found`` that are not of two classes, or not of the two ``known`` ones of a fitted model."""
    classes = found if known is None else known
    if len(classes) == 2 and set(found.tolist()) <= set(classes.tolist()):
        return
    expected = "" if known is None else f", {known[0]} and {known[1]}"
    raise ValueError(f"Label {table}.{column} must have two classes among the rows that join{expected}. "
                     f"Got {len(found)}: {', '.join(map(str, found[:5].tolist()))}.")


class EmptyJoinError(ValueError):
    """No combination of rows has equal keys."""


def check_rows(n_rows: int, notes: Sequence[str] = ()) -> None:
    """Refuse a join without rows; ``notes`` say which rows were dropped."""
    if not n_rows:
        raise EmptyJoinError("The join has no rows: no combination of rows has equal keys. Check the pairs in on"
                             + (f" ({'; '.join(notes)})." if notes else "."))


def check_sides(n_sides: int) -> None:
    """Refuse a label whose values the database does not find equal to themselves when they are written out."""
    if n_sides != 2:
        raise ValueError("The label's values cannot be compared inside the database: written out, they equal none of "
                         "its rows. Cast the label to an integer or to text in a view, or use engine='memory'.")


def check_range(n_rows: float, weights: Iterable[tuple[float, float]]) -> None:
    """Refuse so many rows, and weights so far from 1, that products of them could leave the range of 64-bit floats.

    ``weights`` are the least above 0 and the largest of each table.
    """
    least = largest = 1.0
    for low, high in weights:
        least *= min(float(low), 1.0)
        largest *= max(float(high), 1.0)
    if not n_rows <= min(least, 1 / largest) * LARGEST**2:  # factors of classes and losses have 100 decades left
        raise ValueError("The join has so many rows, or weights so far from 1, that their sums and products are no "
                         f"64-bit floats. The number of rows over the least product of weights, and times the largest, "
                         f"must be at most {LARGEST**2:g}. Multiply the weights by a constant, or leave out a table.")


def check_total(weight: float) -> None:
    """Refuse a join whose rows all weigh nothing."""
    if not weight > 0:
        raise ValueError("Every row of the join has weight zero, so there is nothing to fit. Check the weights.")


def check_bag(join: Join, tables: Sequence[int], n_rows: int) -> None:
    """Refuse a group of tables that break a cycle when joining them gives more than ``max_bag_rows`` rows.

    ``n_rows`` may be the row at which counting them ended.
    """
    if n_rows > join.max_bag_rows:
        names = ", ".join(join.tables[t].name for t in tables)
        raise ValueError(f"The join is cyclic and its cycle ({names}) needs {n_rows:,} rows or more joined beforehand, "
                         f"more than max_bag_rows={join.max_bag_rows}. Raise max_bag_rows or drop a pair from on.")


def check_dates(join: Join, n_null: int, largest: float) -> None:
    """Refuse rows of the label's table whose date is NULL or NaN, and numbers for dates, up to ``largest``, of 2^53.

    Later times are seen by no date below, however they are rounded.
    """
    if largest >= 2.0**53:
        raise ValueError(f"as_of={join.as_of!r} holds {largest:.17g}, and floats beyond 2^53 do not tell neighbouring "
                         "whole numbers apart. Use dates, as with pandas.to_datetime, or smaller numbers.")
    if n_null:
        raise ValueError(f"as_of={join.as_of!r} is NULL in {n_null} rows, so that nothing is known of what was known "
                         "then. Drop these rows, or give them a date.")


def check_seen(join: Join, t: int, n_rows: int) -> None:
    """Refuse a table whose rows, each once for every date that sees it, are more than ``max_bag_rows``."""
    if n_rows > join.max_bag_rows:
        raise ValueError(f"as_of={join.as_of!r} takes each row of {join.tables[t].name!r} once for every date that "
                         f"asks for its key and sees it: {n_rows:,} rows, more than max_bag_rows={join.max_bag_rows}. "
                         "Raise max_bag_rows, or use EntityFeatures(join), in a shell buttress train, which makes one "
                         "row of features for each label row.")
