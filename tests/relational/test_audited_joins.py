"""``buttress audit`` of a join: a row for each row of the label's table, with what was known at its date."""

import csv
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click import Command, Context

import buttress
from buttress.audit.reading.entities import newer_entities, read_entities
from buttress.audit.writing.paste import paste
from buttress.cli.audit import audit
from buttress.cli.models import ModelFamily, attack, predict, train
from buttress.relational import Join, Table, entity_table

JOINS = """
on = [["people.id", "visits.person"]]
{dated}
[[table]]
name = "people"
source = "people.csv"
features = ["age", "town"]
label = "left"

[[table]]
name = "visits"
source = "visits.parquet"
features = ["minutes"]
time = "day"
"""

NO_OPTIONS = Context(Command("train"))  # none was given on the command line


@pytest.fixture
def people(tmp_path):
    """Files of a join whose later visits tell the label; returns (path, people, visits)."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"id": 1000 + rng.permutation(60), "date": rng.integers(40, 60, 60), "age": rng.normal(size=60),
                         "town": rng.choice(["Oslo", "Bergen"], 60), "left": rng.choice(["left", "stays"], 60)})
    rows.loc[[3, 5], "age"] = np.nan
    rows.loc[7, "town"] = None
    visits = pd.DataFrame({"person": np.repeat(rows["id"].to_numpy(), 10), "day": rng.integers(0, 100, 600)})
    asked = visits["person"].map(rows.set_index("id")["left"]) == "left"
    late = visits["day"] >= visits["person"].map(rows.set_index("id")["date"])
    visits["minutes"] = rng.normal(size=600) + 5 * (asked & late)
    rows.to_csv(tmp_path / "people.csv", index=False)
    pl.DataFrame(visits.to_dict("list")).write_parquet(tmp_path / "visits.parquet")
    path = tmp_path / "joins.toml"
    path.write_text(JOINS.format(dated='as_of = "people.date"'), encoding="utf-8")
    return path, rows, visits


def means_before(rows, visits):
    seen = visits.merge(rows[["id", "date"]], left_on="person", right_on="id")
    seen = seen[seen["day"] < seen["date"]]
    return seen.groupby("person")["minutes"].mean().reindex(rows["id"]).to_numpy()


def test_each_row_of_the_labels_table_is_a_row_as_known_at_its_date(people):
    path, rows, visits = people
    table, _ = read_entities(str(path), None, "auto")
    assert table.task == "classification"
    assert table.target.tolist() == rows["left"].tolist()
    assert table.row_numbers.tolist() == rows["id"].tolist()
    np.testing.assert_array_equal(table.numeric["people.age"], rows["age"])
    assert list(table.categorical) == ["people.town"]
    np.testing.assert_allclose(table.numeric["visits.minutes.mean"], means_before(rows, visits), rtol=1e-12)
    assert any("before people.date" in note for note in table.notes)


def test_of_all_rows_the_report_says_that_the_future_counts(people):
    path, rows, visits = people
    path.write_text(JOINS.format(dated=""), encoding="utf-8")
    with pytest.raises(ValueError, match="as_of = 'all' for a picture"):
        read_entities(str(path), None, "auto")
    path.write_text(JOINS.format(dated="as_of = 'all'"), encoding="utf-8")
    table, _ = read_entities(str(path), None, "auto")
    wanted = visits.groupby("person")["minutes"].mean().reindex(rows["id"])
    np.testing.assert_allclose(table.numeric["visits.minutes.mean"], wanted, rtol=1e-12)
    assert any(note.startswith("With as_of='all', rows of visits count") for note in table.notes)


def newer_files(path, rows, visits):
    """The same join over other files, whose keys are greater by 500."""
    folder = path.parent / "new"
    folder.mkdir()
    rows.assign(id=rows["id"] + 500).to_csv(folder / "people.csv", index=False)
    moved = visits.assign(person=visits["person"] + 500)
    pl.DataFrame(moved.to_dict("list")).write_parquet(folder / "visits.parquet")
    (folder / "joins.toml").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return folder / "joins.toml"


def test_newer_rows_of_a_join_have_the_same_features(people):
    path, rows, visits = people
    _, made = read_entities(str(path), None, "auto")
    columns = newer_entities(str(newer_files(*people)), made)
    np.testing.assert_allclose(columns["visits.minutes.mean"], means_before(rows, visits), rtol=1e-12)
    assert columns["people.left"].tolist() == rows["left"].tolist()
    assert made.join.tables[0].source == path.parent / "people.csv"


@pytest.mark.slow
def test_the_command_audits_a_join_and_newer_rows_of_it(people, tmp_path):
    path, rows, _ = people
    audit(str(path), rows=30, output=tmp_path / "out", against=newer_files(*people))
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert "visits.minutes.mean" in found["data"]["numeric"]
    assert found["data"]["target"] == "people.left"
    with (tmp_path / "out" / "suspicious.csv").open(encoding="utf-8") as file:
        assert {int(row["row"]) for row in csv.DictReader(file)} == set(rows["id"])


def predicted_by(path, model, output):
    predict(model, path, output=output)
    return pd.read_csv(output)


def test_a_model_of_a_join_predicts_rows_of_other_files_as_known_at_their_dates(people, tmp_path):
    """Boosting finds what 100 minutes before the date say; after it others had a million."""
    path, rows, visits = people
    told = visits["person"].map(rows.set_index("id")["left"]) == "left"
    early = visits["day"] < visits["person"].map(rows.set_index("id")["date"])
    visits["minutes"] = np.where(early & told, 100.0, 0.0) + np.where(~early & ~told, 1e6, 0.0)
    pl.DataFrame(visits.to_dict("list")).write_parquet(path.parent / "visits.parquet")
    model = tmp_path / "people.buttress"
    train(NO_OPTIONS, str(path), output=model, estimator=ModelFamily.boosting)
    newer = newer_files(path, rows, visits)
    found = predicted_by(newer, model, tmp_path / "found.csv")
    assert found["people.id"].tolist() == (rows["id"] + 500).tolist()
    assert found["people.date"].tolist() == rows["date"].tolist()
    assert found["prediction"].tolist() == rows["left"].tolist()
    new = pd.read_csv(newer.parent / "people.csv")
    new.drop(columns="left").to_csv(newer.parent / "people.csv", index=False)  # nobody knows yet who leaves
    without = predicted_by(newer, model, tmp_path / "without.csv")
    pd.testing.assert_frame_equal(without, found)
    head, people_entry, visits_entry = newer.read_text(encoding="utf-8").split("[[table]]")
    newer.write_text("[[table]]".join([head, visits_entry + "\n", people_entry]), encoding="utf-8")
    pd.testing.assert_frame_equal(predicted_by(newer, model, tmp_path / "turned.csv"), found)
    newer.write_text(path.read_text(encoding="utf-8").replace('label = "left"', ""), encoding="utf-8")
    pd.testing.assert_frame_equal(predicted_by(newer, model, tmp_path / "unlabelled.csv"), found)
    for old, changed, what in (('as_of = "people.date"', 'as_of = "all"', "as_of"),
                               ('"visits.person"', '"visits.day"', "on"),
                               ('time = "day"', 'time = "person"', "visits, time")):
        newer.write_text(path.read_text(encoding="utf-8").replace(old, changed), encoding="utf-8")
        with pytest.raises(ValueError, match=rf"was trained with: .*{what} .* In its place it has: .*{what} "):
            predict(model, newer, output=tmp_path / "no.csv")
    with pytest.raises(ValueError, match="predicts from the TOML file that declares its join"):
        predict(model, newer.parent / "people.csv", output=tmp_path / "no.csv")


def test_the_table_of_the_rows_may_have_another_name(people, tmp_path):
    model = tmp_path / "people.buttress"
    train(NO_OPTIONS, str(people[0]), output=model, estimator=ModelFamily.boosting)
    newer = newer_files(*people)
    found = predicted_by(newer, model, tmp_path / "found.csv")
    text = newer.read_text(encoding="utf-8")
    for name in ("people.new", "customers"):
        newer.write_text(text.replace("people.csv", "FILE").replace("people", name).replace("FILE", "people.csv")
                         .replace('label = "left"', ""), encoding="utf-8")
        pd.testing.assert_frame_equal(predicted_by(newer, model, tmp_path / "renamed.csv"), found)
    newer.write_text(newer.read_text(encoding="utf-8").replace("visits", "stays").replace("stays.parquet",
                     "visits.parquet"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"trained with: .*table visits, time day.*it has: .*table stays, time day"):
        predict(model, newer, output=tmp_path / "no.csv")


def test_a_model_of_a_join_is_attacked_on_rows_of_other_files(people, tmp_path, capsys):
    path, rows, _ = people
    model = tmp_path / "people.buttress"
    train(NO_OPTIONS, str(path), output=model, estimator=ModelFamily.boosting)
    rows["left"] = np.where(rows["age"] > 0, "left", rows["left"])
    newer = newer_files(path, rows, people[2])
    right = (predicted_by(newer, model, tmp_path / "found.csv")["prediction"] == rows["left"]).mean()
    assert 0.5 < right < 1
    capsys.readouterr()
    for target in (None, "people.left"):
        attack(model, newer, target, eps="0.1", swaps=0)
        plain, moved = (float(line.split()[2].strip("*")) for line in capsys.readouterr().out.split("\n")[1:3])
        assert plain == pytest.approx(right, abs=5e-4)
        assert moved <= plain
    with pytest.raises(ValueError, match=r"Use 'people\.left'"):
        attack(model, newer, "left")
    newer.write_text(newer.read_text(encoding="utf-8").replace('label = "left"', ""), encoding="utf-8")
    with pytest.raises(ValueError, match=r"no table with a label.*--target table\.column"):
        attack(model, newer)


@pytest.mark.parametrize("words", [("no", "yes"), ("01", "02")])
def test_classes_are_predicted_as_the_label_tables_file_has_them(people, tmp_path, words):
    path, rows, _ = people
    rows["left"] = np.where(rows["left"] == "left", *words)
    rows.to_csv(path.parent / "people.csv", index=False)
    train(NO_OPTIONS, str(path), output=tmp_path / "people.buttress", estimator=ModelFamily.linear)
    predict(tmp_path / "people.buttress", path, output=tmp_path / "found.csv")
    assert set(pd.read_csv(tmp_path / "found.csv", dtype=str)["prediction"]) == set(words)


def test_whole_numbers_with_gaps_are_predicted_as_whole_numbers(people, tmp_path):
    path, rows, _ = people
    label = np.where(rows["left"] == "left", 2, 1).tolist()
    label[3] = None
    given = rows.astype(object).where(rows.notna(), None).to_dict("list")
    pl.DataFrame({**given, "left": label}).write_parquet(path.parent / "people.parquet")
    path.write_text(path.read_text(encoding="utf-8").replace("people.csv", "people.parquet"), encoding="utf-8")
    train(NO_OPTIONS, str(path), output=tmp_path / "people.buttress", estimator=ModelFamily.linear)
    predict(tmp_path / "people.buttress", path, output=tmp_path / "found.csv")
    assert set(pd.read_csv(tmp_path / "found.csv", dtype=str)["prediction"]) == {"1", "2"}


@pytest.mark.parametrize(("words", "read"), [(("no", "yes"), ["no", "yes"]), (("FALSE", "TRUE"), [False, True])])
def test_labels_that_duckdb_takes_for_truth_values_are_read_as_in_one_table(people, tmp_path, words, read):
    path, rows, visits = people
    rows["left"] = np.where(rows["left"] == "left", *words)
    rows.to_csv(path.parent / "people.csv", index=False)
    table, made = read_entities(str(path), None, "auto")
    wanted = [read[words.index(word)] for word in rows["left"]]
    assert table.given_target.tolist() == wanted
    newer = newer_files(path, rows, visits)
    assert newer_entities(str(newer), made)["people.left"].tolist() == wanted
    train(NO_OPTIONS, str(path), output=tmp_path / "people.buttress", estimator=ModelFamily.linear)
    attack(tmp_path / "people.buttress", newer, eps="0.1", swaps=0)


def test_the_code_to_paste_reads_the_join(people):
    path, rows, _ = people
    table, _ = read_entities(str(path), None, "auto")
    scope = {}
    exec(paste(table, buttress.SVC()), scope)
    assert scope["frame"].height == len(rows)
    assert set(scope["model"].predict(scope["frame"])) == {"left", "stays"}


def test_rows_that_no_key_tells_apart_are_numbered():
    rows = pd.DataFrame({"k": [1, 1, 2], "y": [0, 1, None]})
    made = entity_table(Join([Table("rows", rows, label="y"), Table("other", pd.DataFrame({"k": [1, 2, 2]}))],
                             [("rows.k", "other.k")]))
    assert made.names is None
    np.testing.assert_array_equal(made.label, [0, 1, np.nan])
    np.testing.assert_array_equal(made.columns["other.count"], [1, 1, 2])


def test_what_is_no_audit_is_said(people):
    path, _, _ = people
    path.write_text(JOINS.format(dated="").replace('label = "left"', ""), encoding="utf-8")
    with pytest.raises(ValueError, match=r"--target table\.column"):
        read_entities(str(path), None, "auto")
    head, people_entry, visits_entry = path.read_text(encoding="utf-8").split("[[table]]")
    dated = 'as_of = "people.date"\n' + head
    path.write_text("[[table]]".join([dated, visits_entry, people_entry]), encoding="utf-8")
    table, _ = read_entities(str(path), "people.age", "auto")  # as_of goes with the label that is asked for
    assert any("before people.date" in note for note in table.notes)
    assert (table.target_name, "people.age" in table.numeric) == ("people.age", False)
    with pytest.raises(ValueError, match="buttress audit, train and fit"):
        buttress.audit.reading.source.read_file(str(path), None)
