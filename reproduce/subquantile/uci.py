"""Public sets of the robust-learning literature by name, from local copies or from OpenML and UCI.

A local copy is ``NAME.csv`` with one header row and the target in the last column, or ``NAME.npz``; see ``SETS``.
"""

import hashlib
import io
import socket
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from buttress._checks import Array, check_option

SILENCE = 20.0  # seconds to wait for an answer of a server
CLEVELAND = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/processed.cleveland.data"
CLEVELAND_SHA256 = "4a82cbba68c6ccab5725e48b89581bd0be61819a07a0c82d423c7a596b64fcc3"  # of its numbers


@dataclass(frozen=True)
class Table:
    """X (n, d), y (n,), whether y holds classes, and the number of leading training rows if the set fixes it."""

    X: Array
    y: NDArray[Any]
    classes: bool
    n_train: int | None = None


def load_uci(name: str, data_dir: str | Path | None = None) -> Table:
    """Return one of the sets of ``SETS``: "boston_housing", "concrete", "wine_quality_red", "heart_cleveland", ....

    Parameters
    ----------
    name : str
    data_dir : path or None
        Directory of local copies; None downloads from OpenML or UCI, which caches under scikit-learn's data home.

    Returns
    -------
    Table
        The six missing values of ``heart_cleveland`` are replaced by the medians of their columns. Its class, heart
        disease, is ``num > 0``.

    Raises
    ------
    ValueError
        For an unknown name, a set that cannot be downloaded and is not in ``data_dir``, or a download that is not the
        set.
    OSError
        If ``data_dir`` holds no copy, or the download fails: at once without a network, or after 20 seconds without an
        answer.
    """
    source = SETS[check_option("name", name, tuple(SETS))]
    if source.file.startswith("bundled"):
        bunch = datasets.load_breast_cancer()
        return Table(bunch.data, bunch.target, True)
    if data_dir is not None:
        return source.read(source.local(Path(data_dir)))
    try:
        with _patience():
            return source.read(source.download())
    except OSError as error:
        raise OSError(f"{name} could not be downloaded ({error}). "
                      f"Give data_dir with a copy named {source.file}.") from None


@contextmanager
def _patience() -> Iterator[None]:
    """Inside the block, new connections wait at most ``SILENCE`` seconds, unless they set their own limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@dataclass(frozen=True)
class SetSource:
    """The source of a set: a file name in ``data_dir``, a download, and a function that turns either into a Table."""

    file: str
    download: Callable[[], Any]
    read: Callable[[Any], Table]

    def local(self, directory: Path) -> Any:
        """Return the rows of the local copy, or the arrays of an npz file."""
        path = directory / self.file
        if not path.exists():
            raise FileNotFoundError(f"There is no {self.file} in {directory}. Put it there, or give no data_dir to "
                                    "download it.")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {key: arrays[key] for key in arrays.files}
        return np.genfromtxt(path, delimiter=",", skip_header=1)


def openml(data_id: int) -> Callable[[], Array]:
    """Return a download of an OpenML set as one table, the target last; scikit-learn checks its checksum."""

    def download() -> Array:
        bunch = datasets.fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", n_retries=1)
        parts = [bunch.data] if bunch.target is None else [bunch.data, bunch.target]
        return np.column_stack([np.asarray(part, dtype=np.float64) for part in parts])

    return download


def cleveland() -> Array:
    """Download processed.cleveland.data: thirteen features and num, "?" where missing."""
    with urllib.request.urlopen(CLEVELAND) as answer:
        text = answer.read().decode(errors="replace")
    table = np.genfromtxt(io.StringIO(text), delimiter=",", missing_values="?", invalid_raise=False)
    known = np.where(np.isnan(table), -1.0, table).astype("<f8")
    if hashlib.sha256(repr(table.shape).encode() + known.tobytes()).hexdigest() != CLEVELAND_SHA256:
        raise ValueError(f"{CLEVELAND} did not return the expected data set ({len(text)} characters, "
                         f"{text[:40]!r} ...). Give data_dir with a copy named heart_cleveland.csv.")
    return table


def not_downloadable() -> Any:
    raise ValueError("drug_qsar cannot be downloaded: give data_dir with a drug_qsar.npz of X_train, y_train, X_test "
                     "and y_test (the QSAR set of the SEVER and TERM papers' code, qsar.mat).")


def real_target(table: Array) -> Table:
    return Table(table[:, :-1], table[:, -1], False)


def heart(table: Array) -> Table:
    """Fill missing values with medians; the class is num > 0."""
    X = table[:, :-1]
    return Table(np.where(np.isnan(X), np.nanmedian(X, axis=0), X), (table[:, -1] > 0).astype(np.intp), True)


def drug(arrays: dict[str, NDArray[Any]]) -> Table:
    X = np.vstack([arrays["X_train"], arrays["X_test"]]).astype(np.float64)
    y = np.concatenate([arrays["y_train"].ravel(), arrays["y_test"].ravel()]).astype(np.float64)
    return Table(X, y, False, len(arrays["X_train"]))


def fetch_california() -> dict[str, NDArray[Any]]:
    bunch = datasets.fetch_california_housing()
    return {"data": np.column_stack([bunch.data, bunch.target])}


SETS = {
    "boston_housing": SetSource("boston_housing.csv", openml(531), real_target),
    "breast_cancer_wisconsin": SetSource("bundled with scikit-learn", not_downloadable, real_target),
    "california_housing": SetSource("california_housing.npz", fetch_california,
                                    lambda arrays: real_target(arrays["data"])),
    "concrete": SetSource("concrete.csv", openml(4353), real_target),
    "drug_qsar": SetSource("drug_qsar.npz", not_downloadable, drug),
    "heart_cleveland": SetSource("heart_cleveland.csv", cleveland, heart),
    "wine_quality_red": SetSource("wine_quality_red.csv", openml(40691), real_target),
}
