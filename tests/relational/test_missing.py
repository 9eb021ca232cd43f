"""NULL in features, and values that are far off: what a join of imputed and scaled frames gives."""

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database

from buttress import load, save
from buttress.relational import Join, RelationalLinearSVC, Table, describe
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import margin_loss
from buttress.relational.plan.plan import Encoding
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.dialects import DUCKDB, POSTGRES
from buttress.relational.sql.oracle import SqlOracle

ON = [("a.k", "b.k")]


def gappy(n=60, seed=0):
    """Numbers and text with NULL among them, in both tables."""
    rng = np.random.default_rng(seed)
    a = pd.DataFrame({"k": np.arange(n) % 20, "x": rng.normal(size=n), "whole": np.arange(n) % 5})
    a["y"] = (a["x"] + 0.3 * rng.normal(size=n) > 0).astype(int)
    a["x"] = a["x"].mask(rng.random(n) < 0.2)
    a["whole"] = a["whole"].astype("Int64").mask(rng.random(n) < 0.1)
    b = pd.DataFrame({"k": rng.integers(0, 20, n), "z": rng.normal(size=n)})
    b["c"] = np.where(rng.random(n) < 0.3, None, rng.choice(["red", "green"], size=n))
    return a, b


def declared(a, b, more=((), ())):
    return Join([Table("a", a, features=["x", *more[0], "whole", *more[1]], label="y"),
                 Table("b", b, features=["z", "c"])], ON)


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_null_is_filled_and_marked_as_by_hand(missing):
    a, b = gappy()
    model = RelationalLinearSVC(alpha=0.01, missing=missing, tol=1e-4, random_state=0).fit(declared(a, b))
    taking_part = a[a["k"].isin(b["k"])]
    filled = a.assign(**{f"{c}_gone": a[c].isna().astype(float) for c in ("x", "whole")})
    for column in ("x", "whole"):
        fill = float(taking_part[column].mean()) if missing == "mean" else 0.0
        filled[column] = a[column].astype(float).fillna(fill)
    by_hand = RelationalLinearSVC(alpha=0.01, tol=1e-4, random_state=0).fit(declared(
        filled, b.assign(c=b["c"].fillna("gone").astype(object)), (["x_gone"], ["whole_gone"])))
    assert list(model.coef_names_) == ["a.x", "a.x is NULL", "a.whole", "a.whole is NULL", "b.z", "b.c=green",
                                       "b.c=red", "b.c is NULL"]
    order = [list(by_hand.coef_names_).index(name) for name in
             ("a.x", "a.x_gone", "a.whole", "a.whole_gone", "b.z", "b.c=green", "b.c=red", "b.c=gone")]
    np.testing.assert_allclose(model.coef_[0], by_hand.coef_[0][order], atol=2e-2)
    assert model.dual_bound_ <= by_hand.objective_interval_[1]
    assert by_hand.dual_bound_ <= model.objective_interval_[1]


@pytest.mark.parametrize("missing", ["zero", "mean"])
@pytest.mark.parametrize("scaling", ["max", "robust"])
def test_databases_fill_and_scale_alike(duckdb_connection, postgres, missing, scaling):
    owner, reader = postgres
    join = declared(*gappy())
    encoding = Encoding(missing, scaling)
    plan = prepare(join, encoding=encoding)
    grid = grid_oracle(plan, fold=False)
    beta = np.random.default_rng(0).normal(size=plan.width)
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        sql = SqlOracle(in_database(join, connection, execute, dialect, f"gap{missing}{scaling}"), encoding=encoding)
        for mine, theirs in zip(plan.tables, sql.plan.tables):
            assert mine.names == theirs.names
            np.testing.assert_allclose(theirs.scale, mine.scale, rtol=1e-13)
            assert theirs.fills == pytest.approx(mine.fills, rel=1e-12)
        one, other = sql.at_step(beta, margin_loss("logistic"), 1e-5), grid.at_step(beta, margin_loss("logistic"), 1e-5)
        np.testing.assert_allclose(one.b, other.b, atol=1e-5)


def test_new_rows_are_filled_as_in_training(tmp_path):
    a, b = gappy()
    join = declared(a, b)
    model = RelationalLinearSVC(alpha=0.01, missing="mean", random_state=0).fit(join)
    rows = a.add_prefix("a.").merge(b.add_prefix("b."), left_on="a.k", right_on="b.k")
    own = pd.Series(model.decision_function(rows)).groupby(rows["a.x"].index).mean()
    assert len(own) == len(rows)
    rows["n"] = rows.groupby("a.k").ngroup()
    fewer = declared(a.assign(x=a["x"].mask(a.index < 30)), b)  # another mean, but that of training is filled in
    expected = a.assign(x=a["x"].mask(a.index < 30)).add_prefix("a.")
    expected["a.#"] = np.arange(len(a))
    joined = expected.merge(b.add_prefix("b."), left_on="a.k", right_on="b.k")
    means = pd.Series(model.decision_function(joined)).groupby(joined["a.#"]).mean()
    scores = model.decision_function(fewer)
    np.testing.assert_allclose(scores[means.index], means.to_numpy(), atol=1e-12)
    save(model, tmp_path / "model.buttress")
    np.testing.assert_array_equal(load(tmp_path / "model.buttress").decision_function(fewer), scores)


def test_null_is_refused_by_default_and_a_plan_is_shown_nevertheless():
    join = declared(*gappy())
    with pytest.raises(ValueError, match="NULL or NaN in"):
        RelationalLinearSVC().fit(join)
    assert describe(join).n_join_rows > 0
    plain = RelationalLinearSVC(alpha=0.1).fit(declared(*(frame.dropna() for frame in gappy())))
    with pytest.raises(ValueError, match="missing='mean'"):
        plain.decision_function(pd.DataFrame({"a.x": [np.nan], "a.whole": [1], "b.z": [1.0], "b.c": ["red"]}))


def test_one_wild_cell_does_not_move_a_robust_scale():
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame({"x": rng.normal(size=n), "rare": np.arange(n) % 100 == 0})
    frame["y"] = (frame["x"] > 0).astype(int)
    frame.loc[0, "x"] = 100.0
    join = Join([Table("t", frame, features=["x", "rare"], label="y")])
    clean = frame["x"].drop(0)
    robust = prepare(join, encoding=Encoding(scaling="robust")).tables[0].scale
    assert robust[0] == pytest.approx(np.quantile(np.abs(clean), 0.95), rel=1e-2)
    assert robust[1] == 1.0  # a column of rare ones keeps its scale
    accuracy = {scaling: RelationalLinearSVC(alpha=0.1, scaling=scaling, random_state=0).fit(join).score(join)
                for scaling in ("max", "robust")}
    assert accuracy["robust"] > 0.97
    assert accuracy["robust"] > accuracy["max"] - 0.005
