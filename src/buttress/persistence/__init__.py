"""The model file: fitted estimators and kernels in one checked file that cannot run code.

A file is, in this order: 8 bytes ``BUTTRESS``, the format version (4 bytes) and the length of the header (8 bytes),
both little-endian; the header, JSON in UTF-8; the raw bytes of the arrays, one after the other; and the SHA-256 of all
of that (32 bytes). The header says which classes and values make up the model and which slice of the bytes is which
array. Nothing is compressed, so a file cannot grow when read.

Reading builds instances of the classes in the table of ``classes.py``, by the name they have there, and fills in
numbers, text and arrays. No constructor, setter or function named by the file is called.

The names of classes in a file are stable names, not module paths: a class can move without a change of format. The
names of attributes are part of the format: renaming a parameter, a fitted attribute or a field of a class in the table
needs a new format version, or a reader of the old name. Format 1, which named classes by module path, is still read.

``container.py`` holds the bytes, ``encode.py`` and ``decode.py`` turn models into JSON and arrays and back, and
``classes.py`` is the table.

Examples
--------
>>> import tempfile, pathlib
>>> from sklearn.datasets import load_iris
>>> from buttress import SVC, load, save
>>> X, y = load_iris(return_X_y=True)
>>> model = SVC().fit(X, y)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.buttress"
>>> save(model, path)
>>> bool((load(path).predict(X) == model.predict(X)).all())
True
"""

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from buttress._checks import check_count
from buttress.persistence.classes import name_of
from buttress.persistence.container import MAGIC, AnyArray, Content, pack, unpack, write
from buttress.persistence.decode import decode
from buttress.persistence.encode import encode
from buttress.persistence.sklearn_classes import WITHOUT_FIT

LARGEST_FILE = 2**32  # bytes read by default, 4 GB
PICKLED = (b"\x80", b"PK", b"\x1f\x8b", b"BZ", b"x")  # pickle, and what joblib and skops wrap it in
StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class FileContent:
    """A model and what its file says beside it: format, releases that wrote it, when (UTC), and how large it is."""

    model: Any
    version: int
    written_by: dict[str, str]
    written_at: str
    bytes: int


def save(model: object, path: StrPath) -> None:
    """Write a fitted estimator or a kernel of this package to one file, whole or not at all.

    Parameters
    ----------
    model : estimator or kernel
        Of this package; also scikit-learn's whose state is arrays and plain values: pipelines, preprocessing, text and
        column selectors, feature selection, PCA, calibration, linear models and others, the list being
        ``persistence/sklearn_classes.py``. Of a search such as GridSearchCV the best estimator is saved.
    path : str or path
        Replaced if it exists.

    Raises
    ------
    ValueError
        For a model that is not fitted, or that holds anything else, such as a function of yours; the message names
        where.
    """
    _check_fitted(model)
    arrays: list[AnyArray] = []
    encoded = encode(model, arrays, type(model).__name__)
    if not (isinstance(encoded, dict) and "class" in encoded):
        raise ValueError(f"Only estimators and kernels can be saved. Got {type(model).__name__}.")
    write(Path(path), pack(encoded, arrays, _versions()))


def load(
    path: StrPath, *, max_bytes: int = LARGEST_FILE, pickle_can_run_any_code_and_i_trust_this_file: bool = False
) -> Any:
    """Read a model that :func:`save` wrote; every byte is checked against the SHA-256 first.

    Parameters
    ----------
    path : str or path
    max_bytes : int, default=2**32
        Largest file to read.
    pickle_can_run_any_code_and_i_trust_this_file : bool, default=False
        Also read a pickle. Unpickling runs whatever its author put into it; only for files you made yourself.

    Returns
    -------
    The estimator or kernel, as it was saved.

    Raises
    ------
    ValueError
        For a file that is too large, is no model file, is of a later version, was cut short or changed anywhere, or
        names a class that models are not made of.
    """
    path = Path(path)
    content = _content(path, max_bytes)
    if not content.startswith(MAGIC):
        if not pickle_can_run_any_code_and_i_trust_this_file:
            raise ValueError(_foreign_file(path.name, content))
        return pickle.loads(content)
    return _decoded(path.name, unpack(path.name, content))


def read(path: StrPath, *, max_bytes: int = LARGEST_FILE) -> FileContent:
    """Return a model with what its file says beside it, as :func:`load` returns the model."""
    path = Path(path)
    content = _content(path, max_bytes)
    if not content.startswith(MAGIC):
        raise ValueError(_foreign_file(path.name, content))
    held = unpack(path.name, content)
    model = _decoded(path.name, held)
    return FileContent(model, held.version, dict(held.written_by), held.written_at, len(content))


def _content(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file; ValueError for too many."""
    size = path.stat().st_size
    if size > check_count("max_bytes", max_bytes):
        raise ValueError(f"{path.name} is {size:,} bytes. Expected at most max_bytes={max_bytes:,}.")
    return path.read_bytes()


def _decoded(name: str, held: Content) -> Any:
    try:
        return decode(held)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{name} is not a well-formed model file: {error!r}.") from None


def _check_fitted(model: object) -> None:
    """Refuse an estimator without anything learned; kernels and risks have no fit."""
    try:
        if hasattr(model, "fit") and not isinstance(model, type) and name_of(type(model)) not in WITHOUT_FIT:
            check_is_fitted(model)
    except NotFittedError:
        raise ValueError(f"{type(model).__name__} is not fitted: there is nothing to save but its parameters. Call fit "
                         "first.") from None


def _foreign_file(name: str, content: bytes) -> str:
    if content.startswith(PICKLED):
        return (f"{name} looks like a pickle, which can run any code when it is read. Save the model with "
                "buttress.save instead; if you made this file yourself, "
                "load(path, pickle_can_run_any_code_and_i_trust_this_file=True) reads it.")
    return f"{name} is not a model file: it does not begin with {MAGIC.decode()}, or its beginning was changed."


def _versions() -> dict[str, str]:
    """Return which releases wrote a file; nothing reads it back, people do."""
    import sklearn

    import buttress

    return {"buttress": buttress.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
