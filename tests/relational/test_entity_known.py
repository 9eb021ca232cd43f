"""Features computed anew only where the rows they are made of have changed: always what a full run gives."""

from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database, in_spark

from buttress.files.container import ModelFileError
from buttress.relational import EntityFeatures, Join, Table, entity_table
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

ON = [("loans.account", "moves.account"), ("loans.person", "people.id"), ("people.id", "visits.person"),
      ("people.home", "homes.id")]

FUNCTIONS = ("count", "sum", "std", "last", "share", "distinct", "since_last", "mean:2rows", "sum:5")


def frames(seed=0):
    """Loans with moves of their account, and with their person's visits and home, both two tables away.

    The person and the visits have a time, the home has none.
    """
    rng = np.random.default_rng(seed)
    account = rng.integers(0, 14, 30).astype(float)
    account[3] = np.nan
    return {
        "loans": pd.DataFrame({"account": account, "person": rng.integers(0, 12, 30), "date": rng.integers(5, 20, 30),
                               "sum": rng.integers(0, 9, 30), "bad": rng.integers(0, 2, 30)}),
        "moves": pd.DataFrame({"account": rng.integers(0, 15, 150).astype(float), "day": rng.integers(0, 25, 150),
                               "seq": rng.integers(0, 3, 150), "amount": rng.integers(0, 9, 150).astype(float),
                               "fee": rng.integers(0, 5, 150).astype(float), "word": rng.choice(list("abcd"), 150)}),
        "people": pd.DataFrame({"id": np.arange(12), "home": rng.integers(0, 5, 12),
                                "since": rng.integers(0, 12, 12)}),
        "visits": pd.DataFrame({"person": rng.integers(0, 12, 60), "at": rng.integers(0, 25, 60),
                                "minutes": rng.integers(0, 9, 60).astype(float)}),
        "homes": pd.DataFrame({"id": np.arange(5), "rooms": rng.integers(1, 7, 5).astype(float)}),
    }


def join_of(held, as_of="loans.date", **moves):
    given = {"features": ["amount", "fee", "word"], "time": "day", "order": "seq"} | moves
    return Join([Table("loans", held["loans"], features=["sum"], label="bad"), Table("moves", held["moves"], **given),
                 Table("people", held["people"], time="since"),
                 Table("visits", held["visits"], features=["minutes"], time="at"),
                 Table("homes", held["homes"], features=["rooms"])], ON, as_of=as_of)


def assert_same(found, wanted, what=""):
    assert list(found.columns) == list(wanted.columns), what
    for name, column in wanted.columns.items():
        np.testing.assert_allclose(found.columns[name], column, rtol=1e-12, atol=1e-12, err_msg=f"{what}: {name}")
    for name, column in wanted.keys.items():
        np.testing.assert_array_equal(found.keys[name], column)
    np.testing.assert_array_equal(found.label, wanted.label)


def seen(held):
    """For each loan and table, by brute force: its date, and the rows that the latest date of its key sees."""
    loans = held["loans"]
    found = {}
    for account, date in loans.groupby("account")["date"].max().items():
        moves = held["moves"][held["moves"]["account"] == account]
        found["moves", account] = rows_of(moves[moves["day"] < date].drop(columns="account"))
    for who, date in loans.groupby("person")["date"].max().items():
        person = held["people"][(held["people"]["id"] == who) & (held["people"]["since"] < date)]
        visits = person.merge(held["visits"], left_on="id", right_on="person")
        visits["later"] = visits[["at", "since"]].max(axis=1)
        homes = person.merge(held["homes"], left_on="home", right_on="id")
        found["people", who] = rows_of(person[["since"]])
        found["homes", who] = rows_of(homes[["since", "rooms"]])
        found["visits", who] = rows_of(visits.loc[visits["later"] < date, ["at", "later", "minutes"]])
    return [{table: (date, found.get((table, account if table == "moves" else who), frozenset()))
             for table in ("moves", "people", "homes", "visits")}
            for account, who, date in loans[["account", "person", "date"]].to_numpy().tolist()]


def rows_of(frame):
    """Rows with how often each is there."""
    return frozenset(Counter(map(str, frame.to_numpy().tolist())).items())


def learned(made):
    """What was learned of each table."""
    return {table.name: [{name: value for name, value in held.items() if name.startswith(f"{table.name}.")}
                         for held in (made.centers_, made.categories_)] for table in made.join.tables}


def due(before, sees, made_before, made):
    """How many loans a refresh must look at: those of which no loan before had the same date and rows of a table."""
    known = {name: {loan[name] for loan in before} for name in before[0]}
    then, now = learned(made_before), learned(made)
    return sum(any(rows not in known[name] or then[name] != now[name] for name, rows in loan.items())
               for loan in sees)


def put(frame, row, **values):
    for name, value in values.items():
        frame.loc[row, name] = value
    return frame


def swapped(frame, name, rows):
    frame.loc[rows, name] = frame.loc[rows[::-1], name].to_numpy()
    return frame


def early(held, n=2):
    """Numbers of n moves of one account that a loan sees, with different amounts, fees and words."""
    for account, rows in held["moves"].groupby("account"):
        last = held["loans"].loc[held["loans"]["account"] == account, "date"].max()
        rows = rows[rows["day"] < last].drop_duplicates("amount").drop_duplicates("word").drop_duplicates("day")
        if len(rows) >= n:
            return rows.index[:n].tolist()
    raise AssertionError


HELD = frames()
ONE, TWO = early(HELD)
WHO = next(who for who, date in HELD["loans"][["person", "date"]].to_numpy() if HELD["people"]["since"][who] < date)
HOME = HELD["people"]["home"][WHO]
LARGER = HELD["homes"]["rooms"].idxmax()
NEW = {"account": HELD["moves"]["account"][ONE], "day": 0, "seq": 1, "amount": 3.0, "fee": 1.0, "word": "b"}


def more(**values):
    return lambda frame: pd.concat([frame, pd.DataFrame([NEW | values])])


EDITS = {
    "a late row": ("moves", more()),
    "a row after all dates": ("moves", more(day=24)),
    "a row of no key": ("moves", more(account=np.nan)),
    "the same row again": ("moves", lambda f: pd.concat([f, f.loc[[ONE]]])),
    "a corrected value": ("moves", lambda f: put(f, ONE, amount=f["amount"][ONE] + 1)),
    "a value that is gone": ("moves", lambda f: put(f, ONE, amount=np.nan)),
    "a value instead of another": ("moves", lambda f: put(f, ONE, amount=3.0, fee=np.nan)),
    "the other instead of it": ("moves", lambda f: put(f, ONE, amount=np.nan, fee=3.0)),
    "a corrected word": ("moves", lambda f: put(f, ONE, word="a" if f["word"][ONE] != "a" else "b")),
    "a corrected day": ("moves", lambda f: put(f, ONE, day=f["day"][TWO])),
    "another order": ("moves", lambda f: put(f, ONE, seq=f["seq"][ONE] + 1)),
    "a deleted row": ("moves", lambda f: f.drop(index=ONE)),
    "a row of another key": ("moves", lambda f: put(f, ONE, account=14.0)),
    "two values swapped": ("moves", lambda f: swapped(f, "amount", [ONE, TWO])),
    "two days swapped": ("moves", lambda f: swapped(f, "day", [ONE, TWO])),
    "columns swapped in a row": ("moves", lambda f: put(f, ONE, amount=f["fee"][ONE], fee=f["amount"][ONE] + 1)),
    "rows in another order": ("moves", lambda f: f.sample(frac=1, random_state=0)),
    "a row two tables away": ("visits", lambda f: put(f, 0, minutes=f["minutes"][0] + 1)),
    "a time two tables away": ("visits", lambda f: put(f, 0, at=0)),
    "a table between points elsewhere": ("people", lambda f: put(f, WHO, home=LARGER)),
    "a time of a table between": ("people", lambda f: put(f, WHO, since=f["since"][WHO] - 1)),
    "a table without a time": ("homes", lambda f: put(f, HOME, rooms=f["rooms"][HOME] + 1)),
    "a key that is there twice between": ("people", lambda f: pd.concat([f, f.loc[[WHO]]])),
    "a loan again": ("loans", lambda f: pd.concat([f, f.loc[[4]]])),
    "a loan of another date": ("loans", lambda f: put(f, 4, date=f["date"][4] + 1)),
    "a loan of another account": ("loans", lambda f: put(f, 4, account=(f["account"][4] + 1) % 14)),
    "a loan without an account": ("loans", lambda f: put(f, 4, account=np.nan)),
    "loans in another order": ("loans", lambda f: f.sample(frac=1, random_state=0)),
    "a deleted loan": ("loans", lambda f: f.drop(index=4)),
    "another label and sum": ("loans", lambda f: put(f, 4, sum=20, bad=1 - f["bad"][4])),
    "other means": ("moves", lambda f: put(f, ONE, amount=1000.0)),
    "a new word": ("moves", lambda f: put(f, ONE, word="new")),
}


@cache
def state(edit):
    """Frames after an edit, which rows each loan sees, and what a full run gives."""
    table, change = EDITS[edit] if edit else ("loans", lambda frame: frame)
    now = HELD | {table: change(HELD[table].copy()).reset_index(drop=True)}
    return now, seen(now), entity_table(join_of(now), functions=FUNCTIONS)


def check_swapped(stored, file):
    """Of a table without a time sums of hashes are of rows: a hash that adds up its columns' would not tell these."""
    rows = pd.DataFrame({"id": [0, 1]})
    facts = pd.DataFrame({"id": [0, 0, 1, 1], "x": [1.0, 2.0, 3.0, 4.0], "word": ["a", "b", "a", "b"]})
    for number, held in enumerate([facts, swapped(facts.copy(), "x", [0, 1])]):
        join = Join([Table("rows", rows), Table("facts", held, features=["x", "word"])], [("rows.id", "facts.id")])
        found = entity_table(stored(join, f"swapped{number}"), functions=["sum_by"], known=file)
        np.testing.assert_array_equal(found.columns["facts.x.word=a.sum_by"], [1 + number, 3])
    assert found.anew == 1


def check_edits(stored, file, edits=tuple(EDITS)):
    """From one edited state to the next; how many loans were computed is known by brute force."""
    first = entity_table(stored(join_of(HELD), "first"), functions=FUNCTIONS, known=file)
    assert first.anew == len(HELD["loans"])
    _, before, learned_before = state("")
    for number, edit in enumerate(edits):
        now, sees, wanted = state(edit)
        found = entity_table(stored(join_of(now), f"k{number}"), functions=FUNCTIONS, known=file)
        assert_same(found, wanted, edit)
        assert found.anew == due(before, sees, learned_before.made, wanted.made), edit
        before, learned_before = sees, wanted
    assert entity_table(stored(join_of(now), "last"), functions=FUNCTIONS, known=file).anew == 0


def test_whatever_changes_a_refresh_is_a_full_run_of_few_rows(tmp_path):
    check_edits(lambda join, name: join, tmp_path / "k", tuple(EDITS)[::3])
    check_swapped(lambda join, name: join, tmp_path / "swapped")


def test_a_refresh_in_duckdb(duckdb_connection, tmp_path):
    check_edits(lambda join, name: in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, name),
                tmp_path / "k")


def test_a_refresh_in_postgres(postgres, tmp_path):
    owner, reader = postgres

    def stored(join, name):
        return in_database(join, reader, owner.execute, POSTGRES, f"known_{name}")

    check_swapped(stored, tmp_path / "swapped")
    check_edits(stored, tmp_path / "k")


def test_most_edits_leave_most_loans_as_they_were():
    """Or the tests above would prove nothing: their counts were all, or nothing, of the loans."""
    n = len(HELD["loans"])
    _, before, wanted = state("")
    counts = {edit: due(before, state(edit)[1], wanted.made, state(edit)[2].made) for edit in EDITS}
    assert {edit for edit, count in counts.items() if count == n} == {"other means", "a new word"}
    assert {edit for edit, count in counts.items() if count == 0} == {
        "a row after all dates", "a row of no key", "rows in another order", "a loan again", "loans in another order",
        "a deleted loan", "another label and sum"}
    assert max(count for count in counts.values() if count < n) <= n // 2


def test_another_declaration_or_release_is_never_taken_for_the_same(tmp_path, monkeypatch):
    """Whatever the file holds, and in whatever order the declarations come."""
    joins = {"plain": join_of(HELD), "later": join_of(HELD, delay="3"), "no order": join_of(HELD, order=None),
             "other order": join_of(HELD, order="fee", features=["amount", "word"]),
             "fewer": join_of(HELD, features=["amount"]), "turned": join_of(HELD, features=["fee", "amount", "word"]),
             "all": join_of(HELD, as_of="all"), "other time": join_of(HELD, time="seq", order="day")}
    wanted = {name: entity_table(join) for name, join in joins.items()}
    for name in [*joins, *reversed(joins)]:
        assert_same(entity_table(joins[name], known=tmp_path / "k"), wanted[name], name)
    for functions in (["count", "sum:5"], ["count", "sum:6"], ["since_last", "distinct"]):
        found = entity_table(joins["plain"], functions=functions, known=tmp_path / "k")
        assert found.anew == len(HELD["loans"])
        assert_same(found, entity_table(joins["plain"], functions=functions))
    monkeypatch.setattr("buttress.relational.entities.known.__version__", "other")
    assert entity_table(joins["plain"], functions=functions, known=tmp_path / "k").anew == len(HELD["loans"])


def test_words_that_a_column_numbers_otherwise_are_other_words(tmp_path):
    """Categories of pandas are a type of DuckDB whose hash is of a word's number."""
    for words in (["a", "b", "c", "d"], ["b", "a", "c", "d"], ["d", "a", "b", "c"]):
        codes = pd.Categorical.from_codes([list("abcd").index(word) for word in HELD["moves"]["word"]], words)
        now = HELD | {"moves": HELD["moves"].assign(word=codes)}
        assert_same(entity_table(join_of(now), known=tmp_path / "k"), entity_table(join_of(now)))


def test_a_file_that_was_changed_is_refused(tmp_path):
    file = tmp_path / "features.known"
    entity_table(join_of(HELD), known=file)
    content = bytearray(file.read_bytes())
    for place in (0, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ModelFileError, match=r"Delete features\.known"):
            entity_table(join_of(HELD), known=file)
    file.unlink()
    assert entity_table(join_of(HELD), known=file).anew == len(HELD["loans"])
    with pytest.raises(ValueError, match="Leave made out"):
        entity_table(join_of(HELD), made=EntityFeatures(join_of(HELD)).fit(HELD["loans"]), known=file)


def test_a_refresh_of_spark_is_refused(spark, tmp_path):
    with pytest.raises(ValueError, match=r"hashes of DuckDB or PostgreSQL\. Got tables of Spark"):
        entity_table(in_spark(join_of(HELD), spark, "known"), known=tmp_path / "k")


@pytest.mark.parametrize(("name", "why"), [("", "is a folder"), ("no/such.known", "no such folder")])
def test_a_file_that_could_not_be_written_is_refused_before_any_work(tmp_path, monkeypatch, name, why):
    monkeypatch.setattr(EntityFeatures, "_learn", None)
    with pytest.raises(ValueError, match=f"^known .*{why}"):
        entity_table(join_of(frames()), known=tmp_path / name)


def test_a_table_alone_is_refreshed_as_well(tmp_path):
    rows = pd.DataFrame({"id": [1, 2], "x": [1.0, 2.0]})
    for _ in range(2):
        found = entity_table(Join([Table("rows", rows, features=["x"])], []), known=tmp_path / "k")
        np.testing.assert_array_equal(found.columns["rows.x"], rows["x"])
