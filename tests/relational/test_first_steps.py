"""What a first attempt gets wrong: sources, names and rows of another kind than is asked for, each with its fix."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from relational_storage import store
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, Table
from buttress.relational.command import read_join
from buttress.relational.sources.dialects import DUCKDB


def frames(n=40):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"id": np.arange(n), "age": rng.normal(size=n), "city": rng.choice(["Oslo", "Bergen"], n)})
    people["left"] = np.where(people["age"] + rng.normal(size=n) > 0, "yes", "no")
    visits = pd.DataFrame({"person": np.arange(3 * n) % n, "minutes": rng.exponential(size=3 * n),
                           "page": rng.choice(["home", "sale"], 3 * n)})
    return {"people": people, "visits": visits}


def shop(source=None, **changed):
    """A join of people and visits; ``source`` gives a table's source by its name, ``changed`` other frames."""
    held = {**frames(), **changed}
    give = source or held.__getitem__
    return Join([Table("people", give("people"), features=["age", "city"], label="left"),
                 Table("visits", give("visits"), features=["minutes", "page"])], [("people.id", "visits.person")])


@pytest.fixture
def database(duckdb_connection):
    for name, frame in frames().items():
        store(frame, name, duckdb_connection.execute, DUCKDB)
    return duckdb_connection


@pytest.mark.parametrize(("source", "message"), [
    (None, "Got NoneType. Make a frame of it"),
    ({"age": [1.0]}, "Got dict. Make a frame of it"),
    (np.eye(2), "Got ndarray. Make a frame of it"),
    (pd.Series([1.0], name="age"), "Got Series. Make a frame of it"),
    ([{"age": 1.0}], r"A list must hold paths of files. Make a frame of rows"),
    (("people",), r"A table's schema goes with its name: \(connection, \('schema', 'table'\)\)"),
], ids=str)
def test_what_is_no_source_is_refused_with_how_to_write_one(source, message):
    with pytest.raises(ValueError, match=r"source of table 'people' must be a frame, a file or .*" + message):
        Table("people", source)


def test_connections_are_given_with_a_name_and_schemas_apart(database):
    with pytest.raises(ValueError, match=r"Name the table in the database too: \(connection, 'people'\)"):
        Table("people", database)
    with pytest.raises(ValueError, match=r"Give the connection first: \(connection, 'table'\)"):
        Table("people", ("people", database))
    with pytest.raises(ValueError, match=r"Give the schema apart: \(connection, \('main', 'people'\)\)"):
        Table("people", (database, "main.people")).check()
    assert Table("people", (database, ("main", "people"))).check() == ["id", "age", "city", "left"]


def test_a_database_of_another_kind_is_written_to_files(tmp_path):
    path = tmp_path / "shop.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ValueError, match=r"cannot be opened as a DuckDB database: .*write its tables to files"):
        Table("people", (str(path), "people"))
    with pytest.raises(ValueError, match=r"no file 'mysql://host/shop'. Write tables of another database to files"):
        Table("people", ("mysql://host/shop", "people"))


@pytest.mark.parametrize(("how", "message"), [
    ({"features": None}, "features of table 'people' must be a list of column names, which are texts. Got None"),
    ({"features": [0]}, r"which are texts. Got \[0\]"),
    ({"label": 1}, "label of table 'people' must be the name of a column, a text. Got 1"),
    ({"features": ["people.age"]}, "no column 'people.age'. Use 'age', without the table's name"),
    ({"label": "people.left"}, "no column 'people.left'. Use 'left', without the table's name"),
])
def test_columns_are_named_by_text_without_their_table(how, message):
    with pytest.raises(ValueError, match=message):
        Table("people", frames()["people"], **how).check()


def test_a_column_that_is_there_twice_is_refused_where_it_is_used():
    people = pd.concat([frames()["people"], frames()["people"][["age"]]], axis=1)
    with pytest.raises(ValueError, match=r"Table 'people' has 2 columns called 'age'\. Rename one"):
        RelationalLinearSVC().fit(shop(people=people))
    with pytest.raises(ValueError, match="Table 'people' has 2 columns called 'id'"):
        RelationalLinearSVC().fit(shop(people=pd.concat([frames()["people"], frames()["people"][["id"]]], axis=1)))
    assert Table("people", people, features=["city"], label="left").check()


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_columns_of_pandas_may_be_called_by_numbers(engine):
    plain = pd.DataFrame({"0": np.linspace(-1, 1, 20), "1": np.arange(20) % 2})
    models = [RelationalLinearSVC(alpha=0.1, engine=engine, random_state=0).fit(
        Join([Table("t", frame, features=["0"], label="1")])) for frame in (plain, plain.set_axis([0, 1], axis=1))]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_a_join_is_of_a_list_of_tables():
    people = Table("people", frames()["people"])
    for tables, message in ((people, r"Use \[Table\('people'"), ([frames()["people"]], "It holds a DataFrame"),
                            (3, "Got int")):
        with pytest.raises(ValueError, match=message):
            Join(tables)
    with pytest.raises(ValueError, match="using must be a list"):
        Join([people], using=[3])
    with pytest.raises(ValueError, match="It holds a int"):
        Join(one for one in (people, 3))


def test_a_join_keeps_what_is_given_once():
    """Generators of tables, pairs and names declare the join that lists of them do."""
    tables = shop().tables
    assert repr(Join(iter(tables), iter([("people.id", "visits.id")]), using=iter(["id"]))) == repr(
        Join(tables, [("people.id", "visits.id")], using=["id"]))


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_new_tables_hold_numbers_and_text_where_training_held_them(engine):
    """A score without the column would be of another model."""
    model = RelationalLinearSVC(alpha=0.1, engine=engine, missing="mean", random_state=0).fit(shop())
    visits = frames()["visits"]
    for changed, message in ((visits.assign(minutes="long"), "visits.minutes held numbers in training, and holds text"),
                             (visits.assign(page=1), "visits.page held text in training, and holds numbers")):
        with pytest.raises(ValueError, match=message):
            model.predict(shop(visits=changed))
    null = visits.assign(page=None, minutes=np.nan)  # NULL alone may be either
    assert len(model.predict(shop(visits=null))) == 40


def test_the_columns_of_to_sql_are_checked(database):
    join = shop(lambda name: (database, name))
    model = RelationalLinearSVC(alpha=0.1, random_state=0).fit(join)
    made = EntityFeatures(join).fit(frames()["people"])
    for ask in (lambda columns: model.to_sql(join, columns), made.to_sql):
        with pytest.raises(ValueError, match=r"columns must be a list of column names. Got 'id'. Use \['id'\]"):
            ask("id")
        with pytest.raises(ValueError, match=r"Table 'people' has no column 'idd'\. Did you mean 'id'"):
            ask(["idd"])
        assert ask(["id"]).startswith("WITH")


def test_rows_are_asked_for_where_a_join_is_given_and_a_join_where_rows_are():
    join = shop()
    made = EntityFeatures(join).fit(frames()["people"])
    for method in (made.fit, made.transform):
        with pytest.raises(ValueError, match=r"takes rows of its label's table 'people'.* id, age, city. Got a Join"):
            method(join)
    model = RelationalLinearSVC(alpha=0.1, random_state=0).fit(join)
    with pytest.raises(ValueError, match=r"no column 'people\.age'.*give a Join of the new tables"):
        model.predict(frames()["people"])


def test_connections_do_not_go_to_other_processes(database):
    join = shop(lambda name: (database, name))
    with pytest.raises(TypeError, match=r"Table 'people' is of a database.* Use n_jobs=1"):
        pickle.dumps(join)
    assert copy.copy(join.tables[0]).source[0] is database
    again = pickle.loads(pickle.dumps(shop()))
    assert again.tables[0].source.equals(frames()["people"])
    rows = frames()["people"]
    search = GridSearchCV(make_pipeline(EntityFeatures(join), LogisticRegression()),
                          {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(rows, rows["left"])
    assert search.predict_proba(rows).shape == (40, 2)


def test_a_file_declares_using_and_no_table_alone(tmp_path):
    for name, frame in frames().items():
        frame.rename(columns={"person": "id"}).to_csv(tmp_path / f"{name}.csv", index=False)
    text = "\n".join(f'[[table]]\nname = "{name}"\nsource = "{name}.csv"' for name in frames())
    path = tmp_path / "joins.toml"
    path.write_text(f'using = ["id"]\n{text}', encoding="utf-8")
    assert len(read_join(path).check()) == 1
    path.write_text(f'using = "id"\n{text}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"using of joins.toml must be a list of columns, such as \['id'\]. Got 'id'"):
        read_join(path)
    with pytest.raises(ValueError, match=r"in a TOML file.* Got 'people.csv'. For one file of another kind use"):
        read_join(tmp_path / "people.csv")


@pytest.mark.parametrize("in_file", [False, True], ids=["frame", "file"])
def test_decimal_commas_are_no_categories(in_file, tmp_path):
    people = frames()["people"].assign(age=np.where(np.arange(40) % 2, "1,5", "2"))
    path = str(tmp_path / "people.csv")
    people.to_csv(path, sep=";", index=False)
    with pytest.raises(ValueError, match=r"Feature people\.age is text such as '1,5', numbers with decimal commas"):
        RelationalLinearSVC().fit(shop({"people": path if in_file else people, "visits": frames()["visits"]}.get))
    words = people.assign(age=np.where(np.arange(40) % 2, "1,5", "two, or so"))
    RelationalLinearSVC(max_iter=1, tol=10).fit(shop(people=words))
