"""A weight a column and a linear part for a kernel of a distance, by the leave-one-out error of weighted kernel ridge.

    k(x, z) = F(sum_k w_k (x_k - z_k)^2) + b x'z + F(0)

    minimise over w, b, alpha   1/2 log(sum_i u_i e_i^2 / m) + sum_k (log w_k)^2 / (2 m t^2),      m = sum_i u_i

e_i is the residual of row i under the fit without it, of row weights u and ridge alpha; where a row has several
targets, such as one a class, e_i^2 is summed over them. The first term is minus the likelihood a row of normal
residuals, their variance fitted; the second a normal law of spread t of log w_k. Few rows thus leave weights near 1.

With A = K + alpha U^-1, P = A^-1 and c = P y the residuals are e_i = c_i / P_ii (Sundararajan & Keerthi, Predictive
approaches for choosing hyperparameters in Gaussian processes, 2001). So D, the derivative of sum_i u_i e_i^2 in A, is
P diag(q) P - (v c' + c v') / 2 with q_i = 2 u_i e_i^2 / P_ii and v = P (2 u e / diag P). The derivative in log w_k,
w_k sum_ij D_ij F'_ij (x_ik - x_jk)^2, takes one product (n, n) (n, d) for all columns.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from buttress._checks import Array
from buttress._rows import equal_rows
from buttress.kernels import Combination, Kernel, Linear, Radial, Stretched
from buttress.kernels.kernel import Centred
from buttress.solvers.ridge.leave_one_out import factorised
from buttress.solvers.ridge.tuning import COLUMNS


@dataclass(frozen=True)
class ColumnError:
    """The objective and its gradient, for rows X (n, d), no two equal, targets y (n, k) and weights u > 0 (n,).

    ``within`` is what equal rows add to the sum of squares: they are left out together, and count as their mean.
    """

    X: Array
    y: Array
    u: Array
    within: float
    kernel: Radial

    @classmethod
    def of(cls, X: Array, y: Array, u: Array, kernel: Radial) -> "ColumnError":
        """Return it for rows of which some may be equal."""
        y = y.reshape(len(y), -1)
        group = equal_rows(X)
        if group is None:
            return cls(X, y, u, 0.0, kernel)
        first = np.unique(group, return_index=True)[1]
        total = np.bincount(group, u).astype(np.float64)
        mean = np.stack([np.bincount(group, u * column) / total for column in y.T], axis=1)
        return cls(X[first], mean, total, float(np.sum(u @ (y - mean[group]) ** 2)), kernel)

    def __call__(self, logs: Array) -> tuple[float, Array]:
        """Return the objective and its gradient at the logarithms of w (d,), b and alpha in one array."""
        d = self.X.shape[1]
        w = np.exp(logs[:d])
        b, alpha = np.exp(logs[d:])
        r2 = Centred.at_median(self.X * np.sqrt(w)).squared_distances(self.X * np.sqrt(w))
        inner = self.X @ self.X.T
        A = self.kernel.profile(r2) + b * inner + self.kernel.profile(np.zeros(1))
        A.flat[:: len(A) + 1] += alpha / self.u
        squares, D = self._of_matrix(A)
        M = D * self.kernel.slope(r2)
        moved = 2 * (M.sum(axis=1) @ self.X**2 - np.einsum("ik,ik->k", self.X, M @ self.X))
        slopes = np.concatenate([w * moved, [b * np.sum(D * inner), alpha * np.sum(np.diagonal(D) / self.u)]])
        m = self.u.sum()
        prior = m * COLUMNS.spread**2
        gradient = slopes / (2 * squares)
        gradient[:d] += logs[:d] / prior
        return float(np.log(squares / m) / 2 + logs[:d] @ logs[:d] / (2 * prior)), gradient

    def _of_matrix(self, A: Array) -> tuple[float, Array]:
        """Return sum_i u_i e_i^2 and its derivative D in A (n, n), which is overwritten."""
        inverse, _ = lapack.dpotri(factorised(A)[0], lower=1, overwrite_c=1)
        P = np.tril(inverse) + np.tril(inverse, -1).T
        own = np.diagonal(P)
        c = P @ self.y
        e = c / own[:, None]
        square = self.u * np.sum(e**2, axis=1)
        cross = (P @ (self.u[:, None] * e / own[:, None])) @ c.T
        half = P * np.sqrt(2 * square / own)  # of a product with its own transpose half the entries are computed
        return float(square.sum()) + self.within, half @ half.T - cross - cross.T


def column_kernel(
    X: Array, y: Array, u: Array, kernel: Radial, *, alpha: float,
    alphas: tuple[float, float] | None = None
) -> tuple[Kernel, Array]:
    """Return the kernel k above, without F(0), and w (d,), learned from a small b on."""
    linear = -COLUMNS.linear * float(kernel.slope(np.zeros(1))[0])
    w, b = learned_columns(X.astype(np.float64, copy=False), y, u, kernel, linear=linear, alpha=alpha, alphas=alphas)
    return Combination([Stretched(kernel, np.sqrt(w)), Linear()], [1.0, b]), w


def learned_columns(
    X: Array, y: Array, u: Array, kernel: Radial, *, linear: float, alpha: float,
    alphas: tuple[float, float] | None = None
) -> tuple[Array, float]:
    """Return w (d,) and b after a few quasi-Newton steps (L-BFGS) from w = 1, b = ``linear`` and this alpha.

    X is (n, d), y (n,) or (n, k) and u (n,) > 0; alpha stays within ``alphas``, where these are given. Equal
    targets leave everything as it is.
    """
    error = ColumnError.of(X, y, u, kernel)
    d = X.shape[1]
    if len(error.u) < 2 or not np.ptp(error.y, axis=0).any():
        return np.ones(d), linear
    start = np.concatenate([np.zeros(d), np.log([linear, alpha])])
    span = np.log(COLUMNS.widest)
    bounds = np.stack([start - span, start + span], axis=1)
    bounds[-1] = bounds[-1] if alphas is None else np.log(alphas)
    found = minimize(error, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": COLUMNS.steps})
    return np.exp(found.x[:d]), float(np.exp(found.x[d]))
