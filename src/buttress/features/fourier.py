"""Random Fourier features in blocks, which are drawn again when needed and not saved, and models built on them.

phi_{w,b}(x) = sqrt(2 F(0)) cos(w'x + b) with w from the kernel's spectrum and b uniform on [0, 2 pi], so that
k(x, z) = E phi(x) phi(z). Block t is a function of (seed, t): a model is its seed and its coefficients.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._arrays import NUMPY, Place, namespace, place_of
from buttress._checks import Array, check_count
from buttress._state import Attribute, State
from buttress._threads import slices
from buttress._types import Attributes
from buttress.expansion import KernelExpansion
from buttress.features.spectral import Spectrum, exponentials, normals, shares, spectrum_of, words
from buttress.kernels import Kernel

# some rows or columns
Some = slice | NDArray[np.intp]
EVERY = slice(None)

AT_HAND = 2**29  # most bytes of blocks that a model keeps while it is in use; they are never pickled


@dataclass
class RandomFeatures:
    """Blocks of ``size`` random features of ``kernel`` on ``width`` inputs; ``features(X, t)`` gives those of block t.

    Parameters
    ----------
    kernel : Kernel
    width : int
        d, the number of inputs.
    size : int
        m, features a block.
    seed : int
    """

    _state = State(
        Attribute("kernel", "part", of="Kernel"),
        Attribute("width", "count", length="n_features"),
        Attribute("size", "count", length="n_waves", low=1),
        Attribute("seed", "count"))

    kernel: Kernel
    width: int
    size: int
    seed: int
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> Attributes:
        return {**self.__dict__, "_kept": {}}

    def waves(self, block: int, place: Place = NUMPY) -> tuple[Any, Any]:
        """Return frequencies (d, m) and phases (m,) of one block, on the device of ``place``."""
        kept: tuple[Any, Any] | None = self._kept.get((block, place))
        if kept is not None:
            return kept
        made = tuple(map(place, self._kept.get((block, NUMPY)) or self._drawn(block)))
        while self._kept and (len(self._kept) + 1) * made[0].nbytes > AT_HAND:
            with suppress(KeyError):  # another thread may have taken the last one
                self._kept.popitem()  # the newest: a model uses its blocks in order
        self._kept[block, place] = made
        return made

    def _drawn(self, block: int) -> tuple[Array, Array]:
        m, d = self.size, self.width
        bits = words(self.seed, block, m + (m * d + m + 1) // 2)
        draws = normals(bits[m:])
        lengths = spectrum_of(self.kernel, "Random features").lengths(self.kernel, draws[:m], exponentials(bits[:m]))
        return draws[m : m + m * d].reshape(d, m) * lengths, 2 * np.pi * shares(bits[:m])

    def moved(self, place: Place) -> "RandomFeatures":
        """Return the same features with the blocks that are stored here, on the device of ``place``."""
        stored = [(block, made) for (block, at), made in list(self._kept.items()) if at == NUMPY]
        return replace(self, _kept={(block, place): tuple(map(place, made)) for block, made in stored})

    def fresh(self) -> "RandomFeatures":
        """Return the same features without stored blocks."""
        return replace(self, _kept={})

    @property
    def amplitude(self) -> float:
        """sqrt(2 F(0)), the largest value of a feature."""
        return float(np.sqrt(2 * self.kernel.diagonal(np.zeros((1, self.width)))[0]))

    @property
    def scale(self) -> float:
        """What a cosine is multiplied by."""
        return self.amplitude / float(np.sqrt(self.size))

    def phase(self, X: Array, block: int) -> Any:
        """Return w'x + b, (n, m), in the precision and on the device of X."""
        frequencies, phases = self.waves(block, place_of(X))
        total = X @ frequencies
        total += phases
        return total

    def __call__(self, X: Array, block: int) -> Any:
        """Return m^(-1/2) phi(x_i) of one block, (n, m): rows' inner products estimate the kernel."""
        features = self.phase(X, block)
        namespace(X).cos(features, out=features)
        features *= self.scale
        return features


def random_features(kernel: Kernel, width: int, size: int, *, seed: int) -> RandomFeatures:
    """Return random features of ``kernel``; ValueError for one without a spectrum here, naming those that have one."""
    spectrum_of(kernel, "Random features")
    return RandomFeatures(kernel, check_count("width", width), check_count("size", size), check_count("seed", seed, 0))


@dataclass
class RandomExpansion:
    """k scores per row: sum over blocks t of ``features(X, t) @ coef[t]``, plus intercept.

    Parameters
    ----------
    features : RandomFeatures
    coef : array of shape (T, m, k)
    intercept : array of shape (k,)
    """

    _state = State(
        Attribute("features", "part", of="RandomFeatures", shares="n_features, n_waves"),
        Attribute("coef", "finite", "n_blocks, n_waves, n_scores"),
        Attribute("intercept", "finite", "n_scores"))

    features: RandomFeatures
    coef: Array
    intercept: Array

    def moved(self, place: Place) -> "RandomExpansion":
        """Return the same expansion on that device, where its features are asked for."""
        return RandomExpansion(self.features.moved(place), place(self.coef), place(self.intercept))

    @cached_property
    def steepest(self) -> float:
        """The largest frequency along any one column."""
        place = place_of(self.coef)
        return max((float(abs(self.features.waves(block, place)[0]).max()) for block in range(len(self.coef))),
                   default=0.0)

    def __call__(self, X: Array) -> Array:
        """Return the scores of the rows of X, shape (n, k)."""
        scores = 0 * X[:, :1] + self.intercept
        for block, coef in enumerate(self.coef):
            for part in slices(len(X), self.features.size):
                scores[part] += self.features(X[part], block) @ coef
        return scores

    def gradient(self, X: Array, V: Array) -> Array:
        """Return sum_c V[i, c] * d score_c(x_i) / d x_i, shape (n, d), for V of shape (n, k)."""
        slopes = 0 * X
        for block, coef in enumerate(self.coef):
            for part in slices(len(X), self.features.size):
                rise = namespace(X).sin(self.features.phase(X[part], block)) * (V[part] @ coef.T)
                slopes[part] -= rise @ self.features.waves(block, place_of(X))[0].T
        return self.features.scale * slopes


Scores = KernelExpansion | RandomExpansion  # of rows, with their input gradients


class WavePoint:
    """Scores and gradients of a sum of random features at some rows, from one set of phases (T blocks of (n, m))."""

    def __init__(self, expansion: RandomExpansion, X: Array):
        self.expansion = expansion
        self.features = expansion.features
        self.X = X + 0  # an attack may move its rows in place
        self.phases = [self.features.phase(X, block) for block in range(len(expansion.coef))]

    @cached_property
    def scores(self) -> Array:
        """The scores, shape (n, k)."""
        parts = (self.features.scale * (namespace(phase).cos(phase) @ coef)
                 for phase, coef in zip(self.phases, self.expansion.coef, strict=True))
        return sum(parts, 0 * self.X[:, :1] + self.expansion.intercept)

    def gradient(self, V: Array, rows: Some = EVERY, columns: Some = EVERY) -> Array:
        """Return the gradients of the V-weighted scores of these rows along these columns, shape (r, c)."""
        slopes = 0 * self.X[rows][:, columns]
        place = place_of(self.X)
        for block, (phase, coef) in enumerate(zip(self.phases, self.expansion.coef, strict=True)):
            rise = namespace(phase).sin(phase[rows]) * (V @ coef.T)
            slopes -= rise @ self.features.waves(block, place)[0][columns].T
        return self.features.scale * slopes

    def nudged(self, rows: Some, columns: NDArray[np.intp], steps: Array, V: Array) -> Array | None:
        """Return the V-weighted scores of these rows after ``steps`` (r, B) along ``columns``, to first order.

        In the difference of opposite steps the second order cancels. Returns None if steps are too long: the third
        order would then give a relative error of more than 1e-7.
        """
        if float(abs(steps).max()) * self.expansion.steepest > 1e-3:  # too long for a precise slope
            return None
        xp = namespace(V)
        named, at = xp.unique(columns, return_inverse=True)
        slopes = self.gradient(V, rows, named)[xp.arange(len(V))[:, None], at.reshape(columns.shape)]
        return (V * self.scores[rows]).sum(axis=1)[:, None] + steps * slopes


def gradient_noise(expansion: RandomExpansion) -> Array:
    """Return the expected l1 norm of the noise that random features add to each score's input gradient, shape (k,).

    A coordinate of the gradient of sum_j c_j phi_j(x) / sqrt(m) has variance F(0) E[w_1^2] |c|^2 / m. The
    expected l1 norm is d sqrt(2/pi) times its root. With D features fitted to a function f this is
    ||f|| d sqrt(4 gamma / (pi D)) for RBF; it is inf for the Laplacian kernel, whose frequencies have no variance.
    """
    features = expansion.features
    spectrum: Spectrum = spectrum_of(features.kernel, "Random features")
    squares = np.sum(expansion.coef**2, axis=(0, 1)) / features.size
    spread = features.amplitude**2 / 2 * spectrum.second_moment(features.kernel)
    return features.width * np.sqrt(2 / np.pi * spread * squares)
