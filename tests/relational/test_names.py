"""Names that a database would take for something else: columns that differ in case, tables named like files."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from relational_problems import design, joined, materialise
from relational_storage import store

from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, Table
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import logistic
from buttress.relational.plan.prepare import prepare
from buttress.relational.plan.weighting import weigh
from buttress.relational.sources.dialects import DUCKDB, POSTGRES
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.text import own_prefix
from buttress.relational.stream.build import streamed


def two_cases():
    rng = np.random.default_rng(0)
    a = pd.DataFrame({"k": np.arange(60) % 10, "x": rng.normal(size=60), "X": rng.normal(size=60)})
    a["y"] = np.where(a.X > 0, 1, -1)
    b = pd.DataFrame({"k": np.arange(10), "z": rng.normal(size=10)})
    return Join([Table("a", a, features=["x", "X"], label="y"), Table("b", b, features=["z"])], on=[("a.k", "b.k")])


def test_columns_that_differ_in_case_are_two_in_process_and_refused_by_duckdb():
    model = RelationalLinearSVC(engine="memory").fit(two_cases())
    found = dict(zip(model.coef_names_, model.coef_[0], strict=True))
    assert abs(found["a.X"]) > 5 * abs(found["a.x"])
    with pytest.raises(ValueError, match=r"takes columns 'x' and 'X' of table 'a' for one\. Rename"):
        RelationalLinearSVC(engine="sql").fit(two_cases())


@pytest.mark.parametrize("name", ["rows.csv", "*.csv", "./rows.csv"])
def test_the_name_of_a_table_never_reads_a_file(name, tmp_path, monkeypatch):
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1, -1, 1]}).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection, pytest.raises(ValueError, match="has no table"):
        RelationalLinearSVC().fit(Join([Table("a", (connection, name), features=["x"], label="y")], on=[]))


def test_a_table_may_be_named_like_a_file():
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE "rows.csv" AS SELECT i AS x, 2 * (i % 2) - 1 AS y FROM range(40) t(i)')
        table = Table("a", (connection, "rows.csv"), features=["x"], label="y")
        model = RelationalLinearSVC().fit(Join([table], on=[]))
    assert model.n_join_rows_ == 40


def test_a_name_that_may_be_of_two_tables_is_refused():
    one = pd.DataFrame({"b.c": [1.0, 2.0], "y": [1, -1]})
    other = pd.DataFrame({"c": [1.0, 2.0]})
    join = Join([Table("a", one, label="y"), Table("a.b", other, features=["c"])], on=[("a.b.c", "a.b.c")])
    with pytest.raises(ValueError, match=r"'a\.b\.c' may be column 'b\.c' of table 'a' and column 'c' of table 'a\.b'"):
        RelationalLinearSVC().fit(join)


PARTS = [("t3", "t2", "t1", "t0"), ("keys", "w", "asked", "digit"),
         ("buttress_t1", "BUTTRESS_M0", "buttress__r2", "buttress_asked")]


def check_pass(join, there):
    """A pass as SQL, one over streamed rows, all rows listed and a sample are of the join's rows."""
    plan, rows = prepare(join), materialise(join)
    X, y, _ = design(join, plan, rows)
    weigh(plan, "label_row", None)
    beta = np.random.default_rng(0).normal(size=plan.width)
    wanted = grid_oracle(plan, fold=False).at_step(beta, logistic(), 0.0371)
    sql = SqlOracle(there, per_label_row=True)
    for oracle in (sql, streamed(sql, 100, 0)):
        found = oracle.at_step(beta, logistic(), 0.0371)
        assert found.a == pytest.approx(wanted.a, abs=1e-12)
        np.testing.assert_allclose(found.b, wanted.b, atol=1e-12)
    assert sql.listed().total == pytest.approx(sql.total, rel=1e-12)
    known = set(map(tuple, np.column_stack([X, y]).round(9)))
    X_drawn, y_drawn, _ = sql.sample(100)
    assert set(map(tuple, np.column_stack([X_drawn, y_drawn]).round(9))) <= known


def check_scores(join, there, run):
    """Scores, mean features and features of entities by SELECT are those of the frames."""
    rows = join.tables[0].source
    model = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    found = dict(run(model.to_sql(there, ["id"])).fetchall())
    np.testing.assert_allclose([found[i] for i in rows["id"]], model.decision_function(join), atol=1e-12)
    means = [RelationalLinearSVC(alpha=0.05, objective="mean", engine=engine, tol=1e-6).fit(place)
             for engine, place in (("memory", join), ("sql", there))]
    np.testing.assert_allclose(means[1].coef_, means[0].coef_, atol=1e-4)
    here = EntityFeatures(join).fit(rows)
    made = EntityFeatures(there, engine="sql").fit(rows)
    np.testing.assert_allclose(made.transform(rows), here.transform(rows), rtol=1e-9, atol=1e-9)
    values = {row[0]: row[1:] for row in run(made.to_sql(["id"])).fetchall()}
    np.testing.assert_allclose([values[i] for i in rows["id"]], here.transform(rows), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*have no row of the join")
@pytest.mark.parametrize("names", PARTS, ids=" ".join)
@pytest.mark.parametrize("engine", ["DuckDB", "PostgreSQL"])
def test_tables_are_told_from_the_parts_of_our_selects(duckdb_connection, request, engine, names):
    """Tables called as our common table expressions are, or would be without their prefix, or like the prefix."""
    connection, write, dialect = duckdb_connection, duckdb_connection.execute, DUCKDB
    if engine == "PostgreSQL":
        owner, connection = request.getfixturevalue("postgres")
        write, dialect = owner.execute, POSTGRES
    join = joined(4, shape="star", left=True)
    join.tables[0].source["id"] = np.arange(len(join.tables[0].source))
    tables = []
    for table, name in zip(join.tables, names, strict=True):
        store(table.source, name, write, dialect)
        tables.append(Table(table.name, (connection, name), features=table.features, label=table.label))
    there = Join(tables, join.on)
    check_pass(join, there)
    check_scores(join, there, connection.execute)
    if engine == "PostgreSQL":
        connection.rollback()
    for name in names:
        write(f"DROP TABLE {dialect.table(name)}")


def test_our_prefix_is_in_no_name_of_the_tables():
    assert own_prefix(['"orders"', '"t1"']) == "buttress_"
    assert own_prefix(['"shop"."Buttress_orders"']) == "buttress__"
    assert own_prefix(['"buttress_"', '"x_buttress___y"']) == "buttress____"
