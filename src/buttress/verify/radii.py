"""l2 radii of the rows of a classifier, within which its prediction stays: the best of several lower bounds of a lead.

Each centre by itself, its distance changing by eps; the norm of the sum in the kernel's space; for RBF lines below
e^(gamma |d|^2) f(x + d) = sum_j w_j e^(u_j) + b e^(gamma |d|^2), w_j = c_j k(x, z_j) and u_j = 2 gamma (z_j - x)'d:
tangents where w_j > 0, and where w_j < 0 the chord over |u_j| <= 2 gamma |z_j - x| eps.
"""

import math
import operator

import numpy as np

from .core import Array, Claim, Model, Near, U, plus
from .kernels import described, profile, sums

TANGENTS = 6  # choices of tangents
LONGEST = 300.0  # a larger power of e is no use to a bound, and might overflow


def fall(part: Model, x: Array, Z: Array, c: Array, eps: float, norm2: float) -> float:
    """Return by how much sum_j c_j k(., z_j) can fall within the l2 radius eps of x: the least of the bounds.

    ``norm2`` is an upper bound of the sum's squared norm, inf where there is none.
    """
    if part["class"] == "Combination":
        return sum(fall(one, x, Z, w * c, eps, math.inf)
                   for one, w in zip(part["kernels"], part["weights"], strict=True))
    if part["class"] == "Linear":
        w = Near(Z.T) @ c
        return math.sqrt((w @ w).high) * eps * (1 + 8 * U)
    r, noise = np.sqrt(((x - Z) ** 2).sum(axis=1)), (16 + Z.shape[1]) * U
    up, down = plus(c), plus(-c)
    at, close, far = (profile(part, Near(t**2, noise * t**2)) for t in (r, plus(r - eps), r + eps))
    falls = [up @ (at.high - far.low) + down @ (close.high - at.low)]
    if part["class"] != "Log":
        most, least = profile(part, Near(0.0)).high, profile(part, Near(eps**2, U * eps**2)).low
        falls.append(math.sqrt(norm2 * 2 * float(most - least)))
    return float(min(falls)) * (1 + 1e-12) + 1e-15 * float(np.abs(c).sum())


def held_by_lines(gamma: float, x: Array, Z: Array, c: Array, b: float, eps: float) -> bool:
    """Say whether lines below an RBF expansion prove sum_j c_j k(., z_j) + b > 0 within the l2 radius eps of x."""
    away = Z - x
    r = np.sqrt((away**2).sum(axis=1)) * (1 + (16 + len(x)) * U)
    value = profile({"class": "RBF", "gamma": gamma}, Near(r**2, (16 + len(x)) * 4 * U * r**2))
    w, reach = c * value.v, 2 * gamma * r * eps * (1 + 1e-12)
    if reach.max(initial=gamma * eps**2) > LONGEST:
        return False
    largest, up = np.exp(reach), w > 0
    chord, grown = np.sinh(reach) / np.maximum(reach, 1e-300), math.exp(gamma * eps**2)
    touch, held = np.zeros(len(c)), False
    for _ in range(TANGENTS):
        tangent = np.exp(touch)
        slope = away.T @ (2 * gamma * w * np.where(up, tangent, chord))
        steep = float(np.linalg.norm(slope))
        const = float((w * np.where(up, tangent * (1 - touch), np.cosh(reach))).sum())
        doubt = ((np.abs(w) * 4 * (len(c) + len(x) + 64) * U + np.abs(c) * value.e)
                 * largest * (1 + np.abs(touch) + reach)).sum()
        bend = max(b, 0) * gamma * grown  # a line in |d|^2 below b e^(gamma |d|^2), from eps^2 on
        far = min(eps, steep / (2 * bend)) if bend > 0 else eps
        bias = b * grown * (1 - gamma * eps**2) if b > 0 else b * grown
        least = const - steep * far + bend * far**2 + bias
        held = held or bool(least > doubt + 64 * U * (abs(const) + steep * eps + abs(b) * grown * (1 + gamma * eps**2)))
        touch = (touch - eps * 2 * gamma * (away @ slope) / max(steep, 1e-300)) / 2
    return held


def radii(model: Model, rows: Array, stated: Array | None = None) -> list[Claim]:
    """Return for each row of a classifier whether its stated radius is proven, and the largest found that is."""
    held, found = model["expansion_"], list[Claim]()
    part = described(held["kernel"])
    Z, coef, contrasts = held["centers"].astype(float), held["coef"], model["contrasts_"]
    scores = sums(part, rows, Z, coef)[0] + held["intercept"]
    rivals = coef @ contrasts.reshape(-1, coef.shape[1]).T
    inner = sums(part, Z, Z, rivals)[0]
    norms = [float((Near(one) @ Near(inner.v[:, k], inner.e[:, k])).high) for k, one in enumerate(rivals.T)]
    count = contrasts.shape[1]
    for i, x in enumerate(rows):
        leads, low = (Near(contrasts) @ scores.each(operator.itemgetter(i))).low, 0.0
        winner = int((leads > 0).sum(axis=1).argmax())
        own = range(winner * count, winner * count + count)
        biases = contrasts[winner] @ held["intercept"]
        for step in (*(() if stated is None else stated[i : i + 1]), *2.0 ** np.arange(30, -34, -1)):
            eps = low + float(step)
            low += float(step) * all(
                lead > fall(part, x, Z, rivals[:, k], eps, norms[k]) or (
                    part["class"] == "RBF" and lead > 0
                    and held_by_lines(part["gamma"], x, Z, rivals[:, k], float(b), eps))
                for k, lead, b in zip(own, leads[winner], biases, strict=True))
        claimed = low if stated is None else float(stated[i])
        found.append(Claim(f"radius of row {i}", claimed, low, claimed <= low))
    return found
