"""A threat as it is declared: budgets of numbers and swaps of categories, by the names of columns.

By default it follows from what the columns of a table hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from buttress._checks import Array, check_count, check_number, check_option
from buttress._state import State
from buttress._suggest import counted, listed, near
from buttress._types import MatrixLike
from buttress.files.disk import read_toml

ColumnKey = Any  # a name or a number


def is_key(different: int, known: int) -> bool:
    """Say whether so many different texts of so many are names or keys: more than 50, and under ten entries each.

    Above 255 they are too: gradient boosting takes no category of more.
    """
    return different > 50 and (different > 255 or known < 10 * different)


def found_at(name: ColumnKey, columns: Mapping[ColumnKey, Any]) -> Any:
    """Return what stands at a column; ValueError where it is not there."""
    if name not in columns:
        close = near(str(name), map(str, columns))
        raise ValueError(f"The threat names column {name!r}, which X lacks.{close}")
    return columns[name]


def columns_by_name(X: MatrixLike) -> dict[ColumnKey, Any]:
    """Return the columns of a frame by name, of an array by number, as arrays."""
    if hasattr(X, "columns"):
        frame: Any = X
        return {name: frame[name].to_numpy() for name in frame.columns}
    rows = np.asarray(X)
    return {place: rows[:, place] for place in range(rows.shape[1])}


def one_hot_groups(columns: Mapping[ColumnKey, Array], binary: Sequence[ColumnKey]) -> list[list[ColumnKey]]:
    """Return the runs of neighbouring 0/1 columns of which exactly one is 1 in every row, from the first on."""
    names = list(columns)
    groups: list[list[ColumnKey]] = []
    start = 0
    while start < len(names):
        run = _run_of_one(columns, names[start:], binary)
        groups += [run] if run else []
        start += len(run) or 1
    return groups


def _run_of_one(
    columns: Mapping[ColumnKey, Array], names: list[ColumnKey], binary: Sequence[ColumnKey]
) -> list[ColumnKey]:
    """Return the columns from the first on of which one is 1 in every row, none where there is no such run."""
    total: Any = 0.0
    for count, name in enumerate(names, 1):
        total = total + columns[name].astype(np.float64) if name in binary else np.inf
        if not np.all(total <= 1):
            break
        if count > 1 and np.all(total == 1):
            return names[:count]
    return []


def known_of(values: Any) -> Any:
    """Return the entries of a column that are not missing, as far as it is one of numbers."""
    return values[~np.isnan(values)] if values.dtype.kind == "f" else values


def is_binary(values: Any) -> bool:
    return values.dtype.kind in "iufb" and set(np.unique(known_of(values)).tolist()) == {0, 1}


def is_movable(values: Any) -> bool:
    """Say whether a column holds numbers that vary and are no key."""
    if values.dtype.kind not in "iuf" or np.isinf(values).any():
        return False
    known = known_of(values)
    different = len(np.unique(known))
    key = different == len(known) >= 20 and bool((known % 1 == 0).all())
    return different > 1 and not key


def is_category(values: Any) -> bool:
    """Say whether a column holds texts of few kinds."""
    return values.dtype.kind in "OUST" and not is_key(len(set(values.tolist())), len(values))


NORMS = ("linf", "l2")
SHOWN = 8  # columns that are named of those of which the same is said


@dataclass(frozen=True)
class Budget:
    """How far one column of numbers may be moved.

    Parameters
    ----------
    by : float or str
        The largest move, in the column's units, or, as in ``"0.5 sd"``, in standard deviations of the rows given to
        :meth:`ThreatModel.on`.
    step : float
        Moves are multiples of it: 1 for whole numbers. 0 for any move.
    direction : {"both", "up", "down"}
    low, high : float
        The values it stays within.
    """

    _state = State(together=lambda budget, lengths: budget.__post_init__())

    by: float | str
    step: float = 0.0
    direction: str = "both"
    low: float = -np.inf
    high: float = np.inf

    def __post_init__(self) -> None:
        share = deviations(self.by) if isinstance(self.by, str) else None
        number = check_number("by", self.by if share is None else share, 0, closed="left",
                              fix="Write a number in the column's units, or '0.5 sd'.")
        object.__setattr__(self, "by", number if share is None else self.by)
        check_number("step", self.step, 0, closed="left")
        check_option("direction", self.direction, ("both", "up", "down"))
        for name in ("low", "high"):
            check_number(name, getattr(self, name), -np.inf, closed="both")
        if not self.low <= self.high:
            raise ValueError(f"low must be at most high. Got low={self.low}, high={self.high}.")

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
    """What an attacker may do to a row: move numbers within a ball, and swap a few categories.

    Columns that are not named are fixed.

    Parameters
    ----------
    numbers : mapping of column to float, str or Budget
        How far each may be moved: in its units, or as in ``"0.5 sd"``.
    categories : mapping of column to list
        The values that a cell may become, such as ``[0, 1]``; an empty list means the values that :meth:`on` finds in
        the column. A tuple of columns is swapped together: its values are a list of tuples.
    one_hot : list of lists of columns
        Groups of 0/1 columns, swapped together: one becomes 1 and the others 0.
    most_swaps : int
        Most categories and groups of a row that are swapped, together with all moves of its numbers.
    norm : {"linf", "l2"}
        Across numbers: each within its budget, or sum_j (move_j / budget_j)^2 <= 1.
    most_moved : int or None
        Most numbers of a row that are moved; None for all.

    Examples
    --------
    >>> from buttress import Budget, ThreatModel
    >>> threat = ThreatModel({"income": Budget(500, step=1, direction="up")}, {"owner": [0, 1]})
    >>> print(threat)
    Numbers are moved, each within its budget: 'income' by at most 500, in steps of 1, up only.
    At most 1 cell is swapped of: 'owner' to 0 or 1.
    Every other column is fixed.
    """

    _state = State(together=lambda threat, lengths: threat.__post_init__())

    numbers: Mapping[ColumnKey, float | str | Budget] = field(default_factory=dict)
    categories: Mapping[ColumnKey, Sequence[Any]] = field(default_factory=dict)
    one_hot: Sequence[Sequence[ColumnKey]] = ()
    most_swaps: int = 1
    norm: str = "linf"
    most_moved: int | None = None

    def __post_init__(self) -> None:
        check_option("norm", self.norm, NORMS)
        if self.most_moved is not None:
            check_count("most_moved", self.most_moved, 0)
        check_count("most_swaps", self.most_swaps, 0)
        _check_part("numbers", self.numbers, "budgets by column", hasattr(self.numbers, "items"))
        _check_part("categories", self.categories, "lists of levels by column", hasattr(self.categories, "items"))
        _check_part("one_hot", self.one_hot, "a list of lists of columns")
        for name, levels in self.categories.items():
            _check_part(f"categories, column {name!r},", levels, "a list of levels")
        for group in self.one_hot:
            _check_part("Each of one_hot", group, "a list of columns")
        budgets = {name: _budget(name, by) for name, by in self.numbers.items()}
        object.__setattr__(self, "numbers", budgets)
        named = [*budgets, *(name for group in self.together() for name in group)]
        twice = next((name for name in named if named.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"A threat names each column once. Column {twice!r} is named twice.")

    def together(self) -> dict[tuple[ColumnKey, ...], Sequence[Any]]:
        """Return what is swapped, as tuples of columns, with the rows that they may become."""
        groups = {name if isinstance(name, tuple) else (name,): levels for name, levels in self.categories.items()}
        return groups | {tuple(group): np.eye(len(group)).tolist() for group in self.one_hot}

    @property
    def budgets(self) -> dict[ColumnKey, Budget]:
        """The budgets of the numbers."""
        return {name: each for name, each in self.numbers.items() if isinstance(each, Budget)}

    @classmethod
    def from_table(
        cls, X: MatrixLike, by: float | str = "0.1 sd", *, most_swaps: int = 1, norm: str = "linf"
    ) -> "ThreatModel":
        """Return a default for the columns of a table, such as the training rows.

        Columns of 0 and 1, texts and one-hot groups are categories; other numbers move ``by``, whole ones in steps of
        1. Dates, constants and keys are fixed: whole numbers, all different, and texts of more than 255 kinds, or of
        more than 50 with under ten entries each.

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
        binary = [name for name, values in columns.items() if is_binary(values)]
        one_hot = one_hot_groups(columns, binary)
        grouped = {name for group in one_hot for name in group}
        categories = {name: [0, 1] for name in binary if name not in grouped}
        categories |= {name: [] for name, values in columns.items() if is_category(values)}
        numbers = {name: Budget(by, step=float((known_of(values) % 1 == 0).all())) for name, values in columns.items()
                   if name not in binary and is_movable(values)}
        return cls(numbers, categories, one_hot, most_swaps, norm).on(X)

    @classmethod
    def from_toml(cls, path: str | Path) -> "ThreatModel":
        """Return the threat that a TOML file declares: the parameters as keys, a table for a :class:`Budget`."""
        given = read_toml(Path(path))
        try:
            _refuse_others(given, cls, "It")
            return cls(**given)
        except ValueError as error:
            raise ValueError(f"{path} declares no threat. {error}") from None

    def on(self, X: MatrixLike) -> "ThreatModel":
        """Return the same with standard deviations and empty lists of levels replaced by those of a table."""
        columns = columns_by_name(X)
        numbers = {name: replace(budget, by=_in_units(budget.by, found_at(name, columns)))
                   for name, budget in self.budgets.items()}
        categories = {name: list(levels) or sorted(set(found_at(name, columns).tolist()), key=str)
                      for name, levels in self.categories.items()}
        return replace(self, numbers=numbers, categories=categories)

    def scaled(self, share: float) -> "ThreatModel":
        """Return the same with the budgets of numbers times ``share``; those in deviations must be known."""
        return replace(self, numbers={name: replace(budget, by=share * known_reach(name, budget))
                                      for name, budget in self.budgets.items()})

    def __str__(self) -> str:
        within = "each within its budget" if self.norm == "linf" else "together within an ellipsoid of their budgets"
        if self.most_moved is not None:
            within = f"at most {self.most_moved} of a row, {within}"
        numbers = _listed((name, budget.in_words()) for name, budget in self.budgets.items())
        swapped = _listed((name, f"to {' or '.join(map(str, levels)) or 'what the table holds'}")
                          for name, levels in self.categories.items())
        groups = [f"which of {listed(group, SHOWN)} is 1" for group in self.one_hot]
        swapped = "; ".join([*([swapped] if swapped else []), *groups])
        lines = [f"Numbers are moved, {within}: {numbers}."] if numbers else ["No number is moved."]
        if swapped and self.most_swaps:
            verb = "is" if self.most_swaps == 1 else "are"
            lines.append(f"At most {counted(self.most_swaps, 'cell')} {verb} swapped of: {swapped}.")
        return "\n".join([*lines, "Every other column is fixed."])


def check_threat(eps: object, norm: str, bounds: object, threat: ThreatModel | None) -> None:
    """Refuse an attacker that is not declared, or declared twice: by ``eps`` with its norm and box, or a threat."""
    if (eps is None) == (threat is None):
        got = "neither" if eps is None else "both"
        raise ValueError(f"Give either eps or threat. Got {got}.")
    if not isinstance(threat, ThreatModel | None):
        raise TypeError(f"threat must be a ThreatModel. Got {threat!r}.")
    if threat is not None and (norm != "linf" or bounds is not None):
        raise ValueError("A threat has a norm and bounds of its own. Leave out norm= and bounds=.")


def deviations(text: str) -> float | None:
    """Return the number in "0.5 sd", None for another text."""
    try:
        return float(text.removesuffix(" sd")) if text.endswith(" sd") else None
    except ValueError:
        return None


def _in_units(by: float | str, values: Array) -> float:
    share = deviations(by) if isinstance(by, str) else None
    return float(by) if share is None else share * float(np.std(known_of(values.astype(np.float64))))


def known_reach(name: ColumnKey, budget: Budget) -> float:
    """Return a budget in the column's units; ValueError for one in standard deviations."""
    if isinstance(budget.by, str):
        raise ValueError(f"The budget of column {name!r} is {budget.by!r}, of rows that are not known here. Use "
                         "threat.on(X), X the training rows.")
    return budget.by


def _check_part(name: str, value: object, words: str, fits: bool = True) -> None:
    """Refuse what is not as ``words`` say: no list, a text, which is one of letters, or what does not fit."""
    if not fits or not hasattr(value, "__len__") or isinstance(value, str):
        raise ValueError(f"{name} must be {words}. Got {value!r}.")


def _budget(name: ColumnKey, by: Any) -> Budget:
    """Return the budget that is given for a column; ValueError names it."""
    if isinstance(by, Budget):
        return by
    try:
        if not isinstance(by, dict):
            return Budget(by)
        _refuse_others(by, Budget, "It")
        return Budget(**{"by": None, **by})
    except ValueError as error:
        raise ValueError(f"Budget of column {name!r}: {error}") from None


def _listed(columns: Iterable[tuple[ColumnKey, str]]) -> str:
    """Return columns and what is said of them, those of which the same is said together."""
    together: dict[str, list[ColumnKey]] = {}
    for name, words in columns:
        together.setdefault(words, []).append(name)
    return "; ".join(f"{listed(names, SHOWN)} {words}" for words, names in together.items())


def _refuse_others(given: Mapping[str, Any], known: type[Any], where: str) -> None:
    names = [each.name for each in fields(known)]
    for name in given:
        if name not in names:
            raise ValueError(f"{where} declares {name!r}, which no {known.__name__} has.{near(name, names)} It has "
                             f"{', '.join(names)}.")
