"""Constants chosen by trial: a frozen dataclass for each family, each field with its unit, meaning and origin.

Code reads a constant from the one instance of its family when it needs it, so that
``unittest.mock.patch.dict(vars(family), name=value)`` reaches all users, in tests and benchmarks.
``benchmarks/robust.py sensitivity`` varies every constant by a quarter; docs/constants.md holds what it found.
"""

from dataclasses import field
from typing import TypeVar

T = TypeVar("T")

THEORY = "set by theory, not by trial"
UNBEATEN = "half and double err no less, by three standard errors, in `benchmarks/constants.py`"


def tuned(value: T, unit: str, meaning: str, origin: str) -> T:
    """Return a dataclass field with this default; ``origin`` is the law it follows, or the command that compares it."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "origin": origin})
