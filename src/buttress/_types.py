"""Types of what travels through the package: data as users give them, estimators, and random numbers.

Data are typed by what is used of them, so that no data frame library is imported. :data:`Array` is what data become
once they are checked. Where sparse rows are allowed it also stands for CSR, which has the same operations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse

Array = NDArray[np.float64]
Labels = NDArray[Any]  # class labels: numbers or text
Targets = NDArray[np.floating[Any] | np.integer[Any]]  # what is fitted: real numbers, -1 and +1, or class numbers
Rows = NDArray[np.intp]  # row numbers
Mask = NDArray[np.bool_]  # which rows
Attributes: TypeAlias = dict[str, Any]  # of an object, by name
NamedColumns: TypeAlias = dict[str, Any]  # of a table, as the library of a user holds them


class Frame(Protocol):
    """A data frame, of pandas or polars."""

    @property
    def columns(self) -> Iterable[Any]:
        """The names of the columns."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and of columns."""

    def __array__(self, dtype: Any = None, /) -> NDArray[Any]:
        """Return the entries."""

    def __getitem__(self, name: Any, /) -> Any:
        """Return a column, or a frame of some."""


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy, of any format."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and of columns."""

    def tocsr(self) -> "SparseMatrix":
        """Return it by rows."""

    def toarray(self) -> NDArray[Any]:
        """Return it with its zeros written out."""


# rows of a user's: X of shape (n, d)
MatrixLike = NDArray[Any] | Sequence[Sequence[float]] | Frame | SparseMatrix
# X once it is checked: dense or CSR
DenseOrSparse: TypeAlias = Array | csr_matrix
# one entry a row: targets, labels or weights
VectorLike = ArrayLike
# a factor of the weights of each class
ClassWeight = Mapping[Any, float] | str | None
# the ends of a box: numbers, or arrays that broadcast to the rows
BoundsLike = tuple[ArrayLike, ArrayLike]
# a generator of either kind of NumPy's
Rng = np.random.RandomState | np.random.Generator
# what seeds one, as users give it
RandomStateLike = int | np.random.RandomState | np.random.Generator | None


GetParams = Callable[..., Attributes]  # what get_params is


class Estimator(Protocol):
    """Anything with scikit-learn's parameters."""

    get_params: GetParams


class Predictor(Protocol):
    """A fitted classifier or regressor."""

    def predict(self, X: MatrixLike) -> Labels:
        """Return the class or the value of each row."""


class Trainable(Estimator, Protocol):
    """An estimator that can be fitted to rows and targets."""

    def fit(self, X: MatrixLike, y: VectorLike) -> Any:
        """Fit to X (n, d) and y (n,)."""


class Supervised(Predictor, Trainable, Protocol):
    """A classifier or regressor that can be fitted, asked and cloned."""

    set_params: Callable[..., Any]


class Classifier(Protocol):
    """A fitted classifier that gives labels."""

    classes_: Labels

    def predict(self, X: MatrixLike) -> Labels:
        """Return the class of each row."""


class ScoredClassifier(Classifier, Protocol):
    """A fitted classifier that says by how much it decides."""

    def decision_function(self, X: MatrixLike) -> Array:
        """Return (n,) scores for two classes, positive for the second; else (n, n_classes), or a column a pair."""


class ProbabilisticClassifier(Classifier, Protocol):
    """A fitted classifier that gives probabilities."""

    def predict_proba(self, X: MatrixLike) -> Array:
        """Return the probability of each class, (n, n_classes)."""


def is_csr(X: DenseOrSparse) -> TypeGuard[csr_matrix]:
    """Say whether checked rows are sparse."""
    return bool(issparse(X))


AuditProgress = Callable[[str, float], None]  # what is being done, and the share of the audit that is done


class Served(Protocol):
    """A review that is being served on this machine."""

    address: str

    @property
    def decisions(self) -> Any: ...

    def corrections(self, path: str | Path) -> Path: ...

    def stop(self) -> None: ...


def is_frame(data: object) -> TypeGuard[Frame]:
    """Say whether data are a frame, which has named columns."""
    return hasattr(data, "columns")
