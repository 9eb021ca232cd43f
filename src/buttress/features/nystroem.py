"""Nystroem features, short vectors whose inner products approximate a kernel: the map, and a transformer.

With landmarks z_1..z_m, phi(x) = K(x, Z) K_ZZ^(-1/2), so that phi(x)'phi(z) = k(x, z) whenever x or z is a landmark.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from buttress._arrays import Place
from buttress._callbacks import all_or_nothing
from buttress._checks import Array, check_count, check_option, check_X, check_X_y
from buttress._documented import Documented
from buttress._rows import distinct_rows
from buttress._state import Attribute, State
from buttress._threads import slices
from buttress._types import Attributes, MatrixLike, RandomStateLike, VectorLike
from buttress.expansion import KernelExpansion
from buttress.kernels import Kernel, KernelLike, fitted_kernel, is_precomputed
from buttress.kernels.choose import check_positive
from buttress.kernels.kernel import less, middle
from buttress.kernels.points import KernelPoint, centred

METHODS = ("kmeans++", "uniform")


def landmarks(X: Array, n_landmarks: int, *, rng: np.random.RandomState, method: str = "kmeans++") -> Array:
    """Choose ``n_landmarks`` different rows of X, or all of them if there are fewer.

    ``method`` is ``"kmeans++"`` (spread out, the default) or ``"uniform"``. X is (n, d), dense or CSR.
    """
    check_option("method", method, METHODS)
    rows: Array = distinct_rows(X)
    if check_count("n_landmarks", n_landmarks) >= rows.shape[0]:
        return rows
    if method == "uniform":
        return rows[rng.choice(rows.shape[0], n_landmarks, replace=False)]
    from sklearn.cluster import kmeans_plusplus  # importing it takes half a second

    near = less(rows, middle(rows))  # far from 0 its distances would round to 0, and a row be drawn again
    return rows[kmeans_plusplus(near, n_landmarks, random_state=rng)[1]]


@dataclass
class NystroemMap:
    """phi(x) = kernel(x, landmarks) @ root, root the pseudo-inverse square root of the landmark Gram matrix."""

    _state = State(
        Attribute("kernel", "part", of="Kernel"),
        Attribute("landmarks", "finite", "n_landmarks, n_features"),
        Attribute("root", "finite", "n_landmarks, n_landmarks"))

    kernel: Kernel
    landmarks: Array
    root: Array

    def __getstate__(self) -> Attributes:
        return {name: value for name, value in self.__dict__.items() if name != "_at"}

    @cached_property
    def _at(self) -> Any:
        return centred(self.kernel, self.landmarks)

    def at(self, X: Array) -> KernelPoint:
        """Return the kernel's values and gradients at the rows of X (n, d), an array on the landmarks' device."""
        return self._at(X)

    def __call__(self, X: Array) -> Array:
        """Return the features of X, shape (n, m); X and the landmarks may be CSR."""
        parts = slices(X.shape[0], len(self.root))
        if len(parts) < 2 or not (isinstance(X, np.ndarray) or issparse(X)):
            return self._values(X) @ self.root
        features = np.empty((X.shape[0], self.root.shape[1]), dtype=self.root.dtype)
        for part in parts:  # a kernel matrix of all rows at once would double the memory
            features[part] = self._values(X[part]) @ self.root
        return features

    def _values(self, X: Array) -> Array:
        return self.kernel(X, self.landmarks) if issparse(self.landmarks) or issparse(X) else self.at(X).values

    def moved(self, place: Place) -> "NystroemMap":
        """Return the same map with its arrays on the device of ``place``."""
        return NystroemMap(self.kernel, place(self.landmarks), place(self.root))

    def expansion(self, theta: Array, intercept: Array) -> KernelExpansion:
        """Return theta'phi(x) + intercept as a kernel expansion over the landmarks; theta is (m, k)."""
        return KernelExpansion(self.kernel, self.landmarks, self.root @ theta, intercept)


def nystroem(kernel: Kernel, points: Array) -> NystroemMap:
    """Return the Nystroem map on ``points`` (m, d); eigenvalues below 1e-10 of the largest are left out.

    Raises ValueError for a kernel that is not positive definite, because it has no such features.
    """
    check_positive(kernel, "Nystroem features need")
    values, vectors = np.linalg.eigh(kernel(points, points))
    if not values[-1] > 0 or values[0] < -1e-6 * values[-1]:  # indefinite, not rounded
        raise ValueError(f"The Gram matrix of the landmarks has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}, "
                         "so the kernel is not positive definite and has no Nystroem features. Use one that is: RBF.")
    large = values > 1e-10 * values[-1]  # smaller ones are mostly rounding, which an inverse root enlarges
    root = (vectors[:, large] / np.sqrt(values[large])) @ vectors[:, large].T
    return NystroemMap(kernel, points, root)


@dataclass(kw_only=True, eq=False, repr=False)
class Nystroem(Documented, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turn rows into short vectors whose inner products are, approximately, a kernel.

    phi(x) = k(x, Z) K_ZZ^(-1/2) for m landmarks Z, so that phi(x)'phi(z) = k(x, z) wherever x or z is a landmark. A
    linear model of these features is a kernel machine in time linear in the rows. The features are those of
    scikit-learn's Nystroem up to a rotation; its landmarks are drawn uniformly, these are spread out.

    Parameters
    ----------
    kernel : str, kernel object or function, default="rbf"
        A positive definite kernel: a name (see :func:`buttress.kernels.as_kernel`), an object such as ``RBF(0.1)``, or
        a function of two arrays (n, d), (m, d) that returns (n, m).
    n_components : int, default=100
        Landmarks m, which is also the number of features. No more are taken than there are different rows.
    landmarks : {"kmeans++", "uniform"}, default="kmeans++"
        How rows are chosen as landmarks: spread out, or each with the same chance.
    degree, gamma, coef0
        Parameters of a kernel given by name, as in scikit-learn's SVC; gamma is a number, ``"scale"`` or ``"auto"``.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.

    References
    ----------
    Williams & Seeger, Using the Nystroem method to speed up kernel machines, NIPS 2000.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from buttress import Nystroem
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = make_pipeline(Nystroem(gamma=2.0, n_components=30, random_state=0), LogisticRegression(C=10.0))
    >>> model.fit(X[:200], y[:200]).score(X[200:], y[200:])
    1.0
    """

    _state = State(
        Attribute("components_", "finite", "n_landmarks, n_features", "The landmarks; CSR if X was sparse."),
        Attribute("normalization_", "finite", "n_landmarks, n_landmarks",
                  "K_ZZ^(-1/2), its pseudo-inverse where landmarks are nearly alike: eigenvalues below 1e-10 of the "
                  "largest are 0."),
        Attribute("kernel_", "part", of="Kernel", meaning="The kernel, with its parameters."))

    kernel: KernelLike = field(default="rbf", kw_only=False)
    n_components: int = 100
    landmarks: str = "kmeans++"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 0.0
    random_state: RandomStateLike = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike | None = None) -> "Nystroem":
        """Choose the landmarks among the rows of X (n, d), dense or sparse; returns self. y is ignored.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two rows, and for a kernel that is not positive definite or is given as a matrix.
        """
        count = check_count("n_components", self.n_components)
        check_option("landmarks", self.landmarks, METHODS)
        if is_precomputed(self.kernel):
            raise ValueError("Nystroem takes no precomputed kernel: it evaluates the kernel between rows and "
                             "landmarks. Give the kernel by name, as an object, or as a function.")
        rows: Array = check_X_y(self, X, np.zeros(_num_samples(X)), sparse=True)[0]
        kernel = fitted_kernel(self, rows)
        rng = check_random_state(self.random_state)
        made = nystroem(kernel, landmarks(rows, count, rng=rng, method=self.landmarks))
        self.kernel_ = kernel
        self.components_ = made.landmarks
        self.normalization_ = made.root
        return self

    def transform(self, X: MatrixLike) -> Array:
        """Return the features of the rows of X (n, d), dense or sparse: an array of shape (n, m)."""
        check_is_fitted(self)
        rows = check_X(self, X, sparse=True)
        return NystroemMap(self.kernel_, self.components_, self.normalization_)(rows)

    @property
    def _n_features_out(self) -> int:
        return int(self.normalization_.shape[1])
