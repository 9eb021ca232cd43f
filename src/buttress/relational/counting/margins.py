"""Convex losses of the margin z = y f(x), and the planes they give.

A row whose margin is near z contributes A(z) - u(z) m to a plane, m its true margin; for any u = -f'(z) and
A = f(z) + u z this is at most f(m). For the hinge, A = u is valid for every u in [0, 1], so smoothed slopes give
planes of the hinge itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.random import RandomState
from scipy.special import expit

from buttress._checks import Array

FIRST_BINS = 1 << 10  # steps of the grid that a fit begins with, coarse so that its first calls are cheap
HINGE_WIDTHS = (0.05, 0.01)  # half-widths, in margins, of the rounded hinge that L-BFGS minimises, one after the other


@dataclass(frozen=True)
class MarginLoss:
    """f(z), u(z) = -f'(z) and the plane's constant A(z); ``smooth`` is what u is the slope of."""

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    constant: Callable[[Array], Array]
    smooth: Callable[[Array], Array]


def hinge(width: float = 0.0) -> MarginLoss:
    """Return max(0, 1 - z); with a width > 0 the slope is that of the hinge rounded on [1 - width, 1 + width]."""

    def value(z: Array) -> Array:
        return np.maximum(0, 1 - z)

    if not width:
        def step(z: Array) -> Array:
            return (z <= 1).astype(float)

        return MarginLoss(value, step, step, value)

    def slope(z: Array) -> Array:
        return np.clip((1 - z + width) / (2 * width), 0, 1)

    def smooth(z: Array) -> Array:
        q = 1 - z
        return np.where(q >= width, q, np.clip(q + width, 0, None) ** 2 / (4 * width))

    return MarginLoss(value, slope, slope, smooth)


def _smooth(value: Callable[[Array], Array], slope: Callable[[Array], Array]) -> MarginLoss:
    """Return a loss with a slope everywhere, which needs no smoothing."""
    return MarginLoss(value, slope, lambda z: value(z) + z * slope(z), value)


NAMES = {
    "squared_hinge": _smooth(lambda z: np.maximum(0, 1 - z) ** 2, lambda z: 2 * np.maximum(0, 1 - z)),
    "logistic": _smooth(lambda z: np.logaddexp(0, -z), lambda z: expit(-z)),
}


def margin_loss(name: str, width: float = 0.0) -> MarginLoss:
    """Return a loss by name: hinge, squared_hinge max(0, 1 - z)^2, or logistic log(1 + exp(-z))."""
    return hinge(width) if name == "hinge" else NAMES[name]


@dataclass(frozen=True)
class Evaluation:
    """What one oracle call says at coefficients beta: a plane and two-sided bounds of the mean loss L.

    L(beta') >= a - b . beta' - tilt |beta'| for every beta'; ``lower`` <= L(beta) <= ``upper``. ``smooth`` estimates
    the mean of the smoothed loss; ``tilt`` is for the rounding of b.
    """

    a: float
    b: Array
    lower: float
    upper: float
    smooth: float
    tilt: float = 0.0


@dataclass(frozen=True)
class SumRounding:
    """How exact sums over rows are: each is off by at most ``share`` of the sum of the sizes of its terms.

    ``far`` (width,) are the largest features. Where nothing is known of the sums, both are 0, and nothing is proven.
    """

    share: float
    far: Array


def evaluation(
    loss: MarginLoss, beta: Array, b: Array, z: Array, mass: Array, error: float, rounding: SumRounding | None = None
) -> Evaluation:
    """Build an Evaluation from sketched margins z, each off by at most ``error``, and their shares of the weight."""
    off = rounding or SumRounding(0.0, np.zeros(len(beta)))
    spread = float(off.far @ np.abs(beta))  # no score is larger
    error += off.share * spread
    slope = loss.slope(z)
    constant = loss.constant(z)
    a = float(mass @ constant)
    # f(m) - A + u m is convex in the true margin m, so it is largest at an end of [z - error, z + error]
    slack = np.maximum(*(loss.value(m) - constant + slope * m for m in (z - error, z + error)))
    looseness = float(mass @ np.maximum(slack, 0))
    # the smoothed loss at the true margins, to first order around the sketched ones: only b knows those
    smooth = float(mass @ (loss.smooth(z) + slope * z) - b @ beta)
    steep = float(mass @ slope)
    lost = off.share * (float(mass @ (loss.value(z) + slope * np.abs(z))) + steep * spread + looseness)
    value = a - float(b @ beta)
    return Evaluation(a - lost, b, value - lost, value + looseness + lost, smooth,
                      off.share * steep * float(np.linalg.norm(off.far)))


class MarginOracle(Protocol):
    """Evaluates the mean loss over the rows of a join at given coefficients, on ``bins`` grid steps if it has a grid.

    ``total`` is the sum of the rows' weights; ``can_refine`` says whether a grid four times as fine would fit;
    ``proven`` whether its bounds hold in real numbers, whatever floating point adds.
    """

    can_refine: bool
    total: float
    proven: bool

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = ..., /) -> Evaluation: ...

    def sample(self, n: int, rng: RandomState) -> tuple[Array, Array, Array]:
        """Return about n rows drawn by weight: scaled features, labels -1/+1, and how often each was drawn."""
