"""Which training rows look wrong, and why: a robust fit's verdict on each row without it, and the row's neighbours."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from buttress.robust import RobustKernelClassifier, RobustKernelRegressor, outlier_report

NEIGHBOURS = 10


def suspicious_rows(
    X: NDArray[np.float64], y: NDArray[Any], rows: NDArray[np.intp], task: str, *, count: int, seed: int
) -> list[dict[str, Any]]:
    """Return the ``count`` most suspicious rows: row, given, expected, probability, score and why.

    X (n, d) holds prepared features, ``rows`` the row numbers to report. Each row is judged by the fit without it; the
    score is by how much that fit prefers another class, or its distance from y in standard deviations.
    """
    classifies = task == "classification"
    model = (RobustKernelClassifier if classifies else RobustKernelRegressor)(random_state=seed).fit(X, y)
    report = outlier_report(model, X, y)
    alone = getattr(model, "isolated_", np.zeros(len(X), dtype=bool))[report["row"]]
    near = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(X) - 1)).fit(X).kneighbors(return_distance=False)
    # wrong targets first, then rows that resemble no other, of which nothing can be expected, then the rest
    order = np.lexsort((np.arange(len(X)), np.where(alone, 1, np.where(report["probability"] >= 0.5, 0, 2))))
    found = []
    for k in order[:count]:
        i, expected = report["row"][k], None if alone[k] else report["expected"][k]
        score = -report["margin"][k] if classifies else abs(report["sigmas"][k])
        verdict = _class_verdict if classifies else _target_verdict
        why = (f"{verdict(expected, score)}; {_neighbourhood(y, near[i], expected, classifies)}" if not alone[k]
               else "no other row resembles it, so its label cannot be checked")
        found.append({"row": int(rows[i]), "given": _plain(y[i]), "expected": _plain(expected),
                      "probability": float(report["probability"][k]), "score": float(score), "why": why})
    return found


def _class_verdict(expected: Any, score: float) -> str:
    if score > 0:
        return f"the robust fit without it prefers {_plain(expected)!r} by {score:.2f}"
    return f"the robust fit without it agrees by only {-score:.2f}"


def _target_verdict(expected: Any, score: float) -> str:
    return f"it lies {score:.1f} standard deviations from what the robust fit without it expects"


def _neighbourhood(y: NDArray[Any], near: NDArray[np.intp], expected: Any, classifies: bool) -> str:
    if classifies:
        return f"{int((y[near] == expected).sum())} of its {len(near)} nearest rows are {_plain(expected)!r}"
    return f"its {len(near)} nearest rows have the median {np.median(y[near]):.4g}"


def _plain(value: Any) -> Any:
    """Return a numpy scalar as a Python one, for JSON."""
    return value.item() if isinstance(value, np.generic) else value
