"""Synthetic regression problems whose true function is known."""

import numpy as np
from sklearn.utils import check_random_state

from buttress._checks import Array, check_count, check_number


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
    """Return (X, y, truth) of a random smooth function, a sum of cosine waves of mean square about 1, x ~ N(0, I).

    truth(x) = sqrt(2 / n_waves) sum_j cos(w_j'x + b_j), w_j ~ N(0, I / n_features), b_j uniform on the circle: near a
    draw of the Gaussian process with an RBF kernel of gamma 1 / (2 n_features).

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
