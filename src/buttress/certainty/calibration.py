"""From scores of rows that the fit did not see to probabilities: logistic calibration, of one score, of pairs, of many.

Two classes: p = 1 / (1 + exp(-(slope s + shift))), by maximum likelihood with Platt's targets, which are a little short
of 0 and 1, so that separable rows give no certainty (Platt, Probabilities for SV machines, 2000). One score a class:
p = softmax(slope s + shift). One score a pair: the logistic curve of each pair, coupled by the rule of Wu, Lin & Weng
(Probability estimates for multi-class classification by pairwise coupling, JMLR 5, 2004, their second method).

Maximum likelihood is by Newton's method; a step that does not lower the cross-entropy enough is halved (Lin, Lin &
Weng, A note on Platt's probabilistic outputs for support vector machines, 2007).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, logit, softmax

from buttress._checks import Array
from buttress._state import Attribute, State
from buttress._types import Rows
from buttress.expansion import pairs_of

LEAST_SLOPE = 1e-6  # in deviations of the score: scores that point the wrong way, as of noise, say next to nothing
LEAD = 1e-9  # by how much the predicted class leads the others where calibration alone would put it behind
EDGE = 1e-7  # probabilities of pairs are kept this far from 0 and 1 before they are coupled
UNSEEN = 0.5  # rows of each class that might have been seen anywhere: Jeffreys' rule
SHARP = 1e-12  # of a gradient a row: where maximum likelihood stops
At = Callable[[Array], tuple[float, Array, Array]]  # value, gradient and Hessian at a theta


@dataclass
class HeldOut:
    """Scores (n, k) of training rows under fits without them, NaN where a row has no part; class numbers and weights.

    Where labels may be wrong ``true`` (n, n_classes) holds the probability of each class given the label. ``row`` (n,)
    are the numbers of the rows among those ``given`` to fit, None where that is not known.
    """

    _state = State(
        Attribute("scores", "real", "n_rows, n_scores"),
        Attribute("codes", "index", "n_rows", below="n_classes"),
        Attribute("weight", "nonnegative", "n_rows"),
        Attribute("n_classes", "count", length="n_classes"),
        Attribute("pairs", "bool"),
        Attribute("true", "share", "n_rows, n_classes or none"),
        Attribute("row", "index", "n_rows or none", below="n_given"),
        Attribute("given", "count", "one or none", length="n_given"))

    scores: Array
    codes: Rows
    weight: Array
    n_classes: int
    pairs: bool = False  # each score is of a pair of classes
    true: Array | None = None
    row: Rows | None = None
    given: int | None = None


@dataclass
class Calibration:
    """Slopes and shifts (k,) of the scores, ``pairs`` where each is of a pair of classes."""

    _state = State(
        Attribute("slope", "finite", "n_scores"),
        Attribute("shift", "finite", "n_scores"),
        Attribute("n_classes", "count", length="n_classes"),
        Attribute("pairs", "bool"),
        Attribute("rows", "nonnegative"))

    slope: Array
    shift: Array
    n_classes: int
    pairs: bool
    rows: float  # sum of the weights: no probability is nearer to 0 than a half in so many

    @property
    def least(self) -> float:
        """The least probability of a class."""
        return UNSEEN / (self.rows + UNSEEN * self.n_classes)

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
        return leading(self.least + (1 - self.least * self.n_classes) * p, winners)

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

    def own_leads(self, held: HeldOut) -> tuple[Array, Array]:
        """Return the leads of the right classes of rows left out, and their weights, of rows that have one."""
        used = held.weight > 0
        leads = self.leads(held.scores)[np.arange(len(held.codes)), held.codes]
        return leads[used], held.weight[used]


def calibrate(held: HeldOut) -> Calibration:
    """Return the calibration of scores of left-out rows."""
    C = held.n_classes
    used = held.weight > 0
    scores = held.scores[used]
    codes = held.codes[used]
    weight = held.weight[used]
    weight = weight * min(1.0, 1e14 / weight.sum())  # half a row of more is no part of 1 in float64
    rows = float(weight.sum())
    true = None if held.true is None else held.true[used]
    in_pairs = held.pairs and C > 2
    if in_pairs:
        curves = []
        for column, (i, j) in enumerate(pairs_of(C)):
            here = (codes == i) | (codes == j)
            curves.append(_one_score(scores[here, column], (codes[here] == i).astype(np.intp), weight[here]))
        slopes, shifts = np.array(curves).T
    elif C == 2:
        slopes, shifts = np.array([_one_score(scores[:, 0], codes, weight, true)]).T
    else:
        slopes, shifts = _score_a_class(scores, codes, weight, true)
    return Calibration(slopes, shifts, C, in_pairs, rows)


def _totals(codes: Rows, weight: Array, C: int) -> Array:
    return np.bincount(codes, weight, minlength=C).astype(np.float64)


def platts_targets(codes: Rows, totals: Array, true: Array | None = None) -> Array:
    """Return Platt's targets (n, C): (N + 1) / (N + 2) for the row's class of weight N, the rest over the others.

    ``totals`` (C,) are the weights of the classes. With the probabilities of the ``true`` classes (n, C) a target is
    the mean of those of all classes.
    """
    C = len(totals)
    spread = (1 / ((totals + 2) * (C - 1)))[codes][:, None]
    return spread + (1 - C * spread) * (np.eye(C)[codes] if true is None else true)


def _one_score(s: Array, codes: Rows, weight: Array, true: Array | None = None) -> tuple[float, float]:
    """Return slope and shift of the logistic curve of one score, which should be high for rows of class 1."""
    totals = _totals(codes, weight, 2)
    if not totals.all():
        return LEAST_SLOPE, 0.0
    targets = platts_targets(codes, totals, true)
    share = weight / totals.sum()
    unit = _deviation(s, share)
    slope, shifts = softmax_curves(np.column_stack([np.zeros_like(s), s / unit]), targets, share)
    if slope < LEAST_SLOPE:
        return LEAST_SLOPE / unit, float(logit(share @ targets[:, 1]))
    return slope / unit, float(shifts[1])


def _score_a_class(
    scores: Array, codes: Rows, weight: Array, true: Array | None = None
) -> tuple[Array, Array]:
    """Return one slope for all classes, and their shifts, the first of which is 0."""
    C = scores.shape[1]
    targets = platts_targets(codes, _totals(codes, weight, C), true)
    share = weight / weight.sum()
    unit = _deviation((scores - scores.mean(axis=1, keepdims=True)).ravel(), np.repeat(share / C, C))
    slope, shifts = softmax_curves(scores / unit, targets, share)
    return np.full(C, max(slope, LEAST_SLOPE) / unit), shifts


def _deviation(s: Array, share: Array) -> float:
    """Return the standard deviation of s (n,), rows weighing ``share``; 1 where it is 0."""
    apart = s - share @ s
    return float(np.sqrt(share @ (apart * apart))) or 1.0


def coupled(r: Array, C: int) -> Array:
    """Return class probabilities (n, C) from those of the first of each pair against the second, (n, C (C - 1) / 2).

    Minimises sum_{i != j} (r_ji p_i - r_ij p_j)^2 over p that sums to 1.
    """
    n = len(r)
    i, j = np.transpose(pairs_of(C))
    beats = np.zeros((n, C, C))
    beats[:, i, j] = np.clip(r, EDGE, 1 - EDGE)
    beats[:, j, i] = 1 - beats[:, i, j]
    Q = np.ones((n, C + 1, C + 1))
    Q[:, :C, :C] = -beats * beats.transpose(0, 2, 1)
    Q[:, range(C), range(C)] = np.einsum("nji,nji->ni", beats, beats)
    Q[:, C, C] = 0.0
    right = np.zeros((n, C + 1, 1))
    right[:, C] = 1.0
    p = np.maximum(np.linalg.solve(Q, right)[:, :C, 0], 0.0)
    return p / p.sum(axis=1, keepdims=True)


def leading(p: Array, winners: Rows) -> Array:
    """Return the probabilities nearest to p (n, C), in relative entropy, of which that of ``winners`` is the largest.

    Where another class leads, the winner and the classes above it share their probability equally. Their level is the
    largest mean of the winner and the first so many of the others, the largest first.
    """
    behind = np.flatnonzero(p.argmax(axis=1) != winners)
    if len(behind) == 0:
        return p
    rows = np.arange(len(behind))
    winner = winners[behind]
    others = p[behind]
    own = others[rows, winner]
    others[rows, winner] = -1.0  # comes last
    ranked = -np.sort(-others, axis=1)[:, :-1]
    means = (own[:, None] + np.cumsum(ranked, axis=1)) / np.arange(2, p.shape[1] + 1)
    level = means.max(axis=1)
    joined = others >= level[:, None]
    p[behind] = np.where(joined, (level - LEAD / joined.sum(axis=1))[:, None], others)
    p[behind, winner] = level + LEAD
    return p


def softmax_curves(scores: Array, targets: Array, share: Array) -> tuple[float, Array]:
    """Return a slope, and a shift a class (C,), that minimise the mean cross-entropy of softmax(slope scores + shifts).

    ``targets`` (n, C) have rows of sum 1, ``share`` (n,) sums to 1, and the first shift is 0.
    """
    at: At = partial(_softmax, scores, targets, share[:, None])
    theta = np.zeros(scores.shape[1])
    value, gradient, H = at(theta)
    for _ in range(100):  # some ten are usual
        if np.abs(gradient).max() <= SHARP:
            break
        H.flat[:: len(H) + 1] += SHARP * (1 + H.diagonal().sum())
        step = np.linalg.solve(H, -gradient)
        promised = 1e-4 * float(gradient @ step)  # a Newton step that gains less is halved (Armijo's rule)
        size = 1.0
        reached = at(theta + step)
        while reached[0] > value + size * promised and size > 1e-10:  # no gain from so short a step is rounding
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
