"""Constants chosen by trial: a frozen dataclass for each family, each field with its unit, meaning and origin.

Code reads a constant from the one instance of its family when it needs it, so that :func:`changed` reaches all users.
``benchmarks/robust.py sensitivity`` varies every constant by a quarter; docs/constants.md holds what it found.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, TypeVar

T = TypeVar("T")

THEORY = "set by theory, not by trial"


def tuned(value: T, unit: str, meaning: str, origin: str = "not recorded") -> T:
    """Return a dataclass field with this default; ``origin`` names the command and sets it was chosen on."""
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "origin": origin})


@contextmanager
def changed(family: Any, **values: Any) -> Iterator[None]:
    """Give constants of a family, such as ``GUARD``, other values inside a block, for tests and benchmarks."""
    before = {name: getattr(family, name) for name in values}
    try:
        for name, value in values.items():
            object.__setattr__(family, name, value)
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(family, name, value)
