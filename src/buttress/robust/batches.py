"""From batches of rows, as users have them, to a table: an iterable gone through several times, or Dask collections."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor

from buttress._checks import Array, check_X_y
from buttress._types import Estimator, Labels
from buttress.features.stored import BatchedRows, Batches
from buttress.robust.report import SAME, row_keys
from buttress.robust.tuning import DESIGN

Pairs = Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class BatchedTable:
    """Rows in batches, their targets (n,), and the keys (n,) that they would have with targets of 0."""

    X: BatchedRows
    y: Labels
    keys: Array

    def rows(self, n_landmarks: int | str) -> Array | BatchedRows:
        """Return the rows in batches, or collected where so few are fitted exactly."""
        n = len(self.y)
        exact = n <= DESIGN.exact_rows if isinstance(n_landmarks, str) else n <= n_landmarks
        return self.X[:] if exact else self.X


@dataclass(frozen=True)
class Look:
    """What the first pass sees of a batch: its targets and the keys of X (n_k,), and whether X stays float32."""

    y: Labels
    keys: Array
    single: bool


def batched_table(estimator: Any, batches: Any, y: Any) -> BatchedTable:
    """Return the table of batches, checked in a first pass.

    Raises ValueError for a batch that :func:`check_X_y` refuses, fewer than two rows, an iterator, Dask
    collections whose blocks do not match, and precomputed kernels.
    """
    if isinstance(estimator.kernel, str) and estimator.kernel == "precomputed":
        raise ValueError("fit_batches evaluates the kernel between rows and landmarks. Got kernel='precomputed'. Use "
                         "fit, or a kernel by name.")
    if hasattr(batches, "to_delayed"):
        return _of_dask(estimator, batches, y)
    if y is not None:
        raise ValueError("y goes with a Dask collection. Got batches of another kind: give pairs (X, y).")
    return _of_pairs(estimator, _repeatable(batches))


def _looked_at(estimator: Estimator, number: int, X: Any, y: Any, first: bool) -> Look:
    """Return what is seen of a batch; the ``first`` one tells the estimator the columns."""
    try:
        numeric = is_regressor(estimator)
        rows, targets = check_X_y(estimator, X, y, numeric_target=numeric, min_rows=1, single=numeric, reset=first)
    except (ValueError, TypeError) as error:
        raise type(error)(f"Batch {number}: {error}") from error
    return Look(targets, row_keys(rows, np.zeros(len(targets))), rows.dtype == np.float32)


def _table(estimator: Any, looks: Sequence[Look], batches: Callable[[np.dtype[Any]], Batches]) -> BatchedTable:
    n = sum(len(look.y) for look in looks)
    if n < 2:
        raise ValueError(f"{type(estimator).__name__} needs at least 2 rows. Got batches with n_samples = {n}.")
    dtype = np.dtype(np.float32 if all(look.single for look in looks) else np.float64)
    return BatchedTable(BatchedRows(batches(dtype), estimator.n_features_in_, dtype),
                        _in_one([look.y for look in looks]), np.concatenate([look.keys for look in looks]))


def _in_one(targets: Sequence[Labels]) -> Labels:
    """Return the targets of all batches; where some are text and some are not, as objects, so that none becomes text.
    """
    text = {part.dtype.kind in "OUS" for part in targets}
    return np.concatenate([part.astype(object) for part in targets] if len(text) > 1 else list(targets))


def _repeatable(batches: Pairs | Callable[[], Pairs]) -> Callable[[], Pairs]:
    """Return a function that returns the batches from the beginning."""
    if callable(batches):
        return batches
    if not isinstance(batches, Iterable):
        raise ValueError(f"batches must be an iterable of pairs (X, y). Got {type(batches).__name__}.")
    if isinstance(batches, Iterator):
        raise ValueError("batches are gone through several times. Got an iterator, which ends after one pass. Give a "
                         "list, or the function that makes the iterator.")
    return lambda: batches


def _of_pairs(estimator: Any, again: Callable[[], Pairs]) -> BatchedTable:
    looks: list[Look] = []
    for number, pair in enumerate(again()):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"Each of the batches must be a pair (X, y). Got {type(pair).__name__} as number "
                             f"{number}. For one array use fit, or [(X, y)].")
        looks.append(_looked_at(estimator, number, *pair, not looks))
    keys = [look.keys for look in looks]
    return _table(estimator, looks, lambda dtype: PairedBatches(again, keys, dtype))


class PairedBatches(Batches):
    """Batches of this process: pairs (X, y), of which X is used; ``keys`` are those of the rows of each batch."""

    here = True

    def __init__(self, again: Callable[[], Pairs], keys: list[Array], dtype: np.dtype[Any]):
        self.again = again
        self.keys = keys
        self.sizes = [len(some) for some in keys]
        self.dtype = dtype

    def each(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> Iterator[Array]:
        """Yield ``function(X, ...)`` of each batch X in their order; the rest are its parts of the arrays (n, ...)."""
        sizes = []
        start = 0
        for X, _ in self.again():
            rows = np.asarray(X, dtype=self.dtype)
            sizes.append(len(rows))
            if sizes != self.sizes[: len(sizes)]:
                break
            _check_same(rows, self.keys[len(sizes) - 1], len(sizes) - 1)
            yield function(rows, *[values[start : start + len(rows)] for values in rowwise])
            start += len(rows)
        if sizes != self.sizes:
            raise ValueError(f"batches must be the same in each pass. Expected sizes {_few(self.sizes)}, got "
                             f"{_few(sizes)}. Give a list, or a function that begins anew each time.")


def _check_same(rows: Array, keys: Array, number: int) -> None:
    """Refuse a batch whose rows are not those of the first pass, in their order."""
    seen = row_keys(rows, np.zeros(len(rows)))
    if len(seen) != len(keys) or not np.allclose(seen, keys, rtol=SAME, atol=SAME * np.abs(keys).max(initial=0.0)):
        raise ValueError(f"batches must be the same in each pass. Batch {number} has other rows than in the first, or "
                         "the same in another order. Do not shuffle: draw the order once, before the fit.")


def _few(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")


def _of_dask(estimator: Any, X: Any, y: Any) -> BatchedTable:
    """Return the table of Dask collections: of arrays the chunks, of data frames the partitions."""
    from dask import compute, delayed

    if not hasattr(y, "to_delayed"):
        raise ValueError(f"With a Dask collection y must be one too. Got {type(y).__name__}.")
    blocks = np.asarray(X.to_delayed(), dtype=object)
    if blocks.ndim == 2 and blocks.shape[1] > 1:
        raise ValueError(f"The chunks of X must hold whole rows. Got {blocks.shape[1]} chunks a row. Use "
                         "X.rechunk({1: -1}).")
    blocks = blocks.ravel()
    targets = np.asarray(y.to_delayed(), dtype=object).ravel()
    if len(blocks) != len(targets):
        raise ValueError(f"X and y must have the same blocks. Got {len(blocks)} of X and {len(targets)} of y.")
    rows, first = compute(blocks[0], targets[0])
    _looked_at(estimator, 0, rows, first, True)
    known = clone(estimator)  # without what an earlier fit has left, which need not travel
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(known, name, getattr(estimator, name))
    look = delayed(_looked_at, traverse=False)
    looks = compute(*[look(known, k, block, target, False)
                      for k, (block, target) in enumerate(zip(blocks, targets, strict=True))])
    keys = [one.keys for one in looks]
    return _table(estimator, looks, lambda dtype: DaskBatches(list(blocks), keys, dtype))


class DaskBatches(Batches):
    """Batches that Dask's workers read, or hold where the collection was persisted; ``keys`` are those of their rows.
    """

    here = False

    def __init__(self, blocks: list[Any], keys: list[Array], dtype: np.dtype[Any]):
        self.blocks = blocks
        self.keys = keys
        self.sizes = [len(some) for some in keys]
        self.dtype = dtype

    def each(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> list[Array]:
        """Return ``function(X, ...)`` of each batch X in their order; the rest are its parts of the arrays (n, ...)."""
        from dask import compute

        return list(compute(*self._delayed(function, rowwise)))

    def total(self, function: Callable[..., Array], *rowwise: NDArray[Any]) -> Array:
        """Return the sum of these, added in pairs where they are."""
        from dask import compute, delayed

        terms = self._delayed(function, rowwise)
        while len(terms) > 1:
            pairs = [delayed(np.add)(*pair) for pair in zip(terms[::2], terms[1::2], strict=False)]
            terms = pairs + terms[2 * len(pairs) :]
        return compute(terms[0])[0]

    def _delayed(self, function: Callable[..., Array], rowwise: tuple[NDArray[Any], ...]) -> list[Any]:
        from dask import delayed

        shared = delayed(function, pure=False, traverse=False)
        ends = np.cumsum(self.sizes)[:-1]
        parts = zip(self.blocks, self.keys, *[np.split(values, ends) for values in rowwise], strict=True)
        apply = delayed(_applied, pure=False, traverse=False)
        return [apply(shared, self.dtype, number, *part) for number, part in enumerate(parts)]


def _applied(
    function: Callable[..., Array], dtype: np.dtype[Any], number: int, X: Any, keys: Array, *parts: Array
) -> Array:
    rows = np.asarray(X, dtype=dtype)
    _check_same(rows, keys, number)
    return function(rows, *parts)
