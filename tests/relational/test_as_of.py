"""A join with an as_of against pandas: each label row's own join, of the rows that were known before its date."""

from contextlib import nullcontext
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from relational_problems import SHAPES, design, hinge_mean, materialise, random_join
from relational_storage import in_database, in_spark
from scipy.optimize import minimize

from buttress.relational import (
    Join,
    JoinSampler,
    RelationalLinearSVC,
    Table,
    describe,
    evaluate,
)
from buttress.relational.command import fit_file, predict_file, read_join
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.dialects import DUCKDB, POSTGRES
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.stream import streamed

ALPHA = 1e-2
DAYS = 5
DAY = pd.Timestamp("2020-01-01", tz="UTC")
DELAYS = {"number": "1", "date": "1d", "zoned": "24h"}


def dated(seed, kind="number", **how):
    """A random join whose tables but the first have a time, the last for certain, others by chance; ties abound."""
    rng = np.random.default_rng(seed)
    join = random_join(seed, rows=9, **how)
    for i, table in enumerate(join.tables):
        day = pd.Series(rng.integers(0, DAYS, len(table.source)) + (i == 0)).astype(float)
        if i:
            day = day.mask(rng.random(len(day)) < 0.1)
        if kind != "number":
            day = DAY + pd.to_timedelta(day, unit="D")
            zone = ("Asia/Tokyo", "America/New_York")[i % 2]
            day = day.dt.tz_convert(zone) if kind == "zoned" else day.dt.tz_localize(None)
        table.source = table.source.assign(day=day)
        if i == len(join.tables) - 1 or (i and rng.random() < 0.6):
            table.time = "day"
            table.delay = DELAYS[kind] if rng.random() < 0.3 else None
    return Join(join.tables, join.on, as_of="t0.day")


def seen_by(join, date, row):
    """The join of one label row and of the rows that were known before its date, without an as_of."""
    tables = []
    for table in join.tables:
        made = copy(table)
        if table.label:
            made.source = table.source.iloc[[row]]
        elif table.time:
            known = table.source[table.time]
            if table.delay:
                known = known + (1 if table.delay == "1" else pd.Timedelta(days=1))
            made.source = table.source[known < date]
        tables.append(made)
    return Join(tables, join.on)


def at_once(join):
    """The rows of a join without left pairs all of whose parts were known before the label row's date."""
    rows = materialise(Join(join.tables, join.on))
    for table in join.tables:
        if table.time:
            known = rows[f"{table.name}.{table.time}"]
            if table.delay:
                known = known + (1 if table.delay == "1" else pd.Timedelta(days=1))
            rows = rows[known < rows[join.as_of]]
    return rows


def materialised(join):
    """Every row of a join with an as_of: a label row at a time, or at once where no row is kept without a partner."""
    if not any(len(pair) > 2 for pair in join.on):
        return at_once(join)
    frame = join.tables[join.root].source
    column = join.as_of.split(".")[1]
    parts = []
    for row in range(len(frame)):
        part = materialise(seen_by(join, frame[column].iloc[row], row))
        parts.append(part.assign(**{"t0.#": row}))
    return pd.concat([part for part in parts if len(part)]) if any(map(len, parts)) else parts[0]


@cache
def with_rows(seed, **how):
    """The first of the random joins of a shape from which time takes rows, and whose others show both labels."""
    how = {"shape": SHAPES[seed % len(SHAPES)], **how}
    for more in range(seed, 100_000, 100):
        join = dated(more, **how)
        rows = materialised(join)
        weight = np.ones(len(rows))
        for table in join.tables:
            weight = weight * (rows[f"{table.name}.w"].fillna(1).to_numpy(float) if table.weights else 1.0)
        last = f"{join.tables[-1].name}.#"  # whose rows a left join does not need
        fewer = rows[last].notna().sum() < materialise(Join(join.tables, join.on))[last].notna().sum()
        if fewer and set(rows.loc[weight > 0, "t0.y"]) == {0, 1}:
            return join, rows
    raise AssertionError("none of a thousand joins will do")


def check_pass(oracle, X, y, weight):
    first, other = np.random.default_rng(0).normal(size=(2, X.shape[1]))
    seen = oracle(first, hinge(), 256)
    assert oracle.total == pytest.approx(weight.sum(), rel=1e-12)
    mean = hinge_mean(X, y, weight, first)
    assert seen.lower - 1e-12 <= mean <= seen.upper + 1e-12
    assert seen.upper - seen.lower < 0.1 * seen.upper
    assert seen.a - seen.b @ other <= hinge_mean(X, y, weight, other) + 1e-12


VARIANTS = [{}, {"weights": True}, {"left": True}, {"kind": "date"}, {"kind": "zoned", "left": True}]


@pytest.mark.parametrize("how", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(len(SHAPES)), ids=SHAPES)
def test_the_rows_are_those_known_before_the_date(seed, how):
    join, rows = with_rows(seed, **how)
    plan = prepare(join)
    assert plan.n_rows == describe(join).n_join_rows == len(rows)
    for table, data in zip(join.tables, plan.tables):
        for feature in data.features:
            if feature.categories is None:
                largest = rows[f"{table.name}.{feature.name}"].astype(object).fillna(0).abs().max()
                assert feature.scale == (largest or 1)
    check_pass(grid_oracle(plan), *design(join, plan, rows))


@pytest.mark.parametrize("how", VARIANTS[:4], ids=str)
@pytest.mark.parametrize("seed", range(len(SHAPES)), ids=SHAPES)
def test_the_rows_are_the_same_in_duckdb_and_streamed(duckdb_connection, seed, how):
    join, rows = with_rows(seed, **how)
    known = design(join, prepare(join), rows)
    for there in (join, in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "known")):
        sql = SqlOracle(there)
        check_pass(sql, *known)
        check_pass(streamed(sql, 100), *known)


def test_the_rows_are_the_same_in_postgres(postgres):
    owner, reader = postgres
    for seed, how in enumerate(VARIANTS[:4]):
        join, rows = with_rows(seed, **how)
        there = in_database(join, reader, owner.execute, POSTGRES, f"known{seed}", "TEXT")
        check_pass(SqlOracle(there), *design(join, prepare(join), rows))


def test_the_rows_are_the_same_in_spark(spark):
    join, rows = with_rows(1, kind="date")
    check_pass(SqlOracle(in_spark(join, spark, "known")), *design(join, prepare(join), rows))


def optimum(X, y, weight):
    """The least mean logistic loss with the ridge, by scipy."""
    def objective(beta):
        margin = y * (X @ beta)
        slope = -weight * y * np.exp(-np.logaddexp(0, margin)) / weight.sum()
        return weight @ np.logaddexp(0, -margin) / weight.sum() + ALPHA * beta @ beta, X.T @ slope + 2 * ALPHA * beta

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"gtol": 1e-9})
    return found.fun, objective


OBJECTIVES = [{"row_weight": "join"}, {"row_weight": "label_row"}, {"objective": "mean"}]


@pytest.mark.parametrize("engine", ["memory", "sql", "stream"])
@pytest.mark.parametrize("what", OBJECTIVES, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_fit_is_that_of_the_rows_known_in_time(seed, what, engine):
    """The interval holds scipy's optimum over pandas' rows, and the objective of the model is in it."""
    join, rows = with_rows(seed, weights=True)
    X, y, weight = design(join, prepare(join), rows)
    label_row = rows["t0.#"].to_numpy()
    if "objective" in what:
        sums = np.array([[weight[label_row == row] @ column[label_row == row] for column in X.T]
                         for row in np.unique(label_row[weight > 0])])
        total = np.bincount(label_row, weight)
        X = sums / total[total > 0][:, None]
        y = np.array([y[label_row == row][0] for row in np.flatnonzero(total)])
        weight = np.bincount(label_row, weight / np.bincount(label_row)[label_row])[total > 0]
    elif what["row_weight"] == "label_row":
        weight = weight / np.bincount(label_row)[label_row]
    least, objective = optimum(X, y, weight)
    model = RelationalLinearSVC(ALPHA, loss="logistic", engine=engine, random_state=0, **what).fit(join)
    low, high = model.objective_interval_
    assert model.n_join_rows_ == len(rows)
    assert low - 1e-8 <= least <= objective(model.beta_)[0] + 1e-8
    assert objective(model.beta_)[0] <= high + 1e-9
    assert high - low <= 1e-3 * high


@pytest.mark.parametrize("seed", range(4))
def test_what_is_asked_of_a_join_is_asked_of_the_rows_known_in_time(duckdb_connection, seed):
    join, rows = with_rows(seed, left=seed == 3)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "asked")
    model = RelationalLinearSVC(ALPHA, random_state=0, unmatched="nan", missing="zero").fit(join)
    score = rows["t0.#"].map(dict(enumerate([0.0] * len(join.tables[0].source))))
    for name, coef in zip(model.coef_names_, model.coef_[0]):
        column, _, category = name.partition("=")
        column = rows[column].astype(object)
        score = score + coef * ((column == category) if category else column.fillna(0)).astype(float)
    score = score + model.intercept_[0]
    expected = score.groupby(rows["t0.#"]).mean().reindex(range(len(join.tables[0].source))).to_numpy()
    with pytest.warns(UserWarning, match="have no row of the join") if np.isnan(expected).any() else nullcontext():
        np.testing.assert_allclose(model.decision_function(join), expected, rtol=1e-9)
    assert model.label_rows(join).tolist() == sorted(set(rows["t0.#"]))
    right = (score > 0).to_numpy() == (rows["t0.y"] == model.classes_[1]).to_numpy()
    assert model.score(join) == pytest.approx(right.mean())
    found = duckdb_connection.execute(model.to_sql(there, ["day"])).fetchnumpy()
    np.testing.assert_allclose(np.sort(found["score"]), np.sort(expected), rtol=1e-9)
    sampler = JoinSampler(join)
    drawn = sampler.rows(range(sampler.n_rows_))
    assert sorted(drawn["t0"]) == sorted(rows["t0.#"])
    if seed < 3:
        assert evaluate(join).value == len(rows)


def test_what_no_date_sees_changes_nothing():
    """Rows of the last date itself and of no known time, many and far off, under any key: the fit is the same bits."""
    for seed, how in enumerate(({}, {"left": True}, {"kind": "zoned"})):
        join, _ = with_rows(seed, **how)
        before = RelationalLinearSVC(ALPHA, random_state=0).fit(join)
        rng = np.random.default_rng(seed)
        last = join.tables[0].source["day"].max()
        tables = [copy(table) for table in join.tables]
        for table in tables:
            if table.time:
                late = table.source.iloc[rng.integers(0, len(table.source), 50)].reset_index(drop=True)
                own = last.tz_convert(late["day"].dt.tz) if how == {"kind": "zoned"} else last
                late["day"] = pd.Series([own] * 25 + [None] * 25, dtype=late["day"].dtype)
                late[[c for c in late if c[0] == "x"]] = 1e6
                table.source = pd.concat([table.source, late], ignore_index=True)
        after = RelationalLinearSVC(ALPHA, random_state=0).fit(Join(tables, join.on, as_of=join.as_of))
        assert after.n_join_rows_ == before.n_join_rows_
        np.testing.assert_array_equal(after.coef_, before.coef_)
        assert after.objective_interval_ == before.objective_interval_


@pytest.mark.filterwarnings("ignore:.*have no row of the join")
def test_the_score_of_a_row_knows_nothing_of_its_own_future():
    """Row by row: whatever was not before its date is changed, and only its own score must stay."""
    join, _ = with_rows(2)
    model = RelationalLinearSVC(ALPHA, random_state=0, unmatched="nan").fit(join)
    scores = model.decision_function(join)
    moved = 0
    for row, date in enumerate(join.tables[0].source["day"]):
        tables = [copy(table) for table in join.tables]
        for table in tables[1:]:
            if table.time:
                future = ~(table.source["day"] < date)
                numbers = [c for c in table.source if c[0] == "x"]
                table.source = table.source.assign(**{c: table.source[c].where(~future, 7.0) for c in numbers})
        changed = model.decision_function(Join(tables, join.on, as_of=join.as_of))
        assert changed[row] == pytest.approx(scores[row], rel=1e-9, nan_ok=True)
        moved += np.nansum(np.abs(changed - scores) > 1e-6)
    assert moved, "no score was moved by what its row may know, so that this shows nothing"


def small(days=(1, 3, 3), times=(0, 1, 2, 3, None), **how):
    """Three label rows of one key, and rows of it with these times, by hand."""
    a = pd.DataFrame({"k": [1, 1, 1], "day": days, "y": [0, 1, 0], "x": [0.0, 1.0, 2.0]})
    b = pd.DataFrame({"k": 1, "day": pd.Series(times, dtype=float), "z": [1.0, 2.0, 4.0, 8.0, 16.0]})
    return Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"], time="day", **how)],
                [("a.k", "b.k")], as_of="a.day", max_bag_rows=10)


def test_a_tie_is_not_known_and_neither_is_what_is_late_or_has_no_time():
    """Counted by hand: day 1 sees the row of 0; day 3 those of 0, 1, 2; a delay of one takes one from each."""
    plan = prepare(small())
    assert plan.n_rows == 1 + 3 + 3
    assert plan.tables[1].scale.tolist() == [4.0], "the largest number of a row that some date sees"
    assert prepare(small(delay="1")).n_rows == 0 + 2 + 2
    drawn = JoinSampler(small()).rows(range(7))
    assert sorted(zip(drawn["a"], drawn["b"])) == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_dates_that_cannot_be_used_are_refused(engine):
    def fit(join):
        RelationalLinearSVC(engine=engine).fit(join)

    with pytest.raises(ValueError, match=r"as_of='a\.day' is NULL in 1 rows.*give them a date"):
        fit(small(days=(1, 2, None)))
    for late in (2**53, 1_700_000_000_000_000_100, -np.inf):  # nanoseconds: floats tell no two that are 100 apart
        with pytest.raises(ValueError, match=r"as_of='a\.day' holds .*, and floats beyond 2\^53"):
            fit(small(days=(1, 2, late)))
    with pytest.raises(ValueError, match=r"must be of one kind.*a\.day \(time\), b\.day \(number\)"):
        fit(small(days=pd.to_datetime(["2020-01-01"] * 3)))
    with pytest.raises(ValueError, match=r"'b' once for every date.*13 rows, more than max_bag_rows=10\."):
        fit(small(days=(9, 8, 7), times=(0, 0, 0, 7, 7)))
    join = small()
    join.tables[1].time = None
    with pytest.raises(ValueError, match="needs tables that say when"):
        fit(join)
    join = small()
    a, b = join.tables
    join.tables = [Table("c", b.source), b, Table("a", a.source, label="y")]
    join.on = [("a.k", "b.k"), ("b.k", "c.k")]
    join.as_of = "b.day"
    with pytest.raises(ValueError, match="as_of must be a column of the label's table 'a'"):
        fit(join)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_a_cycle_of_tables_with_times(engine):
    """A triangle, with a fourth table at its far corner, against pandas' rows."""
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame({"p": rng.integers(0, 3, 12), "q": rng.integers(0, 3, 12), "r": rng.integers(0, 3, 12),
                            "day": rng.integers(0, 4, 12) + (i == 0), "x": rng.normal(size=12)}) for i in range(4)]
    frames[0]["y"] = np.arange(12) % 2
    join = Join([Table(f"t{i}", frame, features=["x"], label="y" if i == 0 else None, time="day" if i > 1 else None)
                 for i, frame in enumerate(frames)],
                [("t0.p", "t1.p"), ("t1.q", "t2.q"), ("t2.r", "t0.r"), ("t2.p", "t3.p")], as_of="t0.day")
    rows = materialised(join)
    plan = prepare(join)
    assert 0 < plan.n_rows == len(rows) < prepare(Join(join.tables, join.on, as_of="all")).n_rows
    check_pass(grid_oracle(plan) if engine == "memory" else SqlOracle(join), *design(join, plan, rows))


@pytest.mark.parametrize("asking", [describe, lambda join: evaluate(join), lambda join: RelationalLinearSVC().fit(join),
                                    lambda join: RelationalLinearSVC(engine="sql").fit(join), SqlOracle],
                         ids=["describe", "evaluate", "fit", "fit in SQL", "SQL"])
def test_times_without_a_date_are_refused_unless_all_rows_are_asked_for(asking):
    """A fit that counts rows of after the label leaks the future as features do."""
    join, _ = with_rows(2)
    with pytest.raises(ValueError, match=r"has a time, and the join has no as_of.*as_of = 'all'"):
        asking(Join(join.tables, join.on))
    asking(Join(join.tables, join.on, as_of="all"))


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_dates_that_are_text_are_refused_in_the_same_words(engine):
    days = ["2020-01-02", "2020-01-03", "2020-01-04"]
    a = pd.DataFrame({"k": [0, 1, 2], "x": [0.0, 1.0, 2.0], "y": [0, 1, 0], "at": days})
    b = pd.DataFrame({"k": [0, 1, 2], "z": [0.0, 1.0, 2.0], "t": ["2020-01-01"] * 3})
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"], time="t")], [("a.k", "b.k")],
                as_of="a.at")
    with pytest.raises(ValueError, match=r"as_of='a\.at' must hold dates or numbers\. Got text"):
        RelationalLinearSVC(engine=engine).fit(join)


def test_fit_and_predict_of_files(tmp_path):
    """The commands' own functions, where the label's table is not the first: one that predicts reads no label."""
    join, rows = with_rows(2)
    for table in join.tables:
        table.source.to_csv(tmp_path / f"{table.name}.csv", index=False)
    lines = [f"on = {[list(pair) for pair in join.on]}", 'as_of = "t0.day"']
    for table in join.tables[::-1]:
        lines += ["[[table]]", f'name = "{table.name}"', f'source = "{table.name}.csv"', f"features = {table.features}"]
        lines += [f'{key} = "{value}"' for key in ("label", "time", "delay") if (value := getattr(table, key))]
    path = tmp_path / "joins.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    model = fit_file(path, random_state=0)
    assert model.n_join_rows_ == len(rows)
    told = str(describe(read_join(path)))
    assert f"rows of the join   {len(rows):,} (exact)" in told
    gone = len(next(t for t in join.tables if t.name == "t0").source) - rows["t0.#"].nunique()
    assert (f"{gone} row{'s' * (gone > 1)} of t0 left out, which join no row known by t0.day" in told) == (gone > 0)
    with pytest.warns(UserWarning, match="have no row") if rows["t0.#"].nunique() < 9 else nullcontext():
        scores = predict_file(model, path)["score"]
        np.testing.assert_allclose(scores, model.decision_function(read_join(path)), rtol=1e-12)
