"""A kernel computed by torch on a device; rows go in and values come out as numpy's arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._checks import Array
from buttress.kernels.kernel import Kernel, Radial, middle
from buttress.kernels.points import centred


@dataclass(eq=False, repr=False)
class OnDevice(Kernel):
    """Another kernel, which depends on a distance or an inner product, with its matrices computed on a device.

    Parameters
    ----------
    kernel : Kernel
    device : str
        One of torch's, such as "cpu" or "cuda".
    """

    kernel: Kernel
    device: str

    @property
    def definiteness(self) -> str:
        return self.kernel.definiteness

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.toward(Z)(X)

    def toward(self, Z: Array) -> Callable[[Array], Array]:
        place = self.place(Z)
        there = centred(self.kernel, place(Z))
        return lambda X: to_numpy(there(place(X)).values)

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(X)

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        return self.kernel.gradient(X, Z, V)

    def place(self, *arrays: Array) -> Place:
        """Return the device in the precision of these arrays: float32 if all have it, else float64."""
        single = all(array.dtype == np.float32 for array in arrays)
        return Place(self.device, "float32" if single else "float64")

    def centre(self, X: Array) -> Any:
        """Return what may be subtracted from all rows (n, d) without changing a value."""
        return middle(X) if isinstance(self.kernel, Radial) else 0.0
