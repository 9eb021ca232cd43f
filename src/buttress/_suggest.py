"""What the command needs before scikit-learn is loaded: nearest names for messages, and the largest number taken."""

import difflib
from collections.abc import Iterable

LARGEST = 1e100  # squared distances of larger values, summed, overflow float64


def near(name: str, names: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the closest name, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
