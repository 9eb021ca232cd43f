"""Certificates of trees: boxes in which a class stays, against the exact attack, corners, and forgeries."""

import copy
import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import attacks, certificates, verify
from buttress.trees import read_forest

MODELS = [RandomForestClassifier(12, max_depth=4, random_state=0), ExtraTreesClassifier(8, max_depth=3, random_state=0),
          GradientBoostingClassifier(n_estimators=15, random_state=0),
          HistGradientBoostingClassifier(max_iter=15, max_depth=3),
          make_pipeline(StandardScaler(), GradientBoostingClassifier(n_estimators=8, random_state=0))]
models = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model)[:30])


def table(load):
    X, y = load(return_X_y=True)
    return X, np.array(["no", "yes", "perhaps"])[y]


def certificate(model, X, y, eps):
    """The certificate of the first rows as it comes back from a file."""
    forest = read_forest(model, X)
    held = verify.from_trees(forest, model.classes_, X, y, X - eps, X + eps)
    return json.loads(json.dumps(held))


@models
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_what_is_proven_is_what_the_exact_attack_cannot_break(model, load):
    X, y = table(load)
    model = model.fit(X, y)
    rows, given = X[::25], model.predict(X[::25])
    eps = 0.4 if load is load_iris else 0.05 * X.std(axis=0)
    claims = verify.prove_trees(certificate(model, rows, y[::25], eps), rows, y[::25])
    assert all(claim.holds for claim in claims[:2])
    stands = ~attacks.exact(model, rows, given, eps=eps, return_info=True)[1].success
    np.testing.assert_array_equal([claim.holds for claim in claims[2:]], stands)
    assert stands.mean() > 0


def test_parts_prove_what_tree_by_tree_is_not_proven():
    X, y = table(load_iris)
    model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X, y)
    rows, eps = X[::10], 0.2 * X.std(axis=0)
    claims = verify.prove_trees(certificate(model, rows, y[::10], eps), rows, y[::10])
    forest = read_forest(model, rows)
    whole = [all(forest.least((x - eps)[None], (x + eps)[None], V)[0] > 0 for V in forest.contrasts[winner])
             for x, winner in zip(rows, model.classes_.searchsorted(model.predict(rows)), strict=True)]
    assert sum(claim.holds for claim in claims[2:]) > sum(whole)


@models
def test_no_row_of_a_proven_box_is_predicted_otherwise(model):
    X, y = table(load_iris)
    model = model.fit(X, y)
    rows = X[::10]
    radius = certificates.certified_radius(model, rows).linf[:, None]
    claims = verify.prove_trees(certificate(model, rows, y[::10], radius), rows, y[::10])
    assert all(claim.holds for claim in claims)
    rng = np.random.default_rng(0)
    for _ in range(100):
        moved = rows + radius * rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)], rows.shape)
        np.testing.assert_array_equal(model.predict(moved), model.predict(rows))


def test_a_missing_half_of_a_box_is_not_proven():
    """The lead is below 0 only right of a threshold inside the box, where both trees turn."""
    X, y = table(load_iris)
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    held = certificate(model, X[:1], y[:1], 0.0)
    held["point"]["high"][0][2] = 7.0  # as long a petal as no setosa has
    assert not verify.prove_trees(held, X[:1], y[:1])[2].holds


@pytest.mark.parametrize(("forge", "place"), [
    (lambda held: held["point"]["trees"][0]["value"][-1].__setitem__(0, 9.0), 1),
    (lambda held: held["point"]["offset"].__setitem__(0, 9.0), 1),
    (lambda held: held["claim"]["prediction"].__setitem__(0, "perhaps"), 2),
    (lambda held: held["point"]["low"][0].__setitem__(0, 100.0), 2),
    (lambda held: held["data"].update(sha256="0"), 0),
])
def test_forged_certificates_are_not_proven(forge, place):
    X, y = table(load_iris)
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    held = certificate(model, X[:3], y[:3], 0.01)
    assert all(claim.holds for claim in verify.prove_trees(held, X[:3], y[:3]))
    forge(held)
    assert not verify.prove_trees(held, X[:3], y[:3])[place].holds


@pytest.mark.parametrize("forge", [
    lambda held: held["point"]["trees"][0].update(weight=[1.0]),
    lambda held: held["point"]["trees"][0]["left"].__setitem__(0, 0),
    lambda held: held["point"]["trees"][0]["value"].pop(),
    lambda held: held["point"]["offset"].pop(),
    lambda held: held["point"]["low"].pop(),
    lambda held: held["point"]["high"][0].__setitem__(0, float("nan")),
    lambda held: held["problem"].update(classes=["no", "yes"]),
    lambda held: held["problem"].update(norm="l2"),
    lambda held: held["claim"].update(radius=[1.0]),
])
def test_what_is_no_certificate_of_trees_is_refused(forge):
    X, y = table(load_iris)
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    held = copy.deepcopy(certificate(model, X[:3], y[:3], 0.01))
    forge(held)
    with pytest.raises((ValueError, KeyError, IndexError)):
        verify.prove_trees(held, X[:3], y[:3])


def test_the_command_proves_a_certificate_for_the_problem_that_the_caller_states(tmp_path, capsys):
    X, y = table(load_iris)
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    held = certificate(model, X[::30], y[::30], 0.01)
    (tmp_path / "trees.json").write_text(json.dumps(held))
    lines = ["a,b,c,d,y"] + [",".join([*map(repr, map(float, x)), label]) for x, label in zip(X[::30], y[::30])]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    arguments = [str(tmp_path / "trees.json"), str(tmp_path / "rows.csv"), "--target", "y"]
    assert verify.main(arguments) == 3
    assert verify.main([*arguments, "--problem", json.dumps(held["problem"])]) == 0
    assert "row 0 keeps its class in its box" in capsys.readouterr().out


def test_no_forest_and_rows_with_gaps_are_named():
    X, y = table(load_iris)
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    forest = read_forest(model, X)
    with pytest.raises(TypeError, match=r"forest must have an offset and trees. Got NoneType. Give what .*read_forest"):
        verify.from_trees(None, model.classes_, X, y, X, X)
    held = verify.from_trees(forest, model.classes_, X, y, X, X)
    gaps = X.copy()
    gaps[2, 1] = np.nan
    for refused in (lambda: verify.from_trees(forest, model.classes_, gaps, y, X, X),
                    lambda: verify.prove_trees(held, gaps, y)):
        with pytest.raises(ValueError, match=r"X must be finite. Got nan in row 2, column 1. Fill it in or drop"):
            refused()
    with pytest.raises(ValueError, match=r"rows of numbers, an array of shape \(n, d\). Got NoneType"):
        verify.from_trees(forest, model.classes_, None, y, X, X)
