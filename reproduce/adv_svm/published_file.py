"""What the authors' published MATLAB file computes, which is not the paper's algorithm 1.

`main_cifar_normal.m` and `adversarial_training.m` of the repository that the paper's first author published as "the
code of adv-SVM(D)" bring rows to unit length, keep their 100 principal directions about the origin, and take from each
batch (X_t, y_t) of B rows, with fresh random features Phi_t of exp(-|u - v|^2 / 2),

    w_t = C (Phi_t' Phi_t / B + r I)^-1 Phi_t' y_t / B,        f = sum_t Phi_t w_t,

C = 10, r = 1e-6: the ridge regression of the labels of one batch, summed over batches. Neither the hinge nor earlier
batches enter. The file also shrinks the coefficients of earlier batches by 1 + C eps / |f|, the adversarial term, but
the scores of test rows are added up as they come and never read the shrunk ones, so no radius can change them.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.extmath import row_norms

from buttress._checks import Array
from buttress.features import RandomExpansion, RandomFeatures, random_features
from buttress.kernels import RBF

C, RIDGE = 10.0, 1e-6


class PublishedFile(ClassifierMixin, BaseEstimator):
    """The published file as a classifier of rows with labels 0 and 1: no row may be all zeros.

    Parameters
    ----------
    n_frequencies : int, default=1024
        Random frequencies a batch, twice as many features.
    batch_size : int, default=500
    n_components : int, default=100
    random_state : int, default=0
        Of the batches and of the features.
    """

    def __init__(self, *, n_frequencies: int = 1024, batch_size: int = 500, n_components: int = 100,
                 random_state: int = 0):
        self.n_frequencies = n_frequencies
        self.batch_size = batch_size
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Array, y: NDArray[np.intp]) -> Self:
        """Fit one pass over the rows."""
        self.n_features_in_, self.classes_ = X.shape[1], np.array([0, 1])
        svd = TruncatedSVD(min(self.n_components, X.shape[1]), random_state=self.random_state)
        self.components_ = svd.fit(X / _lengths(X)).components_.astype(np.float64)
        features = random_features(RBF(0.5), len(self.components_), 2 * self.n_frequencies, seed=self.random_state)
        order = np.random.default_rng(self.random_state).permutation(len(X))
        batches = [order[start : start + self.batch_size] for start in range(0, len(X), self.batch_size)]
        signs = np.where(y == 1, 1.0, -1.0)
        coef = [_ridge(features, t, self._inner(X[rows]), signs[rows]) for t, rows in enumerate(batches)]
        self.sum_ = RandomExpansion(features, np.stack(coef), np.zeros(1))
        return self

    def decision_function(self, X: Array) -> Array:
        """Return f (n,), positive for label 1."""
        return self.sum_(self._inner(X))[:, 0]

    def predict(self, X: Array) -> NDArray[np.intp]:
        """Return the labels (n,)."""
        return (self.decision_function(X) > 0).astype(np.intp)

    def input_gradient(self, X: Array, V: Array) -> Array:
        """Return V_i df(x_i) / dx_i (n, d) for V of shape (n, 1); u = x / |x| leaves (I - u u') / |x| of df / du."""
        lengths = _lengths(X)
        U = X / lengths
        along = self.sum_.gradient(U @ self.components_.T, V) @ self.components_
        slopes: Array = (along - np.sum(along * U, axis=1)[:, None] * U) / lengths
        return slopes

    def _inner(self, X: Array) -> Array:
        rows: Array = (X / _lengths(X)) @ self.components_.T
        return rows


def _lengths(X: Array) -> Array:
    lengths: Array = row_norms(np.asarray(X, dtype=np.float64))[:, None]
    return lengths


def _ridge(features: RandomFeatures, block: int, Z: Array, signs: Array) -> Array:
    """Return C (Phi'Phi / B + r I)^-1 Phi' y / B = C Phi' (Phi Phi' / B + r I)^-1 y / B, shape (m, 1)."""
    phi = features(Z, block)
    gram = phi @ phi.T / len(Z)
    gram[np.diag_indices_from(gram)] += RIDGE
    coef: Array = C * phi.T @ np.linalg.solve(gram, signs[:, None]) / len(Z)
    return coef
