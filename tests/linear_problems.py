"""The linear machine's objective, written out for the tests."""

from itertools import count

import numpy as np

from buttress.solvers.linear.primal import LinearProblem

LOSSES = ["hinge", "squared_hinge"]


def signs(y):
    return np.where(y == 1, 1.0, -1.0)


def slacks(model, X, y):
    return 1 - signs(y) * (X @ model.coef_[0] + model.intercept_[0])


def objective(model, X, y, C=1.0):
    losses = np.maximum(0, slacks(model, X, y)) ** (2 if model.loss == "squared_hinge" else 1)
    return 0.5 * model.coef_[0] @ model.coef_[0] + C * losses.sum()


def problem_of(X, y, C=1.0, **options):
    return LinearProblem(X, signs(y), np.full(len(y), float(C)), **options)


def gradient_descent(gradient, z, rate):
    """Yield z, then z - rate(t) gradient(z) for t = 0, 1, ..."""
    for t in count():
        yield z
        z = z - rate(t) * gradient(z)
