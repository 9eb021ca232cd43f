"""What stands beside the robust estimators of an audit: what every one has to beat, and a model of the user's.

To beat are the majority or the mean, a linear model, and gradient boosting. Gradient boosting is fitted to the columns
as they are, with missing values and categories; the others to the prepared features. For a skewed positive target the
linear model and boosting are also fitted to its logarithm.

A model of the user's is one more row of the audit. It is tried on a few rows before any work is done, as are the moves
that its columns can make, and stands behind prepared features.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from buttress._suggest import listed
from buttress._types import Labels, Predictor, Supervised
from buttress.attacks.swaps import rivals_of
from buttress.audit.models.table_model import TableModel
from buttress.audit.move_space import MoveSpace
from buttress.audit.moves import InPlace, Move, moves_of, worst_within
from buttress.audit.options import Options
from buttress.audit.reading.cautions import skewed
from buttress.audit.reading.table import DataTable

MAJORITY = "majority class"
MEAN = "mean of the target"
LOGISTIC = "logistic regression"
RIDGE = "ridge regression"
BOOSTING = "gradient boosting"
OF_LOG = " of the logarithm"
GUESSES = (MAJORITY, MEAN)
LINEAR = (LOGISTIC, RIDGE)
SIMPLER = (*LINEAR, RIDGE + OF_LOG, BOOSTING, BOOSTING + OF_LOG)  # of equals the first is recommended
NAMES = (*GUESSES, *SIMPLER)


def baselines(table: DataTable, seed: int) -> dict[str, Supervised]:
    """Return the unfitted baselines of a table's task by name, from the least to the most able."""
    categorical = list(range(len(table.numeric), len(table.numeric) + len(table.categorical)))
    if table.classifies:
        boosting = HistGradientBoostingClassifier(categorical_features=categorical, random_state=seed)
        return {MAJORITY: DummyClassifier(strategy="prior"), LOGISTIC: LogisticRegression(max_iter=1000),
                BOOSTING: boosting}
    boosting = HistGradientBoostingRegressor(categorical_features=categorical, random_state=seed)
    found: dict[str, Supervised] = {MEAN: DummyRegressor(), RIDGE: Ridge(), BOOSTING: boosting}
    if takes_logarithms(table):
        found |= {name + OF_LOG: TransformedTargetRegressor(found[name], func=np.log, inverse_func=np.exp)
                  for name in (RIDGE, BOOSTING)}
    return found


def takes_logarithms(table: DataTable) -> bool:
    """Say whether the target is positive and skewed, so that its logarithm is worth a fit."""
    return not table.classifies and bool(table.target.min() > 0) and skewed(table.target)


def reads_columns(name: str) -> bool:
    """Say whether a baseline is fitted to the columns as they are rather than to the prepared features."""
    return name.startswith(BOOSTING)


def stands_in_box(
    model: Predictor, X: NDArray[np.float64], y: Labels, box: tuple[NDArray[np.float64], NDArray[np.float64]], seed: int
) -> NDArray[np.bool_]:
    """Say of each row whether the worst move found by trying in its box, two ends of shape (n, d), leaves it right.

    A greedy search by the margin of the true class in ``predict_proba``: a lower bound on what an attack can do.
    """
    codes = np.searchsorted(model.classes_, y)  # type: ignore[attr-defined]

    def harm(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        proba = model.predict_proba(rows)  # type: ignore[attr-defined]
        return -rivals_of(proba, np.resize(codes, len(rows)))[1]

    [(worst, _)] = worst_within(harm, X, [box], seed)
    return np.asarray(model.predict(worst) == y)


def is_fitted(estimator: object) -> bool:
    """Say whether an estimator has been fitted, or can only be asked."""
    if not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        return True
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def name_of(estimator: object) -> str:
    """Return what the audit calls a model of the user's."""
    return f"yours ({estimator.estimator if isinstance(estimator, TableModel) else type(estimator).__name__})"


def check_task(estimator: object, table: DataTable) -> None:
    """Refuse a model for the other kind of target, as far as it says what it is."""
    if isinstance(estimator, TableModel):
        kind = estimator.task
    elif hasattr(estimator, "__sklearn_tags__"):
        kind = "classification" if is_classifier(estimator) else "regression"
    elif hasattr(estimator, "predict"):
        return
    else:
        raise ValueError(f"A model needs a method predict. {type(estimator).__name__} has none.")
    if kind != table.task:
        raise ValueError(f"The target {table.target_name!r} makes this a {table.task} task, which "
                         f"{type(estimator).__name__} does not do. Give the other kind of estimator, or task=.")


def takes_numbers(model: object, table: DataTable) -> bool:
    """Say whether a fitted model reads the numeric columns of the table and no others, none of them with a gap.

    Its scores can then be asked for at prepared features, where they may have gradients.
    """
    gaps = any(np.isnan(column).any() for column in table.numeric.values())
    if gaps or table.categorical or isinstance(model, TableModel):
        return False
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return {str(name) for name in names} == set(table.numeric)
    return getattr(model, "n_features_in_", None) == len(table.numeric)


def on_prepared(model: object, scaler: StandardScaler) -> Pipeline:
    """Return the fitted model behind a map from standardised features back to their own units.

    A model fitted on column names is given frames with them: a ColumnTransformer in it takes nothing else.
    """
    back = StandardScaler()
    back.scale_ = 1 / scaler.scale_
    back.mean_ = -scaler.mean_ / scaler.scale_
    back.var_ = back.scale_**2
    back.n_features_in_ = scaler.n_features_in_
    if hasattr(model, "feature_names_in_"):
        back.feature_names_in_ = model.feature_names_in_
        back.set_output(transform="pandas" if find_spec("pandas") else "polars")
    return Pipeline([("units", back), ("model", model)])


@dataclass(frozen=True)
class Yours:
    """The user's fitted model: what it is called, how it is asked, and which moves of the columns are measured.

    With ``on_numbers`` it reads all the table's columns of numbers and no others, so that it can be asked at prepared
    features, where its scores may have gradients.
    """

    name: str
    model: InPlace
    moves: dict[str, Move]
    on_numbers: bool
    notes: list[str]


def yours_of(
    table: DataTable, entries: dict[str, Predictor], options: Options, raw: NDArray[np.float64],
    train: NDArray[np.intp], test: NDArray[np.intp],
) -> Yours | None:
    """Return the fitted model among the entries, None where there is none; ValueError says why it suits no rows."""
    for name, model in entries.items():
        if is_fitted(model):
            space = MoveSpace(table, raw, train)
            asked = InPlace(model, space, table.target, table.classifies)
            asked.try_rows(space.rows(test), name)
            notes = _keep_takeable(space, asked, test, name)
            return Yours(name, asked, moves_of(space.axes, table.classifies, options), takes_numbers(model, table),
                         notes)
    return None


def _keep_takeable(space: MoveSpace, yours: InPlace, places: NDArray[np.intp], name: str) -> list[str]:
    """Take the empty cells out of the space that the user's model fails on, and return a sentence that says so."""
    some = space.rows(places[:20])  # on which it is asked
    width = np.arange(some.shape[1])
    failing = [axis for axis in space.axes if axis.gap is not None
               and yours.fails_on(np.where(width == axis.place, axis.gap, some))]
    space.axes = [replace(axis, gap=None) if axis in failing else axis for axis in space.axes]
    return [f"{name} raises an error on rows with an empty cell in {listed([axis.name for axis in failing], 3)}: those "
            "were not left empty."] if failing else []
