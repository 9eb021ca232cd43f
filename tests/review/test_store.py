"""Decisions on the disk: nothing lost at kill -9, two writers, undo as one more row, another table refused."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from buttress.review.store import Action, RefusedError, Said, Store, digest_of

DIGEST = digest_of(["k1", "k2"], "y")


def store(path, who="ann", digest=DIGEST):
    return Store(path / "data.review", digest, who)


def said(key, action=Action.keep, value="", why=""):
    return Said(key, key[1:], action, value, why)


def test_decisions_are_there_again_with_who_when_what_and_why(tmp_path):
    first = store(tmp_path)
    first.record([said("k1", Action.correct, "b", "typed wrong")], 0)
    first.close()
    again = store(tmp_path, "bob")
    one = again.current["k1"]
    assert (one.who, one.action, one.value, one.why) == ("ann", Action.correct, "b", "typed wrong")
    assert one.at.startswith("20")
    assert one.at.endswith("+00:00")


def test_undo_is_one_more_row_and_what_was_before_stays_undone(tmp_path):
    kept = store(tmp_path)
    kept.record([said("k1")], 0)
    kept.undo(1)
    assert kept.current == {}
    assert [one.action for one in kept.history] == [Action.keep, Action.undo]
    with pytest.raises(RefusedError, match="taken back or replaced"):
        kept.undo(1)
    kept.record([said("k1", Action.drop)], kept.last)
    assert store(tmp_path).current["k1"].action is Action.drop


def test_decisions_on_another_table_or_target_are_refused(tmp_path):
    store(tmp_path).close()
    for other in (digest_of(["k1", "k3"], "y"), digest_of(["k1", "k2"], "z")):
        with pytest.raises(ValueError, match="another table"):
            store(tmp_path, digest=other)


def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "data.review"
    path.write_bytes(b"a,b\n1,2\n" * 500)
    with pytest.raises(ValueError, match="Cannot keep decisions"):
        store(tmp_path)
    assert path.read_bytes() == b"a,b\n1,2\n" * 500


@pytest.mark.parametrize(("made", "why"), [
    ("CREATE TABLE people (id INTEGER)", "has a table 'people'"),
    ("CREATE TABLE about (name TEXT, value TEXT); INSERT INTO about VALUES ('version', '3')", "has the format None")])
def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path, made, why):
    with closing(sqlite3.connect(tmp_path / "data.review")) as other:
        other.executescript(made)
    before = (tmp_path / "data.review").read_bytes()
    with pytest.raises(ValueError, match=f"{why}.*Name another file"):
        store(tmp_path)
    assert (tmp_path / "data.review").read_bytes() == before


def test_of_two_writers_the_second_on_a_row_is_refused_and_others_are_merged(tmp_path):
    ann, bob = store(tmp_path), store(tmp_path, "bob")
    ann.record([said("k1")], 0)
    with pytest.raises(RefusedError, match="ann decided on it meanwhile"):
        bob.record([said("k2", Action.drop), said("k1", Action.drop)], 0)
    assert bob.current == {} or set(bob.current) == {"k1"}, "all or none"
    bob.record([said("k2", Action.drop)], 0)
    ann.read()
    assert {key: one.who for key, one in ann.current.items()} == {"k1": "ann", "k2": "bob"}
    with pytest.raises(RefusedError):
        ann.record([said("k2")], 1)


def test_an_undo_of_what_somebody_replaced_is_refused(tmp_path):
    ann, bob = store(tmp_path), store(tmp_path, "bob")
    ann.record([said("k1")], 0)
    bob.read()
    bob.record([said("k1", Action.drop)], bob.last)
    with pytest.raises(RefusedError):
        ann.undo(1)


WRITER = """
import sys, time
from pathlib import Path
from buttress.review.store import Action, Said, Store, digest_of
kept = Store(Path(sys.argv[1]), digest_of(["k1", "k2"], "y"), sys.argv[2])
for i in range(100_000):
    kept.record([Said(f"{sys.argv[2]}{i}", str(i), Action.keep)], 0)
    print(i, flush=True)
    time.sleep(.003)  # two that never pause keep each other out for seconds: SQLite has no queue
"""


def writer(path, who):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path / "data.review"), who], stdout=subprocess.PIPE,
                            text=True)


@pytest.mark.parametrize("after", [1, 7, 30])
def test_what_was_said_to_be_recorded_is_there_after_kill_9(tmp_path, after):
    process = writer(tmp_path, "ann")
    last = [process.stdout.readline() for _ in range(after)][-1]
    os.kill(process.pid, signal.SIGKILL)
    last = [*process.stdout.read().split(), last.strip()][:-1][-1:] or [last.strip()]
    process.wait()
    kept = store(tmp_path)
    assert {f"ann{i}" for i in range(int(last[0]) + 1)} <= set(kept.current)
    assert len(kept.current) <= int(last[0]) + 2, "at most the one that was being written besides"
    kept.record([said("k1")], 0)
    assert sqlite3.connect(tmp_path / "data.review").execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_two_processes_write_at_once_and_nothing_is_lost(tmp_path):
    store(tmp_path).close()
    both = [writer(tmp_path, who) for who in ("ann", "bob")]
    lines = [[process.stdout.readline() for _ in range(15)] for process in both]
    for process in both:
        process.kill()
        process.wait()
    assert all(line for some in lines for line in some)
    assert {f"{who}{i}" for who in ("ann", "bob") for i in range(15)} <= set(store(tmp_path).current)


def test_a_file_that_another_program_holds_is_a_refusal(tmp_path):
    kept = store(tmp_path)
    kept._db.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "data.review", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RefusedError, match=r"Nothing was recorded.*data\.review"):
        kept.record([said("k1")], 0)
    other.execute("ROLLBACK")
    kept.record([said("k1")], 0)
    assert set(kept.current) == {"k1"}
