"""Rows under a threat: within what multiple of its budgets, beside every swap that it allows, each row keeps its class.

A threat moves column j by at most r reach_j, r the row's radius, and besides puts at most ``most_swaps`` groups of
columns into one of their choices. So a row keeps its class if it does in the box around each way to swap it. The scores
are those of trees (``trees.py``), or of a kernel expansion at (x - shift) scale (``radii.py``). Its box there is wider
by what rounding may change in shift and scale, and its scores are allowed what rows as long as ``origin`` lose.
"""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np

from ..core import TINY, Array, Claim, Model, Real, U, agreed, only, table
from ..foreign import certificate, data_of, digest_of
from ..kernels import described, sums
from ..machines import contrasts, told_apart
from .quadratic import RowMoves
from .radii import LeadAtRow
from .trees import check_trees, leads_of, opened, stays

THREATENED = "rows under a threat"
EXPANSION = {"kernel", "centers", "coef", "intercept", "linear", "pairs", "shift", "scale", "origin"}


class OfExpansion:
    """A kernel expansion behind scalers, and boxes in which one of its classes is proven to stay."""

    def __init__(self, part: Model, classes: list[Any], width: int):
        self.kernel = described(part["kernel"])
        self.Z, self.coef, self.b = (np.array(part[name], float) for name in ("centers", "coef", "intercept"))
        self.leads = contrasts(len(classes), pairs=part["pairs"] is True)
        self.shift, self.scale, self.origin = (np.array(part[name], float) for name in ("shift", "scale", "origin"))
        scores = self.leads.shape[2]
        self.linear = np.zeros((width, scores)) if part["linear"] is None else np.array(part["linear"], float)
        held = (self.Z, self.coef, self.b, self.linear, self.shift, self.scale, self.origin)
        shapes = [(len(self.coef), width), (len(self.Z), scores), (scores,), (width, scores), *[(width,)] * 3]
        finite = all(np.isfinite(each).all() for each in held)
        if [each.shape for each in held] != shapes or not finite or (self.origin < 0).any():
            raise ValueError("The scores of the certificate have other shapes than its classes and rows, or gaps.")
        self.gram = Real(self.coef.T) @ sums(self.kernel, self.Z, self.Z, self.coef)[0]

    def keeps(self, x: Array, code: int, reach: Array) -> bool:
        """Say whether a class is proven wherever a row x is moved by at most ``reach``, column by column."""
        sizes = np.abs(x) + reach + np.abs(self.shift) + self.origin
        # a few scalers may round by 64 U of the sizes of what they subtract
        box = (reach + 64 * U * sizes) * np.abs(self.scale) + TINY
        inner = (x - self.shift) * self.scale
        for V in self.leads[code]:
            norm2 = float((Real(V) @ self.gram @ V).high)
            lead = LeadAtRow(self.kernel, inner, self.Z, V, self.coef, self.b, norm2, self.origin * np.abs(self.scale),
                             self.linear)
            if not lead.holds(RowMoves(box, len(x))):
                return False
        return True


class TreeBoxes:
    """A sum of trees, and boxes in which one of its classes is proven to stay."""

    def __init__(self, part: Model, classes: list[Any], width: int):
        self.forest = opened(part["offset"], part["trees"])
        check_trees(self.forest["trees"], width)
        self.leads = leads_of(classes, self.forest)

    def keeps(self, x: Array, code: int, reach: Array) -> bool:
        """Say whether a class is proven wherever a row x is moved by at most ``reach``, column by column."""
        low, high = np.nextafter(x - reach * (1 + 4 * U), -np.inf), np.nextafter(x + reach * (1 + 4 * U), np.inf)
        low, high = (np.where(reach > 0, end, x) for end in (low, high))
        return all(stays(self.forest, V, low, high) for V in self.leads[code])


Scores = OfExpansion | TreeBoxes


def read_scores(part: Model, classes: list[Any], width: int) -> Scores:
    """Return the scores that a certificate holds; ValueError for what no proof knows."""
    if part.keys() == {"offset", "trees"}:
        return TreeBoxes(part, classes, width)
    if part.keys() == EXPANSION:
        return OfExpansion(part, classes, width)
    raise ValueError(f"Scores are trees with an offset, or {', '.join(sorted(EXPANSION))}. Got {sorted(part)}.")


def swapped(threat: Model, x: Array) -> Iterator[Array]:
    """Yield a row swapped in every way that a threat allows, as it is first."""
    groups = threat["groups"]
    for count in range(min(threat["most_swaps"], len(groups)) + 1):
        for some in combinations(groups, count):
            for chosen in product(*(group["choices"] for group in some)):
                row = x.copy()
                for group, choice in zip(some, chosen, strict=True):
                    row[group["places"]] = choice
                yield row


def read_reach(threat: Model, width: int) -> Array:
    """Return the budgets (d,) of a threat; ValueError for one that is none of rows of this width."""
    only({"class": "A threat", **threat}, "reach groups most_swaps")
    reach, places = np.array(threat["reach"], float), [place for group in threat["groups"] for place in group["places"]]
    whole = all(type(place) is int and 0 <= place < width for place in places)
    if not (reach.shape == (width,) and (np.isfinite(reach) & (reach >= 0)).all() and whole
            and len(set(places)) == len(places) and not reach[places].any()
            and type(threat["most_swaps"]) is int and threat["most_swaps"] >= 0):
        raise ValueError("A threat has a budget >= 0 for each column, groups of columns without one, and a most_swaps.")
    return reach


def from_threat(scores: Model, classes: Any, threat: Model, X: Any, y: Any, claim: Model) -> Model:
    """Return the certificate that rows X (n, d) keep their ``prediction`` within their ``radius``, null for none."""
    stated = {"model": THREATENED, "classes": np.asarray(classes).tolist(), "threat": threat,
              "sha256": digest_of(scores)}
    return certificate(stated, {"scores": scores}, X, y, claim)


def prove_threat(held: Model, X: Any, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a certificate at rows X (n, d) with targets y (n,): one for each row with a radius."""
    stated, claim, rows = held["problem"], held["claim"], table(X)
    if stated.keys() != {"model", "classes", "threat", "sha256"} or held["point"].keys() != {"scores"} \
            or claim.keys() != {"prediction", "radius"}:
        raise ValueError("Of rows under a threat a prediction and a radius are claimed.")
    classes, width = stated["classes"], rows.shape[1]
    reach, scores = read_reach(stated["threat"], width), read_scores(held["point"]["scores"], classes, width)
    codes = told_apart(classes, claim["prediction"])
    if not len(codes) == len(claim["radius"]) == len(rows):
        raise ValueError("A prediction, and a radius or null, are claimed for each row.")
    same = stated["sha256"] == digest_of(held["point"]["scores"])
    found = [agreed("the data are those of the certificate", held["data"] == data_of(rows, y)),
             agreed("the scores are those of the problem", same)]
    for i, (x, code, radius) in enumerate(zip(rows, codes, claim["radius"], strict=True)):
        if radius is not None:
            holds = keeps(scores, stated["threat"], x, int(code), reach * float(radius))
            found.append(Claim(f"radius of row {i}", float(radius), float(radius) if holds else 0.0, holds))
    return found


def keeps(scores: Scores, threat: Model, x: Array, code: int, reach: Array) -> bool:
    """Say whether a row keeps its class in the box around each way to swap it; ValueError for a negative box."""
    if not (np.isfinite(reach) & (reach >= 0)).all():
        raise ValueError("A radius is a number >= 0.")
    return all(scores.keeps(row, code, reach) for row in swapped(threat, x))
