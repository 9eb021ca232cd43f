"""Nearest names for error messages, without loading scikit-learn: the command uses it first of all."""

import difflib
from collections.abc import Iterable


def near(name: str, names: Iterable[str]) -> str:
    """Return ' Did you mean ...?' for the closest name, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
