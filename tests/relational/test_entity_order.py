"""Rows of the same time in the order of a second column, against pandas by hand, on every engine; what is refused."""

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database, in_spark

from buttress.relational import EntityFeatures, Join, SourceLostError, Table
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

ALL = ("count", "sum", "last", "distinct")  # what a picture of all rows has
WORDS = (*ALL, "count:2rows", "sum:1rows", "mean:3rows", "min:2rows", "max:2rows", "std:3rows", "share:2rows",
         "sum_by:2rows", "trend:4rows", "sum:2", "gap_last", "since_last", "sum:2rows/all")
ORDERS = {"whole": lambda order: order.astype("Int64"), "real": lambda order: order * 0.25 - 3,
          "date": lambda order: pd.Timestamp("2024-01-01") + pd.to_timedelta(order * 17, unit="us")}


def shop(seed=0, kind="whole", dated=True, inner=False, many=False):
    """Questions, orders and items of orders, days of which many rows share, and orders of a time with NULLs and ties.
    """
    rng = np.random.default_rng(seed)
    asked = pd.DataFrame({"id": np.arange(14), "cust": rng.integers(0, 8, 14), "at": rng.integers(1, 7, 14)})

    def rows(n, **columns):
        order = pd.Series(rng.integers(-4, 9, n).astype(float)).mask(rng.random(n) < 0.15)
        value = pd.Series(rng.integers(-50, 50, n).astype(float)).mask(rng.random(n) < 0.15)
        text = pd.Series(rng.choice(["a", "b"], n)).astype(object).mask(rng.random(n) < 0.1, None)
        return pd.DataFrame({**columns, "t": rng.integers(0, 6, n), "o": ORDERS[kind](order), "x": value, "w": text})

    orders = rows(120, cust=rng.integers(0, 8, 120), no=rng.integers(0, 30, 120) if many else np.arange(120))
    items = rows(200, no=rng.integers(0, 40 if many else 130, 200))
    tables = [Table("asked", asked), Table("orders", orders, features=["x", "w"], time="t", order="o"),
              Table("items", items, features=["x", "w"], time="t", order="o")]
    if not inner:
        tables[1] = Table("orders", orders.drop(columns="t"), features=["x"])
    return Join(tables, [("asked.cust", "orders.cust"), ("orders.no", "items.no")],
                as_of="asked.at" if dated else "all")


def rows_of(join, question):
    """Rows of orders and of items that belong to a question: t when they were known, o their order, own their time."""
    orders, items = join.tables[1].source, join.tables[2].source
    mine = orders[orders["cust"] == question["cust"]]
    theirs = mine[["no", *(["t"] if "t" in mine else [])]].rename(columns={"t": "above"}).merge(items, on="no")
    theirs = theirs.assign(own=theirs["t"])
    if "above" in theirs:
        theirs["t"] = theirs[["t", "above"]].max(axis=1)
    mine = mine.assign(own=mine["t"]) if "t" in mine else mine
    found = {"orders": mine, "items": theirs}
    for name, rows in found.items():
        if "o" in rows:
            order = rows["o"]
            if str(order.dtype) == "Int64":  # of which pandas 2 ranks NULL like a number
                order = pd.Series(order.to_numpy(float, na_value=np.nan), rows.index)
            rank = order.rank(method="dense")  # NULL has none
            found[name] = rows.assign(o=rank.astype(float).fillna(0.0))
    return {name: rows[rows["t"] < question["at"]] if join.date and "t" in rows else rows
            for name, rows in found.items()}


def windowed(rows, window, at):
    if window.endswith("rows"):
        late = list(zip(rows["t"], rows["o"]))
        return rows[np.array([sum(other > one for other in late) < int(window[:-4]) for one in late], dtype=bool)]
    return rows[rows["t"] >= at - int(window)] if window else rows


def said(word, rows, column, category, by):
    if word == "count":
        return len(rows)
    if word == "distinct":
        return rows[column].nunique()
    if word == "share":
        return (rows[column] == category).mean() if len(rows) else 0.0
    if word == "last":
        known = rows.dropna(subset=[column]).sort_values(["own", "o", column])
        return known[column].iloc[-1] if len(known) else np.nan
    values = (rows[rows[by] == category] if word == "sum_by" else rows)[column].dropna()
    if word == "trend":
        t = rows.loc[values.index, "t"]
        return np.polyfit(t, values, 1)[0] if t.nunique() > 1 else np.nan
    return getattr(values, word.removesuffix("_by"))()


def of_times(word, times, at):
    times = times.sort_values().to_numpy()
    if word == "since_last":
        return at - times[-1] if len(times) else np.nan
    return times[-1] - times[-2] if len(times) > 1 else np.nan


def by_hand(questions, feature):
    table, function, *of = feature
    word, _, window = function.partition(":")
    found = []
    for question, known in questions:
        rows = known[table]
        if word in ("gap_last", "since_last"):
            found.append(of_times(word, rows["t"], question["at"]))
            continue
        value = said(word, windowed(rows, window.removesuffix("/all"), question["at"]), *of)
        if window.endswith("/all"):
            whole = said(word, rows, *of)
            value = value / whole if whole else np.nan
        found.append(value)
    return np.array(found, dtype=float)


def check(join, made, found):
    questions = [(question, rows_of(join, question)) for _, question in join.tables[0].source.iterrows()]
    for feature, name, values in zip(made.features_, made.get_feature_names_out(), found.T, strict=True):
        np.testing.assert_allclose(values, by_hand(questions, feature), rtol=1e-9, atol=1e-9, err_msg=name)


WAYS = [{"dated": False}, {}, {"inner": True}, {"inner": True, "many": True}]
EVERY_WAY = pytest.mark.parametrize("how", WAYS, ids=["all", "one time", "two times", "many to many"])


@EVERY_WAY
@pytest.mark.parametrize(("kind", "engine"), [("whole", "memory"), ("real", "sql"), ("date", "memory")])
def test_rows_of_one_time_follow_their_order(kind, engine, how):
    join = shop(0, kind, **how)
    words = WORDS if join.date else ALL
    made = EntityFeatures(join, words, missing="nan", engine=engine)
    check(join, made, made.fit_transform(join.tables[0].source))
    plain = {table.name: Table(table.name, table.source, features=table.features, time=table.time)
             for table in join.tables}
    other = EntityFeatures(Join(list(plain.values()), join.on, as_of=join.as_of), words, missing="nan", engine=engine)
    found = made.transform(join.tables[0].source)
    moved = (~np.isclose(found, other.fit_transform(join.tables[0].source), equal_nan=True)).any(axis=0)
    by_order = {feature[1] for feature, differs in zip(made.features_, moved) if differs}
    assert "last" in by_order  # the order is of consequence, and only for words that depend on it
    assert all(word == "last" or "rows" in word for word in by_order)


@EVERY_WAY
def test_databases_agree(duckdb_connection, postgres, how, dates):
    owner, reader = postgres
    join = shop(1, "date", **how)
    rows = join.tables[0].source
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(join, connection, execute, dialect, f"order{WAYS.index(how)}_{dates}")
        made = EntityFeatures(there, WORDS if join.date else ALL, missing="nan", engine="sql").fit(rows)
        check(join, made, made.transform(rows))
        stored = {row[0]: row[1:] for row in connection.execute(made.to_sql(["id"])).fetchall()}
        check(join, made, np.array([stored[i] for i in rows["id"]], dtype=float))
    reader.rollback()


def test_spark_agrees(spark):
    join = shop(2, "real", inner=True)
    there = in_spark(join, spark, "ordered")
    made = EntityFeatures(there, ("last", "mean:3rows", "count:2rows"), missing="nan", engine="sql")
    check(join, made, made.fit_transform(join.tables[0].source))


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_the_order_of_later_rows_says_nothing(engine):
    """An order that all rows are compared by, and that later rows have the largest values of."""
    join = shop(3, "real", inner=True)
    rows = join.tables[0].source.assign(at=4)
    made = EntityFeatures(join, WORDS, missing="nan", engine=engine)
    before = made.fit_transform(rows)
    for table in join.tables[1:]:
        later = table.source["t"] >= 4
        table.source = table.source.assign(o=table.source["o"].mask(later, 1e9), x=table.source["x"].mask(later, 77.0))
        assert later.any()
    np.testing.assert_allclose(made.transform(rows), before, rtol=1e-12)


def small(order, **given):
    rows = pd.DataFrame({"k": [1], "at": [9]})
    other = pd.DataFrame({"k": [1, 1], "t": [3, 3], "o": order, "x": [5.0, 4.0]})
    return Join([Table("rows", rows), Table("other", other, features=["x"], time="t", order="o", **given)],
                [("rows.k", "other.k")], as_of="rows.at")


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_null_is_before_all_else_and_an_order_may_be_of_nulls_alone(engine):
    for order, last in (([np.nan, -1e15], 4.0), ([-1e15, np.nan], 5.0), ([None, None], 5.0), ([False, True], 4.0)):
        join = small(order)
        made = EntityFeatures(join, ("last", "sum:1rows"), missing="nan", engine=engine)
        found = made.fit_transform(join.tables[0].source)
        assert found[0, 0] == last
        assert found[0, 1] == (9 if order == [None, None] else last)


@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize(("order", "message"), [
    ([2**53, 2**53 + 1], r"Order other\.o holds 9007199254740992.*floats beyond 2\^53"),
    ([np.inf, 1.0], r"Order other\.o holds inf"),
    (["b", "a"], r"Order other\.o must hold dates or numbers. Got text"),
], ids=["large", "infinite", "text"])
def test_an_order_that_floats_do_not_keep_is_refused(order, message, engine):
    join = small(order)
    with pytest.raises(ValueError, match=message):
        EntityFeatures(join, ("last",), engine=engine).fit(join.tables[0].source)


def test_an_order_or_a_delay_without_a_time_is_refused():
    frame = pd.DataFrame({"o": [1]})
    with pytest.raises(ValueError, match=r"order='o' of table 'a' .*none. Give it time='column' too"):
        Table("a", frame, order="o")
    with pytest.raises(ValueError, match=r"delay='3' of table 'a' .*none. Give it time='column' too"):
        Table("a", frame, delay="3")
    with pytest.raises(ValueError, match=r"no column 'p'"):
        Join([Table("a", frame, time="o", order="p")]).check()


def test_dates_that_floats_do_not_keep_are_refused():
    rows = pd.DataFrame({"k": [0, 0], "day": [5, 2**53 - 1]})
    other = pd.DataFrame({"k": [0, 0], "t": [2**53 + 1, 4]})  # the first is seen by no date, however it is rounded
    join = Join([Table("rows", rows), Table("other", other, time="t")], [("rows.k", "other.k")], as_of="rows.day")
    for engine in ("memory", "sql"):
        made = EntityFeatures(join, ("count", "since_last"), engine=engine)
        assert made.fit_transform(rows).tolist() == [[1, 1], [1, 2**53 - 5]]
        with pytest.raises(ValueError, match=r"as_of='rows\.day' holds 9007199254740992, and floats beyond 2\^53"):
            made.transform(rows.assign(day=[5, 2**53]))


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DATE"])
@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_infinite_dates_are_refused_by_every_engine(duckdb_connection, postgres, kind, value):
    """DuckDB takes the one for no date and the other for the year -290308; PostgreSQL has ages that are infinite."""
    owner, reader = postgres
    zone = "UTC" if "ZONE" in kind else None
    rows = pd.DataFrame({"k": [1, 2], "at": pd.to_datetime(["2024-02-03", "2024-02-04"]).tz_localize(zone)})
    name = f"infinite_{len(kind)}_{len(value)}"
    for connection, execute in ((duckdb_connection, duckdb_connection.execute), (reader, owner.execute)):
        execute(f"CREATE TABLE {name} AS SELECT i % 3 AS k, 1.0 * i AS z, CAST('2024-01-01' AS {kind}) AS at "
                "FROM generate_series(1, 300) s(i)")
        execute(f"INSERT INTO {name} VALUES (1, 7.0, CAST('{value}' AS {kind}))")  # behind the rows of a sample
        join = Join([Table("a", rows), Table("b", (connection, name), features=["z"], time="at")], [("a.k", "b.k")],
                    as_of="a.at")
        for engine in ("memory", "sql"):
            made = EntityFeatures(join, ["count", "since_first"], engine=engine)
            with pytest.raises((ValueError, SourceLostError), match=r"infinity.*Write a date"):
                made.fit_transform(rows)
        reader.rollback()
