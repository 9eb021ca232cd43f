"""Small problems that many tests share."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_moons
from sklearn.preprocessing import scale

from buttress.attacks.targets import as_target, label_codes
from buttress.expansion import margins
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Sigmoid,
    Stretched,
)

# One row a kernel: adding a kernel means adding a row here.
KERNELS = [
    Linear(coef0=0.5),
    Polynomial(degree=3, gamma=0.3, coef0=1.0),
    RBF(gamma=0.4),
    MultiscaleRBF([0.9, 0.2, 0.04]),
    Laplacian(gamma=0.7),
    Sigmoid(gamma=0.2, coef0=-0.5),
    InverseMultiquadric(offset=1.3),
    Log(degree=2, gamma=0.5),
    Log(degree=1.5, gamma=0.5),
    Cauchy(gamma=0.6),
    Combination([RBF(0.2), Linear(), Cauchy(0.5)], [0.5, 0.2, 1.0]),
    Stretched(RBF(0.4), [1.5, 0.0, 0.3]),
]


def of_columns(kernel, d):
    """The kernel, with a scale for each of d columns where it has scales."""
    return Stretched(kernel.kernel, np.resize(kernel.scales, d)) if isinstance(kernel, Stretched) else kernel


def points(n=20, d=3, seed=0):
    """Normal points of shape (n, d)."""
    return np.random.default_rng(seed).normal(size=(n, d))


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def moons(n=200, noise=0.25, seed=0):
    return make_moons(n, noise=noise, random_state=seed)


def noisy(n=300, seed=0):
    """Two classes in 8 dimensions with a tenth of the labels wrong."""
    X, y = make_classification(n, n_features=8, n_informative=5, flip_y=0.2, random_state=seed)
    return scale(X), y


def large(n=2600, seed=3):
    """Enough rows for float32 storage, with labels that overlap."""
    X, y = make_classification(n, n_features=10, n_informative=6, flip_y=0.1, random_state=seed)
    return scale(X), y


problems = pytest.mark.parametrize("problem", [moons, iris], ids=["two-classes", "three-classes"])


def margin(model, X, y):
    """The least lead of each row's label, from the target that the attacks see."""
    target = as_target(model)
    return margins(target.scores(X), label_codes(model, y, len(X)), target.contrasts)[0]
