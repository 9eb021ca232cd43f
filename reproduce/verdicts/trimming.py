"""Statements of the subquantile paper on its objective and its stationary points, on examples small enough to list."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from buttress._checks import Array
from buttress.risks import Subquantile

__all__ = ["claim_3", "equation_5", "equation_6", "equation_130", "lemma_5", "lemma_7", "lemma_8", "lemma_12",
           "lemma_13", "lemma_14", "lemma_15", "lemma_22", "theorem_16"]


def printed_g(t: Array, losses: Array, factor: float) -> Array:
    """Return t - factor * sum_i (t - l_i)+ for thresholds t of shape (k,)."""
    return t - factor * np.maximum(0, t[:, None] - losses).sum(axis=1)


def equation_5() -> dict[str, float]:
    """Compare the three forms of the subquantile, p = .55, for the values 1 to 10, each of probability 1/10.

    The p-quantile is Q_p = 6: the smallest t with P(U <= t) >= p. Any larger t has that property too.
    """
    values = np.arange(1.0, 11.0)
    p = 0.55
    q = (np.arange(100_000) + 0.5) / 100_000 * p
    quantile = values[np.ceil(10 * p).astype(int) - 1]
    t = np.linspace(0, 12, 12_001)
    return {
        "as printed, Q_p": float(quantile),
        "with Q_q": float(values[np.ceil(10 * q).astype(int) - 1].mean()),
        "maximum over t": float(printed_g(t, values, 1 / (10 * p)).max()),
        "mean of U up to Q_p": float(values[values <= quantile].mean()),
        "P(U <= 9), which is at least p": float((values <= 9).mean()),
    }


def equation_6() -> dict[str, float]:
    """Maximise g over t as printed, without the factor 1/(np), and with it, for losses 1 to 10 and p = 1/2."""
    losses = np.arange(1.0, 11.0)
    t = np.linspace(0, 12, 12_001)
    return {
        "as printed": float(printed_g(t, losses, 1.0).max()),
        "with 1/(np)": float(printed_g(t, losses, 1 / 5).max()),
        "mean of the 5 lowest": float(losses[:5].mean()),
    }


def _bend(f: Callable[[float], float], x: float, h: float) -> float:
    """Return the second difference of f at x, over h^2."""
    return (f(x + h) + f(x - h) - 2 * f(x)) / h**2


def claim_3() -> dict[str, float]:
    """Second differences in t, of a concave function at most 0, and in w plus L, of a weakly convex one at least 0.

    One row of feature 1 and target 0 at t = 1: g(t, w) = min(1, w^2), L = 2. Two, p = 1/2: Psi = min(w^2, (w - 1)^2).
    """
    losses = np.random.default_rng(0).exponential(size=10)
    grid = np.linspace(0, 3, 301)
    L = 2.0

    def g(w: float) -> float:
        return float(printed_g(np.array([1.0]), np.array([w**2]), 1.0)[0])

    return {
        "largest bend in t": float(np.diff(printed_g(grid, losses, 1 / 5), 2).max()),
        "bend of g in w plus L, h = 0.1": _bend(g, 1.0, 0.1) + L,
        "bend of g in w plus L, h = 0.001": _bend(g, 1.0, 1e-3) + L,
        "bend of Psi plus L, h = 0.001": _bend(lambda w: min(w**2, (w - 1) ** 2), 0.5, 1e-3) + L,
    }


def lemma_8() -> dict[str, float]:
    """Curvature of the softplus objective where a row's loss w^2 is t = 1, for two sharpnesses; eq. 33 has beta = 2."""
    def softened(w: float, sharpness: float) -> float:
        return 1.0 - float(np.logaddexp(0.0, sharpness * (1.0 - w**2))) / sharpness

    return {f"curvature at sharpness {sharpness:g}": _bend(lambda w, s=sharpness: softened(w, s), 1.0, 1e-6)  # type: ignore[misc]
            for sharpness in (10.0, 1000.0)}


def lemma_14() -> dict[str, float]:
    """Change of the gradient over beta times the distance, one row of feature 1 and target 0, beta = 2, about w = 1.

    At t = 1 the row is kept at w = .999 and dropped at 1.001; at t = 2 it is kept at both.
    """
    def slope(w: float, t: float) -> float:
        sides = [float(printed_g(np.array([t]), np.array([v**2]), 1.0)[0]) for v in (w + 1e-6, w - 1e-6)]
        return (sides[0] - sides[1]) / 2e-6

    def ratio(t: float) -> float:
        return abs(slope(1.001, t) - slope(0.999, t)) / (2 * 0.002)

    return {"where the row is dropped": ratio(1.0), "where it is kept": ratio(2.0)}


def equation_130() -> dict[str, float]:
    """Norm of sum_i a_i k_i for orthonormal k_1, k_2 and a = (1, -1), and |sum a_i| |sum k_i|, said to be no less."""
    a = np.array([1.0, -1.0])
    k = np.eye(2)
    return {
        "norm of the sum": float(np.linalg.norm(a @ k)),
        "product of the sums": float(abs(a.sum()) * np.linalg.norm(k.sum(axis=0))),
        "sum of the norms": float(np.abs(a) @ np.linalg.norm(k, axis=1)),
    }


def lemma_5() -> dict[str, float]:
    """Compare the maximiser of g with the np-th smallest loss, np whole, and equation 15 with the maximum."""
    losses = np.sort(np.random.default_rng(0).exponential(size=40))
    t = np.linspace(0, 4, 40_001)
    g = printed_g(t, losses, 1 / 10)
    at_quantile = float(printed_g(losses[9:10], losses, 1 / 10)[0])
    return {
        "g at the np-th loss over its maximum": at_quantile / float(g.max()),
        "equation 15 over the maximum": float(losses[:10].sum()) / at_quantile,
    }


def lemma_7() -> dict[str, float]:
    """Compare the gradient of the kept rows' mean with that of the subquantile, by finite differences."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = rng.normal(size=50)
    w = rng.normal(size=3)
    risk = Subquantile(0.4)

    def objective(v: Array) -> float:
        return float(risk((X @ v - y) ** 2, np.ones(50)))

    losses = (X @ w - y) ** 2
    kept = np.argsort(losses)[:20]
    stated = 2 * X[kept].T @ (X @ w - y)[kept] / 20
    measured = np.array([(objective(w + h) - objective(w - h)) / 2e-6 for h in 1e-6 * np.eye(3)])
    return {"largest difference": float(np.abs(stated - measured).max())}


def _kept(x: float, targets: Array, n_kept: int) -> float:
    """Return the mean of the smallest squared distances of x to the targets."""
    return float(np.sort((x - targets) ** 2)[:n_kept].mean())


def lemma_12() -> dict[str, float]:
    """Take a stationary point at a small rho, which rho <= 1/beta allows, and the two sides of equation 40 there.

    Four targets on a line, two kept: 0 keeps -10 and 10, and a step to the right drops -10 for 10.05. f* is .1 here:
    the proof takes any point of the ball for it (eq. 43).
    """
    targets = np.array([-10.0, 10.0, 10.05, 10.05])
    beta = 2 / 2 * 4
    rho = 1 / 500
    grid = np.linspace(-12, 12, 240_001)
    kept = np.sort((grid[:, None] - targets) ** 2, axis=1)[:, :2].mean(axis=1)
    envelope = kept + grid**2 / (2 * rho)
    near = 0.1
    return {
        "rho times beta": rho * beta,
        "stationary point": abs(float(grid[envelope.argmin()])),
        "left side": _kept(0.0, targets, 2) - _kept(near, targets, 2),
        "right side": beta * near**2,
        "right side with 1/(2 rho)": near**2 / (2 * rho),
    }


def lemma_13() -> dict[str, float]:
    """Return the largest slope of g(t, .) within the ball, over its bound L, in 200 random pairs at three t.

    They are the np-th loss, where g is the subquantile; the largest; and one beyond all, where every row counts.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = rng.normal(size=40)
    radius = 2.0
    root = np.linalg.norm(X, axis=1).sum()
    bound = 2 * radius / 20 * root**2 + 2 * np.linalg.norm(y) / 20 * root
    slopes = []
    for _ in range(200):
        pair = rng.normal(size=(2, 3))
        pair *= radius * rng.random((2, 1)) ** (1 / 3) / np.linalg.norm(pair, axis=1, keepdims=True)
        losses = [(X @ w - y) ** 2 for w in pair]
        t = np.array([np.sort(losses[0])[19], losses[0].max(), 1e3])
        values = [printed_g(t, loss, 1 / 20) for loss in losses]
        slopes.append(np.abs(values[0] - values[1]).max() / np.linalg.norm(pair[0] - pair[1]))
    return {"largest slope over L": float(max(slopes) / bound)}


def lemma_15() -> dict[str, float]:
    """Two rows, both good and kept, feature 1, target 1, w* = 0: compare both sides at distance 1 and at eta = 0.1.

    Psi is the sum of the kept losses, as in the proof. The lower bound falls with eta before it rises, so "at least
    eta" does not follow from "equal to eta".
    """
    X = np.ones((2, 1))
    y = np.ones(2)
    optimum = np.zeros(1)
    w = np.ones(1)
    noise = X @ optimum - y

    def bound(eta: float) -> float:
        return float(eta**2 * np.linalg.eigvalsh(X.T @ X)[0] - 2 * eta * np.linalg.norm(noise @ X))

    return {
        "left side": float(((X @ w - y) ** 2).sum() - (noise**2).sum()),
        "bound at the distance": bound(float(np.linalg.norm(w - optimum))),
        "bound at eta = 0.1": bound(0.1),
    }


def lemma_22() -> dict[str, float]:
    """Prox of x^2 at .3 with lambda = .5: the distance is lambda times the norm itself, at most lambda eps.

    The norm is that of the gradient of the envelope, by differences of its values.
    """
    lam = 0.5

    def prox(x: float) -> tuple[float, float]:
        found = minimize_scalar(lambda z: z**2 + (z - x) ** 2 / (2 * lam))
        return float(found.x), float(found.fun)

    nearest, _ = prox(0.3)
    norm = abs(prox(0.3 + 1e-4)[1] - prox(0.3 - 1e-4)[1]) / 2e-4
    return {
        "distance over lambda times the norm": abs(0.3 - nearest) / (lam * norm),
        "distance over lambda eps for eps = 1": abs(0.3 - nearest) / lam,
        "subgradient at the prox over the norm": 2 * nearest / norm,
    }


def theorem_16() -> dict[str, float]:
    """Return the positive root of the appendix' quadratic and the bounds of the text and of the appendix."""
    a, b, c = 0.25, 1.0, 0.01
    root = (b + np.sqrt(b * b + a * c)) / a
    return {
        "root": float(root),
        "bound of the main text": float(np.sqrt(c / a) + 2 * b / np.sqrt(a)),
        "bound of the appendix": float(np.sqrt(c / a) + 2 * b / a),
    }
