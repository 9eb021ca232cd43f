"""Learn the weights of several kernels in support vector data description.

    V_p(a) = diag(K_p)'a - a'K_p a,    J(eta) = max_a sum_p eta_p V_p(a) over the dual points a of ``ball.py``

"minimax" minimises J over the simplex. J is convex with gradient V(a), and its minimum equals max_a min_p V_p(a), so
J(eta) - min_p V_p(a) is a certificate for any eta and a. ``level_cuts`` and ``reduced_gradient`` solve it.
"spread" is max_a ||V(a)||_2. It is not convex; ``alternate`` increases it step by step.

Sources: Liu, A demo of reduced gradient descent optimization (2020), Eq. 7 (min over gamma) and Eq. 10-11 (max over
gamma), which are different problems; Rakotomamonjy et al., SimpleMKL (JMLR 2008); Lemarechal, Nemirovskii & Nesterov,
New variants of bundle methods (1995) for the level method.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import linprog, nnls

from buttress._checks import TINY, Array
from buttress.checkpoints.memory import Memory
from buttress.solvers.qp.kernel_stack import KernelStack, Trial, trial_of
from buttress.solvers.run import Step, Steps, restartable

LEVEL = 0.3  # how far up from the lower bound to the best value the next weights may lie (the level method's lambda)
CUT_ROUNDS = 2  # mixtures of dual points added after each ball; these cuts need no further program to be solved
NO_WEIGHT = 1e-12  # weights below this become 0
NO_SLOPE = 1e-12  # of the largest: slopes below this are rounding
INFEASIBLE = 1e-14  # if the last entry of the residual is smaller than this, no weights reach the level
FLAT = 0.01  # of the first slope: the line search ends at a slope this small
LINE_TRIALS = 12  # most balls solved in one line search


@restartable
def level_cuts(stack: KernelStack, eta: Array, *, memory: Memory | None = None) -> Steps:
    """Yield the best weights so far; the next are the closest to them at which all cuts eta'V are below the level.

    Here and below the state is the trial, a lower bound of J over all weights, and the dual point that proves it.

    The linear program over the cuts bounds J from below. The mixture of dual points that attains it is a dual point
    too, and by concavity its bound is at least as good. So it adds a cut without solving another program. The gap is
    relative.
    """
    cuts: list[Array] = []
    points: list[Array] = []
    best: Trial | None = None
    start: Array | None = None
    if memory is not None:
        cuts, points, best = list(memory["cuts"]), list(memory["points"]), memory["best"] and trial_of(memory["best"])
        start, eta = memory["start"], memory["eta"]
        stack.restore(memory["stack"])
    while True:
        known: Callable[[], Memory] = partial(
            dict, cuts=tuple(cuts), points=tuple(points), best=best and best.memory(), start=start, eta=eta,
            stack=stack.memory())
        trial = stack.evaluate(eta, start)
        cuts.append(trial.variances)
        points.append(trial.ball.a)
        best = trial if best is None or trial.upper < best.upper else best
        for _ in range(CUT_ROUNDS):
            _, mix = lowest(cuts)
            points.append(np.tensordot(mix, points, axes=1))
            cuts.append(stack.variances(points[-1]))
        strongest = int(np.argmax([V.min() for V in cuts]))
        lower = float(cuts[strongest].min())
        gap = best.upper - lower
        yield Step((best, lower, points[strongest]), gap=gap / max(abs(best.upper), TINY), objective=best.upper,
                   memory=known)
        start = points[-1]
        eta = nearest_low(best.eta, np.array(cuts), lower + LEVEL * gap)


def lowest(cuts: list[Array]) -> tuple[Array, Array]:
    """Return the weights that minimise max_k cuts_k'eta over the simplex, and the multipliers of the cuts."""
    V = np.array(cuts)
    K, m = V.shape
    scale = max(float(np.abs(V).max()), TINY)
    found = linprog(np.append(np.zeros(m), 1.0), A_ub=np.column_stack([V / scale, -np.ones(K)]), b_ub=np.zeros(K),
                    A_eq=np.append(np.ones(m), 0.0)[None], b_eq=[1.0], bounds=[(0, None)] * m + [(None, None)],
                    method="highs")
    mix = np.maximum(-found.ineqlin.marginals, 0)
    return found.x[:m], mix / mix.sum()


def nearest_low(eta: Array, cuts: Array, level: float) -> Array:
    """Return the point of the simplex nearest to ``eta`` with cuts'eta <= level.

    This is least distance programming by non-negative least squares (Lawson & Hanson, chapter 23). The weights are
    written as eta + B z, with orthonormal columns of B orthogonal to 1, so that their sum stays 1.
    """
    m = len(eta)
    if m == 1:
        return eta
    B = np.linalg.qr(np.column_stack([np.ones(m), np.eye(m)[:, 1:]]))[0][:, 1:]
    G = np.vstack([B, -cuts @ B])
    h = np.append(-eta, cuts @ eta - level)
    size = np.maximum(np.linalg.norm(G, axis=1), TINY)
    G = G / size[:, None]
    h = h / size
    unit = max(float(h.max()), TINY)  # distances of the order of 1 whatever the gap
    E = np.vstack([G.T, h[None] / unit])
    target = np.append(np.zeros(m - 1), 1.0)
    residual = E @ nnls(E, target)[0] - target
    if not abs(residual[-1]) > INFEASIBLE:
        return lowest(list(cuts))[0]
    moved = eta + B @ (-unit * residual[:-1] / residual[-1])
    moved[moved < NO_WEIGHT] = 0.0
    return np.asarray(moved / moved.sum())


@restartable
def reduced_gradient(stack: KernelStack, eta: Array, *, memory: Memory | None = None) -> Steps:
    """Yield weights along SimpleMKL's reduced gradient: to faces of the simplex while J falls, then a line search."""
    trial = stack.evaluate(eta, None) if memory is None else trial_of(memory["trial"])
    lower = -np.inf
    point = trial.ball.a
    if memory is not None:
        lower, point = memory["lower"], memory["point"]
        stack.restore(memory["stack"])
    while True:
        if trial.variances.min() > lower:
            lower = float(trial.variances.min())
            point = trial.ball.a
        gap = (trial.upper - lower) / max(abs(trial.upper), TINY)
        yield Step((trial, lower, point), gap=gap, objective=trial.upper,
                   memory=partial(dict, trial=trial.memory(), lower=lower, point=point, stack=stack.memory()))
        D = descent_direction(trial.eta, trial.variances)
        if not D.any():
            return
        trial, D, reach, end = to_the_face(stack, trial, D)
        if end is not None:
            trial = along_weights(stack, trial, D, reach, end)


def descent_direction(eta: Array, V: Array) -> Array:
    """Return the reduced gradient direction: the sum stays 1, and weights of 0 that would turn negative stay 0."""
    m = int(eta.argmax())
    reduced = V - V[m]
    reduced[np.abs(reduced) <= NO_SLOPE * np.abs(V).max()] = 0.0
    D = np.where((eta == 0) & (reduced > 0), 0.0, -reduced)
    D[m] = 0.0
    D[m] = -D.sum()
    return D


def to_the_face(stack: KernelStack, trial: Trial, D: Array) -> tuple[Trial, Array, float, Trial | None]:
    """Follow D until a weight becomes 0. If J still falls there, fix that weight at 0 and repeat.

    Returns the trial reached, the remaining direction, the step to the next face and the trial there (None if no
    direction remains).
    """
    tallest = np.abs(D).max()
    while (D < 0).any():
        ratio = np.divide(-trial.eta, D, out=np.full(len(D), np.inf), where=D < 0)
        reach, first = float(ratio.min()), int(ratio.argmin())
        eta = np.maximum(trial.eta + reach * D, 0)
        eta[first] = 0.0
        end = stack.evaluate(eta / eta.sum(), trial.ball.a)
        if D @ end.variances > 0:
            return trial, D, reach, end
        trial = end
        D = D.copy()
        D[int(eta.argmax())] += D[first]
        D[first] = 0.0
        D[np.abs(D) <= NO_SLOPE * tallest] = 0.0
        if not D @ trial.variances < 0:
            return trial, D, 0.0, None
    return trial, D, 0.0, None


def along_weights(stack: KernelStack, trial: Trial, D: Array, reach: float, end: Trial) -> Trial:
    """Return the trial with the smallest J along D."""
    eta = trial.eta

    def at(s: float, start: Array) -> Trial:
        return stack.evaluate(eta + s * D, start)

    return line_search(at, lambda t: float(D @ t.variances), trial, reach, end)


def line_search(at: Callable[[float, Array], Trial], slope: Callable[[Trial], float], trial: Trial, reach: float,
                end: Trial) -> Trial:
    """Return the trial with the smallest J between ``trial`` (at 0) and ``end`` (at ``reach``).

    J is convex, so its slope increases; the root of the slope is found by false position (Illinois). ``at`` solves
    for the ball at one point of the line, from a given dual point.
    """
    low = 0.0
    high = reach
    left = slope(trial)
    right = slope(end)
    small = FLAT * abs(left)
    best = min(trial, end, key=lambda t: t.upper)
    for _ in range(LINE_TRIALS):
        if not left < 0 < right:
            break
        s = (low * right - high * left) / (right - left)
        middle = at(s, best.ball.a)
        here = slope(middle)
        best = min(best, middle, key=lambda t: t.upper)
        if abs(here) <= small:
            break
        if here < 0:
            low = s
            left = here
            right /= 2
        else:
            high = s
            right = here
            left /= 2
    return best


@restartable
def alternate(stack: KernelStack, eta: Array, *, memory: Memory | None = None) -> Steps:
    """Yield the balls of gamma <- V(a) / ||V(a)||, the closed form of Eq. 11; the objective is -gamma'V(a).

    No round lowers gamma'V(a). The change is the larger of its relative rise and the change of gamma. The weights of
    the kernels are gamma / sum(gamma), which give the same ball.
    """
    gamma = eta / np.linalg.norm(eta)
    trial = stack.evaluate(gamma / gamma.sum(), None) if memory is None else trial_of(memory["trial"])
    last = -np.inf
    change = np.inf
    if memory is not None:
        gamma, last, change = memory["gamma"], memory["last"], memory["change"]
        stack.restore(memory["stack"])
    while True:
        spread = float(gamma @ trial.variances)
        most = max(change, abs(spread - last) / max(spread, TINY))
        yield Step((trial, np.nan, None), change=most, objective=-spread, memory=partial(
            dict, trial=trial.memory(), gamma=gamma, last=last, change=change, stack=stack.memory()))
        following = trial.variances / np.linalg.norm(trial.variances)
        last = spread
        change = float(np.abs(following - gamma).max())
        gamma = following
        trial = stack.evaluate(gamma / gamma.sum(), trial.ball.a)


@restartable
def fixed(stack: KernelStack, eta: Array, *, memory: Memory | None = None) -> Steps:
    """Yield the ball of the given weights, once."""
    trial = stack.evaluate(eta, None) if memory is None else trial_of(memory["trial"])
    if memory is not None:
        stack.restore(memory["stack"])
    whole = trial.ball.outcome.status != "max_time"
    yield Step((trial, np.nan, None), objective=trial.upper, done=whole,
               memory=partial(dict, trial=trial.memory(), stack=stack.memory()))
