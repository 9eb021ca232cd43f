"""Features of entities: against pandas written by hand, on three engines, without leaks, and as scikit-learn has it."""

import gc
from copy import copy
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from relational_storage import in_database, in_spark, store
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler
from sklearn.utils import estimator_checks

from buttress import SVC, load, save
from buttress.relational import EntityFeatures, Join, Table, entity_table
from buttress.relational.entities.database import InDatabase
from buttress.relational.entities.features import center
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

FUNCTIONS = ("count", "mean", "sum", "min", "max", "std", "last", "share")


def bank(seed=0, n=30, dated=False, inner_time=False):
    """Loans of accounts with transactions; accounts and transactions without a loan, NULL keys, NULL values, ties."""
    rng = np.random.default_rng(seed)
    loans = pd.DataFrame({"account": rng.integers(0, 20, n), "day": rng.integers(0, 12, n), "sum": rng.normal(size=n),
                          "kind": rng.choice(["house", "car"], n), "bad": np.arange(n) % 2})
    loans["account"] = loans["account"].astype("Int64").mask(rng.random(n) < 0.1)
    accounts = pd.DataFrame({"id": np.arange(18), "age": rng.normal(size=18), "opened": rng.integers(0, 8, 18)})
    moves = pd.DataFrame({"account": rng.integers(0, 22, 150), "day": rng.integers(0, 12, 150),
                          "amount": (1000 + rng.normal(size=150)).round(3), "type": rng.choice(["in", "it's"], 150)})
    moves["amount"] = moves["amount"].mask(rng.random(150) < 0.2)
    moves["type"] = moves["type"].astype(object).mask(rng.random(150) < 0.1, None)
    tables = [Table("loans", loans, features=["sum", "kind"], label="bad"),
              Table("accounts", accounts, features=["age"], time="opened" if inner_time else None),
              Table("moves", moves, features=["amount", "type"], time="day")]
    return Join(tables, [("loans.account", "accounts.id"), ("accounts.id", "moves.account")],
                as_of="loans.day" if dated else "all")


def by_hand(join, row):
    """The features of one loan from its own rows, in plain pandas."""
    accounts, moves = (table.source for table in join.tables[1:])
    mine = accounts[accounts["id"] == row["account"]] if pd.notna(row["account"]) else accounts[:0]
    if join.date and join.tables[1].time:
        mine = mine[mine["opened"] < row["day"]]
    theirs = moves[moves["account"].isin(mine["id"])]
    if join.date:
        theirs = theirs[theirs["day"] < row["day"]]
    amount = theirs["amount"].dropna()
    latest = theirs.dropna(subset=["amount"]).sort_values(["day", "amount"])["amount"]
    shares = {f"moves.type={kind}.share": (theirs["type"] == kind).mean() if len(theirs) else 0.0
              for kind in ("in", "it's")}
    return {"loans.sum": row["sum"], "loans.kind=car": row["kind"] == "car", "loans.kind=house": row["kind"] == "house",
            "accounts.count": len(mine), "accounts.age.mean": mine["age"].mean(), "moves.count": len(theirs),
            "moves.amount.mean": amount.mean(), "moves.amount.sum": amount.sum(), "moves.amount.min": amount.min(),
            "moves.amount.max": amount.max(), "moves.amount.std": amount.std(),
            "moves.amount.last": latest.iloc[-1] if len(latest) else np.nan, **shares}


def expected(join):
    rows = join.tables[0].source
    return pd.DataFrame([by_hand(join, row) for _, row in rows.iterrows()]).astype(float)


WAYS = [{}, {"dated": True}, {"dated": True, "inner_time": True}]


@pytest.mark.parametrize("how", WAYS, ids=["all", "dated", "both dated"])
@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize("seed", [0, 1])
def test_features_are_those_of_pandas_by_hand(how, engine, seed):
    join = bank(seed, **how)
    made = EntityFeatures(join, FUNCTIONS, missing="nan", engine=engine)
    found = made.fit_transform(join.tables[0].source)
    wanted = expected(join)
    assert list(made.get_feature_names_out()) == list(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def check_database(join, there):
    """The SELECT in a database, reading its tables, and to_sql give what the frames give."""
    rows = join.tables[0].source
    here = EntityFeatures(join, missing="mean").fit(rows)
    wanted = here.transform(rows)
    for engine in ("memory", "sql"):
        made = EntityFeatures(there, engine=engine).fit(rows)
        assert list(made.get_feature_names_out()) == list(here.get_feature_names_out())
        np.testing.assert_allclose(made.transform(rows), wanted, rtol=1e-9, atol=1e-9)
    return made, wanted


@pytest.mark.parametrize("how", WAYS, ids=["all", "dated", "both dated"])
def test_duckdb_agrees(duckdb_connection, how):
    join = bank(2, **how)
    join.tables[0].source["id"] = np.arange(30)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "e")
    made, wanted = check_database(join, there)
    rows = {row[0]: row[1:] for row in duckdb_connection.execute(made.to_sql(["id"])).fetchall()}
    np.testing.assert_allclose([rows[i] for i in range(30)], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("how", WAYS[::2], ids=["all", "both dated"])
def test_postgres_agrees(postgres, how):
    owner, reader = postgres
    join = bank(3, **how)
    join.tables[0].source["id"] = np.arange(30)
    there = in_database(join, reader, owner.execute, POSTGRES, f"e{len(how)}")
    made, wanted = check_database(join, there)
    rows = {row[0]: row[1:] for row in reader.execute(made.to_sql(["id"])).fetchall()}
    reader.rollback()
    np.testing.assert_allclose([rows[i] for i in range(30)], wanted, rtol=1e-9, atol=1e-9)
    assert reader.info.transaction_status.name == "IDLE"


def test_dates_agree_on_all_engines(duckdb_connection, postgres):
    join = bank(4, dated=True)
    for table, column in ((join.tables[0], "day"), (join.tables[2], "day")):
        table.source[column] = pd.Timestamp("2024-01-01") + pd.to_timedelta(table.source[column] * 7, unit="h")
    owner, reader = postgres
    check_database(join, in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "d"))
    check_database(join, in_database(join, reader, owner.execute, POSTGRES, "d"))


def check_spark(here, there, spark, rows):
    """to_sql of features learned from frames, run by Spark, gives what the frames give."""
    made = copy(here).set_params(join=there)
    found = {row[0]: row[1:] for row in spark.sql(made.to_sql(["id"])).collect()}
    scored = [[np.nan if value is None else value for value in found[i]] for i in rows["id"]]
    np.testing.assert_allclose(scored, here.transform(rows), rtol=1e-9, atol=1e-9)


def test_the_select_of_features_runs_on_spark(spark):
    join = bank(3, n=12)
    rows = join.tables[0].source
    rows["id"] = np.arange(12)
    here = EntityFeatures(join, ("count", "mean", "share"), missing="nan").fit(rows)
    check_spark(here, in_spark(join, spark, "bank"), spark, rows)


def test_features_on_spark_are_of_the_rows_that_a_fit_began_with(spark, monkeypatch):
    """Others take all rows away before the second query: Spark has no transactions."""
    def ours():
        return {view.name for view in spark.catalog.listTables() if view.name.startswith("buttress_")}

    before = ours()
    join = bank(3, n=12)
    rows = join.tables[0].source
    wanted = EntityFeatures(join, ("count", "mean"), missing="nan").fit_transform(rows)
    there = in_spark(join, spark, "bank")
    summary = InDatabase.moments_of

    def meddled(self, *arguments):
        for _, name in (table.source for table in there.tables[1:]):
            spark.sql(f"SELECT * FROM {name} WHERE 1 = 0").createOrReplaceTempView(name)
        return summary(self, *arguments)

    monkeypatch.setattr(InDatabase, "moments_of", meddled)
    found = EntityFeatures(there, ("count", "mean"), missing="nan", engine="sql").fit_transform(rows)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert spark.table("bank_moves").count() == 0
    gc.collect()
    assert ours() <= before  # those of other tests may still be in use


@pytest.mark.slow
def test_spark_agrees(spark):
    """All functions, dates, and both inner tables with a time; learned and asked for on Spark as well."""
    join = bank(3, n=12, dated=True, inner_time=True)
    rows = join.tables[0].source
    rows["id"] = np.arange(12)
    for table, column in zip(join.tables, ("day", "opened", "day")):
        table.source[column] = pd.Timestamp("2024-01-01") + pd.to_timedelta(table.source[column] * 7, unit="h")
    there = in_spark(join, spark, "bank")
    here = EntityFeatures(join, missing="nan").fit(rows)
    made = EntityFeatures(there, missing="nan", engine="sql").fit(rows)
    assert list(made.get_feature_names_out()) == list(here.get_feature_names_out())
    np.testing.assert_allclose(made.transform(rows), here.transform(rows), rtol=1e-9, atol=1e-9)
    check_spark(here, there, spark, rows)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_keys_of_text_and_several_columns(engine):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.choice(["x", "y"], 20), "b": rng.integers(0, 3, 20)})
    other = pd.DataFrame({"a": rng.choice(["x", "y", "z"], 60), "b": rng.integers(0, 4, 60), "v": rng.normal(size=60)})
    join = Join([Table("rows", rows), Table("other", other, features=["v"])], [("rows.a", "other.a"),
                                                                             ("other.b", "rows.b")])
    found = EntityFeatures(join, ("count", "sum"), engine=engine).fit_transform(rows)
    grouped = other.groupby(["a", "b"])["v"].agg(["size", "sum"])
    wanted = rows.merge(grouped, how="left", left_on=["a", "b"], right_index=True)[["size", "sum"]].fillna(0)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("empty", [(), ("b",), ("c",), ("b", "c")], ids=str)
def test_tables_without_rows_have_keys_of_the_other_side(postgres, empty):
    """A uuid and an enum of an empty table are not known to be words, which the keys of the rows are."""
    owner, reader = postgres
    owner.execute("CREATE TYPE hue AS ENUM ('red', 'blue')")
    owner.execute("CREATE TABLE hued (id uuid, hue hue, x real)")
    owner.execute("CREATE TABLE hued_more (hue hue, z real)")
    ids = [f"00000000-0000-0000-0000-{i:012d}" for i in range(3)]
    if "b" not in empty:
        owner.execute("INSERT INTO hued VALUES (%s, 'red', 1), (%s, 'red', 3), (%s, NULL, 5)", (ids[0], ids[0], ids[1]))
    if "c" not in empty:
        owner.execute("INSERT INTO hued_more VALUES ('red', 1), ('red', 2), ('blue', 4)")
    rows = pd.DataFrame({"id": ids})
    join = Join([Table("a", rows), Table("b", (reader, "hued"), features=["x"]),
                 Table("c", (reader, "hued_more"), features=["z"])], [("a.id", "b.id"), ("b.hue", "c.hue")])
    try:
        found = EntityFeatures(join, ("count", "sum"), engine="sql").fit_transform(rows)
    finally:
        reader.rollback()
        owner.execute("DROP TABLE hued, hued_more")
        owner.execute("DROP TYPE hue")
    b = [[0, 0]] * 3 if "b" in empty else [[2, 4], [1, 5], [0, 0]]
    c = [[0, 0]] * 3 if empty else [[4, 6], [0, 0], [0, 0]]
    np.testing.assert_array_equal(found, np.hstack([b, c]))


def shop_with_a_leak(seed=0, n=400):
    """Customers whose visits after the label's date tell the label, and whose visits before say nothing of it."""
    rng = np.random.default_rng(seed)
    customers = pd.DataFrame({"id": np.arange(n), "date": rng.integers(40, 60, n), "left": rng.integers(0, 2, n)})
    visits = pd.DataFrame({"customer": np.repeat(customers["id"], 20), "day": rng.integers(0, 100, 20 * n)})
    later = visits["day"].to_numpy() >= np.repeat(customers["date"].to_numpy(), 20)
    left = np.repeat(customers["left"].to_numpy(), 20)
    visits["minutes"] = rng.normal(size=20 * n) + np.where(later, 3 * left, 0)
    return customers, visits, later


def test_the_future_does_not_help():
    customers, visits, later = shop_with_a_leak()
    half = len(customers) // 2

    def auc(rows, as_of):
        join = Join([Table("customers", customers, label="left"),
                     Table("visits", rows, features=["minutes"], time="day")],
                    [("customers.id", "visits.customer")], as_of=as_of)
        made = EntityFeatures(join)
        model = make_pipeline(made, HistGradientBoostingClassifier(random_state=0)).fit(
            customers[:half], customers["left"][:half])
        return roc_auc_score(customers["left"][half:], model.predict_proba(customers[half:])[:, 1])

    assert auc(visits, "all") > 0.9
    assert auc(visits, "customers.date") < 0.6
    shuffled = visits.copy()
    shuffled.loc[later, "minutes"] = np.random.default_rng(1).permutation(shuffled.loc[later, "minutes"])
    for engine in ("memory", "sql"):
        same = [EntityFeatures(Join([Table("customers", customers),
                                     Table("visits", rows, features=["minutes"], time="day")],
                                    [("customers.id", "visits.customer")], as_of="customers.date"), engine=engine)
                .fit_transform(customers[:1]) for rows in (visits, shuffled)]
        np.testing.assert_allclose(*same, rtol=1e-12)  # the column's mean, which squares are taken from, is of all rows


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_times_without_a_date_are_refused_unless_all_rows_are_meant(engine):
    join = two(time="day")
    with pytest.raises(ValueError, match=r"'other' has a time.*Give the join as_of = 'rows\.date'.*as_of = 'all'"):
        EntityFeatures(join, engine=engine).fit(join.tables[0].source)
    whole = two(time="day", as_of="all")
    made = EntityFeatures(whole, ("sum", "last"), engine=engine)
    np.testing.assert_array_equal(made.fit_transform(whole.tables[0].source), [[1], [2]])
    with pytest.raises(ValueError, match="the join has none"):
        made.set_params(functions=("since_last",)).fit(whole.tables[0].source)


def test_a_row_at_the_date_itself_is_not_known_yet():
    rows = pd.DataFrame({"id": [1, 1, 1], "date": [2, 3, 4]})
    seen = pd.DataFrame({"id": [1, 1, 1], "day": [2, 3, np.nan], "v": [1.0, 10.0, 100.0]})
    join = Join([Table("rows", rows), Table("seen", seen, features=["v"], time="day")], [("rows.id", "seen.id")],
                as_of="rows.date")
    for engine in ("memory", "sql"):
        found = EntityFeatures(join, ("sum",), engine=engine).fit_transform(rows)
        np.testing.assert_array_equal(found.ravel(), [0, 1, 11])


def test_rows_in_any_order_new_ones_and_every_frame_give_the_same():
    join = bank(5, dated=True)
    rows = join.tables[0].source
    made = EntityFeatures(join).fit(rows)
    whole = made.transform(rows)
    order = np.random.default_rng(0).permutation(len(rows))
    np.testing.assert_array_equal(made.transform(rows.iloc[order]), whole[order])
    asked = rows[list(made.feature_names_in_)]
    np.testing.assert_array_equal(made.transform(asked.astype(object).to_numpy()), whole)
    in_polars = pl.DataFrame(asked.astype(object).where(asked.notna(), None).to_dict("list"))
    np.testing.assert_array_equal(made.transform(in_polars), whole)
    np.testing.assert_array_equal(made.transform(asked.add_prefix("loans.")), whole)
    new = pd.DataFrame({"account": [3, 999], "day": [11, 11], "sum": [0.0, 0.0], "kind": ["car", "boat"]})
    found = pd.DataFrame(made.transform(new), columns=made.get_feature_names_out())
    known = join.tables[2].source.query("account == 3 and day < 11")
    assert found["moves.count"].tolist() == [len(known), 0]
    assert found["moves.amount.mean"][1] == made.fills_[list(found).index("moves.amount.mean")]
    assert found["loans.kind=car"].tolist() == [1, 0]


def test_keys_alone_as_an_array_of_one_dimension():
    counted = pd.DataFrame({"k": [1, 1, 2]})
    join = Join([Table("rows", pd.DataFrame({"k": [1, 2]})), Table("counted", counted)], [("rows.k", "counted.k")])
    np.testing.assert_array_equal(EntityFeatures(join).fit(np.array([1, 2])).transform([2, 1, 5]), [[1], [2], [0]])


def test_in_pipelines_searches_frames_and_model_files(tmp_path, duckdb_connection):
    join = bank(6, n=40)
    rows = join.tables[0].source
    store(join.tables[2].source, "moves", duckdb_connection.execute, DUCKDB)
    join.tables[2].source = (duckdb_connection, "moves")  # a connection can be neither copied nor saved
    pipe = make_pipeline(EntityFeatures(join), RobustScaler(), SVC())
    search = GridSearchCV(pipe, {"entityfeatures__functions": [("count",), FUNCTIONS], "svc__C": [1.0]}, cv=2)
    search.fit(rows, rows["bad"])
    assert clone(pipe)[0].join is join
    framed = EntityFeatures(join).set_output(transform="pandas").fit_transform(rows)
    assert list(framed)[:2] == ["loans.sum", "loans.kind=car"]
    assert framed.index.equals(rows.index)
    model = pipe.fit(rows, rows["bad"])
    save(model, tmp_path / "m.buttress")
    assert b"1000" not in (tmp_path / "m.buttress").read_bytes()[:200]
    loaded = load(tmp_path / "m.buttress")
    assert list(loaded[0].get_feature_names_out()) == list(model[0].get_feature_names_out())
    with pytest.raises(ValueError, match=r"set_params\(entityfeatures__join=join\)"):
        loaded.predict(rows)
    loaded.set_params(entityfeatures__join=join)
    np.testing.assert_array_equal(loaded.decision_function(rows), model.decision_function(rows))


def test_functions_of_a_table_with_one_row_an_entity_are_one_feature():
    people = pd.DataFrame({"id": [1, 2], "town": [7, 8]})
    towns = pd.DataFrame({"id": [7, 8, 9], "size": [1.0, 2.0, 3.0]})
    join = Join([Table("people", people), Table("towns", towns, features=["size"])], [("people.town", "towns.id")])
    made = EntityFeatures(join).fit(people)
    assert list(made.get_feature_names_out()) == ["towns.count", "towns.size.mean"]
    assert list(EntityFeatures(join, ("max", "sum")).fit(people).get_feature_names_out()) == ["towns.size.max"]


def test_only_the_most_frequent_categories_have_a_share():
    rows = pd.DataFrame({"k": [1, 2]})
    words = pd.DataFrame({"k": [1, 1, 2, 2, 2], "w": ["b", "a", "c", "c", "b"]})
    join = Join([Table("rows", rows), Table("words", words, features=["w"])], [("rows.k", "words.k")])
    for engine in ("memory", "sql"):
        made = EntityFeatures(join, ("share",), max_categories=2, engine=engine)
        np.testing.assert_allclose(made.fit_transform(rows), [[1 / 2, 0], [1 / 3, 2 / 3]])
        assert list(made.get_feature_names_out()) == ["words.w=b.share", "words.w=c.share"]


def two(rows=None, other=None, as_of=None, time=None, features=("v",), **how):
    rows = pd.DataFrame({"k": [1, 2], "date": [1, 2]}) if rows is None else rows
    other = pd.DataFrame({"k": [1, 2], "v": [1.0, 2.0], "day": [0, 1]}) if other is None else other
    return Join([Table("rows", rows), Table("other", other, features=features, time=time, **how)],
                [("rows.k", "other.k")], as_of=as_of)


def wide():
    """A path on which rows limited in time would have to be made: many to many, both with a time."""
    many = pd.DataFrame({"k": np.zeros(9, int), "day": np.arange(9), "v": 1.0})
    return Join([Table("rows", pd.DataFrame({"k": [0], "date": [5]})), Table("a", many, time="day"),
                 Table("b", many, features=["v"], time="day")], [("rows.k", "a.k"), ("a.k", "b.k")], as_of="rows.date")


BAD = [
    (lambda: EntityFeatures(two(), "count"), None, "must be a list"),
    (lambda: EntityFeatures(two(), ["median"]), None, "must be among"),
    (lambda: EntityFeatures(two(), ["mean", "count", "mean"]), None, "twice, 'mean' and 'mean'. Name each once"),
    (lambda: EntityFeatures(two(), ["sum:7d", "sum:1w"]), None, "twice, 'sum:7d' and 'sum:1w'. Name"),
    (lambda: EntityFeatures(two(), ["mean:3row", "mean:3rows"]), None, "twice, 'mean:3row' and 'mean:3rows'. Name"),
    (lambda: EntityFeatures(two(), missing="drop"), None, "missing"),
    (lambda: EntityFeatures(two(), max_categories=0), None, "max_categories"),
    (lambda: EntityFeatures("join"), None, "must be a Join"),
    (lambda: EntityFeatures(two(as_of="rows.date")), None, "time='column'"),
    (lambda: EntityFeatures(two(as_of="rows.dat", time="day")), None, "Did you mean 'date'"),
    (lambda: EntityFeatures(two(time="dy")), None, "no column 'dy'"),
    (lambda: EntityFeatures(two(time="day", as_of="rows.date")),
     pd.DataFrame({"k": [1], "date": pd.to_datetime(["2024-01-01"])}), "of one kind"),
    (lambda: EntityFeatures(two(time="day", as_of="rows.date")), pd.DataFrame({"k": [1], "date": [np.nan]}), "is NULL"),
    (lambda: EntityFeatures(two(time="day", as_of="rows.date")), pd.DataFrame({"k": [1], "date": ["May"]}), "Got text"),
    (lambda: EntityFeatures(two(weights="v")), None, "weights"),
    (lambda: EntityFeatures(two(features=["day", "v"], other=pd.DataFrame(
        {"k": [1], "v": [1e200], "day": [1]}))), None, "too large"),
    (lambda: EntityFeatures(two(other=pd.DataFrame({"k": [1], "v": pd.to_datetime(["2024-01-01"])}))), None, "times"),
    (lambda: EntityFeatures(two(other=pd.DataFrame({"k": ["a"], "v": [1.0]}))), None, "of one type"),
    (lambda: EntityFeatures(two(other=pd.DataFrame({"k": [1, 2], "v": ["1,5", "2"]}))), None, "decimal commas"),
    (lambda: EntityFeatures(two(features=[]), ["mean"]), None, "Name features"),
    (lambda: EntityFeatures(two()), pd.DataFrame({"kk": [1]}), "no column 'k'"),
    (lambda: EntityFeatures(two()), pd.DataFrame({"k": []}), "0 sample"),
    (lambda: EntityFeatures(two()), np.zeros((2, 3)), "2, 3"),
    (lambda: EntityFeatures(two()), pd.DataFrame([[1, 1]], columns=["k", "k"]), "2 columns called 'k'"),
    (lambda: EntityFeatures(two()), {"k": 1}, "Use a frame"),
]


@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize(("made", "rows", "message"), BAD, ids=[message for *_, message in BAD])
def test_bad_input_is_refused_with_what_to_do(made, rows, message, engine):
    model = made().set_params(engine=engine)
    with pytest.raises(ValueError, match=message):
        model.fit(model.join.tables[0].source if rows is None and isinstance(model.join, Join) else rows)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_an_entity_may_have_more_pairs_than_a_block_is_to_have(monkeypatch, engine):
    monkeypatch.setattr("buttress.relational.entities.database.PAIRS", 1)
    join = wide()
    found = EntityFeatures(join, ("count",), engine=engine).fit_transform(join.tables[0].source)
    assert found.tolist() == [[5, 25]]


def at_hours(hours, zone=None):
    return pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, unit="h")).dt.tz_localize(zone)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_dates_with_a_time_zone_are_not_compared_with_dates_without(engine):
    """In Oslo 8 o'clock is 7 o'clock in UTC: a visit at 7:30 UTC came later."""
    rows = pd.DataFrame({"k": [1], "date": at_hours([8], "Europe/Oslo")})
    other = pd.DataFrame({"k": [1, 1], "v": [1.0, 10.0], "day": at_hours([6.5, 7.5], "UTC")})
    made = EntityFeatures(two(rows, other, as_of="rows.date", time="day"), ("sum",), engine=engine)
    assert made.fit_transform(rows).ravel().tolist() == [1.0]
    plain = rows.assign(date=rows["date"].dt.tz_localize(None))
    with pytest.raises(ValueError, match=r"rows\.date \(time\), other\.day \(time with a time zone\)"):
        made.fit(plain)
    with pytest.raises(ValueError, match="with a time zone"):
        made.fit(pl.DataFrame({"k": [1], "date": [moment.to_pydatetime() for moment in plain["date"]]}))


def test_time_zones_of_tables_in_databases_are_seen(duckdb_connection, postgres):
    owner, reader = postgres
    rows = pd.DataFrame({"k": [1, 2], "date": at_hours([8, 8])})
    for connection, execute in ((duckdb_connection, duckdb_connection.execute), (reader, owner.execute)):
        execute("SET TimeZone = 'UTC'")
        execute("CREATE TABLE zoned (k BIGINT, v DOUBLE PRECISION, day TIMESTAMP WITH TIME ZONE)")
        execute("INSERT INTO zoned VALUES (1, 1.0, '2024-01-01 07:30:00+00'), (2, 2.0, '2024-01-01 08:30:00+00')")
        other = Table("other", (connection, "zoned"), features=["v"], time="day")
        for engine in ("memory", "sql"):
            join = Join([Table("rows", rows), other], [("rows.k", "other.k")], as_of="rows.date")
            made = EntityFeatures(join, ("sum",), engine=engine)
            with pytest.raises(ValueError, match="with a time zone"):
                made.fit(rows)
            found = made.fit_transform(rows.assign(date=rows["date"].dt.tz_localize("UTC")))
            assert found.ravel().tolist() == [1.0, 0.0]


def test_keys_of_dates_agree_on_all_engines(duckdb_connection, postgres):
    owner, reader = postgres
    rows = pd.DataFrame({"day": at_hours([0, 24, 24.5, 48])})
    other = pd.DataFrame({"day": at_hours([24, 24, 24.5, 99]), "v": [1.0, 2.0, 4.0, 8.0]})
    wanted = [0.0, 3.0, 4.0, 0.0]
    join = Join([Table("rows", rows), Table("other", other, features=["v"])], [("rows.day", "other.day")])
    stored = [Join([join.tables[0], *in_database(Join(join.tables[1:]), *place, "keyed").tables], join.on)
              for place in ((duckdb_connection, duckdb_connection.execute, DUCKDB), (reader, owner.execute, POSTGRES))]
    for there in (join, *stored):
        for engine in ("memory", "sql"):
            made = EntityFeatures(there, ("sum",), engine=engine)
            assert made.fit_transform(rows).ravel().tolist() == wanted


@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize("key", ["0.1000000000000000001", "1234567890123.4567891"])
def test_decimals_that_floats_do_not_tell_apart_are_refused_as_keys(key, engine):
    """A database compares their digits, this process the nearest floats."""
    rows, middle = pd.DataFrame({"id": [1, 2]}), pd.DataFrame({"id": [1, 2], "k": [Decimal("0.1"), Decimal(key)]})
    other = pd.DataFrame({"k": [Decimal("0.100"), Decimal("0.2")], "v": [1.0, 2.0]})
    join = Join([Table("rows", rows), Table("middle", middle), Table("other", other, features=["v"])],
                [("rows.id", "middle.id"), ("middle.k", "other.k")])
    made = EntityFeatures(join, ("sum",), engine=engine)
    with pytest.raises(ValueError, match=r"Key middle\.k holds decimals of more digits.*make them text"):
        made.fit(rows)
    middle["k"] = [Decimal("0.1"), Decimal("1.000000000000000000000")]  # zeros are no digits
    assert made.fit_transform(rows).ravel().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_the_label_tables_own_decimal_commas_are_no_categories_but_its_texts(engine):
    rows = pd.DataFrame({"k": [1, 2], "size": ["1,5", "2"]})
    join = Join([Table("rows", rows, features=["size"]), Table("other", pd.DataFrame({"k": [1, 2]}))],
                [("rows.k", "other.k")])
    made = EntityFeatures(join, engine=engine)
    for fit in (made.fit, made.fit_transform):
        with pytest.raises(ValueError, match=r"Feature rows\.size is text such as '1,5', numbers with decimal commas"):
            fit(rows)
    assert not hasattr(made, "features_")
    assert entity_table(join).columns["rows.size"].tolist() == ["1,5", "2"], "an audit reads the commas"


def at_nanoseconds(*after, zone):
    return pd.Series(pd.Timestamp("2024-03-01").as_unit("ns") + pd.to_timedelta(after, unit="ns")).dt.tz_localize(zone)


def in_polars(frame):
    """The frame in polars, without Arrow, which it needs for zones of pandas."""
    def column(values):
        zone = getattr(values.dtype, "tz", None)
        if zone is None:
            return pl.Series(values.to_numpy())
        known = pl.Series(values.dt.tz_convert(None).to_numpy())
        return known.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))

    return pl.DataFrame({name: column(frame[name]) for name in frame})


def test_keys_finer_than_a_microsecond_are_told_apart_with_a_time_zone_too(tmp_path):
    for zone in (None, "Europe/Oslo"):
        rows = pd.DataFrame({"at": at_nanoseconds(0, 300, 5000, zone=zone)})
        other = pd.DataFrame({"at": at_nanoseconds(0, 300, 301, zone=zone), "v": [1.0, 2.0, 4.0]})
        in_polars(other).write_parquet(tmp_path / "other.parquet")
        exact = zone is None or duckdb.__version__ >= "2"  # version 1 reads times with a zone to the microsecond
        for source in (other, in_polars(other), *([tmp_path / "other.parquet"] if exact else [])):
            join = Join([Table("rows", rows), Table("other", source, features=["v"])], [("rows.at", "other.at")])
            found = EntityFeatures(join, ("sum",), engine="memory").fit_transform(rows)
            assert found.ravel().tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_dates_of_a_file_to_the_nanosecond_with_a_time_zone_are_dates_with_one(tmp_path, engine):
    rows = pd.DataFrame({"k": [1], "date": at_nanoseconds(7000, zone="UTC"), "y": [1]})
    other = pd.DataFrame({"k": [1, 1], "v": [1.0, 2.0], "day": at_nanoseconds(2000, 9000, zone="UTC")})
    for name, table in (("rows", rows), ("other", other)):
        in_polars(table).write_parquet(tmp_path / f"{name}.parquet")
    join = Join([Table("rows", tmp_path / "rows.parquet", label="y"),
                 Table("other", tmp_path / "other.parquet", features=["v"], time="day")], [("rows.k", "other.k")],
                as_of="rows.date")
    made = EntityFeatures(join, ("sum",), engine=engine)
    assert made.fit_transform(rows).ravel().tolist() == [1.0]
    with pytest.raises(ValueError, match="with a time zone"):
        made.fit(rows.assign(date=rows["date"].dt.tz_localize(None)))


def test_durations_of_a_file_are_no_numbers_of_an_unknown_unit(tmp_path):
    frame = pd.DataFrame({"k": [1, 2], "v": pd.to_timedelta([1, 2], unit="min"), "w": [1.0, 2.0]})
    pl.from_pandas(frame).write_parquet(tmp_path / "other.parquet")
    join = Join([Table("rows", frame[["k"]]), Table("other", tmp_path / "other.parquet", features=["w"])],
                [("rows.k", "other.k")])
    assert EntityFeatures(join, ("sum",)).fit_transform(frame).ravel().tolist() == [1.0, 2.0]
    join.tables[1].features = ["v"]
    with pytest.raises(ValueError, match=r"Column 'v' of .*other\.parquet' holds durations\. Write them as numbers"):
        EntityFeatures(join, ("sum",)).fit(frame)


def test_times_finer_than_a_databases_are_refused_as_keys():
    rows = pd.DataFrame({"at": np.array(["2020-01-01T00:00:00.123456789", "2020-01-01"], dtype="datetime64[ns]")})
    other = pd.DataFrame({"at": np.array(["2020-01-01T00:00:00.123456", "2020-01-01"], dtype="datetime64[us]"),
                          "v": [1.0, 2.0]})
    join = Join([Table("rows", rows), Table("other", other, features=["v"])], [("rows.at", "other.at")])
    assert EntityFeatures(join, ("sum",), engine="memory").fit_transform(rows).ravel().tolist() == [0.0, 2.0]
    made = EntityFeatures(join, ("sum",), engine="sql")
    with pytest.raises(ValueError, match="Key 'at' of X holds times finer than a microsecond"):
        made.fit(rows)
    assert made.fit_transform(rows[1:]).ravel().tolist() == [2.0]


def test_a_table_that_no_pair_leads_to_is_refused():
    frame = pd.DataFrame({"k": [1], "l": [1]})
    with pytest.raises(ValueError, match="not joined"):
        EntityFeatures(Join([Table(name, frame) for name in "abc"], [("a.k", "b.k")])).fit(frame)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_a_column_that_changes_its_kind_is_refused(engine):
    people = pd.DataFrame({"id": range(6), "own": ["1", "2", "2"] * 2, "x": 1.5})
    visits = pd.DataFrame({"id": [0, 1, 1, 2, 4], "v": [1.0, 2.0, 3.0, 4.0, 5.0], "k": ["1", "2", "1", "1", "2"]})

    def join(**changed):
        return Join([Table("p", people, features=["own", "x"]),
                     Table("t", visits.assign(**changed), features=["v", "k"])], [("p.id", "t.id")])

    made = EntityFeatures(join(), ("mean", "share", "sum_by"), engine=engine).fit(people)
    for changed, message in (({"v": list("abcde")}, "t.v held numbers in training, and holds text"),
                             ({"k": visits["k"].astype(int)}, "t.k held text in training, and holds numbers")):
        with pytest.raises(ValueError, match=message):
            made.set_params(join=join(**changed)).transform(people)
    for empty in (np.nan, np.datetime64("NaT")):
        made.set_params(join=join(k=None, v=empty)).transform(people)
    for changed, message in (({"x": "a"}, "p.x held numbers in training, and holds text"),
                             ({"own": 1}, "p.own held text in training, and holds numbers")):
        with pytest.raises(ValueError, match=message):
            made.transform(people.assign(**changed))


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_a_join_on_other_columns_asks_for_these_and_one_without_a_date_is_refused(engine):
    people = pd.DataFrame({"id": range(6), "other": [1, 9, 1, 0, 4, 2], "day": 5, "y": 0})
    visits = pd.DataFrame({"id": [0, 1, 1, 2, 4], "at": [1, 2, 3, 4, 6], "v": 1.0})

    def join(key="id", as_of="p.day"):
        return Join([Table("p", people, label="y"), Table("t", visits, features=["v"], time="at")],
                    [(f"p.{key}", "t.id")], as_of=as_of)

    made = EntityFeatures(join(), ("count", "trend"), engine=engine).fit(people)
    for changed in ({"key": "other"}, {"as_of": "p.other"}):
        known = EntityFeatures(join(**changed), ("count", "trend"), engine=engine).fit(people)
        np.testing.assert_array_equal(made.set_params(join=join(**changed)).transform(people), known.transform(people))
        with pytest.raises(ValueError, match="other"):
            made.transform(people.drop(columns="other"))
    with pytest.raises(ValueError, match="'trend' is counted back from a date, and the join has none"):
        made.set_params(join=join(as_of="all")).transform(people)


CHECKS = ["check_no_attributes_set_in_init", "check_get_params_invariance", "check_set_params",
          "check_estimator_repr", "check_estimator_tags_renamed",
          "check_valid_tag_types", "check_mixin_order", "check_estimator_cloneable"]


@pytest.mark.parametrize("check", CHECKS)
def test_scikit_learns_checks_that_need_no_rows_of_theirs(check):
    getattr(estimator_checks, check)("EntityFeatures", EntityFeatures(two()))


def test_a_refused_fit_leaves_the_transformer_as_it_was(monkeypatch):
    accounts = pd.DataFrame({"id": [1, 2, 3], "y": [1, 0, 1]})
    rows = pd.DataFrame({"id": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0]})
    made = EntityFeatures(Join([Table("a", accounts, label="y"), Table("b", rows, features=["x"])],
                               on=[("a.id", "b.id")])).fit(accounts)
    before = dict(vars(made))

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("buttress.relational.entities.transformer.kept", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.fit(accounts[:2])
    assert all(vars(made)[name] is value for name, value in before.items())


@pytest.mark.parametrize("as_of", ["other.day", "date", 3])
def test_a_date_of_another_table_is_refused_where_the_join_is_declared(as_of):
    with pytest.raises(ValueError, match="as_of must be a column of the label's table 'rows'"):
        two(as_of=as_of, time="day")


def test_a_date_that_is_no_column_is_refused_wherever_a_join_is_checked():
    with pytest.raises(ValueError, match=r"no column 'dat'.*'date'"):
        two(as_of="rows.dat", time="day").check()


def test_decimals_of_a_database_that_floats_do_not_tell_apart_are_refused_as_keys(duckdb_connection):
    """DuckDB hands them over as floats; where the digits are few these are all that there are."""
    duckdb_connection.execute("CREATE TABLE middle AS SELECT * FROM (VALUES "
                              "(1, 0.1000000000000000001::DECIMAL(38, 20)), (2, 0.2)) q(id, k)")
    duckdb_connection.execute("CREATE TABLE few AS SELECT id, k::DECIMAL(18, 3) AS k FROM middle")
    rows, other = pd.DataFrame({"id": [1, 2]}), pd.DataFrame({"k": [0.1, 0.2], "v": [1.0, 2.0]})

    def joined(name):
        middle = Table("middle", (duckdb_connection, name))
        join = Join([Table("rows", rows), middle, Table("other", other, features=["v"])],
                    [("rows.id", "middle.id"), ("middle.k", "other.k")])
        return EntityFeatures(join, ("sum",), engine="memory").fit_transform(rows).ravel().tolist()

    with pytest.raises(ValueError, match=r"Key middle\.k holds decimals of more digits"):
        joined("middle")
    assert joined("few") == [1.0, 2.0]


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_more_rows_of_others_leave_a_deviation_as_it_was_to_the_bit(engine):
    """What is subtracted before squares are added up is not the mean itself, which any new row moves."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"id": np.arange(50)})
    facts = pd.DataFrame({"id": np.repeat(np.arange(50), 9), "x": rng.normal(5, 3, 450)})
    found = []
    for held in (facts, pd.concat([facts, pd.DataFrame({"id": [49], "x": [4.0]})])):
        join = Join([Table("rows", rows), Table("facts", held, features=["x"])], [("rows.id", "facts.id")])
        found.append(EntityFeatures(join, ["std"], missing="nan", engine=engine).fit_transform(rows)[:, 0])
    np.testing.assert_array_equal(found[0][:49], found[1][:49])
    np.testing.assert_allclose(found[0], facts.groupby("id")["x"].std(), rtol=1e-12)


def test_the_last_bits_of_mean_and_deviation_do_not_tip_what_is_subtracted():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        x = rng.choice(np.round(rng.uniform(-5, 5, rng.integers(2, 5)), 1), 2 ** rng.integers(1, 9))
        mean, deviation, most = x.mean(), x.std(), np.abs(x).max()
        found = {center(mean + up * 2.0**-52 * most, deviation + wide * 2.0**-52 * most, most)
                 for up in (-4, 0, 4) for wide in (-4, 0, 4)}
        assert len(found) == 1


def test_shrunk_means_are_the_same_of_every_engine_and_order_of_rows():
    facts = pd.DataFrame({"a": np.arange(200) % 7, "v": np.tile([0.3, 2.3], 100)})
    rows = pd.DataFrame({"id": np.arange(8)})
    found = [EntityFeatures(Join([Table("rows", rows), Table("facts", held, features=["v"])], [("rows.id", "facts.a")]),
                            ["shrunk"], engine=engine).fit_transform(rows)
             for held in (facts, facts.sort_values("v")) for engine in ("memory", "sql")]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-12)
    assert found[0][7] == 0


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-9, 1e5])
def test_squares_do_not_cancel(size):
    """Values near 1e6 apart by ``size``: deviations to as many digits as the values have, by pandas of exact shifts."""
    rng = np.random.default_rng(0)
    x = 1e6 + rng.normal(size=300) * size
    mean = center(x.mean(), x.std(), np.abs(x).max())
    assert abs(mean - x.mean()) <= max(x.std(), np.abs(x).max() * 2.0**-26)
    rows, facts = pd.DataFrame({"id": [0, 1, 2]}), pd.DataFrame({"id": np.arange(300) % 3, "x": x})
    join = Join([Table("rows", rows), Table("facts", facts, features=["x"])], [("rows.id", "facts.id")])
    found = EntityFeatures(join, ["std"]).fit_transform(rows)[:, 0]
    wanted = (facts["x"] - 1e6).groupby(facts["id"]).std()
    np.testing.assert_allclose(found, wanted, rtol=1e-6 if size < 1e-5 else 1e-11)
    assert center(0.0, 0.0, 0.0) == 0.0
