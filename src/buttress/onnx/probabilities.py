"""Probabilities as nodes: the calibration of ``certainty/calibration.py``, whose functions have their reasons there."""

import numpy as np

from buttress.certainty.calibration import EDGE, Calibration
from buttress.expansion import pairs_of
from buttress.onnx.graph import Nodes


def add_probabilities(add: Nodes, calibration: Calibration, scores: str, winner: str) -> str:
    """Add the probabilities (n, C) of scores (n, k), of which that of the class number ``winner`` (n,) is the largest.

    Where float32 cannot tell it from the next, they are equal.
    """
    z = add("Add", add("Mul", scores, calibration.slope), calibration.shift)
    if calibration.n_classes == 2:
        p = add("Concat", add("Sigmoid", add("Neg", z)), add("Sigmoid", z), axis=1)
    elif calibration.pairs:
        p = _coupled(add, add("Sigmoid", z), calibration.n_classes)
    else:
        p = add("Softmax", z, axis=1)
    least = calibration.least
    return _leading(add, add("Add", add("Mul", p, 1 - least * calibration.n_classes), least), winner,
                    calibration.n_classes)


def _coupled(add: Nodes, r: str, C: int) -> str:
    """Add the coupled probabilities, (n, C), of those of pairs.

    The minimum over the simplex is, up to its sum, the solution of (Q + 1 1') p = 1, whose matrix is positive definite:
    Gauss and Jordan need no pivots.
    """
    first, second = np.transpose(pairs_of(C))
    pairs = np.arange(len(first))
    won, lost = np.zeros((2, len(first), C * C))
    won[pairs, first * C + second] = 1.0
    lost[pairs, second * C + first] = 1.0
    r = add("Max", add("Min", r, 1 - EDGE), EDGE)
    flat = add("Add", add("MatMul", r, won), add("MatMul", add("Sub", 1.0, r), lost))
    beats = add("Reshape", flat, np.array([-1, C, C]))
    crossed = add("Mul", beats, add("Transpose", beats, perm=[0, 2, 1]))
    squares = add("ReduceSum", add("Mul", beats, beats), np.array([1]), keepdims=1)
    Q = add("Add", add("Sub", add("Mul", squares, np.eye(C)), crossed), 1.0)
    ones = add("Add", add("Mul", add("Transpose", squares, perm=[0, 2, 1]), 0.0), 1.0)
    system = add("Concat", Q, ones, axis=2)
    for c, unit in enumerate(np.eye(C)[:, :, None]):
        at = np.array([c])
        row = add("Gather", system, at, axis=1)
        pivoted = add("Div", row, add("Gather", row, at, axis=2))
        column = add("Sub", add("Gather", system, at, axis=2), unit)
        system = add("Sub", system, add("Mul", column, pivoted))
    p = add("Max", add("Squeeze", add("Gather", system, np.array([C]), axis=2), np.array([2])), 0.0)
    return add("Div", p, _sum(add, p, 1))


def _leading(add: Nodes, p: str, winner: str, C: int) -> str:
    """Add the probabilities after the winner was put first: it and all above its level share their mean."""
    own = add.cast(add("Equal", add("Unsqueeze", winner, np.array([1])), np.arange(C)[None, :]), np.float64)
    other = add("Sub", 1.0, own)
    below = add.cast(add("Less", add("Unsqueeze", p, np.array([1])), add("Unsqueeze", p, np.array([2]))), np.float64)
    above = add("Mul", add("Sub", 1.0, below), add("Unsqueeze", other, np.array([1])))  # which others, for each bound
    total = add("Add", _sum(add, add("Mul", above, add("Unsqueeze", p, np.array([1]))), 2),
                add("Unsqueeze", _sum(add, add("Mul", own, p), 1), np.array([1])))
    means = add("Div", total, add("Add", _sum(add, above, 2), 1.0))
    level = add("Max", *[add("Gather", add("Squeeze", means, np.array([2])), np.array([c]), axis=1) for c in range(C)])
    return add("Add", add("Mul", own, level), add("Mul", other, add("Min", p, level)))


def _sum(add: Nodes, values: str, axis: int) -> str:
    return add("ReduceSum", values, np.array([axis]), keepdims=1)
