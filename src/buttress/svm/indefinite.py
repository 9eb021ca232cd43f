"""What to do with a kernel that is not positive definite, for machines whose coefficients sum to zero.

Only HKH matters to them, H = I - 11'/n. With HKH = U diag(l) U': "clip" solves with max(l, 0), "flip" and "krein"
with abs(l), "shift" with l - min(l). The coefficients b found are then turned into those of the original kernel,
k(x, X) c: c = H T b with T = U diag(1[l > 0]) U', U diag(sign l) U' or I, which maps test rows as training rows were.
For "flip" and "krein" (Loosli, Canu & Ong 2016) this is the same machine by two roads. A ball also needs the changed
k(x, x) of new rows, so it carries a changed kernel instead (``gram/spectrum.py``).
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, warn_user
from buttress._types import DenseOrSparse
from buttress.gram.entries import Index, entries
from buttress.gram.spectrum import POLICIES, centred, check_spectrum, is_definite
from buttress.kernels import Kernel, Precomputed

MACHINE_POLICIES = (*POLICIES, "krein")


class IndefiniteKernelWarning(UserWarning):
    """The kernel is not positive definite on these rows: the model is a stationary point without an optimality gap."""


@dataclass
class Settled:
    """The kernel and rows to solve with, whether that is a convex problem, and the way back to the original kernel."""

    kernel: Kernel
    X: DenseOrSparse
    convex: bool
    change: Array | None = None  # H T
    means: Array | None = None  # column means of K

    def original(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """Return coefficients (n, k) and intercepts (k,) for the original kernel."""
        if self.change is None or self.means is None:
            return coef, intercept
        coef = self.change @ coef
        return coef, intercept - self.means @ coef


def settle(kernel: Kernel, X: DenseOrSparse, policy: str) -> Settled:
    """Apply a policy of ``MACHINE_POLICIES`` to the kernel on the rows X.

    Raises
    ------
    ValueError
        With "raise" when a sample of 500 rows shows the kernel indefinite; with a spectral policy beyond 5,000 rows.
    """
    if is_definite(kernel, X):
        return Settled(kernel, X, True)
    if policy in ("warn", "raise"):
        text = (f"{type(kernel).__name__} is not positive definite on these rows (a sample of its Gram matrix has "
                "negative eigenvalues)")
        if policy == "raise":
            raise ValueError(f'{text}. Use another kernel, or indefinite="clip", "flip", "shift" or "krein".')
        warn_user(f'{text}: the model is a stationary point without an optimality gap. indefinite="clip", "flip", '
                  '"shift" or "krein" solves a convex problem instead.', IndefiniteKernelWarning)
        return Settled(kernel, X, False)
    return spectral(kernel, X, policy)


def settled_on(kernel: Kernel, X: DenseOrSparse, index: Index, policy: str) -> Settled:
    """Return what to solve with on the rows ``index`` of X: rows and columns of a Gram matrix, rows of anything else.
    """
    return settle(kernel, X[np.ix_(index, index)] if isinstance(kernel, Precomputed) else X[index], policy)


def spectral(kernel: Kernel, X: DenseOrSparse, policy: str) -> Settled:
    """Return the problem with the changed spectrum, as a precomputed Gram matrix."""
    n = X.shape[0]
    check_spectrum(policy, n)
    index = np.arange(n)
    K = entries(kernel, X, np.float64)(index, index)
    values, U = np.linalg.eigh(centred(K))
    convex = {"clip": np.maximum(values, 0), "shift": values - values[0]}.get(policy, np.abs(values))
    turned = {"clip": (values > 0).astype(float), "shift": np.ones(n)}.get(policy, np.sign(values))
    change = (U * turned) @ U.T
    change -= change.mean(axis=0)
    return Settled(Precomputed(), (U * convex) @ U.T, True, change, K.mean(axis=0))
