"""Categories swapped for others: every way to change a few cells of a row is tried, so the worst is known."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, check_count
from buttress._types import Labels, MatrixLike, Rows, VectorLike
from buttress.attacks.problem import AttackInfo
from buttress.attacks.targets import label_codes
from buttress.scores import Scorable, as_classifier

MOST_WAYS = 100_000  # a row: what 5 columns of 20 levels have in up to 3 cells
ASKED = 20_000  # versions that a model is asked about at once

Column = Any  # a name, or a number for arrays
Way = tuple[tuple[Column, object], ...]  # columns and the levels they get


def swaps(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    columns: Sequence[Column],
    count: int = 1,
    levels: Mapping[Column, Sequence[object]] | None = None,
    return_info: bool = False,
) -> Any:
    """Swap categories: of all versions of a row with at most ``count`` cells changed, return the worst.

    Nothing is left out, so a row that stands is proven to stand every swap of so many cells. A model that gives labels
    only will do. Of versions that are misclassified the one with fewest cells changed is returned.

    Parameters
    ----------
    model : fitted classifier
        Such as a pipeline whose first step encodes the columns.
    X : pandas or polars frame, or array of shape (n, d)
    y : array of shape (n,)
        The labels to attack.
    columns : list
        The columns of categories: names in a frame, numbers in an array.
    count : int
        Most cells of a row that are changed.
    levels : mapping or None
        What the cells of a column may become; for columns that it leaves out, what they hold in X.
    return_info : bool
        Return ``(X, AttackInfo)``; ``info.distance`` counts the cells changed, ``info.margin`` is NaN for a model
        without scores.

    Raises
    ------
    ValueError
        For columns that X lacks, labels the model does not know, or more than 100,000 ways to change a row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from buttress import attacks
    >>> X = np.array([["red", "a"], ["red", "b"], ["blue", "a"], ["blue", "b"]], dtype=object)
    >>> y = np.array([0, 0, 1, 1])
    >>> model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X, y)
    >>> found, info = attacks.swaps(model, X, y, columns=[0], return_info=True)
    >>> found[0].tolist(), info.success.tolist(), info.distance.tolist()
    (['blue', 'a'], [True, True, True, True], [1.0, 1.0, 1.0, 1.0])
    >>> bool(attacks.swaps(model, X, y, columns=[1], return_info=True)[1].success.any())     # proven: none can
    False
    """
    count = check_count("count", count)
    X = X if hasattr(X, "columns") else np.asarray(X)
    given = {column: _column(X, column) for column in columns}
    choices = {column: _levels(column, values, levels) for column, values in given.items()}
    codes = label_codes(model, y, len(X))  # type: ignore[arg-type]
    worst = _Worst(model, X, codes)
    ways = _ways(choices, count)
    size = max(1, ASKED // max(1, len(codes)))
    for start in range(0, len(ways), size):
        worst.try_ways(ways[start : start + size], given)
    info = AttackInfo(worst.wrong, worst.margin, worst.changed, worst.queries, np.zeros(len(codes), dtype=bool))
    return (worst.versions(given), info) if return_info else worst.versions(given)


def _column(X: Any, column: Column) -> Labels:
    """Return a column's cells as objects."""
    try:
        cells = X[column].to_numpy() if hasattr(X, "columns") else X[:, column]
    except Exception:  # each library has its own
        known = list(X.columns) if hasattr(X, "columns") else f"0 to {X.shape[1] - 1}"
        raise ValueError(f"columns must be columns of X. Got {column!r}. X has {known}.") from None
    return np.asarray(cells).astype(object)


def _levels(column: Column, cells: Labels, levels: Mapping[Column, Sequence[object]] | None) -> list[object]:
    given = None if levels is None else levels.get(column)
    return list(dict.fromkeys(cells.tolist() if given is None else given))


def _ways(choices: dict[Column, list[object]], count: int) -> list[Way]:
    """Return every way to set up to ``count`` cells, those of fewer cells first."""
    sizes = [len(levels) for levels in choices.values()]
    total = sum(int(np.prod(some)) for k in range(1, count + 1) for some in combinations(sizes, k))
    if total > MOST_WAYS:
        raise ValueError(f"There are {total} ways to change {count} of {len(sizes)} columns, and at most {MOST_WAYS} "
                         "are tried. Use a smaller count, fewer columns, or fewer levels.")

    def all_ways() -> Iterator[Way]:
        for k in range(1, count + 1):
            for some in combinations(choices, k):
                for chosen in product(*(choices[column] for column in some)):
                    yield tuple(zip(some, chosen, strict=True))

    return list(all_ways())


class _Worst:
    """The worst version of each row met so far: which way it was changed, -1 for none."""

    def __init__(self, model: Scorable, X: Any, codes: Rows):
        self.model = as_classifier(model)
        self.X = X
        self.codes = codes
        self.way: list[Way] = [()] * len(codes)
        self.changed = np.zeros(len(codes))
        self.queries = len(codes)
        self.wrong, self.margin = self._judged(X, codes)

    def try_ways(self, ways: list[Way], given: dict[Column, Labels]) -> None:
        """Ask the model about every row that stands, changed in each of the ways."""
        rows = np.flatnonzero(~self.wrong)
        if not len(rows):
            return
        repeated = np.tile(rows, len(ways))
        changed = {column: cells[repeated] for column, cells in given.items()}
        cells = np.zeros(len(repeated))
        for number, way in enumerate(ways):
            part = slice(number * len(rows), (number + 1) * len(rows))
            for column, level in way:
                cells[part] += np.array([cell is not level and cell != level for cell in changed[column][part]])
                changed[column][part] = level
        wrong, margin = self._judged(_with(self.X, repeated, changed), self.codes[repeated])
        self.queries += len(repeated)
        for number, way in enumerate(ways):
            part = slice(number * len(rows), (number + 1) * len(rows))
            self._keep(rows, way, wrong[part], margin[part], cells[part])

    def _keep(self, rows: Rows, way: Way, wrong: NDArray[np.bool_], margin: Array, cells: Array) -> None:
        standing = ~self.wrong[rows]
        better = standing & (wrong | (margin < self.margin[rows]))
        for row in rows[better]:
            self.way[row] = way
        self.wrong[rows[better]] = wrong[better]
        self.margin[rows[better]] = margin[better]
        self.changed[rows[better]] = cells[better]

    def versions(self, given: dict[Column, Labels]) -> Any:
        """Return the rows as they came, with the worst changes."""
        cells = {column: values.copy() for column, values in given.items()}
        for row, way in enumerate(self.way):
            for column, level in way:
                cells[column][row] = level
        return _with(self.X, np.arange(len(self.codes)), cells)

    def _judged(self, X: Any, codes: Rows) -> tuple[NDArray[np.bool_], Array]:
        """Return whether rows are wrong, and their margins, NaN without scores."""
        model: Any = self.model
        wrong = np.asarray(model.predict(X)) != np.asarray(model.classes_)[codes]
        name = next((name for name in ("decision_function", "predict_proba") if hasattr(model, name)), None)
        if name is None:
            return wrong, np.full(len(codes), np.nan)
        scores = np.array(getattr(model, name)(X), dtype=np.float64)
        if scores.ndim == 1:
            return wrong, np.where(codes == 1, scores, -scores)
        rows = np.arange(len(codes))
        if scores.shape[1] != len(model.classes_):  # votes in pairs
            return wrong, np.full(len(codes), np.nan)
        own = scores[rows, codes]
        scores[rows, codes] = -np.inf
        return wrong, own - scores.max(axis=1)


def _with(X: Any, rows: Rows, cells: dict[Column, Labels]) -> Any:
    """Return rows of X with these cells (objects) in some columns, of the types that the columns of X have."""
    if not hasattr(X, "columns"):
        out = X[rows].copy()
        for column, values in cells.items():
            out[:, column] = values.astype(X.dtype)
        return out
    if hasattr(X, "schema"):  # polars
        return X[rows].with_columns([type(X[name])(name, values.tolist(), dtype=X[name].dtype)
                                     for name, values in cells.items()])
    out = X.iloc[rows]
    return out.assign(**{name: type(X[name])(values, index=out.index, dtype=X[name].dtype)
                         for name, values in cells.items()})
