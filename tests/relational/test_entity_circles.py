"""Ties and biases against loops by hand, on every engine: circles of pairs, what is usual for an item, no future."""

import statistics

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database

from buttress import load, save
from buttress.relational import EntityFeatures, Join, Table, entity_table
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

WORDS = ("count", "mean", "std", "share", "distinct", "since_last", "gap_last", "count:5", "mean:3rows", "bias",
         "bias:3rows", "bias:6", "bias:6/all")
ENGINES = pytest.mark.parametrize("engine", ["memory", "sql"])


def films(seed=0, inner_time=False, n=25):
    """Questions about a user and a film; the user's ratings, and those of films of a kind that the film is of as well.

    NULLs, ties of times, strangers, and films of several kinds; a film's kind has a time if ``inner_time``.
    """
    rng = np.random.default_rng(seed)
    asked = pd.DataFrame({"id": np.arange(n), "user": pd.array(rng.integers(0, 6, n), "Int64"),
                          "film": rng.integers(0, 11, n), "at": rng.integers(8, 40, n)})
    asked["user"] = asked["user"].mask(rng.random(n) < 0.1)
    kinds = pd.DataFrame({"film": rng.integers(0, 10, 22), "kind": rng.choice(["war", "it's", "love", "crime"], 22),
                          "told": rng.integers(0, 12, 22)})
    kinds["kind"] = kinds["kind"].astype(object).mask(rng.random(22) < 0.1, None)
    ratings = pd.DataFrame({"user": rng.integers(0, 5, 130), "film": pd.array(rng.integers(0, 10, 130), "Int64"),
                            "t": pd.array(rng.integers(0, 45, 130), "Int64"),
                            "stars": 1000 + rng.integers(1, 6, 130) / 2, "mood": rng.choice(["good", "it's"], 130)})
    ratings["film"] = ratings["film"].mask(rng.random(130) < 0.1)
    ratings["t"] = ratings["t"].mask(rng.random(130) < 0.05)
    ratings["stars"] = ratings["stars"].mask(rng.random(130) < 0.15)
    ratings["mood"] = ratings["mood"].astype(object).mask(rng.random(130) < 0.1, None)
    tables = [Table("asked", asked), Table("mine", ratings, features=["stars"], time="t"), Table("all", ratings),
              Table("kinds", kinds), Table("others", kinds.rename(columns={"kind": "like"}),
                                           time="told" if inner_time else None),
              Table("alike", ratings, features=["stars", "mood"], time="t")]
    return Join(tables, [("asked.user", "mine.user"), ("mine.film", "all.film"), ("asked.film", "kinds.film"),
                         ("kinds.kind", "others.like"), ("others.film", "alike.film"), ("asked.user", "alike.user")],
                as_of="asked.at")


def excess(row, ratings):
    """A rating less the mean of the film's at earlier times, NaN where that is unknown."""
    earlier = [other["stars"] for other in ratings if pd.notna(row["film"]) and pd.notna(other["film"])
               and other["film"] == row["film"] and pd.notna(other["t"]) and other["t"] < row["t"]
               and pd.notna(other["stars"])]
    return row["stars"] - statistics.fmean(earlier) if earlier else np.nan


def known_rows(join, question):
    """The rows of both tables that a question sees, each with when it became known."""
    ratings = join.tables[5].source.to_dict("records")
    kinds = join.tables[3].source.to_dict("records")
    mine = [row for row in ratings if pd.notna(row["t"]) and pd.notna(question["user"])
            and row["user"] == question["user"]]
    alike = []
    for one in kinds:
        for other in kinds:
            if one["film"] != question["film"] or one["kind"] is None or one["kind"] != other["kind"]:
                continue
            told = other["told"] if join.tables[4].time else 0
            alike += [row | {"t": max(row["t"], told), "rated": row["t"]} for row in mine
                      if pd.notna(row["film"]) and row["film"] == other["film"]]
    for row in mine + alike:
        row["excess"] = excess(row | {"t": row.get("rated", row["t"])}, ratings)
    return {name: [row for row in rows if row["t"] < question["at"]] for name, rows in (("mine", mine),
                                                                                      ("alike", alike))}


def said(function, rows, column, category, at):
    word, _, window = function.removesuffix("/all").partition(":")
    if function.endswith("/all"):
        whole = said(word, rows, column, category, at)
        return said(f"{word}:{window}", rows, column, category, at) / whole if whole else np.nan
    if window.endswith("rows"):
        rows = [row for row in rows if sum(other["t"] > row["t"] for other in rows) < int(window[:-4])]
    elif window:
        rows = [row for row in rows if row["t"] >= at - float(window)]
    times = sorted(row["t"] for row in rows)
    values = [row["excess" if word == "bias" else column] for row in rows if column]
    values = [value for value in values if value is not None and value == value]
    if word in ("count", "distinct"):
        return float(len(rows) if word == "count" else len(set(values)))
    if word == "share":
        return values.count(category) / len(rows) if rows else 0.0
    if word == "since_last":
        return at - times[-1] if times else np.nan
    if word == "gap_last":
        return times[-1] - times[-2] if len(times) > 1 else np.nan
    if word == "std":
        return statistics.stdev(values) if len(values) > 1 else np.nan
    return statistics.fmean(values) if values else np.nan


def by_hand(join, features):
    found = []
    for question in join.tables[0].source.to_dict("records"):
        known = known_rows(join, question)
        found.append([said(function, known[table], column, category, question["at"])
                      for table, function, column, category, _ in features])
    return np.array(found, dtype=float)


def check(join, made, found):
    assert {table for table, *_ in made.features_} == {"mine", "alike"}
    assert {function for _, function, *_ in made.features_} == set(made.functions)
    wanted = by_hand(join, made.features_)
    for name, now, then in zip(made.get_feature_names_out(), found.T, wanted.T):
        size = 1e-9 if name.endswith("/all") else 1e-12  # of differences divided by differences
        np.testing.assert_allclose(now, then, rtol=size, atol=size * 1000, err_msg=name)


def of_ratings(made):
    """The features of rows of ratings: tables on the way have no features but counts of rows."""
    kept = [j for j, feature in enumerate(made.features_) if feature[0] in ("mine", "alike")]
    made.features_ = [made.features_[j] for j in kept]
    made.fills_ = made.fills_[kept]
    return made


@pytest.mark.parametrize("inner_time", [False, True], ids=["one time", "two times"])
@ENGINES
def test_circles_and_biases_are_those_of_loops_by_hand(engine, inner_time):
    join = films(1, inner_time)
    rows = join.tables[0].source
    made = of_ratings(EntityFeatures(join, WORDS, missing="nan", engine=engine).fit(rows))
    check(join, made, made.transform(rows))
    assert "alike.stars.film.bias:3rows" in set(made.get_feature_names_out())
    few = made.transform(rows[3:4])
    np.testing.assert_allclose(few, by_hand(films(1, inner_time), made.features_)[3:4], rtol=1e-9, atol=1e-9)


@ENGINES
def test_pairs_are_made_for_some_questions_at_a_time(engine, monkeypatch):
    monkeypatch.setattr("buttress.relational.entities.database.PAIRS", 60)
    join = films(2, True, n=60)
    rows = join.tables[0].source
    made = of_ratings(EntityFeatures(join, WORDS, missing="nan", engine=engine).fit(rows))
    check(join, made, made.transform(rows))


def test_rows_of_one_block_come_back_in_their_order(monkeypatch):
    """More pairs than are held at a time, and fewer than a table has rows."""
    monkeypatch.setattr("buttress.relational.entities.database.PAIRS", 1)
    join = films(2, True)
    rows = join.tables[0].source.sort_values("user", ascending=False)
    made = of_ratings(EntityFeatures(join, ["count", "mean"], missing="nan", engine="sql").fit(rows))
    wanted = by_hand(Join([Table("asked", rows), *join.tables[1:]], join.on, as_of="asked.at"), made.features_)
    for first in range(0, len(rows), 3):
        here = slice(first, first + 3)
        np.testing.assert_allclose(made.transform(rows[here]), wanted[here], rtol=1e-12, atol=1e-9)


def test_of_many_questions_whole_tables_are_read(monkeypatch):
    monkeypatch.setattr("buttress.relational.entities.database.FEW", 0)
    join = films(3)
    made = of_ratings(EntityFeatures(join, WORDS, missing="nan", engine="sql").fit(join.tables[0].source))
    check(join, made, made.transform(join.tables[0].source))


def check_stored(join, there, read, tmp_path):
    rows = join.tables[0].source
    made = of_ratings(EntityFeatures(there, WORDS, missing="nan", engine="sql").fit(rows))
    save(made, tmp_path / "m.buttress")
    kept = load(tmp_path / "m.buttress").set_params(join=there)
    check(join, kept, kept.transform(rows))
    stored = {row[0]: row[1:] for row in read(made.to_sql(["id"]))}
    check(join, made, np.array([stored[i] for i in rows["id"]], dtype=float))
    np.testing.assert_allclose(made.transform(rows[:1]), by_hand(join, made.features_)[:1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("inner_time", [False, True], ids=["one time", "two times"])
def test_databases_agree(duckdb_connection, postgres, tmp_path, inner_time):
    owner, reader = postgres
    join = films(4, inner_time)
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(join, connection, execute, dialect, f"circle_{inner_time:d}")
        check_stored(join, there, lambda text, place=connection: place.execute(text).fetchall(), tmp_path)
    reader.rollback()


def test_a_refresh_sees_that_the_usual_has_changed(duckdb_connection, tmp_path):
    """What another user thought of a film earlier changes the bias of whoever rated it later."""
    read = duckdb_connection.execute
    join = films(5)
    there = in_database(join, duckdb_connection, read, DUCKDB, "re")
    file = tmp_path / "k"
    entity_table(there, functions=["bias", "mean"], known=file)
    assert entity_table(there, functions=["bias", "mean"], known=file).anew == 0
    for table in ("mine", "alike"):
        read(f"UPDATE re_{table} SET stars = stars + 1 WHERE \"user\" = 0")
    again = entity_table(there, functions=["bias", "mean"], known=file)
    whole = entity_table(there, functions=["bias", "mean"])
    of_zero = (join.tables[0].source["user"] == 0).sum()
    assert of_zero < again.anew <= len(join.tables[0].source)
    for name, values in whole.columns.items():
        np.testing.assert_allclose(again.columns[name], values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("engine", "few"), [("memory", 0), ("sql", 0), ("sql", 100)])
def test_no_word_sees_the_future(engine, few, monkeypatch):
    """Ratings from the date on are made larger, moved or taken away: nothing changes."""
    monkeypatch.setattr("buttress.relational.entities.database.FEW", few)
    join = films(6, True)
    rows = join.tables[0].source.assign(at=20)
    made = EntityFeatures(join, WORDS, missing="nan", engine=engine)
    before = made.fit_transform(rows)
    rng = np.random.default_rng(0)
    for table in (join.tables[1], join.tables[5]):
        frame = table.source.copy()
        later = frame["t"].fillna(99).to_numpy() >= 20
        frame.loc[later, "stars"] = rng.permutation(frame.loc[later, "stars"]) * 50
        frame.loc[later, "t"] += rng.integers(0, 9, later.sum())
        table.source = frame[rng.random(len(frame)) < np.where(later, 0.7, 2)]
        assert len(table.source) < len(frame)
    np.testing.assert_allclose(made.transform(rows), before, rtol=1e-12, atol=1e-9)


def test_by_default_what_repeats_has_biases():
    """Of each key on average two rows or more: then there is something usual. Of explicit words it is not asked."""
    join = films(7)
    names = EntityFeatures(join).fit(join.tables[0].source).get_feature_names_out()
    assert {"mine.stars.film.bias", "mine.stars.film.bias:3rows", "alike.stars.film.bias:10rows"} < set(names)
    for t in (1, 2, 5):
        join.tables[t].source = join.tables[t].source.drop_duplicates("film")
    names = EntityFeatures(join).fit(join.tables[0].source).get_feature_names_out()
    assert not any("bias" in name for name in names)
    assert any("bias" in name for name in EntityFeatures(join, ["bias"]).fit(join.tables[0].source)
               .get_feature_names_out())


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_biases_do_not_need_rows_where_their_key_leads(engine):
    orders = pd.DataFrame({"by": [1, 1], "item": [7, 7], "t": [1, 2], "paid": [10.0, 14.0]})
    join = Join([Table("rows", pd.DataFrame({"id": [1], "at": [9]})),
                 Table("orders", orders, features=["paid"], time="t"), Table("items", pd.DataFrame({"no": []}))],
                [("rows.id", "orders.by"), ("orders.item", "items.no")], as_of="rows.at")
    assert EntityFeatures(join, ["bias"], engine=engine).fit_transform(join.tables[0].source).tolist() == [[4.0]]


def test_biases_need_a_date():
    join = films()
    undated = Join([Table(table.name, table.source, features=table.features) for table in join.tables], join.on)
    with pytest.raises(ValueError, match="'bias' is counted back from a date"):
        EntityFeatures(undated, ["bias"]).fit(join.tables[0].source)
    assert not any("bias" in name for name in EntityFeatures(undated).fit(join.tables[0].source)
                   .get_feature_names_out())


def test_a_bias_of_a_table_from_which_no_pair_leads_on_is_refused():
    join = films()
    alone = Join(join.tables[:2], join.on[:1], as_of="asked.at")
    with pytest.raises(ValueError, match=r"For 'bias', give .* a pair of on that leads to another table"):
        EntityFeatures(alone, ["bias"]).fit(join.tables[0].source)


@pytest.mark.parametrize(("order", "tied"), [([0, 3, 4, 5], True), ([0, 3, 5, 4], True), ([0, 5, 3, 4], False)],
                         ids=["last", "last of two", "first"])
def test_of_the_two_tables_beside_the_labels_the_one_declared_last_is_tied(order, tied):
    """Else the user's ratings are all of theirs, and the films of a kind are tied."""
    join = films()
    rows, ratings = join.tables[0].source, join.tables[5].source
    found = EntityFeatures(Join([join.tables[t] for t in order], join.on[2:], as_of="asked.at"), ["count"]).fit(rows)
    known = [(ratings["user"].eq(user) & ratings["t"].lt(at)).sum()
             for user, at in zip(rows["user"].fillna(-1), rows["at"])]
    counts = found.transform(rows)[:, found.get_feature_names_out().tolist().index("alike.count")]
    assert (counts == known).all() == (not tied)


def test_another_join_that_lacks_what_a_bias_is_of_is_refused():
    join = films()
    made = EntityFeatures(join, ["bias"]).fit(join.tables[0].source)
    tables = [join.tables[0], join.tables[1]]
    with pytest.raises(ValueError, match=r"'mine.stars.film.bias' .* and with a pair of the column 'film'"):
        made.set_params(join=Join(tables, join.on[:1], as_of="asked.at")).transform(join.tables[0].source)


@pytest.mark.parametrize("change", ["no tie", "another time", "another pair", "none but a name"])
def test_another_join_must_tell_rows_by_the_pairs_and_times_of_training(change):
    """Else a model is asked another question in silence: what a user rated of any kind, what came after the date."""
    join = films()
    rows = join.tables[0].source
    made = EntityFeatures(join, ["count"]).fit(rows)
    tables, on = list(join.tables), list(join.on)
    if change == "no tie":
        on.remove(("asked.user", "alike.user"))
    elif change == "another time":
        tables[1] = Table("mine", tables[1].source.assign(later=tables[1].source["t"]), features=tables[1].features,
                          time="later")
    elif change == "another pair":
        on[0] = ("asked.user", "mine.film")
    else:
        tables[0] = Table("new", rows)
        on = [(first.replace("asked.", "new."), second) for first, second in on]
    root = tables[0].name
    other = made.set_params(join=Join(tables, on[::-1], as_of=f"{root}.at"))
    if change == "none but a name":
        np.testing.assert_array_equal(other.transform(rows), made.set_params(join=join).transform(rows))
    else:
        with pytest.raises(ValueError, match=r"In training, rows of table '(mine|alike|theirs)' were told by"):
            other.transform(rows)


def test_a_table_that_closes_a_circle_leads_no_further():
    join = films()
    beyond = Join([*join.tables, Table("moods", pd.DataFrame({"mood": ["good"]}))],
                  [*join.on, ("alike.mood", "moods.mood")], as_of="asked.at")
    with pytest.raises(ValueError, match=r"'alike' closes a circle of pairs.*under another name, for 'moods'"):
        EntityFeatures(beyond).fit(join.tables[0].source)


def test_circles_that_do_not_end_at_the_labels_table_are_refused():
    frame = pd.DataFrame({"k": [1], "l": [1]})
    join = Join([Table(name, frame) for name in "abcd"],
                [("a.k", "b.k"), ("b.l", "c.l"), ("c.k", "d.k"), ("d.l", "b.l")])
    with pytest.raises(ValueError, match=r"a circle that does not end at 'a'"):
        EntityFeatures(join).fit(frame)


@ENGINES
def test_sums_of_one_key_are_not_rounded_by_those_of_others(engine):
    """A constant key beside one of large numbers has biases of exactly 0."""
    asked = pd.DataFrame({"who": ["a"], "at": [99]})
    rows = pd.DataFrame({"who": ["a", "b"] * 40, "what": ["calm", "wild"] * 40, "t": np.repeat(np.arange(40), 2),
                         "v": np.where(np.arange(80) % 2, 1e12, 0.1)})
    join = Join([Table("asked", asked), Table("rows", rows, features=["v"], time="t"), Table("all", rows)],
                [("asked.who", "rows.who"), ("rows.what", "all.what")], as_of="asked.at")
    found = EntityFeatures(join, ["bias"], engine=engine).fit_transform(asked)
    assert abs(found[0, 0]) < 1e-12


@pytest.mark.parametrize("number", ["v", "BUTTRESS_K0"])
def test_columns_may_have_any_names(duckdb_connection, postgres, number):
    """Names such as a statement of ours has are no others: in use or beside."""
    owner, reader = postgres
    asked = pd.DataFrame({"who": ["a"], "at": [9]})
    rows = pd.DataFrame({"who": "a", "what": "film", "t": [0, 1, 2], number: [1.0, 2.0, 6.0], "buttress_t": 0.5,
                         "buttress_v0": 7.0, "buttress_x0": 0.5})
    join = Join([Table("asked", asked), Table("rows", rows, features=[number], time="t"), Table("all", rows)],
                [("asked.who", "rows.who"), ("rows.what", "all.what")], as_of="asked.at")
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(join, connection, execute, dialect, f"named_{number.casefold()}")
        found = EntityFeatures(there, ["bias"], engine="sql").fit_transform(asked)
        assert found[0, 0] == statistics.fmean([2 - 1, 6 - 1.5])
    reader.rollback()


@pytest.mark.parametrize("key", [["a", "b"], [0.5, 1.5], [True, False], pd.to_datetime(["2020-01-01", "2020-01-02"])],
                         ids=["text", "number", "truth value", "date"])
def test_rows_may_have_no_key_at_all(duckdb_connection, postgres, key):
    """A row that is asked about alone, of a stranger: nothing says of what type its key is."""
    owner, reader = postgres
    frame = pd.DataFrame({"key": key, "other": [1, 2]})
    join = Join([Table(name, frame) for name in ("asked", "near", "tied")],
                [("asked.key", "near.key"), ("near.other", "tied.other"), ("asked.key", "tied.key")])
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(join, connection, execute, dialect, f"none_{frame['key'].dtype.kind}")
        made = EntityFeatures(there, ["count"], engine="sql").fit(frame)
        np.testing.assert_array_equal(made.transform(frame), [[1, 1], [1, 1]])
        for nothing in (None, np.nan, pd.NaT):
            np.testing.assert_array_equal(made.transform(pd.DataFrame({"key": [nothing]})), [[0, 0]])
    reader.rollback()


@pytest.mark.parametrize("empty", [False, True], ids=["NULL", "no rows"])
def test_text_of_training_may_have_no_value_later(duckdb_connection, postgres, empty):
    owner, reader = postgres
    frame = pd.DataFrame({"key": [1, 1], "word": ["a", "it's"], "number": [2.0, 3.0]})
    later = frame.assign(word=pd.Series([None, None], dtype=object))[: 0 if empty else 2]
    join, other = (Join([Table("asked", frame), Table("near", rows, features=["word", "number"])],
                        [("asked.key", "near.key")]) for rows in (frame, later))
    made = EntityFeatures(join, ["share", "sum_by"]).fit(frame)
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(other, connection, execute, dialect, f"later_{empty:d}")
        found = made.set_params(join=there, engine="sql").transform(frame)
        np.testing.assert_array_equal(found, np.zeros((2, 4)))
    reader.rollback()
