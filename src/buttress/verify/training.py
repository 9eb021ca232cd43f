"""Wrong training data of a machine linear in its targets: the fewest labels that change a prediction, and its interval.

The machine minimises sum_i w_i (t_i - f(x_i) - b)^2 + alpha |f|^2, t_i the number that label i is fitted as: 1 for the
class of a score, else -1, and with a ``threshold`` the label itself. So f(x) + b = sum_i h_i(x) t_i, with

    h = m + (I - m 1') v,   v = (K + D)^-1 k(x),   D_ii = alpha / w_i,   m_i = w_i / sum_j w_j,

K and k centred by m (no m without an intercept). A label moves a lead by an amount that depends on no other label, so k
of them take at most the k largest. Of a linear kernel v = W X (X'W X + alpha I)^-1 x, for which alpha may be 0.

With A the matrix that is solved, |v - A^-1 k| <= |k - A v| / least eigenvalue of A, which is above s if a Cholesky
factor of A - s I can be computed, but for (n + 2) roundings of its trace (Rump 2006). Nothing else is trusted.

The interval is between what values a prediction lies with wrong targets, or with one row left out.

With f(x) = sum_i h_i(x) t_i, k targets that are off by at most by_i move f by at most the sum of the k
largest |h_i| by_i. Without row i the prediction is f - h_i e_i / (1 - H_ii) (Cook & Weisberg 1982), with the hat matrix
H_ij = h_j(x_i) and the residuals e = t - H t.
"""

import math
from typing import Any

import numpy as np

from .core import WIDER, Array, Claim, Model, Real, U, agreed, inverse, table
from .foreign import certificate, data_of
from .kernels import described, kernel
from .machines import told_apart

LEAST_SQUARES = "least squares"
KEYS = {"model", "kernel", "alpha", "intercept", "classes", "threshold", "directions", "eligible"}


def from_flips(stated: Model, X: Any, y: Any, Z: Any, found: Any) -> Model:
    """Return the certificate of what ``training_flips`` found at the rows Z; null are labels that nothing changes."""
    missing = dict.fromkeys(("threshold", "directions", "eligible"))
    needed = [None if math.isinf(each) else each for each in found.needed.tolist()]
    claim = {"prediction": found.prediction.tolist(), "needed": needed}
    return certificate({"model": LEAST_SQUARES, **missing, **stated}, {"rows": np.asarray(Z).tolist()}, X, y, claim)


def prove_flips(held: Model, X: Any, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a certificate of training labels X (n, d), y (n,): one for each row that it asks about."""
    stated, claim = held["problem"], held["claim"]
    rows, asked, weight, found = opened(held, X, y, weight, KEYS, {"prediction", "needed"})
    labels = TrainingLabels(stated, y)
    H = weights(stated, rows, asked, weight)
    winners = told_apart(stated["classes"], claim["prediction"])
    for i, (winner, needed) in enumerate(zip(winners, claim["needed"], strict=True)):
        proven = labels.fewest(Real(H.v[i], H.e[i]), int(winner))
        value = math.inf if needed is None else float(needed)
        found.append(Claim(f"labels that change row {i}", value, proven, value <= proven))
    if len(found) != len(asked) + 1:
        raise ValueError("A prediction and a number of labels are claimed for each row.")
    return found


def opened(
    held: Model, X: Any, y: Any, weight: Array | None, keys: set[str], claims: set[str]
) -> tuple[Array, Array, Array, list[Claim]]:
    """Return training rows, rows asked about and weights of a certificate, and the claim that its data are these."""
    stated, rows = held["problem"], table(X)
    asked = table(held["point"]["rows"], "The point's rows")
    weight = np.ones(len(rows)) if weight is None else weight
    if stated.keys() != keys or held["claim"].keys() != claims or held["point"].keys() != {"rows"}:
        raise ValueError(f"This is claimed of a problem with {', '.join(sorted(keys))}: {' and '.join(sorted(claims))} "
                         "at rows.")
    if asked.shape[1] != rows.shape[1] or not len(asked) or not ((weight > 0) & np.isfinite(weight)).all():
        raise ValueError("Rows must have as many columns as the data, and weights must be finite and above 0.")
    return rows, asked, weight, [agreed("the data are those of the certificate", held["data"] == data_of(rows, y))]


def eligible(stated: Model, n: int) -> Array:
    """Return which of n rows may be wrong."""
    some = stated["eligible"]
    if some is not None and not all(type(row) is int and 0 <= row < n for row in some):  # a mask is none
        raise ValueError(f"eligible is a list of numbers of rows, from 0 to {n - 1}, or null.")
    return np.ones(n, dtype=bool) if some is None else np.isin(np.arange(n), np.array(some, int))


class TrainingLabels:
    """The labels, what they are fitted as, and which other ones each may be in truth."""

    def __init__(self, stated: Model, y: Any):
        self.codes = told_apart(stated["classes"], y)
        k, n = len(stated["classes"]), len(self.codes)
        threshold = stated["threshold"]
        if k < 2 or (threshold is not None and (k != 2 or not stated["classes"][0] < stated["classes"][1])):
            raise ValueError("A machine with a threshold has two classes, the lower one first; others at least two.")
        self.values = 2 * np.eye(k) - 1 if threshold is None else np.outer(np.array(stated["classes"], float), [-1, 1])
        self.threshold = 0.0 if threshold is None else float(threshold)
        self.two = k == 2
        self.allowed = ~np.eye(k, dtype=bool)
        if stated["directions"] is not None:
            pairs = np.zeros((k, k), dtype=bool)
            for given, truth in stated["directions"]:
                pairs[tuple(told_apart(stated["classes"], [given, truth]))] = True
            self.allowed &= pairs
        self.free = eligible(stated, n)

    def fewest(self, h: Real, winner: int) -> float:
        """Return a lower bound of how many wrong labels take the lead of a class, over all rivals; 0 if it has none."""
        rivals = [rival for rival in range(len(self.values)) if rival != winner]
        return min(self.against(h, winner, rival) for rival in rivals)

    def against(self, h: Real, winner: int, rival: int) -> float:
        """Return the bound for one rival, from a lower bound of the lead and upper bounds of what each label takes."""
        values = self.values[:, winner] - (0.0 if self.two else self.values[:, rival])
        lead = (h @ values[self.codes] + (-self.threshold if winner else self.threshold)).low
        drop = Real(values[:, None]) + -values
        most = np.where(self.allowed, drop.high, 0.0).max(axis=1, initial=0.0)[self.codes]
        least = np.where(self.allowed, drop.low, 0.0).min(axis=1, initial=0.0)[self.codes]
        gains = np.maximum((h * most).high, (h * least).high) * self.free
        taken = np.cumsum(np.sort(gains)[::-1]) / (1 - len(gains) * U)  # (1 - U)^n is at least this
        if not (lead > 0 and np.isfinite(taken).all()):
            return 0.0
        return float(np.searchsorted(taken, lead)) + 1 if taken[-1] >= lead else math.inf


def weights(stated: Model, X: Array, Z: Array, weight: Array) -> Real:
    """Return h of each row of Z (m, d) for the training rows X (n, d), shape (m, n), with bounds of its errors."""
    centred = stated["intercept"] is True
    if not centred and stated["intercept"] is not False and stated["intercept"] != "targets":  # 1 is none of them
        raise ValueError("intercept is true, false, or \"targets\": the kernel is then not centred.")
    mean = Real(weight) * inverse(Real(weight) @ np.ones(len(X))) if stated["intercept"] else None
    inner = mean if centred else None
    part = None if stated["kernel"] is None else described(stated["kernel"])
    alpha = np.array(stated["alpha"], float)
    if not (np.isfinite(alpha).all() and (alpha >= 0).all() and alpha.shape in (((),) if centred else ((), (len(X),)))):
        raise ValueError("alpha must be a number >= 0, or one for each row where there is no intercept.")
    if part == {"class": "Linear", "coef0": 0.0} and not alpha.shape:
        V = of_columns(X, Z, weight, float(alpha), inner)
    else:
        V = of_kernel(*kernel_values(part, X, Z), Real(alpha) * inverse(Real(weight)), inner)
    return V if mean is None else V + mean - column(V @ np.ones(len(X))) * mean


def kernel_values(part: Model | None, X: Array, Z: Array) -> tuple[Real, Real]:
    """Return those between the training rows, and from Z to them; of no kernel X and Z are these values themselves."""
    if part is None:
        if X.shape[0] != X.shape[1]:
            raise ValueError("Without a kernel the rows of the data are kernel values, as many as there are rows.")
        return Real(X) * 0.5 + Real(X.T) * 0.5, Real(Z)
    centre = np.median(X, axis=0)
    return kernel(part, X, X, centre), kernel(part, Z, X, centre)


def of_kernel(K: Real, k: Real, penalty: Real, mean: Real | None) -> Real:
    """Return v of each row from kernel values K (n, n) and k (m, n)."""
    if mean is not None:
        middle = K @ mean
        K, k = (part - column(part @ mean) - middle + mean @ middle for part in (K, k))
    return turned(solved(K + penalty.each(np.diag), turned(k)))


def of_columns(X: Array, Z: Array, weight: Array, alpha: float, mean: Real | None) -> Real:
    """Return v of each row from columns."""
    middle = Real(np.zeros(X.shape[1])) if mean is None else turned(Real(X)) @ mean
    left, asked = (Real(part) - middle for part in (X, Z))
    weighted = left * weight[:, None]
    return turned(weighted @ solved(turned(left) @ weighted + alpha * np.eye(X.shape[1]), turned(asked)))


def solved(A: Real, B: Real) -> Real:
    """Return A^-1 B for symmetric A (n, n) and B (n, m); ValueError where rounding decides what it is."""
    near = (A.v + A.v.T) / 2
    away = float(np.linalg.norm(A.e + np.abs(A.v - near) + U * np.abs(near))) * WIDER
    shift = float(np.linalg.eigvalsh(near)[0]) / 2
    np.linalg.cholesky(near - shift * np.eye(len(near)))  # raises where it fails, which proves nothing
    least = shift - (len(near) + 2) * U * float(np.diagonal(near).sum()) * WIDER - away
    if not least > 0:
        raise ValueError("alpha is so small, or columns repeat each other so nearly, that rounding decides.")
    solution = np.linalg.solve(near, B.v)
    residual = B - A @ solution
    size = np.linalg.norm(np.abs(residual.v) + residual.e, axis=0)
    return Real(solution, np.broadcast_to(size * WIDER / least, solution.shape))


def turned(values: Real) -> Real:
    return values.each(np.transpose)


def column(values: Real) -> Real:
    return values.each(lambda part: part[:, None])


TARGETS = "least squares, targets"
NEEDED = {"model", "kernel", "alpha", "intercept", "rows", "by", "eligible"}


def from_moves(stated: Model, X: Any, y: Any, Z: Any, found: Any) -> Model:
    """Return the certificate of what ``training_moves`` found at the rows Z, a little wider than its last digits.

    Of one row that is left out (``training_removals``) ``by`` is None and ``rows`` 1.
    """
    room = 1e-9 * (np.abs(found.low) + np.abs(found.high))
    claim = {"low": (found.low - room).tolist(), "high": (found.high + room).tolist()}
    return certificate({"model": TARGETS, "eligible": None, "by": None, **stated}, {"rows": np.asarray(Z).tolist()},
                       X, y, claim)


def prove_moves(held: Model, X: Any, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a certificate of training targets X (n, d), y (n,): both ends of each row's interval."""
    stated, claim = held["problem"], held["claim"]
    rows, asked, weight, found = opened(held, X, y, weight, NEEDED, {"low", "high"})
    t = np.asarray(y, float)
    H = weights(stated, rows, asked, weight)
    f, moved = H @ t, off(stated, H) if stated["by"] is not None else left_out(stated, rows, t, weight, H)
    low, high = (f + Real(-moved[0])).low, (f + Real(moved[1])).high
    for i, ends in enumerate(zip(claim["low"], claim["high"], strict=True)):
        found += [Claim(f"least prediction of row {i}", ends[0], float(low[i]), bool(ends[0] <= low[i])),
                  Claim(f"largest prediction of row {i}", ends[1], float(high[i]), bool(high[i] <= ends[1]))]
    if len(found) != 2 * len(asked) + 1:
        raise ValueError("An interval is claimed for each row.")
    return found


def off(stated: Model, H: Real) -> tuple[Array, Array]:
    """Return upper bounds (m,) of how far wrong targets move predictions, down and up."""
    by, k, n = np.asarray(stated["by"], float), stated["rows"], H.v.shape[1]
    if type(k) is not int or k < 0 or by.shape not in ((), (n,)) or not (np.isfinite(by) & (by >= 0)).all():
        raise ValueError("rows is a number of targets, and by a number >= 0, or one for each row.")
    sizes = Real(np.maximum(H.high, -H.low)) * by * eligible(stated, n)
    most = (Real(np.sort(sizes.high, axis=1)[:, ::-1][:, :k]) @ np.ones(min(k, n))).high
    return most, most


def left_out(stated: Model, X: Array, t: Array, weight: Array, h: Real) -> tuple[Array, Array]:
    """Return upper bounds (m,) of how far a row that is left out moves predictions, down and up."""
    if stated["rows"] != 1 or stated["intercept"] == "targets":
        raise ValueError("Of rows left out one is proven, without the mean of the targets: rows is 1.")
    H = weights(stated, X, X, weight)
    own = Real(1.0) - H.each(np.diagonal)
    if not (own.low > 0).all():
        raise ValueError("A row decides its own prediction: nothing is known of the fit without it.")
    change = h * ((H @ t - t) * inverse(own))
    some = eligible(stated, len(X))
    return -np.minimum(change.low[:, some], 0.0).min(axis=1), np.maximum(change.high[:, some], 0.0).max(axis=1)
