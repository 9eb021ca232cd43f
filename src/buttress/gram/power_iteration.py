"""The largest eigenvalue of a positive semi-definite operator, by power iteration."""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array


def top_eigenvalue(times: Callable[[Array], Array], v: Array) -> tuple[float, Array]:
    """Return the largest eigenvalue of ``times`` plus two per cent, and its eigenvector, by power iteration from v.

    Examples
    --------
    >>> A = np.diag([3.0, 1.0])
    >>> round(top_eigenvalue(lambda v: A @ v, np.ones(2))[0], 6)
    3.06
    """
    value = 0.0
    for _ in range(30):  # the value is then within a few per cent, unless many eigenvalues are close
        v = times(v)
        value = float(np.linalg.norm(v))
        if value == 0:
            return 0.0, np.ones_like(v)
        v = v / value
    return 1.02 * value, v  # the value found is always too small: this is safe for step lengths
