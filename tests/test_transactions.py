"""A fit is whole or not at all: refused or interrupted, it leaves the model that was there before."""

import copy
import inspect
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_outlier_detector
from test_estimators import ESTIMATORS, data_for

from buttress import InterruptedWarning, LinearSVC, NotConvergedWarning, SeverClassifier

INSTANTS = 3  # of Ctrl-C in the short run, and 50 in the long one
OUTSIDE = ("guarded", "_give_back")  # what calls the fit, and what Python calls where nothing can be raised
CASES = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


def fitted(estimator):
    X, y = data_for(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return clone(estimator).fit(X, y)


def other_data(estimator):
    """Rows with other labels than those of ``data_for``, or another target."""
    X, y = data_for(estimator)
    return X[10:] + 0.5, np.where(y > 0, "up", "down")[10:] if is_classifier(estimator) else 3 - 2 * y[10:]


def is_as_before(model, before):
    return vars(model).keys() == before.keys() and all(vars(model)[name] is value for name, value in before.items())


def refusals(estimator):
    """Pairs of X and y that a fit refuses, some late: unknown entries, another width, one row, targets that lack."""
    X, y = other_data(estimator)
    hole = X.copy()
    hole[3, 1] = np.nan
    yield hole, y
    yield np.column_stack([hole, X[:, 0]]), y
    yield X[:1], y[:1]
    if not is_outlier_detector(estimator):
        yield X, y[:-3]
        yield X, np.full(len(y), np.nan)


@CASES
def test_a_refused_fit_leaves_the_model(estimator):
    model = fitted(estimator)
    X, _ = data_for(estimator)
    before, answers = dict(vars(model)), model.predict(X)
    for rows, targets in refusals(estimator):
        try:
            model.fit(rows, targets)
        except ValueError:
            assert is_as_before(model, before)
            np.testing.assert_array_equal(model.predict(X), answers)
        else:
            pytest.fail(f"a fit to {rows.shape} {targets[:2]} was not refused")


@CASES
def test_a_fit_refused_for_a_parameter_leaves_the_model(estimator):
    model = fitted(estimator)
    name = "gamma" if "gamma" in model.get_params() else "max_iter"
    model.set_params(**{name: -7})
    before = dict(vars(model))
    with pytest.raises(ValueError, match=name):
        model.fit(*other_data(estimator))
    assert is_as_before(model, before)


class Interrupted:
    """Ctrl-C with one call of a function of ours, by number; without a number it only counts the calls."""

    def __init__(self, number=None):
        self.number = number
        self.calls = 0

    def __enter__(self):
        sys.setprofile(self.hear)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def hear(self, frame, event, arg):
        code = frame.f_code
        generator = code.co_flags & inspect.CO_GENERATOR  # Python closes them where nothing can be raised
        if event != "call" or generator or "buttress" not in code.co_filename or code.co_name in OUTSIDE:
            return
        self.calls += 1
        if self.calls == self.number:
            raise KeyboardInterrupt


def interrupt_often(estimator, instants):
    """Interrupt second fits with calls drawn evenly; each must leave the old model, or a whole new one and say so."""
    X, y = other_data(estimator)
    with Interrupted() as counted, warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        whole = clone(estimator).fit(X, y)
    first = fitted(estimator)
    for number in np.random.RandomState(0).randint(1, counted.calls, instants):
        model = copy.copy(first)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with Interrupted(number):
                    model.fit(X, y)
            except KeyboardInterrupt:
                assert is_as_before(model, vars(first)), number
                continue
        assert any(issubclass(warning.category, InterruptedWarning) for warning in caught), number
        # training on perturbed inputs that was cut short is not compared with the certified machine, and not replaced
        assert vars(whole).keys() - {"certified_margin_"} <= vars(model).keys(), number
        answers = model.predict(X)
        assert np.isin(answers, y).all() if is_classifier(model) else np.isfinite(answers).all(), number


@CASES
def test_ctrl_c_leaves_the_old_model_or_a_whole_new_one(estimator):
    interrupt_often(estimator, INSTANTS)


@pytest.mark.slow
@CASES
def test_ctrl_c_at_fifty_instants(estimator):
    interrupt_often(estimator, 50)


def test_a_refused_partial_fit_leaves_the_model():
    X, y = data_for(LinearSVC())
    model = LinearSVC(solver="sgd", random_state=0).partial_fit(X, y, classes=[0, 1])
    coef, state = model.coef_.copy(), model._rng.get_state()[1].copy()
    with Interrupted() as whole:
        model.partial_fit(X, y)
    again = LinearSVC(solver="sgd", random_state=0).partial_fit(X, y, classes=[0, 1])
    for number in range(1, whole.calls + 1):
        with pytest.raises(KeyboardInterrupt), Interrupted(number):
            again.partial_fit(X, y)
        np.testing.assert_array_equal(again.coef_, coef)
        np.testing.assert_array_equal(again._rng.get_state()[1], state)
    np.testing.assert_array_equal(again.partial_fit(X, y).coef_, model.coef_)


def test_threads_leave_the_warning_filters_as_they_were():
    X, y = data_for(SeverClassifier())
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: SeverClassifier(random_state=seed, n_rounds=2).fit(1e4 * X, y), range(8)))
    assert warnings.filters == before


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if is_classifier(e)], ids=lambda e: type(e).__name__)
def test_labels_of_two_types_are_refused_with_the_remedy(estimator):
    X, _ = data_for(estimator)
    with pytest.raises(TypeError, match=r"labels of one type in y\. Got int and str"):
        clone(estimator).fit(X, np.array(["a", 1] * 30, dtype=object))
