"""Doubly stochastic gradients: a kernel machine from batches of rows and blocks of random features.

    minimise over f, b0   1/2 ||f||^2 + C mean_i max(0, 1 - y_i (f(x_i) + b0) + r ||f||)

The radius r in feature space is 0 for the natural machine. With step g_t and active rows (those with positive loss),

    f <- max(0, 1 - g_t (1 + C r p_t / ||f||)) f  +  g_t C mean_batch y_i 1[i active] k(x_i, .),

where p_t is the active share of the batch, and k(x_i, .) is exact or estimated by block t of the features. ||f|| has
its own recursion: for f <- s f + h, h = sum z_i k(x_i, .), |f|^2 <- s^2 |f|^2 + 2 s z'f(X_batch) + |h|^2.
Sources: Dai et al. (2014), algorithms 1 and 2; Wu, Hu & Gu (2021), equations (6)-(9) and algorithms 1 and 2, in the
form for batches. The shrinkage factor is kept >= 0; a long step would make it negative. All of it runs on the device
of y, with numpy arrays or torch tensors.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from buttress._arrays import Place, cast, namespace
from buttress._checks import Array
from buttress.features import RandomFeatures
from buttress.kernels import Kernel
from buttress.kernels.points import centred
from buttress.solvers.run import Step, Steps


class RandomBasis:
    """f = sum_t features(x, t) @ coef[t]: Algorithm 1's coefficients, with block t drawn from its seed.

    Scores have one column for each of the k machines that are trained together.
    """

    def __init__(self, features: RandomFeatures, X: Array, n_terms: int, k: int, device: str | None = None):
        self.features = features
        self.X = Place(device, "float32")(X)  # float32 rounds phases by 1e-6, far below the features' noise
        self.coef = Place(device)(np.zeros((n_terms, features.size, k)))
        self.used = 0

    def reorder(self, order: NDArray[np.intp]) -> None:
        """Use the rows of X in another order from now on."""
        self.X = self.X[order]

    def add(self, t: int, rows: slice, z: Array) -> Array:
        """Add h = sum_i z_i k(x_i, .) over the batch ``rows`` as term t; returns h on these rows, (len(rows), k)."""
        features = self.features(self.X[rows], t)
        self.coef[t] = cast(features, z.dtype).T @ z
        self.used = t + 1
        return cast(features @ cast(self.coef[t], features.dtype), z.dtype)

    def scores(self, t: int, rows: slice) -> Array:
        """Return h(x) of term t on ``rows``, (len(rows), k)."""
        # of fewer rows the product copies the frequencies too often; on a device each call costs more
        panel = 2048 if namespace(self.X) is np else 2**16
        coef = cast(self.coef[t], self.X.dtype)
        out = [self.features(self.X[start : min(start + panel, rows.stop)], t) @ coef
               for start in range(rows.start, rows.stop, panel)]
        return cast(namespace(coef).concatenate(out), self.coef.dtype)

    def shrink(self, factor: Array) -> None:
        """Multiply f by ``factor`` (k,)."""
        self.coef[: self.used] *= factor

    def state(self) -> Array:
        """Return a copy of the coefficients."""
        return self.coef[: self.used] + 0


class KernelBasis:
    """f = sum_i coef_i k(x_i, .): the kernel itself, with the methods of :class:`RandomBasis`.

    ``X`` and ``coef`` are in the order of the current pass.
    """

    def __init__(self, kernel: Kernel, X: Array, k: int, device: str | None = None):
        place = Place(device)
        self.kernel = kernel
        self.X = place(X)
        self.coef = place(np.zeros((len(X), k)))
        self.order = np.arange(len(X))

    def reorder(self, order: NDArray[np.intp]) -> None:
        self.X = self.X[order]
        self.coef = self.coef[order]
        self.order = self.order[order]

    def add(self, t: int, rows: slice, z: Array) -> Array:
        self.at = centred(self.kernel, self.X[rows])
        self.z = z
        self.coef[rows] += z
        return self.scores(t, rows)

    def scores(self, t: int, rows: slice) -> Array:
        return self.at(self.X[rows]).values @ self.z

    def shrink(self, factor: Array) -> None:
        self.coef *= factor

    def state(self) -> Array:
        coef = 0 * self.coef
        coef[self.order] = self.coef
        return coef


Basis = RandomBasis | KernelBasis


def step_sizes(step: str, size: float) -> Callable[[int], float]:
    """Return the step of iteration t = 1, 2, ...: ``size`` if constant, ``size`` / t if diminishing."""
    return (lambda t: size) if step == "constant" else (lambda t: size / t)


def doubly_stochastic(
    basis: Basis,
    y: Array,
    *,
    C: float | Array,
    radius: float | Array,
    step: Callable[[int], float | Array],
    batch: int,
    n_passes: int,
    fit_intercept: bool,
    rng: np.random.RandomState,
) -> Steps:
    """Yield (coefficients, intercept (k,), norm (k,)) before each batch and at the end; y is (n, k) of -1 and 1.

    C, radius and steps are numbers or, where the machines differ, arrays (k,). It is done after the last batch. The
    objective, a sum over columns, is estimated on the next batch. The scores of the rows still to come are updated
    after each batch, so that each block of features is computed only once.
    """
    n, xp = len(y), namespace(y)
    starts = range(0, n, batch)
    f, b, square = 0 * y, 0 * y[0], 0 * y[0]  # the scores of all rows in the order of the pass, and ||f||^2
    for t in range(n_passes * len(starts)):
        start = starts[t % len(starts)]
        rows = slice(start, min(start + batch, n))
        if start == 0:
            order = rng.permutation(n)
            basis.reorder(order)
            y, f = y[order], f[order]
        norm = xp.sqrt(square)
        loss = 1 - y[rows] * (f[rows] + b) + radius * norm
        yield Step((basis.state(), b, norm), objective=_objective(square, loss, C), shown=f"batch {t}")
        factor, z = _change(y[rows], loss, norm, step(t + 1), C, radius)
        basis.shrink(factor)
        own = basis.add(t, rows, z)
        square = (factor**2 * square + (z * (2 * factor * f[rows] + own)).sum(axis=0)).clip(0, None)
        f *= factor
        f[rows] += own
        _carry(basis, f, t, (slice(rows.stop, n), slice(0, start if t < (n_passes - 1) * len(starts) else 0)))
        b = b + z.sum(axis=0) * fit_intercept
    rows, norm = slice(starts[-1], n), xp.sqrt(square)
    loss = 1 - y[rows] * (f[rows] + b) + radius * norm
    yield Step((basis.state(), b, norm), objective=_objective(square, loss, C), done=True)


def _change(
    y: Array, loss: Array, norm: Array, g: float | Array, C: float | Array, radius: float | Array
) -> tuple[Array, Array]:
    """Return the factor (k,) by which a step of size g multiplies f, and the coefficients (batch, k) of the batch."""
    xp = namespace(y)
    signs = xp.where(loss > 0, y, 0.0)  # of the active rows
    pull = C * radius * abs(signs).mean(axis=0) / xp.where(norm > 0, norm, np.inf)
    return (1 - g * (1 + pull)).clip(0, None), g * C / len(loss) * signs


def _carry(basis: Basis, f: Array, t: int, parts: tuple[slice, ...]) -> None:
    """Add term t to the scores f of the rows still to come."""
    for part in parts:
        if part.stop > part.start:
            f[part] += basis.scores(t, part)


def _objective(square: Array, loss: Array, C: float | Array) -> float:
    return float((0.5 * square + C * loss.clip(0, None).mean(axis=0)).sum())
