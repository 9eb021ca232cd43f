"""Adversarial training in Nystroem space: each row is replaced by the worst input near it.

    minimise over theta, b   1/2 ||theta||^2 + C sum_i max_{||d_i|| <= eps} max(0, 1 - y_i (theta'phi(x_i + d_i) + b))

Projected gradient steps on the margin search for the inner maximum. (The gradient of the hinge is 0 where the margin
exceeds 1.) Adam minimises the outer problem, with the subgradient at that maximum (Danskin's theorem). All of it runs
on the device of X, with numpy arrays or torch tensors.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from buttress._arrays import Place, namespace, place_of, to_numpy
from buttress._checks import Array
from buttress.checkpoints.memory import Memory, rng_state, set_rng_state
from buttress.features import NystroemMap
from buttress.solvers.run import Step, Steps, restartable

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


@restartable
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
    memory: Memory | None = None,
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
    if memory is not None:
        set_rng_state(rng, memory["first"])
    first = rng_state(rng)
    judge = rng.permutation(n)[:JUDGED_ROWS]
    adam = Adam(z)
    best = [np.inf] * LOOK_BACK
    if memory is not None:
        z = place(memory["z"])
        adam.restore(memory["adam"], place)
        best = list(memory["best"])
        set_rng_state(rng, memory["rng"])
    while True:
        attacked = phi(worst(X[judge], y[judge], z[:-1], z[-1]))
        hinge = (1 - y[judge] * (attacked @ z[:-1] + z[-1])).clip(0, None).mean()
        objective = float(hinge + 0.5 * ridge @ z**2)
        known = partial(_memory, z, adam, rng, first, tuple(best[-LOOK_BACK:]))
        best.append(min(best[-1], objective))
        change = (best[-1 - LOOK_BACK] - best[-1]) / best[-1] if best[-1] > 0 else 0.0
        yield Step((z[:-1] + 0, float(z[-1])), change=change, objective=objective, iterations=min(adam.t, ITERATIONS),
                   memory=known)
        for _ in range(ITERATIONS):
            rows = np.arange(n) if n <= batch else rng.choice(n, batch, replace=False)
            features = phi(worst(X[rows], y[rows], z[:-1], z[-1]))
            active = xp.where(y[rows] * (features @ z[:-1] + z[-1]) < 1, -y[rows], 0.0) / len(rows)
            g = xp.concatenate([active @ features, active.sum(axis=0)[None]]) + ridge * z
            z = z - adam.step(g)


def _memory(
    z: Array, adam: "Adam", rng: np.random.RandomState, first: Memory, best: tuple[float, ...]
) -> Memory:
    """Return what the descent goes on from; the rows of its objective are drawn first of all."""
    return {"z": to_numpy(z), "adam": adam.memory(), "rng": rng_state(rng), "first": first, "best": best}


class Adam:
    """Adam's steps, with decreasing size: running means of the gradient and of its square after t gradients."""

    def __init__(self, start: Array, first_rate: float = FIRST_RATE, cooling: float = COOLING):
        self.mean = 0 * start
        self.square = 0 * start
        self.t = 0
        self.cooling = cooling
        self.rate = first_rate * max(1.0, float(abs(start).max()))

    def memory(self) -> Memory:
        """Return the running means and how many gradients they are of."""
        return {"mean": to_numpy(self.mean), "square": to_numpy(self.square), "t": self.t}

    def restore(self, memory: Memory, place: Place) -> None:
        """Return to an earlier state."""
        self.mean = place(memory["mean"])
        self.square = place(memory["square"])
        self.t = memory["t"]

    def step(self, g: Array) -> Array:
        """Return what to subtract for the gradient g."""
        self.t += 1
        self.mean = TRAINING_MEAN_KEPT * self.mean + TRAINING_MEAN_NEW * g
        self.square = TRAINING_SQUARE_KEPT * self.square + TRAINING_SQUARE_NEW * g**2
        step = self.rate / np.sqrt(1 + self.t / self.cooling)
        size = namespace(g).sqrt(self.square / (1 - TRAINING_SQUARE_KEPT**self.t)) + TRAINING_LEAST_SIZE
        return step * (self.mean / (1 - TRAINING_MEAN_KEPT**self.t)) / size
