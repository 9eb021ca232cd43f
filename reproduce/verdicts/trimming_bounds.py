"""Probability bounds of the subquantile paper, by drawing what they bound."""

import math
import warnings

import numpy as np
from scipy.stats import norm

from buttress import KernelRegressor, NotConvergedWarning
from buttress._checks import Array
from buttress.kernels import RBF
from buttress.risks import Subquantile
from reproduce.subquantile.figures import Curve, figure_3, figure_4

__all__ = ["breakdown", "definition_21", "equation_72", "equation_74", "equation_82", "equation_96", "equation_109",
           "equation_115", "lemma_29", "lemma_30", "lemma_31", "lemma_35", "theorem_2", "theorem_17", "theorem_36"]

SIZES = np.linspace(200, 2000, 10)  # rows, of figures 3 and 4


def _trimmed(X: Array, y: Array, n_kept: int) -> Array:
    """Return least squares on the rows of smallest residual, from w = 0 until the kept rows repeat."""
    w: Array = np.zeros(X.shape[1])
    before: list[int] = []
    while True:
        kept = sorted(np.argsort((X @ w - y) ** 2)[:n_kept].tolist())
        if kept == before:
            return w
        before = kept
        w = np.linalg.lstsq(X[kept], y[kept])[0].astype(np.float64)


def theorem_2() -> dict[str, float]:
    """Mean distance of the trimmed fit over eps/(1 - 2 eps), one corrupt row of n, eps = 1/n, at two n.

    Five standard normal features, noise of deviation 1, twenty draws. A bound in proportion to it keeps it bounded.
    """
    def ratio(n: int) -> float:
        distances = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(n, 5))
            y = X @ np.ones(5) + rng.normal(size=n)
            y[0] = 1e3
            distances.append(float(np.linalg.norm(_trimmed(X, y, n - 1) - 1)))
        return float(np.mean(distances)) * (1 - 2 / n) * n

    return {f"distance over eps/(1 - 2 eps), n = {n}": ratio(n) for n in (100, 10_000)}


def breakdown() -> dict[str, float]:
    """How far an adversary who knows the data moves w from 1 on 500 rows y = x + noise of deviation .1, one feature.

    One row at x = 1,000, y = 0 has no loss at w = 0. Algorithm 3 from there, 1,000 steps; and the fit to the 499 rows
    of smallest loss, in turns. And the minimiser over w of the mean of the smallest losses, found on a grid,
    against the line of a share of the rows at x = 1,000 that moves it most, in deviations of the noise.
    """
    n, noise = 500, 0.1
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    y = x + noise * rng.normal(size=n)
    X_one, y_one = np.append(x[1:], 1000.0)[:, None], np.append(y[1:], 0.0)
    descent = KernelRegressor(risk=Subquantile(1 - 1 / n), kernel="linear", alpha=0.0, fit_intercept=False,
                              acceleration=None, step="paper", init="zero", max_iter=1000, n_landmarks=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        reached = float(descent.fit(X_one, y_one).predict(np.ones((1, 1)))[0])
    slopes = 1 + np.linspace(-20 * noise, 20 * noise, 801)

    def moved(share: float) -> float:
        bad, kept = round(share * n), n - round(share * n)
        good = (y[bad:] - slopes[:, None] * x[bad:]) ** 2

        def minimiser(line: float) -> float:
            losses = np.hstack([good, np.repeat((1000 * (slopes[:, None] - line)) ** 2, bad, axis=1)])
            return float(slopes[np.argmin(np.sort(losses)[:, :kept].sum(axis=1))])

        return max(abs(minimiser(line) - 1) for line in slopes[::4]) / noise

    return {"one row, in turns": 1 - float(_trimmed(X_one, y_one, n - 1)[0]),
            "one row, algorithm 3": 1 - reached,
            **{f"minimiser, {share:.0%}": moved(share) for share in (0.1, 0.2, 0.3, 0.4)}}


def _worst_mean(K: Array, at: Array, norm2: float, n_kept: int, starts: int = 100) -> float:
    """Return the largest distance from mu of a mean of n_kept rows that a search finds; at_i = <mu, Phi_i>.

    Given a set T, the rows furthest along mean(T) - mu have a mean at least as far: repeated until T stays.
    """
    rng = np.random.default_rng(0)
    most = 0.0
    for _ in range(starts):
        kept = np.sort(rng.permutation(len(K))[:n_kept])
        before = kept[:0]
        while not np.array_equal(kept, before):
            before = kept
            kept = np.sort(np.argsort(at - K[:, kept].mean(axis=1))[:n_kept])
        most = max(most, float(K[np.ix_(kept, kept)].mean() - 2 * at[kept].mean() + norm2))
    return math.sqrt(most)


def definition_21() -> dict[str, float]:
    """Tau of 400 good rows of 500 at eps = .2, found by search: an RBF kernel, two columns, and the linear one of one.

    Where k(x, x) = 1, dropping a share r of P moves its mean by at most 2r/(1 - r), here 2 eps/(1 - 2 eps), whatever
    the rows. For a standard normal column the largest move tends to density(z)/(1 - r), z the quantile of r.
    """
    n = 500
    eps = 0.2
    n_good = round(n * (1 - eps))
    n_kept = round(n * (1 - 2 * eps))
    share = eps / (1 - eps)
    rng = np.random.default_rng(0)
    found = {}
    for name, X in (("normal rows", rng.normal(size=(n_good, 2))), ("Cauchy rows", rng.standard_cauchy((n_good, 2)))):
        K = RBF(0.5)(X, X)
        own = K.mean(axis=1)  # mu is the mean of P
        most = _worst_mean(K, own, float(K.mean()), n_kept)
        found[f"RBF, {name}, over 2 eps/(1 - 2 eps)"] = most * (1 - share) / (2 * share)
    for name, x in (("normal rows", rng.normal(size=n_good)), ("Cauchy rows", rng.standard_cauchy(n_good))):
        limit = norm.pdf(norm.ppf(share)) / (1 - share)
        most = _worst_mean(np.outer(x, x), np.zeros(n_good), 0.0, n_kept)
        found[f"linear, {name}, over the normal limit"] = most / limit
    return found


def _lower(n: Array, d: int, K: float) -> Array:
    """Return (81) for a flat spectrum of 1."""
    return n - np.sqrt(2 * (d * K - 1) * n * np.log(2 * d)) - d * K * np.log(2 * d) / 3


def equation_72() -> dict[str, float]:
    """The size above which (81) is positive, d = 20 and K = 4 as in figure 4: as printed, put right, and by trying."""
    d = 20
    K = 4.0
    log = np.log(2 * d)
    b = 24 * d * K - 18
    sizes = np.arange(1.0, 2001.0)
    return {
        "printed": float((np.sqrt(b**2 - 36 * (d * K) ** 2 * log) + b * log) / 18),
        "put right": float(log / 18 * (np.sqrt(b**2 - 36 * (d * K) ** 2) + b)),
        "least n with a positive bound": float(sizes[_lower(sizes, d, K) > 0].min()),
    }


def equation_74() -> dict[str, float]:
    """The 99 % quantile of |sum_i eta_i x_i| over sqrt(nd), all standard normal, and (80) at 1 - delta = .99, K = 1."""
    rng = np.random.default_rng(0)

    def quantile(n: int, d: int, draws: int) -> float:
        lengths = [np.linalg.norm(rng.normal(size=n) @ rng.normal(size=(n, d))) for _ in range(draws)]
        return float(np.quantile(lengths, 0.99) / np.sqrt(n * d))

    return {
        "one row of one column": quantile(1, 1, 20_000),
        "200 rows of 20 columns": quantile(200, 20, 1_000),
        "equation 80": 1 + 2 * math.sqrt(math.log(100)),
    }


def equation_96() -> dict[str, float]:
    """Share of 20 draws of 5,000 standard normal rows of 5 columns whose smallest eigenvalue is over n/2, and (96)."""
    n = 5000
    d = 5
    K = 1.0
    t = n / 2
    rng = np.random.default_rng(0)
    above = [np.linalg.eigvalsh(X.T @ X)[0] > t for X in (rng.normal(size=(n, d)) for _ in range(20))]
    return {"share above": float(np.mean(above)),
            "bound": float(2 * d * np.exp(-(t**2) / (2 * n * (d * K - 1) + K * t / 3)))}


def equation_109() -> dict[str, float]:
    """(x z + C)^p for x = z = C = 1, p = 2, by the printed map and by one with weights; and its rank, d = 2, p = 3."""
    X = np.random.default_rng(0).normal(size=(50, 2))
    printed = np.array([1.0, 1.0])  # x, x^2
    weighted = np.array([1.0, math.sqrt(2.0), 1.0])  # C, sqrt(2 C) x, x^2
    return {
        "kernel": (1.0 * 1.0 + 1.0) ** 2,
        "printed map": float(printed @ printed),
        "with weights": float(weighted @ weighted),
        "rank": float(np.linalg.matrix_rank((X @ X.T + 1) ** 3)),
        "d^p": 2.0**3,
    }


def theorem_17() -> dict[str, float]:
    """Return the bound on a distance for 1,000 rows of 20 columns with a share of 5 and of 20 per cent corrupt."""
    def bound(n: int, d: int, share: float) -> float:
        return math.e * n * (1 - 2 * share) / (n * share * (n * share - d * np.log(2 * d)))

    return {"bound at 5 per cent": bound(1000, 20, 0.05), "bound at 20 per cent": bound(1000, 20, 0.2)}


def theorem_36() -> dict[str, float]:
    """X_k = 1 for k = 1 to 100, d = 1, R = 1, delta = 1/2: the probability as printed, as in Tropp, and the bound."""
    smallest = 100.0
    level = 0.5 * 100.0
    return {
        "probability of at least": float(smallest >= level),
        "probability of at most": float(smallest <= level),
        "bound": float((np.exp(-0.5) / 0.5**0.5) ** 100),
    }


def equation_115() -> dict[str, float]:
    """Mean of cos(w'(x - z)) at distance 1, gamma = 1/2, with frequencies of variance 2/gamma and 2 gamma."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=400_000)
    return {
        "variance 2/gamma": float(np.cos(normal * 2.0).mean()),
        "variance 2 gamma": float(np.cos(normal).mean()),
        "kernel": float(np.exp(-0.5)),
    }


def equation_82() -> dict[str, float]:
    """Share of 50 draws of 5,000 standard normal rows of 5 columns that reach the bound said to hold half the time."""
    n = 5000
    d = 5
    K = 1.0
    delta = 0.5
    expected = n - (np.sqrt(2 * (d * K - 1) * n * np.log(2 * d)) + d * K * np.log(2 * d) / 3)
    rng = np.random.default_rng(0)
    smallest = [np.linalg.eigvalsh(X.T @ X)[0] for X in (rng.normal(size=(n, d)) for _ in range(50))]
    return {
        "share that reach it": float(np.mean(np.array(smallest) >= expected / (1 - delta))),
        "share that reach (1 - delta) of it": float(np.mean(np.array(smallest) >= expected * (1 - delta))),
    }


def lemma_29() -> dict[str, float]:
    """Figure 3, ten draws at each of ten sizes: the upper bound over the mean, where it is least and largest."""
    mean, bound = _curves(figure_3(10, SIZES))
    ratio = bound / mean
    return {"least bound over mean": float(ratio.min()), "largest bound over mean": float(ratio.max())}


def lemma_30() -> dict[str, float]:
    """Figure 4, ten draws at each of ten sizes: the lower bound over the mean at its largest, and where it is empty."""
    mean, bound = _curves(figure_4(10, SIZES))
    return {"largest bound over mean": float((bound / mean).max()),
            "largest size with a negative bound": float(SIZES[bound < 0].max())}


def _curves(measured_and_bound: list[Curve]) -> list[Array]:
    return [np.asarray(curve["value"]) for curve in measured_and_bound]


def lemma_31() -> dict[str, float]:
    """Mean squared residual of dropped rows, in units of K^2 (normal residuals, K^2 = 2), eps = .495: bound e.

    Rows fixed in advance, and the largest n(1 - 2 eps) of the n(1 - eps) good ones, those that trimming drops. It drops
    up to n eps of them, one for each corrupt row it keeps: their sum, over n(1 - 2 eps).
    """
    n, share = 20_000, 0.495
    rng = np.random.default_rng(0)
    squares = np.sort(rng.normal(size=(20, int(n * (1 - share)))) ** 2, axis=1)
    dropped = round(n * (1 - 2 * share))
    return {
        "bound": math.e,
        "fixed rows": float(squares.mean()) / 2,
        "largest rows": float(squares[:, -dropped:].mean()) / 2,
        "n eps rows": float(squares[:, -round(n * share) :].sum()) / 20 / dropped / 2,
    }


def lemma_35() -> dict[str, float]:
    """Return the least C for which E exp(lambda x) <= exp(C lambda^2), x of density exp(-|x|)/2, mean 0, by lambda.

    E exp(lambda x) = 1/(1 - lambda^2) for |lambda| < 1, and infinite beyond.
    """
    return {f"least C at {lam:g}": float(-np.log1p(-(lam**2)) / lam**2) for lam in (0.5, 0.9, 0.999)}
