"""Nystroem features as a transformer of scikit-learn's pipelines."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from buttress._all_or_nothing import all_or_nothing
from buttress._checks import Array, check_count, check_option, check_X, check_X_y
from buttress._documented import Documented
from buttress._state import Attribute, State
from buttress._types import MatrixLike, RandomStateLike, VectorLike
from buttress.features.nystroem import NystroemMap, landmarks, nystroem
from buttress.kernels import fitted_kernel, is_precomputed
from buttress.kernels.choose import KernelLike


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

    def __init__(
        self,
        kernel: KernelLike = "rbf",
        *,
        n_components: int = 100,
        landmarks: str = "kmeans++",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        random_state: RandomStateLike = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

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
        check_option("landmarks", self.landmarks, ("kmeans++", "uniform"))
        if is_precomputed(self.kernel):
            raise ValueError("Nystroem takes no precomputed kernel: it evaluates the kernel between rows and "
                             "landmarks. Give the kernel by name, as an object, or as a function.")
        rows: Array = check_X_y(self, X, np.zeros(_num_samples(X)), sparse=True)[0]
        kernel = fitted_kernel(self, rows)
        made = nystroem(kernel, self._landmarks(rows, count))
        self.kernel_ = kernel
        self.components_ = made.landmarks
        self.normalization_ = made.root
        return self

    def _landmarks(self, rows: Array, count: int) -> Array:
        """Return landmarks (m, d); sparse rows that are equal are not told apart."""
        rng = check_random_state(self.random_state)
        if not issparse(rows):
            return landmarks(rows, count, rng=rng, method=self.landmarks)
        if count >= rows.shape[0]:
            return rows
        if self.landmarks == "uniform":
            return rows[rng.choice(rows.shape[0], count, replace=False)]
        from sklearn.cluster import kmeans_plusplus  # importing it takes half a second

        return rows[kmeans_plusplus(rows, count, random_state=rng)[1]]

    def transform(self, X: MatrixLike) -> Array:
        """Return the features of the rows of X (n, d), dense or sparse: an array of shape (n, m)."""
        check_is_fitted(self)
        rows = check_X(self, X, sparse=True)
        return NystroemMap(self.kernel_, self.components_, self.normalization_)(rows)

    @property
    def _n_features_out(self) -> int:
        return int(self.normalization_.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "normalization_")
