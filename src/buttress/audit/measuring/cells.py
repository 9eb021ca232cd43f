"""What is measured of a fitted estimator: its score on test rows, as they are or attacked, with an interval."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from buttress._types import Predictor
from buttress.attacks import pgd, worst_case
from buttress.scores import as_classifier, read_scores

RESAMPLES = 1000  # of the bootstrap: its 2.5% quantile is then the 25th draw
PGD_STEPS = 40
PGD_STARTS = 2
QUERY_STEPS = 10  # of each attack by queries, which costs hundreds of predictions a step
QUERY_STARTS = 3
# Two estimators differ beyond chance (sign test, 5%) when six rows or more are right with one of them only; of fewer
# than twenty rows that would be a difference of .3, and the interval of no error at all reaches from .83 to 1.
ENOUGH = 20


@dataclass
class Cell:
    """One number of the table with its 95% interval; all None where the budget ran out."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    def text(self, interval: bool = True) -> str:
        """Return the value, over its interval if wanted, for a narrow column."""
        if self.value is None:
            return "-"
        return f"{self.number()}\n{self.interval('–')}" if interval else self.number()

    def number(self) -> str:
        """Return the value with three decimals, or four digits of it where the whole interval is small or large."""
        if self.value is not None and self.low is not None and self.high is not None:
            small = max(abs(self.low), abs(self.high)) < 0.01
            return shown(self.value, 3) if small or abs(self.value) >= 0.01 else f"{self.value:.3f}"
        return shown(self.value, 3)

    def interval(self, between: str = " to ") -> str:
        """Return both ends of the interval, with as many decimals each."""
        if self.low is None or self.high is None:
            return "-"
        if max(abs(self.low), abs(self.high)) < 0.01:
            return f"{number(self.low)}{between}{number(self.high)}"
        return f"{_short(self.low)}{between}{_short(self.high)}"


def beats(ours: Cell, theirs: Cell, higher: bool) -> bool:
    """Say whether the interval of one cell is wholly better than the value of another."""
    if ours.low is None or ours.high is None or theirs.value is None:
        return False
    return ours.low > theirs.value if higher else ours.high < theirs.value


def shown(value: float | None, decimals: int) -> str:
    """Return a number with so many decimals, or with four digits where those would be too many or too few."""
    if value is None:
        return "-"
    return f"{value:.{decimals}f}" if value == 0 or 0.01 <= abs(value) < 100 else number(value)


def printable(text: str) -> str:
    """Return a text of the user's data for a terminal, without codes that could change what it shows.

    >>> print(printable("yes" + chr(27) + "[31m"))
    yes\\x1b[31m
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def number(value: float) -> str:
    """Return four digits of a number, all before the point of a larger one; no exponent below a thousand million."""
    text = f"{value:.4g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e9 else text


def _short(value: float | None) -> str:
    """Return two decimals, without the zero in front of them; four digits of a larger number."""
    if value is None or abs(value) >= 100:
        return shown(value, 2)
    return f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def accuracy(correct: NDArray[np.bool_]) -> Cell:
    """Return the mean of ``correct`` (n,) with its exact 95% interval (Clopper & Pearson, Biometrika 1934).

    A bootstrap of rows that are all right would say 1 to 1, however few they are.
    """
    right, n = int(correct.sum()), len(correct)
    low = float(beta.ppf(0.025, right, n - right + 1)) if right else 0.0
    high = float(beta.ppf(0.975, right + 1, n - right)) if right < n else 1.0
    return Cell(right / n, low, high)


def rmse(residual: NDArray[np.float64], seed: int) -> Cell:
    """Return the root mean square of ``residual`` (n,) with its bootstrap interval over rows."""
    return root_mean(residual**2, seed)


def root_mean(squares: NDArray[np.float64], seed: int) -> Cell:
    """Return the root of the mean of ``squares`` (n,) with its bootstrap interval over rows."""
    return _with_interval(squares.mean(), _resampled(squares, seed).mean(axis=1), np.sqrt)


def r2(residual: NDArray[np.float64], y: NDArray[np.float64], seed: int) -> Cell:
    """Return the share of the variance of ``y`` (n,) that is explained, with its bootstrap interval over rows.

    At most 1; 0 for the mean of these rows, negative for what is worse.
    """
    drawn = np.random.default_rng(seed).integers(0, len(y), (RESAMPLES, len(y)))
    spread = np.maximum(y[drawn].var(axis=1), np.finfo(np.float64).tiny)
    draws = 1 - (residual[drawn] ** 2).mean(axis=1) / spread
    low, high = np.quantile(draws, [0.025, 0.975])
    return Cell(float(1 - (residual**2).mean() / max(y.var(), np.finfo(np.float64).tiny)), float(low), float(high))


def median_error(residual: NDArray[np.float64], seed: int) -> Cell:
    """Return the median of the absolute ``residual`` (n,) with its bootstrap interval over rows."""
    sizes = np.abs(residual)
    return _with_interval(np.median(sizes), np.median(_resampled(sizes, seed), axis=1), np.asarray)


def _with_interval(
    value: float, draws: NDArray[np.float64], units: Callable[[ArrayLike], NDArray[np.float64]]
) -> Cell:
    """Return a value and the 95% interval of its resampled ``draws``, both passed through ``units``."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Cell(*(float(number) for number in units([value, low, high])))


def _resampled(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    drawn: NDArray[np.float64] = values[np.random.default_rng(seed).integers(0, len(values), (RESAMPLES, len(values)))]
    return drawn


def has_scores(model: object) -> bool:
    """Say whether a fitted classifier gives scores, without which there is no margin to attack."""
    return hasattr(model, "decision_function") or hasattr(model, "predict_proba")


def has_gradients(model: Predictor) -> bool:
    """Say whether the scores of a fitted classifier have gradients that are known exactly."""
    return read_scores(as_classifier(model)) is not None or hasattr(model, "input_gradient")


def queries_a_row(columns: int, classes: int) -> int:
    """Return about how many predictions :func:`attacked_correct` asks for of a row, of a model without gradients."""
    return 2 * columns * QUERY_STEPS * (2 * QUERY_STARTS + classes)


def attacked_correct(
    model: Predictor, X: NDArray[np.float64], y: NDArray[Any], eps: float, n_numeric: int, seed: int
) -> NDArray[np.bool_]:
    """Say of each row whether it survives an attack in an l_inf ball of numeric features only.

    That is PGD (40 steps, 2 starts), and for scores without gradients, flat ones such as a forest's among them, the
    worst of several attacks: differences see nothing where scores are flat, random corners of the ball do.
    """
    low, high = X.copy(), X.copy()
    low[:, :n_numeric], high[:, :n_numeric] = -np.inf, np.inf
    options: dict[str, Any] = {"eps": eps, "bounds": (low, high), "random_state": seed}
    perturbed = (pgd(model, X, y, steps=PGD_STEPS, restarts=PGD_STARTS, **options) if has_gradients(model)
                 else worst_case(model, X, y, steps=QUERY_STEPS, restarts=QUERY_STARTS, **options))
    return np.asarray((model.predict(perturbed) == y) & (model.predict(X) == y))
