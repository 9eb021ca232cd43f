"""Kernels: the eight of the literature, their weighted sum, and a Gram matrix given in advance.

A kernel is called on two arrays, ``kernel(X, Z)`` with X (n, d) and Z (m, d), and returns the (n, m)
matrix of k(x_i, z_j). ``diagonal(X)`` is (n,), ``gradient(X, Z, V)`` is the (n, d) array of
``sum_j V[i, j] * d k(x_i, z_j) / d x_i``. ``definiteness`` is ``"pd"`` (positive definite), ``"cpd"``
(conditionally: positive for coefficients that sum to zero, which is all an SVM with intercept
needs), ``"indefinite"``, or ``"unknown"`` for a user's function.

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from buttress._checks import Array, check_number, near


class Kernel(BaseEstimator, ABC):
    """A function k(x, z) with its diagonal and its gradient in x."""

    @property
    @abstractmethod
    def definiteness(self) -> str:
        """``"pd"``, ``"cpd"``, ``"indefinite"`` or ``"unknown"``; raises ValueError for a bad parameter."""

    @abstractmethod
    def __call__(self, X: Array, Z: Array) -> Array:
        """Return k(x_i, z_j), shape (n, m)."""

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Return k(x_i, x_i), shape (n,)."""

    @abstractmethod
    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        """Return sum_j V_ij dk(x_i, z_j)/dx_i, shape (n, d)."""


class Radial(Kernel):
    """k(x, z) = F(r^2) with r the Euclidean distance; subclasses give F and its slope dF/d(r^2)."""

    @abstractmethod
    def profile(self, r2: Array) -> Array:
        """F(r^2)."""

    @abstractmethod
    def slope(self, r2: Array) -> Array:
        """dF/d(r^2); 0 where it does not exist (r = 0 of a kernel with a cusp)."""

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.profile(squared_distances(X, Z))

    def diagonal(self, X: Array) -> Array:
        return self.profile(np.zeros(len(X)))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        S = V * self.slope(squared_distances(X, Z))
        return 2 * (S.sum(axis=1)[:, None] * X - S @ Z)


class DotProduct(Kernel):
    """k(x, z) = G(x'z); subclasses give G and its slope."""

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """G(s)."""

    @abstractmethod
    def slope(self, s: Array) -> Array:
        """dG/ds."""

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.profile(X @ Z.T)

    def diagonal(self, X: Array) -> Array:
        return self.profile(np.einsum("ij,ij->i", X, X))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        return (V * self.slope(X @ Z.T)) @ Z


def squared_distances(X: Array, Z: Array) -> Array:
    """Return |x_i - z_j|^2, shape (n, m), by one GEMM.

    Both sets are centred first, and distances below the rounding of the largest are 0, so that equal rows are at
    distance 0 exactly: a kernel with a cusp at 0 would turn 1e-16 into an error of 1e-8.
    """
    centre = Z.mean(axis=0) if len(Z) else 0.0
    X, Z = X - centre, Z - centre
    xx, zz = np.einsum("ij,ij->i", X, X), np.einsum("ij,ij->i", Z, Z)
    r2 = np.dot(-2 * X, np.ascontiguousarray(Z.T))
    r2 += xx[:, None]
    r2 += zz
    if r2.size:
        unresolved = 16 * np.finfo(r2.dtype).eps * (xx.max() + zz.max())
        r2[r2 <= unresolved] = 0
    return r2


class Linear(DotProduct):
    """k(x, z) = x'z + coef0. Positive definite for coef0 >= 0, conditionally so for any."""

    def __init__(self, coef0: float = 0.0):
        self.coef0 = coef0

    @property
    def definiteness(self) -> str:
        return "pd" if check_number("coef0", self.coef0, -np.inf) >= 0 else "cpd"

    def profile(self, s: Array) -> Array:
        return s + self.coef0

    def slope(self, s: Array) -> Array:
        return np.ones_like(s)


class Polynomial(DotProduct):
    """k(x, z) = (gamma x'z + coef0)^degree. Positive definite for coef0 >= 0 and a whole degree."""

    def __init__(self, degree: float = 3, gamma: float = 1.0, coef0: float = 0.0):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    @property
    def definiteness(self) -> str:
        degree = check_number("degree", self.degree, 0)
        check_number("gamma", self.gamma, 0)
        whole = degree == int(degree)
        return "pd" if whole and check_number("coef0", self.coef0, -np.inf) >= 0 else "indefinite"

    def profile(self, s: Array) -> Array:
        return (self.gamma * s + self.coef0) ** self.degree

    def slope(self, s: Array) -> Array:
        return self.gamma * self.degree * (self.gamma * s + self.coef0) ** (self.degree - 1)


class Sigmoid(DotProduct):
    """k(x, z) = tanh(gamma x'z + coef0). Not positive definite for any parameters met in practice."""

    def __init__(self, gamma: float = 1.0, coef0: float = 0.0):
        self.gamma = gamma
        self.coef0 = coef0

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        check_number("coef0", self.coef0, -np.inf)
        return "indefinite"

    def profile(self, s: Array) -> Array:
        return np.tanh(self.gamma * s + self.coef0)

    def slope(self, s: Array) -> Array:
        return self.gamma / np.cosh(np.clip(self.gamma * s + self.coef0, -350, 350)) ** 2


class RBF(Radial):
    """k(x, z) = exp(-gamma r^2), positive definite."""

    def __init__(self, gamma: float = 1.0):
        self.gamma = gamma

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        return "pd"

    def profile(self, r2: Array) -> Array:
        return np.exp(-self.gamma * r2)

    def slope(self, r2: Array) -> Array:
        return -self.gamma * np.exp(-self.gamma * r2)


class Laplacian(Radial):
    """k(x, z) = exp(-gamma r) with r the L2 distance, positive definite.

    scikit-learn's ``laplacian_kernel`` has the L1 distance in place of r: a different kernel.
    """

    def __init__(self, gamma: float = 1.0):
        self.gamma = gamma

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        return "pd"

    def profile(self, r2: Array) -> Array:
        return np.exp(-self.gamma * np.sqrt(r2))

    def slope(self, r2: Array) -> Array:
        r = np.sqrt(r2)
        return np.divide(-self.gamma * np.exp(-self.gamma * r), 2 * r, out=np.zeros_like(r), where=r > 0)


class InverseMultiquadric(Radial):
    """k(x, z) = (r^2 + offset^2)^(-1/2), positive definite."""

    def __init__(self, offset: float = 1.0):
        self.offset = offset

    @property
    def definiteness(self) -> str:
        check_number("offset", self.offset, 0)
        return "pd"

    def profile(self, r2: Array) -> Array:
        return 1 / np.sqrt(r2 + self.offset**2)

    def slope(self, r2: Array) -> Array:
        return -0.5 * (r2 + self.offset**2) ** -1.5


class Log(Radial):
    """k(x, z) = -log(1 + (gamma r^2)^(degree/2)), conditionally positive definite for 0 < degree <= 2."""

    def __init__(self, degree: float = 2, gamma: float = 1.0):
        self.degree = degree
        self.gamma = gamma

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        return "cpd" if check_number("degree", self.degree, 0) <= 2 else "indefinite"

    def profile(self, r2: Array) -> Array:
        return -np.log1p((self.gamma * r2) ** (self.degree / 2))

    def slope(self, r2: Array) -> Array:
        power = self.degree / 2
        scaled = self.gamma * r2
        top = np.power(scaled, power - 1, out=np.zeros_like(scaled), where=(scaled > 0) | (power >= 1))
        return -self.gamma * power * top / (1 + scaled**power)


class Cauchy(Radial):
    """k(x, z) = 1 / (1 + gamma r^2), positive definite (gamma = 1/sigma)."""

    def __init__(self, gamma: float = 1.0):
        self.gamma = gamma

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        return "pd"

    def profile(self, r2: Array) -> Array:
        return 1 / (1 + self.gamma * r2)

    def slope(self, r2: Array) -> Array:
        return -self.gamma / (1 + self.gamma * r2) ** 2


class Combination(Kernel):
    """k(x, z) = sum_p weights[p] * kernels[p](x, z) with weights >= 0 (default: equal, summing to 1)."""

    def __init__(self, kernels: Sequence[Kernel], weights: Sequence[float] | None = None):
        self.kernels = kernels
        self.weights = weights

    @property
    def definiteness(self) -> str:
        tags = {kernel.definiteness for kernel, weight in self._terms() if weight > 0}
        return next((tag for tag in ("unknown", "indefinite", "cpd") if tag in tags), "pd")

    def _terms(self) -> list[tuple[Kernel, float]]:
        count = len(self.kernels)
        if count == 0:
            raise ValueError("kernels must hold at least one kernel. Got an empty list.")
        weights = [1 / count] * count if self.weights is None else list(self.weights)
        if len(weights) != count:
            raise ValueError(f"weights must have one entry for each of the {count} kernels. Got {len(weights)}.")
        checked = [check_number(f"weights[{p}]", float(w), 0, closed="left") for p, w in enumerate(weights)]
        return list(zip(self.kernels, checked, strict=True))

    def __call__(self, X: Array, Z: Array) -> Array:
        return sum((w * k(X, Z) for k, w in self._terms() if w > 0), np.zeros((len(X), len(Z))))

    def diagonal(self, X: Array) -> Array:
        return sum((w * k.diagonal(X) for k, w in self._terms() if w > 0), np.zeros(len(X)))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        return sum((w * k.gradient(X, Z, V) for k, w in self._terms() if w > 0), np.zeros_like(X))


class Precomputed(Kernel):
    """The kernel values themselves: X is (n, n_train) of values against the training rows.

    Z is then an (m, 1) array of training row numbers, see :func:`centers`, and k(X, Z) picks those columns.
    """

    @property
    def definiteness(self) -> str:
        return "unknown"

    def __call__(self, X: Array, Z: Array) -> Array:
        return X[:, Z[:, 0].astype(np.intp)]

    def diagonal(self, X: Array) -> Array:
        return np.diagonal(X).copy()

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        raise ValueError("A precomputed kernel has no gradient in the inputs. Use a kernel object such as RBF(gamma).")


class Custom(Kernel):
    """A user's function of two arrays (n, d) and (m, d) that returns (n, m); its gradient by differences."""

    def __init__(self, function: Callable[[Array, Array], Array]):
        self.function = function

    @property
    def definiteness(self) -> str:
        return "unknown"

    def __call__(self, X: Array, Z: Array) -> Array:
        K = np.asarray(self.function(X, Z), dtype=np.float64)
        if K.shape != (len(X), len(Z)):
            raise ValueError(f"The kernel function must return shape {(len(X), len(Z))}. Got {K.shape}.")
        if not np.isfinite(K).all():
            raise ValueError("The kernel function returned NaN or inf. Check it on the rows of X.")
        return K

    def diagonal(self, X: Array) -> Array:
        return np.array([self(row, row)[0, 0] for row in X[:, None, :]])

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        step = 6e-6 * np.maximum(1, np.abs(X).max(axis=0))  # cube root of the machine epsilon
        columns = []
        for j, h in enumerate(step):
            shift = np.zeros(X.shape[1])
            shift[j] = h
            columns.append(np.einsum("ij,ij->i", V, self(X + shift, Z) - self(X - shift, Z)) / (2 * h))
        return np.stack(columns, axis=1)


_NAMES: dict[str, Callable[[float, float, float], Kernel]] = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "polynomial": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "laplacian": lambda gamma, degree, coef0: Laplacian(gamma),
    "sigmoid": lambda gamma, degree, coef0: Sigmoid(gamma, coef0),
    "imq": lambda gamma, degree, coef0: InverseMultiquadric(gamma**-0.5),
    "inverse_multiquadric": lambda gamma, degree, coef0: InverseMultiquadric(gamma**-0.5),
    "log": lambda gamma, degree, coef0: Log(2, gamma),
    "cauchy": lambda gamma, degree, coef0: Cauchy(gamma),
    "precomputed": lambda gamma, degree, coef0: Precomputed(),
}


def as_kernel(
    kernel: str | Kernel | Callable[[Array, Array], Array],
    *,
    gamma: float | str = 1.0,
    degree: float = 3,
    coef0: float = 0.0,
    X: Array | None = None,
    sample_weight: Array | None = None,
) -> Kernel:
    """Return a kernel object from a name, an object or a function.

    By name, ``gamma``, ``degree`` and ``coef0`` are scikit-learn's; gamma is 1/sigma of the Cauchy kernel,
    1/offset^2 of the inverse multiquadric and the scale of the log kernel (of degree 2). ``gamma="scale"`` is
    1 / (d * variance of X) with rows counted by ``sample_weight``, ``gamma="auto"`` is 1/d; both need X.
    A kernel object keeps its own parameters.

    Raises
    ------
    ValueError
        For an unknown name or a parameter out of its range.
    """
    if isinstance(kernel, str):
        if kernel not in _NAMES:
            names = ", ".join(_NAMES)
            raise ValueError(f"kernel must be one of {names}, a kernel object or a function. Got {kernel!r}."
                             f"{near(kernel, _NAMES)}")
        made = _NAMES[kernel](resolve_gamma(gamma, X, sample_weight), degree, coef0)
    elif isinstance(kernel, Kernel):
        made = kernel
    elif callable(kernel):
        made = Custom(kernel)
    else:
        raise ValueError(f"kernel must be a name, a kernel object or a function. Got {kernel!r}.")
    _ = made.definiteness  # raises for a bad parameter
    return made


def resolve_gamma(gamma: float | str, X: Array | None, sample_weight: Array | None = None) -> float:
    """Return gamma as a number; ``"scale"`` is 1 / (d * variance of all entries), ``"auto"`` is 1/d."""
    if not isinstance(gamma, str):
        return check_number("gamma", gamma, 0, fix="Use a positive number, 'scale' or 'auto'.")
    if gamma not in ("scale", "auto"):
        raise ValueError(f"gamma must be a positive number, 'scale' or 'auto'. Got {gamma!r}.")
    if X is None:
        raise ValueError(f"gamma={gamma!r} needs data. Give a number.")
    if gamma == "auto":
        return 1 / X.shape[1]
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    share = weight / weight.sum() / X.shape[1]
    mean = share @ X.sum(axis=1)
    variance = float(share @ ((X - mean) ** 2).sum(axis=1))
    return 1 / (X.shape[1] * variance) if variance > 0 else 1.0


def centers(kernel: Kernel, X: Array) -> Array:
    """Return Z with ``kernel(X, Z)`` the Gram matrix of the training rows X: X itself, or row numbers of a Gram."""
    return np.arange(len(X), dtype=np.float64)[:, None] if isinstance(kernel, Precomputed) else X


def is_precomputed(kernel: Any) -> bool:
    """Say whether a ``kernel`` parameter means a Gram matrix given in advance."""
    return isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed")


def fitted_kernel(estimator: Any, X: Array, sample_weight: Array | None = None) -> Kernel:
    """Return the kernel object of an estimator's parameters; refuse a Gram matrix that is not square."""
    kernel = as_kernel(estimator.kernel, gamma=estimator.gamma, degree=estimator.degree, coef0=estimator.coef0, X=X,
                       sample_weight=sample_weight)
    if isinstance(kernel, Precomputed):
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"A precomputed kernel must be a square matrix. Got shape {X.shape}.")
        if not np.allclose(X, X.T, rtol=1e-6, atol=1e-8 * np.abs(X).max()):
            raise ValueError("A precomputed kernel must be symmetric. Use (K + K.T) / 2.")
    return kernel
