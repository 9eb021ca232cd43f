"""Statements of the subquantile paper on its objective and its stationary points, on examples small enough to list."""

import numpy as np
from scipy.optimize import minimize_scalar

from buttress._checks import Array
from buttress.risks import Subquantile

__all__ = ["equation_6", "lemma_5", "lemma_7", "lemma_12", "lemma_13", "lemma_15", "lemma_22", "theorem_16"]


def printed_g(t: Array, losses: Array, factor: float) -> Array:
    """Return t - factor * sum_i (t - l_i)+ for thresholds t of shape (k,)."""
    return t - factor * np.maximum(0, t[:, None] - losses).sum(axis=1)


def equation_6() -> dict[str, float]:
    """Maximise g over t as printed, without the factor 1/(np), and with it, for losses 1 to 10 and p = 1/2."""
    losses = np.arange(1.0, 11.0)
    t = np.linspace(0, 12, 12_001)
    return {
        "as printed": float(printed_g(t, losses, 1.0).max()),
        "with 1/(np)": float(printed_g(t, losses, 1 / 5).max()),
        "mean of the 5 lowest": float(losses[:5].mean()),
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

    Four targets on a line, two kept: 0 keeps -10 and 10, and a step to the right drops -10 for 10.05.
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
    """Return the largest slope of the subquantile within the ball, over its bound L, in 200 random pairs."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = rng.normal(size=40)
    radius = 2.0
    root = np.linalg.norm(X, axis=1).sum()
    bound = 2 * radius / 20 * root**2 + 2 * np.linalg.norm(y) / 20 * root
    risk = Subquantile(0.5)
    slopes = []
    for _ in range(200):
        pair = rng.normal(size=(2, 3))
        pair *= radius * rng.random((2, 1)) ** (1 / 3) / np.linalg.norm(pair, axis=1, keepdims=True)
        values = [float(risk((X @ w - y) ** 2, np.ones(40))) for w in pair]
        slopes.append(abs(values[0] - values[1]) / np.linalg.norm(pair[0] - pair[1]))
    return {"largest slope over L": float(max(slopes) / bound)}


def lemma_15() -> dict[str, float]:
    """Two rows, both good and kept, feature 1, target 1, w* = 0: compare both sides at distance 1 and at eta = 0.1.

    The lower bound falls with eta before it rises, so "at least eta" does not follow from "equal to eta".
    """
    left = 0.0 - 2.0  # at w = 1 both losses are 0, at w* both are 1
    bounds = {eta: eta**2 * 2 - 2 * eta * 2 for eta in (1.0, 0.1)}
    return {"left side": left, "bound at the distance": bounds[1.0], "bound at eta = 0.1": bounds[0.1]}


def lemma_22() -> dict[str, float]:
    """Prox of x^2 at .3 with lambda = .5: the distance is lambda times the norm itself, at most lambda eps."""
    lam = 0.5
    prox = minimize_scalar(lambda z: z**2 + (z - 0.3) ** 2 / (2 * lam)).x
    norm = abs(0.3 - prox) / lam
    return {
        "distance over lambda times the norm": abs(0.3 - prox) / (lam * norm),
        "distance over lambda eps for eps = 1": abs(0.3 - prox) / lam,
        "subgradient at the prox over the norm": 2 * prox / norm,
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
