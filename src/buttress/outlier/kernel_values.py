"""What detectors take from kernel values: the width from the data, by third nearest rows, and sums in logarithms.

log sum_i a_i k(x_i, x) keeps the order of rows that are far from all others. Where k(x, x) is constant, a row is the
nearer to the centre of a ball the larger that sum is. Far from the data the squared distance is flat in floating point,
and the sum itself is 0; its logarithm is neither.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors

from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress._threads import slices
from buttress._types import Rows
from buttress.expansion import KernelExpansion
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    InverseMultiquadric,
    Kernel,
    KernelLike,
    Laplacian,
    MultiscaleRBF,
    Radial,
    as_kernel,
    squared_distances,
)
from buttress.kernels.choose import held_square
from buttress.kernels.named import Scaled


def near_distance2(X: Array, weight: Array) -> float:
    """Return the median over rows of the squared distance to the third nearest other row; 1 if all rows are equal.

    Of fewer rows than four it is the farthest one. Equal rows are one row of their summed weight. The number has the
    unit of the rows: for rows times 10 it is a hundred times as large.
    """
    here = weight > 0
    different, group = np.unique(np.asarray(X[here], dtype=np.float64), axis=0, return_inverse=True)
    if len(different) < 2:
        return 1.0
    counts = np.bincount(group.reshape(-1), weights=weight[here])
    some = np.arange(len(different))[drawn_rows(len(different), 2000)]  # the median over more is hardly another
    # Of 1, 3, 5 and 10, with nu of .5 to .97, the pair whose smaller lead was largest on the odd sets of ADBench, over
    # nearest neighbours for clean rows and over isolation forest for contaminated ones (to vary it, change it and run
    # python -m benchmarks.adbench --sets choosing --rows 700). The first is better for clean rows only, the fifth and
    # tenth for contaminated ones only.
    rank = min(3, len(different) - 1)
    near = NearestNeighbors(n_neighbors=rank + 1).fit(different).kneighbors(different[some])[0][:, rank]
    middle = float(np.quantile(near, 0.5, weights=counts[some], method="inverted_cdf")) ** 2
    return middle if middle > 0 else 1.0


def kernel_of_width(
    kernel: KernelLike, *, gamma: float | str, degree: float, coef0: float, X: Array, weight: Array,
    near: Callable[[], float],
) -> Kernel:
    """Return the kernel of parameters; ``gamma="neighbors"`` makes a named one as wide as neighbours are apart.

    Its squared distances are then in units of ``near()``, see :func:`near_distance2`. Kernels that are no function of
    a distance have ``gamma="scale"`` instead.
    """
    if not (isinstance(kernel, str) and gamma == "neighbors"):
        return as_kernel(kernel, gamma=gamma, degree=degree, coef0=coef0, X=X, sample_weight=weight)
    unit = as_kernel(kernel, gamma=1.0, degree=degree, coef0=coef0)
    if not isinstance(unit, Radial):
        return as_kernel(kernel, gamma="scale", degree=degree, coef0=coef0, X=X, sample_weight=weight)
    narrow = 1 / held_square(near(), "gamma='neighbors'")
    return unit.stretched(narrow) if isinstance(unit, Scaled) else as_kernel(kernel, gamma=narrow)


def in_logs(kernel: Kernel) -> bool:
    """Say whether all values of a kernel are positive and k(x, x) is constant: sums of such have logarithms."""
    parts = of_one_width(kernel)
    return bool(parts) and all(type(part) in (RBF, Laplacian, Cauchy, InverseMultiquadric) for part, _ in parts)


def of_one_width(kernel: Kernel) -> list[tuple[Kernel, float]]:
    """Return the kernels of one width of which a kernel is the sum, with their weights."""
    if type(kernel) is Combination:
        return [(inner, weight * share) for part, weight in kernel._terms() for inner, share in of_one_width(part)]
    if type(kernel) is MultiscaleRBF:
        return [(RBF(float(gamma)), 1 / len(kernel.gammas)) for gamma in kernel.gammas]
    return [(kernel, 1.0)]


def logarithm(kernel: Kernel, r2: Array) -> Array:
    """Return log k of a kernel :func:`in_logs` at squared distances."""
    logs = [np.log(weight) + _logarithm(part, r2) for part, weight in of_one_width(kernel)]
    return np.asarray(logsumexp(logs, axis=0))


def _logarithm(kernel: Any, r2: Array) -> Array:
    if isinstance(kernel, RBF):
        return -kernel.gamma * r2
    if isinstance(kernel, Laplacian):
        return -kernel.gamma * np.sqrt(r2)
    return np.asarray(np.log(kernel.profile(r2)))


def log_scores(expansion: KernelExpansion, X: Array) -> Array:
    """Return log sum_i a_i k(x_i, x) of each row of X (n, d), for a kernel :func:`in_logs`."""
    sums = expansion(X)[:, 0]
    faint = np.flatnonzero(sums < 1e-30)  # float32 rows have lost digits of such sums
    sums[faint] = 1.0
    logs: Array = np.log(sums)
    logs[faint] = summed_logs(expansion, X[faint])
    return logs


def summed_logs(expansion: KernelExpansion, X: Array, own: Rows | None = None) -> Array:
    """Return the same from the logarithms; of row i without the center of number ``own[i]``."""
    weights = np.log(expansion.coef[:, 0].astype(np.float64))
    out = np.empty(len(X))
    for part in slices(len(X), len(weights)):
        rows = X[part].astype(np.float64, copy=False)
        logs = logarithm(expansion.kernel, squared_distances(rows, expansion.centers)) + weights
        if own is not None:
            logs[np.arange(len(rows)), own[part]] = -np.inf
        out[part] = logsumexp(logs, axis=1)
    return out


def left_out_logs(expansion: KernelExpansion, support: Rows, sums: Array) -> Array:
    """Return the score of each training row (n,) from the others, their coefficients in proportion.

    ``sums`` (n,) are sum_j a_j k(x_j, x_i), and ``support`` the numbers of the rows with a coefficient, in order.
    """
    a = expansion.coef[:, 0].astype(np.float64)
    rest = sums.copy()
    rest[support] -= a * expansion.kernel.diagonal(expansion.centers[:1])
    scores = np.log(np.maximum(rest, np.finfo(float).tiny))
    cancelled = np.flatnonzero(rest[support] < 1e-4 * sums[support])  # the rest keeps its digits only above this share
    with np.errstate(divide="ignore"):
        scores[support[cancelled]] = summed_logs(expansion, expansion.centers[cancelled], cancelled)
        scores[support] -= np.log(1 - a)
    return np.where(np.isnan(scores), -np.inf, scores)  # of a row that is the whole ball
