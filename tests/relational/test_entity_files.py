"""Features of entities from CSV files: tables without a row, and dates that may begin with the day or the month."""

import pandas as pd
import pytest

from buttress.relational import EntityFeatures, Join, Table, describe

pytest.importorskip("duckdb")

ENGINES = pytest.mark.parametrize("engine", ["memory", "sql"])


def joined(folder, rows, dates=("2024-03-01", "2024-03-02"), at="2024-03-01"):
    """Entities 1 and 2 at a date, and rows of both at some dates, in files."""
    (folder / "a.csv").write_text(f"k,at,y\n1,{at},0\n2,{at},1\n")
    for i, lines in enumerate(rows):
        (folder / f"b-{i}.csv").write_text("k,t,z\n" + "".join(f"{k},{dates[j]},{z}\n" for k, j, z in lines))
    return Join([Table("a", folder / "a.csv", label="y"), Table("b", folder / "b-*.csv", features=["z"], time="t")],
                [("a.k", "b.k")], as_of="a.at")


def made_of(join, engine):
    made = EntityFeatures(join, ["count", "sum"], missing="nan", engine=engine)
    asked = pd.DataFrame({"k": [1, 2], "at": pd.to_datetime(["2024-03-02", "2024-03-01"])})
    return dict(zip(map(str, made.fit(asked).get_feature_names_out()), made.transform(asked).T.tolist()))


@ENGINES
@pytest.mark.parametrize("rows", [[[]], [[], [(1, 0, 2)]], [[(1, 0, 2)], []]], ids=["alone", "first", "second"])
def test_a_file_with_a_header_alone_has_no_rows(tmp_path, engine, rows):
    found = made_of(joined(tmp_path, rows), engine)
    assert found["b.count"] == [float(any(rows)), 0.0], "a row at the date itself is not known"
    assert not any(rows) or found["b.z.sum"] == [2.0, 0.0]


@ENGINES
@pytest.mark.parametrize("dates", [("03/01/2024", "04/01/2024"), ("3.1.2024 10:30", "12.12.2024 10:30")])
def test_dates_of_which_the_first_number_may_be_the_month_are_refused(tmp_path, engine, dates):
    """Of first days of months in American order DuckDB makes days of January, which every later date would see."""
    join = joined(tmp_path, [[(1, 0, 2), (2, 1, 4)]], dates)
    with pytest.raises(ValueError, match=rf"Column 't' of .*b-\*\.csv' holds dates such as '{dates[0]}'.*2024-03-31"):
        made_of(join, engine)
    with pytest.raises(ValueError, match="Column 't'"):
        describe(join)


def test_a_date_of_entities_is_refused_alike(tmp_path):
    with pytest.raises(ValueError, match=r"Column 'at' of .*a\.csv' holds dates such as '03/04/2024'"):
        describe(joined(tmp_path, [[(1, 0, 2)]], at="03/04/2024"))


@ENGINES
def test_dates_that_can_begin_with_one_of_the_two_alone_are_read_so(tmp_path, engine):
    for dates in (("02/29/2024", "03/01/2024"), ("29/02/2024", "01/03/2024")):
        assert made_of(joined(tmp_path, [[(1, 0, 2), (2, 1, 4)]], dates), engine)["b.count"] == [1.0, 0.0]
