"""What goes to DuckDB and comes back: keys of every type as arrays, the answer a block at a time, no trace left."""

import tracemalloc
from contextlib import contextmanager

import duckdb
import numpy as np
import pandas as pd
import pytest

from buttress.relational import EntityFeatures, Join, SourceLostError, Table

N = 3000
FEW = np.arange(N) % 7
KEYS = {
    "int": FEW, "small": FEW.astype(np.int8), "wide": FEW.astype(np.uint64) + 2**63, "bool": FEW > 3,
    "float": FEW / 4, "single": (FEW / 4).astype(np.float32), "text": np.array([f"k{i}" for i in FEW], dtype=object),
    "date": np.datetime64("2024-01-01", "us") + FEW.astype("timedelta64[h]"),
}


def joined(keys, rng, connection=None):
    asked = pd.DataFrame({"k": keys, "at": rng.integers(0, 50, N)})
    facts = pd.DataFrame({"k": keys, "t": rng.integers(0, 50, N), "x": rng.normal(size=N)})
    if connection is not None:
        connection.register("frame", facts)
        connection.execute("CREATE TABLE facts AS SELECT * FROM frame")
        connection.unregister("frame")
    there = facts if connection is None else (connection, "facts")
    return asked, Join([Table("asked", asked), Table("facts", there, features=["x"], time="t")],
                       [("asked.k", "facts.k")], as_of="asked.at")


@pytest.mark.parametrize("nulls", [0, 2500], ids=["all", "most NULL"])
@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_keys_of_every_type_are_found(keys, nulls):
    """In this process they are never sent."""
    if nulls:
        keys = pd.Series([None] * nulls + keys[nulls:].tolist(), dtype=object)
    asked, join = joined(keys, np.random.default_rng(0))
    here, there = (EntityFeatures(join, ["count", "max"], missing="nan", engine=engine).fit_transform(asked)
                   for engine in ("memory", "sql"))
    np.testing.assert_array_equal(here, there)
    assert here[nulls:, 0].max() > 0


def test_the_answer_is_held_once():
    """As objects of Python it would be five times as large, and the keys of its rows as text too."""
    asked, join = joined(FEW, np.random.default_rng(1))
    asked = pd.concat([asked] * 10, ignore_index=True)
    made = EntityFeatures(join, missing="nan", engine="sql").fit(asked[:100])
    made.transform(asked)
    tracemalloc.start()
    try:
        answer = made.transform(asked)
        assert tracemalloc.get_traced_memory()[1] < answer.nbytes + 8e6
    finally:
        tracemalloc.stop()


@contextmanager
def nothing_left(connection):
    yield
    assert connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []


@pytest.mark.parametrize("settings", [{}, {"enable_external_access": "false"}], ids=["", "locked"])
def test_a_connection_is_left_as_it_was(settings):
    with duckdb.connect(config=settings) as connection, nothing_left(connection):
        asked, join = joined(FEW, np.random.default_rng(2), connection)
        made = EntityFeatures(join, engine="sql").fit(asked)
        connection.execute("SELECT * FROM range(5)")
        assert connection.fetchone() == (0,)
        found = made.transform(asked)
        assert connection.fetchall() == [(1,), (2,), (3,), (4,)]
        connection.execute("BEGIN")
        connection.execute("INSERT INTO facts SELECT * FROM facts")
        np.testing.assert_array_equal(made.transform(asked)[:, 0], 2 * found[:, 0])
        connection.execute("ROLLBACK")


def test_a_failed_query_leaves_nothing_and_the_next_runs():
    with duckdb.connect() as connection, nothing_left(connection):
        asked, join = joined(FEW, np.random.default_rng(3), connection)
        made = EntityFeatures(join, engine="sql").fit(asked)
        connection.execute("ALTER TABLE facts RENAME t TO was")
        connection.execute("ALTER TABLE facts ADD COLUMN t BIGINT")
        connection.execute("UPDATE facts SET t = was")
        found = made.transform(asked)
        connection.execute("CREATE TABLE kept AS SELECT * FROM facts; DROP TABLE facts")
        connection.execute("CREATE VIEW facts AS SELECT k, x, CASE WHEN x > 3 THEN error('late') ELSE t END AS t "
                           "FROM kept")
        with pytest.raises(SourceLostError, match="late"):
            made.transform(asked)
        connection.execute("DROP VIEW facts; CREATE TABLE facts AS SELECT * FROM kept")
        np.testing.assert_allclose(made.transform(asked), found, rtol=1e-9, atol=1e-12)  # of rows in another order
