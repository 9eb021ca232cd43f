"""Functional gradient descent for a risk of losses of a kernel expansion, with true Nesterov acceleration.

    minimise over f   risk(l(y_i, f(x_i))) + ridge * ||f||_H^2,      f = sum_i w_i k(x_i, .)

In coefficients the functional gradient is q_i l'_i + 2 ridge w_i, q the weights of the risk. Because the risks here
are concave in the losses (a mean, a minimum over subsets, a negative tilt), holding q fixed majorises the objective,
and a step of 1/beta, beta = curvature * lmax(diag(q)^1/2 K diag(q)^1/2) + 2 ridge, cannot raise it.
lmax is bounded by the trace of the kept rows, and by the largest weight times the lmax of all rows.
Source: Rathnashyam & Gittens (2023), algorithm 3; Nesterov (1983) in place of the paper's (63)-(64), which is Polyak's.
"""

import numpy as np

from buttress._checks import Array
from buttress.losses import Loss
from buttress.risks import Risk
from buttress.solvers.run import Step, Steps


def kernel_descent(
    K: Array,
    y: Array,
    loss: Loss,
    risk: Risk,
    *,
    ridge: float,
    w: Array,
    sample_weight: Array,
    accelerate: bool = True,
) -> Steps:
    """Yield the coefficients w, shape (n,) or (n, C), with the norm of the functional gradient as gap.

    The gap is relative to its value at the start. Momentum is dropped when the objective rises.
    """
    share = sample_weight / sample_weight.sum()
    top = largest_eigenvalue(K, np.sqrt(share))
    f = K @ w
    previous, w_last, f_last, age, first = np.inf, w, f, 0, None
    while True:
        losses = loss.value(y, f)
        q = risk.weights(losses, sample_weight)
        slope = loss.derivative(y, f)
        objective = risk(losses, sample_weight) + ridge * float(np.sum(w * f))
        if objective > previous and age:
            w, f, age, previous = w_last, f_last, 0, np.inf
            continue
        g = (q if w.ndim == 1 else q[:, None]) * slope + 2 * ridge * w
        Kg = K @ g
        size = float(np.sqrt(max(np.sum(g * Kg), 0.0)))
        first = size if first is None else first
        yield Step(w, gap=size / first if first else 0.0, objective=objective)
        most = np.divide(q, share, out=np.zeros_like(q), where=share > 0).max()
        beta = loss.curvature * min(most * top, q @ np.diagonal(K)) + 2 * ridge
        step_w, step_f = w - g / beta, f - Kg / beta
        momentum = age / (age + 3) if accelerate else 0.0
        w, f, w_last, f_last = (step_w + momentum * (step_w - w_last), step_f + momentum * (step_f - f_last),
                                step_w, step_f)
        previous, age = objective, age + 1


def largest_eigenvalue(K: Array, scale: Array) -> float:
    """Return an upper estimate of lmax(diag(scale) K diag(scale)): 30 power iterations, plus two per cent."""
    v, value = scale, 0.0
    for _ in range(30):
        v = scale * (K @ (scale * v))
        value = float(np.linalg.norm(v))
        if value == 0:
            return 0.0
        v = v / value
    return 1.02 * value
