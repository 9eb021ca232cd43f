"""What the audit asks of what it is given: estimators, fitted models, frames and labels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from buttress._types import Frame

Report = Callable[[str, float], None]  # what is being done, and the share of the audit that is done


class Served(Protocol):
    """A review that is being served on this machine."""

    address: str

    @property
    def decisions(self) -> Any: ...

    def corrections(self, path: str | Path) -> Path: ...

    def stop(self) -> None: ...


def is_frame(data: object) -> TypeGuard[Frame]:
    """Say whether data are a frame, which has named columns."""
    return hasattr(data, "columns")
