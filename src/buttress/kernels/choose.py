"""Make a kernel object from the ``kernel`` parameter of an estimator, and check it against the data."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse

from buttress._checks import Array, KernelScaleWarning, check_number, warn_user
from buttress._suggest import near
from buttress.kernels.composed import Combination, Custom, Precomputed
from buttress.kernels.kernel import Kernel
from buttress.kernels.named import NAMES, Linear

# what users give as ``kernel``
KernelLike = str | Kernel | Callable[[Array, Array], Array]


class KernelParameters(Protocol):
    """An estimator with the parameters that make a kernel."""

    kernel: KernelLike
    gamma: float | str
    degree: float
    coef0: float


def as_kernel(
    kernel: KernelLike,
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
        if kernel not in NAMES:
            names = ", ".join(NAMES)
            raise ValueError(
                f"kernel must be one of {names}, a kernel object or a function. Got {kernel!r}.{near(kernel, NAMES)}"
            )
        made = NAMES[kernel](resolve_gamma(gamma, X, sample_weight), degree, coef0)
    elif isinstance(kernel, Kernel):
        made = kernel
    elif callable(kernel):
        made = Custom(kernel)
    else:
        raise ValueError(f"kernel must be a name, a kernel object or a function. Got {kernel!r}.")
    _ = made.definiteness  # raises for a bad parameter
    return made


def resolve_gamma(gamma: float | str, X: Array | None, sample_weight: Array | None = None) -> float:
    """Return gamma as a number; ``"scale"`` is 1 / (d * variance of all entries), ``"auto"`` is 1/d.

    ValueError also where the numbers of X, float32 or float64, do not hold their squares.
    """
    if not isinstance(gamma, str):
        return check_number("gamma", gamma, 0, fix="Use a positive number, 'scale' or 'auto'.")
    if gamma not in ("scale", "auto"):
        raise ValueError(f"gamma must be a positive number, 'scale' or 'auto' (or 'loo' of SVC, 'neighbors' of SVDD, "
                         f"'multiscale' of RobustKernelClassifier and Regressor). Got {gamma!r}.")
    if X is None:
        raise ValueError(f"gamma={gamma!r} needs data. Give a number.")
    if gamma == "auto":
        return 1 / X.shape[1]
    weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    share = weight / weight.sum() / X.shape[1]
    mean = float(share @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel())
    middle = float(X.dtype.type(mean))
    squares = np.square(np.subtract(X.data if issparse(X) else X, middle, dtype=np.float64))
    if issparse(X):
        rows: Any = X
        stored = np.diff(rows.indptr)
        length = float(np.repeat(share, stored) @ squares + share @ (X.shape[1] - stored) * middle**2) * X.shape[1]
    else:
        length = float(share @ squares.sum(axis=1)) * X.shape[1]
    return 1 / held_square(length, "gamma='scale'", X.dtype) if length else 1.0


def held_square(length: float, what: str, kind: DTypeLike = np.float64) -> float:
    """Return a squared length of rows that ``what`` divides by; ValueError where numbers of that kind do not hold it.
    """
    held = np.finfo(np.dtype(kind))
    if not float(held.tiny) < length < float(held.max):
        raise ValueError(f"{what} divides by a squared length of the rows of X, and {held.dtype} does not hold the "
                         "squares of their entries. Scale the columns (StandardScaler)"
                         f"{', or give float64' if held.bits < 64 else ''}.")
    return length


def centers(kernel: Kernel, X: Array) -> Array:
    """Return Z so that ``kernel(X, Z)`` is the Gram matrix of the training rows X; row numbers if X is one already."""
    return np.arange(X.shape[0], dtype=np.float64)[:, None] if isinstance(kernel, Precomputed) else X


def warn_of_scale(kernel: Kernel, X: Array, Z: Array) -> None:
    """Warn if the kernel is almost 0 between different training rows X, or almost the same between all of them.

    Z is :func:`centers` of X, or landmarks. About a hundred rows are compared with Z. They are unlike if for half of
    them the kernel with every other centre is below a thousandth of k(x, x). They are alike if all values agree to a
    millionth. Linear kernels are not checked, because rows may well be orthogonal.
    """
    if isinstance(kernel, Linear) or Z.shape[0] < 10:  # too few to tell
        return
    seen = np.arange(0, X.shape[0], -(-X.shape[0] // 100))
    rows = X[seen].astype(np.float64, copy=False)
    K = np.abs(kernel(rows, Z))
    if K.max() - K.min() <= 1e-6 * K.max():
        complaint = "alike: its value is the same for every two rows"
        gamma = "raise"
    else:
        exact = Z.shape[0] == X.shape[0]
        length = K[np.arange(len(seen)), seen] if exact else kernel.diagonal(rows)
        if exact:
            K[np.arange(len(seen)), seen] = 0
        if np.median(K.max(axis=1) / np.where(length > 0, length, np.inf)) >= 1e-3:
            return
        complaint = "unlike: for most rows its value with every other row is almost 0"
        gamma = "lower"
    warn_user(f"For {kernel!r} the rows of X are all {complaint}, so there is nothing to learn. Scale the columns of X "
              f"(RobustScaler), or {gamma} gamma.", KernelScaleWarning)


def check_positive(kernel: Kernel, who: str) -> None:
    """Raise ValueError for a kernel that is known not to be positive definite."""
    if kernel.definiteness in ("cpd", "indefinite"):
        raise ValueError(f"{who} a positive definite kernel. {kernel!r} is {kernel.definiteness}. Use RBF, Laplacian, "
                         "Cauchy, InverseMultiquadric, Linear or Polynomial.")


def is_precomputed(kernel: KernelLike | None) -> bool:
    """Say whether a ``kernel`` parameter means a Gram matrix given in advance."""
    return isinstance(kernel, Precomputed) or (isinstance(kernel, str) and kernel == "precomputed")


def fitted_kernel(estimator: KernelParameters, X: Array, sample_weight: Array | None = None) -> Kernel:
    """Return the kernel object of an estimator's parameters; raise ValueError for a bad Gram matrix or sparse X.

    TypeError for a sparse Gram matrix.
    """
    kernel = as_kernel(estimator.kernel, gamma=estimator.gamma, degree=estimator.degree, coef0=estimator.coef0, X=X,
                       sample_weight=sample_weight)
    return fitting(kernel, X)


def fitting(kernel: Kernel, X: Array) -> Kernel:
    """Return the kernel; raise ValueError for a bad Gram matrix X, or sparse X that the kernel does not take.

    TypeError for a sparse Gram matrix.
    """
    if issparse(X) and isinstance(kernel, Precomputed):
        raise TypeError("Sparse precomputed kernels are not supported. Use X.toarray().")
    if issparse(X) and not kernel_takes_sparse(kernel):
        raise ValueError(f"{type(kernel).__name__} kernels take no sparse X, because they are called on dense rows. "
                         "Use X.toarray(), or a kernel by name.")
    if isinstance(kernel, Precomputed):
        check_gram(X)
    return kernel


def check_gram(K: Array) -> None:
    """Raise ValueError for a Gram matrix that is not square or not symmetric."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"A precomputed kernel must be a square matrix. Got shape {K.shape}.")
    if not np.allclose(K, K.T, rtol=1e-6, atol=1e-8 * np.abs(K).max()):
        raise ValueError("A precomputed kernel must be symmetric. Use (K + K.T) / 2.")


def kernel_takes_sparse(kernel: Kernel) -> bool:
    """Say whether a kernel can be evaluated on CSR rows: functions of distances and inner products, and their sums."""
    if isinstance(kernel, Combination):
        return all(kernel_takes_sparse(part) for part in kernel.kernels)
    return not isinstance(kernel, Precomputed | Custom)
