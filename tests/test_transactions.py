"""A fit is whole or not at all: refused or interrupted, it leaves the model that was there before."""

import copy
import functools
import inspect
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.exceptions import ComplexWarning
from sklearn.base import clone, is_classifier, is_outlier_detector
from test_estimators import ESTIMATORS, data_for

import buttress
from buttress import (
    AdversarialClassifier,
    AdversarialSVC,
    CertifiedSVC,
    ConformalDetector,
    InterruptedWarning,
    LinearSVC,
    NotConvergedWarning,
    Nystroem,
    RelationalLinearSVC,
    SeverClassifier,
    StochasticLinearSVC,
)
from buttress.relational import EntityFeatures, Join, Table

INSTANTS = 3  # of Ctrl-C in the short run, and 50 in the long one
PACKAGE = str(Path(buttress.__file__).parent)
OUTSIDE = ("guarded", "give_back")  # what calls the fit, and what Python calls where nothing can be raised
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
    if not is_outlier_detector(estimator) and not isinstance(estimator, ConformalDetector):  # they ignore y
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
    name = next(name for name in ("gamma", "max_iter", "eps", "contamination", "alpha") if name in model.get_params())
    model.set_params(**{name: -7})
    before = dict(vars(model))
    with pytest.raises(ValueError, match=name):
        model.fit(*other_data(estimator))
    assert is_as_before(model, before)


class Interrupted:
    """Ctrl-C with one call of a function of ours, by number, or with a step of a run; without a number it counts."""

    def __init__(self, number=None, *, at_steps=False):
        self.number = number
        self.at_steps = at_steps
        self.calls = 0
        self.steps = 0
        self.came = False

    def __enter__(self):
        sys.setprofile(self.hear)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def hear(self, frame, event, arg):
        code = frame.f_code
        generator = code.co_flags & inspect.CO_GENERATOR  # Python closes them where nothing can be raised
        if event != "call" or generator or not code.co_filename.startswith(PACKAGE) or code.co_name in OUTSIDE:
            return
        step = code.co_name == "over" and code.co_filename.endswith("watch.py")
        self.calls += 1
        self.steps += step
        if self.number == (self.steps if self.at_steps else self.calls) and step >= self.at_steps:
            self.came = True
            raise KeyboardInterrupt


def visits(n, seed):
    """People, and a join of them and their visits."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame({"id": np.arange(n), "age": rng.normal(size=n), "left": rng.choice(["no", "yes"], n)})
    seen = pd.DataFrame({"who": rng.integers(0, n, 3 * n), "cost": rng.normal(size=3 * n)})
    return people, Join([Table("people", people, features=["age"], label="left"),
                         Table("seen", seen, features=["cost"])], on=[("people.id", "seen.who")])


def given(estimator, *, second=False):
    """What an estimator is fitted to, and the rows it is asked about afterwards."""
    if isinstance(estimator, RelationalLinearSVC):
        join = visits(40, 1)[1] if second else visits(30, 0)[1]
        return (join,), join
    if isinstance(estimator, EntityFeatures):
        people = visits(30, 0)[0][: 20 if second else 30]
        return (people,), people
    X, y = other_data(estimator) if second else data_for(estimator)
    return (X, y), X


@functools.cache
def prepared(number):
    """Return a fitted estimator of ``EVERY``, a second fit of it, and how many calls and steps that takes."""
    estimator = EVERY[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = clone(estimator).fit(*given(estimator)[0])
        with Interrupted() as counted:
            whole = clone(estimator).fit(*given(estimator, second=True)[0])
    return first, whole, counted


def interrupt(case, choose, *, at_steps=False):
    """Interrupt second fits at calls that ``choose`` takes from their number; each must leave the old model, or a whole
    new one and say so."""
    first, whole, counted = prepared(case)
    data, rows = given(first, second=True)
    for number in choose(counted.steps if at_steps else counted.calls):
        model = copy.copy(first)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with Interrupted(number, at_steps=at_steps) as ctrl_c:
                    model.fit(*data)
            except KeyboardInterrupt:
                assert is_as_before(model, vars(first)), number
                continue
        if not ctrl_c.came:  # a later fit takes a few calls less than the one that was counted
            continue
        assert any(issubclass(warning.category, InterruptedWarning) for warning in caught), number
        # training on perturbed inputs that was cut short is not compared with the certified machine, and not replaced
        assert vars(whole).keys() - {"certified_margin_"} <= vars(model).keys(), number
        answers = model.predict(rows)  # of a classifier, a regressor or a detector; features are never cut short
        known = getattr(model, "classes_", None)
        assert np.isfinite(answers).all() if known is None else np.isin(answers, known).all(), number


def instants(count):
    """Choose calls at random."""
    return lambda calls: np.random.RandomState(0).randint(1, calls, count)


EVERY = [*ESTIMATORS, RelationalLinearSVC(alpha=0.01, random_state=0), EntityFeatures(visits(30, 0)[1]),
         Nystroem(n_components=10, random_state=0), StochasticLinearSVC(tol=0.05, random_state=0)]
NUMBERED = pytest.mark.parametrize("case", range(len(EVERY)), ids=[type(e).__name__ for e in EVERY])


@NUMBERED
def test_ctrl_c_leaves_the_old_model_or_a_whole_new_one(case):
    interrupt(case, instants(INSTANTS))


@NUMBERED
def test_ctrl_c_at_a_step_does_so_too(case):
    interrupt(case, lambda steps: [(steps + 1) // 2] if steps else [], at_steps=True)


@pytest.mark.slow
@NUMBERED
def test_ctrl_c_at_fifty_instants(case):
    interrupt(case, instants(50))


@pytest.mark.slow
@NUMBERED
def test_ctrl_c_at_every_step(case):
    interrupt(case, lambda steps: range(1, steps + 1), at_steps=True)


def test_every_public_estimator_is_interrupted():
    public = {getattr(buttress, name) for name in buttress.__all__}
    fitted_ones = {one for one in public if inspect.isclass(one) and hasattr(one, "fit")}
    assert fitted_ones <= {type(estimator) for estimator in EVERY}


def test_a_refused_partial_fit_leaves_the_model():
    X, y = data_for(LinearSVC())
    model = StochasticLinearSVC(random_state=0).partial_fit(X, y, classes=[0, 1])
    coef, state = model.coef_.copy(), model._rng.get_state()[1].copy()
    with Interrupted() as whole:
        model.partial_fit(X, y)
    again = StochasticLinearSVC(random_state=0).partial_fit(X, y, classes=[0, 1])
    for number in range(1, whole.calls + 1):
        with pytest.raises(KeyboardInterrupt), Interrupted(number):
            again.partial_fit(X, y)
        np.testing.assert_array_equal(again.coef_, coef)
        np.testing.assert_array_equal(again._rng.get_state()[1], state)
    np.testing.assert_array_equal(again.partial_fit(X, y).coef_, model.coef_)


@pytest.mark.parametrize(("estimator", "scale"), [
    (SeverClassifier(n_rounds=2), 1e4),
    (AdversarialClassifier([CertifiedSVC(max_iter=2, n_landmarks=5), AdversarialSVC(max_iter=2, n_landmarks=5)]), 1.0),
    (AdversarialSVC(max_iter=2, n_landmarks=5), 1.0),
], ids=str)
def test_threads_leave_the_warning_filters_as_they_were(estimator, scale):
    X, y = data_for(estimator)
    before = list(warnings.filters)
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that threads meet inside a fit
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: clone(estimator).fit(scale * X, y), range(8)))
    finally:
        sys.setswitchinterval(often)
    own = [entry for entry in warnings.filters if entry[2] is not ComplexWarning]  # scikit-learn's checks leave that
    assert own == [entry for entry in before if entry[2] is not ComplexWarning]


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if is_classifier(e)], ids=lambda e: type(e).__name__)
def test_labels_of_two_types_are_refused_with_the_remedy(estimator):
    X, _ = data_for(estimator)
    with pytest.raises(TypeError, match=r"labels of one type in y\. Got int and str"):
        clone(estimator).fit(X, np.array(["a", 1] * 30, dtype=object))
