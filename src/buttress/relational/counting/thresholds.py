"""The paper's generalized row counting: the arrays H_k of thresholds, and its objective F-hat made of them.

H_k is the largest H such that the rows with a value of at least H weigh at least (1 + error)^k. The sum of the
positive values is the integral over h > 0 of the weight of the rows with a value of at least h. Between H_{k+1} and
H_k that weight lies in [(1 + error)^k, (1 + error)^(k+1)), which gives equation 6 and Lemma 9.

The paper asks H_k for floor((1 + error)^k) rows only, but counts (1 + error)^k of them: its F-hat can be almost twice
F. Here neither is rounded down, so both sides of Lemma 9 hold, also for weights.

Source: Abo-Khamis, Im, Moseley, Pruhs & Samadian (APOCS 2021), sections 3.1 and 3.3, equation 6.
"""

import numpy as np

from buttress._checks import Array

ROUNDING = 1e-12  # relative: a weight this near to (1 + error)^k has reached it


def thresholds(value: Array, mass: Array, error: float, least: float = 1.0) -> tuple[Array, Array]:
    """Return the thresholds H_0 >= H_1 >= ... that are positive, and the weights least (1 + error)^k they stand for.

    ``value`` and ``mass`` have shape (n,); ``least`` is the smallest positive weight of a row.
    """
    keep = (value > 0) & (mass > 0)
    order = np.argsort(-value[keep], kind="stable")
    if not len(order):
        return np.zeros(0), np.zeros(0)
    descending = value[keep][order]
    reached = np.cumsum(mass[keep][order])
    top = int(np.floor(np.log(reached[-1] / least * (1 + ROUNDING)) / np.log1p(error)))
    weight: Array = least * (1.0 + error) ** np.arange(max(top, 0) + 1, dtype=np.float64)
    first = np.searchsorted(reached, weight * (1 - ROUNDING))
    return descending[np.minimum(first, len(reached) - 1)], weight


def sum_below(H: Array, weight: Array) -> float:
    """Return equation 6: sum_k weight_k (H_k - H_{k+1}) with H = 0 after the last."""
    return float(weight @ (H - np.append(H[1:], 0.0))) if len(H) else 0.0
