"""Find wrong labels when some classes are mistaken for certain others: one rate for each pair (true class, label).

A row of true class k is given label c with probability R_kc, so that

    P(label = c | x) = sum_k q_k(x) R_kc,        q = softmax(T F(x) + b),

F the scores of the fit without that row. ``label_law`` is the case of one rate, R_kc = rho / (C - 1) off the diagonal,
and b = 0. Here all R_kc, T and b are found by expectation and maximisation (Dempster, Laird & Rubin 1977; the matrix
of errors is that of Dawid & Skene 1979 with one annotator) on the penalised likelihood

    sum_i log sum_k q_ik R_{k y_i} + 4 sum_k log R_kk - |b|^2 / 2,        R_kk >= 1/2

The second term favours few wrong labels. The bias b is needed because a fit to
labels of which many are moved from one class to another has scores that are shifted too.

A direction is a pair of a true class and another label. Most directions have no wrong labels. A law is judged by its
likelihood minus log(n)/2 for each learned number that is not 0 (Schwarz's criterion). The rates of the rarest
directions are set to 0, half of them at a time and the last ones singly. The law with the best criterion is kept.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress.solvers.contamination.tuning import CONFUSION, LABELS
from buttress.solvers.run import Step, Steps, run


@dataclass(frozen=True)
class Confusion:
    """Rates (C, C), true class by label; temperature and bias (C,) of the scores; the objective and the criterion.

    Objective (penalised log likelihood) and criterion (log likelihood less log(n)/2 a number) are per row.
    """

    rates: Array
    temperature: float
    bias: Array
    objective: float = -np.inf
    criterion: float = -np.inf

    def directions(self) -> int:
        """Return the number of directions in which labels are wrong."""
        return int(np.count_nonzero(self.rates) - len(self.rates))

    def tells_classes(self) -> bool:
        """Say whether more than half of each true class keeps its label; else classes that overlap would do as well."""
        return bool(np.diagonal(self.rates).min() > 1 - CONFUSION.most_given)

    def lead(self, likelihood: float, n: int) -> float:
        """Return the nats by which these directions explain n labels better than one rate, by Schwarz's criterion.

        One rate and a temperature have this log likelihood per row. Minus infinity where labels do not tell classes.
        """
        return n * (self.criterion - likelihood) + float(np.log(n)) if self.tells_classes() else -np.inf

    def classes(self, scores: Array) -> Array:
        """Return P(true class) without using the label, shape (n, C)."""
        return np.asarray(softmax(self.temperature * scores + self.bias, axis=1))

    def joint(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        """Return P(true class and the label given), shape (n, C), for class numbers codes (n,)."""
        return np.asarray(self.classes(scores) * self.rates[:, codes].T)

    def true_chances(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        """Return P(true class | label), shape (n, C)."""
        return true_chances(self.classes(scores), self.rates, codes)


def true_chances(classes: Array, rates: Array, codes: NDArray[np.intp]) -> Array:
    """Return P(true class | label) by Bayes' rule, shape (n, C), from P(class) (n, C) and rates (C, C)."""
    joint = classes * rates[:, codes].T
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), TINY))


def one_rate(C: int, rho: float) -> Array:
    """Return the rates (C, C) of labels that are wrong with probability rho, all other classes equally likely."""
    rates = np.full((C, C), rho / max(C - 1, 1))
    np.fill_diagonal(rates, 1 - rho)
    return rates


def learn_confusion(
    scores: Array, codes: NDArray[np.intp], start: Array | None = None
) -> Confusion:
    """Return the law with the best criterion for class numbers codes (n,) and leave-one-out scores (n, C).

    It is learned from at most 10,000 rows, drawn at random. It starts from the rates ``start`` (C, C); None means that
    a tenth of each class has other labels. It is then learned again with fewer and fewer directions.
    """
    C = scores.shape[1]
    part = drawn_rows(len(codes))
    some = scores[part]
    labels = codes[part]
    law = Confusion(one_rate(C, 0.1) if start is None else start, 1.0, np.zeros(C))
    best = law
    while True:
        steps = confusion_steps(some, labels, law)
        law = run(steps, max_iter=100, tol=1e-5, warn=False, inner=True).state
        best = max(best, law, key=lambda tried: tried.criterion)
        if not law.directions():
            return best
        law = _without_rarest(law, law.true_chances(some, labels), labels)


def confusion_steps(scores: Array, codes: NDArray[np.intp], law: Confusion) -> Steps:
    """Yield laws by expectation and maximisation from ``law``; the change is the gain of the objective per row."""
    last = -np.inf
    while True:
        joint = law.joint(scores, codes)
        law = _judged(law, joint)
        yield Step(law, change=law.objective - last, objective=-law.objective)
        last = law.objective
        chances = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        law = Confusion(_rates(_expected(chances, codes)), *_calibrated(scores, chances, law))


def _judged(law: Confusion, joint: Array) -> Confusion:
    """Return the law with its objective and its criterion, from P(true class and label) (n, C)."""
    n = len(joint)
    likelihood = float(np.log(np.maximum(joint.sum(axis=1), 1e-300)).sum())
    prior = CONFUSION.prior * float(np.log(np.diagonal(law.rates)).sum()) - float(law.bias @ law.bias) / 2
    learned = np.count_nonzero(law.rates)  # as many as temperature, C - 1 free biases, and the directions
    return replace(law, objective=(likelihood + prior) / n, criterion=(likelihood - learned / 2 * np.log(n)) / n)


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
    np.fill_diagonal(rates, 1 - given)
    return rates


def _calibrated(scores: Array, chances: Array, law: Confusion) -> tuple[float, Array]:
    """Return temperature and bias after a Newton step on sum_ik p_ik log q_ik - |b|^2 / 2, halved until it gains.

    q is the softmax of z_ik = T F_k + b_k. For a parameter u of z, the gradient is sum_ik (p_ik - q_ik) dz_ik/du and
    the curvature is the covariance of dz_ik/du under q_i.
    """
    q = law.classes(scores)
    gradient = np.append(((chances - q) * scores).sum(), (chances - q).sum(axis=0) - law.bias)
    centred = scores - (q * scores).sum(axis=1, keepdims=True)
    cross = (q * centred).sum(axis=0)
    curvature = np.zeros((len(gradient), len(gradient)))
    curvature[0, 0] = (q * centred**2).sum() + 1e-9
    curvature[0, 1:] = curvature[1:, 0] = cross
    curvature[1:, 1:] = np.diag(q.sum(axis=0) + 1) - q.T @ q
    step = np.linalg.solve(curvature, gradient)
    now = _calibration(law, scores, chances)
    for _ in range(20):
        temperature = float(np.clip(law.temperature + step[0], LABELS.coolest, LABELS.hottest))
        moved = replace(law, temperature=temperature, bias=law.bias + step[1:])
        if _calibration(moved, scores, chances) >= now:
            return moved.temperature, moved.bias
        step /= 2
    return law.temperature, law.bias


def with_calibration(law: Confusion, scores: Array, codes: NDArray[np.intp]) -> Confusion:
    """Return the law after one round of expectation and maximisation of its temperature and bias alone."""
    temperature, bias = _calibrated(scores, law.true_chances(scores, codes), law)
    return replace(law, temperature=temperature, bias=bias)


def _calibration(law: Confusion, scores: Array, chances: Array) -> float:
    logits = law.temperature * scores + law.bias
    return float((chances * log_softmax(logits, axis=1)).sum() - law.bias @ law.bias / 2)


def _without_rarest(law: Confusion, chances: Array, codes: NDArray[np.intp]) -> Confusion:
    """Return the law with the rarest half of its directions set to 0, or only the rarest if there are few."""
    rows = _expected(chances, codes)
    off = np.where(np.eye(len(rows), dtype=bool), 0.0, law.rates)
    at = np.flatnonzero(off)
    rarest = at[np.argsort(rows.flat[at], kind="stable")[: 1 if len(at) <= 6 else len(at) // 2]]
    off.flat[rarest] = 0
    return replace(law, rates=off + np.diag(1 - off.sum(axis=1)))
