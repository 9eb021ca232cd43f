"""Trees of LightGBM and XGBoost: read as the libraries score them, proven as they predict."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress.attacks import exact
from buttress.certificates import certified_radius
from buttress.evidence import write_evidence
from buttress.trees import read_forest

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")


def boosted(kind, **parameters):
    if kind == "LightGBM":
        return lightgbm.LGBMClassifier(n_estimators=12, min_child_samples=5, verbose=-1, random_state=0, **parameters)
    return xgboost.XGBClassifier(n_estimators=12, max_depth=3, random_state=0, **parameters)


def raw(model, X):
    asked = "raw_score" if isinstance(model, lightgbm.LGBMClassifier) else "output_margin"
    return model.predict(X, **{asked: True}).astype(float).reshape(len(X), -1)


def at_thresholds(forest, X, rng):
    """Rows that hold thresholds, and the next numbers above and below them, in one column each."""
    rows = np.repeat(X[:50], 6, axis=0)
    for row in rows:
        tree = forest.trees[rng.integers(len(forest.trees))]
        inner = np.flatnonzero(tree.left >= 0)
        if len(inner):
            node = rng.choice(inner)
            row[tree.feature[node]] = np.nextafter(tree.threshold[node], rng.choice([-np.inf, np.inf, 0.0]))
            row[tree.feature[node]] = rng.choice([row[tree.feature[node]], tree.threshold[node]])
    return rows


@pytest.mark.parametrize("data", [load_breast_cancer, load_iris])
@pytest.mark.parametrize(("kind", "parameters"), [
    ("LightGBM", {}), ("LightGBM", {"boosting_type": "dart"}),
    ("LightGBM", {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}), ("XGBoost", {}),
    ("XGBoost", {"num_parallel_tree": 3, "subsample": 0.5}), ("XGBoost", {"base_score": 0.3}),
])
def test_scores_are_those_of_the_library_on_thresholds_and_beside_them(data, kind, parameters):
    X, y = data(return_X_y=True)
    for model, ours in ((boosted(kind, **parameters), None), (boosted(kind, **parameters), StandardScaler())):
        whole = model if ours is None else make_pipeline(ours, model)
        forest = read_forest(whole.fit(X, y), X)
        rows = at_thresholds(forest, X, np.random.default_rng(0))
        theirs = raw(model, rows if ours is None else ours.transform(rows))
        apart = np.abs(theirs - forest.scores(rows))
        assert apart.max() <= (1e-12 if kind == "LightGBM" else 1e-5)
        assert apart.max() <= forest.rounding(np.ones(theirs.shape[1])) <= (1e-9 if kind == "LightGBM" else 1e-3)


@pytest.mark.parametrize("data", [load_breast_cancer, load_iris])
@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost"])
def test_no_point_within_a_radius_is_predicted_otherwise_and_found_ones_are(data, kind):
    X, y = data(return_X_y=True)
    model = make_pipeline(StandardScaler(), boosted(kind)).fit(X[::2], y[::2])
    X, y = X[1::2][:40], y[1::2][:40]
    predicted, rng = model.predict(X), np.random.default_rng(0)
    radius = certified_radius(model, X, norm="linf").linf
    assert (radius > 0).mean() > 0.9
    for _ in range(100):
        corner = rng.choice([-1.0, 1.0], size=X.shape) * np.minimum(radius, 1e6)[:, None]
        assert (model.predict(X + rng.choice([1.0, rng.random()]) * corner) == predicted).all()
    eps = float(np.median(radius))
    moved, info = exact(model, X, y, eps=eps, return_info=True)
    np.testing.assert_array_equal(model.predict(moved) != y, info.success)
    assert np.abs(moved - X).max() <= eps * (1 + 1e-9)
    right = predicted == y
    assert (~info.success[right & (radius >= eps)]).all()
    assert info.success[right].any()


@pytest.mark.parametrize("model", [
    lightgbm.LGBMRegressor(n_estimators=12, min_child_samples=5, verbose=-1, random_state=0),
    lightgbm.LGBMRegressor(n_estimators=12, min_child_samples=5, verbose=-1, objective="l1", reg_sqrt=True),
    xgboost.XGBRegressor(n_estimators=12, max_depth=3, random_state=0),
    xgboost.XGBRFRegressor(n_estimators=12, max_depth=4, random_state=0),
], ids=str)
def test_regressors_are_settled_by_the_sign_of_what_they_predict(model):
    X, y = load_breast_cancer(return_X_y=True)
    y = 2 * y - 1
    model.fit(X[::2], y[::2])
    X, y = X[1::2][:60], y[1::2][:60]
    given, rng = np.where(model.predict(X) > 0, 1, -1), np.random.default_rng(0)
    radius = certified_radius(model, X, max_parts=4000).linf
    for _ in range(100):
        corner = rng.choice([-1.0, 1.0], size=X.shape) * np.minimum(radius, 1e6)[:, None]
        assert ((model.predict(X + rng.choice([1.0, rng.random()]) * corner) > 0) == (given > 0)).all()
    eps = float(np.median(radius)) * 1.5
    moved, info = exact(model, X, given, eps=eps, return_info=True)
    np.testing.assert_array_equal((model.predict(moved) > 0) != (given > 0), info.success)
    assert info.success.any()
    assert (~info.success[radius >= eps]).all()


@pytest.mark.parametrize("model", [lightgbm.LGBMRegressor(n_estimators=2, objective="poisson", verbose=-1),
                                   xgboost.XGBRegressor(n_estimators=2, objective="reg:logistic")], ids=str)
def test_regressors_whose_predictions_have_one_sign_are_refused(model):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match="objective"):
        certified_radius(model.fit(X, y), X)


@pytest.mark.parametrize(("kind", "parameters", "what"), [
    ("LightGBM", {"zero_as_missing": True}, "zeros"), ("LightGBM", {"linear_tree": True}, "linear"),
    ("XGBoost", {"booster": "dart", "rate_drop": 0.5}, "gbtree"), ("XGBoost", {"missing": 0.0}, "missing"),
    ("XGBoost", {"objective": "binary:hinge"}, "objective"), ("LightGBM", {"objective": "regression"}, "objective"),
    ("LightGBM", {"objective": lambda y, score: (score - y, np.ones_like(score))}, "objective"),
])
def test_what_the_trees_do_not_tell_is_refused(kind, parameters, what):
    X, y = load_breast_cancer(return_X_y=True)
    X[::3, 0] = 0.0
    with pytest.raises(ValueError, match=what):
        read_forest(boosted(kind, **parameters).fit(X, y), X)


@pytest.mark.parametrize("kind", ["LightGBM", "XGBoost"])
def test_trees_after_the_best_are_left_out_where_a_fit_stopped_early(kind):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), rng.integers(0, 2, 300)
    model = boosted(kind, **{"early_stopping_round" if kind == "LightGBM" else "early_stopping_rounds": 3})
    model.set_params(n_estimators=60).fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])])
    forest = read_forest(model, X)
    assert len(forest.trees) == (model.best_iteration_ if kind == "LightGBM" else model.best_iteration + 1) < 57
    assert np.abs(raw(model, X) - forest.scores(X)).max() < 1e-5


def test_categories_are_refused():
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": pd.Categorical(rng.integers(0, 6, 300)), "b": rng.normal(size=300)})
    y = (X["a"].cat.codes % 2).to_numpy()
    for model in (boosted("LightGBM"), boosted("XGBoost", enable_categorical=True)):
        with pytest.raises(ValueError, match="splits categories"):
            read_forest(model.fit(X, y), X.astype(float).to_numpy())


def test_evidence_proves_rows_of_lightgbm_and_says_why_none_of_xgboost(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X.columns = [f"x{j}" for j in range(X.shape[1])]  # LightGBM renames those with spaces
    for kind, proven in (("LightGBM", True), ("XGBoost", False)):
        model = boosted(kind).fit(X[::2], y[::2])
        found = write_evidence(model, X[1:60:2], y[1:60:2], "malignant", tmp_path / kind)
        assert bool(found.counts()["proven"]) == proven
        assert ("sums in float32" in str(found.not_proven)) != proven


def test_several_labels_a_row_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = boosted("XGBoost").fit(X, (X > 0).astype(int))
    with pytest.raises(ValueError, match="several labels a row"):
        certified_radius(model, X)
