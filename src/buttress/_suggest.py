"""What the command needs before scikit-learn is loaded: words for messages, and the largest number taken."""

import difflib
from collections.abc import Callable, Iterable

SHOWN = 60  # letters of what was given that a message repeats
LARGEST = 1e100  # squared distances of larger values, summed, overflow float64


def near(name: str, names: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the closest name, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def brief(value: object) -> str:
    """Return the repr of what was given on one line, its end left out where it is long.

    >>> brief(0.5), brief(list(range(50)))
    ('0.5', '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1...')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def counted(count: int, noun: str) -> str:
    """Return a number of things, the noun in its number.

    >>> counted(1, "row"), counted(3, "row"), counted(2, "entry")
    ('1 row', '3 rows', '2 entries')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("ry") else f"{count} {noun}s"


def listed(names: Iterable[object], most: int, shown: Callable[[object], str] = repr) -> str:
    """Return the first names, and how many more there are.

    >>> listed("abc", 3), listed("abcd", 2)
    ("'a', 'b', 'c'", "'a', 'b' and 2 more")
    """
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(map(shown, every[:most])) + more


def agreeing(count: int, one: str, several: str) -> str:
    """Return the form of a verb that agrees with a number of things."""
    return one if count == 1 else several


def column_called(name: str) -> str:
    """Return what a message calls a column; that of an index often has no name.

    >>> column_called("age"), column_called("")
    ("Column 'age'", 'The column without a name')
    """
    return f"Column {name!r}" if name else "The column without a name"
