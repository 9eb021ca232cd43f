"""Exact machines whose kernel matrices torch computes on a device."""

from dataclasses import replace

from scipy.sparse import issparse

from buttress._arrays import check_device
from buttress._types import DenseOrSparse
from buttress.expansion import KernelExpansion
from buttress.kernels import DotProduct, Kernel, Radial
from buttress.kernels.device import OnDevice


def on_device(kernel: Kernel, X: DenseOrSparse, device: str | None) -> Kernel:
    """Return the kernel with its matrices computed on a device of torch; itself where that is None.

    Raises ValueError for a device that torch does not have, for sparse rows, and for kernels that depend on more than
    a distance or an inner product.
    """
    if check_device(device) is None:
        return kernel
    if issparse(X):
        raise ValueError(f"device={device!r} computes with dense rows. Got a sparse X. Use X.toarray(), or leave "
                         "device at None.")
    if not isinstance(kernel, Radial | DotProduct):
        raise ValueError(f"On a device, kernels are computed that depend on a distance or an inner product. Got "
                         f"{kernel!r} and device={device!r}. Leave device at None.")
    return OnDevice(kernel, str(device))


def scorer(model: KernelExpansion, X: DenseOrSparse, device: str | None) -> KernelExpansion:
    """Return the expansion, with its kernel computed on the device for rows like X where one is given."""
    return model if device is None else replace(model, kernel=on_device(model.kernel, X, device))
