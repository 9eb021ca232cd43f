"""A softmax of one score a class by maximum likelihood; of two classes, one score being 0, it is the logistic curve.

Newton's method. A step that does not lower the cross-entropy enough is halved. Source: Lin, Lin & Weng, A note
on Platt's probabilistic outputs for support vector machines, 2007.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from buttress._checks import Array

SHARP = 1e-12  # of a gradient a row: where maximum likelihood stops
NEWTON_STEPS = 100  # most steps of maximum likelihood; some ten are usual
LEAST_GAIN = 1e-4  # of what the slope promises: a Newton step that gains less is halved (Armijo's rule)
LEAST_STEP = 1e-10  # of the Newton step: no gain from so short a one is rounding

At = Callable[[Array], tuple[float, Array, Array]]  # value, gradient and Hessian at a theta


def softmax_curves(scores: Array, targets: Array, share: Array) -> tuple[float, Array]:
    """Return a slope, and a shift a class (C,), that minimise the mean cross-entropy of softmax(slope scores + shifts).

    ``targets`` (n, C) have rows of sum 1, ``share`` (n,) sums to 1, and the first shift is 0.
    """
    at: At = partial(_softmax, scores, targets, share[:, None])
    theta = np.zeros(scores.shape[1])
    value, gradient, H = at(theta)
    for _ in range(NEWTON_STEPS):
        if np.abs(gradient).max() <= SHARP:
            break
        H.flat[:: len(H) + 1] += SHARP * (1 + H.diagonal().sum())
        step = np.linalg.solve(H, -gradient)
        promised = LEAST_GAIN * float(gradient @ step)
        size = 1.0
        reached = at(theta + step)
        while reached[0] > value + size * promised and size > LEAST_STEP:
            size /= 2
            reached = at(theta + size * step)
        if reached[0] >= value:  # rounding decides
            break
        theta = theta + size * step
        value, gradient, H = reached
    return float(theta[0]), np.append(0.0, theta[1:])


def _softmax(scores: Array, targets: Array, share: Array, theta: Array) -> tuple[float, Array, Array]:
    """Return the mean cross-entropy of targets (n, C) and softmax(slope scores + shifts), gradient and Hessian."""
    z = theta[0] * scores + np.append(0.0, theta[1:])
    z -= z.max(axis=1, keepdims=True)
    q = np.exp(z)
    total = q.sum(axis=1, keepdims=True)
    q /= total
    value = float(share[:, 0] @ (np.log(total[:, 0]) - np.einsum("ij,ij->i", targets, z)))
    off = share * (q - targets)
    from_mean = scores - np.einsum("ij,ij->i", q, scores)[:, None]
    pulled = share * q * from_mean
    H = np.empty((len(theta), len(theta)))
    H[0, 0] = np.einsum("ij,ij->", pulled, from_mean)
    H[0, 1:] = pulled.sum(axis=0)[1:]
    H[1:, 0] = H[0, 1:]
    H[1:, 1:] = np.diag((share * q).sum(axis=0)[1:]) - q[:, 1:].T @ (share * q[:, 1:])
    return value, np.append(np.einsum("ij,ij->", off, scores), off.sum(axis=0)[1:]), H
