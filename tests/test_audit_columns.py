"""How the audit reads columns: stray words among numbers, notations, dates, and what it says of each."""

import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

from buttress.audit.source import kind_of, load
from buttress.audit.study import Options, audit_table
from buttress.audit.table import make_table


@pytest.fixture
def numbers():
    return np.random.default_rng(0).uniform(500, 5000, 80).round(2)


def written(numbers, notation):
    """Return numbers as texts, in a notation that is read back exactly."""
    texts = [notation.format(number) for number in numbers]
    return [text.replace(".", ",") for text in texts] if notation == "{:.2f} " else texts


def test_a_word_among_numbers_is_missing_and_named(numbers):
    texts = np.array([f"{number}" for number in numbers], dtype=object)
    texts[[4, 7]] = "missing", "n.a."
    table, _ = make_table({"a": texts, "b": -numbers}, numbers, "y", "auto")
    assert np.flatnonzero(np.isnan(table.numeric["a"])).tolist() == [4, 7]
    np.testing.assert_array_equal(np.delete(table.numeric["a"], [4, 7]), np.delete(numbers, [4, 7]))
    assert "78 of 80 entries of 'a' are numbers; 'missing' in row 4 is not, nor is one other" in table.notes[0]


def test_a_column_of_words_and_numbers_stays_an_identifier_with_the_reason(numbers):
    texts = np.array([f"{number}" for number in numbers], dtype=object)
    texts[:20] = [f"lot {i}" for i in range(20)]
    table, _ = make_table({"a": texts, "b": -numbers}, numbers, "y", "auto")
    assert list(table.numeric) == ["b"]
    assert "identifier. 60 of 80 entries of 'a' are numbers; 'lot 0' in row 0 is not, nor are 19" in table.notes[0]


@pytest.mark.parametrize("task", ["auto", "regression"])
def test_a_word_in_the_target_is_named_with_its_row(numbers, task):
    target = np.array([f"{number}" for number in numbers - 2000], dtype=object)
    target[[2, 4]] = None, "n.a."
    with pytest.raises(ValueError, match=r"78 of 79 entries of 'y' are numbers; 'n.a.' in row 4 is not\. Correct"):
        make_table({"b": numbers}, target, "y", task)


def test_labels_that_are_mostly_numbers_stay_classes(numbers):
    target = np.array(["1", "2", "3", "other"] * 20, dtype=object)
    table, task = make_table({"b": numbers}, target, "y", "auto")
    assert task == "classification"
    assert set(table.target) == {"1", "2", "3", "other"}


@pytest.mark.parametrize(("notation", "name"), [
    ("{:,.2f}", "commas between thousands"), ("{:.2f}%", "percentages"), ("{:.2f} ", "decimal commas"),
    (" {}", "'a' holds numbers as texts")])
def test_numbers_in_other_notations_are_read(numbers, notation, name):
    table, _ = make_table({"a": np.array(written(numbers, notation), dtype=object)}, numbers, "y", "auto")
    np.testing.assert_allclose(table.numeric["a"], numbers)
    assert name in table.notes[0]


def test_the_pasted_code_reads_the_same_numbers(numbers, tmp_path):
    words = [f"{number}" for number in numbers]
    words[4] = "missing"
    path = tmp_path / "odd.csv"
    pl.DataFrame({"words": words, "commas": written(numbers[::-1], "{:,.2f}"), "share": written(numbers, "{:.2f}%"),
                  "y": written(numbers, "{:,.2f}")}).write_csv(path)
    columns, y, target = load(str(path), "y", None)
    table, task = make_table(columns, y, target, "auto")
    assert task == "regression"
    np.testing.assert_allclose(table.target, numbers)
    table.origin = str(path), kind_of(str(path), None)
    scope = {}
    exec(audit_table(None, table, task, Options(rows=40, budget=60), None, time.monotonic(), "odd").code, scope)
    for name, column in table.numeric.items():
        np.testing.assert_array_equal(scope["frame"][name].to_numpy(), column)
    assert scope["model"].score(scope["frame"], numbers) > 0.8


DAYS = pd.date_range("2024-01-01", periods=80, freq="D")


@pytest.mark.parametrize("dates", [
    DAYS, DAYS.to_numpy(), DAYS.strftime("%Y-%m-%d"), DAYS.strftime("%d.%m.%Y"), DAYS.strftime("%m/%d/%Y %H:%M"),
    pl.Series(DAYS.to_list()).dt.date()], ids=["pandas", "numpy", "iso", "points", "slashes", "polars"])
def test_dates_are_called_dates(numbers, dates):
    table, _ = make_table({"when": dates, "b": numbers}, numbers, "y", "auto")
    assert list(table.numeric) == ["b"]
    assert "'when' holds dates and was dropped" in table.notes[0]
    assert "days since" in table.notes[0]
    with pytest.raises(ValueError, match="target 'y' holds dates"):
        make_table({"b": numbers}, dates, "y", "regression")
