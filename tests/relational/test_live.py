"""What holds on a live database: the interval is true, or the fit says why it cannot be."""

import _thread
import dis
import functools
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from relational_problems import design, joined, materialise
from relational_storage import in_database, store

from buttress import InterruptedWarning, NotConvergedWarning
from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, SourceChangedError, SourceLostError, Table
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import Evaluation
from buttress.relational.optimum.certified import Climber, PlanePool
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources import databases, deadline
from buttress.relational.sources.blocks import number_blocks
from buttress.relational.sources.databases import one_snapshot, reason, select, select_arrays
from buttress.relational.sources.deadline import time_limit
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, SPARK
from buttress.relational.sources.tables import column_names, read_columns
from buttress.relational.sql import plan
from buttress.relational.sql.listing import sample_rows
from buttress.relational.sql.oracle import SqlOracle

ENGINES = ["memory", "sql"]


def another(**options):
    """One more connection to the tests' schema, with the rights to write."""
    import psycopg

    schema = f"buttress_{os.getpid()}"
    return psycopg.connect(f"{os.environ['BUTTRESS_POSTGRES']} user=owner options='-c search_path={schema}'", **options)


def people(n, seed=0):
    """Two tables: people with a label, and their visits."""
    rng = np.random.default_rng(seed)
    a = pd.DataFrame({"k": np.arange(n), "x": rng.normal(size=n)})
    a["y"] = (a["x"] + rng.normal(size=n) > 0).astype(int)
    b = pd.DataFrame({"k": rng.integers(0, n, 3 * n), "z": rng.normal(size=3 * n)})
    return a, b


def live_join(connection, prefix):
    return Join([Table("a", (connection, f"{prefix}_a"), features=["x"], label="y"),
                 Table("b", (connection, f"{prefix}_b"), features=["z"])], [("a.k", "b.k")])


def writer_of(prefix, stop):
    """Commit, again and again, what moves the optimum: labels turned over, rows taken away and added.

    The tables keep their size however long this goes on: what is added goes in the next round, and dead rows too.
    """
    with another(autocommit=True) as writer:
        while not stop.is_set():
            writer.execute(f"UPDATE {prefix}_a SET y = 1 - y WHERE k % 3 = 0")
            writer.execute(f"DELETE FROM {prefix}_b WHERE z > 5")
            writer.execute(f"INSERT INTO {prefix}_b SELECT k, 10 + z FROM {prefix}_b WHERE k < 5")
            writer.execute(f"VACUUM {prefix}_a, {prefix}_b")
            stop.wait(0.02)


def true_interval(model, seen):
    """The model's own objective on the rows that its snapshot held is in its interval."""
    plan, rows = prepare(seen), materialise(seen)
    X, y, weight = design(seen, plan, rows)
    own = weight @ np.maximum(0, 1 - y * (X @ model.beta_)) / weight.sum() + model.alpha_ * model.beta_ @ model.beta_
    low, high = model.objective_interval_
    assert model.n_join_rows_ == len(rows)
    assert low - 1e-9 <= own <= high + 1e-9


def check_fits_among_writers(postgres, n_fits):
    owner, _ = postgres
    for name, frame in zip("ab", people(60)):
        store(frame, f"live{n_fits}_{name}", owner.execute, POSTGRES)
    stop = threading.Event()
    writers = [threading.Thread(target=writer_of, args=(f"live{n_fits}", stop))]
    for thread in writers:
        thread.start()
    try:
        with another() as mine:
            join = live_join(mine, f"live{n_fits}")
            for seed in range(n_fits):
                with one_snapshot([mine]):
                    model = RelationalLinearSVC(alpha=0.05, row_weight="join", n_samples=20, max_iter=6,
                                                engine=("sql", "stream")[seed % 2], tol=1e-2,
                                                random_state=seed).fit(join)
                    frames = [pd.DataFrame({name: column.values for name, column in read_columns(
                        table.source, ["k", *table.features, *filter(None, [table.label])]).items()})
                        for table in join.tables]
                true_interval(model, Join([Table("a", frames[0], features=["x"], label="y"),
                                           Table("b", frames[1], features=["z"])], join.on))
                assert mine.info.transaction_status.name == "IDLE"
    finally:
        stop.set()
        for thread in writers:
            thread.join()


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
def test_the_interval_is_true_while_others_write(postgres):
    check_fits_among_writers(postgres, 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
def test_the_interval_is_true_in_fifty_fits_while_others_write(postgres):
    check_fits_among_writers(postgres, 50)


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_users_transaction_that_does_not_keep_a_snapshot_is_found_out(postgres, engine, monkeypatch):
    owner, reader = postgres
    prefix = f"rc{engine}"
    for name, frame in zip("ab", people(40)):
        store(frame, f"{prefix}_{name}", owner.execute, POSTGRES)
    join = live_join(reader, prefix)
    model = RelationalLinearSVC(alpha=0.05, row_weight="join", engine=engine, n_samples=20, max_iter=3, tol=1e-2,
                                random_state=0)
    reader.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    model.fit(join)  # nobody writes: all is well
    assert reader.info.transaction_status.name == "INTRANS"
    check = Join.check

    def written(self):
        owner.execute(f"UPDATE {prefix}_a SET y = 1 - y WHERE k < 10")
        return check(self)

    monkeypatch.setattr(Join, "check", written)
    with pytest.raises(SourceChangedError, match="REPEATABLE READ"):
        model.fit(join)
    reader.rollback()
    reader.execute("SELECT 1")  # begins one of REPEATABLE READ
    model.fit(join)
    assert reader.info.transaction_status.name == "INTRANS"
    reader.rollback()


def test_several_connections_to_a_database_read_one_snapshot(postgres, monkeypatch):
    """Others commit between the two connections' transactions, and again before the tables are read."""
    owner, reader = postgres
    a, b = people(40)
    for name, frame in (("a", a), ("b", b)):
        store(frame, f"two_{name}", owner.execute, POSTGRES)
    begin = databases._begin

    def written(connection, snapshot):
        begin(connection, snapshot)
        owner.execute("DELETE FROM two_a WHERE k % 2 = 0")
        owner.execute("DELETE FROM two_b WHERE k % 2 = 0")

    monkeypatch.setattr(databases, "_begin", written)
    with another() as second:
        join = Join([Table("a", (reader, "two_a"), features=["x"], label="y"),
                     Table("b", (second, "two_b"), features=["z"])], [("a.k", "b.k")])
        model = RelationalLinearSVC(alpha=0.05, row_weight="join", random_state=0).fit(join)
        assert model.n_join_rows_ == len(b)
        assert RelationalLinearSVC(alpha=0.05, random_state=0).fit(join).n_join_rows_ == (b["k"] % 2).sum()
        assert reader.info.transaction_status.name == second.info.transaction_status.name == "IDLE"


def test_a_fit_in_duckdb_sees_one_snapshot(duckdb_connection, monkeypatch):
    join = joined(1, rows=12)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "s")
    still = RelationalLinearSVC(alpha=0.05, row_weight="join", engine="sql", n_samples=5, max_iter=5, tol=1e-2,
                                random_state=0)
    other = duckdb_connection.cursor()
    call = SqlOracle.__call__

    def meddled(self, *arguments):
        other.execute("DELETE FROM s_t0 WHERE rowid % 2 = 0")
        return call(self, *arguments)

    n_rows = prepare(join).n_rows
    monkeypatch.setattr(SqlOracle, "__call__", meddled)
    with pytest.warns(NotConvergedWarning):
        model = still.fit(there)
    assert model.n_join_rows_ == n_rows
    rows = materialise(join)
    X, y, weight = design(join, prepare(join), rows)
    own = weight @ np.maximum(0, 1 - y * (X @ model.beta_)) / weight.sum() + 0.05 * model.beta_ @ model.beta_
    assert model.objective_interval_[0] <= own <= model.objective_interval_[1]


def test_bounds_that_cross_are_never_clamped():
    class Changing:
        can_refine = False
        total = 1.0

        def __init__(self):
            self.values = [(0.5, 0.5), (0.3, 0.3)]

        def __call__(self, beta, loss, bins=0):
            lower, upper = self.values.pop(0)
            return Evaluation(lower, np.zeros(1), lower, upper, lower)

    climb = Climber(Changing(), "hinge", 1.0, PlanePool(1), 1e-3)
    climb.visit(np.zeros(1), 0.0)
    with pytest.raises(SourceChangedError, match=r"at least 0\.5"):
        climb.visit(np.zeros(1), 0.0)


@pytest.mark.parametrize(("kind", "values"), [("real", (0.1, 0.7)), ("numeric(4,2)", (0.25, 1.75)),
                                              ("char(6)", ("ab", "cd")), ("boolean", (False, True)),
                                              ("text", ("a\\b", "it's"))])
def test_labels_of_every_type_in_postgres(postgres, kind, values):
    owner, reader = postgres
    name = f"lab_{kind[:4]}"
    owner.execute(f"CREATE TABLE {name} (k bigint, x double precision, y {kind})")
    frame = pd.DataFrame({"k": range(40), "x": np.linspace(-1, 1, 40)})
    frame["y"] = [values[int(x > 0.1)] for x in frame["x"]]
    for row in frame.itertuples(index=False):
        owner.execute(f"INSERT INTO {name} VALUES (%s, %s, %s)", tuple(row))
    here = RelationalLinearSVC(alpha=0.01, random_state=0).fit(
        Join([Table("t", frame, features=["x"], label="y")]))
    there = Join([Table("t", (reader, name), features=["x"], label="y")])
    for options in ("on", "off"):
        reader.execute(f"SET standard_conforming_strings = {options}")
        reader.commit()
        for engine, n in (("memory", 100), ("sql", 100), ("sql", 1)):
            model = RelationalLinearSVC(alpha=0.01, engine=engine, n_samples=n, random_state=0).fit(there)
            assert model.dual_bound_ <= here.objective_interval_[1]
            assert here.dual_bound_ <= model.objective_interval_[1]
            assert [str(c) for c in model.classes_] == [str(c) for c in here.classes_]
    reader.execute("SET standard_conforming_strings = on")
    reader.commit()


@pytest.mark.parametrize("engine", ENGINES)
def test_decimal_labels_in_duckdb(duckdb_connection, engine):
    duckdb_connection.execute("CREATE TABLE d AS SELECT i AS x, (i % 2)::DECIMAL(4,1) AS y, (i % 2)::FLOAT * 0.3::FLOAT"
                              " AS f FROM range(20) t(i)")
    for label in "yf":
        model = RelationalLinearSVC(alpha=0.1, engine=engine).fit(
            Join([Table("d", (duckdb_connection, "d"), features=["x"], label=label)]))
        assert model.converged_
        assert len(model.predict(np.ones((3, 1)))) == 3


def test_a_connection_with_other_rows(postgres):
    from psycopg.rows import dict_row

    owner, _ = postgres
    for name, frame in zip("ab", people(40)):
        store(frame, f"dict_{name}", owner.execute, POSTGRES)
    frames = Join([Table("a", people(40)[0], features=["x"], label="y"), Table("b", people(40)[1], features=["z"])],
                  [("a.k", "b.k")])
    here = RelationalLinearSVC(alpha=0.05, random_state=0).fit(frames)
    with another(row_factory=dict_row) as dicts:
        for engine in ENGINES:
            model = RelationalLinearSVC(alpha=0.05, engine=engine, random_state=0).fit(live_join(dicts, "dict"))
            np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-2)


def test_a_pending_result_of_the_users_duckdb_stays(duckdb_connection):
    join = joined(3)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "pending")
    for engine in ENGINES:
        duckdb_connection.execute("SELECT * FROM range(5)")
        assert duckdb_connection.fetchone() == (0,)
        RelationalLinearSVC(alpha=0.1, engine=engine, random_state=0).fit(there)
        assert duckdb_connection.fetchall() == [(1,), (2,), (3,), (4,)]


def test_temporary_tables_and_a_users_transaction_in_duckdb(duckdb_connection):
    run = duckdb_connection.execute
    run("BEGIN")
    run("CREATE TEMP TABLE mine AS SELECT i AS x, i % 2 AS y FROM range(9) t(i)").fetchall()
    join = Join([Table("m", (duckdb_connection, "mine"), features=["x"], label="y")])
    for engine in ENGINES:
        assert RelationalLinearSVC(alpha=0.1, engine=engine).fit(join).n_join_rows_ == 9
    run("ROLLBACK")
    with pytest.raises(ValueError, match="no table"):
        join.check()


def test_a_typo_leaves_the_users_transaction_as_it_was(postgres):
    owner, reader = postgres
    owner.execute("CREATE TABLE typo (x bigint, y bigint)")
    reader.execute("SELECT 1")
    with pytest.raises(ValueError, match="Did you mean 'typo'"):
        column_names((reader, "typpo"))
    with pytest.raises(SourceLostError, match="failed"):
        select(reader, "SELECT nothing FROM typo", POSTGRES)
    assert reader.execute("SELECT 2").fetchone() == (2,)
    reader.rollback()
    with pytest.raises(SourceLostError, match="failed"):
        select(reader, "SELECT nothing FROM typo", POSTGRES)
    assert reader.info.transaction_status.name == "IDLE"


def test_a_statement_timeout_is_named(postgres):
    _, reader = postgres
    reader.execute("SET statement_timeout = 50")
    reader.commit()
    with pytest.raises(SourceLostError, match="statement_timeout"):
        select(reader, "SELECT pg_sleep(5)", POSTGRES)
    reader.execute("SET statement_timeout = 0")
    reader.commit()


def test_grants_on_the_columns_in_use_suffice(postgres):
    owner, reader = postgres
    owner.execute("CREATE TABLE partly AS SELECT i AS x, i % 2 AS y, 'secret' AS s FROM generate_series(1, 9) i")
    owner.execute("REVOKE ALL ON partly FROM reader")
    owner.execute("GRANT SELECT (x, y) ON partly TO reader")
    for engine in ENGINES:
        model = RelationalLinearSVC(alpha=0.1, engine=engine)
        assert model.fit(Join([Table("p", (reader, "partly"), features=["x"], label="y")])).n_join_rows_ == 9
        with pytest.raises(SourceLostError, match="Ask for SELECT on the columns"):
            model.fit(Join([Table("p", (reader, "partly"), features=["s"], label="y")]))


def test_a_name_with_marks_of_a_pattern_is_that_file(tmp_path, duckdb_connection):
    for name, value in (("a[1].parquet", 1), ("a1.parquet", 2), ("a2.parquet", 3), ("b?.csv", 4), ("bb.csv", 5)):
        duckdb_connection.execute(f"COPY (SELECT {value} AS v) TO {DUCKDB.text(str(tmp_path / name))}")
    assert read_columns(tmp_path / "a[1].parquet", ["v"])["v"].values.tolist() == [1]
    assert read_columns(tmp_path / "b?.csv", ["v"])["v"].values.tolist() == [4]
    assert sorted(read_columns(tmp_path / "a?.parquet", ["v"])["v"].values.tolist()) == [2, 3]


def keyed(connection, prefix, kinds, values, execute):
    for name, kind, value in zip("ab", kinds, values):
        execute(f"CREATE TABLE {prefix}{name} (k {kind}, x bigint, y bigint)")
        for v in value:
            execute(f"INSERT INTO {prefix}{name} VALUES ({v}, 1, 0), ({v}, 2, 1)")
    return Join([Table("a", (connection, f"{prefix}a"), features=["x"], label="y"),
                 Table("b", (connection, f"{prefix}b"), features=[])], [("a.k", "b.k")])


def test_engines_agree_on_keys_of_different_types(postgres):
    owner, reader = postgres
    cases = [(("char(6)", "text"), (["'ab'", "'c'"], ["'ab'", "'d'"])), (("real", "double precision"), (["0.1", "0.5"],
             ["0.1", "0.5"])), (("bigint", "numeric"), (["1", "2"], ["1", "2.5"]))]
    for i, (kinds, values) in enumerate(cases):
        join = keyed(reader, f"key{i}", kinds, values, owner.execute)
        n = owner.execute(f"SELECT COUNT(*) FROM key{i}a a, key{i}b b WHERE a.k = b.k").fetchone()[0]
        assert prepare(join).n_rows == SqlOracle(join).plan.n_rows == n > 0


@pytest.mark.parametrize(("kinds", "values", "message"), [
    (("bigint", "double precision"), (["9007199254740993"], ["9007199254740992"]), "2.53"),
    (("bigint", "boolean"), (["1"], ["true"]), "truth value"),
    (("bigint", "bigint[]"), (["1"], ["'{1}'"]), "nested|arrays"),
])
def test_keys_that_engines_would_compare_differently_are_refused_by_both(postgres, kinds, values, message):
    owner, reader = postgres
    join = keyed(reader, f"no{kinds[1][:3]}{len(kinds[1])}", kinds, values, owner.execute)
    for engine in ENGINES:
        with pytest.raises(ValueError, match=message):
            RelationalLinearSVC(engine=engine).fit(join)


def test_whole_numbers_of_sixty_bits_are_told_apart():
    big = 2**60
    a = pd.DataFrame({"k": [big, big + 1, big + 2, big + 3], "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
    b = pd.DataFrame({"k": np.array([big + 1, big + 2, 2**63 + 5], dtype=np.uint64), "z": [1.0, 2.0, 3.0]})
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"])], [("a.k", "b.k")])
    assert prepare(join).n_rows == SqlOracle(join).plan.n_rows == 2


def test_arrays_are_no_features(duckdb_connection):
    duckdb_connection.execute("CREATE TABLE arrays AS SELECT [i, 1] AS x, i % 2 AS y FROM range(6) t(i)")
    for engine in ENGINES:
        with pytest.raises(ValueError, match="arrays, structures or bytes"):
            RelationalLinearSVC(engine=engine).fit(
                Join([Table("t", (duckdb_connection, "arrays"), features=["x"], label="y")]))


@pytest.mark.parametrize("n", [7, 30])
def test_every_label_row_gets_an_answer(n):
    a, b = people(n)
    b = b[b["k"] != 3]
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"])], [("a.k", "b.k")])
    matched = np.isin(a["k"], b["k"])
    model = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    with pytest.warns(UserWarning, match="have no row of the join. Their score is the intercept"):
        scores = model.decision_function(join)
    np.testing.assert_array_equal(scores[~matched], model.intercept_[0])
    rows = materialise(join)
    own = pd.Series(model.decision_function(rows)).groupby(rows["a.#"]).mean()
    np.testing.assert_allclose(scores[matched], own.to_numpy(), atol=1e-12)
    model.set_params(unmatched="nan")
    with pytest.warns(UserWarning, match="Their score is NaN"):
        np.testing.assert_array_equal(np.isnan(model.decision_function(join)), ~matched)
    with pytest.warns(UserWarning, match="NaN"), pytest.raises(ValueError, match="unmatched='intercept'"):
        model.predict(join)
    model.set_params(unmatched="intercept")
    for some in (a[~matched], a[~matched][:1]):  # none of them has a row of the join
        new = Join([Table("a", some, features=["x"], label="y"), *join.tables[1:]], join.on)
        with pytest.warns(UserWarning, match=f"{len(some)} of {len(some)} rows of a have no row of the join"):
            assert model.decision_function(new).tolist() == model.intercept_.tolist() * len(some)
        assert model.label_rows(new).tolist() == []


@pytest.mark.filterwarnings("ignore:.*have no row of the join")
def test_rows_that_weigh_nothing_have_the_scores_that_they_have_beside_others():
    a, b = people(30)
    tables = [Table("a", a, features=["x"], label="y"), Table("b", b.assign(w=b["k"] % 2), features=["z"], weights="w")]
    on = [("a.k", "b.k")]
    model = RelationalLinearSVC(alpha=0.05, random_state=0).fit(Join(tables, on))
    even = (a["k"] % 2 == 0).to_numpy()
    new = Join([Table("a", a[even], features=["x"], label="y"), tables[1]], on)
    beside = model.decision_function(Join(tables, on))[even]
    np.testing.assert_allclose(model.decision_function(new), beside, rtol=1e-12)
    for asked in (model.score, model.fit):
        with pytest.raises(ValueError, match="weight zero"):
            asked(new)


@pytest.mark.parametrize("how", [{}, {"weights": True}, {"left": True}])
@pytest.mark.parametrize("row_weight", ["join", "label_row"])
def test_a_small_join_in_a_database_is_listed(how, row_weight):
    join = joined(2, **how)
    here = RelationalLinearSVC(alpha=1e-3, row_weight=row_weight, random_state=0).fit(join)
    there = RelationalLinearSVC(alpha=1e-3, row_weight=row_weight, random_state=0, engine="sql").fit(join)
    assert there.gap_ <= 1e-3
    assert there.n_oracle_calls_ <= 2 * here.n_oracle_calls_
    assert there.dual_bound_ <= here.objective_interval_[1]
    assert here.dual_bound_ <= there.objective_interval_[1]
    assert there.n_join_rows_ == here.n_join_rows_
    beta = np.random.default_rng(0).normal(size=len(here.beta_))
    oracle = SqlOracle(join, per_label_row=row_weight == "label_row")
    listed = oracle.listed()
    assert listed.total == pytest.approx(oracle.total, rel=1e-12)
    from buttress.relational.counting.margins import margin_loss
    loss = margin_loss("logistic")
    np.testing.assert_allclose(listed(beta, loss).b, oracle.at_step(beta, loss, 1e-6).b, atol=1e-5)


SLOW_QUERIES = {
    "PostgreSQL": "SELECT pg_sleep(60)",
    "DuckDB": "SELECT COUNT(*) FROM range(100000) a, range(100000) b WHERE a.range + b.range = 3",
}  # these end: pytest shows what failed by its repr, and that of a relation of DuckDB runs it


@pytest.fixture(params=SLOW_QUERIES)
def slow(request):
    """(connection, dialect, a query that takes long)."""
    if request.param == "DuckDB":
        return request.getfixturevalue("duckdb_connection"), DUCKDB, SLOW_QUERIES["DuckDB"]
    return request.getfixturevalue("postgres")[1], POSTGRES, SLOW_QUERIES["PostgreSQL"]


def test_a_query_is_cancelled_when_the_time_is_up(slow):
    connection, dialect, query = slow
    with time_limit(0.3), pytest.raises(TimeoutError, match="max_time"), one_snapshot([connection]):
        select(connection, query, dialect)
    assert select(connection, "SELECT 1", dialect) == [(1,)]


@pytest.mark.parametrize("answer", [select, lambda *query: list(number_blocks(*query, 1))], ids=["rows", "blocks"])
def test_ctrl_c_ends_a_query(slow, answer):
    connection, dialect, query = slow
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), one_snapshot([connection]):
        answer(connection, query, dialect)
    assert select(connection, "SELECT 1", dialect) == [(1,)]


@pytest.mark.parametrize("milliseconds", [1, 3, 6, 9, 12, 15, 18])
def test_ctrl_c_is_heard_before_a_query_computes(duckdb_connection, milliseconds):
    """DuckDB 2.0 loses about half of those that come while it plans."""
    answers = [lambda: select(duckdb_connection, SLOW_QUERIES["DuckDB"], DUCKDB),
               lambda: select_arrays(duckdb_connection, SLOW_QUERIES["DuckDB"]),
               lambda: list(number_blocks(duckdb_connection, SLOW_QUERIES["DuckDB"], DUCKDB, 1))]
    for answer in answers:
        timer = threading.Timer(milliseconds / 1000, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start() or answer()
    assert select(duckdb_connection, "SELECT 1", DUCKDB) == [(1,)]


@functools.cache
def listening(code):
    """Where Python looks for signals in a function: at its beginning, after a call and before a round of a loop."""
    steps = list(dis.get_instructions(code))
    return {after.offset for step, after in pairwise(steps)
            if step.opname.startswith(("RESUME", "CALL", "JUMP_BACKWARD"))}


class CtrlC:
    """KeyboardInterrupt at the given one of the places of a block, and of what it calls, where it may come."""

    def __init__(self, number):
        self.left = number

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, *error):
        sys.settrace(self.before)

    def trace(self, frame, event, arg):
        frame.f_trace_opcodes = True
        self.left -= event == "opcode" and frame.f_lasti in listening(frame.f_code)
        if not self.left:
            sys.settrace(None)
            raise KeyboardInterrupt
        return self.trace


@pytest.mark.parametrize("seconds", [None, 0.02])
def test_ctrl_c_at_any_place_leaves_no_thread_that_waits_or_cancels(monkeypatch, seconds):
    """Python's own locks stayed taken: the other thread waited for ever, and a fit, or Ctrl-C, for that thread."""
    monkeypatch.setattr(deadline, "CANCEL_EVERY", 0.001)
    cancelled = []
    threads = _thread._count()
    for number in range(1, 10_000):
        ctrl_c = CtrlC(number)
        with suppress(KeyboardInterrupt, TimeoutError), time_limit(seconds), ctrl_c, \
                deadline.cancelled_in_time(lambda: cancelled.append(1)):
            deadline.heard(lambda: time.sleep(0.002), lambda: None)
        if ctrl_c.left:
            break
    time.sleep(0.1)
    assert _thread._count() == threads
    before = len(cancelled)
    time.sleep(0.1)
    assert number > 20
    assert len(cancelled) == before


@pytest.mark.parametrize("at", [0, 1])
def test_what_cannot_be_cancelled_is_made_though_ctrl_c_comes(monkeypatch, at):
    """Ctrl-C before ROLLBACK had begun left the transaction open."""
    def start(make, arguments):
        monkeypatch.undo()
        if at:
            _thread.start_new_thread(make, arguments)
        raise KeyboardInterrupt

    made = []
    monkeypatch.setattr(deadline, "start_new_thread", start)
    with pytest.raises(KeyboardInterrupt):
        deadline.heard(lambda: made.append(1), None)
    assert made == [1]


def test_ctrl_c_twice_ends_a_query_too(duckdb_connection):
    """The second one left the query running, and the connection to it."""
    for seconds in (0.5, 0.55):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), one_snapshot([duckdb_connection]):
        select(duckdb_connection, SLOW_QUERIES["DuckDB"], DUCKDB)
    assert select(duckdb_connection, "SELECT 1", DUCKDB) == [(1,)]


def test_rows_that_are_not_read_to_their_end_leave_the_connection_free(duckdb_connection):
    with one_snapshot([duckdb_connection]):
        next(number_blocks(duckdb_connection, "SELECT CAST(range AS DOUBLE) FROM range(100000)", DUCKDB, 1))
    first, second = (duckdb_connection.sql("SELECT txid_current()").fetchall() for _ in range(2))
    assert first != second  # no transaction is left open


@pytest.mark.filterwarnings("error")
def test_a_limit_longer_than_a_thread_can_wait_is_none(duckdb_connection):
    with time_limit(1e12):
        assert select(duckdb_connection, "SELECT 1", DUCKDB) == [(1,)]


class Watched:
    """A connection that notes which of these calls come from the main thread, where DuckDB hears Ctrl-C."""

    __module__ = "duckdb"

    def __init__(self, connection):
        self.connection = connection
        self.called = []

    def __getattr__(self, name):
        found = getattr(self.connection, name)

        def noted(*arguments):
            self.called.append((name, threading.current_thread() is threading.main_thread()))
            return found(*arguments)

        return noted if name in ("execute", "register", "unregister") else found


def test_arrays_come_and_go_where_duckdb_hears_no_ctrl_c(duckdb_connection):
    """In the main thread it ended these calls itself: three in a hundred Ctrl-C were lost or a SourceLostError."""
    place = Watched(duckdb_connection)
    found = number_blocks(place, "SELECT CAST(v AS DOUBLE) FROM given", DUCKDB, 1, "given", {"v": np.arange(3)})
    np.testing.assert_array_equal(np.vstack(list(found)), [[0], [1], [2]])
    assert [call for call in place.called if call[0] != "execute"] == [("register", False), ("unregister", False)]


def test_frames_come_into_a_database_of_our_own_where_it_hears_no_ctrl_c(monkeypatch, duckdb_connection):
    """In the main thread Ctrl-C became a RuntimeError."""
    place = Watched(duckdb_connection)
    monkeypatch.setattr(plan, "connect_duckdb", lambda: place)
    join = joined(1, rows=12)
    plan.sql_home(join, join.check(), 500)
    assert {"execute", "register"} == {name for name, main in place.called if not main}
    assert not any(main for _, main in place.called)


def is_pass(statement):
    """Say whether a SELECT is that of a pass; the one that weighs the classes beforehand has no sums of features."""
    return "GROUP BY t.side, t.bin" in statement and " AS g0" in statement


def calls_done(monkeypatch):
    """A list that grows with every call of a SqlOracle that returns."""
    done = []
    call = SqlOracle.__call__

    def noted(self, *arguments):
        seen = call(self, *arguments)
        done.append(1)
        return seen

    monkeypatch.setattr(SqlOracle, "__call__", noted)
    return done


def test_ctrl_c_within_a_query_of_a_fit_keeps_the_best_model(monkeypatch, duckdb_connection):
    """SIGINT while DuckDB computes the third pass: the query is cancelled, the model that of the passes before."""
    join = joined(1, rows=12)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "sigint")
    passes = []
    done = calls_done(monkeypatch)
    send = SqlOracle._select

    def slow(self, statement):
        if is_pass(statement):
            passes.append(1)
            if len(passes) == 3:
                threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                return send(self, SLOW_QUERIES["DuckDB"])
        return send(self, statement)

    monkeypatch.setattr(SqlOracle, "_select", slow)
    with pytest.warns(InterruptedWarning, match="best state"):
        model = RelationalLinearSVC(alpha=0.05, tol=1e-9, n_samples=1, engine="sql", random_state=0).fit(there)
    assert model.n_oracle_calls_ == len(done) >= 2  # some passes serve several calls
    plain = RelationalLinearSVC(alpha=0.05, tol=1e-6, random_state=0).fit(join)
    assert model.objective_interval_[0] <= plain.objective_interval_[1]
    assert plain.objective_interval_[0] <= model.objective_interval_[1]
    with pytest.raises(ValueError, match="Ctrl-C came before"):
        model.predict_proba(join)
    assert duckdb_connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("calls", [0, 2])
def test_the_time_of_a_pass_and_of_the_preparation_counts(monkeypatch, duckdb_connection, calls):
    join = joined(1, rows=12)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "time")
    seen = []
    done = calls_done(monkeypatch)
    send = SqlOracle._select

    def slow(self, statement):
        if is_pass(statement):
            seen.append(1)
            if len(seen) > calls:
                return send(self, SLOW_QUERIES["DuckDB"])
        return send(self, statement)

    monkeypatch.setattr(SqlOracle, "_select", slow)
    model = RelationalLinearSVC(alpha=0.05, tol=1e-9, n_samples=1, engine="sql", max_time=2 + 2 * calls,
                                random_state=0)
    if not calls:
        with pytest.raises(TimeoutError, match="max_time"):
            model.fit(there)
        return
    with pytest.warns(NotConvergedWarning, match="max_time"):
        model.fit(there)
    assert model.n_oracle_calls_ == len(done) >= calls  # some passes serve several calls
    assert isinstance(grid_oracle(prepare(join)).total, float)


def test_the_sampling_select_holds_no_union():
    """Spark with its default settings fails to send the plan of a UNION ALL in a cross join to its workers."""
    for dialect in (DUCKDB, POSTGRES, SPARK):
        oracle = SqlOracle(joined(1, rows=12))
        oracle.tree.dialect = dialect
        assert "UNION" not in sample_rows(oracle.tree, 100, oracle.total, 50)
    assert "ClassCastException" in reason(Exception(
        "An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted\n"
        "Caused by: java.lang.ClassCastException: cannot assign"))


def test_a_server_that_is_down_is_one_clear_error(tmp_path):
    pytest.importorskip("psycopg")
    address = "postgresql://reader:secret@127.0.0.1:1/bank?connect_timeout=2"
    with pytest.raises(SourceLostError, match=r"cannot be reached.*Check that the server runs") as caught:
        Table("a", (address, "a"))
    assert "secret" not in str(caught.value)


def test_tables_that_change_between_reads_are_read_anew(postgres):
    """A plan that the driver has prepared for the old columns would fail."""
    owner, _ = postgres
    owner.execute("CREATE TABLE altered (k INTEGER, v INTEGER)")
    owner.execute("INSERT INTO altered VALUES (1, 2)")
    with another() as mine:
        mine.prepare_threshold = 0
        for kind in ("BIGINT", "DOUBLE PRECISION", "TEXT"):
            assert str(read_columns((mine, "altered"), ["k", "v"])["v"].values[0]) in ("2", "2.0")
            owner.execute(f"ALTER TABLE altered ALTER COLUMN v TYPE {kind}")
        assert read_columns((mine, "altered"), ["k", "v"])["v"].kind == "text"


def test_uuids_enums_and_truths_of_postgres_agree_in_all_selects(postgres):
    """Keys that are words here and types of their own there, and truths and NaN among the features of to_sql."""
    owner, reader = postgres
    owner.execute("CREATE TYPE colour AS ENUM ('red', 'blue')")
    owner.execute("CREATE TABLE typed (id uuid, c colour, vip boolean, v double precision, y text)")
    owner.execute("CREATE TABLE typed_many (id uuid, c colour, x real)")
    for i in range(40):
        mine = (f"00000000-0000-0000-0000-{i:012d}", ("red", "blue")[i % 2])
        rest = (None if i == 7 else i % 3 == 0, float("nan") if i == 5 else i % 11, "no" if i % 11 > 4 else "yes")
        owner.execute("INSERT INTO typed VALUES (%s, %s, %s, %s, %s)", (*mine, *rest))
        owner.execute("INSERT INTO typed_many VALUES (%s, %s, %s), (%s, 'red', 1)", (*mine, i % 5, mine[0]))
    join = Join([Table("a", (reader, "typed"), features=["vip", "v"], label="y"),
                 Table("b", (reader, "typed_many"), features=["x", "c"])], [("a.id", "b.id"), ("a.c", "b.c")])
    models = [RelationalLinearSVC(alpha=0.05, missing="mean", engine=engine, random_state=0).fit(join)
              for engine in ENGINES]
    assert models[0].n_join_rows_ == models[1].n_join_rows_ == 60
    found = dict(reader.execute(models[0].to_sql(join, ["id"])).fetchall())
    rows = pd.DataFrame(reader.execute("SELECT id, c, vip, v FROM typed").fetchall(), columns=["id", "c", "vip", "v"])
    reader.rollback()
    np.testing.assert_allclose([found[one] for one in rows["id"]], models[0].decision_function(join), atol=1e-12)
    here, there = (EntityFeatures(join, missing="nan", engine=engine).fit_transform(rows) for engine in ENGINES)
    np.testing.assert_allclose(there, here, rtol=1e-9)
    assert here.shape[0] == 40
    mixed = Join([Table("a", (reader, "typed"), features=["v"], label="y"), Table("b", (reader, "typed_many"))],
                 [("a.y", "b.id")])
    with pytest.raises(SourceLostError, match=r"does not compare these types of keys.*engine='memory'"):
        RelationalLinearSVC(missing="mean", engine="sql").fit(mixed)
    with pytest.raises(ValueError, match=r"Give the schema apart: \(connection, \('shop', 'typed'\)\)"):
        column_names((reader, "shop.typed"))
