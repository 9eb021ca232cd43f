"""From scores of rows that the fit did not see to probabilities: logistic calibration, of one score, of pairs, of many.

Two classes: p = 1 / (1 + exp(-(slope s + shift))), by maximum likelihood with Platt's targets, which are a little short
of 0 and 1, so that separable rows give no certainty (Platt, Probabilities for SV machines, 2000). One score a class:
p = softmax(slope s + shift). One score a pair: the logistic curve of each pair, coupled by the rule of Wu, Lin & Weng
(Probability estimates for multi-class classification by pairwise coupling, JMLR 5, 2004, their second method).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, softmax

from buttress._checks import Array
from buttress._types import Rows

SHARP = 1e-12  # of a gradient a row: where maximum likelihood stops
LEAST_SLOPE = 1e-6  # in deviations of the score: scores that point the wrong way, as of noise, say next to nothing
LEAD = 1e-9  # by how much the predicted class leads the others where calibration alone would put it behind
EDGE = 1e-7  # probabilities of pairs are kept this far from 0 and 1 before they are coupled
UNSEEN = 0.5  # rows of each class that might have been seen anywhere: Jeffreys' rule
NEWTON_STEPS = 100  # most steps of maximum likelihood; some ten are usual
LEAST_GAIN = 1e-4  # of what the slope promises: a Newton step that gains less is halved (Armijo's rule)
LEAST_STEP = 1e-10  # of the Newton step: no gain from so short a one is rounding

At = Callable[[Array], tuple[float, Array, Array]]  # value, gradient and Hessian at a theta


@dataclass
class HeldOut:
    """Scores (n, k) of training rows under fits without them, NaN where a row has no part; class numbers and weights.

    Where labels may be wrong ``true`` (n, n_classes) holds the probability of each class given the label.
    """

    scores: Array
    codes: Rows
    weight: Array
    n_classes: int
    pairs: bool = False  # each score is of a pair of classes
    true: Array | None = None


@dataclass
class Calibration:
    """Slopes and shifts (k,) of the scores, ``pairs`` where each is of a pair of classes."""

    slope: Array
    shift: Array
    n_classes: int
    pairs: bool
    rows: float  # sum of the weights: no probability is nearer to 0 than a half in so many

    def logits(self, scores: Array) -> Array:
        """Return the calibrated scores (n, k), which are log odds for one score or pairs."""
        return scores * self.slope + self.shift

    def probabilities(self, scores: Array, winners: Rows) -> Array:
        """Return the probability of each class, (n, n_classes); that of ``winners`` (n,) is the largest."""
        z = self.logits(scores)
        if self.n_classes == 2:
            p = np.column_stack([expit(-z[:, 0]), expit(z[:, 0])])
        else:
            p = coupled(expit(z), self.n_classes) if self.pairs else softmax(z, axis=1)
        least = UNSEEN / (self.rows + UNSEEN * self.n_classes)
        return leading(least + (1 - least * self.n_classes) * p, winners)

    def leads(self, scores: Array) -> Array:
        """Return by how much each class leads its strongest rival in log odds, (n, n_classes)."""
        z = self.logits(scores)
        if self.n_classes == 2:
            return np.column_stack([-z[:, 0], z[:, 0]])
        leads = np.full((len(z), self.n_classes), np.inf)
        if self.pairs:
            for column, (i, j) in enumerate(pairs_of(self.n_classes)):
                leads[:, i] = np.fmin(leads[:, i], z[:, column])
                leads[:, j] = np.fmin(leads[:, j], -z[:, column])
            return leads
        for c in range(self.n_classes):
            leads[:, c] = z[:, c] - np.delete(z, c, axis=1).max(axis=1)
        return leads


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in the order of their scores."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def calibrate(held: HeldOut) -> Calibration:
    """Return the calibration of scores of left-out rows."""
    C = held.n_classes
    used = held.weight > 0
    scores = held.scores[used]
    codes = held.codes[used]
    weight = held.weight[used]
    rows = float(weight.sum())
    true = None if held.true is None else held.true[used]
    if C == 2:
        slope, shift = _one_score(scores[:, 0], codes, weight, true)
        return Calibration(np.array([slope]), np.array([shift]), C, False, rows)
    if not held.pairs:
        slopes, shifts = _score_a_class(scores, codes, weight, true)
        return Calibration(slopes, shifts, C, False, rows)
    curves = []
    for column, (i, j) in enumerate(pairs_of(C)):
        here = (codes == i) | (codes == j)
        curves.append(_one_score(scores[here, column], (codes[here] == i).astype(np.intp), weight[here]))
    slopes, shifts = np.array(curves).T
    return Calibration(slopes, shifts, C, True, rows)


def platts_targets(codes: Rows, weight: Array, C: int, true: Array | None = None) -> Array:
    """Return Platt's targets (n, C): (N + 1) / (N + 2) for the row's class of weight N, the rest over the others.

    With the probabilities of the ``true`` classes (n, C) a target is the mean of those of all classes.
    """
    n = len(codes)
    short = 1 / (np.bincount(codes, weight, minlength=C)[codes] + 2)
    if true is None:
        true = np.zeros((n, C))
        true[np.arange(n), codes] = 1.0
    spread = (short / (C - 1))[:, None]
    return spread + (1 - C * spread) * true


def _one_score(s: Array, codes: Rows, weight: Array, true: Array | None = None) -> tuple[float, float]:
    """Return slope and shift of the logistic curve of one score, which should be high for rows of class 1."""
    if not np.bincount(codes, weight, minlength=2).all():
        return LEAST_SLOPE, 0.0
    targets = platts_targets(codes, weight, 2, true)
    unit = _deviation(s, weight)
    scores = np.column_stack([np.zeros(len(s)), s / unit])
    slope, shift = _likeliest(scores, targets, weight)
    if slope < LEAST_SLOPE:
        slope = LEAST_SLOPE
        shift = _likeliest(np.zeros_like(scores), targets, weight)[1]
    return slope / unit, shift


def _score_a_class(
    scores: Array, codes: Rows, weight: Array, true: Array | None = None
) -> tuple[Array, Array]:
    """Return one slope for all classes, and their shifts, the first of which is 0."""
    C = scores.shape[1]
    targets = platts_targets(codes, weight, C, true)
    unit = _deviation((scores - scores.mean(axis=1, keepdims=True)).ravel(), np.repeat(weight, C))
    found = _likeliest(scores / unit, targets, weight)
    slope = max(found[0], LEAST_SLOPE)
    return np.full(C, slope / unit), np.append(0.0, found[1:])


def _deviation(s: Array, weight: Array) -> float:
    mean = np.average(s, weights=weight)
    return float(np.sqrt(np.average((s - mean) ** 2, weights=weight))) or 1.0


def _likeliest(scores: Array, targets: Array, weight: Array) -> Array:
    """Return theta (C,), a slope and the shifts of all classes but the first, that make targets (n, C) likeliest."""
    return _softmax_fit(scores, targets, (weight / weight.sum())[:, None], np.zeros(scores.shape[1]))


def _logits(scores: Array, theta: Array) -> Array:
    return theta[0] * scores + np.append(0.0, theta[1:])


def _softmax_fit(scores: Array, targets: Array, share: Array, start: Array) -> Array:
    """Return the minimum theta of the mean cross-entropy of targets (n, C) and softmax(slope scores + shifts)."""
    if len(start) == 2:
        return _newton(partial(_logistic, scores[:, 1] - scores[:, 0], targets[:, 1], share[:, 0]), start)
    return _newton(partial(_softmax, scores, targets, share), start)


def _newton(at: At, start: Array) -> Array:
    """Return the minimum of a convex function; a step that does not lower it enough is halved.

    Source: Lin, Lin & Weng, A note on Platt's probabilistic outputs for support vector machines, 2007.
    """
    theta = start
    value, gradient, H = at(theta)
    for _ in range(NEWTON_STEPS):
        if np.abs(gradient).max() <= SHARP:
            break
        H.flat[:: len(H) + 1] += SHARP * (1 + H.diagonal().sum())
        step = _solved(H, -gradient)
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


def _solved(H: Array, right: Array) -> Array:
    """Return the solution of a system, by Cramer's rule for two unknowns: most of a small step is calls."""
    if len(H) != 2:
        return np.asarray(np.linalg.solve(H, right))
    (a, b), (c, d) = H.tolist()
    e, f = right.tolist()
    determinant = a * d - b * c
    return np.array([e * d - b * f, a * f - e * c]) / determinant


def _logistic(s: Array, target: Array, share: Array, theta: Array) -> tuple[float, Array, Array]:
    """Return the mean cross-entropy of targets (n,) and expit(slope s + shift), its gradient and its Hessian."""
    z = theta[0] * s + theta[1]
    q = expit(z)
    off = share * (q - target)
    curved = share * q * (1 - q)
    tilted = curved * s
    across = tilted.sum()
    value = float(share @ (np.logaddexp(0, z) - target * z))
    return value, np.array([off @ s, off.sum()]), np.array([[tilted @ s, across], [across, curved.sum()]])


def _softmax(scores: Array, targets: Array, share: Array, theta: Array) -> tuple[float, Array, Array]:
    """Return the mean cross-entropy of targets (n, C), rows of sum 1, and softmax(slope scores + shifts), as above."""
    z = _logits(scores, theta)
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


def coupled(r: Array, C: int) -> Array:
    """Return class probabilities (n, C) from those of the first of each pair against the second, (n, C (C - 1) / 2).

    Minimises sum_{i != j} (r_ji p_i - r_ij p_j)^2 over p that sums to 1.
    """
    n = len(r)
    r = np.clip(r, EDGE, 1 - EDGE)
    Q = np.zeros((n, C + 1, C + 1))
    for column, (i, j) in enumerate(pairs_of(C)):
        one = r[:, column]
        other = 1 - one
        Q[:, i, i] += other**2
        Q[:, j, j] += one**2
        Q[:, i, j] -= one * other
        Q[:, j, i] -= one * other
    Q[:, :C, C] = 1.0
    Q[:, C, :C] = 1.0
    right = np.zeros((n, C + 1, 1))
    right[:, C] = 1.0
    p = np.maximum(np.linalg.solve(Q, right)[:, :C, 0], 0.0)
    return p / p.sum(axis=1, keepdims=True)


def leading(p: Array, winners: Rows) -> Array:
    """Return the probabilities nearest to p (n, C), in relative entropy, of which that of ``winners`` is the largest.

    Where another class leads, the winner and the classes above it share their probability equally.
    """
    behind = np.flatnonzero(p.argmax(axis=1) != winners)
    for row in behind:
        winner = winners[row]
        order = np.argsort(-p[row], kind="stable")
        order = order[order != winner]
        pool = [winner]
        for other in order:
            if p[row, other] <= p[row, pool].mean():
                break
            pool.append(other)
        level = p[row, pool].mean()
        p[row, pool] = level - LEAD / max(len(pool) - 1, 1)
        p[row, winner] = level + LEAD
    return p
