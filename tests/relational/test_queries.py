"""What is asked of a fit over a join, by brute force: counts, margins, means, paths and folds."""

import numpy as np
import pandas as pd
import pytest
from relational_problems import chain, design, joined, materialise
from sklearn.base import clone
from sklearn.svm import LinearSVC

from buttress.relational import Join, RelationalLinearSVC, Table, alpha_path, cross_validate
from buttress.relational.counting.queries import accuracy_interval, mean_scores
from buttress.relational.plan.prepare import prepare


@pytest.mark.parametrize("seed", range(8))
def test_queries_match_brute_force(seed):
    join = joined(seed, weights=seed % 2 == 0)
    plan, rows = prepare(join), materialise(join)
    X, y, weight = design(join, plan, rows)
    beta = np.random.default_rng(seed).normal(size=plan.width)
    score = X @ beta
    right = (score > 0) == (y > 0)
    low, high = accuracy_interval(plan, beta)
    assert low == high == pytest.approx(weight[right].sum() / weight.sum(), rel=1e-12)
    means = mean_scores(plan, beta)
    place = plan.tables[0].rows[plan.nodes[0].members[0][1]]
    frame = pd.DataFrame({"row": rows["t0.#"], "ws": weight * score, "w": weight}).groupby("row").sum()
    for row, mean in zip(place, means):
        if frame.loc[row, "w"] > 0:
            assert mean == pytest.approx(frame.loc[row, "ws"] / frame.loc[row, "w"], rel=1e-9, abs=1e-12)


def test_an_accuracy_on_a_grid_holds_the_exact_one(monkeypatch):
    plan = prepare(chain(40, 20, 4))
    beta = np.random.default_rng(0).normal(size=plan.width)
    exact = accuracy_interval(plan, beta)
    monkeypatch.setattr("buttress.relational.counting.lists.MOST_ENTRIES", 10_000)
    low, high = accuracy_interval(plan, beta)
    assert low < exact[0] == exact[1] < high < low + 0.1


def test_a_score_of_0_is_of_the_first_class():
    frame = pd.DataFrame({"k": [0, 0, 0], "x": [1.0, -1.0, 0.0], "y": [1, 0, 1]})
    other = pd.DataFrame({"k": [0, 0]})
    join = Join([Table("a", frame, features=["x"], label="y"), Table("b", other)], [("a.k", "b.k")])
    assert accuracy_interval(prepare(join, intercept=False), np.ones(1)) == pytest.approx((2 / 3, 2 / 3))
    assert accuracy_interval(prepare(join, intercept=False), -np.ones(1)) == (0.0, 0.0)


def test_predicting_on_a_join_is_the_mean_over_its_rows():
    join = joined(6)
    model = RelationalLinearSVC(alpha=0.01, random_state=0).fit(join)
    rows = materialise(join)
    score = model.decision_function(rows[list(model.feature_names_in_)])
    means = pd.Series(score).groupby(rows["t0.#"].to_numpy()).mean()
    np.testing.assert_allclose(model.decision_function(join)[means.index], means.to_numpy(), atol=1e-12)
    np.testing.assert_array_equal(model.label_rows(join), means.index)
    assert model.score(join) == pytest.approx(model.score(rows[list(model.feature_names_in_)], rows["t0.y"]))
    assert set(model.predict(join)) <= set(model.classes_)


def test_a_path_reuses_its_planes():
    join = chain(500, 20, 3)
    alphas = [1e-2, 1e-3, 1e-4]
    settings = RelationalLinearSVC(n_samples=1000, random_state=0)
    path = alpha_path(join, alphas, settings)
    alone = [clone(settings).set_params(alpha=alpha).fit(join) for alpha in alphas]
    for shared, single in zip(path, alone):
        assert shared.gap_ <= 1e-3
        assert shared.dual_bound_ <= single.objective_interval_[1]
        assert single.dual_bound_ <= shared.objective_interval_[1]
    assert len(path[-1].planes_[0]) == sum(model.n_oracle_calls_ for model in path)


@pytest.mark.parametrize("fits", [alpha_path, cross_validate])
def test_many_fits_refuse_a_checkpoint_that_they_would_not_keep(fits, tmp_path):
    model = RelationalLinearSVC(checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match=f"{fits.__name__} keeps no checkpoint"):
        fits(joined(0, rows=12), [0.1], model=model)


def test_the_fits_of_folds_keep_to_max_time():
    with pytest.raises(TimeoutError, match="max_time was spent"):
        cross_validate(joined(0, rows=12), [0.1], n_folds=3, model=RelationalLinearSVC(max_time=1e-9))


def test_cross_validation_matches_fits_on_the_folds_rows():
    join = joined(0, rows=12)
    found = cross_validate(join, [1e-1, 1e-2], n_folds=3, model=RelationalLinearSVC(random_state=0))
    assert found["test_score"].shape == (2, 3)
    rows, plan = materialise(join), prepare(join)
    X, y, _ = design(join, plan, rows)
    base = plan.tables[0].rows
    fold = np.random.RandomState(0).permutation(np.arange(len(base)) % 3)
    weight = 1 / np.bincount(rows["t0.#"])[rows["t0.#"]]  # every row of the label's table counts alike
    for k in range(3):
        test = np.isin(rows["t0.#"], base[fold == k])
        C = 1 / (2 * 0.1 * weight[~test].sum())
        peer = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(
            X[~test], y[~test], weight[~test])
        assert found["test_score"][0, k] == pytest.approx(peer.score(X[test], y[test], weight[test]))
