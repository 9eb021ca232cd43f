"""The program of the smallest ball by a general solver, and the kernels it is tried on."""

import numpy as np
from scipy.optimize import minimize

from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, Log, Polynomial, Sigmoid

SIGMOID = Sigmoid(0.2, -0.5)
EIGHT = [Linear(), Polynomial(2, 0.3, 1.0), RBF(0.4), Laplacian(0.7), SIGMOID, InverseMultiquadric(1.3), Log(2, 0.5),
         Cauchy(0.6)]


def distances2(model, X):
    """Squared distances of rows to the centre of a fitted ball, from its kernel and coefficients."""
    k, a = model.kernel_, model.dual_coef_[0]
    Z = model.support_vectors_
    return k.diagonal(X) - 2 * k(X, Z) @ a + a @ k(Z, Z) @ a


def normalised(kernels, X):
    """Centred Gram matrices with tr/n = 1, the long way."""
    H = np.eye(len(X)) - 1 / len(X)
    grams = [H @ kernel(X, X) @ H for kernel in kernels]
    return [K * len(X) / np.trace(K) for K in grams]


def best_dual(grams, bound, sums_to=1.0):
    """Return max over a of min_p diag(K_p)'a - a'K_p a by SLSQP."""
    n = len(bound)
    values = [lambda a, K=K: np.diag(K) @ a - a @ K @ a for K in grams]
    slopes = [lambda a, K=K: np.diag(K) - 2 * K @ a for K in grams]
    above = [{"type": "ineq", "fun": lambda z, v=v: v(z[:-1]) - z[-1], "jac": lambda z, s=s: np.append(s(z[:-1]), -1.0)}
             for v, s in zip(values, slopes)]
    total = {"type": "eq", "fun": lambda z: z[:-1].sum() - sums_to, "jac": lambda z: np.append(np.ones(n), 0.0)}
    found = minimize(lambda z: -z[-1], np.append(bound / bound.sum(), 0.0), jac=lambda z: np.append(np.zeros(n), -1.0),
                     bounds=[(0, b) for b in bound] + [(None, None)], constraints=[*above, total], method="SLSQP",
                     options={"ftol": 1e-14, "maxiter": 2000})
    return found.x[-1]
