"""Joins of kinds that random schemas seldom have: every engine brackets what pandas' own join gives."""

import numpy as np
import pytest
from relational_problems import design, hinge_mean, materialise
from relational_shapes import SEEDS, SHAPES, shaped
from relational_storage import in_database, in_spark
from sklearn.svm import LinearSVC

from buttress.relational import RelationalLinearSVC
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.dialects import DUCKDB, POSTGRES
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.stream import streamed

ALPHA = 1e-2
MEGABYTES = 100


class Listed:
    """The rows of a join as pandas joins them."""

    def __init__(self, join):
        self.plan = prepare(join)
        self.X, self.y, self.weight = design(join, self.plan, materialise(join))

    def loss(self, beta):
        return hinge_mean(self.X, self.y, self.weight, beta)


def check_pass(oracle, rows):
    """One pass brackets the loss, its plane holds, and all rows are there."""
    first, other = np.random.default_rng(0).normal(size=(2, rows.X.shape[1]))
    seen = oracle(first, hinge(), 256)
    assert oracle.total == pytest.approx(len(rows.y), rel=1e-12)
    assert seen.lower - 1e-12 <= rows.loss(first) <= seen.upper + 1e-12
    assert seen.upper - seen.lower < 0.1 * seen.upper
    assert seen.a - seen.b @ other <= rows.loss(other) + 1e-12


def check_fit(join, rows, engine):
    """The fit's interval holds its own objective and, where liblinear converges, liblinear's."""
    model = RelationalLinearSVC(ALPHA, row_weight="join", n_samples=1, random_state=0, engine=engine).fit(join)
    low, high = model.objective_interval_
    assert model.n_join_rows_ == len(rows.y)
    assert model.gap_ <= 1e-3
    assert low - 1e-12 <= rows.loss(model.beta_) + ALPHA * model.beta_ @ model.beta_ <= high + 1e-12
    beta = LinearSVC(loss="hinge", C=1 / (2 * ALPHA * len(rows.y)), fit_intercept=False, tol=1e-5, max_iter=5000,
                     random_state=0).fit(rows.X, rows.y).coef_[0]
    assert rows.loss(beta) + ALPHA * beta @ beta >= low - 1e-12


def check_engines(join, there):
    rows = Listed(join)
    check_pass(grid_oracle(rows.plan), rows)
    sql = SqlOracle(there)
    check_pass(sql, rows)
    check_pass(streamed(sql, MEGABYTES), rows)
    return rows


@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
def test_shapes_here_and_on_duckdb(duckdb_connection, kind):
    join = shaped(kind, 0)
    check_engines(join, in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, kind.__name__))


def test_shapes_on_postgres(postgres):
    owner, reader = postgres
    for kind in SHAPES[2:9:3]:
        join = shaped(kind, 0)
        check_engines(join, in_database(join, reader, owner.execute, POSTGRES, f"one_{kind.__name__}", "TEXT"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
def test_all_shapes_are_fitted_on_every_engine(duckdb_connection, postgres, kind, seed):
    owner, reader = postgres
    join = shaped(kind, seed)
    name = f"{kind.__name__}{seed}"
    places = (in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, name),
              in_database(join, reader, owner.execute, POSTGRES, name, "TEXT"))
    for there in places:
        rows = check_engines(join, there)
        for engine in ("sql", "stream"):
            check_fit(there, rows, engine)
    check_fit(join, rows, "memory")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
def test_shapes_on_spark(spark, kind, seed):
    join = shaped(kind, seed)
    check_engines(join, in_spark(join, spark, f"{kind.__name__}{seed}"))
