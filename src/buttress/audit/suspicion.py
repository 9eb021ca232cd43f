"""Which training rows look wrong, and why: out-of-fold verdicts of a trimmed model, and the row's neighbours."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neighbors import NearestNeighbors

from buttress.expansion import margins
from buttress.risks import Subquantile
from buttress.robust import KernelClassifier, KernelRegressor

NEIGHBOURS = 10


def suspicious_rows(
    X: NDArray[np.float64], y: NDArray[Any], rows: NDArray[np.intp], task: str, *, count: int, seed: int
) -> list[dict[str, Any]]:
    """Return the ``count`` most suspicious rows: row, given, expected, score (the higher the worse) and why.

    X (n, d) holds prepared features, ``rows`` the row numbers to report. Each row is judged by a model that has
    not seen it.
    """
    verdict = _classes if task == "classification" else _targets
    score, expected, reasons = verdict(X, y, seed)
    near = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(X) - 1)).fit(X).kneighbors(return_distance=False)
    found = []
    for i in np.argsort(-score, kind="stable")[:count]:
        why = f"{reasons(i)}; {_neighbourhood(y, near[i], expected[i], task)}"
        found.append({"row": int(rows[i]), "given": _plain(y[i]), "expected": _plain(expected[i]),
                      "score": float(score[i]), "why": why})
    return found


def _classes(X: NDArray[np.float64], y: NDArray[Any], seed: int) -> tuple[NDArray[np.float64], NDArray[Any], Any]:
    classes, codes = np.unique(y, return_inverse=True)
    folds = min(5, int(np.bincount(codes).min()))
    if folds < 2:
        raise ValueError(f"Class {classes[np.bincount(codes).argmin()]!r} has a single training row.")
    score, expected = np.zeros(len(y)), y.copy()
    for train, held in StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, codes):
        model = KernelClassifier(risk=Subquantile(0.7)).fit(X[train], codes[train])
        score[held] = -margins(model.expansion_(X[held]), codes[held], model.contrasts_)[0]
        expected[held] = classes[model.predict(X[held])]
    return score, expected, lambda i: (f"a model that did not see it prefers {_plain(expected[i])!r} by {score[i]:.2f}"
                                       if score[i] > 0 else f"its margin is only {-score[i]:.2f}")


def _targets(X: NDArray[np.float64], y: NDArray[Any], seed: int) -> tuple[NDArray[np.float64], NDArray[Any], Any]:
    expected = np.zeros(len(y))
    for train, held in KFold(5, shuffle=True, random_state=seed).split(X):
        expected[held] = KernelRegressor(risk=Subquantile(0.7)).fit(X[train], y[train]).predict(X[held])
    residual = y - expected
    sigma = 1.4826 * np.median(np.abs(residual - np.median(residual)))
    score = np.abs(residual) / max(sigma, 1e-12 * max(1.0, float(np.abs(y).max())))
    return score, expected, lambda i: f"it lies {score[i]:.1f} sigmas from what a model that did not see it expects"


def _neighbourhood(y: NDArray[Any], near: NDArray[np.intp], expected: Any, task: str) -> str:
    if task == "classification":
        return f"{int((y[near] == expected).sum())} of its {len(near)} nearest rows are {_plain(expected)!r}"
    return f"its {len(near)} nearest rows have the median {np.median(y[near]):.4g}"


def _plain(value: Any) -> Any:
    """Return a numpy scalar as a Python one, for JSON."""
    return value.item() if isinstance(value, np.generic) else value
