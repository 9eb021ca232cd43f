"""Adversarial training of a kernel expansion: each row is replaced by the worst input near it.

    f(x) = sum_j a_j k(x, z_j) + b,   a column of a and b for each score
    minimise over a, b and z   1/2 ||f||^2 + C sum_i max over ||d_i|| <= eps of log(1 + sum_r exp(-lead_r(x_i + d_i)))

lead_r is by how much the score of the row's class exceeds that of rival r: the loss is the cross-entropy, of two
classes the logistic loss. Projected gradient steps search for the inner maximum. Adam minimises the outer problem, with
the gradient at that maximum (Danskin's theorem). Radii grow to eps over the first quarter, and steps shrink to 0. All
of it runs on the device of X, with numpy arrays or torch tensors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from buttress._arrays import Place, namespace, place_of, to_numpy
from buttress._checks import Array
from buttress._types import Rows
from buttress.checkpoints.memory import Memory, rng_state, set_rng_state
from buttress.kernels import Kernel
from buttress.kernels.points import Point, centred
from buttress.solvers.run import SPENT, Step, Steps, restartable

# Adam's running means: the share of the old value that is kept, the share of the new one, and the least divisor. The
# share kept of squares is below the usual .999. The trial that chose it is not recorded.
TRAINING_MEAN_KEPT = 0.9
TRAINING_MEAN_NEW = 0.1
TRAINING_SQUARE_KEPT = 0.99
TRAINING_SQUARE_NEW = 0.01
TRAINING_LEAST_SIZE = 1e-8
ITERATIONS = 20  # Adam iterations between two objectives
JUDGED_ROWS = 500  # most rows on which the objective is computed
# Adam's longest steps: of the coefficients in units of three standard deviations at the start, of the intercepts, and
# of the centres in units of the standard deviation of X.
COEF_RATE = 0.02
INTERCEPT_RATE = 0.02
CENTRE_RATE = 0.01
LEAST_SPREAD = 1e-3  # of coefficients that are all alike
WARM_UP = 0.1  # share of the iterations over which steps grow to their longest
GROWTH = 4  # the radius reaches eps after 1 / GROWTH of the iterations


@dataclass
class Machine:
    """Coefficients (m, k), intercepts (k,) and centres (m, d)."""

    coef: Array
    intercept: Array
    centers: Array


# (the kernel's values at any inputs, machine, row numbers, share of the radius) -> those rows of X, perturbed
Worst = Callable[[Any, Machine, Rows, float], Array]


def cross_entropy(leads: Array) -> tuple[Array, Array]:
    """Return log(1 + sum_r exp(-lead_r)) of each row (n,), and minus its slopes in the leads (n, r)."""
    xp = namespace(leads)
    least = -xp.amax((-leads).clip(0, None), 1)
    shares = xp.exp(least[:, None] - leads)
    total = xp.exp(least) + shares.sum(1)
    return xp.log(total) - least, shares / total[:, None]


def score_slopes(point: Point, machine: Machine, V: Array) -> tuple[Array, Array]:
    """Return the losses (n,) at a point, and minus their gradient in the scores (n, k); V (n, r, k) are contrasts."""
    scores = point.values @ machine.coef + machine.intercept
    losses, shares = cross_entropy((V @ scores[:, :, None])[:, :, 0])
    return losses, (shares[:, None] @ V)[:, 0]


@restartable
def joint_descent(
    kernel: Kernel, X: Array, V: Array, machine: Machine, *, C: float, worst: Worst, batch: int, iterations: int,
    move: bool, rng: np.random.RandomState, left: Callable[[], float | None] = lambda: None,
    memory: Memory | None = None,
) -> Steps:
    """Yield machines from a start; V (n, r, k) are the contrasts of each row's class, ``move`` trains the centres too.

    One step is twenty Adam iterations on batches. The objective (divided by C n) is then computed at the full radius on
    all rows, or on 500 fixed ones; the step with the best objective is the model. Raises TimeoutError where no seconds
    are ``left`` within a step.
    """
    n, ridge = len(X), 1 / (C * len(X))
    if memory is not None:
        set_rng_state(rng, memory["first"])
    first = rng_state(rng)
    judged = rng.permutation(n)[:JUDGED_ROWS]
    shapes = [machine.coef.shape, machine.intercept.shape, machine.centers.shape]
    z, rates = _flat(machine), _rates(machine, _deviation(X), move)
    adam = Adam(0 * z, first_rate=1.0, cooling=np.inf)
    if memory is not None:
        z = resumed(memory, adam, rng, place_of(X))
        machine = _shaped(z, shapes) if adam.t else machine
    while True:
        drawn = rng_state(rng)  # before the objective, whose worst inputs start at random
        objective = _objective(kernel, V, judged, machine, ridge, worst)
        yield Step(machine, objective=objective, done=adam.t >= iterations, iterations=min(adam.t, ITERATIONS),
                   memory=partial(descent_memory, z, adam, drawn, first))
        for _ in range(ITERATIONS):
            check_time(left)
            rows = np.arange(n) if n <= batch else rng.choice(n, batch, replace=False)
            done = adam.t / iterations
            g = _gradient(kernel, V, rows, machine, ridge, worst, min(1.0, 0.1 + GROWTH * done), move)
            size = min(1.0, 0.1 + done / WARM_UP) * max(0.0, 1 - done)
            z = z - size * (rates * adam.step(_flat(g)))
            machine = _shaped(z, shapes)


def check_time(left: Callable[[], float | None]) -> None:
    """Raise TimeoutError where no seconds are ``left``: a descent then ends with the best of its steps."""
    if left() == SPENT:
        raise TimeoutError("No time is left for another step.")


def _objective(kernel: Kernel, V: Array, rows: Rows, machine: Machine, ridge: float, worst: Worst) -> float:
    at = centred(kernel, machine.centers)
    losses, _ = score_slopes(at(worst(at, machine, rows, 1.0)), machine, V[rows])
    K = at(machine.centers).values
    return float(losses.mean() + 0.5 * ridge * (machine.coef * (K @ machine.coef)).sum())


def _gradient(
    kernel: Kernel, V: Array, rows: Rows, machine: Machine, ridge: float, worst: Worst, share: float, move: bool
) -> Machine:
    """Return the gradient of the mean loss at the worst inputs and of ridge / 2 ||f||^2, as a machine."""
    at = centred(kernel, machine.centers)
    moved = worst(at, machine, rows, share)
    point = at(moved)
    pull = score_slopes(point, machine, V[rows])[1] / -len(rows)
    among = at(machine.centers)
    coef = point.values.T @ pull + ridge * (among.values @ machine.coef)
    centers = 0 * machine.centers
    if move:  # k(x, z) = k(z, x): its gradient in z is that of its first argument
        centers = (centred(kernel, moved)(machine.centers).gradient((pull @ machine.coef.T).T)
                   + among.gradient(ridge * (machine.coef @ machine.coef.T)))
    return Machine(coef, pull.sum(0), centers)


def _rates(machine: Machine, spread: float, move: bool) -> Array:
    """Return the longest step of each parameter."""
    coef = COEF_RATE * max(LEAST_SPREAD, 3 * _deviation(machine.coef))
    return _flat(Machine(0 * machine.coef + coef, 0 * machine.intercept + INTERCEPT_RATE,
                         0 * machine.centers + (CENTRE_RATE * spread if move else 0.0)))


def _deviation(A: Array) -> float:
    """Return the standard deviation of all entries; numpy and torch divide by other numbers in theirs."""
    return float(((A - A.mean()) ** 2).mean()) ** 0.5


def _flat(machine: Machine) -> Array:
    parts = (machine.coef, machine.intercept, machine.centers)
    return namespace(machine.coef).concatenate([part.reshape(-1) for part in parts])


def _shaped(z: Array, shapes: list[tuple[int, ...]]) -> Machine:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    starts = [0, *ends[:-1]]
    return Machine(*(z[start:end].reshape(shape) for start, end, shape in zip(starts, ends, shapes, strict=True)))


def descent_memory(z: Array, adam: "Adam", drawn: Memory, first: Memory) -> Memory:
    """Return what a descent goes on from: its random generator now, and first of all, when it drew the rows it judges.
    """
    return {"z": to_numpy(z), "adam": adam.memory(), "rng": drawn, "first": first}


def resumed(memory: Memory, adam: "Adam", rng: np.random.RandomState, place: Place) -> Array:
    """Put ``adam`` and the random generator back where a descent's memory left them, and return its parameters z."""
    adam.restore(memory["adam"], place)
    set_rng_state(rng, memory["rng"])
    return place(memory["z"])


class Adam:
    """Adam's steps, with decreasing size: running means of the gradient and of its square after t gradients."""

    def __init__(self, start: Array, first_rate: float, cooling: float):
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
        step = float(self.rate / np.sqrt(1 + self.t / self.cooling))
        size = namespace(g).sqrt(self.square / (1 - TRAINING_SQUARE_KEPT**self.t)) + TRAINING_LEAST_SIZE
        return step * (self.mean / (1 - TRAINING_MEAN_KEPT**self.t)) / size
