"""Made data: regression problems whose true function is known, and corrupt training rows, to test how learners cope.

A new kind is one function here and one row in ``CORRUPTIONS``.

Examples
--------
>>> import numpy as np
>>> from buttress.datasets import contaminate
>>> X, y = np.zeros((10, 1)), np.array([0, 1] * 5)
>>> _, dirty, mask = contaminate(X, y, rate=0.2, kind="flip", random_state=0)
>>> int(mask.sum()), int((dirty != y).sum())
(2, 2)
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import type_of_target

from buttress._checks import Array, check_count, check_number, check_option
from buttress._types import Rows


def make_polynomial(
    n_samples: int = 1000, *, degree: int = 3, noise: float = 0.01,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Array, Array, Array]:
    """Return (X, y, truth) of the polynomial set: x ~ N(0, 1), y = sum_j a_j x^j + noise N(0, 1), a_j ~ N(0, 1).

    Parameters
    ----------
    n_samples : int, default=1000
    degree : int, default=3
    noise : float, default=0.01
        Standard deviation of the target noise, >= 0.
    random_state : int, RandomState or None

    Returns
    -------
    X, y, truth
        Of shapes (n, 1), (n,) and (n,), the last without the noise.

    References
    ----------
    Rathnashyam & Gittens, Subquantile minimization for kernel learning in the Huber epsilon-contamination model, 2023,
    table 4.

    Examples
    --------
    >>> from buttress.datasets import make_polynomial
    >>> X, y, truth = make_polynomial(random_state=0)
    >>> X.shape, bool(abs(y - truth).max() < 0.05)
    ((1000, 1), True)
    """
    check_count("n_samples", n_samples)
    check_count("degree", degree, 0)
    check_number("noise", noise, 0, closed="left")
    rng = check_random_state(random_state)
    x = rng.normal(size=n_samples)
    truth = np.polynomial.polynomial.polyval(x, rng.normal(size=degree + 1))
    return x[:, None], truth + noise * rng.normal(size=n_samples), truth


def make_smooth(
    n_samples: int = 1000, *, n_features: int = 5, n_waves: int = 20, noise: float = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Array, Array, Array]:
    """Return (X, y, truth) of a random smooth function, a sum of cosine waves whose square has mean 1 over draws.

    truth(x) = sqrt(2 / n_waves) sum_j cos(w_j'x + b_j), w_j ~ N(0, I / n_features), b_j uniform on the circle: near a
    draw of the Gaussian process with an RBF kernel of gamma 1 / (2 n_features), x ~ N(0, I).

    Parameters
    ----------
    n_samples, n_features, n_waves : int
    noise : float, default=0.1
        Standard deviation of the target noise, >= 0.
    random_state : int, RandomState or None

    Returns
    -------
    X, y, truth
        Of shapes (n, d), (n,) and (n,), the last without the noise.

    Examples
    --------
    >>> from buttress.datasets import make_smooth
    >>> X, y, truth = make_smooth(200, random_state=0)
    >>> X.shape, y.shape
    ((200, 5), (200,))
    """
    for name, value in (("n_samples", n_samples), ("n_features", n_features), ("n_waves", n_waves)):
        check_count(name, value)
    check_number("noise", noise, 0, closed="left")
    rng = check_random_state(random_state)
    W = rng.normal(size=(n_features, n_waves)) / np.sqrt(n_features)
    b = rng.uniform(0, 2 * np.pi, n_waves)
    X = rng.normal(size=(n_samples, n_features))
    truth = np.sqrt(2 / n_waves) * np.cos(X @ W + b).sum(axis=1)
    return X, truth + noise * rng.normal(size=n_samples), truth


RandomState = np.random.RandomState


def contaminate(
    X: ArrayLike, y: ArrayLike, rate: float, kind: str, random_state: int | RandomState | None = None
) -> tuple[ArrayLike, NDArray[Any], NDArray[np.bool_]]:
    """Return (X, y, mask) with the share ``rate`` of the rows corrupted.

    The rows are chosen at random, except for ``"one_region"``. In what follows m, s and M are the mean, the standard
    deviation and the median of y.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    rate : float in [0, 1)
        Share of rows to corrupt, rounded to whole rows.
    kind : str
        ``"flip"``: a label becomes another class, drawn uniformly.
        ``"noise"``: a target becomes m + s N(5, 5), the 5s being standard deviations.
        ``"label+feature"``: x becomes 100 x and y 10,000 y; labels, whole numbers too, are flipped instead.
        ``"oblivious"``: N(0, 5) is added to the target, the 5 in its own units and a standard deviation.
        ``"mirrored"``: y becomes 2 M - y.
        ``"second_function"``: y becomes M + s u'z, z the standardised x and u a random direction of length 1.
        ``"shifted"``: y becomes y + 2 s.
        ``"constant"``: y becomes m + 3 s.
        ``"one_region"``: as ``"shifted"``, on the rows nearest to a random row.
        ``"permuted"``: the chosen rows exchange their targets, and none keeps its own.
        ``"heavy_tails"``: s times a Cauchy draw is added.
    random_state : int, RandomState or None

    Returns
    -------
    X, y, mask
        X (a corrupted copy if the kind changes X, else X as given), a corrupted copy of y, and a mask of the corrupted
        rows.

    Raises
    ------
    ValueError
        For an unknown kind, a rate out of range, labels of only one class, or labels if the kind needs numbers.
    """
    rate = check_number("rate", rate, 0, 1, closed="left")
    check_option("kind", kind, tuple(CORRUPTIONS))
    rng = check_random_state(random_state)
    targets = np.array(y)
    check_consistent_length(X, targets)
    rows = rng.permutation(len(targets))[: round(rate * len(targets))]
    if kind == "one_region":
        rows = nearest_rows(X, len(rows), rng)
    mask = np.zeros(len(targets), dtype=bool)
    mask[rows] = True
    if kind not in ("flip", "label+feature"):
        targets = numbers(targets, kind)
    X, targets = CORRUPTIONS[kind](X, targets, np.flatnonzero(mask), rng)
    return X, targets, mask


def flip(X: ArrayLike, y: NDArray[Any], rows: Rows, rng: RandomState) -> tuple[ArrayLike, NDArray[Any]]:
    """Draw another class for each row."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"Flipping labels needs at least 2 classes in y. Got only {classes[0]!r}.")
    codes[rows] = (codes[rows] + rng.randint(1, len(classes), len(rows))) % len(classes)
    return X, classes[codes]


def label_and_feature(X: ArrayLike, y: NDArray[Any], rows: Rows, rng: RandomState) -> tuple[ArrayLike, NDArray[Any]]:
    """Scale x by 100 and y by 10,000, or flip y where it holds classes."""
    far = np.array(X, dtype=np.float64)
    far[rows] *= 100
    if type_of_target(y) in ("binary", "multiclass"):
        return far, flip(X, y, rows, rng)[1]
    y = numbers(y, "label+feature")
    y[rows] *= 10_000
    return far, y


def second_function(X: ArrayLike, y: Array, rows: Rows, rng: RandomState) -> tuple[ArrayLike, Array]:
    """Give the rows targets of a linear function of the standardised features."""
    Z = np.asarray(X, dtype=np.float64)
    Z = (Z - Z.mean(axis=0)) / np.maximum(Z.std(axis=0), 1e-12)
    direction = rng.normal(size=Z.shape[1])
    targets = np.median(y) + y.std() * Z[rows] @ (direction / np.linalg.norm(direction))
    return replaced(X, y, rows, targets)


def permute(X: ArrayLike, y: Array, rows: Rows, rng: RandomState) -> tuple[ArrayLike, Array]:
    """Give each row the target of the row before it in a random order."""
    order = rng.permutation(rows)
    return replaced(X, y, order, y[np.roll(order, 1)])


def replaced(X: ArrayLike, y: Array, rows: Rows, targets: Array | float) -> tuple[ArrayLike, Array]:
    """Return X and y with the rows' targets replaced."""
    y = y.copy()
    y[rows] = targets
    return X, y


def nearest_rows(X: ArrayLike, n_rows: int, rng: RandomState) -> Rows:
    """Return the numbers of the rows nearest to a random row, the features standardised."""
    Z = np.asarray(X, dtype=np.float64)
    Z = Z / np.maximum(Z.std(axis=0), 1e-12)
    return np.argsort(((Z - Z[rng.randint(len(Z))]) ** 2).sum(axis=1), kind="stable")[:n_rows]


def numbers(y: NDArray[Any], kind: str) -> Array:
    """Return y as float64, or raise because the kind is for numbers."""
    try:
        return y.astype(np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"kind={kind!r} needs a target of numbers. Got {y.flat[0]!r}. "
                         "Use kind='flip' for labels.") from None


# kind -> corrupted (X, y) from (X, y, row numbers, rng)
CORRUPTIONS: dict[str, Callable[[ArrayLike, Any, Rows, RandomState], tuple[ArrayLike, Any]]] = {
    "flip": flip,
    "noise": lambda X, y, rows, rng: replaced(X, y, rows, y.mean() + y.std() * rng.normal(5, 5, len(rows))),
    "label+feature": label_and_feature,
    "oblivious": lambda X, y, rows, rng: replaced(X, y, rows, y[rows] + rng.normal(0, 5, len(rows))),
    "mirrored": lambda X, y, rows, rng: replaced(X, y, rows, 2 * np.median(y) - y[rows]),
    "second_function": second_function,
    "shifted": lambda X, y, rows, rng: replaced(X, y, rows, y[rows] + 2 * y.std()),
    "constant": lambda X, y, rows, rng: replaced(X, y, rows, y.mean() + 3 * y.std()),
    "one_region": lambda X, y, rows, rng: replaced(X, y, rows, y[rows] + 2 * y.std()),
    "permuted": permute,
    "heavy_tails": lambda X, y, rows, rng: replaced(X, y, rows, y[rows] + y.std() * rng.standard_cauchy(len(rows))),
}
