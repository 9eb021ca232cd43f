"""The adapter that hands our classifiers to the attacks of ART."""

import sys
import warnings

import numpy as np
import pytest
from sklearn import svm

from buttress import SVC, attacks
from buttress.attacks.targets import as_target

from problems import iris, moons

ARTS_PROBABILITIES = pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
KERNELS = {"linear": {}, "rbf": {"gamma": 0.1}, "poly": {"gamma": 0.1, "degree": 3, "coef0": 1.0}}


def test_art_is_named_where_it_is_missing(monkeypatch):
    X, y = moons(40)
    monkeypatch.setitem(sys.modules, "art", None)
    with pytest.raises(ImportError, match=r"buttress\[art\]"):
        attacks.to_art(SVC().fit(X, y))


@pytest.mark.parametrize("problem", [moons, iris], ids=["two-classes", "three-classes"])
def test_arts_attacks_run_on_our_models(problem):
    evasion = pytest.importorskip("art.attacks.evasion")
    X, y = problem()
    model = SVC(gamma=0.5).fit(X, y)
    wrapped = attacks.to_art(model)
    assert (wrapped.predict(X).argmax(axis=1) == model.predict(X)).mean() > 0.99
    gradients = wrapped.class_gradient(X)
    np.testing.assert_allclose(gradients[np.arange(len(X)), y], -wrapped.loss_gradient(X, y), rtol=1e-5)
    codes = np.eye(len(model.classes_))[y]
    ours = attacks.pgd(model, X, y, eps=0.3, steps=10, step_size=0.075, return_info=True)[1].success
    options = {"eps": 0.3, "eps_step": 0.075, "max_iter": 10, "verbose": False}
    theirs = model.predict(evasion.ProjectedGradientDescentNumpy(wrapped, **options).generate(X, codes)) != y
    assert -0.01 < ours.mean() - theirs.mean() < 0.1  # theirs climbs a loss, ours walks down the margin
    nearest = attacks.carlini_wagner(model, X[:20], y[:20], return_info=True)[1]
    fooled = evasion.DeepFool(wrapped, verbose=False, batch_size=20).generate(X[:20].astype(np.float32))
    moved = (model.predict(fooled) != y[:20]) & nearest.success
    assert moved.sum() >= 10
    assert (nearest.distance[moved] <= np.linalg.norm(fooled - X[:20], axis=1)[moved] * 1.1).mean() > 0.9


@ARTS_PROBABILITIES
@pytest.mark.parametrize("attack", ["ZooAttack", "CarliniL2Method"])
def test_art_returns_its_input_for_a_support_vector_machine_without_probabilities(attack):
    """ART then sees one-hot labels; the same machine has scores, by which rows are soon misclassified."""
    evasion, estimators = pytest.importorskip("art.attacks.evasion"), pytest.importorskip("art.estimators")
    X, y = (part[:20] for part in moons())
    model = svm.SVC(gamma=0.5, probability=False).fit(X, y)
    options = {"max_iter": 20, "binary_search_steps": 2, "verbose": False}
    if attack == "ZooAttack":
        options.update(nb_parallel=2, use_resize=False, use_importance=False)
    wrapped = estimators.classification.SklearnClassifier(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = getattr(evasion, attack)(wrapped, **options).generate(X.astype(np.float32), np.eye(2)[y])
    np.testing.assert_array_equal(found, X.astype(np.float32))
    for ours in (attacks.zoo, attacks.carlini_wagner):
        assert ours(model, X, y, random_state=0, return_info=True)[1].success.mean() >= 0.9


@ARTS_PROBABILITIES
@pytest.mark.parametrize("kernel", KERNELS)
def test_art_gets_the_gradient_of_polynomial_machines_wrong_by_gamma(kernel):
    estimators = pytest.importorskip("art.estimators")
    X, y = moons()
    model = svm.SVC(kernel=kernel, C=10, probability=False, **KERNELS[kernel]).fit(X, y)
    step = 1e-5 * np.eye(2)
    scores = [model.decision_function(X + sign * move) for move in step for sign in (1, -1)]
    true = np.linalg.norm([(scores[0] - scores[1]) / 2e-5, (scores[2] - scores[3]) / 2e-5], axis=0)
    theirs = estimators.classification.SklearnClassifier(model).loss_gradient(X.astype(np.float32), np.eye(2)[y])
    ours = as_target(model).linearise(X)[1](np.ones((len(X), 1)))
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), true, rtol=1e-5)
    too_long = 1 / 0.1 if kernel == "poly" else 1.0
    np.testing.assert_allclose(np.linalg.norm(theirs, axis=1), too_long * true, rtol=1e-3)
    downhill = np.where(y == 1, -1.0, 1.0)[:, None] * ours  # away from the label
    np.testing.assert_allclose((theirs * downhill).sum(axis=1), too_long * true**2, rtol=2e-3)
