"""Weighted sums of kernel values, with which an expansion predicts: panel by panel, so that no large matrix is kept.

``weighted_sums(kernel, Z, real)`` returns an object whose call gives sum_j k(x_i, z_j) coef_jc for dense rows X. A
panel of the RBF kernel stays in the cache of the processor from its products to its sums, and several threads share
the rows. The panels depend on the sizes alone, so the sums have the same bits whatever the number of threads.
"""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from buttress._arrays import to_numpy
from buttress._checks import Array
from buttress._threads import BLOCK_ENTRIES, own_threads, share
from buttress.gram.compiled import rbf_entries, rbf_in_place
from buttress.gram.entries import PROFILE
from buttress.kernels import RBF, Kernel, Linear
from buttress.kernels.kernel import Centred, less
from buttress.kernels.points import OnDevice, centred

HEIGHT = 512  # rows of a panel, at most
LEAST_HEIGHT = 64  # and at least: time only
MOST_SHARES = 16  # of few rows, so that as many threads have some
PANEL_ENTRIES = 512 * 512  # of a panel: 1 MB in float32
WIDEST = 4096  # columns of a panel: so many products at most are summed in float32
ALONE = 200_000  # multiplications: up to this, every BLAS uses one thread by itself


class Sums(Protocol):
    """Weighted sums of the kernel between any rows and fixed ones."""

    def __call__(self, X: Array, coef: Array) -> Array:
        """Return sum_j k(x_i, z_j) coef[j, c] for X (n, d) and coef (m, k), shape (n, k)."""


def hyperplane(Z: Array, coef: Array) -> Array:
    """Return Z'coef (d, k) for coef (m, k), computed as such sums are."""
    near = nearest_to_0(Z)
    return less(Z, near).T @ coef + np.outer(near, total_of(coef))


def nearest_to_0(Z: Array) -> Array:
    """Return the number nearest to 0 within the range of each column of Z (m, d), dense or CSR, (d,)."""
    if Z.shape[0] == 0:
        return np.zeros(Z.shape[1])
    least, most = (end.toarray().reshape(-1) if issparse(end) else end for end in (Z.min(axis=0), Z.max(axis=0)))
    return np.clip(0.0, least, most)


def total_of(coef: Array) -> Array:
    """Return the sums of the columns of coef (m, k), each rounded once."""
    return np.array([math.fsum(column) for column in coef.T.tolist()])


class GaussianSums:
    """Sums of the RBF kernel in the precision ``real``: those of a panel in it, those of all panels in float64."""

    def __init__(self, kernel: RBF, Z: Array, real: type[np.floating[Any]]):
        self.kernel = kernel
        self.centred = Centred.at_median(Z.astype(real, copy=False))

    def __call__(self, X: Array, coef: Array) -> Array:
        rows = self.centred.rows
        weights = coef.astype(rows.dtype, copy=False)
        total = np.zeros((len(X), coef.shape[1]))
        gamma = float(self.kernel.gamma)

        height = max(LEAST_HEIGHT, min(HEIGHT, -(-len(X) // MOST_SHARES)))

        def work(tops: Iterator[int]) -> None:
            for top in tops:
                self._add(X[top : top + height], weights, gamma, total[top : top + height])

        cost = float(len(X)) * len(rows) * (rows.shape[1] + PROFILE)
        with nullcontext() if cost <= ALONE else own_threads():
            share(work, range(0, len(X), height), cost)
        return total

    def _add(self, X: Array, weights: Array, gamma: float, total: Array) -> None:
        """Add the sums of a few rows to ``total``."""
        moved, norms = self.centred.moved(X)
        width = min(WIDEST, PANEL_ENTRIES // len(X))
        for left in range(0, len(weights), width):
            some = slice(left, left + width)
            panel = moved @ self.centred.rows[some].T
            total += _values(panel, norms, self.centred.norms[some], gamma) @ weights[some]


def _values(panel: Array, xx: Array, zz: Array, gamma: float) -> Array:
    """Return exp(-gamma |x_i - z_j|^2) for inner products (n, m), which are overwritten, and squared norms."""
    if panel.dtype == np.float64:
        rbf_in_place(panel, xx, zz, gamma)
        return panel
    values = np.empty_like(panel)
    rbf_entries(panel, xx, zz, np.float32(gamma), values, np.arange(len(panel)), 0)
    return values


@singledispatch
def weighted_sums(kernel: Kernel, Z: Array, real: type[np.floating[Any]]) -> Sums:
    """Return the weighted sums of ``kernel`` with the rows of Z (m, d); ``real`` is the precision of rows and Z."""
    return _by_calls(kernel, Z)


def _by_calls(kernel: Kernel, Z: Array) -> Sums:
    """Return the sums of any kernel, by calling it on blocks of rows."""
    toward = kernel.toward(Z)
    step = max(1, BLOCK_ENTRIES // max(1, Z.shape[0]))

    def sums(X: Array, coef: Array) -> Array:
        parts = [toward(X[start : start + step]) @ coef for start in range(0, X.shape[0], step)]
        return np.concatenate(parts) if parts else np.empty((0, coef.shape[1]))

    return sums


@weighted_sums.register
def _(kernel: Linear, Z: Array, real: type[np.floating[Any]]) -> Sums:
    near = nearest_to_0(Z)  # far from 0 products cancel
    sums = _by_calls(kernel, less(Z, near))
    return lambda X, coef: sums(X, coef) + np.outer(X @ near, total_of(coef))


@weighted_sums.register
def _(kernel: RBF, Z: Array, real: type[np.floating[Any]]) -> Sums:
    return GaussianSums(kernel, Z, real)


@weighted_sums.register
def _(kernel: OnDevice, Z: Array, real: type[np.floating[Any]]) -> Sums:
    Z = Z.astype(real, copy=False)
    place = kernel.place(Z)
    toward = centred(kernel.kernel, place(Z))
    step = max(1, BLOCK_ENTRIES // max(1, len(Z)))

    def sums(X: Array, coef: Array) -> Array:
        weights = place(coef)
        total = np.zeros((len(X), coef.shape[1]))
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            total[part] = to_numpy(toward(place(X[part])).values @ weights)
        return total

    return sums
