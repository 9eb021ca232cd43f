"""Learn the weights with which support vector data description mixes several feature maps: the joint program.

    min over R2, c, xi, gamma   R2 + 1/(nu n) sum_i w_i xi_i
    subject to                  |sum_p gamma_p Phi_p(x_i) - c|^2 <= R2 + xi_i,  xi >= 0,  gamma >= 0,  sum_p gamma_p = 1

The kernel of sum_p gamma_p Phi_p is sum_p gamma_p^2 K_p, and the program is jointly convex. With V_p(a) = diag(K_p)'a -
a'K_p a it is min over gamma of F(gamma) = max_a sum_p gamma_p^2 V_p(a). For a given dual point a the best gamma_p is
proportional to 1/V_p(a). So the dual is

    max over a of H(V(a)),   H(V) = 1 / sum_p (1/V_p),   0 <= a_i <= w_i/(nu n),  sum_i a_i = 1

and F(gamma) - H(V(a)) is a certificate for any gamma and a. Every kernel gets a weight.

Source: Liu, A demo of reduced gradient descent optimization (2020), Eq. 3. Its Eq. 7 is another program.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import minimize

from buttress._checks import Array
from buttress.checkpoints.memory import Memory
from buttress.solvers.qp.kernel_stack import KernelStack, Trial, trial_of
from buttress.solvers.qp.kernel_weights import line_search
from buttress.solvers.run import Step, Steps, restartable

NO_VARIANCE = 1e-12  # of the largest V_p: a smaller one counts as this much, so that its weight stays finite
MIX_ROUNDS = 3  # mixtures of dual points added after each ball; they need no further program to be solved
NEGLIGIBLE = 1e-10  # multipliers of the master program below this are dropped
MASTER_TOL = 1e-14  # of SLSQP on the master program, whose variances are of the order of 1
MASTER_ROUNDS = 200  # most iterations of SLSQP
SHORTEST = 1e-12  # a step of gamma this short is rounding


def best_mix(V: Array) -> Array:
    """Return the gamma (m,) >= 0 of sum 1 that minimises sum_p gamma_p^2 V_p: proportional to 1/V_p."""
    inverse = 1 / np.maximum(V, NO_VARIANCE * max(float(V.max()), 1e-300))
    return np.asarray(inverse / inverse.sum())


def harmonic(V: Array) -> float:
    """Return H(V) = 1 / sum_p (1/V_p), 0 if a variance is not positive."""
    return float(1 / (1 / V).sum()) if (V > 0).all() else 0.0


def strongest_mixture(cuts: Array) -> Array:
    """Return the lambda (K,) >= 0 of sum 1 that maximises H(lambda'cuts) for V of dual points as the rows of ``cuts``.

    H is concave. The search starts from the best single row. Any lambda gives a valid bound, so stopping early costs
    only progress.
    """
    V = np.maximum(cuts, NO_VARIANCE * cuts.max())
    singles = 1 / (1 / V).sum(axis=1)
    unit = singles.max()
    start = np.zeros(len(V))
    start[int(singles.argmax())] = 1.0
    if len(V) == 1:
        return start

    def value(mix: Array) -> tuple[float, Array]:
        total = mix @ V / unit
        level = 1 / (1 / total).sum()
        return -level, -(V / unit) @ (level / total) ** 2

    found = minimize(value, start, jac=True, method="SLSQP", bounds=[(0, 1)] * len(V),
                     constraints={"type": "eq", "fun": lambda mix: mix.sum() - 1, "jac": np.ones_like},
                     options={"ftol": MASTER_TOL, "maxiter": MASTER_ROUNDS}).x
    found = np.where(found > NEGLIGIBLE, found, 0.0)
    found = found / found.sum() if found.any() else start
    return found if value(found)[0] <= value(start)[0] else start


class Bundle:
    """The dual points of all balls so far, mixtures of them, and their V (m,), which are cuts.

    Each dual point a bounds F(gamma) from below by sum_p gamma_p^2 V_p(a). The mixture of dual points that attains the
    minimum over gamma of the largest cut is a dual point too, and by concavity its bound is at least as good. So it
    adds a cut without solving another program.
    """

    def __init__(self, stack: KernelStack):
        self.stack = stack
        self.points: list[Array] = []
        self.cuts: list[Array] = []

    def add(self, trial: Trial) -> tuple[float, Array, Array]:
        """Take in a ball; return the best lower bound, and the dual point that gives it with its V."""
        self.points.append(trial.ball.a)
        self.cuts.append(trial.variances)
        for _ in range(MIX_ROUNDS):
            share = strongest_mixture(np.array(self.cuts))
            self.points.append(np.tensordot(share, self.points, axes=1))
            self.cuts.append(self.stack.variances(self.points[-1]))
        strongest = int(np.argmax([harmonic(V) for V in self.cuts]))
        return harmonic(self.cuts[strongest]), self.points[strongest], self.cuts[strongest]


@restartable
def joint_cuts(stack: KernelStack, mix: Array, *, memory: Memory | None = None) -> Steps:
    """Yield the best mix so far; the next one is optimal for the strongest mixture of all dual points so far.

    The gap is relative.
    """
    bundle = Bundle(stack)
    best: Trial | None = None
    start: Array | None = None
    if memory is not None:
        bundle.points, bundle.cuts = list(memory["points"]), list(memory["cuts"])
        best, start, mix = memory["best"] and trial_of(memory["best"]), memory["start"], memory["mix"]
        stack.restore(memory["stack"])
    while True:
        known: Callable[[], Memory] = partial(
            dict, points=tuple(bundle.points), cuts=tuple(bundle.cuts), best=best and best.memory(), start=start,
            mix=mix, stack=stack.memory())
        trial = stack.evaluate(mix**2, start)
        best = trial if best is None or trial.upper < best.upper else best
        lower, start, V = bundle.add(trial)
        yield Step((best, lower, start), gap=(best.upper - lower) / max(abs(best.upper), 1e-300), objective=best.upper,
                   memory=known)
        mix = best_mix(V)


@restartable
def joint_gradient(stack: KernelStack, mix: Array, *, memory: Memory | None = None) -> Steps:
    """Yield mixes along a reduced gradient of F, scaled by the curvature of a cut, with a line search.

    The gradient of F at gamma is 2 gamma_p V_p(a), with a the dual point of the ball at gamma. Projected on
    sum gamma = 1 and divided by the second derivatives of the cut, 2 V_p(a), it points to the minimum of the cut.
    The dual point taken is the strongest of the bundle, where F falls towards it: its own zigzags, because the ball
    keeps other rows after each step.
    """
    bundle = Bundle(stack)
    trial = stack.evaluate(mix**2, None) if memory is None else trial_of(memory["trial"])
    if memory is not None:
        bundle.points, bundle.cuts = list(memory["points"]), list(memory["cuts"])
        stack.restore(memory["stack"])
    while True:
        known: Callable[[], Memory] = partial(
            dict, points=tuple(bundle.points), cuts=tuple(bundle.cuts), trial=trial.memory(), stack=stack.memory())
        lower, point, V = bundle.add(trial)
        gap = (trial.upper - lower) / max(abs(trial.upper), 1e-300)
        yield Step((trial, lower, point), gap=gap, objective=trial.upper, memory=known)
        gamma = np.sqrt(trial.eta)
        D = best_mix(V) - gamma
        D = D if gamma * trial.variances @ D < 0 else best_mix(trial.variances) - gamma
        following = along_mix(stack, trial, gamma, D)
        if np.abs(D).max() <= SHORTEST or not following.upper < trial.upper:
            return
        trial = following


def along_mix(stack: KernelStack, trial: Trial, gamma: Array, D: Array) -> Trial:
    """Return the trial with the smallest F between gamma and gamma + D."""

    def at(s: float, start: Array) -> Trial:
        return stack.evaluate((gamma + s * D) ** 2, start)

    return line_search(at, lambda t: float(2 * np.sqrt(t.eta) * t.variances @ D), trial, 1.0, at(1.0, trial.ball.a))
