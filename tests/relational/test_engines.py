"""The same join counted in process, on DuckDB, on PostgreSQL and on Spark."""

import gc
import os
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from relational_problems import joined
from relational_storage import in_database, store

from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, SourceLostError, Table, describe
from buttress.relational.command import fit_file, read_join, summary
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge, margin_loss
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources import tables
from buttress.relational.sources.databases import select
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, SPARK
from buttress.relational.sources.tables import connect
from buttress.relational.sql.oracle import SqlOracle

BOTH = (hinge(0.1), margin_loss("logistic"))
VARIANTS = [{}, {"weights": True}, {"left": True}]
HOSTILE = ['select', 'order', 'a"b', "it's", "x; DROP TABLE t0; --", "naïve", "名前", "two words", "a`b", "tab\there",
           "new\nline", "a.b", "%s", "{x}", "back\\slash", "😀", "--", "/*", "$1", ":name", "(", "NULL", "é" * 20]


def check_parity(join, there, losses=BOTH):
    """One pass of SQL equals the grid in this process to 1e-12, and so do names, scales and counts."""
    plan, sql = prepare(join), SqlOracle(there)
    grid = grid_oracle(plan, fold=False)
    assert sql.plan.n_rows == plan.n_rows
    assert sql.total == pytest.approx(grid.total, rel=1e-12)
    for mine, theirs in zip(plan.tables, sql.plan.tables):
        assert mine.names == theirs.names
        np.testing.assert_allclose(theirs.scale, mine.scale, rtol=1e-15)
    beta = np.random.default_rng(0).normal(size=plan.width)
    for loss in losses:
        a, b = sql.at_step(beta, loss, 0.0371), grid.at_step(beta, loss, 0.0371)
        assert a.a == pytest.approx(b.a, abs=1e-12)
        np.testing.assert_allclose(a.b, b.b, atol=1e-12)
        assert a.lower == pytest.approx(b.lower, abs=1e-12)
        assert a.upper >= b.lower - 1e-12


def check_read(join, there):
    """Reading the tables into this process gives the same fit as the frames they were made of."""
    here = RelationalLinearSVC(alpha=0.01, random_state=0).fit(join)
    from_database = RelationalLinearSVC(alpha=0.01, random_state=0).fit(there)
    np.testing.assert_allclose(from_database.coef_, here.coef_, atol=1e-12)


@pytest.mark.parametrize("how", VARIANTS, ids=["plain", "weights", "left"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6])
def test_duckdb_agrees(duckdb_connection, seed, how):
    join = joined(seed, **how)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "p")
    check_parity(join, there)
    if not how:
        check_parity(join, join)  # frames, counted by a DuckDB of our own
    check_read(join, there)


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_postgres_agrees(postgres, seed):
    owner, reader = postgres
    join = joined(seed, **VARIANTS[seed % 3])
    there = in_database(join, reader, owner.execute, POSTGRES, f"p{seed}")
    check_parity(join, there)
    check_read(join, there)
    assert reader.info.transaction_status.name == "IDLE"  # no transaction of ours is left open


def test_spark_agrees_and_counts_the_rows_that_it_began_with(spark, monkeypatch):
    """Two tables of hostile names and values; one pass and one read, for every Spark query takes its time.

    The pass is of the rows that were there when the oracle was made: before it, others take them all away.
    """
    names = ['a"b', "x; DROP TABLE t0; --", "two words", "a`b", "名前", "it's \\ here"]
    a, b, key, feature, label, value = names
    left = [(1, 0.5, 0), (1, 1.0, 1), (2, -1.0, 0), (3, 0.25, 1), (None, 9.0, 0)]
    right = [(1, 2.0, value), (2, 1.0, "b"), (2, 4.0, value), (9, 0.0, "b")]
    quoted = [SPARK.quote(name) for name in (key, feature, label)]
    frames = []
    for rows, kind, table in ((left, "BIGINT", a), (right, "STRING", b)):
        schema = f"{quoted[0]} BIGINT, {quoted[1]} DOUBLE, {quoted[2]} {kind}"
        spark.createDataFrame(rows, schema).createOrReplaceTempView(f"`{table}`")
        frames.append(pd.DataFrame(rows, columns=[key, feature, label]))
    on = [(f"{a}.{key}", f"{b}.{key}")]
    here = Join([Table(a, frames[0], features=[feature], label=label), Table(b, frames[1], features=[feature, label])],
                on)
    there = Join([Table(a, (spark, a), features=[feature], label=label),
                  Table(b, (spark, b), features=[feature, label])], on)
    assert prepare(there).n_rows == prepare(here).n_rows
    call = SqlOracle.at_step

    def meddled(self, *arguments):
        for table in (a, b):
            spark.sql(f"SELECT * FROM `{table}` WHERE 1 = 0").createOrReplaceTempView(f"`{table}`")
        return call(self, *arguments)

    monkeypatch.setattr(SqlOracle, "at_step", meddled)
    check_parity(here, there, losses=[margin_loss("logistic")])
    assert spark.table(f"`{a}`").count() == 0
    gc.collect()
    assert not [view.name for view in spark.catalog.listTables() if view.name.startswith("buttress_")]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_in_the_database_has_the_same_optimum(duckdb_connection):
    join = joined(1, rows=12)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "f")
    inside = RelationalLinearSVC(alpha=0.05, engine="sql", max_iter=50, tol=1e-2).fit(there)
    here = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    assert inside.dual_bound_ <= here.objective_interval_[1]
    assert here.dual_bound_ <= inside.objective_interval_[1]
    assert inside.gap_ < 0.05
    assert list(inside.coef_names_) == list(here.coef_names_)


def test_only_selects_are_sent_for_a_large_table(duckdb_connection, monkeypatch):
    join = joined(1)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "m")
    statements = []

    def noting(connection, statement, dialect):
        statements.append(statement)
        return select(connection, statement, dialect)

    monkeypatch.setattr("buttress.relational.sql.oracle.select", noting)
    RelationalLinearSVC(alpha=0.1, memory_limit=1e-9, max_iter=1, tol=1.0).fit(there)
    assert any("GROUP BY" in text for text in statements)
    assert all(text.startswith(("SELECT", "WITH")) for text in statements)


def hostile_join(names, connection, execute, dialect, prefix, text):
    """Two tables whose own names, keys, features and label are hostile."""
    a, b, key, feature, label, value = names
    left = pd.DataFrame({key: [1, 1, 2, 3], feature: [0.5, 1.0, -1.0, 0.25], label: [0, 1, 0, 1]})
    right = pd.DataFrame({key: [1, 2, 2, 9], feature: [2.0, 1.0, 4.0, 0.0], label: [value, "b", value, "b"]})
    store(left, prefix + a, execute, dialect, text)
    store(right, prefix + b, execute, dialect, text)
    here = Join([Table(a, left, features=[feature], label=label), Table(b, right, features=[feature, label])],
                [(f"{a}.{key}", f"{b}.{key}")])
    there = Join([Table(a, (connection, prefix + a), features=[feature], label=label),
                  Table(b, (connection, prefix + b), features=[feature, label])], here.on)
    return here, there


def hostile_names(n):
    """Tuples of six hostile names, all different; every name of the list stands in every place."""
    plain = [f"{name}{i // len(HOSTILE)}" if i >= len(HOSTILE) else name
             for i, name in enumerate(HOSTILE * (n // len(HOSTILE) + 2))]
    return [tuple(plain[(i + 3 * j) % len(plain)] for j in range(6)) for i in range(n)]


@pytest.mark.parametrize("part", range(3))
def test_hostile_names_on_duckdb(duckdb_connection, part):
    for i, names in enumerate(hostile_names(30)[part::3]):
        check_parity(*hostile_join(names, duckdb_connection, duckdb_connection.execute, DUCKDB, f"h{i}", "VARCHAR"))


def test_hostile_names_on_postgres(postgres):
    owner, reader = postgres
    for i, names in enumerate(hostile_names(8)):
        check_parity(*hostile_join(names, reader, owner.execute, POSTGRES, f"h{i}", "TEXT"))


@pytest.mark.parametrize("dialect", [DUCKDB, POSTGRES, SPARK], ids=lambda d: d.name)
def test_three_hundred_names_are_quoted_so_that_nothing_escapes(dialect):
    """Undoing the quotation gives the name, and no mark inside stands alone."""
    rng = np.random.default_rng(0)
    alphabet = list("ab\"'`;-\\. \n%$") + ["é", "名", "😀"]
    names = [*HOSTILE, *("".join(rng.choice(alphabet, size=rng.integers(1, 12))) for _ in range(300 - len(HOSTILE)))]
    assert len(names) == 300
    for name in names:
        quoted = dialect.quote(name)
        inside = quoted[1:-1]
        assert quoted[0] == quoted[-1] == dialect.mark
        assert dialect.mark not in inside.replace(dialect.mark * 2, "")
        assert inside.replace(dialect.mark * 2, dialect.mark) == name
    with pytest.raises(ValueError, match="NUL"):
        dialect.quote("a\0b")


def test_three_hundred_names_come_back_from_duckdb(duckdb_connection):
    rng = np.random.default_rng(0)
    alphabet = list("ab\"'`;-\\. \n%$") + ["é", "名", "😀"]
    for _ in range(300):
        name = "".join(rng.choice(alphabet, size=rng.integers(1, 12)))
        found = duckdb_connection.execute(f"SELECT {DUCKDB.text(name)} AS {DUCKDB.quote(name)}")
        assert found.description[0][0] == name
        assert found.fetchall() == [(name,)]


def test_three_hundred_names_come_back_from_postgres(postgres):
    _, reader = postgres
    rng = np.random.default_rng(0)
    alphabet = list("ab\"'`;-\\. \n%$") + ["é", "名", "😀"]
    for _ in range(300):
        name = "".join(rng.choice(alphabet, size=rng.integers(1, 12)))
        found = reader.execute(f"SELECT {POSTGRES.text(name)} AS {POSTGRES.quote(name)}")
        assert found.description[0][0] == name
        assert found.fetchall() == [(name,)]
    reader.rollback()


def test_three_hundred_names_come_back_from_spark(spark):
    rng = np.random.default_rng(0)
    alphabet = list("ab\"'`;-\\. \n%$") + ["é", "名", "😀"]
    names = ["".join(rng.choice(alphabet, size=rng.integers(1, 12))) + str(i) for i in range(300)]
    found = spark.sql("SELECT " + ", ".join(f"{SPARK.text(n)} AS {SPARK.quote(n)}" for n in names))
    assert found.columns == names
    assert tuple(found.collect()[0]) == tuple(names)


def test_a_dropped_table_is_one_named_error(duckdb_connection):
    join = joined(1)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "d")
    oracle = SqlOracle(there)
    duckdb_connection.execute("DROP TABLE d_t1")
    with pytest.raises(SourceLostError, match="DuckDB failed"):
        oracle(np.zeros(oracle.plan.width), hinge())


def test_a_lost_connection_is_one_named_error(postgres):
    import psycopg

    owner, _ = postgres
    join = joined(1)
    schema = f"buttress_{os.getpid()}"
    address = f"{os.environ['BUTTRESS_POSTGRES']} user=reader options='-c search_path={schema}'"
    with psycopg.connect(address) as lost:
        there = in_database(join, lost, owner.execute, POSTGRES, "lost")
        oracle = SqlOracle(there)
        owner.execute("SELECT pg_terminate_backend(%s)", (lost.info.backend_pid,))
        with pytest.raises(SourceLostError, match="PostgreSQL failed"):
            oracle(np.zeros(oracle.plan.width), hinge())
        assert lost.closed


def killed_before(monkeypatch, owner, work, most):
    """End the server's side of a connection before its 0th, 1st, ... statement; yields what ``work`` of it raises."""
    import psycopg

    address = f"{os.environ['BUTTRESS_POSTGRES']} user=reader options='-c search_path=buttress_{os.getpid()}'"
    for last in range(most):
        with psycopg.connect(address, autocommit=True) as lost:
            left = [last]

            def counted(send, own, lost=lost, left=left):
                def call(self, *arguments, **options):
                    if own(self) is lost:
                        left[0] -= 1
                        if left[0] == -1:
                            owner.execute("SELECT pg_terminate_backend(%s, 5000)", (lost.info.backend_pid,))
                    return send(self, *arguments, **options)
                return call

            with monkeypatch.context() as patched:
                patched.setattr(psycopg.Cursor, "execute",
                                counted(psycopg.Cursor.execute, lambda cursor: cursor.connection))
                patched.setattr(psycopg.Cursor, "copy", counted(psycopg.Cursor.copy, lambda cursor: cursor.connection))
                patched.setattr(psycopg.Connection, "rollback", counted(psycopg.Connection.rollback, lambda own: own))
                try:
                    work(lost)
                except Exception as error:
                    yield error
            if left[0] >= 0:  # there were no more statements
                return


@pytest.mark.filterwarnings("ignore:.*max_iter")
@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_a_backend_that_ends_before_any_statement_is_one_named_error(postgres, monkeypatch, engine):
    owner, reader = postgres
    join = joined(1)
    in_database(join, reader, owner.execute, POSTGRES, f"ended_{engine}")

    def fit(connection):
        tables = [Table(t.name, (connection, f"ended_{engine}_{t.name}"), features=t.features, label=t.label)
                  for t in join.tables]
        model = RelationalLinearSVC(alpha=0.05, max_iter=1, n_samples=1, engine=engine, random_state=0)
        model.fit(Join(tables, join.on))

    raised = list(killed_before(monkeypatch, owner, fit, 200))
    assert len(raised) > 8
    assert {type(error) for error in raised} == {SourceLostError}


def test_a_backend_that_ends_while_features_are_made_is_one_named_error(postgres, monkeypatch):
    owner, _ = postgres
    owner.execute("CREATE TABLE ended_few AS SELECT i AS k, 1.0 * i AS z, TIMESTAMP '2020-01-01' AS at "
                  "FROM generate_series(1, 9) i")
    rows = pd.DataFrame({"k": [1, 2], "at": pd.to_datetime(["2020-01-02", "2019-12-31"])})

    def features(connection):
        join = Join([Table("a", rows), Table("b", (connection, "ended_few"), features=["z"], time="at")],
                    [("a.k", "b.k")], as_of="a.at")
        EntityFeatures(join, engine="sql").fit_transform(rows)

    raised = list(killed_before(monkeypatch, owner, features, 200))
    assert len(raised) > 8
    assert {type(error) for error in raised} == {SourceLostError}


def test_a_users_open_transaction_stays_open(postgres):
    owner, reader = postgres
    join = joined(3)
    there = in_database(join, reader, owner.execute, POSTGRES, "open")
    reader.execute("SELECT 1")
    prepare(there)
    assert reader.info.transaction_status.name == "INTRANS"
    reader.rollback()


def as_polars(frame):
    return pl.DataFrame({c: frame[c].astype(object).where(frame[c].notna(), None).tolist() for c in frame})


def as_arrow(frame):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({c: frame[c].astype(object).where(frame[c].notna(), None).tolist() for c in frame})


@pytest.mark.parametrize("convert", [as_polars, as_arrow])
def test_frames_of_every_kind(convert):
    join = joined(3)
    other = Join([Table(t.name, convert(t.source), features=t.features, label=t.label) for t in join.tables], join.on)
    a, b = prepare(join), prepare(other)
    assert a.n_rows == b.n_rows
    for mine, theirs in zip(a.tables, b.tables):
        np.testing.assert_array_equal(mine.X, theirs.X)


@pytest.fixture
def files(tmp_path):
    join = joined(3)
    for i, table in enumerate(join.tables):
        if i % 2:
            table.source.to_csv(tmp_path / f"{table.name}.csv", index=False)
        else:
            as_polars(table.source).write_parquet(tmp_path / f"{table.name}.parquet")
    text = [f"on = {[list(pair) for pair in join.on]!r}"]
    for i, table in enumerate(join.tables):
        source = f"{table.name}.{'csv' if i % 2 else 'parquet'}"
        text += ["[[table]]", f"name = '{table.name}'", f"source = '{source}'", f"features = {table.features!r}"]
        text += [f"label = '{table.label}'"] if table.label else []
    path = tmp_path / "joins.toml"
    path.write_text("\n".join(text), encoding="utf-8")
    return join, path


def test_a_declared_file_is_the_same_join(files, monkeypatch):
    join, path = files
    declared = read_join(path)
    assert prepare(declared).n_rows == prepare(join).n_rows
    model = fit_file(path, "t0.y", alpha=0.01, random_state=0)
    np.testing.assert_allclose(model.coef_, RelationalLinearSVC(alpha=0.01, random_state=0).fit(join).coef_, atol=1e-9)
    assert "optimum within" in summary(model)
    n = len(model.coef_names_)
    monkeypatch.setattr("buttress.relational.command.SHOWN", 1)
    shown = summary(model).splitlines()
    largest = model.coef_names_[abs(model.coef_per_deviation_[0]).argmax()]
    assert shown[3].startswith(largest)
    assert shown[-1].startswith(f"{n - 1} more coefficients") == (n > 1)
    assert all(name in summary(model, everything=True) for name in model.coef_names_)
    assert f"{prepare(join).n_rows:,}" in str(describe(read_join(path)))
    check_parity(join, declared)


def test_a_declared_duckdb_file(tmp_path, duckdb_connection):
    import duckdb

    join = joined(3)
    with duckdb.connect(str(tmp_path / "bank.duckdb")) as own:
        in_database(join, own, own.execute, DUCKDB, "p")
    text = [f"on = {[list(pair) for pair in join.on]!r}"]
    for table in join.tables:
        text += ["[[table]]", f"name = '{table.name}'", "database = 'bank.duckdb'", f"table = 'p_{table.name}'",
                 f"features = {table.features!r}"] + ([f"label = '{table.label}'"] if table.label else [])
    path = tmp_path / "joins.toml"
    path.write_text("\n".join(text), encoding="utf-8")
    assert prepare(read_join(path)).n_rows == prepare(join).n_rows


@pytest.mark.parametrize(("text", "message"), [
    ("on = [", "not valid TOML"),
    ("tabel = 1", "Did you mean 'table'"),
    ("on = []", "declares no"),
    ("[[table]]\nsource = 'a.csv'", "has no name"),
    ("[[table]]\nname = 'a'", "needs either source"),
    ("[[table]]\nname = 'a'\nsource = 'a.csv'\nlabl = 'y'", "Did you mean 'label'"),
])
def test_mistakes_in_a_declaration(tmp_path, text, message):
    path = tmp_path / "joins.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_join(path)


def test_a_missing_database_file(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        connect(str(tmp_path / "absent.duckdb"))
    with pytest.raises(ValueError, match="There is no file"):
        read_join(tmp_path / "absent.toml")


def test_a_file_opens_a_database_once_and_anew_when_its_connection_has_closed(monkeypatch, tmp_path):
    (tmp_path / "joins.toml").write_text("".join(
        f"[[table]]\nname = '{name}'\ndatabase = 'postgresql://there/x'\ntable = '{name}'\n" for name in "ab"))

    class Connection:
        closed = False

    monkeypatch.setattr(tables, "connect", lambda address: Connection())
    first, other = (table.source[0] for table in read_join(tmp_path / "joins.toml").tables)
    assert first is other
    first.closed = True
    again, other = (table.source[0] for table in read_join(tmp_path / "joins.toml").tables)
    assert again is other is not first


def test_a_database_of_the_same_name_in_another_folder_is_another(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "connect", lambda address: type("Connection", (), {})())
    opened = []
    for folder in ("a", "b", "a"):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        (tmp_path / folder / "joins.toml").write_text("[[table]]\nname = 't'\ndatabase = 'x.duckdb'\ntable = 't'\n")
        opened.append(read_join("joins.toml").tables[0].source[0])
    assert opened[0] is opened[2] is not opened[1]


def test_messages_name_the_extra(monkeypatch, tmp_path):
    import sys

    (tmp_path / "a.csv").write_text("x,y\n1,0\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"buttress\[duckdb\]"):
        prepare(Join([Table("a", tmp_path / "a.csv", features=["x"], label="y")]))
    with pytest.raises(ImportError, match=r"buttress\[postgres\]"):
        connect("postgresql://localhost/x")


def test_pairs_of_dialects_differ_only_in_quotes():
    for one, two in pairwise((DUCKDB, POSTGRES, SPARK)):
        assert one.number(0.1).split("'")[1] == two.number(0.1).split("'")[1] == "0.1"
