"""Rows that became known a while after their time: as if the time were that much later, and no label before it is."""

import numpy as np
import pandas as pd
import pytest
from relational_storage import in_database

from buttress.relational import EntityFeatures, Join, Table
from buttress.relational.sources.dialects import DUCKDB, POSTGRES

START = pd.Timestamp("2024-02-20")
WORDS = ("count", "mean", "last", "since_last", "gap_mean", "count:20d", "mean:2rows", "distinct", "trend")


def loans(seed=0, dates=True):
    """Loans, and what became of them 30 days later, which is asked about by district."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 120, 80)
    return pd.DataFrame({"id": np.arange(80), "district": rng.integers(0, 6, 80), "bad": rng.integers(0, 2, 80),
                         "day": START + pd.to_timedelta(days, unit="D") if dates else days})


def joined(frame, past, delay, time="day"):
    return Join([Table("loans", frame[["id", "district", "day"]]),
                 Table("past", past, features=["bad"], time=time, delay=delay)],
                [("loans.district", "past.district")], as_of="loans.day")


def by_hand(frame, question):
    """Loans of the district whose outcome was known before the day of the question."""
    known = frame[frame["district"] == question["district"]]
    return known[known["day"] + pd.Timedelta("30D") < question["day"]]


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_a_label_counts_from_when_it_was_known(engine):
    frame = loans()
    made = EntityFeatures(joined(frame, frame, "30d"), ("count", "mean", "since_last"), missing="nan", engine=engine)
    found = made.fit_transform(frame)
    known = [by_hand(frame, question) for _, question in frame.iterrows()]
    assert 10 < sum(map(len, known)) < sum((frame["day"] < day).sum() for day in frame["day"])
    wanted = {"past.count": [len(rows) for rows in known], "past.bad.mean": [rows["bad"].mean() for rows in known],
              "past.since_last": [(day - rows["day"].max()) / pd.Timedelta("1D") - 30
                                  for day, rows in zip(frame["day"], known)]}
    for name, values in zip(made.get_feature_names_out(), found.T, strict=True):
        np.testing.assert_allclose(values, np.array(wanted[name], dtype=float), rtol=1e-12, err_msg=name)


def check_moved(here, there, **how):
    """Every word is as with a time that was moved by hand."""
    rows = here.tables[0].source
    wanted = EntityFeatures(here, WORDS, missing="nan").fit_transform(rows)
    made = EntityFeatures(there, WORDS, missing="nan", **how).fit(rows)
    np.testing.assert_allclose(made.transform(rows), wanted, rtol=1e-9, atol=1e-9)
    return made, wanted


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_words_are_those_of_a_time_moved_by_hand(engine):
    frame = loans(1)
    moved = frame.assign(day=frame["day"] + pd.Timedelta("36h"))
    check_moved(joined(frame, moved, None), joined(frame, frame, "36h"), engine=engine)


def test_databases_agree(duckdb_connection, postgres):
    owner, reader = postgres
    frame = loans(2)
    here = joined(frame, frame.assign(day=frame["day"] + pd.Timedelta("1.5D")), None)
    for connection, execute, dialect in ((duckdb_connection, duckdb_connection.execute, DUCKDB),
                                         (reader, owner.execute, POSTGRES)):
        there = in_database(joined(frame, frame, "1.5d"), connection, execute, dialect, "delayed")
        made, wanted = check_moved(here, there, engine="sql")
        stored = {row[0]: row[1:] for row in connection.execute(made.to_sql(["id"])).fetchall()}
        np.testing.assert_allclose(np.array([stored[i] for i in frame["id"]], dtype=float), wanted, atol=1e-9)
    reader.rollback()


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_outcomes_that_are_not_known_yet_change_nothing(engine):
    frame = loans(3)
    rows = frame.assign(day=START + pd.Timedelta("60D"))
    unknown = (frame["day"] + pd.Timedelta("30D") >= START + pd.Timedelta("60D")).to_numpy()
    assert (unknown & (frame["day"] < START + pd.Timedelta("60D"))).any()  # seen by the date alone
    join = joined(rows, frame, "30d")
    made = EntityFeatures(join, WORDS, missing="nan", engine=engine)
    before = made.fit_transform(rows)
    join.tables[1].source = pd.concat([frame[~unknown], frame[unknown].assign(bad=1 - frame["bad"]).sample(
        frac=3, replace=True, random_state=0)])
    np.testing.assert_allclose(made.transform(rows), before, rtol=1e-12)
    again = EntityFeatures(join, WORDS, missing="nan", engine=engine).fit(rows)
    assert again.centers_ == pytest.approx(made.centers_)  # nothing is learned from them either


@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize(("delay", "dates", "message"), [
    ("30", True, "times of this join are dates.*window or delay '30'. Use '30d'"),
    ("30d", False, "times of this join are numbers.*window or delay '30d'. Use '30'"),
    ("3rows", True, "delay of table 'past' is a length"),
    ("month", True, "delay of table 'past' is a length"),
], ids=["no unit", "unit", "rows", "word"])
def test_what_is_no_delay_is_refused(delay, dates, message, engine):
    frame = loans(0, dates)
    with pytest.raises(ValueError, match=message):
        EntityFeatures(joined(frame, frame, delay), ("count",), engine=engine).fit(frame)


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_numbers_are_delayed_in_their_unit(engine):
    frame = loans(4, dates=False)
    found = EntityFeatures(joined(frame, frame, "30"), ("count",), engine=engine).fit_transform(frame)
    same = frame["district"].to_numpy()[:, None] == frame["district"].to_numpy()
    days = frame["day"].to_numpy()
    np.testing.assert_array_equal(found[:, 0], (same & (days + 30 < days[:, None])).sum(axis=1))


@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_the_day_it_is_asked_is_not_delayed(engine):
    """The label's table may have a time and a delay of its own, as another table has of the same rows."""
    frame = loans(5)
    join = joined(frame, frame, "30d")
    wanted = EntityFeatures(join, WORDS, missing="nan").fit_transform(frame)
    join.tables[0].time, join.tables[0].delay = "day", "30d"
    np.testing.assert_allclose(EntityFeatures(join, WORDS, missing="nan", engine=engine).fit_transform(frame), wanted)
