"""Find wrong labels when some classes are mistaken for certain others: one rate for each pair (true class, label).

A row of true class k is given label c with probability R_kc, so that

    P(label = c | x) = sum_k q_k(x) R_kc,        q = softmax(A'F(x) + b),

F the scores of the fit without that row. A is T I, or any matrix where scores are ``mixed``: least squares to the
classes one by one blurs one that lies between two others, and a mixture of all scores tells it again (optimal scoring,
Hastie, Tibshirani & Buja 1994). ``label_law`` is the case of one rate, R_kc = rho / (C - 1) off the diagonal, A = T I
and b = 0. Here all R_kc, A and b are found by expectation and maximisation (Dempster, Laird & Rubin 1977; the matrix
of errors is that of Dawid & Skene 1979 with one annotator) on the penalised likelihood

    sum_i log sum_k q_ik R_{k y_i} + 4 sum_k log R_kk - |b|^2 / 2,        R_kk >= 1/2

The second term favours few wrong labels. Of mixed scores -|A|^2 / (2 30^2) + tr(A W) is added (``own_row``). The bias
b is needed because a fit to labels of which many are moved from one class to another has scores that are shifted too.

A direction is a pair of a true class and another label. Most directions have no wrong labels. A law is judged by its
likelihood minus log(n)/2 for each learned number that is not 0 (Schwarz's criterion). The rates of the rarest
directions are set to 0, half of them at a time and the last ones singly. The law with the best criterion is kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress._threads import own_threads
from buttress.solvers.contamination.tuning import CONFUSION, LABELS
from buttress.solvers.run import Step, Steps, run


@dataclass(frozen=True)
class Confusion:
    """Rates (C, C), true class by label; A (C, C) and bias (C,) of the scores; the objective and the criterion.

    Objective (penalised log likelihood) and criterion (log likelihood less log(n)/2 a number) are per row. A is a
    temperature times the unit matrix unless scores are ``mixed``.
    """

    rates: Array
    A: Array
    bias: Array
    mixed: bool = False
    objective: float = -np.inf
    criterion: float = -np.inf

    def directions(self) -> int:
        """Return the number of directions in which labels are wrong."""
        return int(np.count_nonzero(self.rates) - len(self.rates))

    def tells_classes(self) -> bool:
        """Say whether more than half of each true class keeps its label; else classes that overlap would do as well."""
        return bool(np.diagonal(self.rates).min() > 1 - CONFUSION.most_given)

    def reads_labels(self, codes: NDArray[np.intp]) -> bool:
        """Return whether scores are turned round, tr(A W) < 0 (``own_row``), for class numbers codes (n,)."""
        return self.mixed and float(np.sum(self.A * own_row(np.eye(len(self.A))[codes]))) < 0

    def numbers(self) -> int:
        """Return how many numbers are learned: directions, C - 1 free biases and a temperature, or mixed scores."""
        C = len(self.rates)
        return int(np.count_nonzero(self.rates)) + (numbers_mixed(C) + 1 - C if self.mixed else 0)

    def lead(self, n: int, likelihood: float, mixed: bool = False) -> float:
        """Return the nats by which these directions explain n labels better than one rate, by Schwarz's criterion.

        One rate has this log likelihood per row, of scores that are ``mixed`` or not. Minus infinity where labels do
        not tell classes.
        """
        if not (self.directions() and self.tells_classes()):
            return -np.inf
        numbers = 2 + (numbers_mixed(len(self.rates)) if mixed else 0)
        return n * (self.criterion - likelihood) + numbers / 2 * float(np.log(n))

    def mixture(self, scores: Array) -> Array:
        """Return A'F + b of each row of scores F, shape (n, C)."""
        return np.asarray(scores @ self.A + self.bias)

    def classes(self, scores: Array) -> Array:
        """Return P(true class) without using the label, shape (n, C), more than 0: a row not learned from may have any.
        """
        return np.maximum(over_classes(softmax, self.mixture(scores)), 2 * TINY)

    def joint(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        """Return P(true class and the label given), shape (n, C), for class numbers codes (n,)."""
        return np.asarray(self.classes(scores) * self.rates[:, codes].T)

    def true_chances(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        """Return P(true class | label), shape (n, C)."""
        return true_chances(self.classes(scores), self.rates, codes)


def over_classes(function: Callable[..., Array], scores: Array) -> Array:
    """Return softmax or log_softmax over the classes, the last axis of scores, several times as fast with them first.
    """
    return function(np.ascontiguousarray(scores.swapaxes(0, -1)), axis=0).swapaxes(0, -1)


def _normed(joint: Array) -> Array:
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), TINY))


def true_chances(classes: Array, rates: Array, codes: NDArray[np.intp]) -> Array:
    """Return P(true class | label) by Bayes' rule, shape (n, C), from P(class) (n, C) and rates (C, C)."""
    return _normed(classes * rates[:, codes].T)


def one_rate(C: int, rho: float) -> Array:
    """Return the rates (C, C) of labels that are wrong with probability rho, all other classes equally likely."""
    rates = np.full((C, C), rho / max(C - 1, 1))
    np.fill_diagonal(rates, 1 - rho)
    return rates


def numbers_mixed(C: int) -> int:
    """Return how many numbers mixed scores of C classes have beside those of one temperature, given one rate.

    A column the same for all classes changes nothing, and the scores of a row have next to the same sum.
    """
    return C * (C - 1) - 1


def may_mix(C: int) -> bool:
    """Return whether scores of C classes are mixed: those of two are opposite, and a step takes C^4 operations a row.
    """
    return 2 < C <= 12  # 1,000 rows of 12 classes take .4 s, of 20 classes 1.8 s


def likeliest_confusion(scores: Array, codes: NDArray[np.intp], *, mixed: bool | None = None) -> Confusion:
    """Return ``learn_confusion`` of scores (n, C), ``mixed`` or not; None tries both, where scores may be mixed.

    Of two laws it is that with the better criterion, if it does not read labels from scores.
    """
    either = (False, True) if may_mix(scores.shape[1]) else (False,)
    tried = either if mixed is None else (mixed,)
    laws = [learn_confusion(scores, codes, mixed=each) for each in tried]
    return max(laws, key=lambda law: -np.inf if law.reads_labels(codes) else law.criterion)


@own_threads()  # products and systems are small
def mixtures(tried: Sequence[Array], codes: NDArray[np.intp], rate: float | None) -> list[Confusion]:
    """Return the laws of mixed scores (n, C) of several fits under one rate of wrong labels, given or found with them.

    They are learned from at most 10,000 rows, drawn at random, each from the one before.
    """
    C = tried[0].shape[1]
    part = drawn_rows(len(codes))

    def alike(rows: Array) -> Array:
        away = 1 - np.trace(rows) / (rows.sum() + CONFUSION.prior)
        return one_rate(C, min(away, CONFUSION.most_given) if rate is None else rate)

    law = Confusion(one_rate(C, 0.1 if rate is None else rate), 4 * np.eye(C), np.zeros(C), mixed=True)
    out = []
    for scores in reversed(tried):
        steps = confusion_steps(scores[part], codes[part], law, alike)
        law = run(steps, max_iter=30, tol=1e-4, warn=False, inner=True).state
        out.append(law)
    return out[::-1]


@own_threads()
def learn_confusion(
    scores: Array, codes: NDArray[np.intp], start: Array | None = None, *, mixed: bool = False
) -> Confusion:
    """Return the law with the best criterion for class numbers codes (n,) and leave-one-out scores (n, C), ``mixed`` or
    not, among those with directions where there are any.

    It is learned from at most 10,000 rows, drawn at random. It starts from the rates ``start`` (C, C); None means that
    a tenth of each class has other labels. It is then learned again with fewer and fewer directions.
    """
    C = scores.shape[1]
    part = drawn_rows(len(codes))
    some = scores[part]
    labels = codes[part]
    law = Confusion(one_rate(C, 0.1) if start is None else start, np.eye(C), np.zeros(C), mixed)
    best: Confusion | None = None
    while True:
        steps = confusion_steps(some, labels, law)
        law = run(steps, max_iter=100, tol=1e-5, warn=False, inner=True).state
        if not law.directions():
            return best or law
        best = max(best or law, law, key=lambda tried: tried.criterion)
        law = _without_rarest(law, law.true_chances(some, labels), labels)


def confusion_steps(
    scores: Array, codes: NDArray[np.intp], law: Confusion, rates: Callable[[Array], Array] | None = None
) -> Steps:
    """Yield laws by expectation and maximisation from ``law``; the change is the gain of the objective per row.

    ``rates`` makes rates of expected numbers of rows (C, C), each of its own where there is none.
    """
    last = -np.inf
    while True:
        joint = law.joint(scores, codes)
        chances = _normed(joint)
        own = own_row(chances) if law.mixed else chances[:0]
        law = _judged(law, joint, own)
        yield Step(law, change=law.objective - last, objective=-law.objective)
        last = law.objective
        A, bias = _calibrated(scores, chances, law, own)
        law = replace(law, rates=(rates or _rates)(_expected(chances, codes)), A=A, bias=bias)


def _judged(law: Confusion, joint: Array, own: Array) -> Confusion:
    """Return the law with its objective and its criterion, from P(true class and label) (n, C) and ``own_row``."""
    n = len(joint)
    likelihood = float(np.log(np.maximum(joint.sum(axis=1), 1e-300)).sum())
    prior = CONFUSION.prior * float(np.log(np.diagonal(law.rates)).sum()) - _unlikely(law, own)
    criterion = likelihood - law.numbers() / 2 * np.log(n)
    return replace(law, objective=(likelihood + prior) / n, criterion=criterion / n)


def _expected(chances: Array, codes: NDArray[np.intp]) -> Array:
    """Return the expected number of rows, shape (C, C), by true class and label."""
    C = chances.shape[1]
    return np.stack([np.bincount(codes, weights=chance, minlength=C) for chance in chances.T])


def _rates(rows: Array) -> Array:
    """M-step: return the rates with the greatest posterior density for expected numbers of rows (C, C)."""
    kept = np.diagonal(rows) + CONFUSION.prior
    off = rows - np.diag(np.diagonal(rows))
    away = off.sum(axis=1)
    given = np.minimum(away / (away + kept), CONFUSION.most_given)
    rates = off * (given / np.maximum(away, 1e-300))[:, None]
    rates[rates < np.finfo(np.float64).eps] = 0  # beside 1 no rate
    np.fill_diagonal(rates, 1 - given)
    return rates


def _calibrated(scores: Array, chances: Array, law: Confusion, own: Array) -> tuple[Array, Array]:
    """Return A and bias after a Newton step on sum_ik p_ik log q_ik less what is unlikely, halved until it gains."""
    logs = over_classes(log_softmax, law.mixture(scores))
    q = np.exp(logs)
    step = (_step_of_all(scores, chances, q, law, own) if law.mixed else
            _step_of_temperature(scores, chances, q, law))
    now = float((chances * logs).sum()) - _unlikely(law, own)
    for _ in range(20):
        A = law.A + step[:-1]
        if not law.mixed:
            A = np.clip(A[0, 0], LABELS.coolest, LABELS.hottest) * np.eye(len(A))
        moved = replace(law, A=A, bias=law.bias + step[-1])
        logs = over_classes(log_softmax, moved.mixture(scores))
        if float((chances * logs).sum()) - _unlikely(moved, own) >= now:
            return moved.A, moved.bias
        step = step / 2
    return law.A, law.bias


def _step_of_temperature(scores: Array, chances: Array, q: Array, law: Confusion) -> Array:
    """Return the change of T I and b, (C + 1, C), from the classes q (n, C) of the law.

    For a parameter u of z_ik = T F_k + b_k the gradient is sum_ik (p_ik - q_ik) dz_ik/du, and the curvature is the
    covariance of dz_ik/du under q_i.
    """
    gradient = np.append(((chances - q) * scores).sum(), (chances - q).sum(axis=0) - law.bias)
    centred = scores - (q * scores).sum(axis=1, keepdims=True)
    cross = (q * centred).sum(axis=0)
    curvature = np.zeros((len(gradient), len(gradient)))
    curvature[0, 0] = (q * centred**2).sum() + 1e-9
    curvature[0, 1:] = curvature[1:, 0] = cross
    curvature[1:, 1:] = np.diag(q.sum(axis=0) + 1) - q.T @ q
    step = np.linalg.solve(curvature, gradient)
    return np.vstack([step[0] * np.eye(len(q.T)), step[1:]])


def _step_of_all(scores: Array, chances: Array, q: Array, law: Confusion, own: Array) -> Array:
    """Return the change of A and b, (C + 1, C), as of multinomial logistic regression on the scores and a constant."""
    Z = np.column_stack([scores, np.ones(len(scores))])
    m, C = Z.shape[1], len(law.bias)
    unlikely = np.full(m, LABELS.hottest**-2)
    unlikely[-1] = 1.0
    gradient = Z.T @ (chances - q) - unlikely[:, None] * np.vstack([law.A, law.bias])
    gradient[:-1] += own
    weight = q[:, :, None] * (np.eye(C) - q[:, None])
    pairs = Z[:, :, None] * Z[:, None]
    curvature = weight.reshape(len(Z), -1).T @ pairs.reshape(len(Z), -1)
    square = curvature.reshape(C, C, m, m).transpose(0, 2, 1, 3).reshape(C * m, C * m)
    square.flat[:: C * m + 1] += np.tile(unlikely, C)
    return np.linalg.solve(square, gradient.T.ravel()).reshape(C, m).T


def with_calibration(law: Confusion, scores: Array, codes: NDArray[np.intp]) -> Confusion:
    """Return the law after one round of expectation and maximisation of A and bias alone."""
    chances = law.true_chances(scores, codes)
    A, bias = _calibrated(scores, chances, law, own_row(chances))
    return replace(law, A=A, bias=bias)


def _unlikely(law: Confusion, own: Array) -> float:
    """Return minus the logarithm of the density of A and bias beforehand, and what mixed scores read of ``own_row``."""
    unlikely = float(law.bias @ law.bias) / 2
    if not law.mixed:
        return unlikely
    return unlikely + float(np.sum(law.A**2)) / (2 * LABELS.hottest**2) - float(np.sum(law.A * own))


def own_row(chances: Array) -> Array:
    """Return W (C, C) for chances (n, C) of the classes: labels are explained by -tr(A W) nats that say nothing.

    Beside what is to be expected, the scores of a fit without row i are lower for its label y_i by the 1/(n - 1) that
    it lacks of the targets 2 e_y - 1: f = f' - 2 (e_y - p) / (n - 1), p being the shares of the classes. To first
    order that moves the log likelihood by -2 tr(A V), V = diag(p) - pp': scores turned round would read the labels of
    pure noise from it.
    """
    p = chances.mean(axis=0)
    return 2 * (np.diag(p) - np.outer(p, p))


def _without_rarest(law: Confusion, chances: Array, codes: NDArray[np.intp]) -> Confusion:
    """Return the law with the rarest half of its directions set to 0, or only the rarest if there are few."""
    rows = _expected(chances, codes)
    off = np.where(np.eye(len(rows), dtype=bool), 0.0, law.rates)
    at = np.flatnonzero(off)
    rarest = at[np.argsort(rows.flat[at], kind="stable")[: 1 if len(at) <= 6 else len(at) // 2]]
    off.flat[rarest] = 0
    return replace(law, rates=off + np.diag(1 - off.sum(axis=1)))
