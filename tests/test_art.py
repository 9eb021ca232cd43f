"""The adapter that hands our classifiers to the attacks of ART."""

import sys

import numpy as np
import pytest

from buttress import SVC, attacks

from problems import iris, moons


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
    assert abs(ours.mean() - theirs.mean()) < 0.06
    nearest = attacks.carlini_wagner(model, X[:20], y[:20], return_info=True)[1]
    fooled = evasion.DeepFool(wrapped, verbose=False, batch_size=20).generate(X[:20].astype(np.float32))
    moved = (model.predict(fooled) != y[:20]) & nearest.success
    assert moved.sum() >= 10
    assert (nearest.distance[moved] <= np.linalg.norm(fooled - X[:20], axis=1)[moved] * 1.1).mean() > 0.9
