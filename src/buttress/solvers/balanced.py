"""Which labels are wrong: concentration within each class on leave-one-out scores, and the rate of wrong labels.

Trimmed by loss alone, a whole class is soon gone; so each observed class keeps its own best rows. A label is wrong
with probability rho, and is then any other class alike: P(label = c | x) = (1 - rho) q_c + rho (1 - q_c) / (C - 1)
with q = softmax(T F(x)), F the scores of the fit without that row. rho and T are those of greatest likelihood.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from buttress._checks import Array
from buttress.solvers.run import Step, Steps

TEMPERATURES = np.geomspace(0.3, 30, 25)
RATES = np.linspace(0, 0.98, 50)  # in units of one minus the chance rate; half of them are within reach


@dataclass(frozen=True)
class Flips:
    """Rate of wrong labels, P(label wrong) of each row, P(class) (n, C), and the log likelihood per row."""

    rate: float
    wrong: Array
    classes: Array
    likelihood: float

    def true_class(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the likeliest true class of each row, given its label (n,) and its scores."""
        C, rows = self.classes.shape[1], np.arange(len(codes))
        chance = self.classes * (self.rate / (C - 1))
        chance[rows, codes] = self.classes[rows, codes] * (1 - self.rate)
        return chance.argmax(axis=1).astype(np.intp)


def explain_labels(scores: Array, codes: NDArray[np.intp], rate: float | None = None) -> Flips:
    """Return the law of greatest likelihood for leave-one-out scores (n, C) and class numbers (n,).

    ``rate`` fixes rho. On a grid of 25 temperatures and 50 rates up to one half.
    """
    C = scores.shape[1]
    rates = 0.5 * RATES if rate is None else np.array([rate])
    best, rows = (-np.inf, 0.0, 1.0), np.arange(len(codes))
    for T in TEMPERATURES:
        q = softmax(T * scores, axis=1)[rows, codes][:, None]
        mean = np.mean(np.log((1 - rates) * q + rates / (C - 1) * (1 - q) + 1e-300), axis=0)
        i = int(mean.argmax())
        best = max(best, (float(mean[i]), float(rates[i]), float(T)))
    likelihood, rho, T = best
    classes = softmax(T * scores, axis=1)
    given = classes[rows, codes]
    slip = rho / (C - 1) * (1 - given)
    return Flips(rho, slip / np.maximum((1 - rho) * given + slip, 1e-300), classes, likelihood)


def label_margins(scores: Array, codes: NDArray[np.intp]) -> Array:
    """Return by how much the score of each row's label beats the best other, shape (n,)."""
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return scores[rows, codes] - others.max(axis=1)


def best_of_each_class(margin: Array, codes: NDArray[np.intp], kept: float) -> Array:
    """Return the indicator (n,) of the ceil(kept n_c) rows of largest margin in each class c."""
    keep = np.zeros(len(codes))
    for c in np.unique(codes):
        rows = np.flatnonzero(codes == c)
        count = int(np.ceil(kept * len(rows) - 1e-9))
        keep[rows[np.argsort(-margin[rows], kind="stable")[:count]]] = 1
    return keep


def concentrate_classes(
    ridge: Any, targets: Array, codes: NDArray[np.intp], margin: Array, *, alpha: float, kept: float
) -> Steps:
    """Yield (kept rows, leave-one-out scores) from margins (n,), until a set of rows comes again.

    ``targets`` (n, C) are 1 for the label and -1 elsewhere; the objective is the share of kept rows with margin <= 0.
    """
    seen = set()
    while True:
        keep = best_of_each_class(margin, codes, kept)
        done = keep.tobytes() in seen
        seen.add(keep.tobytes())
        scores = targets - ridge.solve(targets, keep, alpha).loo
        margin = label_margins(scores, codes)
        yield Step((keep, scores), gap=0.0 if done else 1.0, objective=float(np.mean(margin[keep > 0] <= 0)))
