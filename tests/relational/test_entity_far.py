"""What is reached many to many has means and shares by default: against loops by hand, on every engine, no future."""

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database

from buttress import load, save
from buttress.relational import EntityFeatures, Join, Table, entity_table
from buttress.relational.entities.words import ALWAYS
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

LATEST = 30  # the latest date that is asked for
ENGINES = pytest.mark.parametrize("engine", ["memory", "sql"])


def films(seed=0, through_films=False):
    """Questions about users; their ratings; all ratings of the films of these, as known then; NULLs, ties, strangers.

    ``through_films`` the path leads over a table with a row for each film.
    """
    rng = np.random.default_rng(seed)
    asked = pd.DataFrame({"id": np.arange(14), "user": rng.integers(0, 9, 14), "at": rng.integers(12, LATEST, 14)})
    asked.loc[0, "at"] = LATEST
    ratings = pd.DataFrame({"user": rng.integers(0, 8, 70), "film": pd.array(rng.integers(0, 12, 70), "Int64"),
                            "t": rng.integers(0, 40, 70), "stars": rng.integers(1, 6, 70).astype(float),
                            "mood": rng.choice(["good", "it's"], 70)})
    ratings["film"] = ratings["film"].mask(rng.random(70) < 0.1)
    ratings["stars"] = ratings["stars"].mask(rng.random(70) < 0.15)
    ratings["mood"] = ratings["mood"].astype(object).mask(rng.random(70) < 0.1, None)
    tables = [Table("asked", asked), Table("mine", ratings, features=["stars"], time="t"),
              Table("all", ratings.rename(columns={"film": "seen"}), features=["stars", "mood"], time="t")]
    on = [("asked.user", "mine.user"), ("mine.film", "all.seen")]
    if through_films:
        tables.insert(2, Table("films", pd.DataFrame({"no": np.arange(12)})))
        on[1:] = [("mine.film", "films.no"), ("films.no", "all.seen")]
    return Join(tables, on, as_of="asked.at")


def by_hand(join):
    """The means and shares of each question, by loops over pairs of a rating of the user and one of its film."""
    rows = {table.name: table.source.to_dict("records") for table in join.tables}
    found = []
    for question in rows["asked"]:
        met = [other for own in rows["mine"] if own["user"] == question["user"] and own["t"] < question["at"]
               for other in rows["all"] if pd.notna(own["film"]) and pd.notna(other["seen"])
               and own["film"] == other["seen"] and other["t"] < question["at"]]
        stars = [row["stars"] for row in met if row["stars"] == row["stars"]]
        shares = [sum(row["mood"] == mood for row in met) / len(met) if met else 0.0 for mood in ("good", "it's")]
        found.append([sum(stars) / len(stars) if stars else np.nan, *shares])
    return np.array(found)


FAR = ["all.stars.mean", "all.mood=good.share", "all.mood=it's.share"]


def check(join, made, found):
    names = list(made.get_feature_names_out())
    assert [name for name in names if name.startswith("all.")] == FAR
    np.testing.assert_allclose(found[:, [names.index(name) for name in FAR]], by_hand(join), rtol=1e-12, atol=1e-12)
    assert {"mine.stars.last", "mine.count", "mine.overdue", "mine.stars.mean:3rows"} < set(names)


@pytest.mark.parametrize("through_films", [False, True])
@ENGINES
def test_default_words_are_the_means_and_shares_of_loops_by_hand(engine, through_films):
    join = films(1, through_films)
    made = EntityFeatures(join, missing="nan", engine=engine)
    check(join, made, made.fit_transform(join.tables[0].source))
    assert not np.isnan(by_hand(join)).all()


@ENGINES
def test_words_that_are_named_are_those_of_all_tables(engine):
    join = films(1)
    made = EntityFeatures(join, ALWAYS, engine=engine).fit(join.tables[0].source)
    assert {"all.count", "all.stars.max", "all.stars.last"} < set(made.get_feature_names_out())


def check_stored(join, there, read, tmp_path):
    """Fit, its statement and a model file of it agree in a database, where the future then changes all keys."""
    rows = join.tables[0].source
    made = EntityFeatures(there, missing="nan", engine="sql").fit(rows)
    save(made, tmp_path / "m.buttress")
    kept = load(tmp_path / "m.buttress").set_params(join=there)
    for one in (made, kept):
        check(join, one, one.transform(rows))
        stored = {row[0]: row[1:] for row in read(one.to_sql(["id"]))}
        check(join, one, np.array([stored[i] for i in rows["id"]], dtype=float))


def test_databases_agree(duckdb_connection, postgres, tmp_path):
    owner, reader = postgres
    join = films(2)
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(join, connection, execute, dialect, "far")
        check_stored(join, there, lambda text, place=connection: place.execute(text).fetchall(), tmp_path)
    reader.rollback()


def test_a_refresh_has_the_words_of_a_full_run(duckdb_connection, tmp_path):
    """A table whose keys came to repeat has other words after a refresh too."""
    read = duckdb_connection.execute
    join = films(3)
    join.tables[1].source = join.tables[1].source.drop_duplicates("film")
    there = in_database(join, duckdb_connection, read, DUCKDB, "re")
    first = entity_table(there, known=tmp_path / "k")
    assert "all.count" in first.columns
    read("INSERT INTO re_mine SELECT * FROM re_all")
    again, whole = entity_table(there, known=tmp_path / "k"), entity_table(there)
    assert list(again.columns) == list(whole.columns)
    assert "all.count" not in whole.columns
    for name, values in whole.columns.items():
        np.testing.assert_allclose(again.columns[name], values, rtol=1e-12, atol=1e-12)


def shops(**duplicates):
    """Customers, their orders, items of orders, products of items, and reviews of products, each by its ids."""
    rng = np.random.default_rng(0)
    frames = {"customers": pd.DataFrame({"cust": np.arange(10)}),
              "orders": pd.DataFrame({"no": np.arange(40), "cust": rng.integers(0, 10, 40)}),
              "items": pd.DataFrame({"no": rng.integers(0, 40, 120), "prod": rng.integers(0, 12, 120)}),
              "products": pd.DataFrame({"prod": np.arange(12)}),
              "reviews": pd.DataFrame({"prod": rng.integers(0, 12, 60)})}
    for name, n in duplicates.items():
        frames[name] = pd.concat([frames[name], frames[name][:n]], ignore_index=True)
    return {name: frame.assign(x=rng.normal(size=len(frame))) for name, frame in frames.items()}


def words(frames, *path, engine="memory", **how):
    """The words by default of the last table of a path of (table, key to the next)."""
    names = [name for name, _ in path]
    on = [(f"{name}.{key}", f"{after}.{key}") for (name, key), after in zip(path, names[1:])]
    join = Join([Table(name, frames[name], features=["x"]) for name in names], on)
    made = EntityFeatures(join, engine=engine, **how).fit(frames[names[0]])
    return {function for table, function, *_ in made.features_ if table == names[-1]}


ALL = {"count", "mean", "shrunk", "sum", "min", "max", "std"}
CUSTOMERS = ("customers", "cust")
PATHS = {
    "one to many": ([CUSTOMERS, ("orders", "no"), ("items", "")], ALL),
    "then many to one": ([CUSTOMERS, ("orders", "no"), ("items", "prod"), ("products", "")], ALL),
    "then one to many": ([CUSTOMERS, ("orders", "no"), ("items", "prod"), ("products", "prod"), ("reviews", "")],
                         {"mean"}),
    "both keys repeat": ([CUSTOMERS, ("orders", "no"), ("items", "prod"), ("reviews", "")], {"mean"}),
    "from one row": ([("orders", "cust"), ("customers", "cust"), ("others", "no"), ("items", "")], ALL),
    "one row, whose key others have": ([("reviews", "no"), ("orders", "cust"), ("others", "")], ALL),
}


@pytest.mark.parametrize("case", PATHS)
@ENGINES
def test_which_paths_are_many_to_many(engine, case):
    """From one order to its customer and to all orders of theirs is one to many, though customers are shared."""
    path, wanted = PATHS[case]
    frames = shops()
    frames["others"] = frames["orders"]
    frames["reviews"]["no"] = np.arange(60) % 40
    assert words(frames, *path, engine=engine) == wanted


@ENGINES
def test_a_key_that_repeats_by_mistake_turns_no_words_off(engine):
    """Eleven of twelve products stand there twice: fewer than two rows a key, on average; at two they are versions."""
    path = PATHS["then many to one"][0]
    assert words(shops(products=11), *path, engine=engine) == ALL
    assert words(shops(products=12), *path, engine=engine) == {"mean"}


@ENGINES
def test_the_future_decides_nothing(engine):
    """Rows from the latest date on repeat every key of a table where none repeats before, or go where all repeat."""
    rng = np.random.default_rng(0)
    for seed, before in ((4, True), (5, False)):
        join = films(seed)
        if before:
            known = join.tables[1].source
            join.tables[1].source = pd.concat([known[known["t"] < LATEST].drop_duplicates("film"),
                                               known[known["t"] >= LATEST]])
        rows = join.tables[0].source
        made = EntityFeatures(join, missing="nan", engine=engine)
        wanted = made.fit_transform(rows)
        assert ("all.count" in made.get_feature_names_out()) == before
        for table in join.tables[1:]:
            frame = table.source
            later = frame[frame["t"] >= LATEST].sample(200 if before else 1, replace=True, random_state=1)
            later = later.assign(**{list(frame)[1]: rng.integers(0, 12, len(later)), "stars": 1e6})
            table.source = pd.concat([frame[frame["t"] < LATEST], later]).sample(frac=1, random_state=2)
        again = EntityFeatures(join, missing="nan", engine=engine)
        np.testing.assert_allclose(again.fit_transform(rows), wanted, rtol=1e-12, atol=1e-9)
        assert again.features_ == made.features_
