"""Words of time against pandas by hand, on every engine: equal counts and dates, numbers within rounding, no future."""

import tracemalloc
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database

from buttress.relational import EntityFeatures, Join, Table
from buttress.relational.entities import database
from buttress.relational.entities.paths import blocks
from buttress.relational.sources.blocks import number_blocks
from buttress.relational.sources.databases import select
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

START = pd.Timestamp("2024-02-27 05:00")
ROWS = ("count", "count:20h", "count:20h/all", "count:1d", "count:3rows", "count:0.5w")
TIMES = ("since_last", "since_first", "gap_mean", "gap_last", "overdue")
NUMBERS = ("sum", "sum:20h", "sum:20h/all", "mean:1d", "mean:3rows", "min:1d", "max:2rows", "std:1d", "std:3rows",
           "trend", "trend:1d", "trend:4rows", "shrunk", "shrunk:1d", "shrunk:3rows")
TEXT = ("share:1d", "share:3rows", "share:1d/all", "sum_by", "sum_by:1d", "distinct")
DATE = ("hour", "weekday", "season_sin", "season_cos")
EXACT = {"distinct", *ROWS, *TIMES, "hour", "weekday", "min:1d", "max:2rows"}


def shop(seed=0, n=12, inner_time=False, many=False):
    """Questions about customers, their orders (with a time) and the items of these; NULLs, ties and unknown keys.

    Where there are ``many``, an item belongs to several orders.
    """
    rng = np.random.default_rng(seed)

    def moments(size):
        return START + pd.to_timedelta(rng.integers(0, 60, size) * 3, unit="h")

    asked = pd.DataFrame({"id": np.arange(n), "cust": pd.array(rng.integers(0, 9, n), "Int64"), "at": moments(n)})
    asked["cust"] = asked["cust"].mask(rng.random(n) < 0.1)
    orders = pd.DataFrame({"cust": rng.integers(0, 10, 90), "no": np.arange(90), "t": moments(90),
                           "amount": (1000 + 100 * rng.normal(size=90)).round(2)})
    orders["amount"] = orders["amount"].mask(rng.random(90) < 0.15)
    orders["t"] = orders["t"].mask(rng.random(90) < 0.05)
    orders["no"] = rng.integers(0, 14, 90) if many else orders["no"]
    items = pd.DataFrame({"no": rng.integers(0, 16 if many else 95, 200), "price": rng.normal(size=200).round(3),
                          "made": moments(200), "kind": rng.choice(["a", "it's"], 200)})
    items["kind"] = items["kind"].astype(object).mask(rng.random(200) < 0.1, None)
    tables = [Table("asked", asked), Table("orders", orders, features=["amount"], time="t"),
              Table("items", items, features=["price", "kind"], time="made" if inner_time else None)]
    return Join(tables, [("asked.cust", "orders.cust"), ("orders.no", "items.no")], as_of="asked.at")


shared = cache(shop)  # for tests that change nothing: what is right by hand is then worked out once


@cache
def questions(join):
    """Each question with the rows known to it."""
    return [(question, rows_known(join, question)) for _, question in join.tables[0].source.iterrows()]


def rows_known(join, question):
    """The orders and items of one question, with the time they were known at, as a person would select them."""
    orders, items = join.tables[1].source, join.tables[2].source
    mine = orders[orders["cust"] == question["cust"]] if pd.notna(question["cust"]) else orders[:0]
    theirs = mine.merge(items, on="no")
    theirs["t"] = theirs[["t", "made"]].max(axis=1, skipna=False) if join.tables[2].time else theirs["t"]
    return {"orders": mine[mine["t"] < question["at"]], "items": theirs[theirs["t"] < question["at"]]}


def in_window(rows, window, at):
    if window.endswith("rows"):
        k = int(window[:-4])
        return rows[[(rows["t"] > t).sum() < k for t in rows["t"]]] if len(rows) else rows
    return rows[rows["t"] >= at - pd.Timedelta(window.replace("0.5w", "84h").replace("d", "D"))] if window else rows


def slope(rows, column):
    """The least-squares slope a day in exact arithmetic, and what rounding may be measured by."""
    rows = rows.dropna(subset=[column])
    days = [Fraction(int(value), 86_400_000_000) for value in (rows["t"] - START) // pd.Timedelta("1us")]
    if len(set(days)) < 2:
        return np.nan, 0.0
    values = [Fraction(value) for value in rows[column].tolist()]
    mean_day, mean_value = sum(days) / len(days), sum(values) / len(values)
    below = sum((day - mean_day) ** 2 for day in days)
    over = [(day - mean_day) * (value - mean_value) for day, value in zip(days, values)]
    size = sum(abs(day - 8) for day in days) * max(abs(value) for value in values)
    return float(sum(over) / below), float(size / below)


def said(word, rows, column, category, by, usual):
    """What a word says of rows, and the sum of absolute terms that its rounding is measured by."""
    if word == "count":
        return float(len(rows)), 0.0
    if word == "distinct":
        return float(rows[column].nunique()), 0.0
    if word == "share":
        return (rows[column] == category).mean() if len(rows) else 0.0, 1.0
    if word == "trend":
        return slope(rows, column)
    values = (rows if word != "sum_by" else rows[rows[by] == category])[column].dropna()
    size = values.abs().sum()
    if word == "shrunk":
        return (values - usual).sum() / (len(values) + 10), (values - usual).abs().sum()
    if word == "std":
        return values.std(), size * size / max(values.std() or 1.0, 1e-9)
    return getattr(values, word.removesuffix("_by"))(), size


def of_times(word, times, at):
    days = [Fraction(int((at - time) // pd.Timedelta("1us")), 86_400_000_000) for time in times.sort_values()]
    if not days:
        return np.nan
    if word in ("since_last", "since_first"):
        return float(days[-1] if word == "since_last" else days[0])
    gaps = [before - after for before, after in pairwise(days)]
    if not gaps:
        return np.nan
    if word == "gap_last":
        return float(gaps[-1])
    mean = sum(gaps) / len(gaps)
    return float(mean) if word == "gap_mean" else float(days[-1] / mean) if mean else np.nan


def of_date(word, at):
    turn = 2 * np.pi * ((at - pd.Timestamp(0)) / pd.Timedelta("1D")) / 365.2425
    return {"hour": at.hour, "weekday": at.weekday(), "season_sin": np.sin(turn), "season_cos": np.cos(turn)}[word]


@cache
def by_hand(join, feature, usual):
    """A feature's value for each question, and the sums that its rounding is measured by."""
    table, function, column, category, by = feature
    found = []
    for question, known in questions(join):
        word, _, window = function.partition(":")
        if word in DATE:
            found.append((of_date(word, question["at"]), 1.0))
            continue
        rows = known[table]
        if word in TIMES:
            found.append((of_times(word, rows["t"], question["at"]), 0.0))
            continue
        value, size = said(word, in_window(rows, window.removesuffix("/all"), question["at"]), column, category, by,
                           usual)
        if window.endswith("/all"):
            whole, _ = said(word, rows, column, category, by, usual)
            value, size = (value / whole, 1 + abs(size / whole)) if whole else (np.nan, 0.0)
        found.append((value, size))
    return np.array(found, dtype=float).T


def check(join, made, found):
    assert found.shape[1] == len(made.features_)
    for feature, name, values in zip(made.features_, made.get_feature_names_out(), found.T):
        wanted, size = by_hand(join, feature, made.centers_.get(f"{feature[0]}.{feature[2]}"))
        if feature[1] in EXACT and feature[1] not in ("gap_mean", "overdue"):
            np.testing.assert_array_equal(values, wanted, err_msg=name)
            continue
        np.testing.assert_array_equal(np.isnan(values), np.isnan(wanted), err_msg=name)
        there = ~np.isnan(wanted)
        error = np.abs(values - wanted)[there]
        assert (error <= 1e-12 * np.maximum(size, np.abs(wanted))[there]).all(), (name, error.max())


WORDS = (*ROWS, *TIMES, *NUMBERS, *TEXT, *DATE)
WAYS = pytest.mark.parametrize("inner", [False, True], ids=["one time", "two times"])


@WAYS
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_words_are_those_of_pandas_by_hand(engine, inner):
    join = shared(inner_time=inner)
    made = EntityFeatures(join, WORDS, missing="nan", engine=engine)
    found = made.fit_transform(join.tables[0].source)
    assert {function for _, function, *_ in made.features_} == set(WORDS)
    check(join, made, found)


@WAYS
@pytest.mark.usefixtures("dates")
def test_few_questions_and_many_are_answered_alike(inner, monkeypatch):
    """Few are looked up by their keys; of many, whole tables are read."""
    join = shared(inner_time=inner)
    rows = join.tables[0].source
    monkeypatch.setattr("buttress.relational.entities.database.FEW", 0)
    made = EntityFeatures(join, WORDS, missing="nan", engine="sql")
    check(join, made, made.fit_transform(rows))


def in_small_blocks(monkeypatch, pairs):
    """Pairs are held in so small blocks; the limit of a table's rows too."""
    monkeypatch.setattr("buttress.relational.entities.database.PAIRS", pairs)
    monkeypatch.setattr("buttress.relational.entities.database.blocks",
                        lambda keys, sizes, _: blocks(keys, sizes, pairs))


@pytest.mark.parametrize("pairs", [100, 1 << 21])
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_many_to_many_with_two_times_is_pandas_by_hand(engine, pairs, monkeypatch):
    join = shared(7, n=20, inner_time=True, many=True)
    orders, items = join.tables[1].source, join.tables[2].source
    assert len(orders.merge(items, on="no")) > 4 * len(items)
    in_small_blocks(monkeypatch, pairs)
    made = EntityFeatures(join, WORDS, missing="nan", engine=engine)
    check(join, made, made.fit_transform(join.tables[0].source))


@pytest.mark.parametrize("pairs", [100, 1 << 21])
def test_many_to_many_agrees_in_databases(duckdb_connection, postgres, pairs, monkeypatch):
    owner, reader = postgres
    join = shared(7, n=20, inner_time=True, many=True)
    in_small_blocks(monkeypatch, pairs)
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(join, connection, execute, dialect, f"mm{pairs}")
        check_stored(join, there, lambda text, place=connection: place.execute(text).fetchall())
    reader.rollback()


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_pairs_with_a_future_row_change_nothing(engine, monkeypatch):
    """Rows of both tables from the date on change their number, value, key and time, which changes the blocks too."""
    join = shop(9, inner_time=True, many=True)
    rows = join.tables[0].source.assign(at=START + pd.Timedelta("90h"))
    in_small_blocks(monkeypatch, 150)
    made = EntityFeatures(join, WORDS, missing="nan", engine=engine)
    before = made.fit_transform(rows)
    rng = np.random.default_rng(1)
    for table, time, number in ((join.tables[1], "t", "amount"), (join.tables[2], "made", "price")):
        frame = table.source
        later = (frame[time] >= START + pd.Timedelta("90h")).to_numpy()
        more = frame[later].sample(2 * later.sum(), replace=True, random_state=0)
        more = more.assign(**{time: START + pd.to_timedelta(rng.integers(90, 300, len(more)), unit="h"),
                              number: 1e6 * rng.normal(size=len(more)), "no": rng.integers(0, 16, len(more))})
        assert len(more)
        table.source = pd.concat([frame[~later], more]).sample(frac=1, random_state=1)
    np.testing.assert_allclose(made.transform(rows), before, rtol=1e-12, atol=1e-9)


def test_pairs_are_held_in_blocks(monkeypatch):
    """A hundred keys of a hundred rows on both sides are a million pairs, of which a part is held at a time."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"id": np.arange(100), "at": 50})
    near, far = (pd.DataFrame({"id": np.repeat(np.arange(100), 100), "k": np.repeat(np.arange(100), 100),
                               "t": rng.integers(0, 99, 10_000), "x": rng.normal(size=10_000)}) for _ in range(2))
    join = Join([Table("rows", rows), Table("near", near, time="t"), Table("far", far, features=["x"], time="t")],
                [("rows.id", "near.id"), ("near.k", "far.k")], as_of="rows.at")
    monkeypatch.setattr("buttress.relational.entities.database.PAIRS", 20_000)
    made = EntityFeatures(join, ("sum",))
    tracemalloc.start()
    found = made.fit_transform(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    known = [frame[frame["t"] < 50].groupby("k")["x"] for frame in (near, far)]
    np.testing.assert_allclose(found[:, 0], known[0].size() * known[1].sum(), rtol=1e-12, atol=1e-9)
    assert peak < 8e6  # a million pairs are 8 MB a value, and there are several


def test_one_entity_is_looked_up_by_its_key(postgres, monkeypatch):
    """PostgreSQL reads no whole table for it, and leaves its setting as it was in a transaction of the user's."""
    owner, reader = postgres
    for made in ("CREATE TABLE ones AS SELECT i AS no, i % 5000 AS cust, i % 50 AS t, 1.0 AS x FROM "
                 "generate_series(1, 20000) i", "CREATE TABLE more AS SELECT i % 20000 AS no, 2.0 AS y FROM "
                 "generate_series(1, 40000) i", "CREATE INDEX ON ones (cust)", "CREATE INDEX ON ones (no)",
                 "CREATE INDEX ON more (no)", "ANALYZE ones", "ANALYZE more"):
        owner.execute(made)
    rows = pd.DataFrame({"cust": [7], "at": [40]})
    join = Join([Table("asked", rows), Table("ones", (reader, "ones"), features=["x"], time="t"),
                 Table("more", (reader, "more"), features=["y"])],
                [("asked.cust", "ones.cust"), ("ones.no", "more.no")], as_of="asked.at")
    made = EntityFeatures(join, ("count", "sum:30", "distinct", "since_last"), missing="nan", engine="sql").fit(rows)
    plans = []

    def explained(connection, statement, dialect, *more):
        plans.extend(row[0] for row in select(connection, f"EXPLAIN {statement}", dialect))
        return number_blocks(connection, statement, dialect, *more)

    monkeypatch.setattr(database, "number_blocks", explained)
    try:
        reader.rollback()
        reader.execute("SELECT set_config('enable_nestloop', 'off', true)")
        found = made.transform(rows)[0]
        assert reader.execute("SHOW enable_nestloop").fetchone() == ("off",)
    finally:
        reader.rollback()
        owner.execute("DROP TABLE ones, more")
    known = [i for i in range(1, 20001) if i % 5000 == 7 and i % 50 < 40]
    assert dict(zip(made.get_feature_names_out(), found))["ones.count"] == len(known)
    assert dict(zip(made.get_feature_names_out(), found))["more.count"] == 2 * len(known)
    assert plans
    assert not [line for line in plans if "Seq Scan on ones" in line or "Seq Scan on more" in line]


def check_stored(join, there, read):
    rows = join.tables[0].source
    made = EntityFeatures(there, WORDS, missing="nan", engine="sql").fit(rows)
    check(join, made, made.transform(rows))
    stored = {row[0]: row[1:] for row in read(made.to_sql(["id"]))}
    check(join, made, np.array([stored[i] for i in rows["id"]], dtype=float))


@WAYS
@pytest.mark.usefixtures("dates")
def test_duckdb_agrees(duckdb_connection, inner):
    join = shared(inner_time=inner)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "w")
    check_stored(join, there, lambda text: duckdb_connection.execute(text).fetchall())


@WAYS
def test_postgres_agrees(postgres, inner, dates):
    owner, reader = postgres
    join = shared(inner_time=inner)
    there = in_database(join, reader, owner.execute, POSTGRES, f"w{inner}{dates}")
    check_stored(join, there, lambda text: reader.execute(text).fetchall())
    reader.rollback()


def test_a_statement_written_when_keys_had_few_dates_is_right_of_many(duckdb_connection):
    join = shop(8, n=60)
    read = duckdb_connection.execute
    made = EntityFeatures(in_database(join, duckdb_connection, read, DUCKDB, "grown"), missing="nan", engine="sql",
                          functions=("count", "sum", "last", "count:20h", "mean:3rows", "gap_last", "distinct"))
    made.fit(join.tables[0].source)
    of_many = made.to_sql(["id"])
    read("CREATE TABLE later AS SELECT * FROM grown_asked WHERE id > 3")
    read("DELETE FROM grown_asked WHERE id > 3")
    of_few = made.to_sql(["id"])
    read("INSERT INTO grown_asked SELECT * FROM later")
    assert ["pairs of a row" in text for text in (of_many, of_few)] == [False, True]
    for text in (of_many, of_few):
        stored = {row[0]: row[1:] for row in read(text).fetchall()}
        found = np.array([stored[i] for i in join.tables[0].source["id"]], dtype=float)
        np.testing.assert_allclose(found, EntityFeatures(join, made.functions, missing="nan").fit_transform(
            join.tables[0].source), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("engine", "few"), [("memory", 0), ("sql", 0), ("sql", 99)])
def test_no_word_sees_the_future(engine, few, monkeypatch):
    """Rows from the date on are moved, made larger or taken away: nothing changes."""
    monkeypatch.setattr("buttress.relational.entities.database.FEW_DATES", few)
    join = shop(4, inner_time=True)
    rows = join.tables[0].source.assign(at=START + pd.Timedelta("90h"))
    made = EntityFeatures(join, (*ROWS, *TIMES, *NUMBERS, *TEXT), missing="nan", engine=engine)
    before = made.fit_transform(rows)
    rng = np.random.default_rng(0)
    for table, time, number in ((join.tables[1], "t", "amount"), (join.tables[2], "made", "price")):
        later = (table.source[time] >= START + pd.Timedelta("90h")).to_numpy()
        frame = table.source[rng.random(len(later)) < np.where(later, 0.7, 2)].copy()
        later = frame[time] >= START + pd.Timedelta("90h")
        frame.loc[later, number] = rng.permutation(frame.loc[later, number]) * 50
        frame.loc[later, time] += pd.to_timedelta(rng.integers(0, 99, later.sum()), unit="h")
        assert later.any()
        table.source = frame
    for feature, now, then in zip(made.features_, made.transform(rows).T, before.T):
        size = 0 if feature[1] in EXACT else 1e-12  # a database adds up in any order
        np.testing.assert_allclose(now, then, rtol=size, atol=size, err_msg=str(feature))


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_times_that_are_numbers_have_windows_in_their_own_unit(engine):
    rows = pd.DataFrame({"k": [1, 2], "at": [10.0, 10.0]})
    other = pd.DataFrame({"k": [1, 1, 1, 2], "v": [1.0, 2.0, 4.0, 8.0], "t": [1.5, 8.0, 9.5, 10.0]})
    join = Join([Table("rows", rows), Table("other", other, features=["v"], time="t")], [("rows.k", "other.k")],
                as_of="rows.at")
    made = EntityFeatures(join, ("count:2", "sum:1.5", "since_last", "trend", "gap_last"), missing="nan", engine=engine)
    found = dict(zip(("count", "since", "gap", "sum", "trend"), made.fit_transform(rows).T))
    assert found["count"].tolist() == [2, 0]
    assert found["sum"].tolist() == [4, 0]
    np.testing.assert_array_equal(found["since"], [0.5, np.nan])
    np.testing.assert_array_equal(found["gap"], [1.5, np.nan])
    assert found["trend"][0] == pytest.approx(np.polyfit(other["t"][:3], other["v"][:3], 1)[0])
    with pytest.raises(ValueError, match=r"times of this join are numbers.*window or delay '30d'.*Use '30'"):
        EntityFeatures(join, ("count:30d",), engine=engine).fit(rows)


@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize("years", [1, 10, 30])
def test_a_slope_of_seconds_seen_years_later_is_right_or_missing(years, engine):
    """The squares of the ages cancel in the spread of the times."""
    begun = np.datetime64("2000-01-01T00:00:00", "us")
    rows = pd.DataFrame({"id": [1], "date": begun + np.timedelta64(365 * years, "D")})
    other = pd.DataFrame({"id": 1, "time": begun + np.arange(5) * np.timedelta64(1, "s"), "v": np.arange(5.0)})
    join = Join([Table("rows", rows), Table("other", other, features=["v"], time="time")], [("rows.id", "other.id")],
                as_of="rows.date")
    found = EntityFeatures(join, ["trend"], missing="nan", engine=engine).fit_transform(rows)[0, 0]
    assert np.isnan(found) or found == pytest.approx(86_400, rel=1e-5)


def test_a_slope_keeps_its_digits_where_times_are_close_together_and_values_are_far_from_zero():
    rows = pd.DataFrame({"k": [1], "at": [pd.Timestamp("2024-06-01 00:01")]})
    seconds = np.arange(50)
    other = pd.DataFrame({"k": 1, "t": pd.Timestamp("2024-06-01") + pd.to_timedelta(seconds, unit="s"),
                          "v": 1e6 + 3.0 * seconds})
    join = Join([Table("rows", rows), Table("other", other, features=["v"], time="t")], [("rows.k", "other.k")],
                as_of="rows.at")
    for engine in ("memory", "sql"):
        found = EntityFeatures(join, ("trend",), engine=engine).fit_transform(rows)
        assert found[0, 0] == pytest.approx(3 * 86400, rel=1e-12)


BAD = [
    (("count:30",), "times of this join are dates.*Use '30d'"),
    (("count:month",), "A window is a length"),
    (("count:0d",), "A window is a length"),
    (("count:1.5rows",), "A window is a length"),
    (("count:",), "A window is a length"),
    (("last:30d",), "'last' has no window"),
    (("trnd",), "Did you mean 'trend'"),
]


@pytest.mark.parametrize(("functions", "message"), BAD, ids=[functions[0] for functions, _ in BAD])
def test_what_is_no_word_is_refused_with_what_to_do(functions, message):
    join = shop(0)
    with pytest.raises(ValueError, match=message):
        EntityFeatures(join, functions).fit(join.tables[0].source)


@pytest.mark.parametrize("word", ["since_last", "count:30d", "trend", "weekday"])
def test_a_word_of_time_without_a_date_is_refused(word):
    frame = pd.DataFrame({"k": [1], "v": [1.0]})
    join = Join([Table("a", frame), Table("b", frame, features=["v"])], [("a.k", "b.k")])
    with pytest.raises(ValueError, match=r"the join has none.*as_of='table\.column'"):
        EntityFeatures(join, (word,)).fit(frame)


def test_the_calendar_of_a_number_is_refused():
    frame = pd.DataFrame({"k": [1], "v": [1.0], "at": [1]})
    join = Join([Table("a", frame), Table("b", frame, time="at")], [("a.k", "b.k")], as_of="a.at")
    with pytest.raises(ValueError, match=r"'hour' is of a date, and as_of='a\.at' holds numbers"):
        EntityFeatures(join, ("hour",)).fit(frame)
