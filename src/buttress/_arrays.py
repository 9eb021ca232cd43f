"""One code for numpy arrays and torch tensors: whose functions an array needs, and where arrays are kept.

Code that can run on a device takes its functions from ``namespace(array)`` and uses only those with the same name in
numpy and torch; ``axis`` and ``keepdims`` are understood by both. torch is imported only where a device is asked for.

:func:`memory_of` is memory that one fit leaves to the next: its first use takes as long as computing what a small fit
puts there.
"""

import sys
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

# an array of NumPy or a tensor of torch, typed as an array; what goes in comes out
Kind = TypeVar("Kind", bound=NDArray[Any])


def namespace(array: NDArray[Any]) -> Any:
    """Return torch for one of its tensors, numpy for anything else."""
    return sys.modules["torch"] if type(array).__module__ == "torch" else np


def cast(array: Kind, dtype: np.dtype[Any]) -> Kind:
    """Return an array or tensor in another precision, itself where it has that."""
    there: Any = array
    return there.astype(dtype, copy=False) if namespace(array) is np else there.to(dtype)


def contiguous(array: Kind) -> Any:
    """Return an array or tensor laid out row by row, as matrix products read it fastest."""
    there: Any = array
    return np.ascontiguousarray(there) if namespace(array) is np else there.contiguous()


def to_numpy(array: Kind) -> Kind:
    """Return a tensor as a numpy array, anything else as it is."""
    there: Any = array
    return array if namespace(array) is np else there.cpu().numpy()


@dataclass(frozen=True)
class Place:
    """Where arrays are kept and how precisely: numpy's for ``device=None``, or tensors on a torch device."""

    device: str | None = None
    dtype: str = "float64"

    @property
    def xp(self) -> Any:
        """The library of the arrays there."""
        return np if self.device is None else sys.modules["torch"]

    def __call__(self, array: ArrayLike) -> Any:
        """Return an array there, floats in this precision."""
        array = np.asarray(array)
        array = array.astype(self.dtype, copy=False) if array.dtype.kind == "f" else array
        if self.device is None:
            return array
        forwards = array.copy() if min(array.strides, default=0) < 0 else array  # torch takes no steps back
        return self.xp.tensor(forwards, device=self.device)


NUMPY = Place()


def place_of(array: NDArray[Any]) -> Place:
    """Return where an array or tensor is."""
    device = None if namespace(array) is np else str(array.device)
    return Place(device, str(array.dtype).removeprefix("torch."))


def check_device(device: str | None) -> str | None:
    """Return the name of a device that torch has, None for numpy; ImportError without torch, ValueError for others."""
    if device is None:
        return None
    try:
        import torch
    except ImportError:
        raise ImportError(f"device={device!r} computes with torch. Install it with: pip install buttress[torch], or "
                          "leave device at None.") from None
    try:
        return str(torch.zeros(1, device=device, dtype=torch.float64).device)  # Apple GPUs have no float64
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be None or one that torch finds here, such as 'cpu' or 'cuda'. Got {device!r} "
                         f"({reason}).") from None


Bytes = NDArray[np.uint8]

_waiting: list[Bytes] = []


def memory_of(size: int, most: int) -> Bytes:
    """Return at least ``size`` bytes: those of an earlier fit if they are enough and nothing refers to them any more.

    No more than ``most`` wait for the next fit.
    """
    new: Bytes = np.empty(size, dtype=np.uint8)
    try:
        found = _waiting.pop()  # by one thread
    except IndexError:
        found = new
    if found.size < size or sys.getrefcount(found) > sys.getrefcount(new):
        found = new
    if found.size <= most:
        _waiting.append(found)
    return found
