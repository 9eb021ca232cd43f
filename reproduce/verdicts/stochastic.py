"""The first step of the lecture, and lemmas of the adversarial SVM paper on doubly stochastic gradients, simulated."""

from functools import cache
from typing import NamedTuple

import numpy as np

from buttress._checks import Array
from buttress.adversarial import AdvSVM
from buttress.features import feature_radius
from buttress.kernels import RBF
from buttress.solvers.linear.primal import Rate, best_rate

__all__ = ["first_step", "lemma_1", "lemma_2", "lemma_3", "lemma_4", "lemma_6", "transient"]

RUNS = 100
ROWS = 40
KERNEL = RBF(0.5)
RADII = {"natural": 0.0, "attacked": 0.1}  # in input space


class Problem(NamedTuple):
    """Rows, labels, the radius in feature space, and coefficients of f*, the minimiser of 1/2 |f|^2 + mean hinge."""

    X: Array
    y: Array
    radius: float
    best: Array


def problem(eps: float) -> Problem:
    """Return 40 rows of two columns with noisy labels, and the exact solution for this radius."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=ROWS))
    exact = AdvSVM(kernel=KERNEL, norm="l2", eps=eps, C=1.0, fit_intercept=False, tol=1e-8)
    scores = exact.fit(X, y).decision_function(X)
    best = np.linalg.lstsq(KERNEL(X, X), scores, rcond=1e-10)[0]
    return Problem(X, y, feature_radius(KERNEL, eps), np.asarray(best, dtype=np.float64))


@cache
def errors(first: float, power: int, eps: float, sizes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the errors due to random features and due to random rows after each of ``sizes`` steps, means of 100 runs.

    Step t is first / t^power long and takes one row x_i and one random cosine phi:
    f <- s f + a phi(x_i) phi,  h <- s h + a k(x_i, .),  with a = step y_i and s = 1 - step (1 + radius / |h|) where
    1 - y_i f(x_i) + radius |h| > 0, else a = 0 and s = 1 - step.
    The first error is (f - h)^2 in the mean of the rows, the second |h - f*|^2, the norm being that of the kernel.
    """
    X, y, radius, best = problem(eps)
    K = KERNEL(X, X)
    rng = np.random.default_rng(1)
    runs = np.arange(RUNS)
    f = np.zeros((RUNS, ROWS))
    coef = np.zeros((RUNS, ROWS))
    found = []
    for t in range(1, max(sizes) + 1):
        i = rng.integers(ROWS, size=RUNS)
        phi = np.sqrt(2) * np.cos(rng.normal(size=(RUNS, 2)) @ X.T + rng.uniform(0, 2 * np.pi, size=(RUNS, 1)))
        step = first / t**power
        norm = np.sqrt(((coef @ K) * coef).sum(axis=1).clip(0))
        active = 1 - y[i] * f[runs, i] + radius * norm > 0
        shrink = 1 - step * (1 + radius * active / np.where(norm > 0, norm, np.inf))
        a = step * y[i] * active
        f = shrink[:, None] * f + (a * phi[runs, i])[:, None] * phi
        coef *= shrink[:, None]
        coef[runs, i] += a
        if t in sizes:
            away = coef - best
            found.append((((f - coef @ K) ** 2).mean(), ((away @ K) * away).sum(axis=1).mean()))
    features, rows = np.transpose(found)
    return features, rows


def slopes(part: int) -> dict[str, float]:
    """Slopes on logarithmic axes from 100 to 400 steps of 1.5/t of an error, with a radius and without."""
    found = {name: errors(1.5, 1, eps, (100, 400))[part] for name, eps in RADII.items()}
    return {f"slope, {name}": float(np.log(error[1] / error[0]) / np.log(4)) for name, error in found.items()}


def ratios(part: int) -> dict[str, float]:
    """Return the error under a constant step of .05 over that under .1, when both have settled."""
    found = {}
    for name, eps in RADII.items():
        whole, half = (errors(eta, 0, eps, (400,))[part][0] for eta in (0.1, 0.05))
        found[f"ratio of half the step, {name}"] = float(half / whole)
    return found


def lemma_1() -> dict[str, float]:
    """Error due to random features under steps 1.5/t: slope -1 for O(1/t)."""
    return slopes(0)


def lemma_2() -> dict[str, float]:
    """Error due to random rows under steps 1.5/t: slope -1 for O(1/t)."""
    return slopes(1)


def lemma_3() -> dict[str, float]:
    """Error due to random features under a constant step, and under half of it."""
    return ratios(0)


def lemma_4() -> dict[str, float]:
    """Error due to random rows under a constant step, and under half of it."""
    return ratios(1)


def transient() -> dict[str, float]:
    """Return the error due to random rows after 25, 100 and 400 steps, of a tenth of the step over the whole one's."""
    found: dict[str, float] = {}
    sizes = (25, 100, 400)
    for name, first, power in (("diminishing", 1.5, 1), ("constant", 0.1, 0)):
        whole, tenth = (errors(step, power, 0.0, sizes)[1] for step in (first, first / 10))
        found |= {f"{size} steps, {name}": float(b / a) for size, a, b in zip(sizes, whole, tenth, strict=True)}
    return found


def lemma_6() -> dict[str, float]:
    """Largest |a_t^i| t / theta of i <= t <= 200, and sum_i (a_t^i)^2 t / theta^2, for steps theta/i and a shrinkage s.

    a_t^i = theta / i prod_(i < j <= t) (1 - theta s / j). Both are at most 1 where the lemma holds.
    """
    found = {}
    for product in (0.5, 1.0, 1.5, 3.0, 4.0):
        a = np.zeros(0)
        most = [0.0, 0.0]
        for t in range(1, 201):
            a = np.append((1 - product / t) * a, 1 / t)
            most = [max(most[0], t * float(np.abs(a).max())), max(most[1], t * float(a @ a))]
        found[f"theta s = {product:g}"] = most[0]
        found[f"squares, theta s = {product:g}"] = most[1]
    return found


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
