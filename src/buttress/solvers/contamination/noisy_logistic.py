"""Multinomial logistic regression on many rows, of which one of true class k is given label c with probability R_kc.

    minimise over W   - sum_i log sum_k q_ik R_{k y_i} + alpha / 2 ||W||^2,   q_i = softmax(W'z_i)

(Patrini et al. 2017, forward correction.) The gradient is that of plain logistic regression with P(true class | label)
in place of the label: where labels are wrong in all directions alike, with probability rho, that is its residual
e_y - q_i times w_i = (1 - rho C / (C - 1)) q_iy / ((1 - rho) q_iy + rho (1 - q_iy) / (C - 1)). So a label that
contradicts all others has little weight (Natarajan et al. 2013). The curvature is at most that of the E-step's bound
(Dempster et al. 1977), diag(q_i) - q_i q_i' <= s_i I with s_i = 2 max_c q_ic (1 - q_ic) <= 1/2 (Boehning 1992, with
the actual s_i in place of its upper bound). So one Gram matrix Z'SZ + alpha I serves all classes.
It scales Nesterov's steps, each of which takes one pass over the rows: scores, and the gradient that follows from them.
It is made at the first point and where the first steps from there end. That of all rows bounds the curvature of fits to
some of them too. So F such fits, to the other folds of each of F, take each step together, in one pass.

The M-step, W at given rates R, is :meth:`NoisyLogistic._rounds`; the E-step, the rates at given scores, is whatever law
of the labels it is given. Coefficients of F fits have shape (m, F C), scores (n, F C), classes side by side.

Leaving out row i changes its scores by -v_i / (1 - s_i v_i) times its residual, v_i = z_i'(Z'SZ + alpha I)^-1 z_i. This
is about one Newton step of the fit without it. The v_i are estimated by random projections, and computed exactly where
they are large. With up to 20 rows per landmark that step is too short; rows are then scored by a fit to the other four
fifths of the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import softmax

from buttress._checks import TINY, Array
from buttress.features.stored import FeaturesOfRows
from buttress.solvers.contamination.confusion_law import over_classes
from buttress.solvers.contamination.label_law import label_margins
from buttress.solvers.contamination.tuning import NOISY_LABELS
from buttress.solvers.ridge.landmarks import directions, sharpen
from buttress.solvers.ridge.leave_one_out import factorised, together
from buttress.solvers.ridge.tuning import LEVERAGES
from buttress.solvers.run import SharedBudget, Step, Steps

# of scores (k, C) of rows left out, and their labels (k,): rates (C, C) and the log likelihood of the labels per row
RateLaw = Callable[[Array, NDArray[np.intp]], tuple[Array, float]]


@dataclass(frozen=True)
class AtRidge:
    """A fit at one ridge: coefficients (m, C), scores (n, C), ridge and number of steps.

    ``rates`` (C, C) and ``likelihood`` are those of the held-out rows.
    """

    coef: Array
    scores: Array
    rates: Array
    likelihood: float
    alpha: float
    n_iter: int


@dataclass(frozen=True)
class LabelScores:
    """A fit: coefficients, scores (n, C) of each row left out, ridge, and the weights (n,) of the labels given.

    ``bias`` (C,) is what is added to the scores that the coefficients make, where they are ``mixed``. ``n_iter`` is the
    number of fits, or of steps of logistic regression. Of that the weights are those in the gradient, and ``votes``
    (ridges tried, n) say whether a row's own label has the highest score at each ridge.
    """

    coef: Array
    scores: Array
    alpha: float
    weight: Array
    bias: Array | float = 0.0
    mixed: bool = False
    n_iter: int = 1
    votes: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))


class NoisyLogistic:
    """Fits to ``features`` of n rows with class numbers codes (n,) below C; rows of one group are left out together.

    ``used`` (n, F) is the indicator of the rows in each fit.
    """

    def __init__(self, features: FeaturesOfRows, codes: NDArray[np.intp], C: int,
                 groups: NDArray[np.intp] | None = None, budget: SharedBudget | None = None):
        self.features = features
        self.codes = codes
        self.C = C
        self.groups = groups
        self.budget = budget or SharedBudget()
        self.used: Array = np.ones((len(codes), 1))
        self._late = False
        self._known = False  # whether a fit came before, which Ctrl-C leaves
        self.first = self.last = self._gram(curvature(np.full((len(codes), C), 1 / C)))
        self._scored: tuple[Array, Array] | None = None  # the last coefficients that stayed, and their scores (n, C)

    @property
    def stopped(self) -> bool:
        """Whether to skip the remaining work, after Ctrl-C or because the time is used up."""
        return self._late or self.budget.interrupted

    def fit(self, alphas: Array, rates: Array, law: RateLaw) -> LabelScores:
        """Return the fit with the ridge, of these from large to small, under which held-out labels are most likely.

        A fifth of the rows is held out, equal rows together. Each fit starts from the one before, until the likelihood
        falls. It begins with these ``rates``, and goes on with those of the ``law``. Then all rows are fitted, and each
        is scored by a fit without it. Ctrl-C leaves the last fit that was whole.
        """
        number = np.arange(len(self.codes)) if self.groups is None else self.groups
        shuffled = np.random.default_rng(0).permutation(number.max() + 1)  # rows may come in a repeating order
        fold = (shuffled % NOISY_LABELS.folds)[number]
        held = fold == 0
        message = "The fit was interrupted. The model holds what was known before."
        path: list[AtRidge] = []
        self.used = np.where(held, 0.0, 1.0)[:, None]
        self.budget.attempt(lambda: self._follow(path, alphas, rates, law, held), otherwise=lambda: None,
                            message=message, known=lambda: bool(path))
        best = max(path, key=lambda fit: fit.likelihood)
        steps = sum(fit.n_iter for fit in path)
        last = best
        if not self.budget.interrupted:
            last = self.budget.attempt(lambda: self._of_all_rows(fold, best), otherwise=lambda: best, message=message)
            steps += 0 if last is best else last.n_iter
        votes = np.array([label_margins(fit.scores, self.codes) > 0 for fit in path])
        weight = _belief(self.chances(last.coef), self.codes, last.rates)
        self._known = True
        return LabelScores(last.coef, last.scores, best.alpha, weight, n_iter=steps, votes=votes)

    def _follow(
        self, path: list[AtRidge], alphas: Array, rates: Array, law: RateLaw, held: NDArray[np.bool_]
    ) -> None:
        """Append to ``path`` the fits to the rows not ``held``, one per ridge, until these rows' likelihood falls."""
        coef = self._start()
        for alpha in alphas:
            coef, steps = self._rounds(coef, float(alpha), rates)
            scores = self._scores(coef)
            rates, likelihood = law(scores[held], self.codes[held])
            path.append(AtRidge(coef, scores, rates, likelihood, float(alpha), steps))
            if self.stopped or (len(path) > 1 and likelihood <= path[-2].likelihood):
                return

    def _of_all_rows(self, fold: NDArray[np.intp], best: AtRidge) -> AtRidge:
        """Return the fit to all rows; with few rows, scores of fits beside it to the other folds unless stopped."""
        few = len(fold) <= LEVERAGES.few_rows * len(best.coef)
        folds = fold.max() + 1 if few else 0
        self.used = np.column_stack([fold[:, None] != np.arange(folds), np.ones(len(fold))])
        start = np.hstack([np.tile(self._start(), folds), best.coef])
        coef, steps = self._rounds(start, best.alpha, best.rates, [self.first, self.last] if few else ())
        apart = self._of_fits(self._scores(coef))
        self.used, coef = self.used[:, folds:], coef[:, -self.C :]
        scores = (apart[np.arange(len(fold)), fold] if few and not self.stopped
                  else self.left_out(coef, best.alpha, best.rates))
        return replace(best, coef=coef, scores=scores, n_iter=steps)

    def _start(self) -> Array:
        return np.zeros((self.features.shape[1], self.C))

    def _of_fits(self, scores: Array) -> Array:
        """Return scores, or chances, (k, F C) as (k, F, C)."""
        return scores.reshape(len(scores), -1, self.C)

    def _rounds(self, coef: Array, alpha: float, rates: Array, grams: Sequence[Array] = ()) -> tuple[Array, int]:
        """M-step: return the coefficients after two rounds of steps, and the number of steps.

        Each has one of ``grams``, if any, else the last Gram matrix. Coefficients of zero are not a model. From there
        the time limit counts only after the first step, and Ctrl-C is passed on, as in a second fit.
        """
        n_iter = 0
        for k in range(0 if self.stopped else 2):  # with one alone `tests/test_noisy_logistic.py` fails
            left = self.budget.left() if coef.any() else None
            if k and not grams and self.last is self.first:
                self.last = self._gram(curvature(self.chances(coef)))
            factor = self._factor(grams[k] if grams else self.last, alpha)
            outcome = self.budget.run(self.steps(coef, factor, alpha, rates), tol=1e-5,
                                      max_iter=NOISY_LABELS.steps, max_time=left, inner=self._known)
            coef = outcome.state
            n_iter += max(outcome.n_iter, 1)
            if outcome.status == "interrupted":
                if not coef.any():
                    raise KeyboardInterrupt
                self.budget.interrupted = True
            self._late = self.budget.stop_if_spent()
            if self.stopped:
                break
        return coef, n_iter

    def steps(self, coef: Array, factor: tuple[Array, bool], alpha: float, rates: Array) -> Steps:
        """Yield coefficients by accelerated steps scaled by the Cholesky factor of Z'SZ + alpha I.

        A step that raises the objective of a fit is undone there and its momentum set to 0. If it had none, the step
        is halved.
        """
        point = good = coef
        known = np.empty_like(coef)
        t = size = np.ones(self.used.shape[1])
        plain = t == 1.0
        last = np.full(len(t), np.inf)
        while True:
            scores, pull = self._pulled(point, rates)
            value = self.objective(over_classes(softmax, self._of_fits(scores)), point, alpha, rates)
            raised = value > last
            gain = np.where(raised, 1.0, last - value)
            size = np.where(raised & plain, size / 2, size)
            t = np.where(raised, 1.0, t)
            last = np.minimum(value, last)
            undone = self._of_columns(raised)
            good = np.where(undone, good, point)
            known = np.where(undone, known, pull)
            coef = np.where(undone, good, coef)
            if not raised.any():
                self._scored = good, scores
            yield Step(good, change=float(gain.max()), objective=float(last.sum()))
            slope = alpha * good - known
            moved = good - self._of_columns(size) * cho_solve(factor, slope, check_finite=False)
            plain = t == 1.0
            following = (1 + np.sqrt(1 + 4 * t * t)) / 2
            point = moved + self._of_columns((t - 1) / following) * (moved - coef)
            coef = moved
            t = following

    def _of_columns(self, each: NDArray[Any]) -> NDArray[Any]:
        """Return what is known of each fit, (F,), of each column of its coefficients, (F C,)."""
        return np.repeat(each, self.C)

    def chances(self, coef: Array) -> Array:
        """Return P(class) of each row under one fit, shape (n, C)."""
        return over_classes(softmax, self._scores(coef))

    def _scores(self, coef: Array) -> Array:
        """Return the scores (n, F C); no pass is needed where the last step has made them, and at 0."""
        if self._scored is not None and np.array_equal(coef, self._scored[0]):
            return self._scored[1]
        return self.features.times(coef) if coef.any() else np.zeros((len(self.codes), coef.shape[1]))

    def _pulled(self, coef: Array, rates: Array) -> tuple[Array, Array]:
        """Return the scores (n, F C), and Z' times the residuals (m, F C), in one pass."""
        return self.features.there_and_back(coef, partial(_pull, rates), self.codes, self.used)

    def objective(self, q: Array, coef: Array, alpha: float, rates: Array) -> Array:
        """Return the objective per row of each fit, (F,), from the class probabilities q (n, F, C) or (n, C)."""
        given = _joint(self._of_fits(q), self.codes, rates).sum(axis=2)
        loss = -(np.log(given + TINY) * self.used).sum(axis=0)
        return np.asarray((loss + alpha / 2 * np.sum(self._of_fits(coef * coef), axis=(0, 2))) / len(q))

    def _gram(self, s: Array) -> Array:
        """Return Z'SZ, (m, m), of all rows."""
        return self.features.weighted_gram(np.arange(len(s)), s)

    def _factor(self, gram: Array, alpha: float) -> tuple[Array, bool]:
        """Return the Cholesky factor of Z'SZ + alpha I, its diagonal raised by the size of rounding errors."""
        A = gram.copy()
        A.flat[:: len(A) + 1] += alpha + self.features.eps * np.diagonal(A).max()
        return factorised(A)

    def left_out(self, coef: Array, alpha: float, rates: Array) -> Array:
        """Return the scores (n, C) of each row, left out together with its equal rows, from a fit to all rows.

        Here s_i is the mean eigenvalue of the curvature, w_i sum_c q_ic (1 - q_ic) / (C - 1).
        """
        scores = self._scores(coef)
        q = over_classes(softmax, scores)
        mean = _belief(q, self.codes, rates) * (q * (1 - q)).sum(axis=1) / (self.C - 1)
        s = np.maximum(mean, NOISY_LABELS.least_curvature)
        residuals = _residuals(q[:, None], self.codes, self.used, rates)[:, 0]
        own, pull = together(self.groups, residuals / s[:, None], s)
        factor, _ = self._factor(self._gram(s), alpha)
        v = np.sum(self.features.times(directions(factor, len(own))) ** 2, axis=1)
        sharpen(v, own * v > LEVERAGES.exact_from, factor, self.features.__getitem__)
        return np.asarray(scores - (v / np.maximum(1 - own * v, 0.05))[:, None] * pull)


def _pull(rates: Array, scores: Array, codes: NDArray[np.intp], used: Array) -> Array:
    """Return the residuals (n, F C) of rows of these scores; a function, so that other processes can have it."""
    q = over_classes(softmax, scores.reshape(*used.shape, -1))
    return _residuals(q, codes, used, rates).reshape(scores.shape)


def _joint(q: Array, codes: NDArray[np.intp], rates: Array) -> Array:
    """Return P(true class and the label given), in the shape of q (n, F, C)."""
    return np.asarray(q * rates.T[codes][:, None])


def _residuals(q: Array, codes: NDArray[np.intp], used: Array, rates: Array) -> Array:
    """Return minus the gradient of the loss by each row's scores, from the chances q (n, F, C), in their shape."""
    joint = _joint(q, codes, rates)
    joint /= joint.sum(axis=2, keepdims=True) + TINY
    return np.asarray((joint - q) * used[:, :, None])


def _belief(q: Array, codes: NDArray[np.intp], rates: Array) -> Array:
    """Return w (n,) in [0, 1] of q (n, C): the weight of each label in the gradient by the score of its class.

    It is (P(class y | label) - q_y) / (1 - q_y).
    """
    joint = q * rates.T[codes]
    given, right = (of[np.arange(len(q)), codes] for of in (q, joint))
    total = joint.sum(axis=1)
    return np.asarray((right - given * (total - right) / np.maximum(1 - given, TINY)) / (total + TINY))


def curvature(q: Array) -> Array:
    """Return 2 max_c q_c (1 - q_c) >= 1e-6 of each row of q (n, C), a bound on the eigenvalues of diag(q) - q q'."""
    return np.maximum(2 * (q * (1 - q)).max(axis=1), NOISY_LABELS.least_curvature)
