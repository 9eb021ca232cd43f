"""One code for numpy arrays and torch tensors: whose functions an array needs, and where arrays are kept.

Code that can run on a device takes its functions from ``namespace(array)`` and keeps to those that numpy and torch
spell alike; ``axis`` and ``keepdims`` are understood by both. torch is imported only where a device is asked for.
"""

import sys
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse, spmatrix

# What users give as X: an array, a list of rows, a data frame or a sparse matrix.
MatrixLike: TypeAlias = ArrayLike | spmatrix
Rows: TypeAlias = NDArray[np.float64] | csr_matrix  # X once it is checked: dense, or CSR


def is_csr(X: Rows) -> TypeGuard[csr_matrix]:
    """Say whether checked rows are sparse."""
    return bool(issparse(X))


def namespace(array: Any) -> Any:
    """Return torch for one of its tensors, numpy for anything else."""
    return sys.modules["torch"] if type(array).__module__ == "torch" else np


def cast(array: Any, dtype: Any) -> Any:
    """Return an array or tensor in another precision, itself where it has that."""
    return array.astype(dtype, copy=False) if namespace(array) is np else array.to(dtype)


def contiguous(array: Any) -> Any:
    """Return an array or tensor laid out row by row, as matrix products read it fastest."""
    return np.ascontiguousarray(array) if namespace(array) is np else array.contiguous()


def to_numpy(array: Any) -> Any:
    """Return a tensor as a numpy array, anything else as it is."""
    return array if namespace(array) is np else array.cpu().numpy()


@dataclass(frozen=True)
class Place:
    """Where arrays are kept and how precisely: numpy's for ``device=None``, or tensors on a torch device."""

    device: str | None = None
    dtype: str = "float64"

    @property
    def xp(self) -> Any:
        """The library of the arrays there."""
        return np if self.device is None else sys.modules["torch"]

    def __call__(self, array: Any) -> Any:
        """Return an array there, floats in this precision."""
        array = np.asarray(array)
        array = array.astype(self.dtype, copy=False) if array.dtype.kind == "f" else array
        return array if self.device is None else self.xp.tensor(array, device=self.device)


NUMPY = Place()


def place_of(array: Any) -> Place:
    """Return where an array or tensor is."""
    device = None if namespace(array) is np else str(array.device)
    return Place(device, str(array.dtype).removeprefix("torch."))


def check_device(device: Any) -> str | None:
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
