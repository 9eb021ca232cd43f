"""Kernel expansions f(x) = sum_j coef_j k(x, z_j) + intercept, with which every kernel model here predicts.

All fitted kernel estimators have one as ``expansion_``. Attacks and certificates need only this expansion and the
contrasts, which say how scores decide the predicted label.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from buttress._arrays import Place, namespace
from buttress._checks import Array
from buttress._state import Attribute, Lengths, State
from buttress._threads import BLOCK_ENTRIES
from buttress._types import Attributes, Estimator
from buttress.gram.sums import Sums, weighted_sums
from buttress.kernels import Combination, Kernel, Linear, Precomputed


class HasExpansion(Estimator, Protocol):
    """A fitted estimator that predicts with a kernel expansion."""

    expansion_: "KernelExpansion"


def _by_number(kernel: Kernel) -> bool:
    """Say whether a kernel knows training rows by their number only, so that centers are numbers."""
    inner = kernel.kernels if isinstance(kernel, Combination) else ()
    return isinstance(kernel, Precomputed) or getattr(kernel, "known", None) is not None or any(map(_by_number, inner))


def _learn_width(expansion: "KernelExpansion", lengths: Lengths) -> None:
    """Learn from the centers how many columns rows have; numbers of rows say nothing of them."""
    if not _by_number(expansion.kernel):
        lengths.setdefault("n_features", expansion.centers.shape[1])


@dataclass
class KernelExpansion:
    """k scores per row, ``expansion(X)[i, c] = sum_j coef[j, c] * kernel(x_i, centers_j) + intercept[c]``, and more.

    A linear part ``x_i @ linear[:, c]`` is added where there is one. Whoever reads the parts must read that too.

    Parameters
    ----------
    kernel : Kernel
    centers : array of shape (m, d)
    coef : array of shape (m, k)
    intercept : array of shape (k,)
    linear : array of shape (d, k) or None
    """

    _state = State(
        Attribute("kernel", "part", of="Kernel"),
        Attribute("centers", "finite", "n_centers, *"),
        Attribute("coef", "finite", "n_centers, n_scores"),
        Attribute("intercept", "finite", "n_scores"),
        Attribute("linear", "finite", "n_features, n_scores or none"),
        together=_learn_width)

    kernel: Kernel
    centers: Array
    coef: Array
    intercept: Array
    linear: Array | None = None

    def __call__(self, X: Array) -> Array:
        """Return the scores of the rows of X, shape (n, k)."""
        if isinstance(X, np.ndarray) and isinstance(self.centers, np.ndarray):
            scores = self._sums(X)(X, self.coef) + self.intercept
        else:
            scores = self._called(X) + self.intercept
        return scores if self.linear is None else scores + X @ self.linear

    def gradient(self, X: Array, V: Array) -> Array:
        """Return sum_c V[i, c] * d score_c(x_i) / d x_i, shape (n, d), for V of shape (n, k)."""
        pairs = zip(self._parts(X), self._parts(V), strict=True)
        parts = [self.kernel.gradient(x, self.centers, v @ self.coef.T) for x, v in pairs]
        gradient = np.concatenate(parts) if parts else np.empty_like(X)
        return gradient if self.linear is None else gradient + V @ self.linear.T

    def moved(self, place: Place) -> "KernelExpansion":
        """Return the same expansion with its arrays on the device of ``place``."""
        linear = None if self.linear is None else place(self.linear)
        centers, coef, intercept = map(place, (self.centers, self.coef, self.intercept))
        return KernelExpansion(self.kernel, centers, coef, intercept, linear)

    def freeze(self) -> None:
        """Make the centers read-only: then what the scores of single rows need of them is computed once only."""
        if isinstance(self.centers, np.ndarray):
            self.centers.flags.writeable = False

    def __getstate__(self) -> Attributes:
        """Return the parts and whether the centers are read-only, which numpy's own state leaves out."""
        parts = {name: value for name, value in vars(self).items() if name != "_kept"}
        return parts | {"_frozen": self._fixed()}

    def __setstate__(self, state: Attributes) -> None:
        """Take the parts over, and freeze centers that were frozen."""
        frozen = state.get("_frozen", False)
        vars(self).update({name: value for name, value in state.items() if name != "_frozen"})
        if frozen:
            self.freeze()

    def _fixed(self) -> bool:
        return isinstance(self.centers, np.ndarray) and not self.centers.flags.writeable

    def _sums(self, X: Array) -> Sums:
        """Return the weighted sums toward the centers; of few that are read-only they are kept for the next call."""
        single = X.dtype == self.centers.dtype == np.float32
        real: type[np.floating[Any]] = np.float32 if single else np.float64
        # 8 MB: with at most this many, what depends on the centers alone is kept
        if not (self._fixed() and self.centers.size <= 1 << 20):
            return weighted_sums(self.kernel, self.centers, real)
        key = (self.kernel, self.centers, real)
        kept, sums = vars(self).get("_kept", ((None, None, None), None))
        if any(now is not then for now, then in zip(key, kept, strict=True)):
            sums = weighted_sums(self.kernel, self.centers, real)
            self._kept = (key, sums)
        return sums

    def _called(self, X: Array) -> Array:
        """Return the sums of sparse rows or of tensors, by calling the kernel."""
        if isinstance(self.kernel, Linear) and (issparse(X) or issparse(self.centers)):
            return weighted_sums(self.kernel, self.centers, np.float64)(X, self.coef)
        panels = [self.kernel(part, self.centers) @ self.coef for part in self._parts(X)]
        return namespace(X).concatenate(panels) if panels else np.empty((0, self.coef.shape[1]))

    def _parts(self, X: Array) -> list[Array]:
        rows = max(1, BLOCK_ENTRIES // max(1, self.centers.shape[0]))
        return [X[start : start + rows] for start in range(0, X.shape[0], rows)]


def binary_contrasts() -> Array:
    """Contrasts of one score whose sign is the class: shape (2, 1, 1).

    In general ``contrasts[y, r] @ scores(x)`` is the lead of label y over its r-th rival. The margin of a row with
    label y is the smallest lead; it is positive exactly if the row is classified as y.
    """
    return np.array([[[-1.0]], [[1.0]]])


def rival_contrasts(n_classes: int) -> Array:
    """Contrasts of one score per class, where the largest score decides: shape (C, C-1, C)."""
    unit = np.eye(n_classes)
    return np.array([[unit[y] - unit[r] for r in range(n_classes) if r != y] for y in range(n_classes)])


def class_contrasts(n_classes: int) -> Array:
    """Contrasts of one score for two classes, of one a class for more."""
    return binary_contrasts() if n_classes == 2 else rival_contrasts(n_classes)


def one_against_rest(codes: NDArray[np.intp], n_classes: int) -> Array:
    """Return +1 where a row is of the score's class, else -1, (n, n_scores): the second of two, else one a class."""
    scored = np.arange(n_classes) if n_classes > 2 else np.array([1])
    return np.where(codes[:, None] == scored, 1.0, -1.0)


def pairs_of(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in the order of their scores."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def pair_contrasts(pairs: list[tuple[int, int]], n_classes: int) -> Array:
    """Contrasts of one score per pair (i, j), positive for i: shape (C, C-1, len(pairs)).

    Winning every pair wins the vote, so a positive margin means a correct vote (the converse can fail).
    """
    contrasts = np.zeros((n_classes, n_classes - 1, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        contrasts[i, j - 1, column] = 1
        contrasts[j, i, column] = -1
    return contrasts


def margins(scores: Array, codes: NDArray[np.intp], contrasts: Array) -> tuple[Array, Array]:
    """Return the margin of each row for its class ``codes`` (n,) and the contrast that attains it (n, k)."""
    leads = np.einsum("irk,ik->ir", contrasts[codes], scores)
    worst = leads.argmin(axis=1)
    rows = np.arange(len(codes))
    return leads[rows, worst], contrasts[codes, worst]


def winners(scores: Array, contrasts: Array) -> NDArray[np.intp]:
    """Return, for each row, the number of the class that leads over most rivals; the first one of equals."""
    leads = namespace(scores).einsum("crk,ik->icr", contrasts, scores)
    return (leads > 0).sum(axis=2).argmax(axis=1)
