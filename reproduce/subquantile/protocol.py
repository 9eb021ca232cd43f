"""The protocol behind the paper's tables, as the author's earlier code for the linear version has it.

X and y are standardised on the whole set (Drug: left raw); a random 80/20 split; the last share of the training rows is
corrupted, after standardisation; the test rows are clean. Label noise draws y from N(5, 5), the second 5 a standard
deviation; label and feature noise multiplies x by 100 and y by 10,000. Classes are flipped.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._types import Predictor
from buttress.datasets import load_bundled, make_polynomial
from buttress.kernels import RBF, Kernel, Polynomial
from reproduce.subquantile.uci import load_uci


@dataclass(frozen=True)
class Problem:
    """A set as the paper uses it: features, targets (numbers, or classes 0 and 1), kernel, and whether label noise is
    added to the target (N(0, 5), table 4) or takes its place."""

    X: Array
    y: NDArray[Any]
    classes: bool
    kernel: Kernel
    oblivious: bool = False


@dataclass(frozen=True)
class Trial:
    """One split: corrupted training rows, which of them are corrupt, clean test rows, the rate and the seed."""

    X: Array
    y: NDArray[Any]
    corrupt: NDArray[np.bool_]
    X_test: Array
    y_test: NDArray[Any]
    kernel: Kernel
    rate: float
    seed: int

    def score(self, model: Predictor) -> float:
        """Return the test RMSE, or the test accuracy of classes."""
        predicted = model.predict(self.X_test)
        if self.y_test.dtype.kind == "i":
            return float(np.mean(predicted == self.y_test))
        return float(np.sqrt(np.mean((predicted - self.y_test) ** 2)))


FILES = {"Boston": "boston_housing", "Concrete": "concrete", "Wine": "wine_quality_red", "Drug": "drug_qsar",
         "Heart": "heart_cleveland", "Breast cancer": "breast_cancer_wisconsin"}


def problem(name: str, data_dir: str | Path | None = None) -> Problem:
    """Return a set of the tables; "Polynomial" and "Diabetes" need no file and serve for short runs."""
    if name == "Polynomial":
        X, y, _ = make_polynomial(random_state=0)
        return Problem(X, y, False, Polynomial(degree=3, gamma=1.0, coef0=1.0), oblivious=True)
    if name == "Diabetes":
        X, y, _, _ = load_bundled("diabetes")
        return Problem(standardised(X), standardised(y), False, RBF(1 / X.shape[1]))
    table = load_uci(FILES[name], data_dir)
    d = table.X.shape[1]
    if name == "Drug":
        return Problem(table.X, table.y, False, Polynomial(degree=3, gamma=1 / d, coef0=1.0))
    y = table.y.astype(np.int64) if table.classes else standardised(table.y)
    return Problem(standardised(table.X), y, table.classes, RBF(1 / d))


def standardised(V: Array) -> Array:
    """Return V with columns of mean 0 and standard deviation 1; a constant column becomes 0."""
    spread = V.std(axis=0)
    return (V - V.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def trial(source: Problem, rate: float, kind: str, seed: int) -> Trial:
    """Split and corrupt; ``kind`` is "label" or "label+feature"."""
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(source.X))
    n_train = int(0.8 * len(order))
    train, test = order[:n_train], order[n_train:]
    X, y = source.X[train].copy(), source.y[train].copy()
    corrupt = np.arange(n_train) >= n_train - int(rate * n_train)
    if source.classes:
        y[corrupt] = 1 - y[corrupt]
    elif kind == "label":
        size = int(corrupt.sum())
        y[corrupt] = y[corrupt] + rng.normal(0, 5, size) if source.oblivious else rng.normal(5, 5, size)
    else:
        y[corrupt] *= 10_000
    if kind == "label+feature":
        X[corrupt] *= 100
    return Trial(X, y, corrupt, source.X[test], source.y[test], source.kernel, rate, seed)
