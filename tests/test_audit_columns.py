"""How the audit reads columns: stray words among numbers, notations, dates, and what it says of each."""

import gzip
import re
import zipfile
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from buttress import KernelRegressor
from buttress.audit.models import training
from buttress.audit.reading import entries
from buttress.audit.reading.cautions import counts, skewed, stretched, tells
from buttress.audit.reading.entries import texts_of
from buttress.audit.reading.source import kind_of, load, read_call
from buttress.audit.reading.split import set_apart, split
from buttress.audit.reading.table import columns_of, make_table
from buttress.audit.writing.paste import paste


@pytest.fixture
def numbers():
    return np.random.default_rng(0).uniform(500, 5000, 80).round(2)


def written(numbers, notation):
    """Return numbers as texts, in a notation that is read back exactly."""
    texts = [notation.format(number) for number in numbers]
    return [text.replace(".", ",") for text in texts] if notation == "{:.2f} " else texts


def test_a_word_among_numbers_is_missing_and_named(numbers):
    texts = np.array([f"{number}" for number in numbers], dtype=object)
    texts[[4, 7]] = "broken", "oops"
    table = make_table({"a": texts, "b": -numbers}, numbers, "y", "auto")
    assert np.flatnonzero(np.isnan(table.numeric["a"])).tolist() == [4, 7]
    np.testing.assert_array_equal(np.delete(table.numeric["a"], [4, 7]), np.delete(numbers, [4, 7]))
    assert "78 of 80 entries of 'a' are numbers; 'broken' in row 4 is not, nor is one other" in table.notes[0]


@pytest.mark.parametrize("word", [".", "?", "n.a.", " NA"])
def test_words_for_a_missing_number_may_be_as_many_as_they_like(numbers, word):
    texts = np.array([f"{number}" for number in numbers], dtype=object)
    texts[:60] = word
    texts[60] = "-"
    table = make_table({"a": texts, "b": -numbers}, numbers, "y", "auto")
    np.testing.assert_array_equal(table.numeric["a"], np.r_[np.full(61, np.nan), numbers[61:]])
    said = f"it was read as such; {word!r}, '-' in 61 rows as missing."
    assert table.notes == [f"Column 'a' holds numbers, but not in a type of numbers; {said}"]


def test_a_column_of_words_and_numbers_stays_an_identifier_with_the_reason(numbers):
    texts = np.array([f"{number}" for number in numbers], dtype=object)
    texts[:20] = [f"lot {i}" for i in range(20)]
    table = make_table({"a": texts, "b": -numbers}, numbers, "y", "auto")
    assert list(table.numeric) == ["b"]
    assert "free text are. 60 of 80 entries of 'a' are numbers; 'lot 0' in row 0 is not, nor are 19" in table.notes[0]


@pytest.mark.parametrize("task", ["auto", "regression"])
def test_a_word_in_the_target_is_named_with_its_row(numbers, task):
    target = np.array([f"{number}" for number in numbers - 2000], dtype=object)
    target[[2, 4]] = None, "oops"
    with pytest.raises(ValueError, match=r"78 of 79 entries of 'y' are numbers; 'oops' in row 4 is not\. Correct"):
        make_table({"b": numbers}, target, "y", task)
    target[4] = "n.a."
    table = make_table({"b": numbers}, target, "y", task)
    np.testing.assert_array_equal(table.target, np.delete(numbers - 2000, [2, 4]))
    assert table.target_words == {"n.a.": 1}


@pytest.mark.parametrize(("levels", "rows", "kept"), [(51, 510, True), (51, 509, False), (50, 60, True),
                                                      (255, 2550, True), (256, 2560, False)])
def test_texts_of_many_rows_each_are_a_category(levels, rows, kept):
    texts = np.array([f"state {row % levels}" for row in range(rows)], dtype=object)
    table = make_table({"a": texts, "b": np.arange(rows) / 2}, np.arange(rows) % 2, "y", "auto")
    assert list(table.categorical) == ["a"] * kept
    assert table.identifiers == ["a"] * (not kept)


def test_labels_that_are_mostly_numbers_stay_classes(numbers):
    target = np.array(["1", "2", "3", "other"] * 20, dtype=object)
    table = make_table({"b": numbers}, target, "y", "auto")
    assert table.task == "classification"
    assert set(table.target) == {"1", "2", "3", "other"}


@pytest.mark.parametrize(("notation", "name"), [
    ("{:,.2f}", "commas between thousands"), ("{:.2f}%", "percentages"), ("{:.2f} ", "decimal commas"),
    (" {}", "'a' holds numbers, but not in a type of")])
def test_numbers_in_other_notations_are_read(numbers, notation, name):
    table = make_table({"a": np.array(written(numbers, notation), dtype=object)}, numbers, "y", "auto")
    np.testing.assert_allclose(table.numeric["a"], numbers)
    assert name in table.notes[0]


def test_points_between_thousands_before_decimal_commas_are_read_as_excel_writes_them_in_german():
    amounts = np.random.default_rng(0).lognormal(8, 2, 80).round(2)
    written = np.array([f"{one:,.2f}".translate(str.maketrans(",.", ".,")) for one in amounts], dtype=object)
    table = make_table({"a": written}, amounts, "y", "auto")
    assert max(map(len, written)) > 9
    np.testing.assert_array_equal(table.numeric["a"], amounts)


def test_a_comma_after_a_zero_is_a_decimal_one():
    """Three decimals look like thousands, but nobody writes 0,125 for 125."""
    shares = np.arange(1, 90) / 1000
    texts = np.array([f"{share:.3f}".replace(".", ",") for share in shares], dtype=object)
    table = make_table({"a": texts}, shares, "y", "auto")
    np.testing.assert_allclose(table.numeric["a"], shares)


def test_the_pasted_code_reads_the_same_numbers(numbers, tmp_path):
    words = [f"{number}" for number in numbers]
    words[4:12] = "missing", " 7.5 ", "1e3", "+2.25", ".5", "1.", "-4", "5E-1"
    path = tmp_path / "odd.csv"
    pl.DataFrame({"words": words, "commas": written(numbers[::-1], "{:,.2f}"), "share": written(numbers, "{:.2f}%"),
                  "y": written(numbers, "{:,.2f}")}).write_csv(path)
    columns, y, target = load(str(path), "y", None)
    table = make_table(columns, y, target, "auto")
    assert table.task == "regression"
    np.testing.assert_allclose(table.target, numbers)
    table.origin = str(path), kind_of(str(path), None)
    scope = {}
    exec(paste(table, KernelRegressor()), scope)
    for name, column in table.numeric.items():
        np.testing.assert_array_equal(scope["frame"][name].to_numpy(), column)
    assert scope["model"].score(scope["frame"], numbers) > 0.8


DAYS = pd.date_range("2024-01-01", periods=80, freq="D")


@pytest.mark.parametrize("dates", [
    DAYS, DAYS.to_numpy(), DAYS.strftime("%Y-%m-%d"), DAYS.strftime("%d.%m.%Y"), DAYS.strftime("%m/%d/%Y %H:%M"),
    pl.Series(DAYS.to_list()).dt.date()], ids=["pandas", "numpy", "iso", "points", "slashes", "polars"])
def test_dates_are_called_dates(numbers, dates):
    table = make_table({"when": dates, "b": numbers}, numbers, "y", "auto")
    assert list(table.numeric) == ["b"]
    assert "'when' holds dates and was dropped" in table.notes[0]
    assert "days since" in table.notes[0]
    with pytest.raises(ValueError, match="target 'y' holds dates"):
        make_table({"b": numbers}, dates, "y", "regression")


def test_a_column_that_counts_the_rows_is_known(numbers):
    shuffled = np.random.default_rng(1).permutation(80)
    ids = {"id": np.arange(1000, 1080), "mixed": shuffled, "near": np.r_[shuffled[:-1], 200], "half": shuffled + 0.5}
    table = make_table({**ids, "b": numbers}, numbers[::-1], "y", "auto")
    assert [name for name, column in table.numeric.items() if counts(column)] == ["id", "mixed"]


def test_the_index_that_pandas_wrote_is_dropped(numbers, tmp_path):
    pd.DataFrame({"b": numbers, "y": numbers[::-1]}).to_csv(tmp_path / "with_index.csv")
    table = make_table(*load(str(tmp_path / "with_index.csv"), "y", None), "auto")
    assert list(table.numeric) == ["b"]
    assert "index of a frame" in table.notes[0]
    table = make_table({"": numbers, "b": -numbers}, numbers, "y", "auto")
    assert list(table.numeric) == ["", "b"]


@pytest.mark.parametrize("kind", ["int64", "Int64", "object"])
def test_whole_numbers_that_floats_do_not_tell_apart_are_no_numbers_and_not_constant(numbers, kind):
    beyond = pd.Series(range(2**60, 2**60 + 80)).astype(kind)
    assert (beyond.nunique(), beyond.astype(float).nunique()) == (80, 1)
    table = make_table({"id": beyond, "far": 1024 * (beyond - 2**60) + 2**60, "b": numbers}, numbers, "y", "auto")
    assert list(table.numeric) == ["far", "b"]
    assert (table.identifiers, table.constant) == (["id"], [])
    assert "'id' holds whole numbers beyond 2^53" in table.notes[0]


@pytest.mark.parametrize("gap", [False, True], ids=["whole", "gap"])
@pytest.mark.parametrize("made", [pl.Series, partial(pl.Series, dtype=pl.Int128), partial(pd.Series, dtype="Int64"),
                                  lambda entries: pd.Series(entries, dtype="Int64").astype("string")],
                         ids=["polars", "polars128", "pandas", "texts"])
def test_large_whole_numbers_keep_their_digits_beside_a_gap(numbers, made, gap):
    """Frames turn whole numbers with a gap into floats, of which 2^60 and 2^60 + 1 are one."""
    entries = [None if gap and row == 7 else 2**60 + row % 4 for row in range(80)]
    table = make_table({"id": made(entries), "b": numbers}, made(entries), "y", "classification")
    assert (table.identifiers, table.constant, list(table.numeric)) == (["id"], [], ["b"])
    assert sorted(map(str, set(table.target.tolist()))) == [str(2**60 + rest) for rest in range(4)]
    set_apart(table, "id", None)
    assert table.groups.max() == 3


def test_a_target_without_any_entry_is_refused(numbers):
    for empty in ([None] * 80, pl.Series([None] * 80, dtype=pl.String), numbers[:0].astype(str)):
        with pytest.raises(ValueError, match="at least 20 rows with a target"):
            make_table({"b": numbers}, empty, "y", "auto")


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_an_infinite_target_is_refused_in_every_precision(numbers, kind):
    target = numbers.astype(kind)
    target[4] = -np.inf
    with pytest.raises(ValueError, match="'y' holds -inf in row 4"):
        make_table({"b": numbers}, target, "y", "auto")


@pytest.mark.parametrize("target", [np.uint64(2**63) + np.arange(80, dtype=np.uint64) % 2, 1e19 * (np.arange(80) % 2)])
def test_classes_are_whole_numbers_that_an_integer_holds(numbers, target):
    with pytest.raises(ValueError, match="too large a whole number for a class"):
        make_table({"b": numbers}, target, "y", "auto")
    held = np.int64(2**62) + np.arange(80) % 2
    assert set(make_table({"b": numbers}, held, "y", "auto").target.tolist()) == {2**62, 2**62 + 1}


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "Unnamed: 7"])
def test_a_sampled_or_filtered_index_is_dropped(numbers, name):
    sampled = np.sort(np.random.default_rng(0).permutation(5000)[:80])
    table = make_table({name: sampled, "b": numbers}, numbers[::-1], "y", "auto")
    assert list(table.numeric) == ["b"]
    assert list(table.indexes) == [name]
    repeated = np.r_[sampled[:-1], sampled[0]]
    table = make_table({name: repeated, "b": numbers}, numbers[::-1], "y", "auto")
    assert list(table.numeric) == [name, "b"]


@pytest.mark.parametrize(("written", "unit", "number"), [
    (["£7.11", "£1,200.50", "£8"], "£", 1200.5), (["12 kg", "13.5 kg", "14kg"], "kg", 13.5),
    (["12,5 €", "1 €", "1,25€"], "€", 1.0), (["-3 °C", "4 °C", "5"], "°C", 4.0)])
def test_units_in_the_entries_are_named_and_left_out(numbers, written, unit, number):
    texts = np.array(written * 20, dtype=object)
    table = make_table({"a": texts, "b": np.arange(60.0) ** 2}, numbers[:60], "y", "auto")
    assert table.numeric["a"][1] == number
    assert not np.isnan(table.numeric["a"]).any()
    assert repr(unit) in table.notes[0]
    assert table.units == {}


def test_mixed_units_are_counted_and_codes_are_no_units(numbers):
    texts = np.array([f"{n} kg" for n in range(60)] + ["500 g"] * 20, dtype=object)
    codes = np.array(["A1", "B2", "C3", "D4"] * 20, dtype=object)
    table = make_table({"a": texts, "codes": codes}, numbers, "y", "auto")
    assert table.units == {"a": {"kg": 60, "g": 20}}
    assert np.isnan(table.numeric["a"]).sum() == 20
    assert list(table.categorical) == ["codes"]


def test_few_different_texts_with_several_units_are_a_category(numbers):
    ranks = np.array(["1st", "2nd", "3rd", "3rd"] * 20, dtype=object)
    table = make_table({"rank": ranks, "b": numbers}, numbers[::-1], "y", "auto")
    assert table.categorical["rank"].tolist() == ranks.tolist()
    assert (table.units, table.notes) == ({}, [])


def test_words_for_a_missing_target_are_no_class(numbers):
    target = np.array(["yes", "no"] * 40, dtype=object)
    target[:6] = "n.a."
    table = make_table({"b": numbers}, target, "y", "auto")
    assert table.task == "classification"
    assert set(table.target) == {"yes", "no"}
    assert table.places.tolist() == list(range(6, 80))
    assert table.target_words == {"n.a.": 6}
    target[:6] = "unknown"
    table = make_table({"b": numbers}, target, "y", "auto")
    assert set(table.target) == {"yes", "no", "unknown"}
    assert table.target_words == {"unknown": 6}


def telling(columns, y):
    """Return how each column gives the target away."""
    table = make_table(columns, y, "y", "auto")
    codes = table.target_codes if table.classifies else None
    columns = {**table.numeric, **table.categorical}
    return {name: how for name, column in columns.items() if (how := tells(column, table.target, codes))}


def test_columns_that_give_the_target_away_are_known(numbers):
    classes = np.where(numbers > 2500, "high", "low")
    words = np.where(numbers > 2500, "a", "b").astype(object)
    almost = numbers.copy()
    almost[numbers.argmin()] = 1e4
    texts = {"words": words, "numbers": numbers, "codes": (numbers > 2500) * 2.0, "almost": almost}
    assert telling(texts, classes) == dict.fromkeys(["numbers", "codes", "words"], "alone tells")
    assert telling({"same": numbers, "scaled": 3 - 2 * numbers, "squared": numbers**2, "almost": almost}, numbers) == {
        "same": "equals", "scaled": "is a straight line in"}
    codes = np.arange(80) % 3
    assert telling({"b": codes, "c": numbers}, codes) == {"b": "equals"}


def test_equal_rows_stay_on_one_side_of_the_split(numbers):
    X, y = np.r_[numbers, numbers[:20], numbers[:10]], np.r_[np.arange(80), np.arange(20), np.arange(10)] % 2
    colour = np.where(X > 2500, "red", "green").astype(object)
    table = make_table({"a": X, "colour": colour}, y, "y", "auto")
    train, test, note = split(table, 0)
    assert sorted([*train, *test]) == list(range(110))
    assert not set(X[train]) & set(X[test])
    assert 0.2 < len(test) / 110 < 0.4
    assert note == "Rows that repeat the features of another: 30; they were kept on one side of the split."
    table = make_table({"colour": colour}, y, "y", "auto")
    train, test, note = split(table, 0)
    assert (len(train), len(test)) == (77, 33)
    assert note == "Rows that repeat the features of another: 108, so many that some are on both sides of the split."


def test_a_header_in_another_encoding_is_refused_with_the_fix(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text("größe,label\n1.0,a\n2.0,b\n" * 20, encoding="latin-1")
    with pytest.raises(ValueError, match=r"old.csv.* not UTF-8: byte 0xf6 in line 1.*iconv -f cp1252 -t utf-8 old.csv"):
        load(str(path), "label", None)


@pytest.mark.parametrize("name", ["z.csv.gz", "z.zip", "z.csv.zip"])
def test_packed_files_are_read_by_the_pasted_code_too(tmp_path, name):
    text = "a;y\n" + "1,5;2\n" * 30
    if name.endswith("gz"):
        with gzip.open(tmp_path / name, "wt") as file:
            file.write(text)
    else:
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr("inner.csv", text)
    source = str(tmp_path / name)
    columns, y, _ = load(source, "y", None)
    assert columns["a"].to_list() == [1.5] * 30
    assert y.to_list() == [2] * 30
    frame = eval(read_call(source, str(kind_of(source, None))), {"pl": pl, "zipfile": zipfile})
    assert frame.equals(pl.DataFrame({**columns, "y": y}))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_marks_of_patterns_in_a_name_are_letters(tmp_path, kind):
    names = [f"d[1].{kind}", f"d1.{kind}"]
    for size, name in enumerate(names):
        getattr(pl.DataFrame({"a": [size] * 20, "y": [0, 1] * 10}), f"write_{kind}")(tmp_path / name)
    for size, name in enumerate(names):
        source = str(tmp_path / name)
        columns, y, _ = load(source, "y", None)
        assert columns["a"].to_list() == [size] * 20
        assert eval(read_call(source, kind), {"pl": pl}).equals(pl.DataFrame({**columns, "y": y}))
        assert training.texts_of(source, "y", None, y) == ({"0": "0", "1": "1"} if kind == "csv" else {})


def test_other_packed_files_are_refused_with_the_way_to_unpack_them(tmp_path):
    (tmp_path / "z.csv").write_bytes(b"BZh91AYrest")
    with pytest.raises(ValueError, match=r"compressed \(bzip2\)\. Unpack it: bunzip2 -k z\.csv") as error:
        load(str(tmp_path / "z.csv"), "y", None)
    assert str(error.value).isprintable()
    with zipfile.ZipFile(tmp_path / "book.csv", "w") as file:
        file.writestr("[Content_Types].xml", "")
        file.writestr("xl/workbook.xml", "")
    with pytest.raises(ValueError, match="zip archive of 2 files, or a spreadsheet"):
        load(str(tmp_path / "book.csv"), "y", None)


@pytest.mark.parametrize(("text", "message"), [
    ("# made by hand\na,y\n" + "1,2\n" * 30, r"line 2 has 2 entries.* has 1.*comment.*grep -v '\^#' a.csv"),
    ("a,y\n1,2\n1,2,3\n", r"line 3 has 3 entries, the header, line 1, has 2\. Correct that line"),
    ("a;y\n1;2\n1;2;3;4\n", r"line 3 has 4 entries, the header, line 1, has 2\.")])
def test_lines_too_long_are_named(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        load(str(tmp_path / "a.csv"), "y", None)
    assert "truncate" not in str(error.value)


def test_entries_that_make_a_columns_scale_are_named_once():
    rng = np.random.default_rng(0)
    X = {name: rng.normal(size=100) for name in "abcde"}
    y = rng.normal(size=100)
    assert stretched(make_table(X, y, "y", "regression")) == []
    for name in "abcd":
        X[name][[3, 70]] = 1e20
    found, = stretched(make_table(X, y, "y", "regression"))
    assert found.startswith("Columns 'a', 'b', 'c' and 1 more: entries lie so far out (rows 3, 70) that")


def test_skewed_targets_are_known():
    rng = np.random.default_rng(0)
    assert skewed(rng.lognormal(size=200))
    assert not skewed(rng.normal(size=200))


@pytest.mark.parametrize("text", ["1" * 40_000 + "x", "1" * 40_000, "." * 40_000, "1e" + "1" * 40_000,
                                  " " * 40_000 + "x"])
def test_no_pattern_is_tried_on_an_entry_too_long_to_be_a_number(text, monkeypatch):
    """What takes a text apart in several ways takes the square of its length: none is given a long one."""
    given = []

    class Spied:
        def __init__(self, pattern):
            self.pattern = pattern

        def fullmatch(self, text):
            given.append(len(text))
            return self.pattern.fullmatch(text)

    def fullmatch(pattern, text, flags):
        return Spied(re.compile(pattern, flags)).fullmatch(text)

    monkeypatch.setattr(entries, "re", SimpleNamespace(fullmatch=fullmatch, escape=re.escape, IGNORECASE=re.IGNORECASE))
    monkeypatch.setattr(entries, "UNITED", Spied(entries.UNITED))
    monkeypatch.setattr(entries, "DATE", Spied(entries.DATE))
    column = np.array([text, "12", "13.5"] * 20, dtype=object)
    texts = texts_of(column)
    reading = entries.read_numbers(texts)
    assert not entries.are_dates(texts)
    assert np.isnan(reading.numbers[0])
    assert given
    assert max(given) <= entries.LONGEST


def test_numbers_written_in_full_are_read_however_long():
    """The longest are the least: 5e-324 in full has 1,074 decimals."""
    texts = [f"{value:.1074f}" for value in (5e-324, 1.5, -2e-308, 1e-300)]
    numbers = entries.read_numbers(texts_of(np.array(texts, dtype=object))).numbers
    assert numbers.tolist() == [5e-324, 1.5, -2e-308, 1e-300]


@pytest.mark.parametrize("text", ["1", "1.", ".5", "1.5", "-1e5", "+.5E-3", "inf", "-Infinity", "1.e3", "007"])
@pytest.mark.parametrize("after", ["", ".", "e", "x", ".5", "-"])
def test_the_pattern_of_plain_numbers_takes_what_python_takes(text, after):
    try:
        number = float(text + after)
    except ValueError:
        number = np.nan
    assert entries.NOTATIONS[0].number(text + after) == pytest.approx(number, nan_ok=True)


def test_a_column_without_a_name_is_called_so(numbers):
    table = make_table({"": np.arange(7, 87), "b": numbers}, numbers[::-1], "y", "auto")
    assert table.notes == ["The column without a name, the index of a frame that was written with it, was dropped."]


def test_a_large_table_is_looked_at_in_part_before_it_is_read_whole():
    """What some rows contradict is not looked at further; what tells all rows is found as in a small one."""
    n = 50_000
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    groups = np.where(y == 1, 1, -1) * rng.integers(1, 8000, n)  # a number for each group of rows, of one class
    columns = {"noise": rng.normal(size=n), "group": groups.astype(float), "words": np.where(y == 1, "a", "b"),
               "sorted": y + 0.9 * rng.random(n), "mixed": rng.choice(["a", "b"], n)}
    found = [tells(column.astype(object) if column.dtype.kind == "U" else column, y, y) for column in columns.values()]
    assert found == ["", "alone tells", "alone tells", "alone tells", ""]


@pytest.mark.parametrize("names", [["a", "a"], [1, "1"]])
def test_two_columns_of_one_name_are_refused(names):
    """Of a column 1 and a column "1" one was left out without a word."""
    with pytest.raises(ValueError, match="two columns called"):
        columns_of(pd.DataFrame(np.zeros((30, 2)), columns=names))


@pytest.mark.parametrize(("values", "task", "noted"), [(3, "auto", True), (3, "classification", False),
                                                       (3, "regression", False), (2, "auto", False)])
def test_whole_numbers_that_are_taken_for_classes_unasked_are_noted(values, task, noted):
    y = np.arange(40) % values
    table = make_table({"a": np.linspace(0, 1, 40)}, y, "visits", task)
    assert [note for note in table.notes if "--task regression" in note] == [
        "The 3 whole numbers of the target 'visits' were taken for classes. If they are amounts, use --task regression."
    ] * noted


def test_lacking_columns_of_a_wide_table_are_found_in_one_pass_over_its_names():
    hashed = []

    class Name(str):
        def __hash__(self):
            hashed.append(self)
            return super().__hash__()

    names = [Name(f"c{place}") for place in range(200)]
    entries.check_there(names, names, "The data", "the model was trained on")
    assert len(hashed) <= 4 * len(names)
