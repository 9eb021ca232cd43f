"""The Nystroem features of many rows, stored or computed again when needed.

Features are stored up to ``made.FEATURE_BYTES`` bytes, in float32 if there are many. With more, they are computed again
where a Gram matrix needs them. Values then need kernel columns only, because Z c = K (root c). Of rows in batches of
this process they are stored up to ``KEPT_BYTES``, in one pass over the batches.
"""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import for_each, slices, total
from buttress.features.batched import BatchedFeatures, BatchedRows, batches_of
from buttress.features.made import FAINT, FeaturesOfRows, Respond, recipe_of, too_large, weighted_gram
from buttress.features.nystroem import NystroemMap

KEPT_BYTES = 1_000_000_000  # most bytes of features held of rows in batches: who streams them is short of memory


class StoredFeatures:
    """Features Z (n, m) in one array, with the attributes of :class:`FeaturesOfRows`; nothing is ``missed`` by default.
    """

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

    def transposed_times(self, A: Array, rows: NDArray[np.intp] | None = None) -> Array:
        """Return Z'A, shape (m,) or (m, k), for A (n,) or (n, k), of which only these ``rows`` are not 0."""
        if rows is not None:
            some = rows
            return total(lambda part: self[some[part]].T @ A[some[part]], slices(len(some), self.shape[1]),
                         (self.shape[1], *A.shape[1:]))
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
    measures = np.empty((X.shape[0], 2))

    def fill(some: Array, numbers: NDArray[np.intp]) -> Array:
        def measure(part: slice) -> None:
            at = slice(numbers[part][0], numbers[part][-1] + 1)
            measures[at] = recipe.measured(some[part], unit, Z[at])

        for_each(measure, slices(some.shape[0], recipe.size))
        return measures[:0]

    batches_of(X).each(fill, np.arange(X.shape[0]))
    return StoredFeatures(Z, measures[:, 0].copy(), measures[:, 1].copy(), unit)
