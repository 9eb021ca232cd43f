"""Curves by maximum likelihood: the logistic curve of one score, and a softmax of one score a class.

Newton's method for both. A step that does not lower the cross-entropy enough is halved. Source: Lin, Lin & Weng, A note
on Platt's probabilistic outputs for support vector machines, 2007.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel

SHARP = 1e-12  # of a gradient a row: where maximum likelihood stops
NEWTON_STEPS = 100  # most steps of maximum likelihood; some ten are usual
LEAST_GAIN = 1e-4  # of what the slope promises: a Newton step that gains less is halved (Armijo's rule)
LEAST_STEP = 1e-10  # of the Newton step: no gain from so short a one is rounding

At = Callable[[Array], tuple[float, Array, Array]]  # value, gradient and Hessian at a theta
Point = tuple[float, float, float, float, float, float]  # the value, two entries of the gradient, three of the Hessian


@compile_kernel("UniTuple(float64, 6)(float64[::1], float64[::1], float64[::1], float64, float64)")
def cross_entropy(s: Array, target: Array, share: Array, slope: float, shift: float) -> Point:
    """Return the mean cross-entropy of targets (n,) and expit(slope s + shift), its gradient and its Hessian."""
    value = 0.0
    tilt = 0.0
    lift = 0.0
    tilted = 0.0
    across = 0.0
    curved = 0.0
    for i in range(s.size):
        z = slope * s[i] + shift
        e = np.exp(-abs(z))
        q = 1 / (1 + e) if z > 0 else e / (1 + e)
        value += share[i] * (max(z, 0.0) + np.log1p(e) - target[i] * z)
        off = share[i] * (q - target[i])
        bend = share[i] * q * (1 - q)
        tilt += off * s[i]
        lift += off
        tilted += bend * s[i] * s[i]
        across += bend * s[i]
        curved += bend
    return value, tilt, lift, tilted, across, curved


@compile_kernel("UniTuple(float64, 2)(float64[::1], float64[::1], float64[::1])")
def logistic_curve(s: Array, target: Array, share: Array) -> tuple[float, float]:
    """Return slope and shift that minimise the mean cross-entropy of targets (n,) and expit(slope s + shift).

    ``share`` (n,) are row weights that sum to 1. From numpy this takes ten times as long for a hundred rows: calls.
    """
    slope = 0.0
    shift = 0.0
    value, tilt, lift, tilted, across, curved = cross_entropy(s, target, share, slope, shift)
    for _ in range(NEWTON_STEPS):
        if max(abs(tilt), abs(lift)) <= SHARP:
            break
        ridge = SHARP * (1 + tilted + curved)
        determinant = (tilted + ridge) * (curved + ridge) - across * across
        turn = (across * lift - (curved + ridge) * tilt) / determinant
        rise = (across * tilt - (tilted + ridge) * lift) / determinant
        promised = LEAST_GAIN * (tilt * turn + lift * rise)
        size = 1.0
        reached = cross_entropy(s, target, share, slope + turn, shift + rise)
        while reached[0] > value + size * promised and size > LEAST_STEP:
            size /= 2
            reached = cross_entropy(s, target, share, slope + size * turn, shift + size * rise)
        if reached[0] >= value:  # rounding decides
            break
        slope += size * turn
        shift += size * rise
        value, tilt, lift, tilted, across, curved = reached
    return slope, shift


def softmax_curves(scores: Array, targets: Array, share: Array) -> tuple[float, Array]:
    """Return a slope, and a shift a class (C,), that minimise the mean cross-entropy of softmax(slope scores + shifts).

    ``targets`` (n, C) have rows of sum 1, ``share`` (n,) sums to 1, and the first shift is 0.
    """
    found = _newton(partial(_softmax, scores, targets, share[:, None]), np.zeros(scores.shape[1]))
    return float(found[0]), np.append(0.0, found[1:])


def _newton(at: At, start: Array) -> Array:
    """Return the minimum of a convex function."""
    theta = start
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
    return theta


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
