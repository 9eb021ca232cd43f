"""The interface of a kernel, and the two most common families: functions of a distance and of an inner product."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from buttress._arrays import contiguous, namespace, place_of, to_numpy
from buttress._checks import Array
from buttress._state import Lengths, State


def _check_sound(kernel: "Kernel", lengths: Lengths) -> None:
    """Raise ValueError where the kernel's own check of its parameters fails."""
    assert isinstance(kernel.definiteness, str), "a kernel says how definite it is"


class Kernel(BaseEstimator, ABC):
    """A function k(x, z) with its diagonal and its gradient in x.

    The parameters of a class of kernels are fields, which it declares in a ``_state`` of its own.
    """

    _state = State(together=_check_sound)

    @property
    @abstractmethod
    def definiteness(self) -> str:
        """``"pd"``, ``"cpd"``, ``"indefinite"`` or ``"unknown"``; raises ValueError for a bad parameter."""

    @abstractmethod
    def __call__(self, X: Array, Z: Array) -> Array:
        """Return k(x_i, z_j), shape (n, m)."""

    def toward(self, Z: Array) -> Callable[[Array], Array]:
        """Return X -> k(X, Z) for dense X, with what depends on the dense Z (m, d) alone computed once."""
        return lambda X: self(X, Z)

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n,)."""

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        """Return sum_j V_ij dk(x_i, z_j)/dx_i, shape (n, d); raises ValueError where the kernel has none."""
        raise ValueError(f"A {type(self).__name__.lower()} kernel has no gradient in the inputs. Use a kernel object "
                         "such as RBF(gamma).")


class Radial(Kernel):
    """k(x, z) = F(r^2) with r the Euclidean distance; subclasses give F and its slope dF/d(r^2).

    Both work entry by entry, depend only on their argument and the parameters, and change neither: a large matrix is
    filled in pieces, from several threads at once.
    """

    @abstractmethod
    def profile(self, r2: Array) -> Array:
        """F(r^2)."""

    @abstractmethod
    def slope(self, r2: Array) -> Array:
        """dF/d(r^2); 0 where it does not exist (r = 0 of a kernel with a cusp)."""

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.profile(squared_distances(X, Z))

    def toward(self, Z: Array) -> Callable[[Array], Array]:
        ready = Centred.at_median(Z)
        return lambda X: self.profile(ready.squared_distances(X))

    def diagonal(self, X: Array) -> Array:
        return self.profile(np.zeros(X.shape[0]))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        S = V * self.slope(squared_distances(X, Z))
        return 2 * (S.sum(axis=1)[:, None] * X - S @ Z)


class DotProduct(Kernel):
    """k(x, z) = G(x'z); subclasses give G and its slope, with the same conditions as in :class:`Radial`."""

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """G(s)."""

    @abstractmethod
    def slope(self, s: Array) -> Array:
        """dG/ds."""

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.profile(safe_sparse_dot(X, Z.T, dense_output=True))

    def diagonal(self, X: Array) -> Array:  # in float64 for float32 rows too: proofs count on it
        return self.profile(row_norms(X.astype(np.float64), squared=True) if issparse(X) else
                            np.einsum("ij,ij->i", X, X, dtype=np.float64))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        return (V * self.slope(X @ Z.T)) @ Z


@dataclass(frozen=True)
class Centred:
    """Rows z_j (m, d) less a ``centre`` (d,), and their squared norms (m,).

    Dense rows are numpy arrays or torch tensors.
    """

    centre: Array
    rows: Array
    norms: Array

    @classmethod
    def at_median(cls, Z: Array) -> "Centred":
        """Return the rows of Z (m, d) centred at a median of some of them."""
        centre = middle(Z) if namespace(Z) is np else place_of(Z)(middle(to_numpy(Z)))
        rows = less(Z, centre)
        return cls(centre, rows, squared_lengths(rows))

    def moved(self, X: Array) -> tuple[Array, Array]:
        """Return other rows X (n, d) less the centre, and their squared norms (n,)."""
        rows = less(X, self.centre)
        return rows, squared_lengths(rows)

    @cached_property
    def doubled(self) -> Array:
        """-2 times the transposed dense rows, shape (d, m)."""
        return contiguous(-2 * self.rows.T)

    def squared_distances(self, X: Array) -> Array:
        """Return |x_i - z_j|^2, shape (n, m), by one matrix product; 0 where it is below rounding."""
        X, norms = self.moved(X)
        return self.completed(safe_sparse_dot(-2 * X, self.rows.T, dense_output=True), norms)

    def completed(self, r2: Array, norms: Array) -> Array:
        """Return |x_i - z_j|^2 from -2 x_i'z_j (n, m), which is overwritten, and squared norms (n,) of moved rows."""
        r2 += norms[:, None]
        r2 += self.norms
        clear_rounding(r2, norms, self.norms)
        return r2


def squared_distances(X: Array, Z: Array) -> Array:
    """Return |x_i - z_j|^2, shape (n, m), by one matrix product.

    Distances below rounding are set to 0, so that equal rows have distance exactly 0. (A kernel with a cusp at 0 would
    turn 1e-16 into an error of 1e-8.) Both sets are first centred at a median, and each pair has its own rounding, so
    that one row far away costs the others no precision. Sparse sets (CSR) stay sparse: only in columns that most rows
    have is their median not 0.
    """
    return Centred.at_median(Z).squared_distances(X)


def less(X: Array, centre: Array) -> Array:
    """Return the rows of X (n, d) less the ``centre`` (d,), sparse ones as sparse rows."""
    if not issparse(X):
        return X - centre
    return X - csr_matrix(np.ones((X.shape[0], 1), X.dtype)) @ csr_matrix(centre) if centre.any() else X


def squared_lengths(X: Array) -> Array:
    """Return the squared lengths (n,) of the rows of X (n, d), dense or sparse, in its precision."""
    return row_norms(X, squared=True) if issparse(X) else namespace(X).einsum("ij,ij->i", X, X)


def middle(Z: Array) -> Array:
    """Return the median of each column over some rows of Z (m, d), dense or CSR; 0 if there are no rows."""
    found = np.zeros(Z.shape[1], Z.dtype)
    if Z.shape[0] == 0:
        return found
    some: Any = Z[:: Z.shape[0] // 16 + 1]  # to centre squared distances, any point among the rows will do
    if issparse(some):
        often = np.flatnonzero(2 * np.bincount(some.indices, minlength=len(found)) >= some.shape[0])
        found[often] = middle(some[:, often].toarray())
        return found
    halves = ((len(some) - 1) // 2, len(some) // 2)
    lower, upper = np.partition(some, halves, axis=0)[list(halves)]  # np.median does more that takes longer
    return (lower + upper) / 2


def clear_rounding(r2: Array, xx: Array, zz: Array) -> None:
    """Set squared distances r2 (n, m) to 0 where they are within rounding, given squared norms xx (n,) and zz (m,)."""
    if len(xx) and len(zz):
        xp = namespace(r2)
        rounding = 16 * xp.finfo(r2.dtype).eps  # of the squared lengths of two equal rows
        close = r2 <= rounding * (xx.max() + zz.max())
        if not close.any():
            return
        few = xp.argwhere(close.reshape(-1))[:, 0]
        i = few // len(zz)
        j = few % len(zz)
        r2[i, j] = xp.where(r2[i, j] <= rounding * (xx[i] + zz[j]), 0, r2[i, j])


SomeKernel = TypeVar("SomeKernel", bound=Kernel)


def plain(kernel: SomeKernel) -> SomeKernel:
    """Return the kernel with Python numbers as parameters: numpy's turn float32 into float64 and fail on tensors."""
    if not any(isinstance(value, np.generic) for value in vars(kernel).values()):
        return kernel
    numbers = {name: value.item() for name, value in kernel.get_params(deep=False).items()
               if isinstance(value, np.generic)}
    return clone(kernel).set_params(**numbers)
