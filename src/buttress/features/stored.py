"""The Nystroem features of many rows, stored or computed again when needed.

Features are stored up to ``made.FEATURE_BYTES`` bytes, in float32 if there are many. With more, they are computed again
where a Gram matrix needs them. Values then need kernel columns only, because Z c = K (root c). Of rows in batches of
this process they are stored up to ``KEPT_BYTES``, in one pass over the batches.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import for_each, slices, total
from buttress.features.batched import BatchedFeatures, BatchedRows
from buttress.features.made import FAINT, FeaturesOfRows, Respond, recipe_of, too_large
from buttress.features.nystroem import NystroemMap
from buttress.features.thin import thin_product
from buttress.features.weighted import weighted_gram

KEPT_BYTES = 1_000_000_000  # most bytes of features held of rows in batches: who streams them is short of memory
PART_ENTRIES = 400_000  # entries of a part of them, 1.6 or 3.2 MB, that is used twice while it is in the cache


class LandmarkFeatures:
    """Rows z(x_i) = (features of x_i, sqrt(unit)) for the rows of X (n, d), stored or computed when needed.

    Without ``constant`` the last entry, sqrt(unit), is left out. The attributes are those of ``made.FeaturesOfRows``.
    """

    def __init__(self, feature_map: NystroemMap, X: Array | BatchedRows, unit: float, *, constant: bool = True):
        self.recipe = recipe_of(feature_map, X.shape[0], unit, constant=constant)
        self.X: Any = X
        self.shape = (X.shape[0], self.recipe.size)
        self.dtype = self.recipe.dtype
        self.eps = float(np.finfo(self.dtype).eps)
        self.remade = too_large(X.shape[0], self.recipe)
        self.stored = None if self.remade else np.empty(self.shape, dtype=self.dtype)
        measures = np.empty((X.shape[0], 2))

        def fill(rows: Array, numbers: NDArray[np.intp]) -> Array:
            def measure(part: slice) -> None:
                at = slice(numbers[part][0], numbers[part][-1] + 1)
                out = None if self.stored is None else self.stored[at]
                measures[at] = self.recipe.measured(rows[part], unit, out)

            for_each(measure, slices(rows.shape[0], self.shape[1]))
            return measures[:0]

        all_rows = np.arange(X.shape[0])
        if isinstance(X, BatchedRows):
            X.batches.each(fill, all_rows)
        else:
            fill(X, all_rows)
        self.lengths = measures[:, 0].copy()
        self.missed = measures[:, 1].copy()
        self.faint = self.lengths < FAINT * unit

    def __getitem__(self, rows: NDArray[np.intp]) -> Array:
        """Return a fresh array of the features of the numbered rows, shape (k, m)."""
        return self.recipe.made(self.X[rows]) if self.stored is None else self.stored[rows]

    def times(self, C: Array) -> Array:
        """Return Z C, shape (n,) or (n, k), for C of shape (m,) or (m, k)."""
        stored = self.stored
        if stored is None:
            return self.recipe.times(C, self.X)
        values = np.empty((self.shape[0], *C.shape[1:]))

        def multiply(part: slice) -> None:
            values[part] = thin_product(stored[part], C)

        for_each(multiply, self._parts())
        return values

    def transposed_times(self, A: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return Z'A, shape (m,) or (m, k), for A (n,) or (n, k), of which only these ``rows`` are not 0."""
        stored = self.stored
        if rows is not None:
            some = rows
            return total(lambda part: self[some[part]].T @ A[some[part]], slices(len(some), self.shape[1]),
                         (self.shape[1], *A.shape[1:]))
        if stored is None:
            return self.recipe.transposed_times(self.X, A)
        single = A.astype(self.dtype)
        return total(lambda part: stored[part].T @ single[part], slices(*self.shape), (self.shape[1], *A.shape[1:]))

    def there_and_back(self, C: Array, respond: Respond, *rowwise: NDArray[Any]) -> tuple[Array, Array]:
        """Return V = Z C (n, k) and Z'R (m, k) for R = ``respond(V, ...)`` (n, k), in one pass over the features."""
        stored = self.stored
        if stored is None:
            return self.recipe.there_and_back(C, respond, self.X, *rowwise)
        values = np.empty((self.shape[0], C.shape[1]))

        def term(part: slice) -> Array:
            values[part] = thin_product(stored[part], C)
            pull = respond(values[part], *[of[part] for of in rowwise])
            back: Array = stored[part].T @ pull.astype(self.dtype)
            return back

        return values, total(term, self._parts(), C.shape)

    def weighted_gram(self, rows: NDArray[np.intp], weight: Array, targets: Array | None = None) -> Array:
        """Return sum_i weight_i z_i (z_i, y_i)' over the numbered rows: (m, m + k) for ``targets`` y (n, k)."""
        return weighted_gram(self.__getitem__, self.shape[1], rows, weight, targets)

    def _parts(self) -> list[slice]:
        """Return slices of rows that stay in the cache between a product and its transpose."""
        return slices(*self.shape, PART_ENTRIES)


def features_of_batches(feature_map: NystroemMap, X: BatchedRows, unit: float) -> FeaturesOfRows:
    """Return the features of rows in batches, stored where the batches are of this process and so many bytes suffice.
    """
    recipe = recipe_of(feature_map, X.shape[0], unit, constant=True)
    small = not too_large(X.shape[0], recipe) and X.shape[0] * recipe.size * recipe.dtype.itemsize <= KEPT_BYTES
    if X.batches.here and small:
        return LandmarkFeatures(feature_map, X, unit)
    return BatchedFeatures(feature_map, X, unit)
