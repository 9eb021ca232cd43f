"""Kernel values with bounds of their errors, and their weighted sums, tile by tile in bounded memory."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .core import TINY, WIDER, Array, Model, Real, U, only, plus, unit

TILE = 512  # rows and centres of a tile
FEW = 32  # rows of a block of which only the diagonal is wanted
SHARP = 1e4  # roundings of 1: where products bound a value less sharply, its distance is summed by differences
WORST = 4  # times the terms of a product: covers its own rounding, and that of what goes into it
HALVES = 2.0**27  # what splits a number of 53 bits into two of 26 and a sign, whose products have no rounding
ATTRIBUTES = {
    "Combination": "kernels weights", "Linear": "coef0", "Polynomial": "degree gamma coef0", "RBF": "gamma",
    "Laplacian": "gamma", "MultiscaleRBF": "gammas", "InverseMultiquadric": "offset", "Cauchy": "gamma",
    "Log": "degree gamma"}
SHAPES: dict[str, Callable[[Model, Array], Array]] = {  # F(r^2), which falls, of kernels that are definite
    "RBF": lambda part, r2: np.exp(-part["gamma"] * r2),
    "Laplacian": lambda part, r2: np.exp(-part["gamma"] * np.sqrt(r2)),
    "MultiscaleRBF": lambda part, r2: np.mean([np.exp(-gamma * r2) for gamma in part["gammas"]], axis=0),
    "InverseMultiquadric": lambda part, r2: (r2 + part["offset"] ** 2) ** -0.5,
    "Cauchy": lambda part, r2: 1 / (1 + part["gamma"] * r2),
    "Log": lambda part, r2: -np.log1p((part["gamma"] * r2) ** (part["degree"] / 2))}


def described(part: Any) -> Model:
    """Return a kernel as the file says it, in plain numbers; ValueError for one whose claims cannot be checked."""
    if not isinstance(part, dict) or part.get("class") not in ATTRIBUTES:
        raise ValueError(f"No proof is known here for the kernel {str(part)[:60]}.")
    only(part, ATTRIBUTES[part["class"]])
    if part["class"] == "Combination":
        weights = part["weights"] if part["weights"] is not None else [1 / len(part["kernels"])] * len(part["kernels"])
        terms = [(described(inner), float(w)) for inner, w in zip(part["kernels"], weights, strict=True)]
        if not all(0 <= w < np.inf for _, w in terms):
            raise ValueError("A sum of kernels has weights that are no finite numbers >= 0.")
        return {"class": "Combination", "kernels": [inner for inner, _ in terms], "weights": [w for _, w in terms]}
    numbers = {name: np.asarray(part[name], dtype=float).tolist() for name in ATTRIBUTES[part["class"]].split()}
    least = min(np.min(value) for value in numbers.values())
    dot = part["class"] in ("Linear", "Polynomial")
    known = numbers.get("degree") in (None, *range(1, 20)) and numbers.get("gamma") != 0 if dot else (
        least > 0 and (part["class"] != "Log" or numbers["degree"] <= 2))
    if not (known and least >= 0 and all(np.isfinite(value).all() for value in numbers.values())):
        raise ValueError(f"The kernel {part['class']} with {numbers} is not known to be positive definite.")
    return {"class": part["class"], **numbers}


def kernel(part: Model, X: Array, Z: Array, centre: Array | float = 0.0) -> Real:
    """Return k(x_i, z_j) of rows X and Z for a kernel as :func:`described`; distances are those from ``centre``.

    |a|^2 + |b|^2 - 2 a'b of rows less the centre errs by 2 d + 7 roundings of |a|^2 + |b|^2: the rows themselves by 4,
    the lengths by d, the product by d, and the sums by 3. |x - z|^2 errs by d + 2 of itself.
    """
    if part["class"] == "Combination":
        terms = [kernel(inner, X, Z, centre) * w for inner, w in zip(part["kernels"], part["weights"], strict=True)
                 if w > 0]
        return sum(terms[1:], terms[0]) if terms else Real(np.zeros((len(X), len(Z))))
    if part["class"] in ("Linear", "Polynomial"):
        base = power = Real(X) @ Z.T * part.get("gamma", 1.0) + part["coef0"]
        for _ in range(int(part.get("degree", 1)) - 1):
            power = power * base
        return power
    A, B = X - centre, Z - centre
    lengths = np.add.outer((A**2).sum(axis=1), (B**2).sum(axis=1))
    found = profile(part, Real(plus(lengths - 2 * A @ B.T), (2 * X.shape[1] + 7) * unit(A) * lengths))
    found.e = found.e.copy()
    i, j = np.nonzero(found.e > SHARP * unit(A))
    for some in (slice(k, k + TILE) for k in range(0, len(i), TILE)):
        r2 = ((X[i[some]] - Z[j[some]]) ** 2).sum(axis=1)
        exact = profile(part, Real(r2, (X.shape[1] + 2) * unit(r2) * r2))
        found.v[i[some], j[some]], found.e[i[some], j[some]] = exact.v, exact.e
    return found


def profile(part: Model, t: Real) -> Real:
    """Return F of a squared distance from F at both ends of what it may be."""
    high, low = (SHAPES[part["class"]](part, end) for end in (plus(t.low), t.high))
    return Real((low + high) / 2, (high - low) / 2 + unit(low) * (4 + 8 * (np.abs(low) + np.abs(high))))


def sums(part: Model, X: Array, Z: Array, coef: Array) -> tuple[Real, float]:
    """Return sum_j k(x_i, z_j) coef_jc for all rows, shape (n, k), and a bound of all |k(x_i, z_j)|."""
    if part["class"] == "Linear" and Z.dtype == coef.dtype == np.float64:
        return linear_sums(part["coef0"], X, Z, coef)
    centre = np.median(X, axis=0)
    near = Gaussians.of(part, X, Z - centre, coef)

    def block(i: int) -> tuple[Real, float]:
        rows = X[i : i + TILE]
        found = None if near is None else near.sums(rows - centre)
        return block_sums(part, rows, Z, coef, centre) if found is None else (found, 1.0)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        blocks = list(pool.map(block, range(0, len(X), TILE)))
    found = Real(np.concatenate([one.v for one, _ in blocks]), np.concatenate([one.e for one, _ in blocks]))
    return found, max(largest for _, largest in blocks)


def block_sums(part: Model, X: Array, Z: Array, coef: Array, centre: Array) -> tuple[Real, float]:
    """Return the same of a few rows, tile by tile."""
    total, largest = Real(np.zeros((len(X), coef.shape[1]))), 0.0
    for j in range(0, len(Z), TILE):
        values = kernel(part, X, Z[j : j + TILE], centre)
        largest = max(largest, float((np.abs(values.v) + values.e).max()))
        total = total + values @ coef[j : j + TILE]
    return total, largest


def padded(rows: Array, side: int) -> Array:
    """Return rows (n, d) as stacks (n / side, side, d), with rows of 0 at the end."""
    stacks = math.ceil(len(rows) / side)
    return np.pad(rows, ((0, stacks * side - len(rows)), (0, 0))).reshape(stacks, side, rows.shape[1])


class Gaussians:
    """Sums of RBF in one product and one exponential an entry, with bounds that need no entry of their own.

    With the squares of the lengths as two more columns, -gamma r^2 is one product of d + 2 terms, whose sizes add up to
    at most 2 gamma (|x|^2 + |z|^2). With the rounding of all that goes into it, it errs by at most
    eta = WORST (d + 4) U gamma (|x|^2 + |z|^2), and numpy's exp by 8 units: a value v by v (e^eta - 1 + 9 U). So the
    sums of |c| v and of |c| |z|^2 v bound the error of the sum of c v.

    No product has more than 200,000 multiplications. Up to that, every BLAS uses one thread by itself; of more, its
    threads and those of the blocks would wait for one another.
    """

    def __init__(self, gamma: float, Z: Array, coef: Array):
        lengths = (Z**2).sum(axis=1)
        self.share = WORST * (Z.shape[1] + 4) * U * gamma
        self.longest = float(lengths.max())
        self.least = TINY * np.abs(coef).sum(axis=0)  # exp has no relative precision below
        centres = np.column_stack([2 * gamma * Z, np.full(len(Z), -gamma), -gamma * lengths])
        weights = np.hstack([coef, np.abs(coef), np.abs(coef) * lengths[:, None]])
        self.side = 2 ** int(math.log2(200_000 / max(centres.shape[1], weights.shape[1])) / 2)
        self.centres = padded(centres, self.side).transpose(0, 2, 1).copy()
        self.weights = padded(weights, self.side)

    @classmethod
    def of(cls, part: Model, X: Array, Z: Array, coef: Array) -> "Gaussians | None":
        """Return them for RBF on float64 numbers, None for others."""
        plain_numbers = X.dtype == Z.dtype == coef.dtype == np.float64
        return cls(part["gamma"], Z, coef) if part["class"] == "RBF" and plain_numbers and len(Z) else None

    def sums(self, X: Array) -> Real | None:
        """Return the sums for some rows; None where products bound them less sharply than differences."""
        lengths = (X**2).sum(axis=1)
        if not self.share * (float(lengths.max()) + self.longest) <= SHARP * U:
            return None
        rows = padded(np.column_stack([X, lengths, np.ones(len(X))]), self.side)[:, None]
        count, few = len(self.centres), TILE // self.side
        found = np.zeros((len(rows), self.side, self.weights.shape[2]))
        room = np.empty((len(rows), few, self.side, self.side))
        for j in range(0, count, few):
            values = np.matmul(rows, self.centres[j : j + few], out=room[:, : count - j])
            found += (np.exp(values, out=values) @ self.weights[j : j + few]).sum(axis=1)
        total, sizes, far = np.split(np.concatenate(found)[: len(X)], 3, axis=1)
        added = (self.side + few + count // few + 16) * U  # sums within a product, over products, and exp
        lost = WIDER * self.share * (lengths[:, None] * sizes + far) + added * sizes + self.least
        return Real(total, lost)


def linear_sums(coef0: float, X: Array, Z: Array, coef: Array) -> tuple[Real, float]:
    """Return the same of k(x, z) = x'z + coef0: X w with w = Z'coef, of which far less may cancel."""
    w = np.array([[dot(column, b) for b in coef.T] for column in Z.T])
    total = np.array([math.fsum(b) for b in coef.T])
    known = Real(w, U * np.abs(w) + len(Z) * TINY)
    f = [Real(X[i : i + TILE]) @ known for i in range(0, len(X), TILE)]
    longest = [math.sqrt(float((part**2).sum(axis=1).max(initial=0.0))) for part in (X, Z)]
    shift = Real(total, U * np.abs(total)) * coef0
    found = Real(np.concatenate([one.v for one in f]), np.concatenate([one.e for one in f])) + shift
    return found, math.prod(longest) * WIDER + abs(coef0)


def dot(x: Array, a: Array) -> float:
    """Return x'a from terms that are exact, in two halves each (Dekker 1971), and rounded once."""
    product = x * a
    halves = [(high, part - high) for part in (x, a) for high in [part * HALVES - (part * HALVES - part)]]
    (x_high, x_low), (a_high, a_low) = halves
    lost = (x_high * a_high - product + x_high * a_low + x_low * a_high) + x_low * a_low
    return math.fsum([*product.tolist(), *lost.tolist()])


def diagonal(part: Model, X: Array) -> Real:
    """Return k(x_i, x_i)."""
    blocks = [kernel(part, X[i : i + FEW], X[i : i + FEW]).each(np.diagonal) for i in range(0, len(X), FEW)]
    return Real(np.concatenate([one.v for one in blocks]), np.concatenate([one.e for one in blocks]))
