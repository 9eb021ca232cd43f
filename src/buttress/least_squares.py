"""The least-squares classifier: a kernel machine whose predictions are linear in its labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin

from buttress._callbacks import all_or_nothing
from buttress._checks import Array, check_classes, check_count, check_number, check_X_y
from buttress._predicting import ExpansionPredictions, sparse_or_dense
from buttress._rows import drawn_rows, equal_rows
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse, MatrixLike, Rows
from buttress._weights import check_weights
from buttress.certainty.calibration import HeldOut
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.certificates.training.changed_rows import top
from buttress.certificates.training.smoother import GramSmoother
from buttress.certificates.training.wrong import Suspects
from buttress.expansion import KernelExpansion, class_contrasts, one_against_rest
from buttress.kernels import Kernel, KernelLike, centers, fitted_kernel, is_precomputed

PENALTIES = 25  # tried by alpha="loo", in equal steps of the logarithm: neighbours differ by a factor of 1.6
LOST = 0.02  # of the rows left out: how many fewer may be right for the sake of what is proven
WIDEST = (1e-4, 1e1)  # of the largest eigenvalue: the least and the largest penalty tried


@dataclass(kw_only=True, eq=False, repr=False)
class LeastSquaresClassifier(Probabilities, ExpansionPredictions, ClassifierMixin, BaseEstimator):
    """Kernel ridge regression on labels -1 and +1, one class against the rest, with an intercept.

    Minimises sum_i w_i (y_i - f(x_i) - b)^2 + alpha ||f||^2. A prediction is a weighted sum of the labels. So
    :func:`buttress.certificates.training_flips` can prove how many labels would have to be wrong to change it.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        "rbf", "linear", "poly", "laplacian" or another name of :mod:`buttress.kernels`, positive definite.
    gamma : float, "scale" or "auto", default="scale"
        Of the kernel, as in :class:`SVC`.
    degree, coef0 : int, float
        Of polynomial kernels.
    alpha : float or "loo", default=1.0
        Penalty, > 0. "loo" takes the one of 25 with the least weighted mean of squared leave-one-out errors. A proof
        about labels then holds for this penalty, held fixed.
    flips : int, default=0
        For alpha="loo": how many labels may be wrong. Among the penalties with a leave-one-out accuracy at most .02
        below the best, it takes the one with most left-out rows that are right for every choice of this many wrong
        labels. A larger penalty costs a little accuracy and proves much more.

    References
    ----------
    Suykens & Vandewalle, Least squares support vector machine classifiers, Neural Processing Letters 9, 1999, in the
    form of Rifkin, Yeo & Poggio, Regularized least-squares classification, 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from buttress import LeastSquaresClassifier, certificates
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LeastSquaresClassifier(alpha="loo")).fit(X[:400], y[:400])
    >>> found = certificates.training_flips(model, X[:400], y[:400], X[400:])
    >>> bool(found.stands(3).mean() > 0.5)  # whichever 3 of the 400 labels are wrong
    True
    """

    _state = State(
        Attribute("alpha_", "positive", meaning="The penalty."),
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_scores",
                  meaning="The scores: one for two classes, else one a class."),
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c, r] @ scores`` is the lead of class c over its r-th rival."),
        Attribute("loo_decision_", "finite", "n_rows, n_scores",
                  "Scores of the training rows that have weight, each without itself and the rows equal to it.",
                  when="after fit"))

    kernel: KernelLike = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    alpha: float | str = 1.0
    flips: int = 0

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), pairwise=False)

    @all_or_nothing
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "LeastSquaresClassifier":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        It takes time in n^3 and memory in n^2. Raises ValueError for parameters out of range, NaN, inf or entries
        beyond 1e100 (naming the column), fewer than two classes, negative weights.
        """
        tuned = isinstance(self.alpha, str) and self.alpha == "loo"
        if not tuned:
            check_number("alpha", self.alpha, 0, fix='Or use "loo".')
        if check_count("flips", self.flips, 0) and not tuned:
            raise ValueError(f'flips is what alpha="loo" tunes for. Got flips={self.flips} and alpha={self.alpha!r}. '
                             'Leave it 0, or use alpha="loo".')
        if is_precomputed(self.kernel):
            raise ValueError("LeastSquaresClassifier takes no precomputed kernel: it could not tell what a new row's "
                             "values are of. Give a function of two arrays of rows.")
        rows, labels = check_X_y(self, X, y, sparse=True)
        weight = check_weights(sample_weight, rows)
        n, used = len(weight), np.flatnonzero(weight)
        rows, labels, weight = rows[used], labels[used], weight[used]
        self.classes_, codes = check_classes(labels, "LeastSquaresClassifier")
        kernel = fitted_kernel(self, rows, weight)
        first, group = _different(rows)
        here = rows[first]
        summed = np.bincount(group, weight).astype(np.float64)
        machine = _Spectrum(kernel(here, here), summed)
        signs = one_against_rest(codes, len(self.classes_))
        targets = np.stack([np.bincount(group, weight * each) / summed for each in signs.T], axis=1)
        self.alpha_ = machine.best_penalty(targets, self.flips) if tuned else float(self.alpha)
        coef, intercept = machine.solve(targets, self.alpha_)
        self.expansion_ = KernelExpansion(kernel, centers(kernel, here), coef, intercept)
        self.contrasts_ = class_contrasts(len(self.classes_))
        self.loo_decision_ = machine.left_out(targets, self.alpha_)[group]
        self._certainty = Certainty(HeldOut(self.loo_decision_, codes, weight, len(self.classes_), row=used, given=n))
        return self

    def target_weights(self, X: Array, sample_weight: Array) -> GramSmoother:
        """Return the weights of the training labels in a score, given the training rows X (n, d) and their weights."""
        kernel: Kernel = self.expansion_.kernel
        if not (sample_weight > 0).all():
            raise ValueError("sample_weight is 0 in some rows: they say nothing here. Leave them out.")
        return GramSmoother(lambda Z: kernel(Z, X), kernel(X, X), self.alpha_ / sample_weight,
                            sample_weight / sample_weight.sum(), centred=True)

def _different(X: DenseOrSparse) -> tuple[Rows, Rows]:
    """Return the first of each set of equal rows of X (n, d), and the number of its set for every row."""
    group = equal_rows(X)
    if group is None:
        return np.arange(X.shape[0]), np.arange(X.shape[0])
    _, first, number = np.unique(group, return_index=True, return_inverse=True)
    return first, number


class _Spectrum:
    """Weighted ridge regression on a Gram matrix (n, n), centred, for every penalty from one eigendecomposition.

    With m_i = w_i / sum_j w_j, S = diag(sqrt w) and S (I - 1m') K (I - m1') S = U diag(l) U', the values are
    f = 1 m'y + S^-1 U diag(l / (l + alpha)) U' S (y - 1 m'y), and (y_i - f_i) / (1 - H_ii) is the error of row i left
    out.
    """

    def __init__(self, K: Array, weight: Array):
        self.mean = weight / weight.sum()
        self.root = np.sqrt(weight)[:, None]
        self.middle = K @ self.mean
        centred = K - self.middle[:, None] - self.middle + self.mean @ self.middle
        values, self.vectors = np.linalg.eigh(self.root * centred * self.root.T)
        self.values = np.maximum(values, 0.0)

    def solve(self, targets: Array, alpha: float) -> tuple[Array, Array]:
        """Return the coefficients (n, k), which sum to 0, and the intercepts (k,)."""
        level = self.mean @ targets
        moments = self.vectors.T @ (self.root * (targets - level))
        coef = self.root * (self.vectors @ (moments / (self.values + alpha)[:, None]))
        return coef, level - self.middle @ coef

    def left_out(self, targets: Array, alpha: float) -> Array:
        """Return the values (n, k) of the rows, each from a fit without it."""
        shrunk = self.values / (self.values + alpha)
        level = self.mean @ targets
        moments = self.vectors.T @ (self.root * (targets - level))
        f = level + self.vectors @ (shrunk[:, None] * moments) / self.root
        hat = self.mean + (self.vectors**2) @ shrunk
        return targets - (targets - f) / np.maximum(1 - hat, np.finfo(float).eps)[:, None]

    def weights_left_out(self, rows: Rows | slice, alpha: float) -> Array:
        """Return the weights (m, n) of the targets in the values of ``rows``, each from a fit without that row."""
        shrunk = self.values / (self.values + alpha)
        left = self.vectors[rows] / self.root[rows]
        H: Array = self.mean + (left * shrunk) @ (self.vectors * self.root).T
        own = np.arange(len(self.mean))[rows]
        kept = H[np.arange(len(own)), own]
        H[np.arange(len(own)), own] = 0.0
        return np.asarray(H / np.maximum(1 - kept, np.finfo(float).eps)[:, None], dtype=np.float64)

    def best_penalty(self, targets: Array, flips: int) -> float:
        """Return the penalty for ``alpha="loo"``, as the class says."""
        largest = float(self.values.max())
        penalties = np.geomspace(*WIDEST, PENALTIES) * (largest if largest > 0 else 1.0)
        values = [self.left_out(targets, alpha) for alpha in penalties]
        errors = np.array([self.mean @ ((targets - each) ** 2).sum(axis=1) for each in values])
        if flips == 0:
            return float(penalties[errors.argmin()])
        codes = _classes_of(targets)
        right = np.array([np.mean(_classes_of(each) == codes) for each in values])
        proven = [self._proven(targets, codes, alpha, flips) if some >= right.max() - LOST else -1.0
                  for alpha, some in zip(penalties, right, strict=True)]
        return float(penalties[np.lexsort((errors, -np.array(proven)))[0]])

    def _proven(self, targets: Array, codes: Rows, alpha: float, flips: int) -> float:
        """Return the share of rows that are right, left out, whichever ``flips`` other labels are wrong."""
        rows = drawn_rows(len(codes), 1000)  # fewer take less time only
        H = self.weights_left_out(rows, alpha)
        values = H @ targets
        own = codes[rows]
        count = max(2, targets.shape[1])
        suspects = Suspects(codes, ~np.eye(count, dtype=bool), np.ones(len(codes)))
        coded = np.array([[-1.0], [1.0]]) if count == 2 else 2 * np.eye(count) - 1
        held = np.ones(len(own), dtype=bool)
        for c in range(count):
            mine = np.flatnonzero(own == c)
            for rival in set(range(count)) - {c}:
                contrast = coded[c] - coded[rival] if count > 2 else coded[c]
                held[mine] &= top(suspects.gains(H[mine], coded @ contrast), flips) < values[mine] @ contrast
        return float(held.mean())


def _classes_of(values: Array) -> Rows:
    """Return the numbers of the classes that scores (n, k) name."""
    return (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
