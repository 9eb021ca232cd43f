"""Features served: a statement that a person can read, and a file of features from the command line."""

import re
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from relational_storage import in_database, in_spark

from buttress import cli
from buttress.relational import EntityFeatures, Join, Table
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

ODD = ["a, b FROM (c", "it's \\ JOIN x)", "-- no\n) AS (", 'quo"ted ` WHERE']


def odd_join(name="moves"):
    """Names and words that hold clauses, commas, brackets, quotes and the ends of lines."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"id": np.arange(4), "at": 5})
    other = pd.DataFrame({"id": rng.integers(0, 4, 40), "t": rng.integers(0, 9, 40), "word": rng.choice(ODD, 40),
                          "x, (FROM y": rng.normal(size=40)})
    return Join([Table("rows", rows), Table(name, other, features=["word", "x, (FROM y"], time="t")],
                [("rows.id", f"{name}.id")], as_of="rows.at")


def check_statement(join, there, read):
    rows = join.tables[0].source
    words = ("count", "share", "sum:3", "sum_by")
    wanted = EntityFeatures(join, words, missing="nan").fit_transform(rows)
    text = EntityFeatures(there, words, missing="nan", engine="sql").fit(rows).to_sql(["id"])
    found = {row[0]: row[1:] for row in read(text)}
    np.testing.assert_allclose([found[i] for i in rows["id"]], wanted, rtol=1e-12)
    return text


@pytest.mark.parametrize("name", ["moves", "a\nb -- c", "x) AS ("])
def test_a_statement_has_a_line_and_a_comment_for_each_expression(duckdb_connection, name):
    join = odd_join(name)
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "odd")
    text = check_statement(join, there, lambda text: duckdb_connection.execute(text).fetchall())
    assert f"-- statistics of {' '.join(name.split())} of all rows that a date of a key sees" in text
    expressions = re.findall(r"^(\S+) AS \(SELECT", text, re.MULTILINE)
    assert len(expressions) == len(set(expressions)) == len(re.findall(r"^-- ", text, re.MULTILINE)) == 5


def test_a_statement_in_lines_runs_on_postgres(postgres):
    owner, reader = postgres
    join = odd_join()
    check_statement(join, in_database(join, reader, owner.execute, POSTGRES, "odd"),
                    lambda text: reader.execute(text).fetchall())
    reader.rollback()


def test_a_statement_in_lines_runs_on_spark(spark):
    join = odd_join()
    rows = join.tables[0].source
    made = EntityFeatures(join, ("count", "share"), missing="nan").fit(rows)
    wanted = made.transform(rows)
    found = {row[0]: row[1:] for row in
             spark.sql(made.set_params(join=in_spark(join, spark, "odd")).to_sql(["id"])).collect()}
    np.testing.assert_allclose([found[i] for i in rows["id"]], wanted, rtol=1e-12)


JOINS = """
on = [["people.id", "visits.person"]]
as_of = "people.date"
[[table]]
name = "people"
source = "people.csv"
features = ["town"]
label = "left"

[[table]]
name = "visits"
source = "shop.duckdb"
features = ["minutes"]
time = "day"
"""


@pytest.fixture
def shop(tmp_path):
    """The TOML file of a join of a CSV file and a table of a DuckDB file, and what is in them."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": np.arange(20), "date": pd.Timestamp("2024-05-01"), "town": rng.choice(["a", "b"], 20),
                           "left": rng.choice(["left", "stays"], 20)})
    visits = pd.DataFrame({"person": rng.integers(0, 18, 100), "minutes": rng.normal(size=100),
                           "day": pd.Timestamp("2024-04-01") + pd.to_timedelta(rng.integers(0, 60, 100), unit="D")})
    people.to_csv(tmp_path / "people.csv", index=False)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM visits")
    text = JOINS.replace('source = "shop.duckdb"', 'database = "shop.duckdb"\ntable = "visits"')
    (tmp_path / "joins.toml").write_text(text, encoding="utf-8")
    return tmp_path / "joins.toml", people, visits


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["buttress", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out = capsys.readouterr()
    return stop.value.code or 0, out.out, out.err


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_a_join_that_lacks_what_was_learned_is_refused(engine):
    join = odd_join()
    rows, moves = join.tables
    made = EntityFeatures(join, ("count", "sum_by"), missing="nan", engine=engine).fit(rows.source)
    less = Table("moves", moves.source, features=["x, (FROM y"], time="t")
    renamed = Table("steps", moves.source, features=moves.features, time="t")
    for other, what in ((less, "no table 'moves' with .*'word' among"), (renamed, "no table 'moves'")):
        made.set_params(join=Join([rows, other], [("rows.id", f"{other.name}.id")], as_of="rows.at"))
        with pytest.raises(ValueError, match=what):
            made.transform(rows.source)


def test_a_file_of_features_is_written_from_the_command_line(shop, tmp_path, monkeypatch, capsys):
    path, people, visits = shop
    for name in ("f.parquet", "f.csv"):
        code, out, _ = call(monkeypatch, capsys, "features", path, "-o", tmp_path / name, "--functions",
                            "count,sum:10d,since_last")
        assert code == 0
        assert "20 rows, 7 columns" in out
        read = pl.read_parquet if name.endswith("parquet") else pl.read_csv
        found = read(tmp_path / name).to_dict(as_series=False)
        assert list(found) == ["people.id", "people.date", "people.town", "visits.count", "visits.since_last",
                               "visits.minutes.sum:10d", "people.left"]
        assert found["people.left"] == people["left"].tolist()
        known = visits[visits["day"] < "2024-05-01"]
        counts = known.groupby("person").size().reindex(people["id"]).fillna(0)
        assert found["visits.count"] == counts.tolist()
        recent = known[known["day"] >= "2024-04-21"].groupby("person")["minutes"].sum().reindex(people["id"]).fillna(0)
        np.testing.assert_allclose(found["visits.minutes.sum:10d"], recent, rtol=1e-12, atol=1e-12)


def test_a_file_of_features_is_refreshed_from_the_command_line(shop, tmp_path, monkeypatch, capsys):
    path = shop[0]
    here = tmp_path / "f.parquet"
    frames = []
    for late, anew in ((False, 20), (False, 0), (True, 1)):
        if late:
            with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
                connection.execute("INSERT INTO visits VALUES (3, 2.5, TIMESTAMP '2024-04-02')")
        code, out, _ = call(monkeypatch, capsys, "features", path, "-o", here, "--refresh")
        assert code == 0
        assert f"Computed anew: {anew}. Written" in out
        frames.append(pd.DataFrame(pl.read_parquet(here).to_dict(as_series=False)))
    call(monkeypatch, capsys, "features", path, "-o", tmp_path / "full.parquet")
    full = pd.DataFrame(pl.read_parquet(tmp_path / "full.parquet").to_dict(as_series=False))
    pd.testing.assert_frame_equal(frames[2], full, rtol=1e-12, atol=1e-12)
    pd.testing.assert_frame_equal(frames[0], frames[1])
    assert frames[2]["visits.count"][3] == frames[0]["visits.count"][3] + 1
    (tmp_path / "f.parquet.known").write_bytes(b"no such file")
    code, _, error = call(monkeypatch, capsys, "features", path, "-o", here, "--refresh")
    assert code == 2
    assert "Delete f.parquet.known" in error


def test_mistakes_on_the_command_line_are_one_line(shop, tmp_path, monkeypatch, capsys):
    path, *_ = shop
    code, _, error = call(monkeypatch, capsys, "features", path, "-o", tmp_path / "f.parquet", "--functions", "suum")
    assert code == 2
    assert "Did you mean 'sum'" in error
    path.write_text(path.read_text().replace('as_of = "people.date"\n', ""))
    code, _, error = call(monkeypatch, capsys, "features", path, "-o", tmp_path / "f.parquet")
    assert code == 2
    assert "as_of = 'all'" in error
    assert not (tmp_path / "f.parquet").exists()
