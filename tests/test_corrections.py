"""buttress apply: corrections of a person, applied to the rows that were audited, and to nothing else in the file."""

import csv
import io
import random
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

import buttress
from buttress.audit.reading.corrections import apply_corrections, read_corrections, row_keys
from buttress.audit.reading.source import read_file

DATA = 'size;note;y\r\n1,50;"a; b";yes\r\n 2,0 ;;"no"\r\n3,25;"say ""hi"",\nthen go";yes\r\n4;z;n.a.'
ROWS = DATA.split("\r\n")


def keys_of(path):
    """The keys an audit gives the rows of a file: made of the columns as it reads them."""
    return row_keys(read_file(str(path), None))


def fixes(folder, data, *rows, target="y"):
    """suspicious.csv with (number of the row, corrected, drop)."""
    keys = keys_of(data)
    path = folder / "suspicious.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["row", "target", "key", "corrected", "drop"],
                                    *([row, target, keys[row], corrected, drop] for row, corrected, drop in rows)])
    return path


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(DATA.encode())
    return path


def applied(found, data, output=None):
    output = output or data.with_name(f"clean{data.suffix}")
    done = apply_corrections(found, data, output)
    return (done.corrected, done.dropped, done.refused), output.read_bytes()


def test_every_other_byte_stays(tmp_path, data):
    found = read_corrections(fixes(tmp_path, data, (1, "yes", ""), (2, "no", ""), (0, "", ""), (3, "", "yes")))
    done, clean = applied(found, data)
    assert done == (2, 1, [])
    wanted = [ROWS[0], ROWS[1], ROWS[2].replace('"no"', '"yes"'), ROWS[3].replace(";yes", ";no"), ""]
    assert clean.decode() == "\r\n".join(wanted)


@pytest.mark.parametrize("first", ["\ufeff", "\n\n", "\ufeff\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_surrounds_the_rows_stays(tmp_path, first, end):
    data = tmp_path / "data.csv"
    lines = ["a,y", "1,u", "2,v", "", "3,w", ""]
    text = first + end.join(lines)
    data.write_bytes(text.encode())
    plain = tmp_path / "plain.csv"
    plain.write_text("a,y\n1,u\n2,v\n3,w\n")
    found = read_corrections(fixes(tmp_path, plain, (1, "x, y", "")))
    done, clean = applied(found, data)
    assert done == (1, 0, [])
    assert clean.decode() == text.replace("2,v", '2,"x, y"')


def test_bytes_that_are_no_text_stay(tmp_path):
    data = tmp_path / "data.csv"
    data.write_bytes(b"a,y\n1,u\n2,v\n")
    found = read_corrections(fixes(tmp_path, data, (1, "w", "")))
    data.write_bytes(b"a,y\n1,u\n2,v\n3,\xff\xfe\n")
    assert applied(found, data) == ((1, 0, []), b"a,y\n1,u\n2,w\n3,\xff\xfe\n")


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_moved_are_found_and_no_other_is_touched(tmp_path, seed):
    """The attack: the file is shuffled, cut and added to, with copies of rows that are to be corrected."""
    rng = random.Random(seed)
    pool = [f"{rng.choice(['1', '1.0', '2.5', ''])},{rng.choice('ab')},{rng.choice('uv')}" for _ in range(60)]
    data = tmp_path / "data.csv"
    data.write_text("\n".join(["a,b,y", *pool]) + "\n")
    chosen = rng.sample(range(60), 12)
    found = read_corrections(fixes(tmp_path, data, *((row, f"new{row}", "") for row in chosen[:8]),
                                   *((row, "", "yes") for row in chosen[8:])))
    order = rng.sample(range(60), 60)
    data.write_text("\n".join(["a,b,y", *(pool[row] for row in order), "9,a,u"]) + "\n")
    done, clean = applied(found, data)
    assert done == (8, 4, [])
    lines = clean.decode().splitlines()[1:]
    expected = sorted([f"{_value(pool[row])},{pool[row].split(',')[1]},new{row}" for row in chosen[:8]]
                      + [_plain(pool[row]) for row in range(60) if row not in chosen] + [_plain("9,a,u")])
    assert sorted(map(_plain, lines)) == expected


def _value(line):
    first = line.split(",")[0]
    return str(float(first)) if first else ""


def _plain(line):
    return ",".join([_value(line), *line.split(",")[1:]])


def test_rows_that_changed_are_refused_and_the_others_corrected(tmp_path, data):
    found = read_corrections(fixes(tmp_path, data, (0, "no", ""), (1, "yes", ""), (3, "", "yes")))
    data.write_bytes(DATA.replace("1,50", "1,51").replace(";z;", ";Z;").encode())
    done, clean = applied(found, data)
    assert done == (1, 0, ["0", "3"])
    assert clean.decode() == data.read_bytes().decode().replace('"no"', '"yes"')


def test_numbers_of_twenty_digits_are_read_and_find_their_rows(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("id,y\n" + "".join(f"{10**19 + row},u\n" for row in range(3)))
    try:
        pl.read_csv(data)
    except pl.exceptions.ComputeError:
        pytest.skip("this polars refuses such numbers itself, naming the column")
    assert [int(text) for text in read_file(str(data), None)["id"].to_numpy()] == [10**19 + row for row in range(3)]
    done, clean = applied(read_corrections(fixes(tmp_path, data, (1, "v", ""))), data)
    assert (done, clean) == ((1, 0, []), data.read_bytes().replace(b"1,u", b"1,v"))


def test_corrections_are_applied_once(tmp_path, data):
    found = read_corrections(fixes(tmp_path, data, (0, "no", "")))
    _, clean = applied(found, data)
    data.write_bytes(clean)
    assert applied(found, data) == ((0, 0, ["0"]), clean)


@pytest.mark.parametrize("name", ["clean.csv.gz", "clean.parquet"])
def test_a_file_that_would_not_be_what_its_name_says_is_refused(tmp_path, data, name):
    found = read_corrections(fixes(tmp_path, data, (0, "no", "")))
    with pytest.raises(ValueError, match=r"is plain csv, as data\.csv.*end its name in \.csv"):
        apply_corrections(found, data, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_parquet_keeps_its_types_and_finds_rows_that_moved(tmp_path):
    frame = pl.DataFrame({"size": [1.5, None, 3.0], "y": [1, 2, 3]})
    data = tmp_path / "data.parquet"
    frame.write_parquet(data)
    found = read_corrections(fixes(tmp_path, data, (1, "7", ""), (0, "", "x")))
    frame[::-1].write_parquet(data)
    done = apply_corrections(found, data, tmp_path / "clean.parquet")
    assert (done.corrected, done.dropped, done.refused) == (1, 1, [])
    assert pl.read_parquet(tmp_path / "clean.parquet").equals(pl.DataFrame({"size": [3.0, None], "y": [3, 7]}))
    found.corrected = dict.fromkeys(found.corrected, "seven")
    with pytest.raises(ValueError, match="A corrected target is no Int64"):
        apply_corrections(found, data, tmp_path / "clean.parquet")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_spaces_around_a_class_are_part_of_it_as_in_the_data(tmp_path, suffix):
    data = tmp_path / f"data{suffix}"
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [" no", "yes", " no", "yes"]})
    getattr(frame, f"write_{suffix[1:]}")(data)
    found = read_corrections(fixes(tmp_path, data, (1, " no", ""), (2, "yes ", ""), (3, "  ", "")))
    done, _ = applied(found, data)
    assert done == (2, 0, [])
    assert read_file(str(data.with_name(f"clean{suffix}")), None)["y"].to_list() == [" no", " no", "yes", "yes"]


@pytest.mark.parametrize(("one", "other", "typed", "wanted"), [
    ("TRUE", "FALSE", "False", "FALSE"), ("true", "false", "False", "false"), ("01", "02", "2", "02"),
    ("1.0", "2.0", "2", "2.0"), ('"1,000"', '"2,000"', "2", '"2"')])
def test_a_correction_is_spelled_as_the_data_spell_it(tmp_path, one, other, typed, wanted):
    """The audit reads TRUE as a truth value, and 02 as a number: written otherwise it were a class of its own."""
    data = tmp_path / "data.csv"
    data.write_text(f"a,y\n1,{one}\n2,{other}\n3,{one}\n")
    done, clean = applied(read_corrections(fixes(tmp_path, data, (0, typed, ""))), data)
    assert (done, clean.decode()) == ((1, 0, []), f"a,y\n1,{wanted}\n2,{other}\n3,{one}\n")


def test_a_number_of_a_file_with_decimal_commas_is_written_with_one(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a;y\n1;2,5\n2;7,5\n3;99,5\n")
    _, clean = applied(read_corrections(fixes(tmp_path, data, (2, "8.25", ""))), data)
    assert clean == b"a;y\n1;2,5\n2;7,5\n3;8,25\n"


def test_truth_values_of_parquet_are_corrected(tmp_path):
    data = tmp_path / "data.parquet"
    pl.DataFrame({"x": [1, 2, 3, 4], "y": [True, False, None, True]}).write_parquet(data)
    found = read_corrections(fixes(tmp_path, data, (0, "false", ""), (1, "True", "")))
    assert applied(found, data)[0] == (2, 0, [])
    assert pl.read_parquet(tmp_path / "clean.parquet")["y"].to_list() == [False, True, None, True]
    with pytest.raises(ValueError, match="A corrected target is no Boolean"):
        applied(read_corrections(fixes(tmp_path, data, (0, "0", ""))), data)


def test_a_row_has_one_key_as_text_and_in_every_frame():
    text = 'i,f,s,b,m\n1,0.1,x,true,\n-2,1e-7, y ,false,NA\n9007199254740993,2.50,007,true,3\n4,-0.0,"1,5",false,1\n'
    cells = list(csv.reader(io.StringIO(text)))
    as_text = row_keys({name: [row[j] for row in cells[1:]] for j, name in enumerate(cells[0])})
    polars, pandas = pl.read_csv(text.encode(), null_values=["", "NA"]), pd.read_csv(io.StringIO(text))
    assert row_keys({name: polars[name] for name in polars.columns}) == as_text
    assert row_keys({name: pandas[name] for name in pandas}) == as_text
    assert row_keys({name: pandas[name] for name in reversed(pandas.columns)}) == as_text
    assert len(set(as_text)) == 4


def test_large_whole_numbers_have_the_key_of_their_text_beside_a_gap():
    entries = [2**60, None, 2**60 + 1]
    as_text = row_keys({"i": ["" if entry is None else str(entry) for entry in entries]})
    assert len(set(as_text)) == 3
    for frame in (pl.Series(entries), pl.Series(entries, dtype=pl.Int128), pd.Series(entries, dtype="Int64")):
        assert row_keys({"i": frame}) == as_text


def test_keys_count_equal_rows_and_tell_others_apart():
    rng = np.random.default_rng(0)
    many = {"a": rng.integers(0, 500, 20_000), "b": rng.choice(list("xyz"), 20_000), "c": rng.integers(0, 9, 20_000)}
    rows = list(zip(*(column.tolist() for column in many.values()), strict=True))
    seen, wanted = {}, []
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
        wanted.append(seen[row])
    keys = row_keys(many)
    assert [int(key.partition(".")[2]) for key in keys] == wanted
    assert len({key.partition(".")[0] for key in keys}) == len(seen)
    swapped = {"a": many["c"], "b": many["b"], "c": many["a"]}
    assert len(set(row_keys(swapped)) & set(keys)) <= sum(row[::-1] in seen for row in rows)


def test_the_sheet_of_an_audit_has_the_keys_of_the_file(tmp_path):
    data = tmp_path / "data.csv"
    rng = np.random.default_rng(0)
    pl.DataFrame({"a": rng.normal(size=60), "b": rng.integers(0, 3, 60), "y": ["u", "v"] * 30}).write_csv(data)
    buttress.audit(None, *_parts(data), rows=30, target_name="y").save(tmp_path)
    with (tmp_path / "suspicious.csv").open(newline="") as file:
        assert [row["key"] for row in csv.DictReader(file)] == keys_of(data)


@pytest.mark.parametrize("entries", [
    [timedelta(days=row) for row in range(60)], [b"u", b"\xff"] * 30, [[1, 2], [3]] * 30, [{"u": 1, "v": 2.5}] * 60,
    [{"u": 1}, {"u": 2}] * 30], ids=["durations", "bytes", "lists", "one struct", "structs"])
def test_columns_of_parquet_that_no_csv_holds_are_written_as_texts(tmp_path, entries):
    data = tmp_path / "data.parquet"
    number = np.random.default_rng(0).normal(size=60)
    pl.DataFrame({"a": number, "c": entries, "y": ["u", "v"] * 30}).write_parquet(data)
    frame = pl.read_parquet(data)
    buttress.audit(None, frame.drop("y"), frame["y"], rows=30, target_name="y").save(tmp_path)
    with (tmp_path / "suspicious.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["key"], float(row["a"]), row["c"]) for row in rows] == list(
        zip(keys_of(data), number.tolist(), map(str, entries), strict=True))


def _parts(data):
    frame = pl.read_csv(data)
    return frame.drop("y"), frame["y"]


@pytest.mark.parametrize(("row", "message"), [
    ({"target": "z", "corrected": "no"}, "no column 'z'"),
    ({"drop": "perhaps"}, "says 'perhaps' under drop in row 1"),
    ({"key": "1.0", "corrected": "no"}, "has '1.0' under key in row 1"),
])
def test_corrections_that_cannot_be_understood_are_refused_and_nothing_is_written(tmp_path, data, row, message):
    row = {"row": "1", "target": "y", "key": keys_of(data)[1], "corrected": "", "drop": ""} | row
    path = tmp_path / "suspicious.csv"
    path.write_text("\n".join(map(",".join, (row.keys(), row.values()))))
    with pytest.raises(ValueError, match=message):
        apply_corrections(read_corrections(path), data, tmp_path / "clean.csv")
    assert not (tmp_path / "clean.csv").exists()


def test_a_row_that_stands_there_twice_is_refused(tmp_path, data):
    path = fixes(tmp_path, data, (1, "yes", ""), (1, "no", ""))
    with pytest.raises(ValueError, match="has the key of row 1 twice"):
        read_corrections(path)


def test_a_short_row_is_refused(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a,y\n1,u\n2\n")
    keys = row_keys({"a": ["1", "2"], "y": ["u", ""]})
    (tmp_path / "suspicious.csv").write_text(f"row,target,key,corrected\n1,y,{keys[1]},v\n")
    with pytest.raises(ValueError, match="has no cell for its target: '2'"):
        apply_corrections(read_corrections(tmp_path / "suspicious.csv"), data, tmp_path / "clean.csv")


def test_another_file_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="needs the columns row, target, key, and corrected or drop"):
        read_corrections(tmp_path / "other.csv")
