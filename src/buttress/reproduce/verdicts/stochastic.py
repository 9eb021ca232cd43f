"""The first step of the lecture, and lemmas of the adversarial SVM paper on doubly stochastic gradients, simulated."""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array
from buttress.solvers.linear.primal import Rate, best_rate

__all__ = ["first_step", "lemma_1", "lemma_3", "lemma_6"]

RUNS = 60
POINTS = 10


def feature_errors(step: Callable[[int], float], shrink: float, sizes: list[int]) -> Array:
    """Return the mean squared difference of random features and kernel after each of ``sizes`` steps of the hinge.

    f_t = sum_i a_i phi_i(x_i) phi_i, one random cosine a step, and h_t = sum_i a_i k(x_i, .) with the same a.
    """
    total = np.zeros(len(sizes))
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        X = rng.normal(size=(max(sizes), 2))
        y = np.sign(X[:, 0] + 0.3 * rng.normal(size=len(X)))
        Z = rng.normal(size=(POINTS, 2))
        omega = rng.normal(size=X.shape)
        phase = rng.uniform(0, 2 * np.pi, size=len(X))
        at_rows = np.sqrt(2) * np.cos(X @ omega.T + phase)  # the t-th feature of every row
        at_points = np.sqrt(2) * np.cos(Z @ omega.T + phase)
        kernel = np.exp(-0.5 * ((Z[:, None] - X[None]) ** 2).sum(axis=2))
        a = np.zeros(len(X))
        for t in range(len(X)):
            score = at_rows[t, :t] @ (a[:t] * np.diagonal(at_rows)[:t])
            eta = step(t + 1)
            a[:t] *= 1 - eta * shrink
            a[t] = eta * y[t] * (y[t] * score < 1)
            if t + 1 in sizes:
                f = at_points[:, : t + 1] @ (a[: t + 1] * np.diagonal(at_rows)[: t + 1])
                total[sizes.index(t + 1)] += float(((f - kernel[:, : t + 1] @ a[: t + 1]) ** 2).mean()) / RUNS
    return total


def lemma_1() -> dict[str, float]:
    """Slope on logarithmic axes of the error due to random features under steps 1.5/t: -1 for O(1/t)."""
    errors = feature_errors(lambda t: 1.5 / t, 1.0, [100, 400])
    return {"slope": float(np.log(errors[1] / errors[0]) / np.log(4))}


def lemma_3() -> dict[str, float]:
    """Error due to random features under a constant step, and under half of it, once both have settled."""
    errors = [feature_errors(lambda t, eta=eta: eta, 1.0, [400])[0] for eta in (0.1, 0.05)]  # type: ignore[misc]
    return {"ratio of half the step": float(errors[1] / errors[0])}


def lemma_6() -> dict[str, float]:
    """Largest |a_t^i| t / theta for steps theta/i and a shrinkage s: at most 1 where theta s >= 1, from step 2 on."""
    def largest(product: float) -> float:
        t = 200
        factors = np.array([1 - product / j for j in range(1, t + 1)])
        coefficients = [abs(np.prod(factors[i:])) / i for i in range(2, t + 1)]
        return float(max(coefficients) * t)

    return {"theta s = 0.5": largest(0.5), "theta s = 1": largest(1.0), "theta s = 1.5": largest(1.5)}


def first_step() -> dict[str, float]:
    """Mean squared distance on mu z^2/2, mu = .5, noise 1, z_0 = 2, after 1,000 steps of a / (1 + decay t).

    It is exact: p_(t+1) = (1 - eta mu)^2 p_t + eta^2 M. The lecture's best a and decay, and a hundredth of that a.
    """
    mu, noise, start = 0.5, 1.0, 4.0
    best = best_rate(mu, noise, start)

    def after(rate: Rate, steps: int) -> float:
        p = start
        for t in range(steps):
            p = (1 - rate(t) * mu) ** 2 * p + rate(t) ** 2 * noise
        return p

    return {
        "best first step": after(best, 1000),
        "a hundredth of it": after(Rate(best.first / 100, best.decay), 1000),
    }
