"""Training against the worst input nearby, in Nystroem space.

    minimise over theta, b   1/2 ||theta||^2 + C sum_i max_{||d_i|| <= eps} max(0, 1 - y_i (theta'phi(x_i + d_i) + b))

The inner maximum is sought by projected gradient steps on the margin, never on the hinge, whose gradient vanishes
where the margin exceeds 1; the outer problem by Adam on the subgradient that Danskin's theorem gives there. All of it
runs where X is, on numpy arrays or torch tensors.
"""

from collections.abc import Callable

import numpy as np

from buttress._arrays import namespace, place_of
from buttress._checks import Array
from buttress.features import NystroemMap
from buttress.solvers.run import Step, Steps

Worst = Callable[[Array, Array, Array, float], Array]


def robust_descent(
    phi: NystroemMap,
    X: Array,
    y: Array,
    *,
    C: float,
    worst: Worst,
    theta: Array,
    intercept: float,
    batch: int,
    rng: np.random.RandomState,
) -> Steps:
    """Yield (theta, intercept) from a natural start; ``worst(X, y, theta, intercept)`` returns perturbed inputs.

    One step is ten Adam iterations on batches, followed by the objective (divided by C n) on all rows, at most 2,000
    fixed ones: the best of these is the model. The change is by which share the best objective fell in five steps.
    """
    n, xp, place = len(X), namespace(X), place_of(X)
    z = xp.concatenate([theta, place(np.array([float(intercept)]))])
    ridge = place(np.append(np.ones(len(theta)), 0.0) / (C * n))
    judge = rng.permutation(n)[:2000]
    mean, square, t, best = 0 * z, 0 * z, 0, [np.inf] * 5
    rate = 0.02 * max(1.0, float(abs(z).max()))
    while True:
        attacked = phi(worst(X[judge], y[judge], z[:-1], z[-1]))
        hinge = (1 - y[judge] * (attacked @ z[:-1] + z[-1])).clip(0, None).mean()
        objective = float(hinge + 0.5 * ridge @ z**2)
        best.append(min(best[-1], objective))
        change = (best[-6] - best[-1]) / best[-1] if best[-1] > 0 else 0.0
        yield Step((z[:-1] + 0, float(z[-1])), change=change, objective=objective, iterations=min(t, 10))
        for _ in range(10):
            t += 1
            rows = np.arange(n) if n <= batch else rng.choice(n, batch, replace=False)
            features = phi(worst(X[rows], y[rows], z[:-1], z[-1]))
            active = xp.where(y[rows] * (features @ z[:-1] + z[-1]) < 1, -y[rows], 0.0) / len(rows)
            g = xp.concatenate([active @ features, active.sum(axis=0)[None]]) + ridge * z
            mean = 0.9 * mean + 0.1 * g
            square = 0.99 * square + 0.01 * g**2
            step = rate / np.sqrt(1 + t / 20)
            z = z - step * (mean / (1 - 0.9**t)) / (xp.sqrt(square / (1 - 0.99**t)) + 1e-8)
