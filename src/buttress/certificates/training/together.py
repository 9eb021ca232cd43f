"""The accuracy that one common set of wrong training labels leaves: a bound that is proven, and a set that comes near.

With u_i in {0, 1} the labels that are wrong, e_ti what a wrong label i takes off the lead m_t of test row t, and z_t =
1 where row t is lost, an attacker maximises sum_t z_t subject to sum_i e_ti u_i >= m_t for every lost row and sum_i u_i
<= k. With B_t the most that k wrong labels can add to the lead, that is

    maximise sum_t z_t   subject to   sum_i e_ti u_i >= (m_t + B_t) z_t - B_t,   sum_i u_i <= k.

For any numbers l_t >= 0 no set does better than (weak duality, the maximum over u and z in closed form)

    sum_t l_t B_t + sum_t max(0, 1 - l_t (m_t + B_t)) + top_k (sum_t l_t e_ti)_+ .

The multipliers come from a linear program; whatever they are the bound holds, so no solver has to be trusted. The
attack that would make it false: leads within rounding of 0; every m_t is taken less its slack.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from buttress._as_given import one_label_each
from buttress._checks import Array, check_count
from buttress._proof import UNIT
from buttress._types import MatrixLike, Predictor, Rows, VectorLike
from buttress.certificates.training.changed_rows import top
from buttress.certificates.training.flips import FlipLeads
from buttress.certificates.training.wrong import Direction, Suspects, check_suspects


@dataclass(frozen=True)
class TrainingAccuracy:
    """What wrong training labels leave of a test accuracy.

    Parameters
    ----------
    clean : float
        Accuracy as the labels are.
    each : float
        Share of rows that are right whatever k labels are wrong, each row with the worst k for itself: proven.
    together : float
        Accuracy that any one set of k wrong labels leaves at least: proven, and never below ``each``.
    attacked : float
        Accuracy that the set ``rows`` leaves.
    rows : int array
        Training rows whose labels were changed for it, at most k.
    """

    clean: float
    each: float
    together: float
    attacked: float
    rows: Rows


def training_accuracy(
    model: Predictor,
    X_train: MatrixLike,
    y_train: VectorLike,
    X: MatrixLike,
    y: VectorLike,
    *,
    flips: int,
    directions: Iterable[Direction] | None = None,
    eligible: VectorLike | None = None,
    threshold: float | None = None,
    sample_weight: VectorLike | None = None,
) -> TrainingAccuracy:
    """Return between what numbers the accuracy on X, y lies if at most ``flips`` training labels are wrong.

    Parameters
    ----------
    model, X_train, y_train, X, directions, eligible, threshold, sample_weight
        As in :func:`training_flips`; two classes.
    y : array of shape (m,)
        Labels of X, which are taken to be right.
    flips : int
        Most wrong labels, >= 0.

    Returns
    -------
    TrainingAccuracy

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from buttress import certificates
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> found = certificates.training_accuracy(RidgeClassifier().fit(X, y), X, y, X, y, flips=1)
    >>> found.each, found.together, found.attacked
    (0.75, 0.875, 0.875)
    """
    asked = FlipLeads.of(model, X_train, y_train, X, threshold, sample_weight)
    if len(asked.classes) != 2:
        raise ValueError(f"training_accuracy is for two classes. Got {len(asked.classes)}. Use training_flips.")
    truth = one_label_each(y, len(asked.predicted))
    most = check_count("flips", flips, 0)
    suspects = check_suspects(asked.codes, asked.classes, directions, eligible, None)
    hit = asked.classes[asked.predicted] == truth
    right, wrong = np.flatnonzero(hit), np.flatnonzero(~hit & np.isin(truth, asked.classes))
    gains, leads = _gains(asked, suspects, right)
    back, behind = _gains(asked, suspects, wrong)
    lost, rows = _attack(gains, leads + asked.slack[right], back, behind - asked.slack[wrong], most)
    m = leads - asked.slack[right]
    each = int((top(gains, most) < m).sum())
    together = max(each, len(right) - _most_lost(gains, m, most))
    n = len(truth)
    return TrainingAccuracy(len(right) / n, each / n, together / n, (len(right) - lost) / n, rows)


def _gains(asked: FlipLeads, suspects: Suspects, rows: Rows) -> tuple[Array, Array]:
    """Return what each wrong label takes off the lead of each row, signed, (m, n), and the leads (m,)."""
    other = 1 - asked.codes
    free = suspects.allowed[asked.codes, other] & np.isfinite(suspects.costs)
    sign = np.where(asked.predicted[rows] == 1, 1.0, -1.0)
    step = np.where(free, (asked.targets[asked.codes] - asked.targets[other]).ravel(), 0.0)
    return sign[:, None] * asked.refit.weights[rows] * step, asked.lead[rows].max(axis=1)


def _most_lost(gains: Array, m: Array, k: int) -> int:
    """Return an upper bound of how many rows any k labels take, proven by the multipliers of the linear relaxation."""
    always = int((m <= 0).sum())
    able = (top(gains, k) >= m) & (m > 0)  # others are never lost
    if not able.any():
        return always
    gains, m = gains[able], m[able]
    added = top(-gains, k)
    need = m + added
    count, n = gains.shape
    upper = np.hstack([-gains / need[:, None], np.eye(count)])
    budget = np.hstack([np.ones(n), np.zeros(count)])
    found = linprog(np.hstack([np.zeros(n), -np.ones(count)]), np.vstack([upper, budget]),
                    np.hstack([added / need, k]), bounds=(0, 1), method="highs")
    if found.status != 0:
        return always + count
    multipliers = np.maximum(-found.ineqlin.marginals[:-1], 0) / need
    return always + min(count, int(np.floor(_dual(gains, m, added, multipliers, k))))


def _dual(gains: Array, m: Array, added: Array, multipliers: Array, k: int) -> float:
    """Return the bound of the module's docstring, rounded up: sums over rows, labels and both take that many roundings.
    """
    terms = np.hstack([multipliers * added, np.maximum(0, 1 - multipliers * (m + added))])
    weighed = multipliers @ gains
    size = np.abs(terms).sum() + multipliers @ np.abs(gains).sum(axis=1) + multipliers @ np.abs(m)
    return float(terms.sum() + top(weighed, k) + (sum(gains.shape) + 8) * UNIT * size)


def _attack(gains: Array, leads: Array, back: Array, behind: Array, k: int) -> tuple[int, Rows]:
    """Return how many rows the best set found takes, and the set: greedy for rows that are nearest to be lost.

    Less those wrong without it, ``behind`` (w,), that its labels, which add ``back`` (w, n), may put right.
    """
    best, rows = 0, np.zeros(0, dtype=int)
    able = top(gains, k) > leads
    gains, leads = gains[able], leads[able]
    for weight in (1.0, 2.0, 4.0):  # how much more nearer rows count
        chosen: list[int] = []
        left, short = leads, behind
        for _ in range(min(k, gains.shape[1])):
            room = np.maximum(left, 0)[:, None]
            value = np.maximum(left, 0.05 * leads) ** -weight @ np.clip(gains, -room, room)
            value[chosen] = -np.inf
            chosen.append(int(value.argmax()))
            left = left - gains[:, chosen[-1]]
            short = short - back[:, chosen[-1]]
            lost = int((left < 0).sum() - (short <= 0).sum())
            if lost > best:
                best, rows = lost, np.array(chosen)
    return best, rows
