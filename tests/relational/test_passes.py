"""Passes as SQL: against every row of the join, made by pandas."""

import numpy as np
import pytest
from relational_problems import design, joined, materialise, random_join
from relational_storage import in_database

from buttress.relational import Join, Table
from buttress.relational.counting.margins import HINGE_WIDTHS, evaluation, hinge, margin_loss
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.databases import select
from buttress.relational.sources.dialects import POSTGRES
from buttress.relational.sql.oracle import SqlOracle

LOSSES = (hinge(), hinge(HINGE_WIDTHS[0]), hinge(0.4), margin_loss("logistic"))
STEPS = (0.0371, 1e-4, 0.3, 0.05)  # of each loss


def enumerated(join, beta, loss, step, per_label_row=False):
    """The evaluation over all rows of the join, each table's share of a score rounded by itself."""
    plan, rows = prepare(join), materialise(join)
    X, y, weight = design(join, plan, rows)
    if per_label_row:
        weight = weight / rows.groupby("t0.#")["t0.#"].transform("size").to_numpy()
    shares = [X[:, part] @ beta[part] for part in plan.slices]
    z = y * step * sum(np.floor(share / step + 0.5) for share in shares)
    b = X.T @ (weight * y * loss.slope(z)) / weight.sum()
    return evaluation(loss, beta, b, z, weight / weight.sum(), len(shares) * step / 2 * (1 + 1e-9))


def assert_counts_as_enumerated(join, there, *, per_label_row=False, losses=LOSSES, steps=STEPS):
    oracle = SqlOracle(there, per_label_row=per_label_row)
    beta = 2 * np.random.default_rng(0).normal(size=oracle.plan.width)
    for step, loss in zip(steps, losses):
        found = oracle.at_step(beta, loss, step)
        expected = enumerated(join, beta, loss, step, per_label_row)
        for name in ("a", "b", "lower", "upper", "smooth"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-9)


@pytest.mark.parametrize("how", [{}, {"weights": True}, {"left": True}], ids=["plain", "weights", "left"])
@pytest.mark.parametrize("seed", range(6))  # of each shape
def test_every_row_is_counted_on_duckdb(seed, how):
    join = joined(seed, **how)
    assert_counts_as_enumerated(join, join)


def test_label_rows_weigh_one():
    for how in ({}, {"weights": True}, {"left": True}):
        join = joined(1, **how)
        assert_counts_as_enumerated(join, join, per_label_row=True)


def test_all_rows_on_one_side_of_the_margin():
    """Scores of 0 lie below it; a large intercept puts one class above it."""
    join = joined(0)
    oracle = SqlOracle(join)
    for intercept in (0.0, 50.0):
        beta = np.zeros(oracle.plan.width)
        beta[oracle.plan.slices[0].stop - 1] = intercept
        found = oracle.at_step(beta, hinge(), 0.1)
        expected = enumerated(join, beta, hinge(), 0.1)
        assert (found.lower, found.upper) == pytest.approx((expected.lower, expected.upper), abs=1e-9)
        np.testing.assert_allclose(found.b, expected.b, atol=1e-9)


def test_every_row_is_counted_on_postgres(postgres):
    owner, reader = postgres
    for seed, how in ((1, {"weights": True}), (2, {"left": True})):
        join = joined(seed, **how)
        there = in_database(join, reader, owner.execute, POSTGRES, f"meeting{seed}")
        assert_counts_as_enumerated(join, there)


def test_every_row_is_counted_on_spark(spark):
    join = joined(0, left=True, rows=5, shape="composite")
    views = {}
    for table in join.tables:
        frame = table.source.astype(object).where(table.source.notna(), None)
        kinds = {c: "STRING" if c == "c" else "DOUBLE" if c[0] == "x" else "BIGINT" for c in frame}
        schema = ", ".join(f"{c} {kind}" for c, kind in kinds.items())
        spark.createDataFrame(frame.to_numpy().tolist(), schema).createOrReplaceTempView(f"meeting_{table.name}")
        views[table.name] = (spark, f"meeting_{table.name}")
    tables = [Table(t.name, views[t.name], features=t.features, label=t.label) for t in join.tables]
    assert_counts_as_enumerated(join, Join(tables, join.on), losses=LOSSES[:1])


def test_slopes_at_one_point_are_counted_once(monkeypatch):
    """A fit asks for three slopes at its start; other points, and finer grids, are counted again."""
    sent = []

    def noting(connection, statement, dialect):
        sent.append(statement)
        return select(connection, statement, dialect)

    oracle = SqlOracle(random_join(1, rows=12))
    beta = np.random.default_rng(0).normal(size=oracle.plan.width)
    monkeypatch.setattr("buttress.relational.sql.oracle.select", noting)
    sent_by = []
    for point, bins in ((beta, 64), (beta, 256), (2 * beta, 256)):
        for loss in (hinge(), *map(hinge, HINGE_WIDTHS)):
            before = len(sent)
            oracle(point, loss, bins)
            sent_by.append(len(sent) - before)
    # range of scores and pass, for every point and grid
    assert sent_by == [2, 0, 0, 2, 0, 0, 2, 0, 0]
