"""Kernel values at some rows, their gradients, and their values after steps along single coordinates.

For radial kernels and kernels of an inner product all three come from one matrix product, on numpy arrays and on torch
tensors. Any other kernel is called again for each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import Any, Protocol

import numpy as np

from buttress._arrays import Place, contiguous, namespace, to_numpy
from buttress._checks import Array
from buttress._types import Rows
from buttress.kernels.kernel import Centred, DotProduct, Kernel, Radial, middle, plain
from buttress.kernels.named import RBF


class KernelPoint(Protocol):
    """Kernel values ``values`` (n, m) at rows X (n, d) against the centres Z (m, d)."""

    values: Array

    def gradient(self, V: Array) -> Array:
        """Return sum_j V_ij dk(x_i, z_j)/dx_i, shape (n, d)."""

    def nudged(self, rows: Rows, columns: Rows, steps: Array, V: Array) -> Array:
        """Return sum_j V_ij k(x_i + steps[i, b] e_columns[i, b], z_j) for i in ``rows`` (r,), shape (r, B)."""


def nudge(X: Array, columns: Rows, steps: Array) -> Array:
    """Return each row of X (r, d) moved by one of ``steps`` (r, B) along one of ``columns``, shape (r B, d)."""
    xp, (n, count) = namespace(X), columns.shape
    moved = X[:, None, :] + xp.zeros_like(steps)[:, :, None]
    moved[xp.arange(n)[:, None], xp.arange(count), columns] += steps
    return moved.reshape(n * count, -1)


def weighted(values: Array, V: Array) -> Array:
    """Return sum_j V_ij values_ibj, shape (r, B)."""
    return (values @ V[:, :, None])[:, :, 0]


def centred(kernel: Kernel, Z: Array) -> Any:
    """Return a function of rows X that gives their :class:`KernelPoint` against the centres Z; both arrays of one kind.

    Raises ValueError for tensors if the kernel is neither radial nor a function of an inner product.
    """
    if isinstance(kernel, (Radial, DotProduct)):
        kernel = plain(kernel)
    return _centred(kernel, Z)


@singledispatch
def _centred(kernel: Kernel, Z: Array) -> Any:
    if namespace(Z) is not np:
        raise ValueError(f"On a device, kernels are computed that depend on a distance or an inner product. Got "
                         f"{kernel!r}. Leave device at None.")
    return lambda X: AnyPoint(kernel, X, Z)


class AnyPoint:
    """The point of any other kernel, which is called for values and gradients."""

    def __init__(self, kernel: Kernel, X: Array, Z: Array):
        self.kernel = kernel
        self.X = X
        self.Z = Z
        self.values = kernel(X, Z)

    def gradient(self, V: Array) -> Array:
        return self.kernel.gradient(self.X, self.Z, V)

    def nudged(self, rows: Rows, columns: Rows, steps: Array, V: Array) -> Array:
        values = self.kernel(nudge(self.X[rows], columns, steps), self.Z).reshape(*columns.shape, -1)
        return weighted(values, V)


class RadialPoint:
    """The point of a kernel F(r^2): a step h along coordinate j changes r^2 by 2 h (x_j - z_j) + h^2."""

    def __init__(self, kernel: Radial, X: Array, centres: Centred):
        self.kernel = kernel
        self.centres = centres
        self.X, norms = centres.moved(X)
        self.r2 = centres.completed(self.X @ centres.doubled, norms)
        self.values = kernel.profile(self.r2)

    @cached_property
    def slopes(self) -> Array:
        """The kernel's derivatives in r^2, shape (n, m)."""
        return -self.kernel.gamma * self.values if type(self.kernel) is RBF else self.kernel.slope(self.r2)

    def gradient(self, V: Array) -> Array:
        S = V * self.slopes
        S *= 2
        return S.sum(axis=1)[:, None] * self.X - S @ self.centres.rows

    def centre_gradient(self, V: Array) -> Array:
        """Return sum_i V_ij dk(x_i, z_j)/dz_j, shape (m, d)."""
        S = V * self.slopes
        S *= 2
        return S.sum(axis=0)[:, None] * self.centres.rows - S.T @ self.X

    def stretch_slopes(self, V: Array) -> Array:
        """Return sum_j V_ij dk_ij/ds at s = 0, shape (n,), where e^s multiplies the squared distances."""
        return namespace(V).einsum("ij,ij->i", V * self.slopes, self.r2)

    def nudged(self, rows: Rows, columns: Rows, steps: Array, V: Array) -> Array:
        own = self.X[rows[:, None], columns]
        r2 = self.centres.doubled[columns] * steps[:, :, None]
        r2 += (2 * steps * own + steps**2)[:, :, None]
        r2 += self.r2[rows][:, None]
        return weighted(self.kernel.profile(namespace(r2).clip(r2, 0, None)), V)


class RBFPoint(RadialPoint):
    """The point of the RBF kernel, whose values after a step are a product of factors.

    exp(-gamma |x + h e_j - z|^2) = exp(-gamma |x - z|^2) exp(-gamma (2 h x_j + h^2)) exp(2 gamma h z_j). The last
    factor does not depend on the row x. Where each column has one |h|, scores after any number of steps are one matrix
    product.
    """

    STEEPEST = 50.0  # largest exponent: with larger ones the factors lose digits

    def nudged(self, rows: Rows, columns: Rows, steps: Array, V: Array) -> Array:
        xp = namespace(self.X)
        lengths = xp.zeros_like(self.X[0])
        lengths[columns] = abs(steps)
        some, place = xp.unique(columns, return_inverse=True)
        exponent = self.kernel.gamma * lengths[some, None] * self.centres.doubled[some]
        if (lengths[columns] != abs(steps)).any() or abs(exponent).max() > self.STEEPEST:
            one = [slice(i, i + 1) for i in range(len(rows))]
            return xp.concatenate([super(RBFPoint, self).nudged(rows[i], columns[i], steps[i], V[i]) for i in one])
        weights = self.values[rows] * V
        each = xp.arange(len(rows))[:, None], place.reshape(columns.shape)
        down, up = ((weights @ xp.exp(power).T)[each] for power in (exponent, -exponent))
        own = self.X[rows[:, None], columns]
        return xp.where(steps > 0, up, down) * xp.exp(-self.kernel.gamma * (2 * steps * own + steps**2))


@_centred.register
def _(kernel: Radial, Z: Array) -> Any:
    centres = Centred.at_median(Z)
    kind = RBFPoint if isinstance(kernel, RBF) else RadialPoint
    return lambda X: kind(kernel, X, centres)


class DotPoint:
    """The point of a kernel G(x'z): a step h along coordinate j changes x'z by h z_j."""

    def __init__(self, kernel: DotProduct, X: Array, Z: Array, transposed: Array):
        self.kernel = kernel
        self.Z = Z
        self.transposed = transposed
        self.products = X @ transposed
        self.values = kernel.profile(self.products)

    def gradient(self, V: Array) -> Array:
        return (V * self.kernel.slope(self.products)) @ self.Z

    def nudged(self, rows: Rows, columns: Rows, steps: Array, V: Array) -> Array:
        products = self.products[rows][:, None] + self.transposed[columns] * steps[:, :, None]
        return weighted(self.kernel.profile(products), V)


@_centred.register
def _(kernel: DotProduct, Z: Array) -> Any:
    transposed = contiguous(Z.T)
    return lambda X: DotPoint(kernel, X, Z, transposed)


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
