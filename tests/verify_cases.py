"""Models whose claims are checked, and alterations of them that make a claim false."""

import copy
import warnings

import numpy as np
from sklearn.datasets import load_iris

from buttress import SVC, SVDD, SVR, LinearSVC, MultiKernelSVDD, save, verify
from buttress.kernels import RBF, Combination, Laplacian

ALTERED = ("coefficient", "intercept", "primal_objective_", "dual_objective_", "dual_gap_")
LEAST = 1e-6  # share of the objective by which an alteration changes a claim, at least


def rows():
    """Return X, labels, numbers and weights of 50 rows."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    return X, y, X[:, 0] * 2 + np.sin(3 * X[:, 1]), np.random.default_rng(0).integers(1, 4, len(X)).astype(float)


def models():
    """Return (estimator, target, weights) of every kind that has claims."""
    _, y, numbers, weight = rows()
    two = (y > 0).astype(int)
    return [
        (SVC(), two, None), (SVC(kernel="poly", C=3.0), y, weight),
        (SVC(kernel="linear", class_weight="balanced"), y, None),
        (SVC(multi_class="ovr", kernel=Combination([RBF(0.3), Laplacian()], [0.5, 0.5])), y, None),
        (SVC(kernel="log", class_weight={0: 2.0}), two, None), (SVC(kernel="cauchy", solver="ipm"), two, None),
        (SVR(), numbers, None), (SVR(kernel="imq", epsilon=0.0), numbers, weight),
        (LinearSVC(), y, weight), (LinearSVC(loss="squared_hinge"), two, None),
        (LinearSVC(solver="dual", fit_intercept=False), two, None),
        (SVDD(), None, None), (SVDD(kernel="poly", nu=0.3), None, weight), (SVDD(contamination=0.1), None, None),
        (MultiKernelSVDD(), None, None), (MultiKernelSVDD(objective="joint"), None, weight),
        (MultiKernelSVDD(objective="spread"), None, None), (MultiKernelSVDD(objective="uniform"), None, weight),
    ]


def written(path):
    """Return (model as its file says it, X, target, weights) of each, fitted."""
    X, found = rows()[0], []
    for model, target, weight in models():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(model.fit(X, target, sample_weight=weight), path)
        found.append((verify.read_model(path), X, target, weight))
    return found


def altered(model, rng):
    """Return a copy of a model with one number changed by 1 to 50 per cent so that a claim is false, and what it was.

    Where coefficients or intercepts change, all copies of them do. A stated objective is made better than it is: a
    primal one lower, a dual one higher, a gap smaller (if there is one to speak of).
    """
    changed = copy.deepcopy(model)
    share = rng.uniform(0.01, 0.5)
    kind = ALTERED[rng.integers(len(ALTERED))]
    if kind == "coefficient":
        _alter_coefficient(changed, share * rng.choice([-1, 1]), rng)
        return changed, kind
    if kind == "intercept" and "SVDD" not in model["class"]:
        held = changed["intercept_"] = np.array(model["intercept_"])
        held[rng.integers(len(held))] += rng.choice([-1, 1]) * max(share, 0.05)
        changed.get("expansion_", {})["intercept"] = held
        return changed, kind
    kind = "primal_objective_" if kind == "intercept" else kind
    values = np.atleast_1d(np.array(model[kind], dtype=float))
    place = rng.integers(len(values))
    scale = np.abs(np.atleast_1d(model["primal_objective_"])[place])
    if kind == "dual_gap_":
        if values[place] < 10 * LEAST * scale:
            return altered(model, rng)
        values[place] *= 1 - share
    else:
        values[place] += (1 if kind == "dual_objective_" else -1) * share * scale
    changed[kind] = values if len(values) > 1 else float(values[0])
    return changed, kind


def _alter_coefficient(changed, share, rng):
    if changed["class"] == "LinearSVC":
        held = changed["coef_"] = np.array(changed["coef_"])
        held.flat[np.abs(held).argmax()] *= 1 + share
        return
    coef = np.array(changed["expansion_"]["coef"])
    place = np.unravel_index(rng.choice(np.flatnonzero(np.abs(coef) > 0.05 * np.abs(coef).max())), coef.shape)
    old = coef[place]
    coef[place] *= 1 + share
    dual = np.array(changed["dual_coef_"])
    dual[np.where(dual == old)[0][0], np.where(dual == old)[1][0]] = coef[place]
    changed["expansion_"]["coef"] = coef
    changed["dual_coef_"] = dual


def held(model, X, target, weight):
    """Say whether every claim of a model is proven."""
    return all(holds for *_, holds in verify.prove(model, X, target, weight))
