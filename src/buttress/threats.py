"""What an attacker may do to a row: declared once, obeyed by attacks and proofs.

A :class:`ThreatModel` names columns. Attacks and certificates read it against their rows (:func:`read_threat`), which
gives :class:`Moves` of numbers by place: a ball within a box, and swaps of groups of columns beside it.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from buttress._checks import Array, check_box, check_count, check_number, check_option
from buttress._suggest import counted, near
from buttress._types import MatrixLike, Rows

Column = Any  # a name or a number
Way = tuple[tuple[int, int], ...]  # (group, choice) of each swap

NORMS = ("linf", "l2")
DIRECTIONS = ("both", "up", "down")
DEVIATIONS = " sd"  # how a budget in standard deviations ends
MOST_LEVELS = 50  # of a column of texts; one with more is a name or a key
SHOWN = 8  # columns that are named of those of which the same is said
FEWEST_KEYS = 20  # rows from which on a column of different whole numbers is a key


@dataclass(frozen=True)
class Budget:
    """How far one column of numbers may be moved.

    Parameters
    ----------
    by : float or str
        At most so much, in the column's units, or as in ``"0.5 sd"`` in standard deviations of the rows that
        :meth:`ThreatModel.on` is given.
    step : float
        Moves are multiples of it: 1 for whole numbers. 0 for any move.
    direction : {"both", "up", "down"}
    low, high : float
        The values it stays within.
    """

    by: float | str
    step: float = 0.0
    direction: str = "both"
    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        if not (isinstance(self.by, str) and deviations(self.by) is not None):
            fix = "Write a number in the column's units, or '0.5 sd'."
            object.__setattr__(self, "by", check_number("by", self.by, 0, closed="left", fix=fix))
        check_number("step", self.step, 0, closed="left")
        check_option("direction", self.direction, DIRECTIONS)

    def in_words(self) -> str:
        """Return it in words."""
        parts = [f"by at most {self.by if isinstance(self.by, str) else format(self.by, '.4g')}"]
        parts += [f"in steps of {self.step:g}"] if self.step else []
        parts += [f"{self.direction} only"] if self.direction != "both" else []
        parts += [f"at least {self.low:g}"] if np.isfinite(self.low) else []
        parts += [f"at most {self.high:g}"] if np.isfinite(self.high) else []
        return ", ".join(parts)


@dataclass(frozen=True)
class ThreatModel:
    """What an attacker may do to a row: move numbers within a ball, and swap a few cells of categories beside it.

    Columns that it does not name are fixed.

    Parameters
    ----------
    numbers : mapping of column to float, str or Budget
        How far each may be moved: in its units, or as in ``"0.5 sd"``.
    categories : mapping of column to list
        What a cell may become, such as ``[0, 1]``; an empty list is what :meth:`on` finds in the column. A tuple of
        columns is swapped together: a list of tuples.
    one_hot : list of lists of columns
        Groups of 0/1 columns, swapped together: one becomes 1 and the others 0.
    most_swaps : int
        Most categories and groups of a row that are swapped, together with all moves of its numbers.
    norm : {"linf", "l2"}
        Across numbers: each within its budget, or sum_j (move_j / budget_j)^2 <= 1.

    Examples
    --------
    >>> from buttress import Budget, ThreatModel
    >>> threat = ThreatModel({"income": Budget(500, step=1, direction="up")}, {"owner": [0, 1]})
    >>> print(threat)
    Numbers are moved, each within its budget: 'income' by at most 500, in steps of 1, up only.
    At most 1 cell is swapped of: 'owner' to 0 or 1.
    Every other column is fixed.
    """

    numbers: Mapping[Column, float | str | Budget] = field(default_factory=dict)
    categories: Mapping[Column, Sequence[Any]] = field(default_factory=dict)
    one_hot: Sequence[Sequence[Column]] = ()
    most_swaps: int = 1
    norm: str = "linf"

    def __post_init__(self) -> None:
        check_option("norm", self.norm, NORMS)
        check_count("most_swaps", self.most_swaps, 0)
        budgets = {name: by if isinstance(by, Budget) else Budget(by) for name, by in self.numbers.items()}
        object.__setattr__(self, "numbers", budgets)
        named = [*budgets, *(name for group in self._together() for name in group)]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"A threat names each column once. Column {twice!r} is named twice.")

    def _together(self) -> dict[tuple[Column, ...], Sequence[Any]]:
        """Return what is swapped, as tuples of columns, with the rows that they may become."""
        groups = {name if isinstance(name, tuple) else (name,): levels for name, levels in self.categories.items()}
        return groups | {tuple(group): np.eye(len(group)).tolist() for group in self.one_hot}

    @property
    def budgets(self) -> dict[Column, Budget]:
        """The budgets of the numbers."""
        return {name: each for name, each in self.numbers.items() if isinstance(each, Budget)}

    @classmethod
    def from_table(
        cls, X: MatrixLike, by: float | str = "0.1 sd", *, most_swaps: int = 1, norm: str = "linf"
    ) -> "ThreatModel":
        """Return a default for the columns of a table, such as the training rows.

        Columns of 0 and 1, texts of at most 50 kinds and one-hot groups are categories; other numbers move ``by``,
        whole ones in steps of 1. Dates, constants, texts of more kinds and keys (whole numbers, all different) are
        fixed.

        Examples
        --------
        >>> import numpy as np
        >>> from buttress import ThreatModel
        >>> X = np.array([[1.5, 0], [2.5, 1], [3.5, 1]])
        >>> print(ThreatModel.from_table(X, by=0.2))
        Numbers are moved, each within its budget: 0 by at most 0.2.
        At most 1 cell is swapped of: 1 to 0 or 1.
        Every other column is fixed.
        """
        columns = columns_by_name(X)
        binary = [name for name, values in columns.items() if _is_binary(values)]
        one_hot = one_hot_groups(columns, binary)
        grouped = {name for group in one_hot for name in group}
        categories = {name: [0, 1] for name in binary if name not in grouped}
        categories |= {name: [] for name, values in columns.items()
                       if values.dtype.kind in "OUST" and len(set(values.tolist())) <= MOST_LEVELS}
        numbers = {name: Budget(by, step=float((values % 1 == 0).all())) for name, values in columns.items()
                   if name not in binary and _is_movable(values)}
        return cls(numbers, categories, one_hot, most_swaps, norm).on(X)

    @classmethod
    def from_toml(cls, path: str | Path) -> "ThreatModel":
        """Return the threat that a TOML file declares: the parameters as keys, a table for a :class:`Budget`."""
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        _refuse_others(given, cls, str(path))
        for name, by in given.get("numbers", {}).items():
            if isinstance(by, dict):
                _refuse_others(by, Budget, f"{path}, column {name!r}")
                given["numbers"][name] = Budget(**by)
        return cls(**given)

    def on(self, X: MatrixLike) -> "ThreatModel":
        """Return the same with standard deviations and empty lists of levels replaced by those of a table."""
        columns = columns_by_name(X)
        numbers = {name: replace(budget, by=_in_units(budget.by, _found(name, columns)))
                   for name, budget in self.budgets.items()}
        categories = {name: list(levels) or sorted(set(_found(name, columns).tolist()), key=str)
                      for name, levels in self.categories.items()}
        return replace(self, numbers=numbers, categories=categories)

    def scaled(self, share: float) -> "ThreatModel":
        """Return the same with the budgets of numbers times ``share``; those in deviations must be known."""
        return replace(self, numbers={name: replace(budget, by=share * _known(name, budget))
                                      for name, budget in self.budgets.items()})

    def __str__(self) -> str:
        within = "each within its budget" if self.norm == "linf" else "together within an ellipsoid of their budgets"
        numbers = _listed((name, budget.in_words()) for name, budget in self.budgets.items())
        swapped = _listed((name, f"to {' or '.join(map(str, levels)) or 'what the table holds'}")
                          for name, levels in self.categories.items())
        groups = [f"which of {_names(group)} is 1" for group in self.one_hot]
        swapped = "; ".join([*([swapped] if swapped else []), *groups])
        lines = [f"Numbers are moved, {within}: {numbers}."] if numbers else ["No number is moved."]
        if swapped and self.most_swaps:
            verb = "is" if self.most_swaps == 1 else "are"
            lines.append(f"At most {counted(self.most_swaps, 'cell')} {verb} swapped of: {swapped}.")
        return "\n".join([*lines, "Every other column is fixed."])


@dataclass(frozen=True)
class Group:
    """Columns that are swapped together: their places (g,), and what they may become (choices, g)."""

    places: Rows
    choices: Array


@dataclass(frozen=True)
class Moves:
    """A threat read against n rows of d numbers.

    Parameters
    ----------
    reach : array of shape (1, d)
        How far each column can move, 0 for one that stays or is swapped.
    norm : {"linf", "l2"}
    low, high : array of shape (n, d)
        The box of the numbers, beside the ball; for columns that stay, the rows themselves.
    step : array of shape (d,)
        What moves are multiples of, 0 for any.
    groups : tuple of Group
    most : int
        Most groups of a row that are swapped.
    """

    reach: Array
    norm: str
    low: Array
    high: Array
    step: Array
    groups: tuple[Group, ...]
    most: int

    def count(self) -> int:
        """Return how many ways there are, one that swaps nothing among them."""
        ways = [1] + [0] * self.most
        for group in self.groups:
            for swapped in range(self.most, 0, -1):
                ways[swapped] += len(group.choices) * ways[swapped - 1]
        return sum(ways)

    def ways(self) -> Iterator[Way]:
        """Yield every way to swap at most ``most`` groups, those of fewer swaps first."""
        for swapped in range(min(self.most, len(self.groups)) + 1):
            for some in combinations(range(len(self.groups)), swapped):
                for chosen in product(*(range(len(self.groups[group].choices)) for group in some)):
                    yield tuple(zip(some, chosen, strict=True))

    def swapped(self, X: Array, way: Way) -> Array:
        """Return rows swapped in one way."""
        X = X.copy()
        for group, choice in way:
            X[:, self.groups[group].places] = self.groups[group].choices[choice]
        return X

    def swaps(self, X: Array, start: Array) -> Array:
        """Return how many groups of versions X (n, d) of the rows ``start`` are swapped."""
        return np.sum([(start != X)[:, group.places].any(axis=1) for group in self.groups], axis=0, dtype=np.intp)

    def box(self, X: Array, rows: Rows) -> tuple[Array, Array]:
        """Return the box of versions X of some rows, in which only numbers move."""
        moving = self.reach[0] > 0
        return np.where(moving, self.low[rows], X), np.where(moving, self.high[rows], X)

    def stepped(self, X: Array, start: Array) -> Array:
        """Return moved versions X of rows, brought to whole steps from the rows ``start``, never further away."""
        size = np.where(self.step > 0, self.step, 1.0)
        steps = (X - start) / size
        nearest = np.rint(steps)
        off = np.abs(steps - nearest) > 1e-6
        return np.where(self.step > 0, start + np.where(off, np.trunc(steps), nearest) * size, X)

    def hull(self, X: Array) -> tuple[Array, Array]:
        """Return the box (n, d) of all swaps of any number of groups, and of the numbers where the norm is "linf"."""
        low, high = np.maximum(X - self.reach, self.low), np.minimum(X + self.reach, self.high)
        for group in self.groups if self.most else ():
            low[:, group.places] = np.minimum(X[:, group.places], group.choices.min(axis=0))
            high[:, group.places] = np.maximum(X[:, group.places], group.choices.max(axis=0))
        return low, high


def read_threat(threat: ThreatModel, X: Array, given: MatrixLike) -> Moves:
    """Read a threat against rows of numbers (n, d), whose columns have the names of a frame ``given``, or numbers.

    Raises ValueError for columns that are not there, budgets in standard deviations, levels that are not known or no
    numbers, and rows outside their bounds.
    """
    names = given.columns if hasattr(given, "columns") else range(X.shape[1])
    known = {name: place for place, name in enumerate(names)}
    reach, step = np.zeros((1, X.shape[1])), np.zeros(X.shape[1])
    low, high = X.copy(), X.copy()
    for name, budget in threat.budgets.items():
        place = _found(name, known)
        reach[0, place], step[place] = _known(name, budget), budget.step
        low[:, place] = X[:, place] if budget.direction == "up" else budget.low
        high[:, place] = X[:, place] if budget.direction == "down" else budget.high
    check_box((low, high), X)
    for place in map(int, np.flatnonzero(step)):
        down, up = (_whole(np.minimum(reach[0, place], way), step[place])
                    for way in (X[:, place] - low[:, place], high[:, place] - X[:, place]))
        in_steps = _whole(reach[0, place], step[place])
        reach[0, place] = in_steps if threat.norm == "linf" or in_steps == 0 else reach[0, place]
        low[:, place], high[:, place] = X[:, place] - down, X[:, place] + up
    groups = tuple(Group(np.array([_found(name, known) for name in names]), _choices(names, levels))
                   for names, levels in threat._together().items())
    return Moves(reach, threat.norm, low, high, step, groups, min(threat.most_swaps, len(groups)))


def check_threat(eps: object, norm: str, bounds: object, threat: ThreatModel | None) -> None:
    """Refuse an attacker that is not declared, or declared twice: by ``eps`` with its norm and box, or a threat."""
    if (eps is None) == (threat is None):
        got = "neither" if eps is None else "both"
        raise ValueError(f"Give either eps or threat. Got {got}.")
    if threat is not None and (norm != "linf" or bounds is not None):
        raise ValueError("A threat has a norm and bounds of its own. Leave out norm= and bounds=.")


def _found(name: Column, columns: Mapping[Column, Any]) -> Any:
    """Return what stands at a column; ValueError where it is not there."""
    if name not in columns:
        close = near(str(name), map(str, columns))
        raise ValueError(f"The threat names column {name!r}, which X lacks.{close}")
    return columns[name]


def columns_by_name(X: MatrixLike) -> dict[Column, Any]:
    """Return the columns of a frame by name, of an array by number, as arrays."""
    if hasattr(X, "columns"):
        frame: Any = X
        return {name: frame[name].to_numpy() for name in frame.columns}
    rows = np.asarray(X)
    return {place: rows[:, place] for place in range(rows.shape[1])}


def one_hot_groups(columns: Mapping[Column, Array], binary: Sequence[Column]) -> list[list[Column]]:
    """Return the runs of neighbouring 0/1 columns of which exactly one is 1 in every row."""
    groups: list[list[Column]] = []
    run: list[Column] = []
    total = np.zeros(0)
    for name in columns:
        values = columns[name].astype(np.float64) if name in binary else None
        if values is None:
            run = []
            continue
        fits = bool(run) and bool((total + values <= 1).all())
        run, total = ([*run, name], total + values) if fits else ([name], values)
        if len(run) > 1 and (total == 1).all():
            groups.append(run)
            run = []
    return groups


def _is_binary(values: Any) -> bool:
    return values.dtype.kind in "iufb" and set(np.unique(values).tolist()) == {0, 1}


def _is_movable(values: Any) -> bool:
    """Say whether a column holds numbers that vary and are no key."""
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return False
    different = len(np.unique(values))
    key = different == len(values) >= FEWEST_KEYS and bool((values % 1 == 0).all())
    return different > 1 and not key


def deviations(text: str) -> float | None:
    """Return the number in "0.5 sd", None for another text."""
    try:
        return float(text.removesuffix(DEVIATIONS)) if text.endswith(DEVIATIONS) else None
    except ValueError:
        return None


def _in_units(by: float | str, values: Array) -> float:
    share = deviations(by) if isinstance(by, str) else None
    return float(by) if share is None else share * float(np.std(values.astype(np.float64)))


def _known(name: Column, budget: Budget) -> float:
    """Return a budget in the column's units; ValueError for one in standard deviations."""
    if isinstance(budget.by, str):
        raise ValueError(f"The budget of column {name!r} is {budget.by!r}, of rows that are not known here. Use "
                         "threat.on(X), X the training rows.")
    return budget.by


def _whole(way: Array, step: float) -> Array:
    """Return the most whole steps in a way."""
    return np.asarray(np.floor(way / step * (1 + 4 * np.finfo(float).eps)) * step)


def _choices(names: tuple[Column, ...], levels: Sequence[Any]) -> Array:
    """Return what columns of numbers may become together, (choices, columns)."""
    if not len(levels):
        raise ValueError(f"The threat does not say what column {names[0]!r} may become. Use threat.on(X), X the "
                         "training rows.")
    try:
        return np.asarray(levels, dtype=np.float64).reshape(len(levels), len(names))
    except (TypeError, ValueError):
        raise ValueError(f"Column {names[0]!r} may become {levels[0]!r}, which is no number for each of "
                         f"{counted(len(names), 'column')}. Encode the column, or use attacks.swaps.") from None


def _listed(columns: Iterable[tuple[Column, str]]) -> str:
    """Return columns and what is said of them, those of which the same is said together."""
    together: dict[str, list[Column]] = {}
    for name, words in columns:
        together.setdefault(words, []).append(name)
    return "; ".join(f"{_names(names)} {words}" for words, names in together.items())


def _names(names: Sequence[Column]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def _refuse_others(given: Mapping[str, Any], known: type[Any], where: str) -> None:
    names = [each.name for each in fields(known)]
    for name in given:
        if name not in names:
            raise ValueError(f"{where} declares {name!r}, which no {known.__name__} has.{near(name, names)} It has "
                             f"{', '.join(names)}.")
