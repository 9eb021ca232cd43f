"""What Ctrl-C leaves of a fit of several problems: a whole model, or the estimator as it was."""

import importlib
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from buttress import (
    SVC,
    SVDD,
    AdvSVM,
    FreeRangeSVC,
    InterruptedWarning,
    LinearSVC,
    NotConvergedWarning,
    svc_path,
)
from buttress.solvers.qp import smo
from buttress.svm import classifier


def interrupt_call(monkeypatch, place, name, number):
    """Let Ctrl-C come with a call of ``place.name``, counted from 0."""
    calls = iter(range(10_000))
    whole = getattr(place, name)

    def interrupted(*args, **options):
        if next(calls) == number:
            raise KeyboardInterrupt
        return whole(*args, **options)

    monkeypatch.setattr(place, name, interrupted)


@pytest.mark.parametrize("model", [
    (SVC(), "buttress.solvers.qp.solve", "at_once"),
    (SVC(max_iter=10_000), "buttress.solvers.qp.smo", "pair_updates"),
    (SVC(multi_class="ovr", max_iter=10_000), "buttress.solvers.qp.smo", "pair_updates"),
    (LinearSVC(), "buttress.linear", "run"),
    (FreeRangeSVC(), "buttress.adversarial.plane", "run"),
    (AdvSVM(eps=0), "buttress.solvers.qp.smo", "pair_updates"),
    (AdvSVM(eps=0.01, gamma=0.5), "buttress.solvers.qp.smo", "pair_updates"),
], ids=str)
def test_ctrl_c_before_the_last_problem_leaves_the_estimator_as_it_was(model, monkeypatch):
    model, place, name = model
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        model = clone(model).fit(X, y)
        before = dict(vars(model))
        fresh = clone(model)
        interrupt_call(monkeypatch, importlib.import_module(place), name, 1)
        with pytest.raises(KeyboardInterrupt):
            fresh.fit(X, y)
        monkeypatch.undo()
        interrupt_call(monkeypatch, importlib.import_module(place), name, 1)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[20:], y[20:])
    assert not [attribute for attribute in vars(fresh) if attribute.endswith("_")]
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())


def test_ctrl_c_in_the_last_of_many_problems_leaves_a_model(monkeypatch):
    X, y = load_iris(return_X_y=True)
    ends = []
    with monkeypatch.context() as patch:
        whole = smo.pair_updates
        patch.setattr(smo, "pair_updates", lambda *args: ends.append(1) or whole(*args))
        exact = SVC(C=100.0, tol=1e-6, max_iter=10_000).fit(X, y)
    interrupt_call(monkeypatch, smo, "pair_updates", len(ends) - 1)
    with pytest.warns(InterruptedWarning, match="best state"):
        model = SVC(C=100.0, tol=1e-6, max_iter=10_000).fit(X, y)
    assert not model.converged_
    np.testing.assert_array_equal(model.primal_objective_[:2], exact.primal_objective_[:2])
    assert model.dual_objective_[2] <= exact.dual_objective_[2] * (1 + 1e-9)


def test_ctrl_c_ends_a_path_with_the_models_that_are_ready(monkeypatch):
    X, y = load_iris(return_X_y=True)
    Cs = [0.1, 1.0, 10.0]
    whole = svc_path(X, y, Cs)
    interrupt_call(monkeypatch, classifier, "solve", 4)  # the second of three pairs, at the second C
    with pytest.warns(InterruptedWarning, match="models that are ready"):
        models = svc_path(X, y, Cs)
    assert [model.C for model in models] == [0.1]
    np.testing.assert_array_equal(models[0].dual_coef_, whole[0].dual_coef_)
    monkeypatch.undo()
    interrupt_call(monkeypatch, classifier, "solve", 1)
    with pytest.raises(KeyboardInterrupt):
        svc_path(X, y, Cs)


def test_ctrl_c_ends_a_choice_with_the_best_model_so_far(monkeypatch):
    X, y = load_iris(return_X_y=True)
    X = X[50:]
    y = y[50:]
    first = SVC().fit(X, y)
    interrupt_call(monkeypatch, classifier, "solve", 1)
    with pytest.warns(InterruptedWarning, match="best so far"):
        model = SVC(C="loo", gamma="loo").fit(X, y)
    assert (model.C_, model.get_params()["C"]) == (1.0, "loo")
    np.testing.assert_allclose(model.gamma_, 1 / (4 * X.var()))
    np.testing.assert_allclose(model.decision_function(X), first.decision_function(X))
    monkeypatch.undo()
    before = dict(vars(model))
    interrupt_call(monkeypatch, classifier, "solve", 0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model) == before


def test_time_ends_a_choice_with_a_model():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(NotConvergedWarning) as caught:
        model = SVC(C="loo", gamma="loo", max_time=1e-9).fit(X, y)
    assert any("of at most 35" in str(warning.message) for warning in caught)
    assert model.predict(X).shape == (150,)
    assert model.get_params()["max_time"] == 1e-9


@pytest.mark.parametrize("kind", [SVC, SVDD])
def test_ctrl_c_on_the_way_into_compiled_code_is_no_system_error(kind, monkeypatch):
    def entered(*arguments):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    X, y = load_iris(return_X_y=True)
    model = kind(max_iter=10_000)
    monkeypatch.setattr(smo, "pair_updates", entered)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert "support_" not in vars(model)

    def failed(*arguments):
        raise SystemError("something else")

    monkeypatch.setattr(smo, "pair_updates", failed)
    with pytest.raises(SystemError, match="something else"):
        model.fit(X, y)
