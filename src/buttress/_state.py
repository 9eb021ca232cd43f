"""What the instances of a class hold, declared once: a ``_state`` on the class, from which all else follows.

The check of model files, the list of attributes in the docstring, the columns of ``history_`` and the comparison of two
models read it. A class that declares no state cannot stand in a model file.

Examples
--------
>>> import numpy as np
>>> from buttress._state import Attribute, State, check_state
>>> class Rows:
...     _state = State(
...         Attribute("values", "finite", "n_rows", "What was measured."),
...         Attribute("order", "index", "n_rows", "Numbers of the rows, the best first.", below="n_rows"))
>>> rows = Rows()
>>> rows.values = np.array([0.5, 2.0])
>>> rows.order = np.array([1, 7])
>>> check_state(rows)
Traceback (most recent call last):
    ...
buttress._state.StateError: Rows.order is an array of shape (2,) and type int64. Expected index below 2 (n_rows), shape
n_rows, with n_rows = 2.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, cleandoc, signature
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

KindName = Literal[
    "real", "finite", "nonnegative", "positive", "share", "integer", "count", "index", "bool", "label", "text", "part",
    "history", "any"]
T = TypeVar("T")
Lengths = dict[str, int]  # what the symbols of one instance stand for


class StateError(ValueError):
    """An instance that holds something else than its class declares; the message says what."""


@dataclass(frozen=True)
class Kind:
    """Kinds of numpy's dtypes, the range of the values, and whether all are finite."""

    dtypes: str
    low: float = -math.inf
    high: float = math.inf
    finite: bool = True
    shown: str = "float"


KINDS: Mapping[str, Kind] = {
    "real": Kind("fiu", finite=False),
    "finite": Kind("fiu"),
    "nonnegative": Kind("fiu", low=0.0),
    "positive": Kind("fiu", low=5e-324),
    "share": Kind("fiu", low=0.0, high=1.0),
    "integer": Kind("iu", shown="int"),
    "count": Kind("iu", low=0, shown="int"),
    "index": Kind("iu", low=0, shown="int"),
    "bool": Kind("b", shown="bool"),
    "label": Kind("biufUO", finite=False, shown="label"),
    "text": Kind("U", finite=False, shown="str"),
}


@dataclass(frozen=True)
class Attribute:
    """One attribute: what it holds and what that means.

    Parameters
    ----------
    name : str
    kind : str
        A name of ``KINDS`` for numbers, labels and text; "part" for instances of classes with a state of their own, and
        lists of such; "history" for a list of dicts; "any" for what only people read.
    shape : str
        Symbols such as ``"n_support, n_features"``, or numbers; equal ones stand for equal lengths in an instance and
        in what it shares with its parts, ``*`` for any. "one" is a single value, "none" is None, "list" a list of
        anything; alternatives stand with "or".
    meaning : str
    below : str
        The length that an index stays below: a symbol.
    low : int or None
        The least value, where it is not that of the kind.
    length : str
        The symbol whose length this number is.
    of : str
        Names of the classes that a part may have, or of their bases.
    shares : str
        Symbols that mean the same in the part. ``"a=b"``: what the part calls ``a`` is ``b`` here.
    columns : str
        The keys that the entries of a history may have. ``gap`` is the duality gap as a share of the objective,
        ``violation`` of the conditions of optimality (the largest KKT violation, or the gradient's norm as a share of
        the first one), ``change`` how much the last iteration changed: an algorithm has those that it measures.
    when : str
        In which case the attribute is there, empty where it always is.
    """

    name: str
    kind: KindName
    shape: str = "one"
    meaning: str = ""
    below: str = ""
    low: int | None = None
    length: str = ""
    of: str = ""
    shares: str = ""
    columns: str = "n_iter, seconds, gap, violation, change, objective"
    when: str = ""

    def fits(self, value: object, lengths: Lengths) -> bool:
        """Say whether the shape and the type of a value are as declared; learns what symbols stand for."""
        return any(self._fits(shape, value, lengths) for shape in self.shape.split(" or "))

    def _fits(self, shape: str, value: Any, lengths: Lengths) -> bool:
        if self.kind == "any" or shape in ("none", "list"):
            return self.kind == "any" or (value is None if shape == "none" else isinstance(value, list))
        if self.kind == "history":
            return isinstance(value, list) and all(
                isinstance(entry, dict) and entry.keys() <= set(self.columns.split(", ")) for entry in value)
        if self.kind == "part":
            of_length = shape == "one" or lengths.setdefault(shape, len(value)) == len(value)
            return of_length and all(self._fits_part(part, lengths) for part in leaves(value))
        if shape == "one":
            return self._fits_number(value, lengths)
        value = np.asarray(value) if isinstance(value, list | tuple) else value
        known = dict(lengths)
        symbols = shape.split(", ")
        of_kind = (isinstance(value, np.ndarray) or issparse(value)) and value.dtype.kind in KINDS[self.kind].dtypes
        if not (of_kind and len(value.shape) == len(symbols)):
            return False
        if any((int(symbol) if symbol.isdigit() else known.setdefault(symbol, length)) != length
               for symbol, length in zip(symbols, value.shape, strict=True) if symbol != "*"):
            return False
        lengths.update(known)
        return True

    def _fits_number(self, value: Any, lengths: Lengths) -> bool:
        single = isinstance(value, bool | int | float | str | np.generic)
        if not single or np.asarray(value).dtype.kind not in KINDS[self.kind].dtypes:
            return False
        return not self.length or lengths.setdefault(self.length, int(value)) == value

    def _fits_part(self, part: object, lengths: Lengths) -> bool:
        if part is None or not {cls.__name__ for cls in type(part).__mro__} & set(self.of.split(", ")):
            return False
        inner = check_state(part) if attributes_of(type(part)) else {}
        pairs = (pair.partition("=") for pair in filter(None, self.shares.split(", ")))
        return all(lengths.setdefault(here or there, inner[there]) == inner[there]
                   for there, _, here in pairs if there in inner)

    def in_range(self, value: Any, lengths: Lengths) -> bool:
        """Say whether the numbers of a value that fits lie in the range of their kind, and below their partner."""
        kind = KINDS.get(self.kind)
        as_is = value is None or (isinstance(value, list) and "list" in self.shape)
        if kind is None or as_is or not set(kind.dtypes) <= set("fiu"):
            return True
        numbers = np.asarray(value.data if issparse(value) else value)
        high = lengths.get(self.below, math.inf) - 1 if self.below else kind.high
        if kind.finite and not np.isfinite(numbers).all():
            return False
        low = kind.low if self.low is None else self.low
        bounded = numbers.size > 0 and (low > -math.inf or high < math.inf)
        return not bounded or bool(numbers.min() >= low and numbers.max() <= high)

    def expected(self, lengths: Lengths) -> str:
        """Return in words what the attribute should be."""
        below = f" below {lengths.get(self.below, 'any')} ({self.below})" if self.below else ""
        what = f"{self.kind} {self.of}" if self.of else self.kind
        known = ", ".join(f"{symbol} = {length}" for symbol, length in lengths.items() if symbol in self.shape)
        return f"{what}{below}, shape {self.shape}{f', with {known}' if known else ''}"

    def documented(self) -> str:
        """Return the entry of the attribute in the docstring of its class."""
        words = [shape if shape in ("none", "one") else f"array of shape ({shape}{'' if ',' in shape else ','})"
                 for shape in self.shape.split(" or ")]
        shown = KINDS[self.kind].shown if self.kind in KINDS else {"history": "list of dict"}.get(self.kind, self.of)
        types = " or ".join({"one": shown, "none": "None"}.get(word, word) for word in words)
        columns = "n_iter, seconds, objective, and of gap, violation, change what the solver measures. "
        columns = columns if self.kind == "history" else ""
        when = f" Only {self.when}." if self.when else ""
        return f"{self.name} : {types or 'object'}\n    {columns}{self.meaning}{when}"


OF_ESTIMATORS = (
    Attribute("n_features_in_", "count", meaning="Columns of X.", length="n_features", when="if X has columns"),
    Attribute("feature_names_in_", "label", "n_features", "Names of the columns.", when="if they have names"),
    Attribute("_sklearn_output_config", "any", when="after set_output"),
)


class State:
    """The attributes of a class, as the value of its ``_state``; it writes their list into the docstring.

    ``together`` is a function of an instance and of what its symbols stand for. It checks what no single attribute can
    say, raising ValueError, and may add to the symbols.
    """

    def __init__(self, *attributes: Attribute, together: Callable[[Any, Lengths], None] | None = None):
        self.attributes = attributes
        self.together = together

    def __set_name__(self, owner: type, name: str) -> None:
        """Put the list of what a fit learns, which ends in an underscore, behind the parameters in the docstring."""
        entries = [entry for name, entry in attributes_of(owner).items() if name.endswith("_") and name[0] != "_"]
        learned = [entry for entry in entries if entry not in OF_ESTIMATORS]
        if not learned or owner.__doc__ is None:
            return
        text = cleandoc(owner.__doc__)
        starts = [text.find(f"\n{section}\n---") for section in ("See Also", "Notes", "References", "Examples")]
        place = min((start for start in starts if start >= 0), default=len(text))
        listed = "\n".join(entry.documented() for entry in learned)
        owner.__doc__ = f"{text[:place].rstrip()}\n\nAttributes\n----------\n{listed}\n\n{text[place:].lstrip()}"


class Promise(Generic[T]):
    """A value that is made when it is first asked for, by a function that is let go then; a copy holds the value."""

    def __init__(self, make: Callable[[], T]):
        self._make: Callable[[], T] | None = make

    def make(self) -> T:
        """Return the value."""
        make = self._make
        if make is not None:
            self._value = make()
            self._make = None
        return self._value

    def __reduce__(self) -> tuple[Callable[[T], T], tuple[T]]:
        return _as_is, (self.make(),)


def _as_is(value: T) -> T:
    return value


class Later(Generic[T]):
    """An attribute that is made when it is first read, if it was given as a function; as a dataclass's field None.

    What the function needs is kept until then, and is in no copy, pickle or model file.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, thing: object, owner: type | None = None) -> T | None:
        if thing is not None and self.name not in vars(thing):
            raise AttributeError(f"{type(thing).__name__} has no {self.name} before fit.")
        value: T | Promise[T] | None = None if thing is None else vars(thing)[self.name]
        return value.make() if isinstance(value, Promise) else value

    def __set__(self, thing: object, value: T | Callable[[], T] | None) -> None:
        vars(thing)[self.name] = Promise(value) if callable(value) else value

    def __delete__(self, thing: object) -> None:
        if self.name not in vars(thing):
            raise AttributeError(f"{type(thing).__name__} has no {self.name} to delete.")
        del vars(thing)[self.name]


def alter(thing: object, name: str, change: Callable[[Any], Any]) -> None:
    """Set an attribute that is there, and not None, to what ``change`` makes of it, later if it is made later."""
    value = vars(thing).get(name)
    if value is not None:
        later = isinstance(value, Promise)
        setattr(thing, name, (lambda: change(value.make())) if later else change(value))


def attributes_of(cls: type) -> dict[str, Attribute]:
    """Return what a class and its bases declare, by name; empty for a class that declares nothing."""
    common = OF_ESTIMATORS if issubclass(cls, BaseEstimator) else ()
    states = [vars(base)["_state"] for base in reversed(cls.__mro__) if "_state" in vars(base)]
    own = [entry for state in states for entry in state.attributes]
    return {entry.name: entry for entry in (*common, *own)} if states else {}


def parameters_of(cls: Any) -> Mapping[str, Parameter]:
    """Return the parameters that make an instance of a class."""
    return {} if cls.__init__ is object.__init__ else signature(cls).parameters


def check_state(thing: object) -> Lengths:
    """Check what an instance holds against what its class declares; returns what the symbols stand for.

    Raises
    ------
    StateError
        Naming the class, the attribute, what it is and what was expected.
    """
    cls: Any = type(thing)
    held = vars(thing)
    lengths: Lengths = {}
    declared = attributes_of(cls)
    parameters = parameters_of(cls)
    fitted = any(name in held and name not in parameters and not entry.when for name, entry in declared.items())
    for name, entry in declared.items():
        if name not in held and not entry.when and (fitted or name in parameters):
            raise StateError(f"{cls.__name__} has no {name!r}, which it declares.")
    check_attributes(thing, tuple(declared.values()), lengths)
    for together in [base._state.together for base in cls.__mro__ if "_state" in vars(base)]:
        if together is not None:
            together(thing, lengths)
    return lengths


def check_attributes(thing: object, declared: Iterable[Attribute], lengths: Lengths) -> None:
    """Check what an instance holds of some attributes, and learn what symbols stand for; StateError as above."""
    held = [(entry, vars(thing)[entry.name]) for entry in declared if entry.name in vars(thing)]
    for check in (Attribute.fits, Attribute.in_range):  # an index is below a length that may be learnt behind it
        for entry, value in held:
            if not check(entry, value, lengths):
                raise StateError(f"{type(thing).__name__}.{entry.name} is {said(value)}. Expected "
                                 f"{entry.expected(lengths)}.")


def one_or_each(values: Iterable[float]) -> Any:
    """Return what fits state of their problems: a number for one problem, else an array with one a problem."""
    found = np.array(list(values), dtype=np.float64)
    return float(found[0]) if len(found) == 1 else found


def leaves(value: object) -> Iterator[object]:
    """Yield what lists and tuples of any depth hold."""
    if isinstance(value, list | tuple):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


def said(value: Any) -> str:
    """Return an array by its shape and type, and anything else by what it is, in at most forty characters."""
    if isinstance(value, np.ndarray) or issparse(value):
        return f"an array of shape {value.shape} and type {value.dtype}"
    return f"{str(value)[:40]!r}, a {type(value).__name__}"
