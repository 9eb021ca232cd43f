"""Which rows look wrong, and why: a robust fit's verdict on each row without it, and the row's neighbours."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from buttress.robust import RobustKernelClassifier, RobustKernelRegressor, outlier_report

NEIGHBOURS = 10
Plain = bool | int | float | str | None
LISTED = 10  # rows to show even where none is probably wrong


def suspicious_rows(
    X: NDArray[np.float64], y: NDArray[Any], labels: NDArray[Any], task: str, *, held_out: int, seed: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the suspicious rows, the most suspicious first, and how many there are.

    X (n, d) holds prepared features, the last ``held_out`` rows those not trained on; ``labels`` are what rows are
    called. A row has row, given, expected, probability, score and why: all rows above one half, and others up to ten.
    Each row is judged by the fit without it; the score is by how much that fit prefers another class, or its distance
    from y in standard deviations.
    """
    classifies = task == "classification"
    model = (RobustKernelClassifier if classifies else RobustKernelRegressor)(random_state=seed).fit(X, y)
    report = outlier_report(model, X, y)
    alone = getattr(model, "isolated_", np.zeros(len(X), dtype=bool))[report["row"]]
    score = -report["margin"] if classifies else np.abs(report["sigmas"])
    wrong = (report["probability"] > 0.5) & ~alone
    found = []
    near = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(X) - 1)).fit(X).kneighbors(return_distance=False)
    for k in _order(report["probability"], score, wrong, alone)[: max(int(wrong.sum()), LISTED)]:
        i, expected = report["row"][k], None if alone[k] else report["expected"][k]
        verdict = _class_verdict if classifies else _target_verdict
        why = (f"{verdict(expected, score[k])}; {_neighbourhood(y, near[i], expected, classifies)}" if not alone[k]
               else "no other row resembles it, so its label cannot be checked")
        found.append({"row": plain(labels[i]), "given": plain(y[i]), "expected": plain(expected),
                      "probability": float(report["probability"][k]), "score": float(score[k]), "why": why})
    return found, {"judged": len(X), "share": float(model.contamination_), "above_half": int(wrong.sum()),
                   "held_out_above_half": int(wrong[report["row"] >= len(X) - held_out].sum()),
                   "isolated": int(alone.sum())}


def _order(
    probability: NDArray[np.float64], score: NDArray[np.float64], wrong: NDArray[np.bool_], alone: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return rows that are probably wrong, then those that resemble no other, of which nothing can be expected, then
    the rest; within each by the probability as it is shown, then by the score."""
    return np.lexsort((-score, -np.round(probability, 2), np.where(alone, 1, np.where(wrong, 0, 2))))


def _class_verdict(expected: object, score: float) -> str:
    if score > 0:
        return f"the robust fit without it prefers {plain(expected)!r} by {score:.2f}"
    return f"the robust fit without it agrees by only {-score:.2f}"


def _target_verdict(expected: object, score: float) -> str:
    return f"it lies {score:.1f} standard deviations from what the robust fit without it expects"


def _neighbourhood(y: NDArray[Any], near: NDArray[np.intp], expected: object, classifies: bool) -> str:
    if classifies:
        return f"{int((y[near] == expected).sum())} of its {len(near)} nearest rows are {plain(expected)!r}"
    return f"its {len(near)} nearest rows have the median {np.median(y[near]):.4g}"


def plain(value: object) -> Plain:
    """Return a numpy scalar as a Python one, and a label such as a date or a pair as text, for JSON."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
