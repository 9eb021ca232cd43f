"""Bad input is refused by every estimator within a second, with the column or parameter and the fix."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.datasets import load_wine
from sklearn.preprocessing import RobustScaler
from sklearn.utils.validation import has_fit_parameter
from test_estimators import ESTIMATORS

from buttress import (
    SVC,
    SVDD,
    AdversarialSVC,
    CertifiedSVC,
    ConformalDetector,
    LinearSVC,
    RobustKernelClassifier,
    StochasticLinearSVC,
)

from problems import moons

every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


def data_for(estimator, n=60):
    X, y = moons(n)
    return X, (y if is_classifier(estimator) else y + X[:, 0])


def refuse(call, message, error=ValueError):
    """Hold ``call`` to raise ``error`` with ``message``."""
    with pytest.raises(error, match=message):
        call()


@every
@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN"), (np.inf, "inf"), (1e300, r"1e\+300")])
def test_values_that_are_no_use_name_their_column(estimator, value, message):
    X, y = data_for(estimator)
    frame = pd.DataFrame({'we"ird\nnäme': X[:, 0], "b": X[:, 1]})
    frame.iloc[7, 0] = value
    refuse(lambda: clone(estimator).fit(frame, y), rf"{message}.*we\"ird\\nnäme.*row 7")
    model = clone(estimator).fit(X, y)
    refuse(lambda: model.predict(frame.to_numpy()), message)


@every
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_text_names_its_column(estimator, frame):
    X, y = data_for(estimator)
    table = frame({"fine": X[:, 0], "colour": ["red"] * len(y)})
    refuse(lambda: clone(estimator).fit(table, y), "'colour'.*not numbers")


@every
def test_shapes_that_do_not_fit(estimator):
    X, y = data_for(estimator)
    refuse(lambda: clone(estimator).fit(X[:1], y[:1]), "1 sample|at least 2|class")
    refuse(lambda: clone(estimator).fit(X[:0], y[:0]), "0 sample")
    refuse(lambda: clone(estimator).fit(X[:, 0], y), "Expected 2D array")
    if not (is_outlier_detector(estimator) or isinstance(estimator, ConformalDetector)):  # those ignore y
        refuse(lambda: clone(estimator).fit(X, y[:-1]), "inconsistent")
        refuse(lambda: clone(estimator).fit(X, None), "requires y")
    model = clone(estimator).fit(X, y)
    refuse(lambda: model.predict(np.zeros((3, 5))), "5 features")


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if is_classifier(e)], ids=lambda e: type(e).__name__)
def test_targets_that_are_no_classes(estimator):
    X, _ = moons(60)
    refuse(lambda: clone(estimator).fit(X, np.zeros(60)), "class")
    refuse(lambda: clone(estimator).fit(X, np.linspace(0, 1, 60)), "continuous")


BAD = [("kernel", "rfb", "Did you mean 'rbf'"), ("gamma", -1.0, "gamma must be"),
       ("gamma", "big", "gamma must be a positive number, .*'auto'.* Got 'big'"), ("max_iter", 0, "max_iter must be"),
       ("max_time", -1, "max_time must be"), ("tol", -1, "tol must be")]


@pytest.mark.parametrize(
    ("estimator", "name", "value", "message"),
    [(e, *case) for e in ESTIMATORS for case in BAD if case[0] in e.get_params()],
    ids=lambda part: type(part).__name__ if hasattr(part, "fit") else str(part),
)
def test_parameters_out_of_range_are_named(estimator, name, value, message):
    X, y = data_for(estimator)
    refuse(lambda: clone(estimator).set_params(**{name: value}).fit(X, y), message)


@every
def test_weights_that_make_no_sense(estimator):
    X, y = data_for(estimator)
    if not has_fit_parameter(estimator, "sample_weight"):
        refuse(lambda: clone(estimator).fit(X, y, sample_weight=np.ones(60)), "sample_weight", TypeError)
        return
    refuse(lambda: clone(estimator).fit(X, y, sample_weight=np.full(60, -1.0)), "sample_weight must not be negative")
    refuse(lambda: clone(estimator).fit(X, y, sample_weight=np.zeros(60)), "zero")
    refuse(lambda: clone(estimator).fit(X, y, sample_weight=np.full(60, np.nan)), "NaN")


@every
def test_constant_columns_are_accepted(estimator):
    X, y = data_for(estimator)
    X = np.hstack([X, np.full((60, 1), 3.0)])
    predicted = clone(estimator).fit(X, y).predict(X)
    assert len(np.unique(predicted)) > 1 or isinstance(estimator, ConformalDetector)  # to it all 60 may be typical
    assert not np.issubdtype(predicted.dtype, np.floating) or np.isfinite(predicted).all()


@every
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scale", [1e8, 1e10])
def test_columns_of_very_different_scale_are_fitted_or_refused_with_the_fix(estimator, scale):
    X, y = data_for(estimator)
    X = X * [1.0, scale]
    try:
        predicted = clone(estimator).fit(X, y).predict(X)
    except ValueError as error:
        assert "cale" in str(error)  # noqa: PT017
    else:
        assert not np.issubdtype(predicted.dtype, np.floating) or np.isfinite(predicted).all()


@pytest.mark.parametrize("missing", [None, pd.NA])
def test_rows_without_a_label_are_named(missing):
    X, y = moons(60)
    labels = np.where(y == 1, "a", "b").astype(object)
    labels[7] = missing
    for estimator in filter(is_classifier, ESTIMATORS):
        refuse(lambda estimator=estimator: clone(estimator).fit(X, labels), "first is row 7")


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if is_regressor(e)], ids=lambda e: type(e).__name__)
def test_targets_that_are_text_times_or_missing_name_their_row(estimator):
    X, y = data_for(estimator)
    for texts in (np.array(["1.5"] * 60), np.array([*y[:-1], "n.a."], dtype=object)):
        first = next(i for i, target in enumerate(texts) if isinstance(target, str))
        refuse(lambda texts=texts: clone(estimator).fit(X, texts), f"y must hold numbers.*row {first}")
    days = np.datetime64("2024-05-01") + np.arange(60)
    for times in (days, days - days[0], days.astype(object)):
        refuse(lambda times=times: clone(estimator).fit(X, times), "y must hold numbers. Got the text or time .*row 0")
    y = y.astype(float)
    y[[9, 20]] = np.nan
    refuse(lambda: clone(estimator).fit(X, y), "NaN in 2 rows, the first is row 9")


def test_dates_among_the_columns_are_named_in_a_line():
    X, y = moons(30)
    frame = pd.DataFrame({"a": X[:, 0], "day": pd.date_range("2020-01-01", periods=30)})
    with pytest.raises(TypeError, match=r"^Column 'day' of X holds entries that are not numbers.*such as days[.]$"):
        SVC().fit(frame, y)


def test_columns_far_apart_in_scale_are_refused_before_they_overflow():
    X, y = load_wine(return_X_y=True)
    X = RobustScaler().fit_transform(X)
    X[3, 2] = 1e100
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="differ too much in scale"):
            LinearSVC().fit(X, y)


@pytest.mark.parametrize("made", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_among_float32_values_is_named_without_a_warning(value, made):
    """The largest value allowed is beyond what float32 holds."""
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    model = SVC().fit(made(X), np.arange(20) % 2)
    X[7, 2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: SVC().fit(made(X), np.arange(20) % 2), lambda: model.predict(made(X))):
            with pytest.raises(ValueError, match=r"column 2 .* row 7"):
                call()


def test_rows_that_are_moved_have_no_kernel_in_advance():
    X, y = moons(40)
    for estimator in (AdversarialSVC, CertifiedSVC):
        refuse(lambda made=estimator: made(kernel="precomputed").fit(X, y), "moves rows, and kernel='precomputed'")


def test_rows_too_near_each_other_for_squares_name_what_divides_by_them():
    X, y = moons(60)
    for estimator in (SVDD(), RobustKernelClassifier(random_state=0)):
        says = f"gamma='{estimator.gamma}' divides by .* Scale the columns"
        refuse(lambda model=estimator, says=says: model.fit(X * 1e-160, y), says)
    refuse(lambda: StochasticLinearSVC().fit(X * 1e-160, y), "eta0 must be below .* Scale the columns")
