"""What databases count beyond plain joins: label rows, class weights, cycles, samples; and limits of memory."""

import gc
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from relational_problems import chain, design, hinge_mean, joined, materialise
from relational_schemas import random_schema
from relational_storage import in_database, in_spark

from buttress import InterruptedWarning, NotConvergedWarning
from buttress.relational import Join, RelationalLinearSVC, SourceLostError, Table
from buttress.relational.counting.grid import GridOracle, grid_oracle
from buttress.relational.counting.margins import margin_loss
from buttress.relational.plan.plan import weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.databases import select
from buttress.relational.sources.dialects import DUCKDB, POSTGRES
from buttress.relational.sql.oracle import SqlOracle

WEIGHINGS = [("label_row", None), ("join", "balanced"), ("label_row", {0: 2.0, 1: 0.5})]


def check_weighing(join, there, row_weight, class_weight):
    """One pass inside the database is the pass in this process, to 1e-12."""
    plan = prepare(join)
    weigh(plan, row_weight, class_weight)
    sql = SqlOracle(there, per_label_row=row_weight == "label_row", class_weight=class_weight)
    grid = grid_oracle(plan, fold=False)
    assert sql.total == pytest.approx(grid.total, rel=1e-12)
    beta = np.random.default_rng(0).normal(size=plan.width)
    a, b = sql.at_step(beta, margin_loss("logistic"), 0.0371), grid.at_step(beta, margin_loss("logistic"), 0.0371)
    assert a.a == pytest.approx(b.a, abs=1e-12)
    np.testing.assert_allclose(a.b, b.b, atol=1e-12)


@pytest.mark.parametrize(("row_weight", "class_weight"), WEIGHINGS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_weights_of_label_rows_and_classes_on_duckdb(seed, row_weight, class_weight):
    for how in ({}, {"weights": True}, {"left": True}):
        join = joined(seed, **how)
        check_weighing(join, join, row_weight, class_weight)


def test_weights_of_label_rows_and_classes_on_postgres(postgres):
    owner, reader = postgres
    join = joined(2, left=True)
    there = in_database(join, reader, owner.execute, POSTGRES, "weighed")
    for weighing in WEIGHINGS:
        check_weighing(join, there, *weighing)


def test_balanced_classes_weigh_the_same():
    join = joined(3)
    plan, rows = prepare(join), materialise(join)
    _, y, _ = design(join, plan, rows)
    weigh(plan, "join", "balanced")
    oracle = grid_oracle(plan)
    assert oracle.total == pytest.approx(len(y))
    weight = oracle.nodes[0].parts[0].weight if len(oracle.nodes) == 1 else plan.weights()[0]
    by_label = [(weight * plan.counts[0].astype(float))[plan.y == label].sum() for label in (-1, 1)]
    np.testing.assert_allclose(by_label, len(y) / 2)


def cycle(rows, rng):
    """A triangle of tables, with a fourth hanging on it by a left join."""
    frames = [pd.DataFrame({"a": rng.integers(0, 3, rows), "b": rng.integers(0, 3, rows), "x": rng.normal(size=rows)})
              for _ in range(4)]
    frames[0]["y"] = np.arange(rows) % 2
    tables = [Table(f"t{i}", f, features=["x"], label=None if i else "y") for i, f in enumerate(frames)]
    return Join(tables, [("t0.b", "t1.a"), ("t1.b", "t2.a"), ("t2.b", "t0.a"), ("t1.a", "t3.a", "left")])


def weighed(plan):
    """Return the plan with each of the join's rows weighed once."""
    weigh(plan, "join", None)
    return plan


def assert_bounds_close_in(oracle, beta, loss):
    """The bounds hold the loss at every step and close in on it as fast as the step.

    Both break a cycle by bags of keys, but only this process takes tables of distinct keys into a bag, so margins may
    be rounded in other places: only what is left at small steps is the same.
    """
    for step in (0.3, 0.0371, 4e-3):
        found = oracle.at_step(beta, margin_loss("logistic"), step)
        assert found.lower <= loss <= found.upper
        assert found.upper - found.lower <= 20 * step


def test_a_cycle_is_counted_inside_databases(postgres):
    owner, reader = postgres
    join = cycle(12, np.random.default_rng(0))
    there = in_database(join, reader, owner.execute, POSTGRES, "cycle")
    plan, rows = prepare(join), materialise(join)
    X, y, weight = design(join, plan, rows)
    beta = np.random.default_rng(0).normal(size=plan.width)
    loss = weight @ np.logaddexp(0, -y * (X @ beta)) / weight.sum()
    for elsewhere in (join, there):
        oracle = SqlOracle(elsewhere)
        assert oracle.total == pytest.approx(weight.sum(), rel=1e-12)
        assert_bounds_close_in(oracle, beta, loss)
    assert_bounds_close_in(grid_oracle(weighed(plan), fold=False), beta, loss)
    join.max_bag_rows = 2
    with pytest.raises(ValueError, match="max_bag_rows=2"):
        SqlOracle(join)


def test_label_rows_on_a_cycle_are_weighed_and_scored_inside_databases(postgres):
    owner, reader = postgres
    join = cycle(12, np.random.default_rng(0))
    there = in_database(join, reader, owner.execute, POSTGRES, "label_cycle")
    plan, rows = prepare(join), materialise(join)
    X, y, weight = design(join, plan, rows)
    weight = weight / rows.groupby("t0.#")["t0.#"].transform("size").to_numpy()
    beta = np.random.default_rng(0).normal(size=plan.width)
    loss = weight @ np.logaddexp(0, -y * (X @ beta)) / weight.sum()
    for elsewhere in (join, there):
        oracle = SqlOracle(elsewhere, per_label_row=True)
        assert oracle.total == pytest.approx(weight.sum(), rel=1e-12)
        assert_bounds_close_in(oracle, beta, loss)
    model = RelationalLinearSVC(alpha=0.05, engine="sql", random_state=0).fit(there)
    scores = dict(reader.execute(model.to_sql(there, ["x"])).fetchall())
    reader.rollback()
    means = model.decision_function(there)
    mean = [RelationalLinearSVC(alpha=0.05, objective="mean", engine=engine, random_state=0).fit(there)
            for engine in ("sql", "memory")]
    np.testing.assert_allclose(mean[0].coef_, mean[1].coef_, atol=1e-6)
    for row in model.label_rows(there):
        assert scores[join.tables[0].source["x"][row]] == pytest.approx(means[row], abs=1e-9)


def check_sample(join, there, n, how):
    """Means over the drawn rows are those over the join's rows, within five standard errors."""
    oracle = SqlOracle(there, per_label_row=how == "label_row")
    plan, rows = prepare(join), materialise(join)
    X, y, weight = design(join, plan, rows)
    if how == "label_row":
        weight = weight / rows.groupby("t0.#")["t0.#"].transform("size").to_numpy()
    X_drawn, y_drawn, often = oracle.sample(n, None)
    assert often.sum() == pytest.approx(n, rel=0.2)
    known = set(map(tuple, np.column_stack([X, y])[weight > 0].round(9)))
    assert set(map(tuple, np.column_stack([X_drawn, y_drawn]).round(9))) <= known
    mean, drawn = (weight * y) @ X / weight.sum(), (often * y_drawn) @ X_drawn / often.sum()
    error = np.sqrt((weight @ X**2) / weight.sum() / len(y_drawn))  # rows drawn together count once
    assert (np.abs(mean - drawn) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("how", ["join", "label_row"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_duckdb_draws_rows_by_weight(seed, how):
    for variant in ({}, {"weights": True}, {"left": True}):
        join = joined(seed, **variant)
        check_sample(join, join, 5000, how)


def test_postgres_draws_rows_by_weight(postgres):
    owner, reader = postgres
    join = joined(2, left=True)
    there = in_database(join, reader, owner.execute, POSTGRES, "drawn")
    check_sample(join, there, 2000, "join")


def test_a_sampled_start_inside_the_database_needs_few_calls():
    join = joined(1, rows=12)
    model = RelationalLinearSVC(alpha=0.05, engine="sql", tol=5e-3, random_state=0).fit(join)
    assert model.converged_
    here = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    assert model.dual_bound_ <= here.objective_interval_[1]
    assert here.dual_bound_ <= model.objective_interval_[1]
    sampled = RelationalLinearSVC(alpha=0.05, engine="sql", solver="sample", random_state=0).fit(join)
    assert sampled.objective_interval_[1] >= here.dual_bound_


def test_spark_counts_a_random_schema_and_draws_from_it(spark):
    """Two tables, one joined left, weights, numbers, texts and truths; one pass, one sample."""
    join = random_schema(176).join
    there = in_spark(join, spark, "r ")
    check_weighing(join, there, "label_row", "balanced")
    X, y, often = SqlOracle(there).sample(200, None)
    assert 100 < often.sum() < 300
    assert len(X) == len(y)


def test_duckdb_files_count_like_frames(tmp_path, duckdb_connection):
    """The out-of-core path: files that exceed memory_limit are streamed."""
    join = joined(1)
    tables = []
    for table in join.tables:
        path = tmp_path / f"{table.name}.parquet"
        duckdb_connection.register("frame", table.source)
        duckdb_connection.execute(f"COPY frame TO {DUCKDB.text(str(path))} (FORMAT parquet)")
        tables.append(Table(table.name, path, features=table.features, label=table.label))
    files = Join(tables, join.on)
    small = RelationalLinearSVC(alpha=0.05, memory_limit=1e-9, tol=1e-2, random_state=0).fit(files)
    here = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    assert small.n_join_rows_ == here.n_join_rows_
    assert small.dual_bound_ <= here.objective_interval_[1]
    assert here.dual_bound_ <= small.objective_interval_[1]


def test_memory_that_runs_out_names_what_to_set(duckdb_connection):
    duckdb_connection.execute("SET memory_limit = '8MB'")
    duckdb_connection.execute("SET temp_directory = ''")
    with pytest.raises(SourceLostError, match="memory_limit"):
        select(duckdb_connection, "SELECT COUNT(DISTINCT i::VARCHAR) FROM range(3000000) t(i)", DUCKDB)


def test_a_duckdb_of_our_own_spills_to_a_folder_that_goes_with_it():
    oracle = SqlOracle(joined(1), memory=250)
    settings = "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
    ((limit, folder),) = oracle.connection.execute(settings).fetchall()
    assert 230 < float(limit.split()[0]) < 250  # mebibytes
    assert os.path.isdir(folder)
    oracle.connection.close()
    del oracle
    gc.collect()
    assert not os.path.isdir(folder)


def test_lists_that_do_not_fit_are_refused_or_not_refined():
    join = chain(2000, 50, 3)
    with pytest.raises(MemoryError, match="Raise memory_limit"):
        RelationalLinearSVC(memory_limit=0.002, n_samples=1000, random_state=0).fit(join)
    oracle = grid_oracle(prepare(join), memory=2.0)
    oracle(np.ones(oracle.width), margin_loss("logistic"), 1024)
    assert not oracle.can_refine
    with pytest.warns(NotConvergedWarning):
        model = RelationalLinearSVC(memory_limit=2.0, tol=1e-9, n_samples=1000, max_iter=12, random_state=0).fit(join)
    assert model.gap_ < 0.01


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_ctrl_c_leaves_a_usable_model(engine, monkeypatch):
    join, calls = joined(1, rows=12), []
    kind = GridOracle if engine == "memory" else SqlOracle
    ask = kind.__call__

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 2:  # a later one need not come: where the database draws the sample it may be a lucky one
            raise KeyboardInterrupt
        return ask(self, *arguments)

    monkeypatch.setattr(kind, "__call__", interrupted)
    with pytest.warns(InterruptedWarning, match="best state"):
        model = RelationalLinearSVC(alpha=0.05, tol=1e-9, n_samples=1, engine=engine, row_weight="join",
                                    random_state=0).fit(join)
    assert model.n_oracle_calls_ == 1
    rows = materialise(join)
    X, y, weight = design(join, prepare(join), rows)
    own = hinge_mean(X, y, weight, model.beta_) + 0.05 * model.beta_ @ model.beta_
    assert model.objective_interval_[0] <= own <= model.objective_interval_[1] + 1e-12
    assert len(model.predict(join)) == len(join.tables[0].source) >= rows["t0.#"].nunique()


def test_nan_keys_match_nothing_inside_the_database_either(duckdb_connection, postgres):
    owner, reader = postgres
    left = pd.DataFrame({"k": [0.5, np.nan, 1.5, 0.5], "y": [0, 1, 1, 1], "x": [1.0, 2.0, 3.0, 4.0]})
    right = pd.DataFrame({"k": [0.5, np.nan, 1.5], "z": [1.0, 2.0, 3.0]})
    for how in ((), ("left",)):
        for execute, connection, dialect in ((duckdb_connection.execute, duckdb_connection, DUCKDB),
                                             (owner.execute, reader, POSTGRES)):
            names = [f"nan{len(how)}{side}" for side in "ab"]
            for name, frame, second in ((names[0], left, "x"), (names[1], right, "z")):
                rows = ", ".join(f"({dialect.number(k)}, {dialect.number(v)}, {i % 2})"
                                 for i, (k, v) in enumerate(zip(frame["k"], frame[second])))
                execute(f"CREATE TABLE {name} (k {dialect.double}, {second} {dialect.double}, y BIGINT)")
                execute(f"INSERT INTO {name} VALUES {rows}")
            there = Join([Table("a", (connection, names[0]), features=["x"], label="y"),
                          Table("b", (connection, names[1]), features=["z"])], [("a.k", "b.k", *how)])
            assert SqlOracle(there).plan.n_rows == prepare(there).n_rows == (4 if how else 3)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_mistakes_inside_a_database_are_named(duckdb_connection, engine):
    make = duckdb_connection.execute
    make("CREATE TABLE loans AS SELECT i % 3 AS k, i AS x, CASE WHEN i = 4 THEN 'nan'::DOUBLE ELSE i END AS n, "
         "CASE WHEN i = 2 THEN NULL ELSE i % 2 END AS gap, i % 2 AS y, i % 5 AS five, -i AS w FROM range(9) t(i)")
    make("CREATE TABLE accounts AS SELECT i AS k, i::VARCHAR AS word, i AS z FROM range(3) t(i)")

    def fit(table="loans", label="y", key="k", features=("x",), weights=None):
        join = Join([Table("l", (duckdb_connection, table), features=list(features), label=label, weights=weights),
                     Table("a", (duckdb_connection, "accounts"), features=["z"])], [("l.k", f"a.{key}")])
        RelationalLinearSVC(engine=engine).fit(join)

    for wrong, message in (({"table": "loan"}, "no table 'loan'. Did you mean 'loans'"),
                           ({"features": ["xx"]}, "Did you mean 'x'"), ({"key": "word"}, "one type"),
                           ({"features": ["n"]}, "l.n is NULL or NaN in 1 rows"),
                           ({"features": ["gap"]}, "l.gap is NULL or NaN in 1 rows"),
                           ({"label": "gap"}, "Label l.gap is NULL or NaN"), ({"label": "five"}, "two classes"),
                           ({"weights": "w"}, "must be in")):
        with pytest.raises(ValueError, match=message):
            fit(**wrong)


def test_dates_and_an_empty_join_are_refused_inside_the_database_as_outside(duckdb_connection):
    run = duckdb_connection.execute
    run("CREATE TABLE mine AS SELECT i AS k, i % 2 AS y FROM range(6) t(i)")
    run("CREATE TABLE dated AS SELECT i AS k, DATE '2020-01-01' + i::INT AS day FROM range(6) t(i)")
    run("CREATE TABLE apart AS SELECT i + 10 AS k, i AS day FROM range(6) t(i)")
    for table, message in (("dated", "holds times"), ("apart", "no rows")):
        join = Join([Table("a", (duckdb_connection, "mine"), features=[], label="y"),
                     Table("b", (duckdb_connection, table), features=["day"])], on=[("a.k", "b.k")])
        for engine in ("sql", "memory"):
            with pytest.raises(ValueError, match=message):
                RelationalLinearSVC(engine=engine).fit(join)


@pytest.mark.parametrize("value", ["DATE '2020-01-01'", "TIMESTAMP '2020-01-01'", "TIME '10:30:00'",
                                   "INTERVAL '2 days'"])
def test_times_are_refused_where_the_first_hundred_are_null(duckdb_connection, value):
    """Those rows do not join, so that NULL is not what is refused."""
    run = duckdb_connection.execute
    run("CREATE TABLE mine AS SELECT 150 + i % 4 AS k, i % 2 AS y FROM range(40) t(i)")
    run(f"CREATE TABLE dated AS SELECT i AS k, CASE WHEN i < 150 THEN NULL ELSE {value} END AS day "
        "FROM range(200) t(i)")
    join = Join([Table("a", (duckdb_connection, "mine"), features=[], label="y"),
                 Table("b", (duckdb_connection, "dated"), features=["day"])], on=[("a.k", "b.k")])
    for engine in ("sql", "memory"):
        with pytest.raises(ValueError, match=r"Feature b\.day holds times"):
            RelationalLinearSVC(engine=engine).fit(join)


def test_dates_in_postgres_are_refused_by_both_engines_and_join_with_those_of_a_frame(postgres):
    owner, reader = postgres
    owner.execute("CREATE TABLE visits AS SELECT DATE '2020-01-01' + i AS day, i AS x, i % 2 AS y "
                  "FROM generate_series(0, 9) i")
    there = {"name": "v", "source": (reader, "visits"), "label": "y"}
    for engine in ("sql", "memory"):
        with pytest.raises(ValueError, match=r"Feature v\.day holds times"):
            RelationalLinearSVC(engine=engine).fit(Join([Table(**there, features=["day"])], on=[]))
    days = pd.DataFrame({"day": pd.date_range("2020-01-03", periods=4), "z": [1.0, 2.0, 3.0, 4.0]})
    join = Join([Table(**there, features=["x"]), Table("d", days, features=["z"])], on=[("v.day", "d.day")])
    assert prepare(join).n_rows == 4


@pytest.mark.parametrize("engine", ["sql", "memory"])
def test_text_that_is_different_in_every_row_is_refused_before_it_is_encoded_or_fetched(
        duckdb_connection, engine, monkeypatch):
    encoded, fetched = [], []

    def unique(values, **options):
        encoded.append(values)
        return np.unique(values, **options)

    def counted(*arguments):
        fetched.append(select(*arguments))
        return fetched[-1]

    monkeypatch.setattr("buttress.relational.plan.features.np", SimpleNamespace(**{**vars(np), "unique": unique}))
    monkeypatch.setattr("buttress.relational.sql.oracle.select", counted)
    run = duckdb_connection.execute
    run("CREATE TABLE rows_ AS SELECT i AS k, i % 2 AS y, CASE WHEN i = 7 THEN 'n/a' ELSE (i / 10)::TEXT END AS size "
        "FROM range(2000) t(i)")
    with pytest.raises(ValueError, match=r"rows_.size is text with 2000 values in 2000 rows .*'n/a'.* correct the"):
        RelationalLinearSVC(engine=engine).fit(
            Join([Table("rows_", (duckdb_connection, "rows_"), features=["size"], label="y")], on=[]))
    assert not encoded
    assert max(map(len, fetched), default=0) <= 100  # what is sampled to learn the kinds


def test_a_sample_of_a_database_may_be_empty(monkeypatch):
    oracle = SqlOracle(joined(1, rows=12))
    drawn = [oracle.sample(1, None) for _ in range(30)]
    assert min(len(y) for _, y, _ in drawn) == 0 < max(len(y) for _, y, _ in drawn)
    assert all(X.shape == (len(y), oracle.plan.width) for X, y, _ in drawn)
    empty = min(drawn, key=lambda sample: len(sample[1]))
    draw = SqlOracle.sample
    monkeypatch.setattr(SqlOracle, "sample", lambda self, n, rng: empty if n == 1 else draw(self, n, rng))
    assert RelationalLinearSVC(alpha=0.05, n_samples=1, engine="sql").fit(joined(1, rows=12)).gap_ <= 1e-3
