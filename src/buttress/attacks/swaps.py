"""Cells of rows changed for other entries: categories swapped, by an attack that leaves no way out and by an audit.

Entries are numbers, such as codes of categories, NaN for an empty cell. All ways to change so many cells are tried
(``try_ways``), or one cell after another, each the worst beside those before (``add_one``).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress._suggest import LARGEST
from buttress._types import Labels, Mask, MatrixLike, Rows, VectorLike
from buttress.attacks.problem import AttackInfo
from buttress.attacks.targets import label_codes
from buttress.scores import Scorable, as_classifier, check_one_label
from buttress.threats import ThreatModel, Way
from buttress.threats.declared import ColumnKey
from buttress.threats.moves import Group, all_ways, count_ways

MOST_WAYS = 100_000  # a row: what 5 columns of 20 levels have in up to 3 cells
ASKED = 20_000  # versions that a model is asked about at once
WRONG = 1.0  # the harm of a classifier from which a row is misclassified


def swaps(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    threat: ThreatModel,
    return_info: bool = False,
) -> Any:
    """Swap categories, texts too: try all versions of a row with at most ``threat.most_swaps`` swaps; return the worst.

    All versions are tried, so a row that stays right is proven against every such swap. A model that gives labels only
    is allowed. Of the misclassified versions one with the fewest changed cells is returned.

    Parameters
    ----------
    model : fitted classifier
        Such as a pipeline whose first step encodes the columns.
    X : pandas or polars frame, or array of shape (n, d)
    y : array of shape (n,)
        The labels to attack.
    threat : ThreatModel
        With categories only: names in a frame, column numbers in an array. An empty list of levels means the values of
        the column in X. For numbers and categories together use the other attacks.
    return_info : bool
        Return ``(X, AttackInfo)``; ``info.distance`` counts the cells changed, ``info.margin`` is NaN for a model
        without scores.

    Raises
    ------
    ValueError
        For columns that X lacks, a threat to numbers, labels the model does not know, or more than 100,000 ways to
        change a row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from buttress import ThreatModel, attacks
    >>> X = np.array([["red", "a"], ["red", "b"], ["blue", "a"], ["blue", "b"]], dtype=object)
    >>> y = np.array([0, 0, 1, 1])
    >>> model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(X, y)
    >>> found, info = attacks.swaps(model, X, y, threat=ThreatModel({}, {0: []}), return_info=True)
    >>> found[0].tolist(), info.success.tolist(), info.distance.tolist()
    (['blue', 'a'], [True, True, True, True], [1.0, 1.0, 1.0, 1.0])
    >>> other = ThreatModel({}, {1: ["a", "b"]})
    >>> bool(attacks.swaps(model, X, y, threat=other, return_info=True)[1].success.any())     # proven: none can
    False
    """
    if threat.numbers or threat.one_hot or any(isinstance(column, tuple) for column in threat.categories):
        raise ValueError("swaps changes one cell of a category at a time, and no numbers. Got a threat to others. Use "
                         "worst_case or exact, whose columns are numbers.")
    X = X if hasattr(X, "columns") else np.asarray(X)
    given = {column: _column(X, column) for column in threat.categories}
    choices = {column: list(threat.categories[column]) or list(dict.fromkeys(values.tolist()))
               for column, values in given.items()}
    groups = [Group(np.array([place]), np.arange(len(entries), dtype=np.float64)[:, None])
              for place, entries in enumerate(choices.values())]
    total = count_ways(groups, threat.most_swaps)
    if total > MOST_WAYS:
        raise ValueError(f"There are {total} ways to change {threat.most_swaps} of {len(choices)} columns, and at most "
                         f"{MOST_WAYS} are tried. Use a smaller count, fewer columns, or fewer levels.")
    check_one_label(model, X)
    codes = label_codes(model, y, len(X))  # type: ignore[arg-type]
    known = {column: _Entries(choices[column], values) for column, values in given.items()}
    asked = _AskedClassifier(as_classifier(model), X, codes, known)
    start = np.array([entries.codes for entries in known.values()]).T.reshape(len(codes), -1)
    worst = WorstVersions(start, asked.harm, groups, enough=WRONG)
    worst.try_ways(all_ways(groups, threat.most_swaps))
    found = asked.versions(np.arange(len(codes)), worst.X)
    wrong, margin = asked.judged(found, codes)
    margin = np.full(len(codes), np.nan) if margin is None else margin
    changed = (~same(worst.X, start)).sum(axis=1).astype(np.float64)
    info = AttackInfo(wrong, margin, changed, worst.asked + len(codes), np.zeros(len(codes), dtype=bool))
    return (found, info) if return_info else found


def _column(X: Any, column: ColumnKey) -> Labels:
    """Return a column's cells as objects."""
    try:
        cells = X[column].to_numpy() if hasattr(X, "columns") else X[:, column]
    except Exception:  # each library has its own
        known = list(X.columns) if hasattr(X, "columns") else f"0 to {X.shape[1] - 1}"
        raise ValueError(f"columns must be columns of X. Got {column!r}. X has {known}.") from None
    entries = np.asarray(cells).astype(object)
    entries[[isinstance(entry, float) and entry != entry for entry in entries.tolist()]] = np.nan  # one for all gaps
    return entries


class _Entries:
    """The entries that a column may hold, by number: its levels first, then what its rows hold beside them."""

    def __init__(self, levels: list[object], cells: Labels):
        self.entries = list(dict.fromkeys([*levels, *cells.tolist()]))
        numbers = {entry: number for number, entry in enumerate(self.entries)}
        self.codes = np.array([numbers[cell] for cell in cells.tolist()], dtype=np.float64)

    def of(self, codes: Array) -> Labels:
        """Return the entries of these numbers, as objects."""
        found = np.empty(len(codes), dtype=object)
        found[:] = [self.entries[int(code)] for code in codes]
        return found


@dataclass
class _AskedClassifier:
    """A classifier as the search asks it: about rows of X with some cells changed."""

    model: Any
    X: Any
    codes: Rows
    known: dict[ColumnKey, _Entries]

    def versions(self, rows: Rows, X: Array) -> Any:
        """Return rows as they came but for their cells of these numbers."""
        return _with(self.X, rows, {column: entries.of(values)
                                    for (column, entries), values in zip(self.known.items(), X.T, strict=True)})

    def harm(self, rows: Rows, X: Array) -> Array:
        return harm_done(*self.judged(self.versions(rows, X), self.codes[rows]))

    def judged(self, X: Any, codes: Rows) -> tuple[Mask, Array | None]:
        """Return which rows are misclassified, and their margins, None without scores a class."""
        model = self.model
        wrong = np.asarray(np.asarray(model.predict(X)) != np.asarray(model.classes_)[codes])
        name = next((name for name in ("decision_function", "predict_proba") if hasattr(model, name)), None)
        if name is None:
            return wrong, None
        scores = np.array(getattr(model, name)(X), dtype=np.float64)
        if scores.ndim == 1:
            return wrong, np.where(codes == 1, scores, -scores)
        if scores.shape[1] != len(model.classes_):  # votes in pairs
            return wrong, None
        return wrong, rivals_of(scores, codes)[1]


def _with(X: Any, rows: Rows, cells: dict[ColumnKey, Labels]) -> Any:
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


class WorstVersions:
    """The version of each row met so far that does most harm.

    Parameters
    ----------
    start : array of shape (n, d)
        The rows as they came.
    harm : callable
        ``harm(rows, X)`` is the harm (b,) of versions X (b, d) of these rows (b,).
    groups : list of Group
        Cells that may change together, and into what.
    enough : float
        Harm from which a row is settled: it is asked about no more.

    Attributes
    ----------
    X : array of shape (n, d)
        The worst versions.
    most : array of shape (n,)
        Their harm.
    asked : int
        Versions the model was asked about.
    """

    def __init__(
        self, start: Array, harm: Callable[[Rows, Array], Array], groups: Sequence[Group], *, enough: float = np.inf
    ):
        self.start = start
        self.harm = harm
        self.groups = groups
        self.enough = enough
        self.X = start.copy()
        self.most = np.array(harm(np.arange(len(start)), start))
        self.asked = len(start)

    def try_ways(self, ways: Iterable[Way], base: Array | None = None) -> None:
        """Change the rows that are not settled in each of the ways, from ``base`` or else from the rows as they came.

        A group that ``base`` has changed already keeps what it got. Of equals the version met first stays.
        """
        left = iter(ways)
        base = self.start if base is None else base
        while len(rows := np.flatnonzero(self.most < self.enough)) and (
            batch := list(islice(left, max(1, ASKED // len(rows))))
        ):
            versions = np.stack([self._changed(base[rows], rows, way) for way in batch])
            asked = self.harm(np.tile(rows, len(batch)), np.concatenate(versions)).reshape(len(batch), -1)
            self.asked += asked.size
            for X, harms in zip(versions, asked, strict=True):
                better = (harms > self.most[rows]) & (self.most[rows] < self.enough)
                self.most[rows[better]] = harms[better]
                self.X[rows[better]] = X[better]

    def add_one(self) -> None:
        """Change one more group of each row, the one that does most harm beside those changed so far, if any does."""
        self.try_ways(all_ways(self.groups, 1), self.X.copy())

    def _changed(self, X: Array, rows: Rows, way: Way) -> Array:
        """Return versions X of some rows, a copy, changed in one way."""
        for group, choice in way:
            places = self.groups[group].places
            kept = ~same(X[:, places], self.start[rows][:, places]).all(axis=1, keepdims=True)
            X[:, places] = np.where(kept, X[:, places], self.groups[group].choices[choice])
        return X


def harm_done(wrong: Mask, margin: Array | None) -> Array:
    """Return the harm to a classifier: 1 and more where it is wrong; below that, margins say how near it is to it."""
    if margin is None:
        return wrong.astype(np.float64)
    bounded = np.clip(np.nan_to_num(margin, nan=0.0), -LARGEST, LARGEST)  # those of a model may be infinite
    return np.asarray(2.0 * wrong - bounded / (1 + np.abs(bounded)))


def rivals_of(scores: Array, codes: Rows) -> tuple[Rows, Array]:
    """Return the best rival of each row's class, and by how much that leads; scores (n, k), codes (n,)."""
    rows = np.arange(len(codes))
    others = np.array(scores, dtype=np.float64)
    others[rows, codes] = -np.inf
    rival = others.argmax(axis=1)
    return rival, np.asarray(scores[rows, codes] - others[rows, rival])


def same(first: Array, second: Array) -> Mask:
    """Say where two columns hold the same entry; empty cells (NaN) are alike."""
    return np.asarray((first == second) | (np.isnan(first) & np.isnan(second)))
