"""Leads that are 0, in exact numbers, somewhere in a region: a search for a bound of the certificates that is above.

    python -m tests.hostile_lines --seeds 20 --count 5000

The model is taken as exact, so that nothing but what the bounds owe to their own rounding holds them. Rows far away,
wide and narrow kernels, coefficients of many sizes that cancel, radii from 1e-14 up. The lead at the move that looks
worst is made 0 by its intercept, so that a bound is above the truth if it is lowered by less than it owes to rounding.
Truth is computed with 60 digits.
"""

import argparse
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from buttress.certificates.region import Attacker
from buttress.certificates.relaxation import Lead, relaxed
from buttress.certificates.second_order import second_order
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, MultiscaleRBF, Polynomial

DIGITS = 60


def exact(values):
    return [Decimal(float(value)) for value in values]


def kernel_value(kernel, x, z):
    """k(x, z) of lists of Decimal numbers."""
    s, t = sum((a - b) ** 2 for a, b in zip(x, z, strict=True)), sum(a * b for a, b in zip(x, z, strict=True))
    if isinstance(kernel, RBF):
        return (-Decimal(kernel.gamma) * s).exp()
    if isinstance(kernel, MultiscaleRBF):
        return sum((-Decimal(gamma) * s).exp() for gamma in kernel.gammas) / len(kernel.gammas)
    if isinstance(kernel, Laplacian):
        return (-Decimal(kernel.gamma) * s.sqrt()).exp()
    if isinstance(kernel, Cauchy):
        return 1 / (1 + Decimal(kernel.gamma) * s)
    if isinstance(kernel, InverseMultiquadric):
        return 1 / (s + Decimal(kernel.offset) ** 2).sqrt()
    scaled = Decimal(getattr(kernel, "gamma", 1)) * t + Decimal(kernel.coef0)
    return scaled ** int(getattr(kernel, "degree", 1))


def value(kernel, Z, w, x):
    """sum_j w_j k(x, z_j) of lists of Decimal numbers."""
    return sum((c * kernel_value(kernel, x, z) for c, z in zip(w, Z, strict=True)), Decimal(0))


def squared_norm(kernel, Z, w):
    """What the second order needs of a lead: c'Kc, of polynomials with the kernel of its cubic form."""
    if isinstance(kernel, Polynomial):
        kernel = Polynomial(3, kernel.gamma**2, 0.0)
    return sum((c * value(kernel, Z, w, z) for c, z in zip(w, Z, strict=True)), Decimal(0))


@dataclass
class Case:
    """A lead that is nearly 0 at the row ``x`` of the region of an attacker around ``row``."""

    kernel: object
    Z: np.ndarray
    w: np.ndarray
    row: np.ndarray
    attacker: Attacker
    radius: float
    x: np.ndarray
    tilt: np.ndarray

    def bounds(self):
        """Yield the name of each bound, the bound, and the true lead at x in its units."""
        Z, w, x = [exact(z) for z in self.Z], exact(self.w), exact(self.x)
        f = value(self.kernel, Z, w, x) + sum(a * b for a, b in zip(exact(self.tilt), x, strict=True))
        tilt = self.tilt[None] if self.tilt.any() else None
        lead = Lead([(self.kernel, 1.0)], self.Z, self.w[None], np.array([-float(f)]),
                    np.array([float(squared_norm(self.kernel, Z, w)) * (1 + 1e-15)]), tilt=tilt)
        f += Decimal(float(lead.bias[0]))
        region = self.attacker.region(self.row[None], np.array([self.radius]))
        grown = f * self.grown(region.anchor[0], x)  # beside a linear part it is a sum of lines, in its own unit
        yield "lines", float(relaxed(lead, region)[0][0]), grown if tilt is None else f
        second = second_order(lead, self.row[None], self.attacker.scale) if self.attacker.low is None else None
        if second is not None:
            bound = float(second.bound(np.array([self.radius]), self.attacker.norm)[0])
            yield "second order", bound, f * self.grown(self.row, x)

    def grown(self, anchor, x):
        if not isinstance(self.kernel, RBF):
            return Decimal(1)
        return (Decimal(self.kernel.gamma) * sum((a - b) ** 2 for a, b in zip(x, exact(anchor), strict=True))).exp()


def drawn(rng):
    """Return a case, or None where the move drawn is none of the attacker's."""
    d, m = int(rng.choice([1, 2, 3, 8, 20])), int(rng.choice([1, 2, 3, 6]))
    far, spread = float(rng.choice([0, 0, 1, 1e3, 1e6])), float(rng.choice([1e-3, 1, 1, 10, 30]))
    kernels = [RBF(float(rng.choice([0.01, 0.5, 1, 30]))), Laplacian(0.5), Cauchy(0.4), InverseMultiquadric(1.3),
               Polynomial(2, 0.5, 1.0), Polynomial(3, 0.5, 1.0), Linear(0.5), MultiscaleRBF([0.9, 0.2])]
    kernel = kernels[rng.integers(len(kernels)) if rng.random() < 0.7 else 0]
    Z, row = far + spread * rng.normal(size=(m, d)), far + spread * rng.normal(size=d)
    row = Z[0].copy() if rng.random() < 0.2 else row
    w = rng.normal(size=m) * 10.0 ** rng.choice([0, 0, 3, 6], size=m)
    norm, radius = str(rng.choice(["linf", "l2"])), float(10.0 ** rng.uniform(-14, 0.5))
    scale = np.ones(d) if rng.random() < 0.7 else 10.0 ** rng.uniform(-2, 2, size=d)
    tilt = (rng.random() < 0.2) * rng.normal(size=d) * 10.0 ** rng.uniform(-3, 6)
    ends = [row + side * radius * scale * rng.random(d) for side in (-1, 1)] if rng.random() < 0.3 else [None, None]
    attacker = Attacker(norm, scale, *(None if end is None else end[None] for end in ends))
    move = rng.normal(size=d)
    move = np.sign(move) if norm == "linf" and rng.random() < 0.6 else move / length(move, norm)
    move *= radius * scale * rng.choice([1, 1, 0.5, 0])
    if rng.random() < 0.7:
        flat = Lead([(kernel, 1.0)], Z, w[None], np.zeros(1), np.ones(1), tilt=tilt[None])
        region = attacker.region(row[None], np.array([radius]))
        move = region.anchor[0] + np.nan_to_num(relaxed(flat, region)[1][0]) - row
    x = row + (1 - 1e-9) * move
    x = x if ends[0] is None else np.clip(x, *ends)
    if length((x - row) / scale, norm) > radius:
        return None
    return Case(kernel, Z, w, row, attacker, radius, x, tilt)


def length(move, norm):
    return float(np.abs(move).max() if norm == "linf" else np.linalg.norm(move))


def search(seed, count):
    """Return how many bounds were compared, and the false ones with their cases."""
    rng, compared, false = np.random.default_rng(seed), 0, []
    with localcontext() as context:
        context.prec = DIGITS
        for _ in range(count):
            case = drawn(rng)
            for name, bound, true in [] if case is None else case.bounds():
                compared += np.isfinite(bound)
                if np.isfinite(bound) and Decimal(bound) > true:
                    false.append((name, bound, float(true), case))
    return compared, false


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--count", type=int, default=2000)
    given = parser.parse_args()
    for seed in range(given.seeds):
        compared, false = search(seed, given.count)
        print(f"seed {seed}: {compared} bounds, {len(false)} false", *false[:3], sep="\n  ")  # noqa: T201
