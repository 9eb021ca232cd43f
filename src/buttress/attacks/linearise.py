"""Kernel values at some rows together with what an attack asks next: their gradients, and steps along coordinates.

Radial kernels and those of an inner product share the one matrix product behind all three; any other kernel is called
again for each.
"""

from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.kernels import RBF, DotProduct, Kernel, Radial

Columns = NDArray[np.intp]


class Point(Protocol):
    """Kernel values ``values`` (n, m) at rows X (n, d) against the centres Z (m, d)."""

    values: Array

    def gradient(self, V: Array) -> Array:
        """Return sum_j V_ij dk(x_i, z_j)/dx_i, shape (n, d)."""

    def nudged(self, rows: Columns, columns: Columns, steps: Array, V: Array) -> Array:
        """Return sum_j V_ij k(x_i + steps[i, b] e_columns[i, b], z_j) of the rows i named (r,), shape (r, B)."""


def nudge(X: Array, columns: Columns, steps: Array) -> Array:
    """Return each row of X (r, d) moved by one of ``steps`` (r, B) along one of ``columns``, shape (r B, d)."""
    n, count = columns.shape
    moved = np.repeat(X[:, None, :], count, axis=1)
    moved[np.arange(n)[:, None], np.arange(count), columns] += steps
    return moved.reshape(n * count, -1)


def weighted(values: Array, V: Array) -> Array:
    """Return sum_j V_ij values_ibj, shape (r, B)."""
    return np.matmul(values, V[:, :, None])[:, :, 0]


@singledispatch
def centred(kernel: Kernel, Z: Array) -> Any:
    """Return a function of rows X that gives their :class:`Point` against the centres Z."""
    return lambda X: AnyPoint(kernel, X, Z)


class AnyPoint:
    """Of a kernel known by its values and gradients only."""

    def __init__(self, kernel: Kernel, X: Array, Z: Array):
        self.kernel, self.X, self.Z = kernel, X, Z
        self.values = kernel(X, Z)

    def gradient(self, V: Array) -> Array:
        return self.kernel.gradient(self.X, self.Z, V)

    def nudged(self, rows: Columns, columns: Columns, steps: Array, V: Array) -> Array:
        values = self.kernel(nudge(self.X[rows], columns, steps), self.Z).reshape(*columns.shape, -1)
        return weighted(values, V)


class RadialPoint:
    """Of F(r^2): a step h along coordinate j changes r^2 by 2 h (x_j - z_j) + h^2."""

    def __init__(self, kernel: Radial, X: Array, Z: Array, transposed: Array, squares: Array):
        self.kernel, self.X, self.Z, self.transposed = kernel, X, Z, transposed
        xx = np.einsum("ij,ij->i", X, X)
        r2 = np.dot(X, transposed)
        r2 *= -2
        r2 += xx[:, None]
        r2 += squares
        r2[r2 <= 16 * np.finfo(r2.dtype).eps * (xx.max() + squares.max())] = 0  # as in squared_distances
        self.r2, self.values = r2, kernel.profile(r2)

    def gradient(self, V: Array) -> Array:
        slope = -self.kernel.gamma * self.values if type(self.kernel) is RBF else self.kernel.slope(self.r2)
        S = V * slope
        S *= 2
        g = S.sum(axis=1)[:, None] * self.X
        g -= S @ self.Z
        return g

    def nudged(self, rows: Columns, columns: Columns, steps: Array, V: Array) -> Array:
        own = self.X[rows[:, None], columns]
        r2 = self.transposed[columns] * (-2 * steps)[:, :, None]
        r2 += (2 * steps * own + steps**2)[:, :, None]
        r2 += self.r2[rows, None, :]
        return weighted(self.kernel.profile(np.maximum(r2, 0, out=r2)), V)


@centred.register
def _(kernel: Radial, Z: Array) -> Any:
    centre = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1])
    Z = Z - centre
    transposed, squares = np.ascontiguousarray(Z.T), np.einsum("ij,ij->i", Z, Z)
    return lambda X: RadialPoint(kernel, X - centre, Z, transposed, squares)


class RBFSteps:
    """What a step of length h along a column multiplies RBF kernel values by, but for a factor of the row alone.

    exp(-gamma |x + h e_j - z|^2) = exp(-gamma |x - z|^2) exp(-gamma (2 h x_j + h^2)) exp(2 gamma h z_j): the last
    factor is kept, for one h a column, so that the scores after any number of steps are one matrix product.
    """

    LARGEST = 20_000_000  # entries to keep
    STEEPEST = 50.0  # largest exponent: beyond, the factors lose digits

    def __init__(self, gamma: float, transposed: Array):
        self.gamma, self.transposed = gamma, transposed
        self.lengths = np.zeros(len(transposed))
        self.up = self.down = np.ones((0, 0))

    def ready(self, columns: Columns, steps: Array) -> bool:
        """Prepare for these steps; False where that is not possible and they are to be taken one by one."""
        if self.transposed.size > self.LARGEST:
            return False
        wanted = self.lengths.copy()
        wanted[columns] = np.abs(steps)
        if (wanted[columns] != np.abs(steps)).any():
            return False
        if (wanted != self.lengths).any() or self.up.size == 0:
            exponent = 2 * self.gamma * wanted[:, None] * self.transposed
            if np.abs(exponent).max(initial=0) > self.STEEPEST:
                return False
            self.lengths, self.up = wanted, np.exp(exponent)
            self.down = 1 / self.up
        return True


class RBFPoint(RadialPoint):
    """Of the RBF kernel, whose values after a step are a product."""

    def __init__(self, kernel: RBF, X: Array, Z: Array, transposed: Array, squares: Array, steps: RBFSteps):
        super().__init__(kernel, X, Z, transposed, squares)
        self.steps = steps

    def nudged(self, rows: Columns, columns: Columns, steps: Array, V: Array) -> Array:
        if not self.steps.ready(columns, steps):
            one = [slice(i, i + 1) for i in range(len(rows))]
            return np.concatenate([super(RBFPoint, self).nudged(rows[i], columns[i], steps[i], V[i]) for i in one])
        weights = self.values[rows] * V
        up = np.take_along_axis(weights @ self.steps.up.T, columns, axis=1)
        down = np.take_along_axis(weights @ self.steps.down.T, columns, axis=1)
        own = self.X[rows[:, None], columns]
        return np.where(steps > 0, up, down) * np.exp(-self.steps.gamma * (2 * steps * own + steps**2))


@centred.register
def _(kernel: RBF, Z: Array) -> Any:
    centre = Z.mean(axis=0) if len(Z) else np.zeros(Z.shape[1])
    Z = Z - centre
    transposed, squares = np.ascontiguousarray(Z.T), np.einsum("ij,ij->i", Z, Z)
    steps = RBFSteps(kernel.gamma, transposed)
    return lambda X: RBFPoint(kernel, X - centre, Z, transposed, squares, steps)


class DotPoint:
    """Of G(x'z): a step h along coordinate j changes x'z by h z_j."""

    def __init__(self, kernel: DotProduct, X: Array, Z: Array, transposed: Array):
        self.kernel, self.Z, self.transposed = kernel, Z, transposed
        self.products = X @ transposed
        self.values = kernel.profile(self.products)

    def gradient(self, V: Array) -> Array:
        return (V * self.kernel.slope(self.products)) @ self.Z

    def nudged(self, rows: Columns, columns: Columns, steps: Array, V: Array) -> Array:
        products = self.products[rows, None, :] + self.transposed[columns] * steps[:, :, None]
        return weighted(self.kernel.profile(products), V)


@centred.register
def _(kernel: DotProduct, Z: Array) -> Any:
    transposed = np.ascontiguousarray(Z.T)
    return lambda X: DotPoint(kernel, X, Z, transposed)
