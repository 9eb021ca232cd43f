"""Scores of rows left out of an adversarial fit, by one Newton step of its smoothed hinge losses."""

from typing import TYPE_CHECKING, Any

import numpy as np

from buttress._arrays import NUMPY
from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress._types import Rows
from buttress.certainty.calibration import HeldOut
from buttress.certainty.one_step import (
    Slopes,
    hinge_slopes,
    kernel_features,
    kernel_leverages,
    left_over,
    leverages,
    one_step,
)
from buttress.expansion import KernelExpansion, margins
from buttress.features import RandomExpansion
from buttress.kernels import Kernel
from buttress.solvers.gradient.worst_inputs import cross_entropy

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

SCORED = 2000  # rows whose scores tell how sure the machine is
LANDMARKS = 500  # rows that stand for all of them in the curvature, where the fit has no landmarks of its own
LEAST_NORM = 1e-100  # a smaller norm of f, as at the start of a fit, counts as this, so that no ridge is infinite


def left_out(model: "AdversarialSVC", kernel: Kernel, X: Array, codes: Rows, found: dict[str, Any]) -> HeldOut:
    """Return the scores of the training rows left out of the fit ``found``, whichever defence made it."""
    if "certified_margin_" in found:
        return certified_held_out(model, kernel, X, codes, found)
    if model.defense == "input" and model.eps > 0:
        return input_held_out(model, X, codes, found)
    return held_out(model, kernel, X, codes, signs_of(codes, found["contrasts_"]), found)


def signs_of(codes: Rows, contrasts: Array) -> Array:
    """Return the labels -1 and 1 (n, k) of each score: one for two classes, else each class against the rest."""
    k = contrasts.shape[2]
    return np.where(codes[:, None] == ([1] if k == 1 else range(k)), 1.0, -1.0)


def held_out(
    model: "AdversarialSVC", kernel: Kernel, X: Array, codes: Rows, signs: Array, found: dict[str, Any]
) -> HeldOut:
    """Return the scores of the training rows left out of the fit ``found`` to labels ``signs`` (n, k).

    Of the plain machine (eps = 0) the losses are hinges, C times their sum; of "rkhs" with the margin 1 + r ||f||
    and C times their mean, and r sum_i C_i l_i' / ||f|| adds to the ridge of 1/2 ||f||^2. At most SCORED rows are
    taken, drawn at random, and stand for all: to score a row takes as long as all random features, or all rows, of f.
    """
    n = len(X)
    expansion = found["expansion_"]
    landmarks = found.get("landmarks_", X[drawn_rows(n, LANDMARKS)])
    n_classes = int(codes.max()) + 1
    some = _drawn(codes)
    X, codes, signs = X[some], codes[some], signs[some]
    share = len(X) / n
    scores = _scores(expansion, X)
    Z, missed = kernel_features(kernel, X, landmarks)
    feature_space = model.defense == "rkhs"
    radius = found["feature_radius_"] if feature_space else 0.0
    weight = np.full(len(X), model.C / n if feature_space else float(model.C))
    out = np.empty_like(scores)
    for column, y in enumerate(signs.T):
        norm = _norm(expansion, found, column) if feature_space else 1.0
        slopes = hinge_slopes(y, 1 + radius * norm - y * scores[:, column], weight)
        ridge = 1 + radius / max(norm, LEAST_NORM) * float(weight @ np.abs(slopes.first)) / share
        curvature = weight * slopes.second
        h = leverages(Z, curvature / share, ridge, intercept=model.fit_intercept) + left_over(missed, curvature, ridge)
        out[:, column] = one_step(scores[:, column], slopes, weight, h, None)
    return HeldOut(out, codes, np.ones(len(X)), n_classes)


def _drawn(codes: Rows) -> Rows:
    """Return all rows, or some drawn at random, with one of each class among them."""
    n = len(codes)
    _, first = np.unique(codes, return_index=True)
    return np.union1d(np.arange(n)[drawn_rows(n, SCORED)], first)


def _scores(expansion: KernelExpansion | RandomExpansion, X: Array) -> Array:
    """Return the scores (n, k); of random features in single precision, as the fit takes them."""
    if isinstance(expansion, RandomExpansion):
        fresh = expansion.moved(NUMPY)  # so that the model keeps no features in single precision
        return np.asarray(fresh(X.astype(np.float32)), dtype=np.float64)
    return expansion(X)


def input_held_out(model: "AdversarialSVC", X: Array, codes: Rows, found: dict[str, Any]) -> HeldOut:
    """Return the same for a fit to perturbed inputs, its cross-entropy taken at the rows themselves.

    At most SCORED rows are taken, drawn at random, and stand for all.
    """
    n, n_classes, expansion = len(X), int(codes.max()) + 1, found["expansion_"]
    some = _drawn(codes)
    X, codes = X[some], codes[some]
    scores = expansion(X)
    V = found["contrasts_"][codes]
    _, shares = cross_entropy(np.einsum("irk,ik->ir", V, scores))
    pull = np.einsum("ir,irk->ik", shares, V)
    curvature = np.einsum("ir,irk->ik", shares, V**2) - pull**2
    Z, missed = kernel_features(expansion.kernel, X, found["landmarks_"])
    weight = np.full(len(X), float(model.C))
    out = np.empty_like(scores)
    for column in range(scores.shape[1]):
        slopes = Slopes(-pull[:, column], curvature[:, column])
        second = weight * slopes.second
        h = leverages(Z, second * n / len(X), 1.0, intercept=True) + left_over(missed, second, 1.0)
        out[:, column] = one_step(scores[:, column], slopes, weight, h, None)
    return HeldOut(out, codes, np.ones(len(X)), n_classes)


def certified_held_out(
    model: "AdversarialSVC", kernel: Kernel, X: Array, codes: Rows, found: dict[str, Any]
) -> HeldOut:
    """Return the same for a fit to the bounds ``certified_margin_``, whose hinge pulls the row's score and its rival's.

    The linear part has features of its own.
    """
    n, expansion = len(X), found["expansion_"]
    scores = expansion(X)
    _, closest = margins(scores, codes, found["contrasts_"])
    Z, missed = kernel_features(kernel, X, found["landmarks_"])
    features = (np.hstack([Z, X - X.mean(axis=0)]), missed)
    weight = np.full(n, float(model.C))
    hinge = hinge_slopes(np.ones(n), 1 - found["certified_margin_"], weight)
    out = np.empty_like(scores)
    for column, sign in enumerate(closest.T):
        slopes = Slopes(sign * hinge.first, sign**2 * hinge.second)
        h = kernel_leverages(features, weight * slopes.second, 1.0, intercept=True)
        out[:, column] = one_step(scores[:, column], slopes, weight, h, None)
    return HeldOut(out, codes, np.ones(n), int(codes.max()) + 1)


def _norm(expansion: KernelExpansion, found: dict[str, Any], column: int) -> float:
    """Return ||f||, from ||f||^2 = sum_j c_j (f(z_j) - b) where the fit did not keep it."""
    if "norm_" in found:
        return float(found["norm_"][column])
    values = expansion(expansion.centers)[:, column] - expansion.intercept[column]
    return float(np.sqrt(max(expansion.coef[:, column] @ values, 0.0)))
