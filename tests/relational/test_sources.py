"""Files that cannot be read, and features that mean nothing to a linear model, however late that shows."""

import pytest

from buttress.relational import Join, RelationalLinearSVC, SourceLostError, Table
from buttress.relational.sources import column_names, read_columns, row_count

pytest.importorskip("duckdb")

LATE = 200_000  # rows, beyond what DuckDB looks at before it hands out the first ones


def numbered(path, last, header=b"k,name"):
    """Write a CSV file of many good rows and one more."""
    path.write_bytes(header + b"\n" + b"".join(b"%d,word\n" % i for i in range(LATE)) + last + b"\n")
    return path


@pytest.mark.parametrize(
    ("last", "reason"),
    [(b"7,caf\xe9", rf".*Line: {LATE + 2}; .*iconv -f cp1252 -t utf-8 late\.csv > utf8\.csv"),
     (b"seven,word", rf".*Line: {LATE + 2}; .*seven.*Mend that row")],
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
    with pytest.raises(SourceLostError, match=f"Line: {LATE + 2}; .*seven.*Mend that row"):
        RelationalLinearSVC(engine="sql").fit(join)


def test_a_good_file_is_read_to_its_last_row(tmp_path):
    path = numbered(tmp_path / "late.csv", "7,café".encode())
    read = read_columns(path, ["k", "name"])
    assert row_count(path) == len(read["k"].values) == LATE + 1
    assert (read["k"].values[-1], read["name"].values[-1]) == (7, "café")
