"""The width of a kernel from the data: the median distance from a row to its third nearest row."""

from collections.abc import Callable

import numpy as np
from sklearn.neighbors import NearestNeighbors

from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress.kernels import Kernel, KernelLike, Radial, as_kernel
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
    """Return the kernel of an estimator's parameters; ``gamma="auto"`` makes a named one as wide as rows are apart.

    Its squared distances are then in units of ``near()``, see :func:`near_distance2`. Kernels that are no function of
    a distance have ``gamma="scale"`` instead.
    """
    if not (isinstance(kernel, str) and gamma == "auto"):
        return as_kernel(kernel, gamma=gamma, degree=degree, coef0=coef0, X=X, sample_weight=weight)
    unit = as_kernel(kernel, gamma=1.0, degree=degree, coef0=coef0)
    if not isinstance(unit, Radial):
        return as_kernel(kernel, gamma="scale", degree=degree, coef0=coef0, X=X, sample_weight=weight)
    narrow = 1 / near()
    return unit.stretched(narrow) if isinstance(unit, Scaled) else as_kernel(kernel, gamma=narrow)
