"""The Nystroem features of many rows, in batches or in memory: stored, or computed again when needed.

Each use is one pass over the batches. Sums over rows are added where the batches are and only the sums travel; what is
known of each row (targets, weights, values) is here, one number a row.

Features are stored up to ``made.FEATURE_BYTES`` bytes, in float32 if there are many. With more, they are computed again
where a Gram matrix needs them. Values then need kernel columns only, because Z c = K (root c). Of rows in batches of
this process they are stored up to ``KEPT_BYTES``, in one pass over the batches.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import for_each, slices, total
from buttress.features.made import FAINT, Recipe, Respond, recipe_of, too_large, weighted_gram
from buttress.features.nystroem import NystroemMap


class Batches(ABC):
    """Batches of rows that can be gone through several times, ``here`` in this process or in others."""

    here: bool
    sizes: list[int]

    @abstractmethod
    def each(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> Iterable[Array]:
        """Return ``function(X, ...)`` of each batch X in their order; the rest are its parts of the arrays (n, ...)."""

    def total(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> Array:
        """Return the sum of these."""
        return reduce(np.add, self.each(function, *rowwise))


class BatchedRows:
    """A matrix X (n, d) whose rows come in batches."""

    def __init__(self, batches: Batches, n_columns: int, dtype: np.dtype[Any]):
        self.batches = batches
        self.shape = (sum(batches.sizes), n_columns)
        self.dtype = dtype

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Array:
        """Return the numbered rows, shape (k, d), in one pass."""
        numbers = np.arange(self.shape[0])[rows]
        wanted, place = np.unique(numbers, return_inverse=True)
        here = np.isin(np.arange(self.shape[0]), wanted)
        return np.concatenate([*self.batches.each(operator.getitem, here)])[place]

    def keeping(self, rows: NDArray[np.intp]) -> "BatchedRows":
        """Return the matrix of the numbered rows, in their order here, still in batches."""
        here = np.isin(np.arange(self.shape[0]), rows)
        return BatchedRows(KeptBatches(self.batches, here), self.shape[1], self.dtype)


class KeptBatches(Batches):
    """Batches of which only some rows are used: those that are ``kept`` (n,)."""

    def __init__(self, batches: Batches, kept: NDArray[np.bool_]):
        self.batches = batches
        self.kept = kept
        self.here = batches.here
        ends = np.cumsum(batches.sizes)[:-1]
        self.sizes = [int(part.sum()) for part in np.split(kept, ends)]

    def each(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> Iterable[Array]:
        """Return ``function(X, ...)`` of each batch X in their order; the rest are its parts of the arrays (k, ...)."""
        return self.batches.each(partial(_of_kept, function), self.kept, *map(self._spread, rowwise))

    def total(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> Array:
        """Return the sum of these."""
        return self.batches.total(partial(_of_kept, function), self.kept, *map(self._spread, rowwise))

    def _spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values (k, ...) of the rows used at their places among all."""
        spread = np.zeros((len(self.kept), *values.shape[1:]), dtype=values.dtype)
        spread[self.kept] = values
        return spread


class Whole(Batches):
    """All rows X (n, d), dense or CSR, as one batch."""

    here = True

    def __init__(self, X: Array):
        self.X = X
        self.sizes = [X.shape[0]]

    def each(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> list[Array]:
        """Return ``function(X, ...)`` of the one batch."""
        return [function(self.X, *rowwise)]


def batches_of(X: Array | BatchedRows) -> Batches:
    """Return the batches that rows come in."""
    return X.batches if isinstance(X, BatchedRows) else Whole(X)


class BatchedFeatures:
    """Feature vectors z(x_i) = (features of x_i, sqrt(unit)), the rows of a matrix Z (n, m), made again at each use.

    ``lengths`` (n,) are their squared lengths without the constant entry. ``missed`` (n,) is the share of k(x_i, x_i)
    that the landmarks cannot represent, and ``faint`` (n,) says where no landmark is near. ``eps`` is the rounding of
    Z; ``remade`` says that Z is too large to be kept.
    """

    def __init__(self, recipe: Recipe, X: Array | BatchedRows, unit: float):
        self.recipe = recipe
        self.X = X
        self.batches = batches_of(X)
        self.shape = (X.shape[0], recipe.size)
        self.eps = float(np.finfo(recipe.dtype).eps)
        self.remade = too_large(X.shape[0], recipe)
        measures = np.concatenate([*self.batches.each(partial(recipe.measured, unit))])
        self.lengths = measures[:, 0].copy()
        self.missed = measures[:, 1].copy()
        self.faint = self.lengths < FAINT * unit

    def __getitem__(self, rows: NDArray[np.intp]) -> Array:
        """Return a fresh array of the features of the numbered rows, shape (k, m)."""
        return self.recipe.made(self.X[rows])

    def times(self, C: Array) -> Array:
        """Return Z C, shape (n,) or (n, k), for C of shape (m,) or (m, k)."""
        return np.concatenate([*self.batches.each(partial(self.recipe.times, C))])

    def transposed_times(self, A: Array) -> Array:
        """Return Z'A, shape (m,) or (m, k), for A (n,) or (n, k)."""
        return self.batches.total(self.recipe.transposed_times, A)

    def there_and_back(self, C: Array, respond: Respond, *rowwise: NDArray[Any]) -> tuple[Array, Array]:
        """Return V = Z C (n, k) and Z'R (m, k) for R = ``respond(V, ...)`` (n, k), in one pass over the batches.

        ``respond`` is called with some rows of V and of the arrays ``rowwise``, (n, ...), at a time.
        """
        m = self.shape[1]
        found = [*self.batches.each(partial(self.recipe.there_and_back, C, respond), *rowwise)]
        back = np.add.reduce([both[:m] for both in found], axis=0)
        return np.concatenate([both[m:] for both in found]), back

    def weighted_gram(self, rows: NDArray[np.intp], weight: Array, targets: Array | None = None) -> Array:
        """Return sum_i weight_i z_i (z_i, y_i)' over the numbered rows, of weights >= 0.

        It has shape (m, m + k) for ``targets`` y (n, k), (m, m) without any.
        """
        weights = np.zeros(self.shape[0])
        weights[rows] = weight
        return self.batches.total(self.recipe.gram, weights, *([] if targets is None else [targets]))


def _of_kept(function: Callable[..., Array], X: Array, here: NDArray[np.bool_], *parts: Array) -> Array:
    return function(X[here], *[part[here] for part in parts])


KEPT_BYTES = 1_000_000_000  # most bytes of features held of rows in batches: who streams them is short of memory


class StoredFeatures:
    """Features Z (n, m) in one array, with what :class:`BatchedFeatures` has; nothing is ``missed`` by default."""

    remade = False

    def __init__(self, Z: Array, lengths: Array | None = None, missed: Array | None = None, unit: float = 1.0):
        self.stored = Z
        self.shape: tuple[int, int] = Z.shape
        self.eps = float(np.finfo(Z.dtype).eps)
        self.lengths = np.einsum("ij,ij->i", Z, Z) if lengths is None else lengths
        self.missed = np.zeros(len(Z)) if missed is None else missed
        self.faint = self.lengths < FAINT * unit

    def __getitem__(self, rows: NDArray[np.intp]) -> Array:
        """Return a fresh array of the features of the numbered rows, shape (k, m)."""
        return self.stored[rows]

    def times(self, C: Array) -> Array:
        """Return Z C, shape (n,) or (n, k), for C of shape (m,) or (m, k)."""
        values = np.empty((self.shape[0], *C.shape[1:]))
        single = C.astype(self.stored.dtype, copy=False)

        def multiply(part: slice) -> None:
            values[part] = self.stored[part] @ single

        for_each(multiply, self._parts())
        return values

    def transposed_times(self, A: Array) -> Array:
        """Return Z'A, shape (m,) or (m, k), for A (n,) or (n, k)."""
        single = A.astype(self.stored.dtype, copy=False)
        n, m = self.shape
        return total(lambda part: self.stored[part].T @ single[part], slices(n, m), (m, *A.shape[1:]))

    def there_and_back(self, C: Array, respond: Respond, *rowwise: NDArray[np.generic]) -> tuple[Array, Array]:
        """Return V = Z C (n, k) and Z'R (m, k) for R = ``respond(V, ...)`` (n, k), in one pass over the features."""
        values = np.empty((self.shape[0], C.shape[1]))
        single = C.astype(self.stored.dtype, copy=False)

        def term(part: slice) -> Array:
            values[part] = self.stored[part] @ single
            pull = respond(values[part], *[of[part] for of in rowwise])
            return self.stored[part].T @ pull.astype(self.stored.dtype)

        return values, total(term, self._parts(), C.shape)

    def weighted_gram(self, rows: NDArray[np.intp], weight: Array, targets: Array | None = None) -> Array:
        """Return sum_i weight_i z_i (z_i, y_i)' over the numbered rows: (m, m + k) for ``targets`` y (n, k)."""
        return weighted_gram(self.__getitem__, self.shape[1], rows, weight, targets)

    def _parts(self) -> list[slice]:
        """Return slices of rows that stay in the cache between a product and its transpose."""
        n, m = self.shape
        return slices(n, m, 400_000)  # 1.6 or 3.2 MB, used twice while they are in the cache


FeaturesOfRows = BatchedFeatures | StoredFeatures


def landmark_features(
    feature_map: NystroemMap, X: Array | BatchedRows, unit: float, *, constant: bool = True
) -> FeaturesOfRows:
    """Return z(x_i) = (features of x_i, sqrt(unit)) for the rows of X (n, d), stored where they are small enough.

    Without ``constant`` the last entry, sqrt(unit), is left out.
    """
    recipe = recipe_of(feature_map, X.shape[0], unit, constant=constant)
    most = KEPT_BYTES if isinstance(X, BatchedRows) else np.inf
    if too_large(X.shape[0], recipe) or not batches_of(X).here or recipe.bytes_of(X.shape[0]) > most:
        return BatchedFeatures(recipe, X, unit)
    Z = np.empty((X.shape[0], recipe.size), dtype=recipe.dtype)

    def fill(some: Array, numbers: NDArray[np.intp]) -> Array:
        return recipe.measured(unit, some, Z[numbers.min(initial=len(Z)) : numbers.max(initial=-1) + 1])

    measures = np.concatenate([*batches_of(X).each(fill, np.arange(X.shape[0]))])
    return StoredFeatures(Z, measures[:, 0].copy(), measures[:, 1].copy(), unit)
