"""Wrong targets, or one row left out: between what values a prediction that is linear in the targets then lies.

With f(x) = sum_i h_i(x) t_i (``training.py``) k targets that are off by at most by_i move f by at most the sum of the k
largest |h_i| by_i. Without row i the prediction is f - h_i e_i / (1 - H_ii) (Cook & Weisberg 1982), with the hat matrix
H_ij = h_j(x_i) and the residuals e = t - H t.
"""

from typing import Any

import numpy as np

from .core import Array, Claim, Model, Near, inverse
from .foreign import certificate
from .training import eligible, opened, weights

TARGETS = "least squares, targets"
KEYS = {"model", "kernel", "alpha", "intercept", "rows", "by", "eligible"}


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
    rows, asked, weight, found = opened(held, X, y, weight, KEYS, {"low", "high"})
    t = np.asarray(y, float)
    H = weights(stated, rows, asked, weight)
    f, moved = H @ t, off(stated, H) if stated["by"] is not None else left_out(stated, rows, t, weight, H)
    low, high = (f + Near(-moved[0])).low, (f + Near(moved[1])).high
    for i, ends in enumerate(zip(claim["low"], claim["high"], strict=True)):
        found += [Claim(f"least prediction of row {i}", ends[0], float(low[i]), bool(ends[0] <= low[i])),
                  Claim(f"largest prediction of row {i}", ends[1], float(high[i]), bool(high[i] <= ends[1]))]
    if len(found) != 2 * len(asked) + 1:
        raise ValueError("An interval is claimed for each row.")
    return found


def off(stated: Model, H: Near) -> tuple[Array, Array]:
    """Return upper bounds (m,) of how far wrong targets move predictions, down and up."""
    by, k, n = np.asarray(stated["by"], float), stated["rows"], H.v.shape[1]
    if type(k) is not int or k < 0 or by.shape not in ((), (n,)) or not (np.isfinite(by) & (by >= 0)).all():
        raise ValueError("rows is a number of targets, and by a number >= 0, or one for each row.")
    sizes = Near(np.maximum(H.high, -H.low)) * by * eligible(stated, n)
    most = (Near(np.sort(sizes.high, axis=1)[:, ::-1][:, :k]) @ np.ones(min(k, n))).high
    return most, most


def left_out(stated: Model, X: Array, t: Array, weight: Array, h: Near) -> tuple[Array, Array]:
    """Return upper bounds (m,) of how far a row that is left out moves predictions, down and up."""
    if stated["rows"] != 1 or stated["intercept"] == "targets":
        raise ValueError("Of rows left out one is proven, without the mean of the targets: rows is 1.")
    H = weights(stated, X, X, weight)
    own = Near(1.0) - H.each(np.diagonal)
    if not (own.low > 0).all():
        raise ValueError("A row decides its own prediction: nothing is known of the fit without it.")
    change = h * ((H @ t - t) * inverse(own))
    some = eligible(stated, len(X))
    return -np.minimum(change.low[:, some], 0.0).min(axis=1), np.maximum(change.high[:, some], 0.0).max(axis=1)
