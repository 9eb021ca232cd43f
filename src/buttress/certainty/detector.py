"""p-values around any detector of novel rows: by rows set aside, by folds, or by every row left out."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import fisher_exact
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from buttress._as_given import check_names, frames_like
from buttress._callbacks import all_or_nothing
from buttress._checks import TINY, Array, check_count, check_number, check_X, check_X_y, warn_user
from buttress._documented import Documented
from buttress._rows import row_sums
from buttress._state import Attribute, State
from buttress._types import Mask, MatrixLike, RandomStateLike, VectorLike
from buttress.certainty.conformal import mass_beyond, named, nearer, selected, warn_of_few

FOLDS = "cv must be a share of rows in (0, 1), a number of folds of 2 or more, or 'jackknife+'."


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalDetector(Documented, MetaEstimatorMixin, BaseEstimator):
    """p-values of new rows, and which of them are novel, for any detector.

    The detector scores left-out rows, which its fit has not seen. The p-value of a new row is the share of these that
    are at least as far out. With s_k the scores of the fit without the rows of part k, larger for typical rows:

        p(x) = (1 + sum_k #{i in part k : s_k(x_i) <= s_k(x)}) / (1 + sum_k #{i in part k})

    ======================  =====================  ============================  ===============================
    ``cv``                  fits                   P(p <= t) of a typical row    false discovery rate of ``novel``
    ======================  =====================  ============================  ===============================
    a share (split)         one                    at most t: proven             at most ``fdr``: proven
    a number (cross)        so many                at most about 2 t: proven     measured only
    ``"jackknife+"``        one for each row       at most 2 t: proven           measured only
    ======================  =====================  ============================  ===============================

    Proven means: for every detector, if typical new rows and training rows have the same distribution.

    Parameters
    ----------
    detector : estimator
        Of this package, of scikit-learn (local outlier factor with ``novelty=True``) or of PyOD; anything with ``fit``
        and ``score_samples``, larger for typical rows, or ``decision_function``, of PyOD's sign for theirs.
    cv : float in (0, 1), int of 2 or more, or "jackknife+", default=0.5
        Share of the training rows that is held out, or number of folds.
    contamination : float in (0, 1), default=0.1
        Rows with a p-value of at most this are -1 in ``predict``: of typical new rows this share, or less.
    random_state : int, RandomState instance or None, default=None
        Draws the parts.
    ratio : function or None, default=None
        Returns for rows (n, d) the density of typical new rows divided by that of training rows, up to a factor: (n,),
        finite, at least 0. For new rows with another distribution than the training rows. Left-out rows are then
        weighted by their ratio, and the new row by its own. For a split only. If ratios are wrong by factors between a
        and b, b / a times the stated shares are proven.

    References
    ----------
    Bates, Candes, Lei, Romano & Sesia, Testing for outliers with conformal p-values, Annals of Statistics 51, 2023,
    theorem 2 (split); Marandon, Lei, Mary & Roquain, Adaptive novelty detection with false discovery rate guarantee,
    Annals of Statistics 52, 2024 (its adaptive form); Jin & Candes, Model-free selective inference under covariate
    shift via weighted conformal p-values, 2023 (``ratio``); Javanmard & Montanari, On online control of false
    discovery rate, 2015 (``novel_stream``); Vovk, Cross-conformal predictors, 2015, and Barber, Candes, Ramdas &
    Tibshirani, Predictive inference with the jackknife+, 2021 (the factor two).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import IsolationForest
    >>> from buttress import ConformalDetector
    >>> rng = np.random.default_rng(0)
    >>> model = ConformalDetector(IsolationForest(random_state=0), random_state=0).fit(rng.normal(size=(400, 2)))
    >>> new = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(10, 2)) + 6])
    >>> named = model.novel(new, fdr=0.1)
    >>> bool(named[40:].all()), int(named[:40].sum()) <= 2
    (True, True)
    """

    _state = State(
        Attribute("detectors_", "part", "n_folds", "The fitted detectors, one a part.", of="BaseEstimator",
                  shares="n_features"),
        Attribute("left_out_", "real", "n_left_out", "s_k of the rows of each part, one part after the other."),
        Attribute("sizes_", "count", "n_folds", "Rows of each part."),
        Attribute("ratios_", "nonnegative", "n_left_out", "``ratio`` of these rows.", when="with a ``ratio``"),
        Attribute("row_sums_", "finite", "n_rows", "One number a row, by which training rows are recognised."))

    detector: Any = field(kw_only=False)
    cv: float | int | str = 0.5
    contamination: float = 0.1
    random_state: RandomStateLike = None
    ratio: Callable[[Array], ArrayLike] | None = None

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike | None = None) -> "ConformalDetector":
        """Fit the detector to X (n, d) without each part, and score that part; returns self. y is ignored.

        Raises ValueError for a ``cv`` out of range or with a ``ratio`` that is for a split, for ratios that are not
        finite, negative or all 0, and for a detector that cannot score new rows.
        """
        check_number("contamination", self.contamination, 0, 1)
        rows: Array = check_X_y(self, X, np.zeros(_num_samples(X)))[0]
        parts = self._parts(len(rows))
        self.detectors_ = [clone(self.detector).fit(np.delete(rows, part, axis=0)) for part in parts]
        scores = [typicality(model, rows[part]) for model, part in zip(self.detectors_, parts, strict=True)]
        self.left_out_ = np.concatenate(scores)
        self.sizes_ = np.array([len(part) for part in parts])
        self.__dict__.pop("ratios_", None)
        if self.ratio is not None:
            self.ratios_ = self._ratios(rows[np.concatenate(parts)])
            if len(parts) > 1 or not self.ratios_.any():
                raise ValueError(f"ratio is for a split, and must be above 0 for some row left out. Got cv={self.cv!r} "
                                 f"and a largest ratio of {self.ratios_.max()}. Use cv=0.5, or check the function.")
        self.row_sums_ = row_sums(rows)
        return self

    def _parts(self, n: int) -> list[NDArray[np.intp]]:
        """Return the numbers of the rows of each part."""
        order = check_random_state(self.random_state).permutation(n)
        if self.cv == "jackknife+":
            return np.array_split(order, n)
        if isinstance(self.cv, Integral) and not isinstance(self.cv, bool):
            folds = int(check_number("cv", self.cv, 1, n + 1, fix=FOLDS))
            return np.array_split(order, folds)
        if isinstance(self.cv, str):
            raise ValueError(f"{FOLDS} Got {self.cv!r}.")
        aside = int(np.clip(round(check_number("cv", self.cv, 0, 1, fix=FOLDS) * n), 1, n - 1))
        return [order[:aside]]

    def p_values(self, X: MatrixLike) -> Array:
        """Return p(x) of rows X (n, d), (n,), at least 1 / (1 + rows left out) without ``ratio``. Not of training rows.

        Warns where rows of X equal training rows more often than these equal each other, or less than half as often:
        the two are then not drawn alike.
        """
        own, _, beyond, total = self._judged(X)
        return np.asarray((own + beyond) / (own + total))

    def _judged(self, X: MatrixLike) -> tuple[Array, Array, Array, float]:
        """Return ratios of X (n, d), distances by the last part, sums of left-out ratios: of rows beyond, of all."""
        check_is_fitted(self)
        rows = check_X(self, X)
        _warn_of_copies(self.row_sums_, row_sums(rows))
        distance = beyond = np.zeros(len(rows))
        total = 0.0
        weight = getattr(self, "ratios_", np.ones(len(self.left_out_)))
        ends = np.cumsum(self.sizes_)
        for model, end, size in zip(self.detectors_, ends, self.sizes_, strict=True):
            part = slice(end - size, end)
            distance = -typicality(model, rows)
            more, all_of_it = mass_beyond(nearer(distance), -self.left_out_[part], weight[part])
            beyond = beyond + more
            total += all_of_it
        return self._ratios(rows), distance, beyond, total

    def _ratios(self, rows: Array) -> Array:
        """Return the ratio of each row, 1 where there is none; ValueError for values that are no weights."""
        found = np.ones(len(rows)) if self.ratio is None else np.asarray(self.ratio(rows), dtype=np.float64)
        if found.shape != (len(rows),) or not np.isfinite(found).all() or (found < 0).any():
            raise ValueError(f"ratio must return one finite number of 0 or more for each of {len(rows)} rows. Got "
                             f"{found}. Bound it, as with np.clip.")
        return found

    def predict(self, X: MatrixLike) -> NDArray[np.intp]:
        """Return -1 for rows of X (n, d) with p(x) <= contamination, 1 for others, shape (n,). Not of training rows."""
        return np.where(self.p_values(X) <= self.contamination * (1 + 1e-12), -1, 1)

    def novel(self, X: MatrixLike, fdr: float = 0.05, *, adaptive: bool = False) -> Mask:
        """Say which rows of X (n, d) are novel, such that in the mean at most the share ``fdr`` of these is typical.

        Benjamini and Hochberg's procedure on :meth:`p_values`, with a ``ratio`` weighted conformalised selection.
        ``adaptive`` estimates how many rows are typical, and finds more where few are; not with a ``ratio``. ``fdr`` in
        (0, 1). Warns where no row can be named.
        """
        if self.ratio is None:
            return named(self.p_values(X), fdr, len(self.left_out_), adaptive=adaptive)
        if adaptive:
            raise ValueError("adaptive=True is not for a detector with a ratio. Use adaptive=False.")
        own, distance, beyond, total = self._judged(X)
        warn_of_few(total / max(float(own.min(initial=np.inf)), TINY), check_number("fdr", fdr, 0, 1))
        return selected(distance, own, beyond, total, len(self.left_out_), fdr)

    def novel_stream(self, batches: Iterable[MatrixLike], fdr: float = 0.05) -> Iterator[Mask]:
        """Say of rows that come in batches (k, d), one or more at a time, which are novel before the next ones come.

        At any time, in the mean at most the share ``fdr`` of those named so far is typical. LOND: row t is novel if
        p_t <= fdr b_t (1 + D), D the number named before and b_t = 1 / log2(t + 1) - 1 / log2(t + 2), which sum to 1.

        Proven for a split and no ``ratio``, which is refused, if a typical row comes independently of all others. Given
        these, and the row with those left out in no order, the farther out it is the smaller is p_t and the larger, if
        anything, D: so row t adds at most fdr b_t. LORD++ and SAFFRON are proven for independent p-values.
        """
        level = check_number("fdr", fdr, 0, 1)
        if self.ratio is not None:
            raise ValueError("novel_stream is not for a detector with a ratio. Use novel on rows that come together.")
        seen = count = 0
        for X in batches:
            named_here: list[bool] = []
            for p in self.p_values(X).tolist():
                seen += 1
                share = 1 / np.log2(seen + 1) - 1 / np.log2(seen + 2)
                named_here.append(p <= level * share * (1 + count))
                count += named_here[-1]
            yield np.array(named_here, dtype=np.bool_)


def _warn_of_copies(known: Array, new: Array) -> None:
    """Warn where the share of rows that equal a training row says that training rows and new ones differ."""
    counts = np.unique(known, return_counts=True)[1]
    repeated = int(counts[counts > 1].sum())
    found = int(np.isin(new, known).sum())
    p = fisher_exact([[found, len(new) - found], [repeated, len(known) - repeated]])[1]
    more = found * len(known) > repeated * len(new)
    if p < 1e-3 and (more or 2 * found * len(known) < repeated * len(new)):  # of Fisher's test
        what = "are they training rows? Their p-values are too large" if more else (
            "unless many are novel, remove the copies among the training rows: p-values are too small")
        warn_user(f"{found} of {len(new)} rows equal a training row, and {repeated} of {len(known)} training rows "
                  f"equal another: {what}.")


def typicality(detector: Any, X: Array) -> Array:
    """Return the scores of rows X (n, d) by a fitted detector, larger for typical rows, shape (n,)."""
    if hasattr(detector, "score_samples"):
        return np.asarray(detector.score_samples(X), dtype=np.float64)
    if not hasattr(detector, "decision_function"):
        raise ValueError(f"detector must score new rows. Got {detector!r}, which has neither score_samples nor "
                         "decision_function. Local outlier factor has them with novelty=True.")
    scores = np.asarray(detector.decision_function(X), dtype=np.float64)
    of_pyod = any(kind.__module__.split(".")[0] == "pyod" for kind in type(detector).__mro__)
    return -scores if of_pyod else scores


def novel_columns(detector: Any, X: MatrixLike, known: MatrixLike, *, tried: int = 20) -> Array:
    """Return how much more typical each row would be with another value in one column, shape (n, d), at least 0.

    Each column of each row of X (n, d) is replaced by ``tried`` values of the typical rows ``known`` (m, d), evenly
    spaced in their order. The result is the best score found minus the row's own score. The largest entry of a row is
    the column that makes it novel. If a row breaks a relation of two columns, both are large.

    ``detector`` is fitted, as in :class:`ConformalDetector`; n d ``tried`` rows are scored.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVDD, novel_columns
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> novel_columns(SVDD().fit(X), [[0.0, 6.0, 0.0]], X).argmax()
    np.int64(1)
    """
    for what, part in (("X", X), ("known", known)):
        check_names(what, part, getattr(detector, "feature_names_in_", getattr(X, "columns", None)))
    rows, usual = (np.asarray(part, dtype=np.float64) for part in (X, known))
    places = np.linspace(0, len(usual) - 1, min(check_count("tried", tried), len(usual))).round().astype(np.intp)
    values = np.sort(usual, axis=0)[places]
    named_rows = X if hasattr(X, "columns") else known
    framed = frames_like(named_rows) if hasattr(detector, "feature_names_in_") else np.asarray
    own = typicality(detector, framed(rows))
    gain = np.zeros(rows.shape)
    for j in range(rows.shape[1]):
        moved = np.repeat(rows, len(values), axis=0)
        moved[:, j] = np.tile(values[:, j], len(rows))
        best = typicality(detector, framed(moved)).reshape(len(rows), len(values)).max(axis=1)
        gain[:, j] = np.subtract(best, own, out=np.zeros(len(rows)), where=best > own)
    return gain
