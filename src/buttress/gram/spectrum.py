"""What to do with a kernel that is not positive definite: clip or flip the spectrum of its Gram matrix.

A corrected kernel is the given one plus a finite sum over the negative eigenvalues l, with unit eigenvectors u of
the Gram matrix K of the training rows:

    k~(x, z) = k(x, z) + c sum_l (u'k_x)(u'k_z) / |l|,    (k_x)_i = k(x_i, x),    c = 1 (clip) or 2 (flip).

On the training rows this is K with l replaced by 0 or |l|. A new row gets k_x (I - c U U'), the usual map. A row of
weight w counts as w equal rows: u then solves W^(1/2) K W^(1/2) u = l u, and W^(1/2) u replaces u above.

For machines whose coefficients sum to zero less is needed. Only HKH matters to them, H = I - 11'/n. With HKH = U
diag(l) U': "clip" solves with max(l, 0), "flip" with abs(l), which is the machine in the Krein space (Loosli, Canu &
Ong 2016). The coefficients b found are then turned into those of the original kernel, k(x, X) c: c = H T b with T = U
diag(1[l > 0]) U' or U diag(sign l) U', which maps test rows as training rows were. A ball also needs the changed
k(x, x) of new rows, so it carries a changed kernel instead.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, check_option, warn_user
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse
from buttress.gram.entries import entries
from buttress.kernels import Kernel, Precomputed, centers

POLICIES = ("warn", "raise", "clip", "flip")
SPECTRUM_ROWS = 5000  # most rows for a full eigendecomposition, which costs n^3 and holds two matrices of 200 MB


class SpectrumCorrected(Kernel):
    """k(x, z) + (k_x'V)(k_z'V)' for ``vectors`` V (n, r) over the training rows ``landmarks``.

    For a Gram matrix given in advance, rows are known by their number only, and ``known`` holds K V (n, r).
    """

    _state = State(
        Attribute("kernel", "part", of="Kernel"),
        Attribute("landmarks", "finite", "n_landmarks, n_features or none"),
        Attribute("vectors", "finite", "n_landmarks, n_vectors"),
        Attribute("known", "finite", "*, n_vectors or none"))

    definiteness = "cpd"

    def __init__(self, kernel: Kernel, landmarks: Array, vectors: Array, known: Array | None = None):
        self.kernel = kernel
        self.landmarks = landmarks
        self.vectors = vectors
        self.known = known

    def _coordinates(self, X: Array) -> Array:
        return self.kernel(X, self.landmarks) @ self.vectors

    def __call__(self, X: Array, Z: Array) -> Array:
        of_Z = self._coordinates(Z) if self.known is None else self.known[Z[:, 0].astype(np.intp)]
        return self.kernel(X, Z) + self._coordinates(X) @ of_Z.T

    def added(self, X: Array) -> Array:
        """Return k~(x, x) - k(x, x), shape (n,)."""
        return np.sum(self._coordinates(X) ** 2, axis=1)

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(X) + self.added(X)

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        through = (V @ self._coordinates(Z)) @ self.vectors.T
        return self.kernel.gradient(X, Z, V) + self.kernel.gradient(X, self.landmarks, through)


def is_definite(kernel: Kernel, X: DenseOrSparse) -> bool:
    """Say whether the kernel is conditionally positive definite on rows like X (n, d), dense or CSR.

    That is enough where coefficients sum to a constant. A kernel that is not proven to be so is judged by the
    eigenvalues of the centred Gram matrix of at most 500 rows.
    """
    if kernel.definiteness in ("pd", "cpd"):
        return True
    some = np.unique(np.linspace(0, X.shape[0] - 1, 500, dtype=np.intp))  # a thousandth of the work of 5,000
    values = np.linalg.eigvalsh(centred(entries(kernel, X, np.float64)(some, some)))
    return bool(values[0] >= -1e-8 * max(abs(values[0]), values[-1]))  # a smaller eigenvalue is not rounding


def check_spectrum(policy: str, n: int) -> None:
    """Raise ValueError if a policy needs the spectrum of more than ``SPECTRUM_ROWS`` rows."""
    if n > SPECTRUM_ROWS:
        raise ValueError(f"indefinite={policy!r} needs the spectrum of the whole Gram matrix and takes up to "
                         f"{SPECTRUM_ROWS} rows. Got {n}. Use a positive definite kernel or fewer rows.")


def centred(K: Array) -> Array:
    """Return the symmetric part of HKH, H = I - 11'/n."""
    K = K - K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    return 0.5 * (K + K.T)


def correct(kernel: Kernel, X: Array, weight: Array, policy: str) -> tuple[Kernel, Array]:
    """Return the kernel corrected by ``policy`` (clip or flip) and its Gram matrix on the training rows X.

    Raises ValueError beyond 5,000 rows, whose spectrum would take minutes.
    """
    check_option("indefinite", policy, ("clip", "flip"))
    check_spectrum(policy, len(X))
    Z = centers(kernel, X)
    K = kernel(X, Z)
    K = (K + K.T) / 2
    given = isinstance(kernel, Precomputed)
    vectors = negative_part(K, weight) * (1.0 if policy == "clip" else np.sqrt(2))
    coordinates = K @ vectors
    return SpectrumCorrected(kernel, Z, vectors, coordinates if given else None), K + coordinates @ coordinates.T


def known_diagonal(kernel: Kernel, X: Array, diag: Array) -> Array:
    """Return k~(x, x) of rows whose uncorrected k(x, x) is ``diag``."""
    return diag + kernel.added(X) if isinstance(kernel, SpectrumCorrected) else diag


def negative_part(K: Array, weight: Array) -> Array:
    """Return V (n, r) so that (K V)(K V)' is minus the negative part of K, rows counted by weight (see the module)."""
    root = np.sqrt(weight)
    values, vectors = np.linalg.eigh(root[:, None] * K * root)
    negative = values < -1e-10 * np.abs(values).max()  # the others may be rounding
    return root[:, None] * vectors[:, negative] / np.sqrt(-values[negative])


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
    """Apply a policy of ``POLICIES`` to the kernel on the rows X.

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
            raise ValueError(f'{text}. Use another kernel, or indefinite="clip" or "flip".')
        warn_user(f'{text}: the model is a stationary point without an optimality gap. indefinite="clip" or "flip" '
                  "solves a convex problem instead.", IndefiniteKernelWarning)
        return Settled(kernel, X, False)
    return spectral(kernel, X, policy)


def spectral(kernel: Kernel, X: DenseOrSparse, policy: str) -> Settled:
    """Return the problem with the changed spectrum, as a precomputed Gram matrix."""
    check_spectrum(policy, X.shape[0])
    index = np.arange(X.shape[0])
    K = entries(kernel, X, np.float64)(index, index)
    values, U = np.linalg.eigh(centred(K))
    turned = (values > 0).astype(float) if policy == "clip" else np.sign(values)
    change = (U * turned) @ U.T
    change -= change.mean(axis=0)
    return Settled(Precomputed(), (U * (turned * values)) @ U.T, True, change, K.mean(axis=0))
