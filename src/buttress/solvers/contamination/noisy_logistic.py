"""Multinomial logistic regression on many rows whose labels are wrong with probability rho.

    minimise over W   - sum_i log((1 - rho) q_iy + rho (1 - q_iy) / (C - 1)) + alpha / 2 ||W||^2,   q_i = softmax(W'z_i)

The gradient is that of plain logistic regression with the residual of row i, e_y - q_i, multiplied by
w_i = (1 - rho C / (C - 1)) q_iy / ((1 - rho) q_iy + rho (1 - q_iy) / (C - 1)). So a label that contradicts all others
has little weight (Natarajan et al. 2013; Patrini et al. 2017, forward correction). The curvature is at most that of the
E-step's bound (Dempster et al. 1977), diag(q_i) - q_i q_i' <= s_i I with s_i = 2 max_c q_ic (1 - q_ic) <= 1/2
(Boehning 1992, with the actual s_i in place of its upper bound). So one Gram matrix Z'SZ + alpha I serves all classes.
It scales Nesterov's steps, each of which takes one pass over the rows: scores, and the gradient that follows from them.
The gradient at the first point comes with the Gram matrix where one is made of all rows of the fit.

The M-step, W at a given rho, is :meth:`NoisyLogistic._rounds`; the E-step, rho and the responsibilities at given
scores, is ``label_law.explain_labels``.

Leaving out row i changes its scores by -v_i / (1 - s_i v_i) times its residual, v_i = z_i'(Z'SZ + alpha I)^-1 z_i. This
is about one Newton step of the fit without it. The v_i are estimated by random projections, and computed exactly where
they are large. With up to 20 rows per landmark that step is too short; rows are then scored by a fit to the other four
fifths of the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import softmax

from buttress._checks import TINY, Array
from buttress.features.made import FeaturesOfRows
from buttress.solvers.contamination.label_law import Flips, explain_labels, given_chances, label_margins
from buttress.solvers.contamination.tuning import NOISY_LABELS
from buttress.solvers.ridge.landmarks import directions, sharpen
from buttress.solvers.ridge.leave_one_out import factorised, together
from buttress.solvers.ridge.tuning import LEVERAGES
from buttress.solvers.run import Budget, Step, Steps


@dataclass(frozen=True)
class AtRidge:
    """A fit at one ridge: coefficients (m, C), scores (n, C), the law of the held-out rows, ridge, number of steps."""

    coef: Array
    scores: Array
    flips: Flips
    alpha: float
    n_iter: int


@dataclass(frozen=True)
class LogisticFit(AtRidge):
    """The final fit: ``scores`` leave each row out, and ``flips`` is the law of all rows.

    ``votes`` (ridges tried, n) says whether a row's own label has the highest score at each ridge, ``weight`` (n,)
    are the weights of the labels in the gradient.
    """

    votes: NDArray[np.bool_]
    weight: Array


class NoisyLogistic:
    """Fits to ``features`` of n rows with class numbers codes (n,) below C; rows of one group are left out together.

    ``used`` (n,) is the indicator of the rows in the fit.
    """

    def __init__(self, features: FeaturesOfRows, codes: NDArray[np.intp], C: int,
                 groups: NDArray[np.intp] | None = None, budget: Budget | None = None):
        self.features = features
        self.codes = codes
        self.C = C
        self.groups = groups
        self.budget = budget or Budget()
        self._rows = np.arange(len(codes))
        self.used: Array = np.ones(len(codes))
        self._late = False
        self._scored: tuple[Array, Array] | None = None  # the last coefficients that stayed, and their scores (n, C)

    @property
    def stopped(self) -> bool:
        """Whether to skip the remaining work, after Ctrl-C or because the time is used up."""
        return self._late or self.budget.interrupted

    def fit(self, alphas: Array, rate: float | None) -> LogisticFit:
        """Return the fit with the ridge, of these from large to small, under which held-out labels are most likely.

        A fifth of the rows is held out, equal rows together. Each fit starts from the one before, until the likelihood
        falls. rho is ``rate``, or the most likely one. Then all rows are fitted, and each is scored by a fit without
        it. Ctrl-C leaves the last fit that was whole.
        """
        number = self._rows if self.groups is None else self.groups
        shuffled = np.random.default_rng(0).permutation(number.max() + 1)  # rows may come in a repeating order
        fold = (shuffled % NOISY_LABELS.folds)[number]
        held = fold == 0
        message = "The fit was interrupted. The model holds what was known before."
        path: list[AtRidge] = []
        self.used = np.where(held, 0.0, 1.0)
        self.budget.attempt(lambda: self._follow(path, alphas, rate, held), otherwise=lambda: None,
                            message=message, known=lambda: bool(path))
        best = max(path, key=lambda fit: fit.flips.likelihood)
        steps = sum(fit.n_iter for fit in path)
        last = best
        if not self.budget.interrupted:
            last = self.budget.attempt(lambda: self._of_all_rows(fold, best), otherwise=lambda: best, message=message)
            steps += 0 if last is best else last.n_iter
        flips = explain_labels(last.scores, self.codes, rate)
        votes = np.array([label_margins(fit.scores, self.codes) > 0 for fit in path])
        weight = _belief(self.chances(last.coef), self.codes, last.flips.rate)
        return LogisticFit(last.coef, last.scores, flips, best.alpha, steps, votes, weight)

    def _follow(self, path: list[AtRidge], alphas: Array, rate: float | None, held: NDArray[np.bool_]) -> None:
        """Append to ``path`` the fits to the rows not ``held``, one per ridge, until these rows' likelihood falls."""
        coef = self._start()
        rho = 0.1 if rate is None else rate
        for alpha in alphas:
            coef, steps = self._rounds(coef, float(alpha), rho)
            scores = self._scores(coef)
            flips = explain_labels(scores[held], self.codes[held], rate)
            path.append(AtRidge(coef, scores, flips, float(alpha), steps))
            rho = flips.rate
            if self.stopped or (len(path) > 1 and flips.likelihood <= path[-2].flips.likelihood):
                return

    def _of_all_rows(self, fold: NDArray[np.intp], best: AtRidge) -> AtRidge:
        """Return the fit to all rows; with few rows, the scores are those of fits to the other folds unless stopped."""
        rho = best.flips.rate
        self.used = np.ones(len(fold))
        coef, steps = self._rounds(best.coef, best.alpha, rho)
        scores = None
        if len(fold) <= LEVERAGES.few_rows * len(coef) and not self.stopped:
            scores = self._crossed(fold, coef, best.alpha, rho)
        if scores is None:
            self.used = np.ones(len(fold))
            scores = self.left_out(coef, best.alpha, rho)
        return AtRidge(coef, scores, best.flips, best.alpha, steps)

    def _crossed(self, fold: NDArray[np.intp], whole: Array, alpha: float, rho: float) -> Array | None:
        """Return the scores (n, C) of each row under the fit to the other folds, None if stopped.

        A Gram matrix only scales steps. So all folds have those of the first point and of the fit to all rows, whose
        coefficients are ``whole`` (m, C), less what the rows of the fold add to them.
        """
        weights = [curvature(self.chances(coef)) for coef in (self._start(), whole)]
        wholes = [self.features.weighted_gram(self._rows, s) for s in weights]
        scores: Array = np.empty((len(fold), self.C))
        for k in np.unique(fold):
            out = np.flatnonzero(fold == k)
            self.used = (fold != k).astype(np.float64)
            grams = (gram - self.features.weighted_gram(out, s[out]) for gram, s in zip(wholes, weights, strict=True))
            coef, _ = self._rounds(self._start(), alpha, rho, grams)
            if self.stopped:
                return None
            scores[fold == k] = self._scores(coef)[fold == k]
        return scores

    def _start(self) -> Array:
        return np.zeros((self.features.shape[1], self.C))

    def _rounds(self, coef: Array, alpha: float, rho: float, grams: Iterator[Array] | None = None) -> tuple[Array, int]:
        """M-step: return the coefficients after some steps with each Gram matrix, and the number of steps.

        ``grams`` yields these matrices (m, m), made of the curvature where none are given. Coefficients of zero are not
        a model. From there the time limit counts only after the first step, and Ctrl-C is passed on.
        """
        n_iter = 0
        for _ in range(0 if self.stopped else NOISY_LABELS.rounds):
            left = self.budget.left() if coef.any() else None
            if grams is None:
                q = self.chances(coef)
                s = curvature(q)
                factor, pull = self._factor(s * self.used, alpha, self.residuals(q, rho) / s[:, None])
            else:
                factor, pull = self._factorised(next(grams), alpha), None
            outcome = self.budget.run(self.steps(coef, factor, alpha, rho, pull), tol=1e-5,
                                      max_iter=NOISY_LABELS.steps, max_time=left, inner=False)
            coef = outcome.state
            n_iter += max(outcome.n_iter, 1)
            if outcome.status == "interrupted":
                if not coef.any():
                    raise KeyboardInterrupt
                self.budget.interrupted = True
            self._late = self.budget.spent()
            if self.stopped:
                break
        return coef, n_iter

    def steps(
        self, coef: Array, factor: tuple[Array, bool], alpha: float, rho: float, pull: Array | None = None
    ) -> Steps:
        """Yield coefficients by accelerated steps scaled by the Cholesky factor of Z'SZ + alpha I.

        ``pull`` (m, C) is Z' times the residuals at the first coefficients, None where it is not known. A step that
        raises the objective is undone and its momentum set to 0. If it had none, the step is halved.
        """
        point = good = coef
        first = None if pull is None else (coef, pull)
        known = np.empty(0)
        t = size = 1.0
        last = np.inf
        plain = True
        while True:
            if first is not None and np.array_equal(point, first[0]):
                scores, pull = self._scores(point), first[1]
            else:
                scores, pull = self._pulled(point, rho)
            q = np.asarray(softmax(scores, axis=1))
            value = self.objective(q, point, alpha, rho)
            if value > last:
                size = size / 2 if plain else size
                t = gain = 1.0
                coef = point = good
                pull = known
            else:
                gain = last - value
                good = point
                known = pull
                last = value
                self._scored = good, scores
            yield Step(good, change=gain, objective=last)
            slope = alpha * point - pull
            moved = point - size * cho_solve(factor, slope, check_finite=False)
            plain = t == 1.0
            following = (1 + np.sqrt(1 + 4 * t * t)) / 2
            point = moved + (t - 1) / following * (moved - coef)
            coef = moved
            t = following

    def chances(self, coef: Array) -> Array:
        """Return P(class) of each row, shape (n, C)."""
        return np.asarray(softmax(self._scores(coef), axis=1))

    def _scores(self, coef: Array) -> Array:
        """Return the scores (n, C); no pass is needed where the last step has made them, and at 0."""
        if self._scored is not None and np.array_equal(coef, self._scored[0]):
            return self._scored[1]
        return self.features.times(coef) if coef.any() else np.zeros((len(self.codes), self.C))

    def _pulled(self, coef: Array, rho: float) -> tuple[Array, Array]:
        """Return the scores (n, C), and Z' times the residuals (m, C), in one pass."""
        return self.features.there_and_back(coef, partial(_pull, rho), self.codes, self.used)

    def objective(self, q: Array, coef: Array, alpha: float, rho: float) -> float:
        """Return the objective per row, from the class probabilities q (n, C) at these coefficients."""
        right, slip = given_chances(q, self.codes, rho)
        return float(-np.log(right + slip + TINY) @ self.used / len(q) + alpha / 2 * np.sum(coef * coef) / len(q))

    def residuals(self, q: Array, rho: float) -> Array:
        """Return minus the gradient of the loss by each row's scores, shape (n, C)."""
        return _residuals(q, self.codes, self.used, rho)

    def _factor(self, s: Array, alpha: float, targets: Array | None = None) -> tuple[tuple[Array, bool], Array]:
        """Return the factor of Z'SZ + alpha I, and Z'ST of ``targets`` T (n, C), without columns where none are."""
        sums = self.features.weighted_gram(self._rows, s, targets)
        m = len(sums)
        return self._factorised(sums[:, :m], alpha), sums[:, m:].copy()

    def _factorised(self, gram: Array, alpha: float) -> tuple[Array, bool]:
        """Return the Cholesky factor of a Gram matrix + alpha I, its diagonal raised by the size of rounding errors."""
        A = gram.copy()
        A.flat[:: len(A) + 1] += alpha + self.features.eps * np.diagonal(A).max()
        return factorised(A)

    def left_out(self, coef: Array, alpha: float, rho: float) -> Array:
        """Return the scores (n, C) of each row, left out together with its equal rows, from a fit to all rows.

        Here s_i is the mean eigenvalue of the curvature, w_i sum_c q_ic (1 - q_ic) / (C - 1).
        """
        scores = self._scores(coef)
        q = np.asarray(softmax(scores, axis=1))
        mean = _belief(q, self.codes, rho) * (q * (1 - q)).sum(axis=1) / (self.C - 1)
        s = np.maximum(mean, NOISY_LABELS.least_curvature)
        own, pull = together(self.groups, self.residuals(q, rho) / s[:, None], s)
        (factor, _), _ = self._factor(s, alpha)
        v = np.sum(self.features.times(directions(factor)) ** 2, axis=1)
        sharpen(v, own * v > LEVERAGES.exact_from, factor, self.features.__getitem__)
        return np.asarray(scores - (v / np.maximum(1 - own * v, 0.05))[:, None] * pull)


def _pull(rho: float, scores: Array, codes: NDArray[np.intp], used: Array) -> Array:
    """Return the residuals (n, C) of rows of these scores (n, C); a function, so that other processes can have it."""
    return _residuals(np.asarray(softmax(scores, axis=1)), codes, used, rho)


def _residuals(q: Array, codes: NDArray[np.intp], used: Array, rho: float) -> Array:
    weight = used * _belief(q, codes, rho)
    out = -weight[:, None] * q
    out[np.arange(len(q)), codes] += weight
    return out


def _belief(q: Array, codes: NDArray[np.intp], rho: float) -> Array:
    """Return w (n,), 0 to 1: the weight of the label of each row."""
    right, slip = given_chances(q, codes, rho)
    given = q[np.arange(len(q)), codes]
    return np.asarray((right - rho / (q.shape[1] - 1) * given) / (right + slip + TINY))


def curvature(q: Array) -> Array:
    """Return 2 max_c q_c (1 - q_c) >= 1e-6 of each row of q (n, C), a bound on the eigenvalues of diag(q) - q q'."""
    return np.maximum(2 * (q * (1 - q)).max(axis=1), NOISY_LABELS.least_curvature)
