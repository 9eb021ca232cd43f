"""Multinomial logistic regression on many rows whose labels are wrong with probability rho.

    minimise over W   - sum_i log((1 - rho) q_iy + rho (1 - q_iy) / (C - 1)) + alpha / 2 ||W||^2,   q_i = softmax(W'z_i)

The gradient is that of plain logistic regression with the residual of row i, e_y - q_i, times
w_i = (1 - rho C / (C - 1)) q_iy / ((1 - rho) q_iy + rho (1 - q_iy) / (C - 1)): a label that all others speak against is
hardly heard (Natarajan et al. 2013; Patrini et al. 2017, forward correction). The curvature is at most that of the
expectation step (Dempster et al. 1977), diag(q_i) - q_i q_i' <= s_i I with s_i = 2 max_c q_ic (1 - q_ic) <= 1/2
(Boehning 1992, with s_i as it is and not at its worst). So one Gram matrix Z'SZ + alpha I, for all classes, scales
Nesterov's steps: two passes over the rows each.

Left out, row i is missed by v_i / (1 - s_i v_i) times its residual, v_i = z_i'(Z'SZ + alpha I)^-1 z_i: about one Newton
step of the fit without it. The v_i are the lengths of random projections, and exact where they are large. With up to
20 rows a landmark that step is too short, and rows are scored by the fit to the other four fifths of them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import softmax

from buttress._checks import Array, InterruptedWarning, warn_user
from buttress.solvers.contamination.label_law import Flips, explain_labels, label_margins
from buttress.solvers.ridge.landmarks import FEW, STRONG, directions, sharpen
from buttress.solvers.ridge.leave_one_out import factorised, together, weighted_gram
from buttress.solvers.run import Budget, Step, Steps

FIRST_RATE = 0.1
STEPS = 12  # between two Gram matrices
ROUNDS = 2  # of them at each ridge
FOLDS = 5
TOL = 1e-5  # of the objective per row


@dataclass(frozen=True)
class Tried:
    """Coefficients (m, C), scores (n, C), the law of the rows held out, the ridge and the number of steps."""

    coef: Array
    scores: Array
    flips: Flips
    alpha: float
    n_iter: int


@dataclass(frozen=True)
class Logistic(Tried):
    """The same with the scores of rows left out and the law of all, and whose labels win under each ridge tried."""

    votes: NDArray[np.bool_]


class NoisyLogistic:
    """The fit to ``features`` of n rows (shape, ``times``, ``transposed_times``, rows by number), codes (n,) below C.

    ``used`` (n,) is the indicator of the rows fitted to.
    """

    def __init__(self, features: Any, codes: NDArray[np.intp], C: int, groups: NDArray[np.intp] | None = None,
                 budget: Budget | None = None):
        self.features, self.codes, self.C, self.groups = features, codes, C, groups
        self.budget = budget or Budget(name="The fit to labels")
        self._rows = np.arange(len(codes))
        self.used: Array = np.ones(len(codes))
        self.stopped = False  # by Ctrl-C or for lack of time; what is left to do is then left

    def fit(self, alphas: Array, rate: float | None) -> Logistic:
        """Return the fit with the ridge, of these from large to small, under which held-out labels are likeliest.

        A fifth of the rows is held out, equal rows together; each fit starts from the one before, until the likelihood
        falls. There rho is ``rate``, or the likeliest. Then all rows are fitted, and scored by fits without them.
        """
        number = self._rows if self.groups is None else self.groups
        fold = (np.random.default_rng(0).permutation(number.max() + 1) % FOLDS)[number]  # rows may come in turns
        path = self._path(alphas, rate, fold == 0)
        best = max(path, key=lambda fit: fit.flips.likelihood)
        alpha, rho = best.alpha, best.flips.rate
        self.used = np.ones(len(fold))
        coef, steps = self._rounds(best.coef, alpha, rho)
        scores = self._judging(fold, coef, alpha, rho)
        flips = explain_labels(scores, self.codes, rate)
        votes = np.array([label_margins(fit.scores, self.codes) > 0 for fit in path])
        return Logistic(coef, scores, flips, alpha, steps + sum(fit.n_iter for fit in path), votes)

    def _path(self, alphas: Array, rate: float | None, held: NDArray[np.bool_]) -> list[Tried]:
        """Return the fits to the rows not held, until the likelihood of those held falls."""
        self.used = np.where(held, 0.0, 1.0)
        coef, rho = self._start(), FIRST_RATE if rate is None else rate
        path: list[Tried] = []
        for alpha in alphas:
            try:
                coef, steps = self._rounds(coef, alpha, rho)
                scores = self.features.times(coef)
                flips = explain_labels(scores[held], self.codes[held], rate)
            except KeyboardInterrupt:
                self._interrupted(bool(path))
                break
            path.append(Tried(coef, scores, flips, float(alpha), steps))
            rho = flips.rate
            if self.stopped or (len(path) > 1 and flips.likelihood <= path[-2].flips.likelihood):
                break
        return path

    def _judging(self, fold: NDArray[np.intp], coef: Array, alpha: float, rho: float) -> Array:
        """Return the scores (n, C) to judge rows by: of fits to the other folds where rows are few, unless stopped."""
        if len(fold) <= FEW * len(coef) and not self.stopped:
            try:
                scores = self._crossed(fold, alpha, rho)
            except KeyboardInterrupt:
                self._interrupted(True)
            if not self.stopped:
                return scores
        self.used = np.ones(len(fold))
        try:
            return self.left_out(coef, alpha, rho)
        except KeyboardInterrupt:
            warn_user(f"{self.budget.name} was interrupted. Rows are judged by the fit that they have a part in.",
                      InterruptedWarning)
            return np.asarray(self.features.times(coef))

    def _crossed(self, fold: NDArray[np.intp], alpha: float, rho: float) -> Array:
        """Return the scores (n, C) of each row under the fit to the other folds, unless stopped."""
        scores: Array = np.empty((len(fold), self.C))
        for k in np.unique(fold):
            self.used = (fold != k).astype(np.float64)
            coef, _ = self._rounds(self._start(), alpha, rho)
            if self.stopped:
                break
            scores[fold == k] = self.features.times(coef)[fold == k]
        return scores

    def _start(self) -> Array:
        return np.zeros((self.features.shape[1], self.C))

    def _rounds(self, coef: Array, alpha: float, rho: float) -> tuple[Array, int]:
        """Return the coefficients after up to ``STEPS`` steps with each Gram matrix, and how many they were.

        Zero is no model: from there the time is looked at after the first of them only, and Ctrl-C is passed on.
        """
        n_iter, seen = 0, [coef]
        for _ in range(0 if self.stopped else ROUNDS):
            left = self.budget.left() if coef.any() else None
            try:
                factor = self._factor(curvature(self.chances(coef)) * self.used, alpha)
                outcome = self.budget.run(self.steps(coef, factor, alpha, rho), tol=TOL, max_iter=STEPS, max_time=left,
                                          callback=lambda step: seen.append(step.state))
            except KeyboardInterrupt:
                self._interrupted(bool(seen[-1].any()))
                return seen[-1], n_iter
            coef, n_iter = outcome.state, n_iter + max(outcome.n_iter, 1)
            self.stopped = self.budget.spent()
            if self.stopped:
                break
        return coef, n_iter

    def _interrupted(self, known: bool) -> None:
        """Leave what is left to do, if anything is known."""
        if not known:
            raise KeyboardInterrupt
        warn_user(f"{self.budget.name} was interrupted; the model holds what was known before.", InterruptedWarning)
        self.stopped = True

    def steps(self, coef: Array, factor: Any, alpha: float, rho: float) -> Steps:
        """Yield coefficients by accelerated steps scaled by a factor of Z'SZ + alpha I.

        A step that raises the objective is taken back, its momentum dropped, and if it had none, halved.
        """
        point, t, size, last, plain = coef, 1.0, 1.0, np.inf, True
        good, known = point, np.empty(0)
        while True:
            q = self.chances(point)
            value = self.objective(q, point, alpha, rho)
            if value > last:
                size, t, coef, point, q, gain = (size / 2 if plain else size), 1.0, good, good, known, 1.0
            else:
                good, known, gain, last = point, q, last - value, value
            yield Step(good, change=gain, objective=last)
            slope = alpha * point - self.features.transposed_times(self.residuals(q, rho))
            moved = point - size * cho_solve(factor, slope, check_finite=False)
            plain, following = t == 1.0, (1 + np.sqrt(1 + 4 * t * t)) / 2
            coef, point, t = moved, moved + (t - 1) / following * (moved - coef), following

    def chances(self, coef: Array) -> Array:
        """Return P(class) of each row, shape (n, C)."""
        return np.asarray(softmax(self.features.times(coef), axis=1))

    def objective(self, q: Array, coef: Array, alpha: float, rho: float) -> float:
        """Return the objective per row, from the chances (n, C) at these coefficients."""
        right, slip = self._given(q, rho)
        return float(-np.log(right + slip + 1e-300) @ self.used / len(q) + alpha / 2 * np.sum(coef * coef) / len(q))

    def residuals(self, q: Array, rho: float) -> Array:
        """Return minus the gradient of the loss by each row's scores, shape (n, C)."""
        weight = self.used * self._heard(q, rho)
        out = -weight[:, None] * q
        out[self._rows, self.codes] += weight
        return out

    def _heard(self, q: Array, rho: float) -> Array:
        """Return w (n,), 0 to 1: how far the label of a row is believed."""
        right, slip = self._given(q, rho)
        return np.asarray((right - rho / (self.C - 1) * q[self._rows, self.codes]) / (right + slip + 1e-300))

    def _given(self, q: Array, rho: float) -> tuple[Array, Array]:
        given = q[self._rows, self.codes]
        return (1 - rho) * given, rho / (self.C - 1) * (1 - given)

    def _factor(self, s: Array, alpha: float) -> Any:
        """Return the Cholesky factor of Z'SZ + alpha I, lifted by what rounding may have taken off."""
        A = weighted_gram(self.features.__getitem__, self._rows, s, self.features.shape[1])
        A.flat[:: len(A) + 1] += alpha + self.features.eps * np.diagonal(A).max()
        return factorised(A)

    def left_out(self, coef: Array, alpha: float, rho: float) -> Array:
        """Return the scores (n, C) of each row left out with its equals, from a fit to all rows.

        s_i is here the mean eigenvalue of the curvature, w_i sum_c q_ic (1 - q_ic) / (C - 1).
        """
        scores = self.features.times(coef)
        q = np.asarray(softmax(scores, axis=1))
        s = np.maximum(self._heard(q, rho) * (q * (1 - q)).sum(axis=1) / (self.C - 1), 1e-6)
        own, pull = together(self.groups, self.residuals(q, rho) / s[:, None], s)
        v = self._variances(self._factor(s, alpha)[0], own)
        return np.asarray(scores - (v / np.maximum(1 - own * v, 0.05))[:, None] * pull)

    def _variances(self, factor: Array, own: Array) -> Array:
        v = np.sum(self.features.times(directions(factor)) ** 2, axis=1)
        sharpen(v, own * v > STRONG, factor, self.features.__getitem__)
        return v


def curvature(q: Array) -> Array:
    """Return 2 max_c q_c (1 - q_c) >= 1e-6 of each row of q (n, C), a bound on the eigenvalues of diag(q) - q q'."""
    return np.maximum(2 * (q * (1 - q)).max(axis=1), 1e-6)
