"""Learn the weights of several kernels in support vector data description.

    V_p(a) = diag(K_p)'a - a'K_p a,    J(eta) = max_a sum_p eta_p V_p(a) over the dual points a of ``soft_ball.py``

"minimax" minimises J over the simplex. J is convex with gradient V(a), and its minimum equals max_a min_p V_p(a), so
J(eta) - min_p V_p(a) is a certificate for any eta and a.

"joint" learns the weights gamma >= 0 of sum 1 with which feature maps are mixed:

    min over R2, c, xi, gamma   R2 + 1/(nu n) sum_i w_i xi_i
    subject to                  |sum_p gamma_p Phi_p(x_i) - c|^2 <= R2 + xi_i,  xi >= 0

The kernel of sum_p gamma_p Phi_p is sum_p gamma_p^2 K_p, and the program is jointly convex: min over gamma of
F(gamma) = max_a sum_p gamma_p^2 V_p(a). For a given dual point a the best gamma_p is proportional to 1/V_p(a). So the
dual is max over a of H(V(a)), H(V) = 1 / sum_p (1/V_p), and F(gamma) - H(V(a)) is a certificate for any gamma and a.

Both are solved by cuts. "spread" is max_a ||V(a)||_2. It is not convex; ``alternate`` increases it step by step.

Sources: Liu, A demo of reduced gradient descent optimization (2020), Eq. 3 (joint), Eq. 7 (min over gamma) and Eq.
10-11 (max over gamma), which are different problems; Lemarechal, Nemirovskii & Nesterov, New variants of bundle methods
(1995) for the level method.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize, nnls

from buttress._checks import TINY, Array
from buttress.solvers.ball.kernel_stack import KernelStack, Trial
from buttress.solvers.run import Step, Steps

NO_WEIGHT = 1e-12  # weights below this become 0, and variances below this share of the largest count as this much


class BestSoFar(NamedTuple):
    """The best trial so far; a lower bound of the objective over all weights, and the dual point that proves it."""

    trial: Trial
    lower: float = float("nan")
    point: Array | None = None

    @property
    def gap(self) -> float:
        return self.trial.ball.gap if self.point is None else self.trial.upper - self.lower


def level_cuts(stack: KernelStack, eta: Array) -> Steps:
    """Yield the best weights of "minimax" so far; the next are the closest to them at which all cuts are below a level.

    The linear program over the cuts bounds J from below, and its multipliers mix the dual points.
    """

    def following(best: Trial, cuts: Array, strongest: Array) -> Array:
        lower = float(strongest.min())
        return nearest_low(best.eta, cuts, lower + 0.3 * (best.upper - lower))  # the level method's lambda

    return _by_cuts(stack, eta, lambda cuts: lowest(cuts)[1], lambda V: float(V.min()), following)


def joint_cuts(stack: KernelStack, gamma: Array) -> Steps:
    """Yield the best weights of "joint" so far; the next are optimal for the strongest mixture of all dual points."""

    def following(best: Trial, cuts: Array, strongest: Array) -> Array:
        return best_mix(strongest) ** 2

    return _by_cuts(stack, gamma**2, strongest_mixture, harmonic, following)


def _by_cuts(
    stack: KernelStack, eta: Array, mixture: Callable[[Array], Array], bound: Callable[[Array], float],
    following: Callable[[Trial, Array, Array], Array],
) -> Steps:
    """Yield what is :class:`BestSoFar` after each ball; the gap is relative.

    The V of each dual point a is a cut, which gives a lower ``bound`` of the objective. The mixture of dual points that
    attains the minimum over the weights of the largest cut is a dual point too, and by concavity its bound is at least
    as good. So it adds a cut without solving another program. ``following`` chooses the next weights from the best
    trial, all cuts and the strongest one.
    """
    cuts: list[Array] = []
    points: list[Array] = []
    best: Trial | None = None
    start: Array | None = None
    while True:
        trial = stack.evaluate(eta, start)
        best = trial if best is None or trial.upper < best.upper else best
        points.append(trial.ball.a)
        cuts.append(trial.variances)
        for _ in range(2):  # these cuts need no further program to be solved
            points.append(np.tensordot(mixture(np.array(cuts)), points, axes=1))
            cuts.append(stack.variances(points[-1]))
        strongest = int(np.argmax([bound(V) for V in cuts]))
        lower = bound(cuts[strongest])
        yield Step(BestSoFar(best, lower, points[strongest]), gap=(best.upper - lower) / max(abs(best.upper), TINY),
                   objective=best.upper)
        start = points[-1]
        eta = following(best, np.array(cuts), cuts[strongest])


def lowest(V: Array) -> tuple[Array, Array]:
    """Return the weights that minimise max_k V_k'eta over the simplex, and the multipliers of the cuts V."""
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
    if not abs(residual[-1]) > 1e-14:  # no weights reach the level
        return lowest(cuts)[0]
    moved = eta + B @ (-unit * residual[:-1] / residual[-1])
    moved[moved < NO_WEIGHT] = 0.0
    return np.asarray(moved / moved.sum())


def best_mix(V: Array) -> Array:
    """Return the gamma (m,) >= 0 of sum 1 that minimises sum_p gamma_p^2 V_p: proportional to 1/V_p."""
    inverse = 1 / np.maximum(V, NO_WEIGHT * max(float(V.max()), TINY))
    return np.asarray(inverse / inverse.sum())


def harmonic(V: Array) -> float:
    """Return H(V) = 1 / sum_p (1/V_p), 0 if a variance is not positive."""
    return float(1 / (1 / V).sum()) if (V > 0).all() else 0.0


def strongest_mixture(cuts: Array) -> Array:
    """Return the lambda (K,) >= 0 of sum 1 that maximises H(lambda'cuts) for V of dual points as the rows of ``cuts``.

    H is concave. The search starts from the best single row. Any lambda gives a valid bound, so stopping early costs
    only progress.
    """
    V = np.maximum(cuts, NO_WEIGHT * cuts.max())
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
                     options={"ftol": 1e-14}).x
    found = np.maximum(found, 0) / max(float(np.maximum(found, 0).sum()), TINY)
    return found if value(found)[0] <= value(start)[0] else start


def alternate(stack: KernelStack, eta: Array) -> Steps:
    """Yield the balls of gamma <- V(a) / ||V(a)||, the closed form of Eq. 11; the objective is -gamma'V(a).

    No round lowers gamma'V(a). The change is the larger of its relative rise and the change of gamma. The weights of
    the kernels are gamma / sum(gamma), which give the same ball.
    """
    gamma = eta / np.linalg.norm(eta)
    trial = stack.evaluate(gamma / gamma.sum(), None)
    last = -np.inf
    change = np.inf
    while True:
        spread = float(gamma @ trial.variances)
        yield Step(BestSoFar(trial), change=max(change, abs(spread - last) / max(spread, TINY)), objective=-spread)
        following = trial.variances / np.linalg.norm(trial.variances)
        last = spread
        change = float(np.abs(following - gamma).max())
        gamma = following
        trial = stack.evaluate(gamma / gamma.sum(), trial.ball.a)


def fixed(stack: KernelStack, eta: Array) -> Steps:
    """Yield the ball of the given weights, once."""
    trial = stack.evaluate(eta, None)
    yield Step(BestSoFar(trial), objective=trial.upper, done=trial.ball.outcome.status != "max_time")
