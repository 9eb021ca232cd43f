"""Corruption of training rows, for tests and audits of what a learner does with them.

Examples
--------
>>> import numpy as np
>>> from buttress.datasets import contaminate
>>> X, y = np.zeros((10, 1)), np.array([0, 1] * 5)
>>> _, dirty, mask = contaminate(X, y, rate=0.2, kind="flip", random_state=0)
>>> int(mask.sum()), int((dirty != y).sum())
(2, 2)
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from buttress._checks import check_number, check_option


def contaminate(
    X: Any, y: Any, rate: float, kind: str, random_state: Any = None
) -> tuple[Any, NDArray[Any], NDArray[np.bool_]]:
    """Return (X, y, mask) with the share ``rate`` of the rows corrupted, the rows chosen at random.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    rate : float in [0, 1)
        Share of rows to corrupt, rounded to whole rows.
    kind : {"flip", "noise"}
        ``"flip"``: a label becomes another class, drawn uniformly. ``"noise"``: a real target becomes a draw from the
        normal distribution five standard deviations off the mean of y, five wide.
    random_state : int, RandomState or None

    Returns
    -------
    X, y, mask
        X as given, a corrupted copy of y, and which rows were corrupted.
    """
    rate = check_number("rate", rate, 0, 1, closed="left")
    check_option("kind", kind, ("flip", "noise"))
    rng = check_random_state(random_state)
    y = np.array(y)
    mask = np.zeros(len(y), dtype=bool)
    mask[rng.permutation(len(y))[: round(rate * len(y))]] = True
    if kind == "flip":
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"kind='flip' needs at least 2 classes in y. Got only {classes[0]!r}.")
        codes[mask] = (codes[mask] + rng.randint(1, len(classes), mask.sum())) % len(classes)
        return X, classes[codes], mask
    y = y.astype(np.float64)
    y[mask] = y.mean() + y.std() * rng.normal(5, 5, mask.sum())
    return X, y, mask
