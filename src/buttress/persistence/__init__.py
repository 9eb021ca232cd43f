"""The model file: fitted estimators and kernels in one checked file that cannot run code.

A file is, in this order: 8 bytes ``BUTTRESS``, the format version (4 bytes) and the length of the header (8 bytes),
both little-endian; the header, JSON in ASCII; the raw bytes of the arrays, one after the other; with a key, the
HMAC-SHA256 of all of that (32 bytes); and the SHA-256 of everything before it (32 bytes). The header says what reading
takes, which classes and values make up the model, and which slice of the bytes is which array. Nothing is compressed,
and what parts of JSON take in memory is limited before any is parsed.

Reading builds instances of the classes in the table of ``classes.py``, by the name they have there, and fills in
numbers, text and arrays. No constructor, setter or function named by the file is called.

The names of classes in a file are stable names, not module paths: a class can move without a change of format. The
names of attributes are part of the format: renaming a parameter, a fitted attribute or a field of a class in the table
needs a new format version, or a reader of the old name. Format 1, which named classes by module path, is still read.

``container.py`` holds the bytes, ``disk.py`` reads and writes them, ``encode.py`` and ``decode.py`` turn models into
JSON and arrays and back, ``classes.py`` is the table, and ``schema.py`` says what the attributes of each class are.

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
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from buttress._checks import check_count
from buttress.persistence.classes import name_of
from buttress.persistence.container import MAGIC, Content, check_key, pack, unpack
from buttress.persistence.decode import decode
from buttress.persistence.disk import read_bytes, write_bytes
from buttress.persistence.encode import Arrays, encode
from buttress.persistence.errors import ModelFileError
from buttress.persistence.sklearn_classes import WITHOUT_FIT

__all__ = ["FileContent", "ModelFileError", "load", "read", "save"]

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


def save(model: object, path: StrPath, *, key: bytes | None = None) -> None:
    """Write a fitted estimator or a kernel of this package to one file, whole or not at all.

    Before anything is written, the bytes are read back to a model, which must hold what this one holds.

    Parameters
    ----------
    model : estimator or kernel
        Of this package; also scikit-learn's whose state is arrays and plain values: pipelines, preprocessing, text and
        column selectors, feature selection, PCA, calibration, linear models and others, the list being
        ``persistence/sklearn_classes.py``. Of a search such as GridSearchCV the best estimator is saved.
    path : str or path
        Replaced if it exists; its mode is kept, and a symbolic link goes on pointing where it did. A device or a pipe
        is written to.
    key : bytes or None
        At least 16 secret bytes, such as ``secrets.token_bytes(32)``, with which the file is signed (HMAC-SHA256): only
        who has them can write a file that ``load(path, key=key)`` takes.

    Raises
    ------
    ModelFileError
        A ValueError. For a model that is not fitted, or that holds anything else, such as a function of yours; the
        message names where.
    """
    _check_fitted(model)
    parts = _packed(model, check_key(key))
    write_bytes(Path(path), parts)


def _packed(model: object, key: bytes | None) -> list[bytes]:
    """Return the parts of the model's file; ModelFileError unless a model that holds the same comes back."""
    name = type(model).__name__
    arrays = Arrays()
    encoded = encode(model, arrays, name)
    if not (isinstance(encoded, dict) and "class" in encoded):
        raise ModelFileError(f"Only estimators and kernels can be saved. Got {name}.")
    parts = pack(encoded, arrays.held, _versions(), grown=arrays.grown, key=key)
    again = Arrays()
    if encode(_decoded(name, unpack(name, b"".join(parts), key)), again, name) != encoded:
        raise ModelFileError(f"{name} does not come back from a file as it is. Please report this with the model.")
    for one, other in zip(arrays.held, again.held, strict=True):
        order = [(held.flags.c_contiguous, held.flags.f_contiguous) for held in (one, other)]
        if (one.dtype, one.shape, one.tobytes()) != (other.dtype, other.shape, other.tobytes()) or order[0] != order[1]:
            raise ModelFileError(f"An array of {name} does not come back from a file. Please report this.")
    return parts


def load(
    path: StrPath, *, max_bytes: int = LARGEST_FILE, key: bytes | None = None,
    pickle_can_run_any_code_and_i_trust_this_file: bool = False,
) -> Any:
    """Read a model that :func:`save` wrote; every byte is checked against the SHA-256 first.

    Parameters
    ----------
    path : str or path
    max_bytes : int, default=2**32
        Largest file to read. Reading takes at most four times the length of the file and 200 MB of memory.
    key : bytes or None
        The key the file was signed with; a file that was not is then refused.
    pickle_can_run_any_code_and_i_trust_this_file : bool, default=False
        Also read a pickle. Unpickling runs whatever its author put into it; only for files you made yourself.

    Returns
    -------
    The estimator or kernel, as it was saved.

    Raises
    ------
    ModelFileError
        A ValueError. For a file that is too large, is no regular file or no model file, is of a later version, was cut
        short or changed anywhere, is not signed with ``key``, states other arrays or more parts than it has, or names a
        class, or an attribute of it, that models are not made of.
    """
    path = Path(path)
    check_key(key)
    content = read_bytes(path, check_count("max_bytes", max_bytes))
    if not content.startswith(MAGIC):
        if not pickle_can_run_any_code_and_i_trust_this_file or key is not None:
            raise ModelFileError(_foreign_file(path.name, content))
        return pickle.loads(content)
    return _decoded(path.name, unpack(path.name, content, key))


def read(path: StrPath, *, max_bytes: int = LARGEST_FILE, key: bytes | None = None) -> FileContent:
    """Return a model with what its file says beside it, as :func:`load` returns the model."""
    path = Path(path)
    content = read_bytes(path, check_count("max_bytes", max_bytes))
    if not content.startswith(MAGIC):
        raise ModelFileError(_foreign_file(path.name, content))
    held = unpack(path.name, content, check_key(key))
    model = _decoded(path.name, held)
    return FileContent(model, held.version, dict(held.written_by), held.written_at, len(content))


def _decoded(name: str, held: Content) -> Any:
    """Return the model; whatever goes wrong with what a file holds is the file's fault, and a ModelFileError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy about numbers that are then refused
            return decode(held)
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except Exception as error:  # numpy, scipy and scikit-learn raise of every kind for what they cannot be made of
        raise ModelFileError(f"{name} is not a well-formed model file: {error!r}.") from None


def _check_fitted(model: object) -> None:
    """Refuse an estimator without anything learned; kernels and risks have no fit."""
    try:
        if hasattr(model, "fit") and not isinstance(model, type) and name_of(type(model)) not in WITHOUT_FIT:
            check_is_fitted(model)
    except (NotFittedError, TypeError, AttributeError, ValueError, LookupError):  # of what are no steps, or of none
        raise ModelFileError(f"{type(model).__name__} is not fitted: there is nothing to save but its parameters. Call "
                             "fit first.") from None


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
