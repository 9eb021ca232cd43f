"""Files that cannot be read, however late that shows, and times, whatever they come as."""

from datetime import date, datetime, time, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from buttress.relational import Join, RelationalLinearSVC, SourceLostError, Table
from buttress.relational.choice import needed_megabytes
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.columns import make_column, plain
from buttress.relational.sources.files import connect_duckdb
from buttress.relational.sources.tables import column_names, read_columns, row_count

pytest.importorskip("duckdb")

LATE = 200_000  # rows, beyond what DuckDB looks at before it hands out the first ones


def numbered(path, last, header=b"k,name"):
    """Write a CSV file of many good rows and one more."""
    path.write_bytes(header + b"\n" + b"".join(b"%d,word\n" % i for i in range(LATE)) + last + b"\n")
    return path


@pytest.mark.parametrize(
    ("last", "reason"),
    [(b"7,caf\xe9", rf".*Line: {LATE + 2}; .*iconv -f cp1252 -t utf-8 late\.csv > utf8\.csv"),
     (b"seven,word", rf".*Line: {LATE + 2}; .*seven.*Correct that row")],
    ids=["a byte of Windows", "a word among numbers"],
)
def test_a_file_that_fails_late_is_one_error_too(tmp_path, last, reason):
    path = numbered(tmp_path / "late.csv", last)
    assert column_names(path) == ["k", "name"]
    with pytest.raises(ValueError, match=r"late\.csv' cannot be read: " + reason):
        read_columns(path, ["k", "name"])


def test_a_file_that_fails_late_inside_the_database_says_why(tmp_path):
    path = numbered(tmp_path / "late.csv", b"seven,word")
    join = Join([Table("late", path, features=["k"], label="name")], on=[])
    with pytest.raises(SourceLostError, match=f"Line: {LATE + 2}; .*seven.*Correct that row"):
        RelationalLinearSVC(engine="sql").fit(join)


def test_a_good_file_is_read_to_its_last_row(tmp_path):
    path = numbered(tmp_path / "late.csv", "7,café".encode())
    read = read_columns(path, ["k", "name"])
    assert row_count(path) == len(read["k"].values) == LATE + 1
    assert (read["k"].values[-1], read["name"].values[-1]) == (7, "café")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (date(2020, 2, 3), np.datetime64("2020-02-03")),
        (datetime(2020, 2, 3, 4, 5), np.datetime64("2020-02-03T04:05")),
        (pd.Timestamp("2020-02-03 04:05"), np.datetime64("2020-02-03T04:05")),
        (datetime(2020, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), np.datetime64("2020-02-03T02:05")),
        (time(4, 5, 6), np.timedelta64(4 * 3600 + 5 * 60 + 6, "s")),
        (timedelta(2, 3), np.timedelta64(2 * 86400 + 3, "s")),
    ],
    ids=str,
)
def test_objects_that_are_times_become_times(value, expected):
    column = make_column(np.array([value, None, value], dtype=object))
    assert column.kind == "time"
    assert column.null.tolist() == [False, True, False]
    assert (column.values[[0, 2]] == expected).all()


@pytest.mark.parametrize(("value", "kind"), [
    (datetime(2020, 2, 3), "TIMESTAMP"), (timedelta(2), "INTERVAL"), (True, "BOOLEAN"), (2**53 + 1, "BIGINT"),
    ("word", "VARCHAR"), (2.5, "DOUBLE")])
def test_what_is_missing_is_no_value_and_the_others_are_what_they_were(value, kind, tmp_path):
    """DuckDB hands out 1970-01-01 for a missing date, beside a mask that says so."""
    path = str(tmp_path / "t.parquet")
    with connect_duckdb() as place:
        place.execute(f"COPY (SELECT unnest([?, NULL])::{kind} AS v) TO '{path}'", [value])
    found = plain(read_columns(path, ["v"])["v"])
    first = found.astype(found.dtype.str.replace("[ns]", "[us]")).tolist()[0]  # intervals of DuckDB 1.2
    assert (type(first), first) == (type(value), value)
    assert pd.isna(found[1])


@pytest.mark.parametrize("kind", ["Struct", "Array"])
def test_columns_of_polars_that_are_several_in_numpy_are_refused_by_name(kind):
    pl = pytest.importorskip("polars")
    entry, dtype = {"Struct": ({"u": 1, "v": 2}, None), "Array": ([1, 2], pl.Array(pl.Int64, 2))}[kind]
    a = pl.DataFrame({"f": pl.Series([entry] * 6, dtype=dtype), "y": [0, 1] * 3})
    for frame in (a, a.lazy()):
        with pytest.raises(ValueError, match=r"Feature a\.f holds arrays, structures or bytes"):
            RelationalLinearSVC().fit(Join([Table("a", frame, features=["f"], label="y")]))


def test_dates_of_a_frame_are_refused_as_features_and_join_with_those_of_numpy():
    days = pd.date_range("2020-01-01", periods=6)
    a = pd.DataFrame({"day": [day.date() for day in days], "y": [0, 1] * 3, "x": range(6)})
    with pytest.raises(ValueError, match=r"Feature a\.day holds times"):
        RelationalLinearSVC().fit(Join([Table("a", a, features=["day"], label="y")], on=[]))
    b = pd.DataFrame({"day": days[2:], "z": range(4)})
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"])], on=[("a.day", "b.day")])
    assert prepare(join).n_rows == 4
    nothing = Table("n", pd.DataFrame({"day": [None, None]}), features=[])
    assert prepare(Join([*join.tables, nothing], [*join.on, ("a.day", "n.day", "left")])).n_rows == 4
    model = RelationalLinearSVC(alpha=0.1).fit(join)
    with pytest.raises(ValueError, match=r"'a\.x' must hold numbers, as in training"):
        model.predict(pd.DataFrame({"a.x": a["day"], "b.z": 1.0}))


def test_the_size_of_many_files_is_known_from_three_queries_a_file(tmp_path, monkeypatch):
    """A star of ten files: the columns of each are asked for once, then its number of rows and a few rows."""
    tables = []
    for i in range(10):
        path = tmp_path / f"t{i}.csv"
        pd.DataFrame({"k": [1, 2], "x": [0.5, 1.5], "y": [0, 1]}).to_csv(path, index=False)
        tables.append(Table(f"t{i}", path, features=["x"], label=None if i else "y"))
    join = Join(tables, [("t0.k", f"t{i}.k") for i in range(1, 10)])
    queries = []

    def counted():
        queries.append(1)
        return connect_duckdb()

    monkeypatch.setattr("buttress.relational.sources.files.connect_duckdb", counted)
    needed = needed_megabytes(join, join.check())
    assert len(queries) == 30
    double = [Table(t.name, [t.source, t.source], features=t.features, label=t.label) for t in tables]
    twice = Join(double, join.on)
    assert needed_megabytes(twice, twice.check()) == pytest.approx(2 * needed)
    assert needed > 8e-6 * 2 * (3 + 9 * 2)  # no less than the values themselves
