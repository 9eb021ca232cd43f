"""Risks: they turn n losses into one number, and give each row a weight in its gradient.

A risk is called on the losses and returns a number; ``weights`` returns its gradient in the losses,
n non-negative weights that sum to 1. A row with an integer ``sample_weight`` counts exactly as that many equal rows.

Examples
--------
>>> import numpy as np
>>> from buttress.risks import Subquantile
>>> losses = np.array([1.0, 9.0, 2.0, 3.0])
>>> Subquantile(quantile=0.5)(losses)
1.5
>>> Subquantile(quantile=0.5).weights(losses)
array([0.5, 0. , 0.5, 0. ])
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit, logsumexp, softmax
from sklearn.base import BaseEstimator

from buttress._checks import Array, check_number
from buttress._state import Attribute, State
from buttress._weights import ROUNDING


class Risk(BaseEstimator, ABC):
    """n losses -> a number, and its gradient: n weights that sum to 1."""

    @property
    def kept(self) -> float:
        """The share of the rows that the risk keeps, in (0, 1]; the ridge is divided by it."""
        return 1.0

    @abstractmethod
    def __call__(self, losses: Array, sample_weight: Array | None = None) -> float:
        """The risk of the losses (n,)."""

    @abstractmethod
    def weights(self, losses: Array, sample_weight: Array | None = None) -> Array:
        """d risk / d losses, shape (n,), summing to 1."""


class Mean(Risk):
    """The (weighted) mean of the losses."""

    _state = State()

    def __call__(self, losses: Array, sample_weight: Array | None = None) -> float:
        return float(np.average(losses, weights=sample_weight))

    def weights(self, losses: Array, sample_weight: Array | None = None) -> Array:
        return _shares(losses, sample_weight)


class Subquantile(Risk):
    """The mean of the smallest ``quantile`` of the losses (Rathnashyam & Gittens 2023, eq. 5).

    It is (1/p) times the integral of the quantile function of the losses from 0 to p. Rows at the boundary have a
    partial weight, and equal losses (to 1e-9) have the same weight. So p n need not be a whole number, and the order of
    the rows does not matter. quantile=1 is the mean.

    With ``smoothing`` > 0 the cut is soft: the risk is the maximum over t of
    t - mean(s log(1 + exp((t - l_i) / s))) / p with s the smoothing (eq. 22 with its lambda = 1/s). Row i then has
    1 / (1 + exp((l_i - t) / s)) of the full weight. The soft risk is at most the hard one, and tends to it for s -> 0.

    Parameters
    ----------
    quantile : float in (0, 1], default=0.8
        Share of the rows to keep, p: one minus the share of corrupt rows, as you estimate it.
    smoothing : float, default=0.0
        Width of the soft cut in units of the loss, >= 0; 0 is the hard cut.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress.risks import Subquantile
    >>> Subquantile(0.5, smoothing=0.1).weights(np.array([1.0, 9.0, 2.0, 3.0])).round(3)
    array([0.5  , 0.   , 0.497, 0.003])
    """

    _state = State(Attribute("quantile", "share"), Attribute("smoothing", "nonnegative"))

    def __init__(self, quantile: float = 0.8, smoothing: float = 0.0):
        self.quantile = quantile
        self.smoothing = smoothing

    @property
    def kept(self) -> float:
        check_number("smoothing", self.smoothing, 0, closed="left", fix="Use smoothing=0 for the hard cut.")
        return check_number("quantile", self.quantile, 0, 1, closed="right", fix="Use quantile=1 for the mean risk.")

    def __call__(self, losses: Array, sample_weight: Array | None = None) -> float:
        if self.kept == 1 or not self.smoothing:
            return float(self.weights(losses, sample_weight) @ losses)
        share = _shares(losses, sample_weight)
        cut = self._soft_cut(losses, sample_weight)
        excess = self.smoothing * np.logaddexp(0, (cut - losses) / self.smoothing)
        return cut - float(share @ excess) / self.kept

    def weights(self, losses: Array, sample_weight: Array | None = None) -> Array:
        share = _shares(losses, sample_weight)
        if self.kept < 1 and self.smoothing:
            soft = share * expit((self._soft_cut(losses, sample_weight) - losses) / self.smoothing)
            return soft / soft.sum()
        order = np.argsort(losses)
        reach = np.cumsum(share[order])
        boundary = losses[order[min(int(np.searchsorted(reach, self.kept - ROUNDING)), len(order) - 1)]]
        tied = np.abs(losses - boundary) <= 1e-9 * np.abs(boundary)  # losses that differ by less count as equal
        kept = np.where((losses < boundary) & ~tied, share, 0.0)
        kept[tied] = share[tied] * (self.kept - kept.sum()) / share[tied].sum()
        return kept / kept.sum()

    def _soft_cut(self, losses: Array, sample_weight: Array | None) -> float:
        """Return the t at which the soft weights keep the share p: eq. 24 set to zero, by bisection."""
        share = _shares(losses, sample_weight)
        reach = self.smoothing * (abs(logit(self.kept)) + 1)
        used = losses[share > 0]
        return float(brentq(
            lambda t: share @ expit((t - losses) / self.smoothing) - self.kept,
            used.min() - reach, used.max() + reach, xtol=1e-12 * self.smoothing, rtol=1e-14, maxiter=1000,
        ))


class Tilted(Risk):
    """(1/t) log mean exp(t l), tilted empirical risk (Li et al. 2021); tilt -> 0 is the mean.

    Parameters
    ----------
    tilt : float, default=-2.0
        t < 0 gives large losses less weight (robust), t > 0 gives them more, 0 is the mean itself.
    """

    _state = State(Attribute("tilt", "finite"))

    def __init__(self, tilt: float = -2.0):
        self.tilt = tilt

    def __call__(self, losses: Array, sample_weight: Array | None = None) -> float:
        share = _shares(losses, sample_weight)
        tilt = check_number("tilt", self.tilt, -np.inf)
        return float(logsumexp(tilt * losses, b=share) / tilt) if tilt else float(share @ losses)

    def weights(self, losses: Array, sample_weight: Array | None = None) -> Array:
        share = _shares(losses, sample_weight)
        with np.errstate(divide="ignore"):
            return softmax(check_number("tilt", self.tilt, -np.inf) * losses + np.log(share))


class PerClass(Risk):
    """``risk`` within each class, with classes weighted by their size. So trimming can never drop a whole class.

    Parameters
    ----------
    risk : Risk
    codes : array of shape (n,)
        Class number of each row.
    """

    _state = State(
        Attribute("risk", "part", of="Risk"),
        Attribute("codes", "count", "n_rows"))

    def __init__(self, risk: Risk, codes: NDArray[np.intp]):
        self.risk = risk
        self.codes = codes

    @property
    def kept(self) -> float:
        return self.risk.kept

    def __call__(self, losses: Array, sample_weight: Array | None = None) -> float:
        share = _shares(losses, sample_weight)
        groups = [self.codes == c for c in np.unique(self.codes[share > 0])]
        return float(sum(share[rows].sum() * self.risk(losses[rows], share[rows]) for rows in groups))

    def weights(self, losses: Array, sample_weight: Array | None = None) -> Array:
        share = _shares(losses, sample_weight)
        weights = np.zeros_like(share)
        for c in np.unique(self.codes[share > 0]):
            rows = self.codes == c
            weights[rows] = share[rows].sum() * self.risk.weights(losses[rows], share[rows])
        return weights


def _shares(losses: Array, sample_weight: Array | None) -> Array:
    weight = np.ones(len(losses)) if sample_weight is None else sample_weight
    return weight / weight.sum()
