"""Adversarial training in Nystroem space: each row is replaced by the worst input near it.

    minimise over theta, b   1/2 ||theta||^2 + C sum_i max_{||d_i|| <= eps} max(0, 1 - y_i (theta'phi(x_i + d_i) + b))

Projected gradient steps on the margin search for the inner maximum. (The gradient of the hinge is 0 where the margin
exceeds 1.) Adam minimises the outer problem, with the subgradient at that maximum (Danskin's theorem). All of it runs
on the device of X, with numpy arrays or torch tensors.
"""

from collections.abc import Callable

import numpy as np

from buttress._arrays import namespace, place_of
from buttress._checks import Array
from buttress.features import NystroemMap
from buttress.solvers.run import Step, Steps

# Adam's running means: the share of the old value that is kept, the share of the new one, and the least divisor. The
# share kept of squares is below the usual .999. The trial that chose it, FIRST_RATE and COOLING is not recorded.
TRAINING_MEAN_KEPT = 0.9
TRAINING_MEAN_NEW = 0.1
TRAINING_SQUARE_KEPT = 0.99
TRAINING_SQUARE_NEW = 0.01
TRAINING_LEAST_SIZE = 1e-8
FIRST_RATE = 0.02  # first step, in units of the largest coefficient at the start
COOLING = 20  # iterations after which the step is 1 / sqrt(2) of the first
ITERATIONS = 10  # Adam iterations between two objectives
LOOK_BACK = 5  # objectives over which the change is measured
JUDGED_ROWS = 2000  # most rows on which the objective is computed
# (X, y, theta, intercept) -> perturbed X
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

    One step is ten Adam iterations on batches. The objective (divided by C n) is then computed on all rows, or on 2,000
    fixed ones; the step with the best objective is the model. The change is the share by which the best objective fell
    in five steps.
    """
    n = len(X)
    xp = namespace(X)
    place = place_of(X)
    z = xp.concatenate([theta, place(np.array([float(intercept)]))])
    ridge = place(np.append(np.ones(len(theta)), 0.0) / (C * n))
    judge = rng.permutation(n)[:JUDGED_ROWS]
    adam = Adam(z)
    best = [np.inf] * LOOK_BACK
    while True:
        attacked = phi(worst(X[judge], y[judge], z[:-1], z[-1]))
        hinge = (1 - y[judge] * (attacked @ z[:-1] + z[-1])).clip(0, None).mean()
        objective = float(hinge + 0.5 * ridge @ z**2)
        best.append(min(best[-1], objective))
        change = (best[-1 - LOOK_BACK] - best[-1]) / best[-1] if best[-1] > 0 else 0.0
        yield Step((z[:-1] + 0, float(z[-1])), change=change, objective=objective, iterations=min(adam.t, ITERATIONS))
        for _ in range(ITERATIONS):
            rows = np.arange(n) if n <= batch else rng.choice(n, batch, replace=False)
            features = phi(worst(X[rows], y[rows], z[:-1], z[-1]))
            active = xp.where(y[rows] * (features @ z[:-1] + z[-1]) < 1, -y[rows], 0.0) / len(rows)
            g = xp.concatenate([active @ features, active.sum(axis=0)[None]]) + ridge * z
            z = z - adam.step(g)


class Adam:
    """Adam's steps, with decreasing size: running means of the gradient and of its square after t gradients."""

    def __init__(self, start: Array, first_rate: float = FIRST_RATE, cooling: float = COOLING):
        self.mean = 0 * start
        self.square = 0 * start
        self.t = 0
        self.cooling = cooling
        self.rate = first_rate * max(1.0, float(abs(start).max()))

    def step(self, g: Array) -> Array:
        """Return what to subtract for the gradient g."""
        self.t += 1
        self.mean = TRAINING_MEAN_KEPT * self.mean + TRAINING_MEAN_NEW * g
        self.square = TRAINING_SQUARE_KEPT * self.square + TRAINING_SQUARE_NEW * g**2
        step = self.rate / np.sqrt(1 + self.t / self.cooling)
        size = namespace(g).sqrt(self.square / (1 - TRAINING_SQUARE_KEPT**self.t)) + TRAINING_LEAST_SIZE
        return step * (self.mean / (1 - TRAINING_MEAN_KEPT**self.t)) / size
