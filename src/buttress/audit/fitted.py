"""A model that is already fitted, as one more row of the audit: on the prepared features, but never fitted again."""

from importlib.util import find_spec

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from buttress.audit.reading.table import Table


def is_fitted(estimator: object) -> bool:
    """Say whether an estimator has been fitted."""
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    return True


def order_columns(model: object, table: Table) -> None:
    """Put the numeric columns of ``table`` in the order the model was fitted on; ValueError where they do not match."""
    if table.categorical or any(np.isnan(column).any() for column in table.numeric.values()):
        raise ValueError("A fitted model can be audited on numeric columns without missing values only. "
                         f"{_listed(table)} Give the estimator unfitted, or prepare the data first.")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and set(names) == set(table.numeric):
        table.numeric = {str(name): table.numeric[str(name)] for name in names}
    elif (width := getattr(model, "n_features_in_", len(table.numeric))) != len(table.numeric) or names is not None:
        expected = f"the columns {list(names)}" if names is not None else f"{width} columns"
        raise ValueError(f"The fitted model expects {expected}. The data have {list(table.numeric)}. "
                         f"{' '.join(table.notes)}".rstrip())


def _listed(table: Table) -> str:
    holes = [name for name, column in table.numeric.items() if np.isnan(column).any()]
    return f"Categorical: {list(table.categorical)}. With missing values: {holes}."


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
