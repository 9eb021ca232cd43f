"""What the audit asks of what it is given: estimators, fitted models, frames and labels."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeGuard

from numpy.typing import NDArray

Labels = NDArray[Any]  # targets: numbers, whole numbers or texts
Report = Callable[[str, float], None]  # what is being done, and the share of the audit that is done


class Frame(Protocol):
    """A pandas or polars frame, as far as it is read here."""

    @property
    def columns(self) -> Sequence[object]: ...

    def __getitem__(self, name: Any, /) -> object: ...


def is_frame(data: object) -> TypeGuard[Frame]:
    """Say whether data are a frame, which has named columns."""
    return hasattr(data, "columns")
