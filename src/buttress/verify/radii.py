"""l2 radii of the rows of a classifier, within which its prediction stays: the best of several lower bounds of a lead.

Each centre by itself, its distance changing by eps; the norm of the sum in the kernel's space; for RBF the slope at x
and the curvature of every centre between the nearest and the farthest it can be.
"""

import math
import operator

import numpy as np

from .core import Array, Claim, Model, Near, U, plus
from .kernels import described, kernel, profile, sums


def fall(part: Model, x: Array, Z: Array, c: Array, eps: float) -> float:
    """Return by how much sum_j c_j k(., z_j) can fall within the l2 radius eps of x: the least of the bounds."""
    if part["class"] == "Combination":
        return sum(fall(one, x, Z, w * c, eps) for one, w in zip(part["kernels"], part["weights"], strict=True))
    if part["class"] == "Linear":
        w = Near(Z.T) @ c
        return math.sqrt((w @ w).high) * eps * (1 + 8 * U)
    r, noise = np.sqrt(((x - Z) ** 2).sum(axis=1)), (16 + Z.shape[1]) * U
    up, down = plus(c), plus(-c)
    at, close, far = (profile(part, Near(t**2, noise * t**2)) for t in (r, plus(r - eps), r + eps))
    falls = [up @ (at.high - far.low) + down @ (close.high - at.low)]
    if part["class"] != "Log":
        most, least = profile(part, Near(0.0)).high, profile(part, Near(eps**2, U * eps**2)).low
        falls.append(math.sqrt((Near(c) @ (kernel(part, Z, Z) @ c)).high * 2 * (most - least)))
    if part["class"] == "RBF":
        bend = 2 * part["gamma"]
        slope = Near((x - Z).T) @ (at * (c * bend))
        curved = up @ (bend * close.high) + down @ (plus(bend**2 * (r + eps) ** 2 - bend) * close.high)
        falls.append(math.sqrt((slope @ slope).high) * eps + curved * eps**2 / 2)
    return float(min(falls)) * (1 + 1e-12) + 1e-15 * float(np.abs(c).sum())


def radii(model: Model, rows: Array, stated: Array | None = None) -> list[Claim]:
    """Return for each row of a classifier whether its stated radius is proven, and the largest found that is."""
    held, found = model["expansion_"], list[Claim]()
    part = described(held["kernel"])
    scores = sums(part, rows, held["centers"], held["coef"])[0] + held["intercept"]
    for i, x in enumerate(rows):
        leads, low = (Near(model["contrasts_"]) @ scores.each(operator.itemgetter(i))).low, 0.0
        winner = (leads > 0).sum(axis=1).argmax()
        for step in (*(() if stated is None else stated[i : i + 1]), *2.0 ** np.arange(30, -34, -1)):
            falls = [fall(part, x, held["centers"], held["coef"] @ rival, low + float(step))
                     for rival in model["contrasts_"][winner]]
            low += float(step) * bool((leads[winner] > falls).all())
        claimed = low if stated is None else float(stated[i])
        found.append(Claim(f"radius of row {i}", claimed, low, claimed <= low))
    return found
