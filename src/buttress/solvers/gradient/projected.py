"""Projected (sub)gradient descent on a ball, for any gradient.

    beta <- Proj(beta - eta_t g(beta)),   Proj onto ||beta|| <= radius

Source: Abo-Khamis, Im, Moseley, Pruhs & Samadian, A relational gradient descent algorithm for support vector machine
training, APOCS 2021, eq. (2); Zinkevich, ICML 2003.
"""

from collections.abc import Callable, Generator

import numpy as np

from buttress._checks import Array

Iterates = Generator[tuple[int, Array], Array, None]


def projected_descent(start: Array, radius: float, step: Callable[[int], float]) -> Iterates:
    """Yield (t, beta^(t)) from t = 0; the caller sends the gradient there. step(t) is the step that gives beta^(t)."""
    beta = start
    t = 0
    while True:
        gradient = yield t, beta
        t += 1
        beta = project(beta - step(t) * gradient, radius)


def project(beta: Array, radius: float) -> Array:
    """Return the closest point of the ball.

    >>> project(np.array([3.0, 4.0]), 1.0)
    array([0.6, 0.8])
    """
    norm = float(np.linalg.norm(beta))
    return beta if norm <= radius else beta * (radius / norm)
