"""Joins whose rows are streamed from files of our own: each pass is that over rows in memory, whatever the chunks."""

import gc
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from relational_problems import chain, design, hinge_mean, joined, materialise
from relational_schemas import random_schema
from relational_storage import in_database
from sklearn.svm import LinearSVC

from buttress import NotConvergedWarning
from buttress.relational import Join, RelationalLinearSVC, SourceChangedError, Table, choice, describe, stream
from buttress.relational.counting import grid as grid_module
from buttress.relational.counting.grid import GridOracle, grid_oracle
from buttress.relational.counting.margins import hinge, margin_loss
from buttress.relational.plan import prepare as prepare_module
from buttress.relational.plan.plan import weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources import blocks as sources_blocks
from buttress.relational.sources import deadline
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, SPARK
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.stream import streamed

MEGABYTES = 100
WEIGHINGS = [("join", None), ("label_row", "balanced")]


def small_chunks(monkeypatch, rows):
    monkeypatch.setattr(stream, "LEAST_ROWS", 1)
    monkeypatch.setattr(stream, "MOST_ROWS", rows)


def stream_of(join, row_weight="join", class_weight=None, memory=MEGABYTES):
    sql = SqlOracle(join, per_label_row=row_weight == "label_row", class_weight=class_weight)
    return streamed(sql, memory)


def check_pass(join, there, row_weight="join", class_weight=None):
    """One pass over streamed rows is the pass over rows in memory, to 1e-12; returns the streamed oracle."""
    plan = prepare(join)
    weigh(plan, row_weight, class_weight)
    grid = grid_oracle(plan, fold=False)
    oracle = stream_of(there, row_weight, class_weight)
    assert oracle.total == pytest.approx(grid.total, rel=1e-12)
    beta = np.random.default_rng(0).normal(size=plan.width)
    for loss in (margin_loss("logistic"), hinge(0.05)):
        a, b = oracle.at_step(beta, loss, 0.0371), grid.at_step(beta, loss, 0.0371)
        assert (a.a, a.lower, a.upper) == pytest.approx((b.a, b.lower, b.upper), abs=1e-12)
        np.testing.assert_allclose(a.b, b.b, atol=1e-12)
    return oracle


@pytest.mark.parametrize(("seed", "rows"), [(0, 1), (1, 3), (2, 100), (3, 3), (4, 1), (5, 3)])
def test_a_pass_is_that_of_rows_in_memory(seed, rows, monkeypatch):
    small_chunks(monkeypatch, rows)
    join = joined(seed, **({}, {"weights": True}, {"left": True})[seed // 2])
    oracle = check_pass(join, join, *WEIGHINGS[seed % 2])
    if rows == 1:
        assert all(rows == 1 for node in oracle.nodes for _, rows in node.places)  # keys span chunks, too


def test_a_key_of_many_chunks_takes_the_memory_of_one_list(monkeypatch):
    small_chunks(monkeypatch, 3)
    rng = np.random.default_rng(0)
    made = [pd.DataFrame({"k": 0, f"x{i}": rng.normal(size=n)}) for i, n in enumerate((2, 600))]
    made[0]["y"] = [0, 1]
    join = Join([Table(f"t{i}", frame, features=[f"x{i}"], label=None if i else "y") for i, frame in enumerate(made)],
                [("t0.k", "t1.k")])
    oracle = stream_of(join)
    assert len(oracle.nodes[0].places) == 200
    oracle.memory = 0.05  # a list of 600 entries takes .012
    assert oracle(np.ones(oracle.width), hinge(), 1 << 10).lower > 0


def test_a_root_of_many_children_is_counted_by_products(monkeypatch):
    small_chunks(monkeypatch, 3)
    join = joined(4, shape="star", left=True)
    check_pass(join, join, "label_row")


def test_a_full_disk_is_said(monkeypatch):
    def full(self, *rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stream.StoredNode, "_append", full)
    with pytest.raises(OSError, match=r"No space left on device. Set TMPDIR"):
        stream_of(joined(1))


def test_time_that_is_up_while_rows_are_read_is_not_a_full_disk(monkeypatch):
    def late(self, *rows):
        raise TimeoutError("max_time was spent")

    monkeypatch.setattr(stream.StoredNode, "_append", late)
    with pytest.raises(TimeoutError, match=r"^max_time was spent$"):
        stream_of(joined(1))


@pytest.mark.parametrize("where", ["stream", "memory"])
def test_a_pass_ends_between_its_parts_when_the_time_is_up(where, monkeypatch):
    """The clock moves by a second whenever it is looked at: a pass of more parts than seconds does not end."""
    small_chunks(monkeypatch, 3)
    join = joined(1, rows=12)
    oracle = stream_of(join) if where == "stream" else grid_oracle(prepare(join))
    beta = np.ones(oracle.width)
    clock = count()
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with deadline.time_limit(1000):
        assert oracle(beta, hinge()).lower > 0
    with deadline.time_limit(2), pytest.raises(TimeoutError, match="max_time was spent while the join"):
        oracle(beta, hinge())


def test_a_fit_whose_time_ends_within_a_streamed_pass_keeps_its_best_model(monkeypatch):
    small_chunks(monkeypatch, 3)
    join = joined(1, rows=12)
    calls = []
    late = []
    call = GridOracle.at_step

    def counted(self, *arguments):
        calls.append(1)
        late.extend([1e6] if len(calls) == 3 else [])
        return call(self, *arguments)

    monkeypatch.setattr(GridOracle, "at_step", counted)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: sum(late)))
    model = RelationalLinearSVC(alpha=0.05, tol=1e-9, n_samples=1, engine="stream", max_time=100, random_state=0)
    with pytest.warns(NotConvergedWarning, match="max_time"):
        model.fit(join)
    assert model.n_oracle_calls_ == 2
    plain = RelationalLinearSVC(alpha=0.05, tol=1e-6, random_state=0).fit(join)
    assert model.objective_interval_[0] <= plain.objective_interval_[1]
    assert plain.objective_interval_[0] <= model.objective_interval_[1]


def test_a_cycle_is_streamed():
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame({"a": rng.integers(0, 3, 12), "b": rng.integers(0, 3, 12), "x": rng.normal(size=12)})
              for _ in range(3)]
    frames[0]["y"] = np.arange(12) % 2
    join = Join([Table(f"t{i}", f, features=["x"], label=None if i else "y") for i, f in enumerate(frames)],
                [("t0.b", "t1.a"), ("t1.b", "t2.a"), ("t2.b", "t0.a")])
    plan = prepare(join)
    X, y, weight = design(join, plan, materialise(join))
    beta = np.random.default_rng(0).normal(size=plan.width)
    found = stream_of(join).at_step(beta, margin_loss("logistic"), 1e-3)
    loss = weight @ np.logaddexp(0, -y * (X @ beta)) / weight.sum()
    assert found.lower <= loss <= found.upper
    assert found.upper - found.lower < 1e-2


def test_duckdb_is_streamed_with_and_without_pandas(duckdb_connection, monkeypatch):
    for number, join in enumerate((joined(2, left=True), joined(3, weights=True), random_schema(176).join)):
        there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, f"s{number}")
        check_pass(join, there, "label_row")
    monkeypatch.setitem(sys.modules, "pandas", None)
    check_pass(join, there, "label_row")


def test_a_file_that_is_written_to_while_it_is_streamed_is_told(tmp_path):
    join = joined(3)
    tables = []
    for table in join.tables:
        path = tmp_path / f"{table.name}.csv"
        table.source.to_csv(path, index=False)
        tables.append(Table(table.name, path, features=table.features, label=table.label))
    oracle = SqlOracle(Join(tables, join.on), keep=False)
    row = path.read_text().splitlines()[1]
    with path.open("a") as file:
        file.write(row + "\n")
    with pytest.raises(SourceChangedError, match="written to while it was read"):
        streamed(oracle, 100)


@pytest.mark.parametrize("rows", [2, 50_000])
def test_postgres_is_streamed_in_blocks(postgres, monkeypatch, rows):
    owner, reader = postgres
    monkeypatch.setattr(sources_blocks, "BLOCK_ROWS", rows)
    join = joined(2, left=True)
    there = in_database(join, reader, owner.execute, POSTGRES, f"streamed{rows}")
    check_pass(join, there, "label_row")
    model = RelationalLinearSVC(alpha=0.05, engine="stream", n_samples=1, tol=1e-2, random_state=0).fit(there)
    here = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    assert model.dual_bound_ <= here.objective_interval_[1]
    assert here.dual_bound_ <= model.objective_interval_[1]
    assert reader.info.transaction_status.name == "IDLE"


def test_the_snapshot_ends_once_the_rows_are_read(postgres):
    """A fit does not keep old rows alive in the database: passes need it no more."""
    owner, reader = postgres
    there = in_database(joined(2), reader, owner.execute, POSTGRES, "short")
    seen = []

    class Look(RelationalLinearSVC):
        def _fit_plan(self, *args):
            seen.append(reader.info.transaction_status.name)
            return super()._fit_plan(*args)

    Look(alpha=0.05, engine="stream", n_samples=1, tol=1e-2, random_state=0).fit(there)
    assert seen == ["IDLE"]


def spark_join(spark):
    a = pd.DataFrame({"k": [0, 1, 1, 2, 3], "x": [0.5, -1.0, 2.0, 0.25, 1.0], "y": [0, 1, 0, 1, 1]})
    b = pd.DataFrame({"k": [1, 1, 0, 2, 9], "z": [1.0, 2.0, -1.0, 0.5, 7.0]})
    tables = []
    for name, frame, label in (("a", a, "y"), ("b", b, None)):
        kinds = ", ".join(f"{c} {'BIGINT' if frame[c].dtype.kind == 'i' else 'DOUBLE'}" for c in frame)
        spark.createDataFrame(frame.astype(object).to_numpy().tolist(), kinds).createOrReplaceTempView(f"st_{name}")
        tables.append(Table(name, (spark, f"st_{name}"), features=["x"] if label else ["z"], label=label))
    here = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"])], [("a.k", "b.k")])
    return here, Join(tables, here.on)


@pytest.mark.slow
def test_spark_is_streamed(spark):
    check_pass(*spark_join(spark))


def test_rows_of_spark_come_in_blocks(monkeypatch):
    """The short version, with a session that hands over rows as Spark does."""
    monkeypatch.setattr(sources_blocks, "BLOCK_ROWS", 2)
    rows = [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]
    session = SimpleNamespace(sql=lambda statement: SimpleNamespace(toLocalIterator=lambda: iter(rows)),
                              sparkContext=None)
    found = list(sources_blocks.number_blocks(session, "SELECT", SPARK, 2))
    assert [len(block) for block in found] == [2, 1]
    np.testing.assert_array_equal(np.vstack(found), rows)


@pytest.mark.parametrize("seed", [0, 5])
def test_rows_are_drawn_by_weight(seed, monkeypatch):
    """Means over the drawn rows are those over the join's rows, within five standard errors."""
    small_chunks(monkeypatch, 3)
    for how in ({"weights": True}, {"left": True}):
        join = joined(seed, **how)
        plan, rows = prepare(join), materialise(join)
        X, y, weight = design(join, plan, rows)
        oracle = stream_of(join)
        drawn, label, often = oracle.sample(4000, np.random.RandomState(0))
        assert often.sum() == 4000
        known = set(map(tuple, np.column_stack([X, y])[weight > 0].round(9)))
        assert set(map(tuple, np.column_stack([drawn, label]).round(9))) <= known
        mean, found = (weight * y) @ X / weight.sum(), label @ drawn / 4000
        error = np.sqrt((weight @ X**2) / weight.sum() / 4000)
        assert (np.abs(mean - found) <= 5 * error + 1e-12).all()
        np.testing.assert_array_equal(drawn, oracle.sample(4000, np.random.RandomState(0))[0])


def test_a_streamed_fit_holds_the_optimum(tmp_path, monkeypatch):
    """Against liblinear on all rows of the join; "auto" streams files where memory_limit is too low to read them."""
    small_chunks(monkeypatch, 50)
    join = chain(120, 10, 3)
    tables = []
    for table in join.tables:
        path = tmp_path / f"{table.name}.parquet"
        write_parquet(table.source, path)
        tables.append(Table(table.name, path, features=table.features, label=table.label))
    there = Join(tables, join.on)
    few = {"alpha": 1e-2, "n_samples": 100, "random_state": 0, "row_weight": "join"}
    model = RelationalLinearSVC(engine="stream", **few).fit(there)
    plan, rows = prepare(join), materialise(join)
    X, y, weight = design(join, plan, rows)
    beta = LinearSVC(loss="hinge", C=1 / (2e-2 * len(y)), fit_intercept=False, tol=1e-6, max_iter=100_000,
                     random_state=0).fit(X, y).coef_[0]
    best = hinge_mean(X, y, weight, beta) + 1e-2 * beta @ beta
    low, high = model.objective_interval_
    assert model.gap_ <= 1e-3
    assert low <= best * (1 + 1e-9)
    assert hinge_mean(X, y, weight, model.beta_) + 1e-2 * model.beta_ @ model.beta_ <= high * (1 + 1e-9)
    made = []
    monkeypatch.setattr("buttress.relational.choice.streamed",
                        lambda *args: made.append(streamed(*args)) or made[-1])
    needed = choice.needed_megabytes(there, there.check(), outside_only=True)
    assert "in memory; streamed where" in describe(there, needed * 1.1).text
    assert "streamed from files; streamed where" in describe(there, needed * 0.9).text
    auto = RelationalLinearSVC(memory_limit=needed * 0.9, **few).fit(there)
    assert isinstance(made[0].nodes[0], stream.StoredNode)
    assert auto.dual_bound_ <= high
    assert low <= auto.objective_interval_[1]
    RelationalLinearSVC(memory_limit=needed * 1.1, max_iter=1, tol=1.0, **few).fit(there)
    assert len(made) == 1


def write_parquet(frame, path):
    import duckdb

    duckdb.from_df(frame).write_parquet(str(path))


def test_files_go_with_the_oracle_and_lists_are_limited():
    join = chain(2000, 100, 3)
    oracle = stream_of(join)
    folder = Path(oracle.nodes[0].path).parent
    assert folder.exists()
    beta = np.ones(oracle.width)
    oracle.memory = 1e-3
    with pytest.raises(MemoryError, match="engine='sql'"):
        oracle(beta, hinge(), 1024)
    del oracle
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize("kept", ["in files", "here"])
def test_a_grid_is_made_coarser_where_its_lists_take_more_than_the_memory(kept):
    join = chain(2000, 100, 3)
    oracle = stream_of(join) if kept == "in files" else grid_oracle(prepare(join))
    beta = np.random.default_rng(0).normal(size=oracle.width)
    fine = oracle(beta, hinge(), 1 << 16)
    oracle.memory = 0.2
    with pytest.raises(MemoryError):
        oracle.at_step(beta, hinge(), grid_module.step_of([node.span(beta) for node in oracle.nodes], 1 << 16))
    coarse = oracle(beta, hinge(), 1 << 16)
    assert coarse.lower <= fine.lower <= fine.upper <= coarse.upper
    assert coarse.upper - coarse.lower > 10 * (fine.upper - fine.lower)
    assert not oracle.can_refine


@pytest.mark.parametrize(("module", "name"), [
    (prepare_module, "encode"), (prepare_module, "table_data"), (grid_module.compiled, "meet")])
def test_nothing_begins_after_the_time_is_up(monkeypatch, module, name):
    """Of keys, tables and pieces of the root's rows only the one is done within which the time ends."""
    done = []
    work = getattr(module, name)

    def last(*arguments):
        done.append(name)
        late.append(1000.0)
        return work(*arguments)

    late = [0.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: sum(late)))
    monkeypatch.setattr(module, name, last)
    monkeypatch.setattr(grid_module, "PRODUCT_ENTRIES", 1)

    def counted():
        oracle = grid_oracle(prepare(chain(120, 10, 3)))
        oracle(np.ones(oracle.width), hinge(), 1024)

    with deadline.time_limit(100), pytest.raises(TimeoutError, match="max_time was spent while the join"):
        counted()
    assert len(done) == 1
