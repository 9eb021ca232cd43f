"""Losses of a raw prediction f: value, derivative in f, and a bound on the second derivative.

Binary targets are -1/+1. Targets of :class:`Multinomial` are class numbers 0..C-1, with f of shape (n, C).

Examples
--------
>>> import numpy as np
>>> from buttress.losses import Hinge
>>> Hinge().value(np.array([1.0, -1.0]), np.array([0.25, 0.25]))
array([0.75, 1.25])
"""

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, logsumexp, softmax

from buttress._types import Array, Targets


class Loss(ABC):
    """A loss l(y, f) of each row; ``curvature`` bounds |d2 l / df2| (inf if l is not smooth)."""

    curvature: float

    @abstractmethod
    def value(self, y: Targets, f: Array) -> Array:
        """Loss of each row, shape (n,)."""

    @abstractmethod
    def derivative(self, y: Targets, f: Array) -> Array:
        """dl/df (a subgradient where it is not unique), shaped like f."""


class Hinge(Loss):
    """l = max(0, 1 - y f), y in {-1, +1}; the derivative at y f = 1 is 0."""

    curvature = np.inf

    def value(self, y: Targets, f: Array) -> Array:
        return np.maximum(0, 1 - y * f)

    def derivative(self, y: Targets, f: Array) -> Array:
        return np.where(y * f < 1, -y, 0.0)


class Squared(Loss):
    """l = (f - y)^2."""

    curvature = 2.0

    def value(self, y: Targets, f: Array) -> Array:
        return (f - y) ** 2

    def derivative(self, y: Targets, f: Array) -> Array:
        return 2 * (f - y)


class Logistic(Loss):
    """l = log(1 + exp(-y f)), y in {-1, +1}."""

    curvature = 0.25

    def value(self, y: Targets, f: Array) -> Array:
        return np.logaddexp(0, -y * f)

    def derivative(self, y: Targets, f: Array) -> Array:
        return -y * expit(-y * f)


class Multinomial(Loss):
    """l = log sum_c exp(f_c) - f_y, y a class number; |diag(q) - qq'| <= 1/2 for every softmax q."""

    curvature = 0.5

    def value(self, y: Targets, f: Array) -> Array:
        codes = y.astype(np.intp, copy=False)
        return logsumexp(f, axis=1) - np.take_along_axis(f, codes[:, None], axis=1)[:, 0]

    def derivative(self, y: Targets, f: Array) -> Array:
        g = softmax(f, axis=1)
        g[np.arange(len(y)), y.astype(np.intp, copy=False)] -= 1
        return g
