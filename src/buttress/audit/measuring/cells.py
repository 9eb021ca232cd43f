"""What is measured of a fitted estimator: its score on test rows, as they are or attacked, with an interval."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, rankdata
from scipy.stats import t as student

from buttress._types import Predictor
from buttress.scores import as_classifier, read_scores

RESAMPLES = 1000  # of the bootstrap: its 2.5% quantile is then the 25th draw
QUERY_STEPS = 10  # of each attack by queries, which costs hundreds of predictions a step
QUERY_STARTS = 3  # of each, for which the same holds
# Two estimators differ beyond chance (sign test, 5%) when six rows or more are right with one of them only; of fewer
# than twenty rows that would be a difference of .3, and the interval of no error at all reaches from .83 to 1.
ENOUGH = 20


@dataclass
class Cell:
    """One number of the table with its 95% interval; all None where it was not measured."""

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
        if self._counts():
            return f"{self.value:.0f}"
        if self.value is not None and self.low is not None and self.high is not None:
            small = max(abs(self.low), abs(self.high)) < 0.01
            return shown(self.value, 3) if small or abs(self.value) >= 0.01 else f"{self.value:z.3f}"
        return shown(self.value, 3)

    def interval(self, between: str = " to ") -> str:
        """Return both ends of the interval, with as many decimals each."""
        if self.low is None or self.high is None:
            return "-"
        if self._counts():
            return f"{self.low:.0f}{between}{self.high:.0f}"
        if max(abs(self.low), abs(self.high)) < 0.01:
            return f"{number(self.low)}{between}{number(self.high)}"
        return f"{_short(self.low)}{between}{_short(self.high)}"

    def _counts(self) -> bool:
        """Say whether it is a whole number between two that are, such as how many labels would have to be wrong."""
        ends = (self.value, self.low, self.high)
        return max(end or 0.0 for end in ends) > 1 and all(end is not None and end == round(end) for end in ends)


def beats(ours: Cell, theirs: Cell, higher: bool) -> bool:
    """Say whether the interval of one cell is wholly better than the value of another."""
    if ours.low is None or ours.high is None or theirs.value is None:
        return False
    return ours.low > theirs.value if higher else ours.high < theirs.value


def shown(value: float | None, decimals: int) -> str:
    """Return a number with so many decimals, or with four digits where those would be too many or too few."""
    if value is None:
        return "-"
    return f"{value:z.{decimals}f}" if value == 0 or 0.01 <= abs(value) < 100 else number(value)


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


def _short(value: float) -> str:
    """Return two decimals, without the zero in front of them; four digits of a larger number."""
    if abs(value) >= 100:
        return shown(value, 2)
    return f"{value:z.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


Together = NDArray[np.intp] | None  # numbers of the groups that rows belong to, None where each stands alone


def accuracy(correct: NDArray[np.bool_], together: Together = None) -> Cell:
    """Return the mean of ``correct`` (n,) with its exact 95% interval (Clopper & Pearson, Biometrika 1934).

    A bootstrap of rows that are all right would say 1 to 1, however few they are. Of rows that belong together it is
    that of so many rows as would have the standard error of the groups (Korn & Graubard, Survey Methodology 1998).
    """
    p, n = float(correct.mean()), len(correct)
    if together is None:
        return Cell(p, *_exact(p, n))
    groups = len(np.unique(together))
    fewer = (student.ppf(0.975, n - 1) / student.ppf(0.975, groups - 1)) ** 2 if groups > 1 else 0.0
    return Cell(p, *_exact(p, fewer * _as_many(p, standard_error(correct, together), groups, n)))


def _exact(p: float, n: float) -> tuple[float, float]:
    """Return the exact 95% interval of a share p of n rows, which need not be a whole number."""
    low = float(beta.ppf(0.025, p * n, n - p * n + 1)) if p * n > 0 else 0.0
    high = float(beta.ppf(0.975, p * n + 1, n - p * n)) if p < 1 and n > 0 else 1.0
    return low, high


def _as_many(p: float, error: float, fewest: int, most: int) -> float:
    """Return how many rows a share p with that standard error is worth; at an error of 0, the fewest it may be."""
    return min(p * (1 - p) / error**2, most) if error > 0 and 0 < p < 1 else float(fewest)


def standard_error(values: NDArray[Any], together: Together = None) -> float:
    """Return the standard error of the mean of ``values`` (n,), over rows or over the groups they belong to."""
    behind = values - values.mean()
    if together is None:
        return float(behind.std() / np.sqrt(len(behind)))
    sums = np.bincount(np.unique(together, return_inverse=True)[1], behind)
    return float(np.sqrt((sums**2).sum() * len(sums) / max(len(sums) - 1, 1)) / len(behind))


def balanced_accuracy(correct: NDArray[np.bool_], y: NDArray[Any], together: Together = None) -> Cell:
    """Return the mean over the classes of the share of each that is right, with a 95% interval."""
    value, spread = balanced(correct.astype(np.float64), y)
    fewest = np.unique(y, return_counts=True)[1].min()
    return Cell(value, *_exact(value, _as_many(value, standard_error(spread, together), int(fewest), len(y))))


def balanced(values: NDArray[np.float64], y: NDArray[Any]) -> tuple[float, NDArray[np.float64]]:
    """Return the mean over the classes of their mean of ``values`` (n,), and numbers (n,) with its standard error.

    That is of the means, not of how many rows of a class were held out.
    """
    codes = np.unique(y, return_inverse=True)[1]
    means = np.bincount(codes, values) / np.bincount(codes)
    return float(means.mean()), (values - means[codes]) * class_weights(y)


def class_weights(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return weights (n,) of mean 1 that give every class of y the same sum."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    return np.asarray(len(y) / (len(counts) * counts[codes]))


def auc(scores: NDArray[np.float64], y: NDArray[Any], classes: NDArray[Any], together: Together = None) -> Cell:
    """Return the area under the ROC curve of ``scores`` (n, classes), of several classes the mean of each against the
    rest, with a 95% interval from its standard error (DeLong, DeLong & Clarke-Pearson, Biometrics 1988).

    Empty where a class has no held-out row.
    """
    areas, share = [], np.zeros(len(y))
    for k in range(1, len(classes)) if len(classes) == 2 else range(len(classes)):
        mine = y == classes[k]
        if not mine.any() or mine.all():
            return Cell()
        ranks, own = rankdata(scores[:, k]), np.empty(len(y))
        own[mine], own[~mine] = rankdata(scores[mine, k]), rankdata(scores[~mine, k])
        passed = (ranks - own) / np.where(mine, (~mine).sum(), mine.sum())  # the share of the others that lie below
        passed[~mine] = 1 - passed[~mine]
        areas.append(passed[mine].mean())
        share += (passed - areas[-1]) * len(y) / np.where(mine, mine.sum(), (~mine).sum())
    value = float(np.mean(areas))
    fewest = int(np.unique(y, return_counts=True)[1].min())
    return Cell(value, *_exact(value, _as_many(value, standard_error(share / len(areas), together), fewest, len(y))))


def rmse(residual: NDArray[np.float64], seed: int, together: Together = None) -> Cell:
    """Return the root mean square of ``residual`` (n,) with its bootstrap interval."""
    return root_mean(residual**2, seed, together)


def root_mean(squares: NDArray[np.float64], seed: int, together: Together = None) -> Cell:
    """Return the root of the mean of ``squares`` (n,) with its bootstrap interval over rows, or over groups of them."""
    return _with_interval(squares.mean(), drawn_mean(squares, seed, together), np.sqrt)


def mean_loss(losses: NDArray[np.float64], seed: int, together: Together = None) -> Cell:
    """Return the mean of ``losses`` (n,) with its bootstrap interval over rows, or over groups of them."""
    return _with_interval(losses.mean(), drawn_mean(losses, seed, together), np.asarray)


def r2(residual: NDArray[np.float64], y: NDArray[np.float64], seed: int, together: Together = None) -> Cell:
    """Return the share of the variance of ``y`` (n,) that is explained, with its bootstrap interval.

    At most 1; 0 for the mean of these rows, negative for what is worse.
    """
    tiny = np.finfo(np.float64).tiny
    apart = y - y.mean()
    spread = drawn_mean(apart**2, seed, together) - drawn_mean(apart, seed, together) ** 2
    draws = 1 - drawn_mean(residual**2, seed, together) / np.maximum(spread, tiny)
    return _with_interval(1 - (residual**2).mean() / max(y.var(), tiny), draws, np.asarray)


def median_error(residual: NDArray[np.float64], seed: int, together: Together = None) -> Cell:
    """Return the median of the absolute ``residual`` (n,) with its bootstrap interval."""
    sizes = np.sort(np.abs(residual))
    times = _times_drawn(len(sizes), seed, None if together is None else together[np.argsort(np.abs(residual))])
    counted = np.cumsum(times, axis=1)
    middle = (2 * counted >= counted[:, -1:]).argmax(axis=1)
    return _with_interval(np.median(sizes), sizes[middle], np.asarray)


def _with_interval(
    value: float, draws: NDArray[np.float64], units: Callable[[ArrayLike], NDArray[np.float64]]
) -> Cell:
    """Return a value and the 95% interval of its resampled ``draws``, both passed through ``units``."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Cell(*(float(number) for number in units([value, low, high])))


def drawn_mean(values: NDArray[np.float64], seed: int, together: Together) -> NDArray[np.float64]:
    """Return the mean of ``values`` (n,) in each resample."""
    times = _times_drawn(len(values), seed, together)
    return np.asarray(times @ values / times.sum(axis=1))


def _times_drawn(n: int, seed: int, together: Together) -> NDArray[np.float64]:
    """Return how often each of n rows is in each resample, of as many rows, or groups of them, as there are."""
    codes = np.arange(n) if together is None else np.unique(together, return_inverse=True)[1]
    units = int(codes.max()) + 1
    drawn = np.random.default_rng(seed).integers(0, units, (RESAMPLES, units))
    drawn += units * np.arange(RESAMPLES)[:, None]
    times = np.bincount(drawn.ravel(), minlength=RESAMPLES * units).reshape(RESAMPLES, units)
    return times[:, codes].astype(np.float64)


def has_scores(model: object) -> bool:
    """Say whether a fitted classifier gives scores, without which there is no margin to attack."""
    return hasattr(model, "decision_function") or hasattr(model, "predict_proba")


def has_gradients(model: Predictor) -> bool:
    """Say whether the scores of a fitted classifier have gradients that are known exactly."""
    return read_scores(as_classifier(model)) is not None or hasattr(model, "input_gradient")


def queries_a_row(columns: int, classes: int) -> int:
    """Return about how many predictions an attack asks for of a row, of a model without gradients."""
    return 2 * columns * QUERY_STEPS * (2 * QUERY_STARTS + classes)
