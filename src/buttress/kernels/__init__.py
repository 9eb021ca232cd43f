"""Kernels: the eight of the literature, a mean of RBF kernels, weighted sums, and a Gram matrix given in advance.

A kernel is called on two arrays, ``kernel(X, Z)`` with X (n, d) and Z (m, d), and returns the (n, m)
matrix of k(x_i, z_j). ``diagonal(X)`` is (n,), ``gradient(X, Z, V)`` is the (n, d) array of
``sum_j V[i, j] * d k(x_i, z_j) / d x_i``. ``definiteness`` is ``"pd"`` (positive definite), ``"cpd"``
(conditionally: positive for coefficients that sum to zero, which is enough for an SVM with
intercept), ``"indefinite"``, or ``"unknown"`` for a user's function.

Examples
--------
>>> import numpy as np
>>> from buttress.kernels import RBF, as_kernel
>>> X = np.array([[0.0], [1.0]])
>>> RBF(gamma=0.5)(X, X).round(3)
array([[1.   , 0.607],
       [0.607, 1.   ]])
>>> as_kernel("polynomial", gamma=1.0, degree=2, coef0=1.0)
Polynomial(coef0=1.0, degree=2)
"""

from buttress.kernels.choose import (
    KernelLike,
    KernelParameters,
    as_kernel,
    centers,
    fitted_kernel,
    is_precomputed,
    kernel_takes_sparse,
    resolve_gamma,
    warn_of_scale,
)
from buttress.kernels.composed import Combination, Custom, Precomputed, Stretched
from buttress.kernels.kernel import DotProduct, Kernel, Radial, squared_distances
from buttress.kernels.named import (
    RBF,
    Cauchy,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Sigmoid,
)

__all__ = [
    "RBF",
    "Cauchy",
    "Combination",
    "Custom",
    "DotProduct",
    "InverseMultiquadric",
    "Kernel",
    "KernelLike",
    "KernelParameters",
    "Laplacian",
    "Linear",
    "Log",
    "MultiscaleRBF",
    "Polynomial",
    "Precomputed",
    "Radial",
    "Sigmoid",
    "Stretched",
    "as_kernel",
    "centers",
    "fitted_kernel",
    "is_precomputed",
    "kernel_takes_sparse",
    "resolve_gamma",
    "squared_distances",
    "warn_of_scale",
]
