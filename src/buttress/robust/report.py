"""The suspicious rows of a robust fit, as a table."""

import importlib
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array, check_is_fitted

from buttress._as_given import canonical
from buttress._checks import Array, check_number
from buttress._state import Attribute, alter, attributes_of
from buttress._threads import slices
from buttress._types import Labels, MatrixLike, Rows, VectorLike
from buttress.kernels import is_precomputed
from buttress.robust.cells import deviating_cells
from buttress.solvers.contamination.trimmed import smallest
from buttress.solvers.run import Outcome

SAME = 1e-6  # share of a row's size by which its key may differ, enough for float32
Model = TypeVar("Model")


# what those of published methods say of their run
OF_RUN = (
    Attribute("objective_", "real", meaning="What was reached of the objective."),
    Attribute("n_iter_", "count", meaning="Iterations."),
    Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
    Attribute("history_", "history", meaning="After each iteration."))


def keep_run(model: Any, outcome: Outcome) -> None:
    """Set what is kept of a run, as ``OF_RUN`` says."""
    model.objective_ = outcome.objective
    model.n_iter_ = outcome.n_iter
    model.history_ = outcome.history
    model.converged_ = outcome.converged


# what the Robust estimators say of each training row, and of all
OF_ROWS = (
    Attribute("inlier_mask_", "bool", "n_rows", "Training rows taken as good."),
    Attribute("outlier_proba_", "share", "n_rows", "Probability that a row is corrupt."),
    Attribute("weights_", "nonnegative", "n_rows", "Weight of each given target in the last fit, 0 if another label "
              "is fitted; on landmarks, of a label in the gradient."),
    Attribute("scale_", "real", meaning="Scale of the noise of the good rows; of labels, the median size of scores."),
    Attribute("contamination_", "real",
              meaning="Share of corrupt rows: the mean of ``outlier_proba_``, or the number given."),
    Attribute("contamination_interval_", "real", "2",
              "Meant to hold the share with probability .9, if corrupt rows contradict the others: those within the "
              "noise, or near a border, cannot be counted. In trials it did in .81 of fits to labels and .85 of fits "
              "to numbers, without trials near a border or with heavy tails. From the likelihood of all shares; the "
              "lower end is 0 if the plain fit is kept."),
    Attribute("agreement_", "real", "n_rows", "Share of the fits tried that agree with ``inlier_mask_`` on the row."),
    Attribute("row_keys_", "real", "n_rows",
              "One number a row, by which :func:`outlier_report` recognises the training rows."),
    Attribute("clean_", "bool", meaning="Whether no row is named, and nothing was trimmed or relabelled."),
    Attribute("n_iter_", "count", meaning="Iterations of the final fit."),
    Attribute("converged_", "bool",
              meaning="False if ``max_iter``, ``max_time``, a callback or Ctrl-C ended them."))


def of_rows_given(model: Model, rows: slice | Rows, n: int) -> Model:
    """Return the model, which was fitted to the numbered ``rows``, with what it says of each of the n rows.

    That is what it says of a row's first copy. A row that was left out is no inlier; of it shares are the mean, real
    numbers NaN.
    """
    if isinstance(rows, slice):
        return model
    here, first = np.unique(rows, return_index=True)
    for name, entry in attributes_of(type(model)).items():
        if entry.shape.startswith("n_rows"):
            value = getattr(model, name)
            unknown = {"real": np.nan, "share": value.mean()}.get(entry.kind, 0)
            whole = np.full((n, *value.shape[1:]), unknown, value.dtype)
            whole[here] = value[first]
            setattr(model, name, whole)
    for holder, name in ((model, "held_out_"), (getattr(model, "_certainty", model), "held")):
        alter(holder, name, lambda held: replace(held, row=rows[held.row], given=n))
    return model


class JudgesRows(Protocol):
    """A fitted estimator that says of each training row how likely it is corrupt."""

    n_features_in_: int
    outlier_proba_: Array
    agreement_: Array
    row_keys_: Array


def outlier_report(estimator: JudgesRows, X: MatrixLike, y: VectorLike, *, fdr: float | None = None) -> Any:
    """Return one row for each training row, the most suspicious first.

    Rows are sorted by their probability, rounded to the hundredth, then by how far off they are.

    Columns: ``row`` (the index label of a pandas frame, otherwise the row number); ``given`` and ``expected`` target
    (what a fit without the row predicts); ``sigmas`` (regression: given minus expected, in standard deviations) or
    ``margin`` (classification: score of the given label minus the best other score); ``probability`` that the row is
    corrupt; ``agreement`` (share of the starts of the search, or of the ridges tried, that agree with the final fit
    on the row; 0 if none does, because the final fit was refined later); for a classifier ``isolated``: no other row
    resembles this one, so ``expected`` has no meaning, and ``probability`` is the mean over the other rows. Rows with
    ``sample_weight`` 0 are left out.

    Two columns describe X alone, because a wrong entry of X seldom shows in the target: ``x_pvalue``, how often the
    columns of an ordinary row disagree as much as here, and ``x_columns``, the unusual columns (names or numbers) if
    the p-value is below .05, the worst first. For sparse X and precomputed kernels they are NaN and empty.

    Parameters
    ----------
    estimator : RobustKernelRegressor, RobustLinearRegressor or RobustKernelClassifier, fitted
        Or a Pipeline that ends in one. ``x_columns`` are then the columns of X, before any step.
    X, y : the training data it was fitted to, in the same order
    fdr : float in (0, 1) or None, default=None
        Report as many of the most probable rows as possible, so that by their probabilities at most this share of them
        is right, and only rows with a probability above one half; None reports all. Isolated rows are then left out,
        because nothing is known about them. The share is only as good as the probabilities: these are too small for
        targets a little off, and for labels flipped next to a border (docs/suspicious-rows/measured.md).

    Returns
    -------
    DataFrame or dict
        A pandas frame (with the index of its rows) or polars frame if X or y is one, otherwise a dict of NumPy arrays.

    Raises
    ------
    ValueError
        For an estimator without leave-one-out results, or if X and y are not its training data in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import RobustLinearRegressor, outlier_report
    >>> X = np.arange(20.0)[:, None]
    >>> y = X[:, 0] + 0.1 * np.sin(9 * X[:, 0])
    >>> y[7] = 40.0
    >>> report = outlier_report(RobustLinearRegressor(alpha=1e-3, random_state=0).fit(X, y), X, y)
    >>> int(report["row"][0]), float(report["given"][0]), round(float(report["expected"][0]))
    (7, 40.0, 7)
    """
    check_is_fitted(estimator)
    seen: Any = X
    if isinstance(estimator, Pipeline):
        seen = estimator[:-1].transform(X)
        estimator = estimator[-1]
    if not hasattr(estimator, "outlier_proba_"):
        best = " Give its best_estimator_." if hasattr(estimator, "best_estimator_") else ""
        raise ValueError("outlier_report needs a fitted RobustKernelRegressor, RobustLinearRegressor or "
                         f"RobustKernelClassifier. Got {type(estimator).__name__}.{best}")
    given = np.asarray(y).reshape(-1)
    _check_rows(estimator, seen, given)
    expected, doubt = expectations(estimator, given)
    name = "margin" if hasattr(estimator, "loo_score_") else "sigmas"
    size = getattr(estimator, "loo_sigma_", -doubt)
    order = np.lexsort((-doubt, -np.round(estimator.outlier_proba_, 2)))
    order = order[~np.isnan(estimator.row_keys_[order])]
    if fdr is not None:
        judged = np.where(getattr(estimator, "isolated_", False), -np.inf, estimator.outlier_proba_)
        order = order[likeliest(judged, fdr)[order]]
    columns = {"row": _labels(X, y, len(given)), "given": given, "expected": expected, name: size,
               "probability": estimator.outlier_proba_, "agreement": estimator.agreement_}
    if hasattr(estimator, "isolated_"):
        columns["isolated"] = estimator.isolated_
    columns["x_pvalue"], columns["x_columns"] = _judged_entries(estimator, X, behind_steps=seen is not X)
    return _framed({key: np.asarray(column)[order] for key, column in columns.items()}, X, y)


def expectations(estimator: Any, given: Labels) -> tuple[Labels, Array]:
    """Return what the fits without each row expect, (n,), and how far the targets ``given`` (n,) are from it, (n,).

    Of labels that is the lead of the best other class, of numbers the distance in standard deviations.
    """
    if hasattr(estimator, "loo_score_"):
        return estimator.classes_[estimator.loo_proba_.argmax(axis=1)], -estimator.loo_score_
    return given - estimator.loo_residual_, np.abs(estimator.loo_sigma_)


def _judged_entries(estimator: JudgesRows, X: MatrixLike, behind_steps: bool) -> tuple[Array, Array]:
    """Return the p-value of each row of X and the names of the columns at fault in it, joined by commas.

    Behind the steps of a pipeline X need not be numbers, and the estimator's columns are others: its own are judged.
    """
    n = len(estimator.row_keys_)
    if issparse(X) or is_precomputed(getattr(estimator, "kernel", None)):
        return np.full(n, np.nan), np.full(n, "")
    if behind_steps:
        names, table = _numbers_of(X)
    else:
        names = getattr(estimator, "feature_names_in_", np.arange(estimator.n_features_in_))
        table = np.asarray(X)
    counted = np.flatnonzero(~np.isnan(estimator.row_keys_))
    found = deviating_cells(table[counted])
    p_value, columns = np.full(n, np.nan), np.full(n, "", dtype=object)
    p_value[counted] = found.p_value
    columns[counted] = [", ".join(map(str, names[at])) for at in found.columns]
    return p_value, columns


def _numbers_of(X: Any) -> tuple[Labels, Array]:
    """Return the names of the columns of numbers of a frame or array, and those columns, gaps filled by the median."""
    named = hasattr(X, "columns")
    names = list(X.columns) if named else list(range(np.shape(X)[1]))
    columns = {name: np.asarray(X[name]) if named else np.asarray(X)[:, name] for name in names}
    numbers = {name: column.astype(np.float64) for name, column in columns.items() if column.dtype.kind in "iuf"}
    for column in numbers.values():
        known = np.isfinite(column)
        column[~known] = np.median(column[known]) if known.any() else 0.0
    return np.array(list(numbers), dtype=object), np.array(list(numbers.values())).reshape(-1, len(X)).T


def likeliest(outlier_proba: Array, fdr: float) -> NDArray[np.bool_]:
    """Return the most rows, the likeliest to be corrupt, whose mean probability of being right is at most ``fdr``.

    That is the Bayesian false discovery rate (Efron, Large-scale inference, 2010, chapter 5). Rows that are likelier
    right than corrupt are not named: certain rows would otherwise make up for doubtful ones until the rate is used up,
    and any error of the probabilities breaks it.
    """
    check_number("fdr", fdr, 0, 1)
    right = 1 - outlier_proba
    mean = np.cumsum(np.sort(right)) / np.arange(1, len(right) + 1)  # which never falls
    return (smallest(right, int(np.count_nonzero(mean <= fdr))) > 0) & (right <= 0.5)


def row_keys(X: Array, y: Array) -> Array:
    """Return one number for each row of X (n, d) and y (n,) that identifies it: a weighted sum of its entries.

    The weights, .5 to 1.5, are far from any simple ratio, so that rows that differ have different sums.
    """
    weights = 0.5 + np.mod(np.arange(1.0, X.shape[1] + 1) * (np.sqrt(5) - 1) / 2, 1)
    parts = [slice(None)] if issparse(X) else slices(*X.shape)
    return np.concatenate([X[part].astype(np.float64, copy=False) @ weights for part in parts]) + y


def _check_rows(estimator: JudgesRows, X: MatrixLike, given: Labels) -> None:
    """Refuse rows other than the training rows: results are stored by row, so they would describe the wrong rows."""
    keys = estimator.row_keys_
    table = canonical(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False,
                                  ensure_2d=False, ensure_min_samples=0, ensure_min_features=0, allow_nd=True))
    for name, rows in (("X", table.shape[0]), ("y", len(given))):
        if rows != len(keys):
            raise ValueError(f"outlier_report needs the training data, {len(keys)} rows. Got {name} with {rows} rows.")
    if table.ndim != 2 or table.shape[1] != estimator.n_features_in_:
        raise ValueError(f"outlier_report needs the training data, {estimator.n_features_in_} columns. "
                         f"Got X of shape {table.shape}.")
    target = given
    if hasattr(estimator, "classes_"):
        if not np.isin(given, estimator.classes_).all():
            raise ValueError("outlier_report needs the training data. Got labels in y that were not among them.")
        target = np.searchsorted(estimator.classes_, given)
    target = target.astype(np.float64)
    size = row_keys(abs(table), np.abs(target))
    other = np.flatnonzero(~(np.abs(row_keys(table, target) - keys) <= SAME * size) & ~np.isnan(keys))
    if len(other):
        raise ValueError("outlier_report needs the training data as they were fitted to, in the same order. "
                         f"{len(other)} of {len(keys)} rows differ, the first is row {other[0]}. Give X and y in their "
                         "original order, or fit again.")


def _labels(X: MatrixLike, y: VectorLike, n: int) -> Labels:
    """Return the row labels of a pandas X or y, row numbers for anything else."""
    for data in (X, y):
        if _library(data) == "pandas":
            frame: Any = data
            return np.asarray(frame.index.to_numpy())
    return np.arange(n)


def _library(data: object) -> str:
    return type(data).__module__.partition(".")[0]


def _framed(columns: dict[str, Labels], X: MatrixLike, y: VectorLike) -> Any:
    for data in (X, y):
        if _library(data) == "pandas":  # rows keep their labels, so that X.loc[report.index] is these rows
            return importlib.import_module("pandas").DataFrame(columns, index=columns["row"])
        if _library(data) == "polars":
            return importlib.import_module("polars").DataFrame(columns)
    return columns
