"""buttress apply: corrections of a person, applied to the file that was audited, and to nothing else in it."""

import csv

import polars as pl
import pytest

from buttress.audit.reading.corrections import apply_corrections, read_corrections

DATA = 'size;note;y\n1,5;"a; b";yes\n 2,0 ;;no\n3,25;"say ""hi""";yes\n4;z;n.a.\n'
HEADER = ["row", "verdict", "target", "corrected", "drop", "size"]


def fixes(folder, *rows):
    path = folder / "suspicious.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path


def test_only_the_corrected_entries_change(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    found = read_corrections(fixes(tmp_path, [2, "wrong", "y", "no", "", 3], [0, "fine", "y", "", "", 1],
                                   [3, "", "y", "", "yes", 4]))
    assert apply_corrections(found, tmp_path / "data.csv", tmp_path / "clean.csv") == (1, 1)
    before = list(csv.reader(DATA.splitlines(), delimiter=";"))
    after = list(csv.reader((tmp_path / "clean.csv").read_text().splitlines(), delimiter=";"))
    before[3][2] = "no"
    assert after == before[:4]


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"size": [1.5, None, 3.0], "y": [1, 2, 3]})
    frame.write_parquet(tmp_path / "data.parquet")
    found = read_corrections(fixes(tmp_path, [1, "wrong", "y", "7", "", ""], [0, "wrong", "y", "", "x", ""]))
    apply_corrections(found, tmp_path / "data.parquet", tmp_path / "clean.parquet")
    assert pl.read_parquet(tmp_path / "clean.parquet").equals(pl.DataFrame({"size": [None, 3.0], "y": [7, 3]}))
    found.corrected[1] = "seven"
    with pytest.raises(ValueError, match="A corrected target is no Int64"):
        apply_corrections(found, tmp_path / "data.parquet", tmp_path / "clean.parquet")


@pytest.mark.parametrize(("row", "message"), [
    ([9, "wrong", "y", "no", "", 3], "Row 9 is to be changed, but data.csv has 4 rows"),
    ([1, "wrong", "z", "no", "", 3], "no column 'z'"),
    ([1, "wrong", "y", "", "perhaps", 3], "says 'perhaps' under drop in row 1"),
    (["r1", "wrong", "y", "no", "", 3], "calls a row 'r1'"),
])
def test_corrections_that_do_not_fit_are_refused_and_nothing_is_left(tmp_path, row, message):
    (tmp_path / "data.csv").write_text(DATA)
    with pytest.raises(ValueError, match=message):
        apply_corrections(read_corrections(fixes(tmp_path, row)), tmp_path / "data.csv", tmp_path / "clean.csv")
    assert not (tmp_path / "clean.csv").exists()


def test_another_file_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="needs the columns row, target, and corrected or drop"):
        read_corrections(tmp_path / "other.csv")
