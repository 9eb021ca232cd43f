"""Which entries of X are out of line with the others of their row: wrong units, slipped decimals, markers such as -999.

Each column is predicted from the others of the same row, linearly: with z the columns scaled by median and median
absolute deviation and bounded, and P the inverse of their covariance (shrunk after Ledoit & Wolf 2004),

    E(z_j | others) = m_j - sum_{k != j} P_jk (z_k - m_k) / P_jj

An entry counts by how far, unbounded, it is from that. The bound keeps one wild entry from spoiling the predictions of
its neighbours in the row, and a tenth of wild entries from making the covariance. What is left over in a column follows
Student's t, its scale and degrees of freedom the likeliest: a column with a long tail excuses more. The p-value of a
row is that of its most surprising entry, for as many entries as were looked at (Sidak 1967): 1 - (1 - min_j p_j)^d.

The entries at fault are found one after another: the one whose replacement by its prediction makes the row most
ordinary, until it is. The idea of judging entries by robust predictions from the others is that of Rousseeuw & Van den
Bossche, Detecting deviating data cells, 2018.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.covariance import ledoit_wolf

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows
from buttress.robust.tuning import ENTRIES


@dataclass(frozen=True)
class Cells:
    """p-value of each row, shape (n,), and the columns at fault in it, the worst first (none where it is ordinary).

    ``expected`` is what the other columns of the row predict for these.
    """

    p_value: Array
    columns: list[NDArray[np.intp]]
    expected: list[Array]


@dataclass(frozen=True)
class CellLaw:
    """Middle and scale of the judged columns; their mean and the weights (d, d) that predict each from the others;
    the scale and degrees of freedom of what is left over."""

    middle: Array
    scale: Array
    mean: Array
    weights: Array
    spread: Array
    degrees: Array

    def scaled(self, X: Array) -> Array:
        """Return X (n, d) in deviations from the middle of each column."""
        return (X - self.middle) / self.scale

    def expected(self, U: Array) -> Array:
        """Return what the other columns of scaled rows U (n, d) predict for each."""
        return np.asarray(self.mean + (np.clip(U, -ENTRIES.bound, ENTRIES.bound) - self.mean) @ self.weights.T)

    def log_chances(self, U: Array) -> Array:
        """Return the log p-value of each entry of scaled rows, shape (n, d)."""
        sigma = np.abs(U - self.expected(U)) / self.spread
        return np.asarray(np.maximum(np.log(2) + student.logsf(sigma, self.degrees), np.log(TINY)))


def deviating_cells(X: Array) -> Cells:
    """Return the p-value of each row of X (n, d), dense, and the entries at fault.

    Columns of which half of the entries or more are equal, such as those of a category, are not judged. Of tables of
    more than 1,000 columns no row is; of more than 1,000 rows that are not ordinary, the entries of the others are not
    looked for.
    """
    X = np.asarray(X, dtype=np.float64)
    judged = np.flatnonzero(_deviation(X) > 0)
    if not 0 < len(judged) <= 1000 or len(X) < 4:  # a covariance can be learned of four
        return Cells(np.ones(len(X)), [np.empty(0, dtype=np.intp)] * len(X), [np.empty(0)] * len(X))
    law = cell_law(X[drawn_rows(len(X))][:, judged])
    U = law.scaled(X[:, judged])
    p = row_chances(law.log_chances(U))
    columns, expected = [np.empty(0, dtype=np.intp)] * len(X), [np.empty(0)] * len(X)
    for i in np.argsort(p, kind="stable")[: min(int(np.sum(p < ENTRIES.level)), 1000)]:
        wrong = _at_fault(law, U[i])
        others = U[i : i + 1].copy()
        others[0, wrong] = 0.0  # what is wrong itself predicts nothing
        columns[i] = judged[wrong]
        expected[i] = (law.middle + law.scale * law.expected(others)[0])[wrong]
    return Cells(p, columns, expected)


def cell_law(X: Array) -> CellLaw:
    """Return the law of the columns of X (n, d), none of them with a median absolute deviation of 0."""
    middle, scale = np.median(X, axis=0), _deviation(X)
    U = (X - middle) / scale
    bounded = np.clip(U, -ENTRIES.bound, ENTRIES.bound)
    P = np.linalg.inv(ledoit_wolf(bounded)[0])
    weights = -P / np.diagonal(P)[:, None]
    np.fill_diagonal(weights, 0)
    law = CellLaw(middle, scale, bounded.mean(axis=0), weights, np.ones(len(P)), np.ones(len(P)))
    left = U - law.expected(U)
    laws = np.array([student_law(column) for column in left.T])
    return CellLaw(middle, scale, law.mean, weights, laws[:, 0], laws[:, 1])


def student_law(r: Array) -> tuple[float, float]:
    """Return the likeliest scale and degrees of freedom (of 1, 2, 4, 8, 30) of Student's t around 0, for r (n,)."""
    found = []
    for nu in ENTRIES.degrees:
        scale = max(float(np.median(np.abs(r))) / float(student.ppf(0.75, nu)), np.finfo(float).tiny)
        for _ in range(30):
            scale = float(np.sqrt(np.mean((nu + 1) / (nu + (r / scale) ** 2) * r**2))) or np.finfo(float).tiny
        found.append((float(student.logpdf(r / scale, nu).sum() - len(r) * np.log(scale)), scale, nu))
    return max(found)[1:]


def row_chances(log_chances: Array) -> Array:
    """Return the p-value of rows whose entries have these log p-values, shape (n, d)."""
    least = np.exp(log_chances.min(axis=1))
    return np.asarray(-np.expm1(log_chances.shape[1] * np.log1p(-np.minimum(least, 1 - 1e-16))))


def _at_fault(law: CellLaw, u: Array) -> NDArray[np.intp]:
    """Return the columns whose replacement makes the scaled row u (d,) ordinary, three at most."""
    u, found = u.copy(), np.empty(0, dtype=np.intp)
    for _ in range(min(3, len(u))):
        chances = law.log_chances(u[None])[0]
        candidates = np.setdiff1d(np.argsort(chances, kind="stable")[: 8], found)
        tried = np.tile(u, (len(candidates), 1))
        tried[np.arange(len(candidates)), candidates] = law.expected(u[None])[0, candidates]
        after = law.log_chances(tried).min(axis=1)
        best = int(after.argmax())
        found, u = np.append(found, candidates[best]), tried[best]
        if row_chances(after[best : best + 1, None] + np.zeros((1, len(u))))[0] >= ENTRIES.level:
            break
    return found


def _deviation(X: Array) -> Array:
    """Return the median absolute deviation of each column, in standard deviations of normal ones."""
    return np.asarray(1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0))
