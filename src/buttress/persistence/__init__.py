"""The model file: fitted estimators and kernels in one checked file that cannot run code.

The bytes are those of ``files/container.py``: a checksum, a header that says what reading takes, which classes and
values make up the model, and its arrays.

Reading builds instances of the classes that declare their state (``_state.py``), by name, and fills in numbers, text
and arrays. No constructor, setter or function named by the file is called. What is read is then written again: unless
that gives what the file says, the file is refused, so whatever loads can be saved.

The names of classes and of attributes are the format: renaming a parameter, a fitted attribute or a field needs a new
format version.

``classes.py`` says which names a file may hold, and ``models.py`` how what they name becomes JSON and arrays and back.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import buttress
from buttress._checks import check_count
from buttress._state import StateError
from buttress.files.container import MAGIC, VERSION, AnyArray, Content, ModelFileError, check_key, pack, unpack
from buttress.files.disk import read_bytes, write_bytes
from buttress.files.values import Decoder, Encoder
from buttress.persistence.classes import name_of
from buttress.persistence.models import decoded, encoded

__all__ = ["FileContent", "ModelFileError", "load", "read", "save"]

LARGEST_FILE = 2**32  # bytes read by default, 4 GB
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

    Before anything is written, the bytes are loaded again and compared with the model.

    Parameters
    ----------
    model : estimator or kernel
        Of this package, or of scikit-learn if its state is arrays and plain values: pipelines, preprocessing, text and
        column selectors, feature selection, PCA, calibration, linear models and others (listed in
        ``persistence/classes.py``). Of a search such as GridSearchCV the best estimator is saved.
    path : str or path
        Replaced if it exists; its mode is kept, and a symbolic link still points to the same file. A device or a pipe
        is written to.
    key : bytes or None
        At least 16 secret bytes, such as ``secrets.token_bytes(32)``, to sign the file (HMAC-SHA256): only someone with
        the key can write a file that ``load(path, key=key)`` accepts.

    Raises
    ------
    ModelFileError
        A ValueError. For a model that is not fitted, or that holds anything else, such as a function of yours; the
        message names where.
    """
    _check_fitted(model)
    check_key(key)
    name = type(model).__name__
    written = Encoder(encoded)
    content = written.encode(model, name)
    if not (isinstance(content, dict) and "class" in content):
        raise ModelFileError(f"Only estimators and kernels can be saved. Got {name}.")
    releases = {"buttress": buttress.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
    parts = pack(content, written.arrays, releases, grown=written.grown, key=key)
    held = unpack(name, b"".join(parts), key)
    _decoded(name, held)
    if held.model != content or not _same_arrays(written.arrays, held.arrays):
        raise ModelFileError(f"{name} does not come back from a file as it is. Please report this with the model.")
    write_bytes(Path(path), parts)


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
        The key that signed the file; other files are then refused.
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
    if pickle_can_run_any_code_and_i_trust_this_file and key is None:
        content = read_bytes(Path(path), check_count("max_bytes", max_bytes))
        if not content.startswith(MAGIC):
            return pickle.loads(content)
    return read(path, max_bytes=max_bytes, key=key).model


def read(path: StrPath, *, max_bytes: int = LARGEST_FILE, key: bytes | None = None) -> FileContent:
    """Return a model with what its file says beside it, as :func:`load` returns the model."""
    path = Path(path)
    check_key(key)
    content = read_bytes(path, check_count("max_bytes", max_bytes))
    if content.startswith((b"\x80", b"PK", b"\x1f\x8b", b"BZ", b"x")):  # a pickle, or as joblib and skops wrap it
        raise ModelFileError(f"{path.name} looks like a pickle, which can run any code when it is read. Save the model "
                             "with buttress.save instead; if you made this file yourself, "
                             "load(path, pickle_can_run_any_code_and_i_trust_this_file=True) reads it.")
    if not content.startswith(MAGIC):
        raise ModelFileError(f"{path.name} is not a model file: it does not begin with {MAGIC.decode()}, or its "
                             "beginning was changed.")
    held = unpack(path.name, content, key)
    return FileContent(_decoded(path.name, held), VERSION, dict(held.written_by), held.written_at, len(content))


def _decoded(name: str, held: Content) -> Any:
    """Return the model, which gives the same file again; ModelFileError for what does not, or is no model.

    Whatever goes wrong with what a file holds is the file's fault.
    """
    decoder = Decoder(held, decoded)
    again = Encoder(encoded)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy about numbers that are then refused
            model = decoder.decode(held.model)
            decoder.finish()
            same = again.encode(model, name) == held.model and _same_arrays(again.arrays, held.arrays)
    except (ModelFileError, StateError) as error:
        raise ModelFileError(f"{name}: {error}") from None
    except Exception as error:  # numpy, scipy and scikit-learn raise of every kind for what they cannot be made of
        raise ModelFileError(f"{name} is not a well-formed model file: {error!r}.") from None
    if not (isinstance(held.model, dict) and "class" in held.model):
        raise ModelFileError(f"{name} holds no estimator and no kernel.")
    if not same:
        raise ModelFileError(f"{name} holds more, or other, than the model that it describes would be saved as.")
    return model


def _same_arrays(some: Sequence[AnyArray], others: Sequence[AnyArray]) -> bool:
    """Say whether arrays are the same to the bit, in the order of their entries in memory too."""
    return len(some) == len(others) and all(one is other or (
        (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()
        and (one.flags.c_contiguous, one.flags.f_contiguous) == (other.flags.c_contiguous, other.flags.f_contiguous))
        for one, other in zip(some, others, strict=True))


def _check_fitted(model: object) -> None:
    """Refuse an estimator without anything learned; kernels and risks have no fit."""
    learns_nothing = ("sklearn.FeatureHasher", "sklearn.HashingVectorizer")
    try:
        if hasattr(model, "fit") and not isinstance(model, type) and name_of(type(model)) not in learns_nothing:
            check_is_fitted(model)
    except (NotFittedError, TypeError, AttributeError, ValueError, LookupError):  # of what are no steps, or of none
        raise ModelFileError(f"{type(model).__name__} is not fitted: there is nothing to save but its parameters. Call "
                             "fit first.") from None
