"""What is measured of a fitted estimator: its score on test rows, as they are or attacked, with an interval."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.attacks import pgd

RESAMPLES = 1000


@dataclass
class Cell:
    """One number of the table with its 95% bootstrap interval; all None where the budget ran out."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def text(self) -> str:
        """Return the value over its interval, for a narrow column."""
        return "-" if self.value is None else f"{self.value:.3f}\n{_short(self.low)}–{_short(self.high)}"


def _short(value: float | None) -> str:
    """Return two decimals, without the zero in front of them."""
    return f"{value:.2f}".removeprefix("0")


def accuracy(correct: NDArray[np.bool_], seed: int) -> Cell:
    """Return the mean of ``correct`` (n,) with its bootstrap interval over rows."""
    return _bootstrap(correct.astype(np.float64), seed, root=False)


def rmse(residual: NDArray[np.float64], seed: int) -> Cell:
    """Return the root mean square of ``residual`` (n,) with its bootstrap interval over rows."""
    return _bootstrap(residual**2, seed, root=True)


def _bootstrap(values: NDArray[np.float64], seed: int, root: bool) -> Cell:
    rng = np.random.default_rng(seed)
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
    numbers = np.array([values.mean(), *np.quantile(means, [0.025, 0.975])])
    return Cell(*(float(v) for v in (np.sqrt(numbers) if root else numbers)))


def attacked_correct(
    model: Any, X: NDArray[np.float64], y: NDArray[Any], eps: float, n_numeric: int, seed: int
) -> NDArray[np.bool_]:
    """Say of each row whether it survives PGD (40 steps, 2 starts) in an l_inf ball of numeric features only."""
    low, high = X.copy(), X.copy()
    low[:, :n_numeric], high[:, :n_numeric] = -np.inf, np.inf
    perturbed = pgd(model, X, y, eps=eps, bounds=(low, high), steps=40, restarts=2, random_state=seed)
    return np.asarray((model.predict(perturbed) == y) & (model.predict(X) == y))
