"""A model of the user's as one more row of the audit: what it is, what it reads, and it behind prepared features."""

from importlib.util import find_spec

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from buttress.audit.models.table_model import TableModel
from buttress.audit.reading.table import Table


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


def check_task(estimator: object, table: Table, task: str) -> None:
    """Refuse a model for the other kind of target, as far as it says what it is."""
    if isinstance(estimator, TableModel):
        kind = estimator.task
    elif hasattr(estimator, "__sklearn_tags__"):
        kind = "classification" if is_classifier(estimator) else "regression"
    elif hasattr(estimator, "predict"):
        return
    else:
        raise ValueError(f"A model needs a method predict. {type(estimator).__name__} has none.")
    if kind != task:
        raise ValueError(f"The target {table.target_name!r} makes this a {task} task, which {type(estimator).__name__} "
                         "does not do. Give the other kind of estimator, or task=.")


def takes_numbers(model: object, table: Table) -> bool:
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


def order_columns(model: object, table: Table) -> None:
    """Put the numeric columns of ``table`` in the order the model was fitted on; ValueError where they do not match."""
    if table.categorical or any(np.isnan(column).any() for column in table.numeric.values()):
        holes = [name for name, column in table.numeric.items() if np.isnan(column).any()]
        raise ValueError("A model fitted elsewhere can be attacked on numeric columns without missing values only. "
                         f"Categorical: {list(table.categorical)}. With missing values: {holes}. "
                         "Keep it with buttress train, or prepare the data first.")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and set(names) == set(table.numeric):
        table.numeric = {str(name): table.numeric[str(name)] for name in names}
    elif (width := getattr(model, "n_features_in_", len(table.numeric))) != len(table.numeric) or names is not None:
        expected = f"the columns {list(names)}" if names is not None else f"{width} columns"
        raise ValueError(f"The fitted model expects {expected}. The data have {list(table.numeric)}. "
                         f"{' '.join(table.notes)}".rstrip())


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
