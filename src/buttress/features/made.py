"""How the Nystroem features of rows are made, and their weighted sums."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import for_each, slices, total
from buttress.features.nystroem import NystroemMap

FEATURE_BYTES = 5_000_000_000  # most bytes of features held in memory
SINGLE = 20_000_000  # with more entries, features are in float32
FAINT = 1e-6  # of `unit`: if the squared length of a row's features is smaller, no landmark is near the row
PANEL_ENTRIES = 100_000  # entries of a kernel panel that stays in the cache with what it is made from, 2.4 MB

Respond = Callable[..., Array]  # of values V (k, c) and parts of arrays of the rows to R (k, c), row by row


@dataclass(frozen=True)
class Recipe:
    """How features are made: z(x) = (phi(x), constant), phi the Nystroem map; without a constant phi(x) alone."""

    feature_map: NystroemMap
    constant: float | None
    dtype: np.dtype[Any]

    @cached_property
    def root(self) -> Array:
        """The root of the map, as features are computed with it."""
        return self.feature_map.root.astype(self.dtype)

    @property
    def width(self) -> int:
        """The entries of phi(x)."""
        return int(self.feature_map.root.shape[1])

    @property
    def size(self) -> int:
        """The entries m of z(x)."""
        return self.width + (self.constant is not None)

    def bytes_of(self, n: int) -> int:
        """The bytes that the features of n rows take."""
        return n * self.size * self.dtype.itemsize

    def made(self, X: Array, out: Array | None = None) -> Array:
        """Return the features of the rows of X, (n, m), in ``out`` if it is given."""
        block = np.empty((X.shape[0], self.size), dtype=self.dtype) if out is None else out
        for part in slices(X.shape[0], self.size, PANEL_ENTRIES):
            block[part, : self.width] = self._panel(X[part]).astype(self.dtype, copy=False) @ self.root
        if self.constant is not None:
            block[:, self.width] = self.constant
        return block

    def measured(self, unit: float, X: Array, out: Array | None = None) -> Array:
        """Return the squared length of phi, and what it lacks of k(x, x) / unit, of the rows of X, (n, 2).

        The features (n, m) are put into ``out`` if it is given.
        """
        measures = np.empty((X.shape[0], 2))

        def measure(part: slice) -> None:
            phi = self.made(X[part], None if out is None else out[part])[:, : self.width]
            lengths = np.einsum("ij,ij->i", phi, phi).astype(np.float64)
            whole = self.feature_map.kernel.diagonal(double(X[part]))
            measures[part] = np.column_stack([lengths, np.maximum(whole - lengths, 0) / unit])

        for_each(measure, slices(X.shape[0], self.size))
        return measures

    def times(self, C: Array, X: Array) -> Array:
        """Return Z C for the features Z of the rows of X; Z C = K (root c) needs kernel columns only."""
        values = np.empty((X.shape[0], *C.shape[1:]))
        inner, added = self._inner(C)

        def multiply(part: slice) -> None:
            values[part] = self._panel(X[part]) @ inner + added

        for_each(multiply, self._parts(X))
        return values

    def transposed_times(self, X: Array, A: Array) -> Array:
        """Return Z'A for the features Z of the rows of X, and A (n,) or (n, k)."""
        inner = total(lambda part: self._panel(X[part]).T @ A[part], self._parts(X),
                      (len(self.feature_map.root), *A.shape[1:]))
        return self._products(inner, A.sum(axis=0))

    def there_and_back(self, C: Array, respond: Respond, X: Array, *rowwise: NDArray[Any]) -> Array:
        """Return Z'R (m, k) above V = Z C (n, k) for R = ``respond(V, ...)``, of the rows of X: one array travels.

        Kernel panels are made once.
        """
        values = np.empty((X.shape[0], C.shape[1]))
        pulls = np.empty_like(values)
        inner, added = self._inner(C)

        def term(part: slice) -> Array:
            panel = self._panel(X[part])
            values[part] = panel @ inner + added
            pulls[part] = respond(values[part], *[of[part] for of in rowwise])
            return panel.T @ pulls[part]

        back = total(term, self._parts(X), (len(self.feature_map.root), C.shape[1]))
        return np.vstack([self._products(back, pulls.sum(axis=0)), values])

    def _inner(self, C: Array) -> tuple[Array, Any]:
        """Return the coefficients of kernel columns, and the constant, for Z C."""
        return self.feature_map.root @ C[: self.width], 0.0 if self.constant is None else self.constant * C[-1]

    def _products(self, inner: Array, summed: Array) -> Array:
        """Return Z'A from the kernel panels' sums K'A and the sums of the columns of A."""
        products = self.feature_map.root.T @ inner
        return products if self.constant is None else np.concatenate([products, self.constant * summed[None]])

    def gram(self, X: Array, weight: Array, targets: Array | None = None) -> Array:
        """Return sum_i weight_i z_i (z_i, y_i)' over the rows of X; weight (n,) >= 0, targets y (n, k)."""
        rows = np.flatnonzero(weight)
        return weighted_gram(lambda some: self.made(X[some]), self.size, rows, weight[rows], targets)

    def _parts(self, X: Array) -> list[slice]:
        return slices(X.shape[0], self.size, PANEL_ENTRIES)

    def _panel(self, X: Array) -> Array:
        return self.feature_map.kernel(double(X), self.feature_map.landmarks)


def recipe_of(feature_map: NystroemMap, n: int, unit: float, *, constant: bool) -> Recipe:
    """Return how to make the features of n rows; the constant entry is sqrt(unit)."""
    single = n * (feature_map.root.shape[1] + constant) > SINGLE
    return Recipe(feature_map, float(np.sqrt(unit)) if constant else None,
                  np.dtype(np.float32 if single else np.float64))


def too_large(n: int, recipe: Recipe) -> bool:
    """Say whether the features of n rows are too large to be kept in memory."""
    return recipe.bytes_of(n) > FEATURE_BYTES


def weighted_gram(
    take: Callable[[NDArray[np.intp]], Array], m: int, rows: NDArray[np.intp], weight: Array,
    targets: Array | None = None,
) -> Array:
    """Return sum_i weight_i z_i z_i' (m, m) over the numbered rows, of weights >= 0.

    With ``targets`` y (n, k) it is sum_i weight_i z_i (z_i, y_i)', of shape (m, m + k): moments take no second look at
    the rows. ``take`` returns a fresh array of the features (k, m) of the row numbers it is given, in float64 or
    float32; sums are in float64.
    """
    root = np.sqrt(weight)

    def term(part: slice) -> Array:
        block = take(rows[part])
        # In float64: rows whose weight falls are taken off these sums again, which would keep what rounding lost.
        moments = None if targets is None else block.T @ (targets[rows[part]] * weight[part, None])
        block *= root[part, None].astype(block.dtype)
        gram: Array = block.T @ block
        return gram if moments is None else np.hstack([gram, moments])

    return total(term, slices(len(rows), m), (m, m if targets is None else m + targets.shape[1]))


def double(X: Array) -> Any:
    """Return rows in float64."""
    return X.astype(np.float64, copy=False)
