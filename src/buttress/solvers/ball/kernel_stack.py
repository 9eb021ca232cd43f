"""Several kernels on the same training rows, and the ball of any mixture of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import TINY, Array
from buttress._proof import SLACK, Near, U
from buttress._threads import ending, in_time
from buttress._types import Rows
from buttress.gram.rounding import Product
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel
from buttress.solvers.ball.soft_ball import SoftBall, ball_of, recounted, solve_ball
from buttress.solvers.qp.solve import Limits

FETCHED_ROWS = 512  # rows of each kernel computed at a time: 4 kB of scratch memory for each column


class StackedKernel:
    """One kernel on the training rows, with the rows of its Gram matrix that are kept."""

    def __init__(self, kernel: Kernel, X: Array, cache_size: float):
        self.kernel = kernel
        self.X = X
        self.rows = KernelRows(kernel, X, cache_size)
        self.block = min(FETCHED_ROWS, self.rows.capacity)

    def panel(self, rows: Rows | slice, columns: Rows | slice) -> Array:
        """Return the entries of these rows and columns, computed anew."""
        return self.rows.cache.entries(rows, columns)

    def add_entries(self, total: Array, weight: float, index: Rows, columns: Rows) -> None:
        """Add weight times the entries to ``total`` in place."""
        for start in range(0, len(index), self.block):
            part = slice(start, start + self.block)
            total[part] += weight * self.rows.fetch(index[part])[:, columns]

    def add_product(self, total: Array, b: Array, moved: Rows) -> None:
        """Add the rows ``moved`` times their entries of b to ``total`` (n,) in place."""
        for start in range(0, len(moved), self.block):
            part = moved[start : start + self.block]
            total += b[part] @ self.rows.fetch(part)


class RowMixture(Kernel):
    """sum_p weights[p] K_p between training rows, which are given by number; uses the stored rows of each K_p."""

    definiteness = "cpd"

    def __init__(self, sources: "list[StackedKernel]", weights: Array):
        self.sources = sources
        self.weights = weights

    def __call__(self, X: Array, Z: Array) -> Array:
        index = X[:, 0].astype(np.intp)
        columns = Z[:, 0].astype(np.intp)
        total = np.zeros((len(X), len(Z)))
        for source, weight in zip(self.sources, self.weights, strict=True):
            if weight > 0:
                source.add_entries(total, weight, index, columns)
        return total

    def diagonal(self, X: Array) -> Array:
        index = X[:, 0].astype(np.intp)
        parts = (w * s.rows.diagonal[index] for s, w in zip(self.sources, self.weights, strict=True))
        return sum(parts, np.zeros(len(X)))


class MixtureRows(KernelRows):
    """Rows of one mixture. Its products with b are sums of the products that the stack stores for each kernel.

    Those gather errors from one b to the next. With ``anew``, products are proven from entries that are computed anew.
    """

    def __init__(self, stack: "KernelStack", weights: Array, *, anew: bool = False):
        numbers = np.arange(len(stack.weight), dtype=np.float64)[:, None]
        super().__init__(RowMixture(stack.sources, weights), numbers, stack.share)
        self.stack = stack
        self.weights = weights
        self.anew = anew

    def times(self, b: Array) -> Array:
        """Return K b, shape (n,)."""
        return self.weights @ self.stack.products(b)

    def proven_times(self, b: Array, wanted: Rows | None = None) -> Product:
        """Return K b, with a bound of its error where it is computed anew."""
        if not self.anew:
            return Product(self.times(b), np.zeros(len(b)), False)
        parts = [source.rows.proven_times(b, wanted) for source in self.stack.sources]
        f = self._weighted([Near(part.f, part.errors) for part in parts])
        return Product(f.v, SLACK * f.e, all(part.proven for part in parts))

    @property
    def diagonal_errors(self) -> Array:
        """Bounds (n,) of the errors of the diagonal; 0 where none are known."""
        rows = [source.rows for source in self.stack.sources]
        errors: Array = SLACK * self._weighted([Near(one.diagonal, one.diagonal_errors) for one in rows]).e
        return errors

    def _weighted(self, terms: list[Near]) -> Near:
        return sum((term * weight for weight, term in zip(self.weights, terms, strict=True)), Near(np.zeros(len(self))))


@dataclass
class Trial:
    """Weights eta with their ball, V(a) (m,) at its dual point, and an upper bound of J(eta): the primal objective."""

    eta: Array
    ball: SoftBall
    variances: Array

    @property
    def upper(self) -> float:
        return self.ball.primal


class KernelStack:
    """m kernels on the same n training rows, each divided by its scale; ``evaluate`` solves for one choice of weights.

    All kernels together store ``cache_size`` megabytes of rows, never m whole Gram matrices.
    """

    def __init__(self, kernels: list[Kernel], inputs: list[Array], weight: Array, nu: float, *, cache_size: float,
                 gap_tol: float, left: Callable[[], float | None] = lambda: None):
        self.share = cache_size / (len(kernels) + 1)
        self.sources = [StackedKernel(kernel, X, self.share) for kernel, X in zip(kernels, inputs, strict=True)]
        self.scales = np.ones(len(kernels))
        self.weight = weight
        self.nu = nu
        self.gap_tol = gap_tol
        self.left = left
        self.n_solved = 0
        self._b = np.zeros(len(weight))
        self._products = np.zeros((len(kernels), len(weight)))

    def evaluate(self, eta: Array, start: Array | None) -> Trial:
        """Return the ball of sum_p eta_p K_p / scales_p, from the dual point ``start``.

        The first ball may be cut short where no seconds are ``left``: it is then the last one of which the products are
        known. Later ones that were cut short raise TimeoutError, since the trials before them are as good.
        """
        rows = MixtureRows(self, eta / self.scales)
        limits = Limits(gap_tol=self.gap_tol, max_time=self.left(), inner=True)
        try:
            # an exact finish costs n^3: of more rows only the last ball has one
            ball = solve_ball(rows, self.weight, self.nu, limits, start=start, exact_rows=200)
            trial = Trial(eta, ball, self.variances(ball.a))
            if ball.outcome.status == "max_time" and self.n_solved > 0:
                raise TimeoutError("No time is left for another ball.")
        except TimeoutError:
            if self.n_solved > 0 or not self._b.any():
                raise
            with ending(None):
                ball = ball_of(rows, self.weight, self.nu, self._b, "max_time")
                trial = Trial(eta, ball, self.variances(ball.a))
        self.n_solved += 1
        return trial

    def proven(self, trial: Trial) -> Trial:
        """Return the trial with bounds of its objectives that are proven, where the kernels allow it."""
        rows = MixtureRows(self, trial.eta / self.scales, anew=True)
        return replace(trial, ball=recounted(rows, self.weight, self.nu, trial.ball))

    def least_variances(self, a: Array) -> tuple[Array, bool]:
        """Return lower bounds (m,) of V at one dual point, near a, and whether they are proven.

        That point is c / sum(c) with c the part of a between its bounds. It may leave them by a share, by which the
        largest V of dual points is then too large.
        """
        share = self.weight / self.weight.sum()
        c = np.clip(a, 0, share / self.nu)
        total = math.fsum(c.tolist())
        unit = Near(1 / total, 4 * U / total)
        found = []
        parts = [source.rows.proven_times(c) for source in self.sources]
        for source, part, scale in zip(self.sources, parts, self.scales, strict=True):
            square = (Near(part.f, part.errors) * c).sum() * unit * unit
            mean = (Near(source.rows.diagonal, source.rows.diagonal_errors) * c).sum() * unit
            found.append(float(((mean + square * -1.0) * Near(1 / scale, U / scale)).low))
        beyond = max(0.0, 1 / total - 1) + 8 * U
        return np.array(found) / (1 + beyond), all(part.proven for part in parts)

    def variances(self, a: Array) -> Array:
        """Return V(a), shape (m,)."""
        total = self.nu * len(a)
        means = self.products(a * total) @ a / total
        return np.array([a @ source.rows.diagonal for source in self.sources] - means) / self.scales

    def products(self, b: Array) -> Array:
        """Return K_p b for every kernel, (m, n): the products of the last b plus those of the entries that changed."""
        change = b - self._b
        if np.count_nonzero(change) > np.count_nonzero(b):
            self._products = np.zeros_like(self._products)
            change = b
        rounding = 4 * np.finfo(float).eps * np.abs(b).max()
        moved = np.flatnonzero(np.abs(change) > rounding)
        products = self._products.copy()
        for product, source in zip(products, self.sources, strict=True):
            source.add_product(product, change, moved)
        self._b = b.copy()
        self._products = products
        return products


def variance(source: StackedKernel, share: Array) -> float:
    """Return share'diag(K) - share'K share by blocks of one triangle: tr(HKH)/n for equal shares summing to 1.

    A value as small as rounding counts as 0.
    """
    mean = 0.0
    n = len(share)
    for start in in_time(range(0, n, FETCHED_ROWS)):
        stop = min(start + FETCHED_ROWS, n)
        panel = share[start:stop] @ source.panel(slice(start, stop), slice(start, None))
        mean += float(panel[: stop - start] @ share[start:stop] + 2 * panel[stop - start :] @ share[stop:])
    diagonal = float(share @ source.rows.diagonal)
    # less is the rounding of a difference
    return diagonal - mean if diagonal - mean > 1e-12 * max(abs(diagonal), abs(mean)) else 0.0


def find_copies(sources: list[StackedKernel]) -> list[tuple[int, int]]:
    """Return the pairs of kernels that are equal on 200 of the rows, up to scale, centring and rounding."""
    some = np.unique(np.linspace(0, len(sources[0].X) - 1, 200).astype(np.intp))
    shapes = []
    for source in sources:
        K = source.panel(some, some)
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        shapes.append(K / max(float(np.linalg.norm(K)), TINY))
    m = len(shapes)
    # nearer ones are the same kernel
    return [(p, q) for p in range(m) for q in range(p + 1, m) if np.linalg.norm(shapes[p] - shapes[q]) < 1e-9]

