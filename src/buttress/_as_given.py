"""What users give in forms that numpy reads otherwise: masked arrays, labels of pandas, sparse rows, frames."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from buttress._types import Array, Labels, MatrixLike

LARGEST_INDEX = np.iinfo(np.int32).max


def refuse_unread(name: str, value: object) -> None:
    """Raise ValueError for what numpy would not read: masked entries, which it takes as they are, and lazy frames."""
    if hasattr(value, "collect_schema") and hasattr(value, "collect"):
        raise ValueError(f"{name} is a lazy frame, which holds no rows yet. Give it as .collect() makes it.")
    masked = int(np.sum(value.mask)) if isinstance(value, np.ma.MaskedArray) else 0
    if masked:
        raise ValueError(f"{name} is a masked array with {masked} masked entries. Impute them (SimpleImputer on "
                         ".filled(nan)), or drop those rows.")


def unwrapped(y: ArrayLike) -> ArrayLike:
    """Return labels of pandas' Boolean and Int64 as numpy's of that type, which would turn into floats; others as is.
    """
    of_numpy = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    labels: Any = y
    plain = of_numpy is None or isinstance(y, np.ndarray) or labels.isna().any()
    return y if plain else labels.to_numpy(dtype=of_numpy)


def refuse_missing(targets: Labels) -> None:
    """Raise ValueError where some of these (n,) are missing, naming the first."""
    if targets.dtype.kind not in "Of":
        return
    missing = np.isnan(targets) if targets.dtype.kind == "f" else np.array([
        target is None or type(target).__name__ == "NAType" or (isinstance(target, float) and np.isnan(target))
        for target in targets], dtype=bool)
    if missing.any():
        what = "Input y contains NaN" if targets.dtype.kind == "f" else "y holds no value"
        raise ValueError(f"{what} in {missing.sum()} rows, the first is row {missing.argmax()}. Drop those rows.")


def one_label_each(y: ArrayLike, n: int) -> Labels:
    """Return labels as an array (n,); ValueError for another shape, and for missing ones."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} rows of X. Got shape {labels.shape}.")
    refuse_missing(labels)
    return labels


def canonical(X: Array) -> Array:
    """Return X; if it is CSR, with each entry stored once and in order, and indices of 32 bits, in a copy if need be.

    Raises ValueError for more entries or columns than such indices count.
    """
    if not issparse(X):
        return X
    entries: Any = X
    if entries.indptr.dtype != np.int32 or entries.indices.dtype != np.int32:
        if max(entries.nnz, *entries.shape) > LARGEST_INDEX:
            raise ValueError(f"A sparse X may have {LARGEST_INDEX:,} entries, rows and columns. Got {entries.nnz:,} "
                             f"entries, shape {entries.shape}. Fit to a part of the rows.")
        parts = (entries.data, entries.indices.astype(np.int32), entries.indptr.astype(np.int32))
        entries = type(entries)(parts, shape=entries.shape)
    if not entries.has_canonical_format:
        entries = entries.copy()
        entries.sum_duplicates()
    return entries


def frames_like(X: MatrixLike) -> Callable[[Array], Any]:
    """Return what makes rows a pandas or polars frame with the columns of X; rows stay arrays if X is no frame."""
    if not hasattr(X, "columns"):
        return np.asarray
    made: Any = type(X)
    names = list(X.columns)
    if hasattr(made, "schema"):  # polars, which guesses whether as many rows as columns are rows
        return lambda rows: made(rows, schema=names, orient="row")
    return lambda rows: made(rows, columns=names)  # X.schema may be a column of X


def one_row(x: MatrixLike) -> Any:
    """Return a row of shape (d,) as (1, d), one of a pandas frame with its columns' names; others as they are."""
    given: Any = x
    if np.ndim(given) != 1:
        return given
    return given.to_frame().T if hasattr(given, "iloc") else np.asarray(given)[None, :]


def check_names(what: str, X: MatrixLike, names: Sequence[Any] | None) -> None:
    """Raise ValueError for a frame whose columns are not ``names`` in their order; None stands for any."""
    if names is not None and list(getattr(X, "columns", names)) != list(names):
        raise ValueError(f"{what} must have the columns that the model was fitted on, in their order: "
                         f"{', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''}.")
