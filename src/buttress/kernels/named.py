"""The eight kernels of the literature and their names, and a mean of RBF kernels.

A new kernel is one class here, one row in ``NAMES`` and one row in the table of the tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from buttress._arrays import namespace
from buttress._checks import Array, check_number
from buttress._state import Attribute, State
from buttress.kernels.composed import Precomputed
from buttress.kernels.kernel import DotProduct, Kernel, Radial

LARGEST_COSH = 350.0  # for larger arguments the square of the hyperbolic cosine overflows


@dataclass(eq=False, repr=False)
class Linear(DotProduct):
    """k(x, z) = x'z + coef0. Positive definite for coef0 >= 0, conditionally positive definite for any coef0."""

    _state = State(Attribute("coef0", "finite"))

    coef0: float = 0.0

    @property
    def definiteness(self) -> str:
        return "pd" if check_number("coef0", self.coef0, -np.inf) >= 0 else "cpd"

    def profile(self, s: Array) -> Array:
        return s + self.coef0

    def slope(self, s: Array) -> Array:
        return namespace(s).ones_like(s)


@dataclass(eq=False, repr=False)
class Polynomial(DotProduct):
    """k(x, z) = (gamma x'z + coef0)^degree. Positive definite for coef0 >= 0 and a whole degree."""

    _state = State(Attribute("degree", "positive"), Attribute("gamma", "positive"), Attribute("coef0", "finite"))

    degree: float = 3
    gamma: float = 1.0
    coef0: float = 0.0

    @property
    def definiteness(self) -> str:
        degree = check_number("degree", self.degree, 0)
        check_number("gamma", self.gamma, 0)
        whole = degree == int(degree)
        return "pd" if whole and check_number("coef0", self.coef0, -np.inf) >= 0 else "indefinite"

    def _base(self, s: Array) -> Array:
        base = self.gamma * s + self.coef0
        if self.degree != int(self.degree) and (base < 0).any():
            raise ValueError(f"degree must be whole where gamma x'z + coef0 is negative, as it is here. "
                             f"Got {self.degree!r}. Use degree={round(self.degree)} or a larger coef0.")
        return base

    def profile(self, s: Array) -> Array:
        return self._base(s) ** self.degree

    def slope(self, s: Array) -> Array:
        return self.gamma * self.degree * self._base(s) ** (self.degree - 1)


@dataclass(eq=False, repr=False)
class Sigmoid(DotProduct):
    """k(x, z) = tanh(gamma x'z + coef0). Not positive definite for any parameters used in practice."""

    _state = State(Attribute("gamma", "positive"), Attribute("coef0", "finite"))

    gamma: float = 1.0
    coef0: float = 0.0

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        check_number("coef0", self.coef0, -np.inf)
        return "indefinite"

    def profile(self, s: Array) -> Array:
        return namespace(s).tanh(self.gamma * s + self.coef0)

    def slope(self, s: Array) -> Array:
        xp = namespace(s)
        return self.gamma / xp.cosh(xp.clip(self.gamma * s + self.coef0, -LARGEST_COSH, LARGEST_COSH)) ** 2


@dataclass(eq=False, repr=False)
class Scaled(Radial):
    """A positive definite function of gamma r^(2 power), gamma > 0; subclasses may have another power."""

    power = 1.0

    gamma: float = 1.0

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        return "pd"

    def stretched(self, factor: float) -> "Scaled":
        """Return the kernel as it is after all squared distances are multiplied by ``factor``: one of another gamma."""
        return type(self)(float(self.gamma * factor**self.power))


class RBF(Scaled):
    """k(x, z) = exp(-gamma r^2), positive definite."""

    _state = State(Attribute("gamma", "positive"))

    def profile(self, r2: Array) -> Array:
        return namespace(r2).exp(-self.gamma * r2)

    def slope(self, r2: Array) -> Array:
        return -self.gamma * namespace(r2).exp(-self.gamma * r2)


@dataclass(eq=False, repr=False)
class MultiscaleRBF(Radial):
    """k(x, z) = mean over gammas of exp(-gamma r^2), positive definite.

    A mean of kernels of several widths, computed from one set of distances. Use it where gamma cannot be chosen. Ridge
    regression then fits coarse structure with the wide kernels, at a small norm, and fine structure with the narrow
    ones. For example, with few labels, some of them wrong, the likelihood of the labels is too flat and too noisy to
    select gamma. A wrong gamma costs more accuracy than the mean of several does.
    """

    _state = State(Attribute("gammas", "positive", "n_kernels"))

    gammas: Sequence[float] = (1.0, 0.3, 0.1, 0.03)

    @property
    def definiteness(self) -> str:
        if len(self.gammas) == 0:
            raise ValueError("gammas must hold at least one number. Got none. Give one, such as 1.0.")
        for p, gamma in enumerate(self.gammas):
            check_number(f"gammas[{p}]", gamma, 0)
        return "pd"

    def profile(self, r2: Array) -> Array:
        exp = namespace(r2).exp
        first, *others = [-float(gamma) for gamma in self.gammas]
        total = exp(first * r2)
        for rate in others:  # one at a time: matrices of all gammas at once would leave the cache
            total += exp(rate * r2)
        total /= len(self.gammas)
        return total

    def slope(self, r2: Array) -> Array:
        terms = [-float(gamma) * namespace(r2).exp(-float(gamma) * r2) for gamma in self.gammas]
        return sum(terms[1:], terms[0]) / len(terms)


class Laplacian(Scaled):
    """k(x, z) = exp(-gamma r) with r the L2 distance, positive definite.

    scikit-learn's ``laplacian_kernel`` has the L1 distance in place of r: a different kernel.
    """

    _state = State(Attribute("gamma", "positive"))
    power = 0.5

    def profile(self, r2: Array) -> Array:
        xp = namespace(r2)
        return xp.exp(-self.gamma * xp.sqrt(r2))

    def slope(self, r2: Array) -> Array:
        xp = namespace(r2)
        r = xp.sqrt(r2)
        return -self.gamma * xp.exp(-self.gamma * r) / xp.where(r > 0, 2 * r, np.inf)


@dataclass(eq=False, repr=False)
class InverseMultiquadric(Radial):
    """k(x, z) = (r^2 + offset^2)^(-1/2), positive definite."""

    _state = State(Attribute("offset", "positive"))

    offset: float = 1.0

    @property
    def definiteness(self) -> str:
        check_number("offset", self.offset, 0)
        return "pd"

    def profile(self, r2: Array) -> Array:
        return 1 / namespace(r2).sqrt(r2 + self.offset**2)

    def slope(self, r2: Array) -> Array:
        return -0.5 * (r2 + self.offset**2) ** -1.5


@dataclass(eq=False, repr=False)
class Log(Radial):
    """k(x, z) = -log(1 + (gamma r^2)^(degree/2)), conditionally positive definite for 0 < degree <= 2."""

    _state = State(Attribute("degree", "positive"), Attribute("gamma", "positive"))

    degree: float = 2
    gamma: float = 1.0

    @property
    def definiteness(self) -> str:
        check_number("gamma", self.gamma, 0)
        return "cpd" if check_number("degree", self.degree, 0) <= 2 else "indefinite"

    def profile(self, r2: Array) -> Array:
        return -namespace(r2).log1p((self.gamma * r2) ** (self.degree / 2))

    def slope(self, r2: Array) -> Array:
        power = self.degree / 2
        scaled = self.gamma * r2
        base = scaled if power >= 1 else namespace(r2).where(scaled > 0, scaled, np.inf)  # 0 at the cusp
        return -self.gamma * power * base ** (power - 1) / (1 + scaled**power)


class Cauchy(Scaled):
    """k(x, z) = 1 / (1 + gamma r^2), positive definite (gamma = 1/sigma)."""

    _state = State(Attribute("gamma", "positive"))

    def profile(self, r2: Array) -> Array:
        return 1 / (1 + self.gamma * r2)

    def slope(self, r2: Array) -> Array:
        return -self.gamma / (1 + self.gamma * r2) ** 2


# name -> kernel from scikit-learn's (gamma, degree, coef0)
NAMES: dict[str, Callable[[float, float, float], Kernel]] = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "polynomial": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "laplacian": lambda gamma, degree, coef0: Laplacian(gamma),
    "sigmoid": lambda gamma, degree, coef0: Sigmoid(gamma, coef0),
    "imq": lambda gamma, degree, coef0: InverseMultiquadric(gamma**-0.5),
    "inverse_multiquadric": lambda gamma, degree, coef0: InverseMultiquadric(gamma**-0.5),
    "log": lambda gamma, degree, coef0: Log(2, gamma),
    "cauchy": lambda gamma, degree, coef0: Cauchy(gamma),
    "precomputed": lambda gamma, degree, coef0: Precomputed(),
}
