"""Every route of a review: what it shows and records, whom it refuses, and that entries of the data stay text."""

import csv
import html
import io
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("starlette", reason="the extra review is not installed")
pytest.importorskip("httpx", reason="Starlette's test client needs httpx")

from starlette.testclient import TestClient

import buttress
from buttress.audit.reading.corrections import apply_corrections, read_corrections
from buttress.review.course import Filter, Review
from buttress.review.server import application
from buttress.review.store import Action

from review_cases import SCRIPT, TAG, audited, settle

HOST = "127.0.0.1:8000"
ROOT = "/secret"


class Served:
    """A review of the small table, and browsers that look at it."""

    def __init__(self, path, task="classification", who="ann"):
        self.result, self.frame, self.true, self.wrong = audited(task)
        self.review = Review(self.result, path, who, seed=0)
        self.client = self.browser()

    def browser(self):
        return TestClient(application(self.review, "secret", frozenset([HOST])), base_url=f"http://{HOST}",
                          follow_redirects=False)

    def get(self, path="/", **options):
        return self.client.get(ROOT + path, **options)

    def decide(self, place, action="keep", value="", why="", seen=None, client=None, **more):
        form = {"place": place, "action": action, "value": value, "why": why,
                "seen": self.review.store.last if seen is None else seen, **more}
        return (client or self.client).post(f"{ROOT}/decide", data=form)

    def place(self):
        """The row that the page shows."""
        return int(re.search(r'name="place" value="(\d+)"', self.get().text)[1])


@pytest.fixture
def served(tmp_path):
    made = Served(tmp_path / "data.review")
    yield made
    made.review.close()


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


PAGES = ["/", "/row/0", "/rows", "/rows?state=decided", "/rows?page=2", "/corrections.csv", "/file/keys.js",
         "/file/style.css"]


@pytest.mark.parametrize("path", PAGES)
def test_pages_answer_and_ask_for_nothing_elsewhere(served, path):
    answer = served.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    if "html" in answer.headers["content-type"]:
        for tag, attributes in Tags(answer.text).tags:
            for name in ("src", "href", "action"):
                assert attributes.get(name, ROOT).startswith((ROOT, "data:,")), (tag, attributes)
            assert not any(name.startswith("on") or name == "style" for name in attributes)


@pytest.mark.parametrize("path", PAGES)
def test_a_wrong_token_or_another_host_gets_nothing(served, path):
    wrong = served.client.get("/secres" + path)
    assert wrong.status_code == 404
    assert "y" not in served.frame.columns[:1]
    assert SCRIPT not in html.unescape(wrong.text)
    elsewhere = served.get(path, headers={"host": "evil.example:8000"})
    assert elsewhere.status_code == 421
    assert "size" not in elsewhere.text
    assert served.client.get(path).status_code == 404


def test_other_pages_cannot_decide(served):
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}):
        answer = served.client.post(f"{ROOT}/decide", data={"place": 0, "action": "keep", "seen": 0}, headers=headers)
        assert answer.status_code in (403, 421)
    assert served.client.post("/guess/decide", data={"place": 0, "action": "keep", "seen": 0}).status_code == 404
    assert served.review.store.history == []


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_entries_names_and_reasons_stay_text(tmp_path, task):
    served = Served(tmp_path / "data.review", task)
    served.decide(3, "drop", why=TAG + SCRIPT)
    for path in ("/", "/row/3", "/rows", "/rows?state=decided"):
        page = Tags(served.get(path).text)
        assert [tag for tag, _ in page.tags if tag in ("img", "b", "script")].count("img") == 0
        assert [attributes for tag, attributes in page.tags if tag == "script"] == [
            {"src": f"{ROOT}/file/keys.js", "defer": None}]
    assert SCRIPT in Tags(served.get("/row/3").text).text
    served.review.close()


def test_the_most_suspicious_row_comes_first_with_what_speaks_against_it(served):
    place = served.place()
    worst = served.result.suspects[0]
    assert place == worst.row
    text = Tags(served.get().text).text
    for said in (str(worst.expected), worst.why, *(near.usual for near in worst.unusual)):
        assert said in text
    marked = re.findall(r"<mark>(.*?)</mark>", served.get().text)
    assert len(marked) >= len(worst.unusual) > 0
    assert "nearest rows that contradict it" in text


@pytest.mark.parametrize(("action", "value"), [("keep", ""), ("correct", "yes"), ("drop", ""), ("unsure", "")])
def test_decisions_are_recorded_and_the_next_row_comes(served, action, value):
    place = next(place for place in served.review.chosen(Filter()) if served.review.table.target[place] != "yes")
    answer = served.decide(place, action, value, "looked it up")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{ROOT}/"
    one = served.review.store.current[served.review.keys[place]]
    assert (one.who, one.action, one.value, one.why) == ("ann", Action(action), value, "looked it up")
    assert served.place() != place
    assert f"1 of {len(served.frame)} rows decided on" in served.get().text


def test_a_reload_shows_the_same_row_and_a_new_start_goes_on(served, tmp_path):
    for _ in range(12):
        place = served.place()
        assert served.place() == place
        served.decide(place)
        settle(served.review)
    shown, done = served.place(), set(served.review.store.current)
    again = Served(tmp_path / "data.review")
    settle(again.review)
    assert set(again.review.store.current) == done
    assert served.place() == shown or again.place() not in {served.review.place_of[key] for key in done}
    again.review.close()


def test_undo_takes_back_the_last_and_shows_its_row(served):
    first, second = served.place(), None
    served.decide(first)
    second = served.place()
    served.decide(second, "drop")
    number = int(re.search(r'name="decision" value="(\d+)"', served.get().text)[1])
    answer = served.client.post(f"{ROOT}/undo", data={"decision": number})
    assert answer.headers["location"] == f"{ROOT}/row/{second}"
    assert set(served.review.store.current) == {served.review.keys[first]}
    assert served.client.post(f"{ROOT}/undo", data={"decision": number}).status_code == 409
    assert served.client.post(f"{ROOT}/undo", data={"decision": "x"}).status_code == 409
    assert len(served.review.store.history) == 3


def test_of_two_browsers_the_second_is_told(served):
    other = served.browser()
    place = served.place()
    seen = served.review.store.last
    served.decide(place, "drop", seen=seen)
    answer = served.decide(place, "keep", seen=seen, client=other)
    assert answer.status_code == 409
    assert "ann decided on it meanwhile" in answer.text
    assert 'role="alert"' in answer.text
    assert served.review.store.current[served.review.keys[place]].action is Action.drop
    served.decide(place, "keep", client=other)
    assert served.review.store.current[served.review.keys[place]].action is Action.keep


@pytest.mark.parametrize("path", ["/row/{}", "/rows"])
def test_a_decision_while_a_page_is_made_is_not_on_it(served, monkeypatch, path):
    place = served.place()
    shown = served.review.shown

    def meanwhile(asked):
        found = shown(asked)
        if asked == place and not served.review.store.history:
            served.review.decide([place], Action.drop, "", "", 0)
        return found

    monkeypatch.setattr(served.review, "shown", meanwhile)
    seen = int(re.search(r'name="seen" value="(\d+)"', served.get(path.format(place)).text)[1])
    assert served.decide(place, "keep", seen=seen).status_code == 409
    assert served.review.store.current[served.review.keys[place]].action is Action.drop


def test_a_class_is_offered_and_taken_with_the_spaces_around_it(tmp_path):
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.where(np.arange(60) < 30, " no", "no")})
    review = Review(buttress.audit(None, frame[["x"]], frame["y"], effort="quick", target_name="y"),
                    tmp_path / "data.review", "ann")
    client = TestClient(application(review, "secret", frozenset([HOST])), base_url=f"http://{HOST}")
    offered, to_filter = ([attributes.get("value") for tag, attributes in Tags(client.get(f"{ROOT}/{page}").text).tags
                           if tag == "option"] for page in ("row/3", "rows"))
    assert offered == [" no", "no"]
    assert to_filter.count(" no") == 2, "as a class given, and as one to correct to"
    client.post(f"{ROOT}/decide", data={"place": 40, "action": "correct", "value": " no", "seen": 0})
    assert [one.value for one in review.store.history] == [" no"]
    review.close()


@pytest.mark.parametrize(("task", "form", "why"), [
    ("classification", {"action": "correct", "value": "maybe"}, "no class"),
    ("classification", {"action": "correct", "value": ""}, "no class"),
    ("regression", {"action": "correct", "value": "many"}, "must be a number"),
    ("regression", {"action": "correct", "value": "inf"}, "must be a number"),
    ("regression", {"action": "correct", "value": "1_0"}, "must be a number"),
    ("regression", {"action": "correct", "value": "\uff11"}, "must be a number"),
    ("classification", {"action": "undo"}, "A decision is"),
    ("classification", {"action": "burn"}, "A decision is"),
    ("classification", {"place": "999999", "action": "keep"}, "No row was chosen"),
    ("classification", {"seen": "x", "action": "keep"}, "invalid literal")])
def test_what_cannot_be_decided_is_refused_with_a_reason(tmp_path, task, form, why):
    served = Served(tmp_path / "data.review", task)
    answer = served.client.post(f"{ROOT}/decide", data={"place": "3", "seen": "0", **form})
    assert answer.status_code == 409
    assert why in html.unescape(answer.text)
    assert served.review.store.history == []
    served.review.close()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_target_corrected_to_what_is_given_is_kept(tmp_path, task):
    served = Served(tmp_path / "data.review", task)
    given = served.review.table.target[3]
    served.decide(3, "correct", given if task == "classification" else f" {given:.5f}")
    assert [(one.action, one.value) for one in served.review.store.history] == [(Action.keep, "")]
    served.review.close()


def test_many_rows_are_decided_at_once_and_the_table_stays_where_it_was(served):
    places = [int(place) for place in re.findall(r'name="place" value="(\d+)"', served.get("/rows").text)][:7]
    answer = served.decide(places, "correct", "yes", bulk=1, state="open", page=1)
    assert answer.headers["location"].startswith(f"{ROOT}/rows?")
    assert "state=open" in answer.headers["location"]
    assert {served.review.place_of[key] for key in served.review.store.current} == set(places)
    shown = served.get("/rows?state=decided").text
    assert set(map(int, re.findall(r'name="place" value="(\d+)"', shown))) == set(places)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_rows_are_corrected_at_once_each_to_what_is_expected_of_it(tmp_path, task):
    served = Served(tmp_path / "data.review", task)
    row = re.compile(r'name="place" value="(\d+)".*?</th><td>(.*?)</td><td>(.*?)</td>', re.DOTALL)
    shown = row.findall(html.unescape(served.get("/rows").text))[:5]
    assert all(given != expected for _, given, expected in shown)
    served.decide([int(place) for place, _, _ in shown], "expected", bulk=1)
    done = {served.review.place_of[key]: one for key, one in served.review.store.current.items()}
    assert {one.action for one in done.values()} == {Action.correct}
    for place, _, expected in shown:
        value = done[int(place)].value
        assert value == expected if task == "classification" else float(value) == pytest.approx(float(expected), 1e-3)
    served.review.ranked.expected[150] = served.review.table.target[150]
    answer = served.decide([149, 150], "expected", bulk=1)
    assert (answer.status_code, "target given is the one expected" in answer.text) == (409, True)
    assert len(served.review.store.current) == 5
    served.review.close()


def test_the_table_is_paged_and_filtered(served):
    def places(query):
        return [int(place) for place in re.findall(r'name="place" value="(\d+)"', served.get(f"/rows?{query}").text)]

    assert len(places("page=1")) == 100
    assert len(places("page=2")) == 60
    assert sorted(places("page=1") + places("page=2")) == list(range(160))
    assert places("page=999") == places("page=2")
    assert places("page=x") == places("page=1")
    given = served.frame["y"].to_numpy()
    assert sorted(places("given=yes")) == np.flatnonzero(given == "yes").tolist()[:100]
    finding = next(one for one in served.result.findings if isinstance(one.evidence.get("rows"), list))
    assert sorted(places(f"finding={finding.code}")) == sorted(finding.evidence["rows"])
    unusual = {suspect.row for suspect in served.result.suspects for one in suspect.unusual if one.column == "size"}
    assert unusual <= set(places("column=size"))
    assert len(places("column=size")) < 100


def test_corrections_are_what_apply_reads(tmp_path):
    served = Served(tmp_path / "data.review")
    data = tmp_path / "data.csv"
    served.frame.to_csv(data, index=False)
    wrong = np.flatnonzero(served.wrong)
    for place in wrong[:10].tolist():
        served.decide(place, "correct", served.true[place])
    served.decide(int(wrong[11]), "drop", why='a "reason",\nin two lines')
    served.decide(int(wrong[12]), "keep")
    fixes = tmp_path / "corrections.csv"
    fixes.write_text(served.get("/corrections.csv").text)
    done = apply_corrections(read_corrections(fixes), data, tmp_path / "clean.csv")
    assert (done.corrected, done.dropped, done.refused) == (10, 1, [])
    clean = list(csv.DictReader(io.StringIO((tmp_path / "clean.csv").read_text())))
    expected = np.where(np.isin(np.arange(160), wrong[:10]), served.true, served.frame["y"])
    assert [row["y"] for row in clean] == np.delete(expected, wrong[11]).tolist()
    served.review.close()


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_whole_review_draws_every_tenth_row_and_learns(tmp_path, task):
    served = Served(tmp_path / "data.review", task)
    for _ in range(40):
        place = served.place()
        served.decide(place, "correct" if served.wrong[place] else "keep", str(served.true[place]))
        settle(served.review)
    assert len(served.review.store.current) == 40
    assert len(served.review.store.draws) == 4
    found = sum(one.action is Action.correct for one in served.review.store.current.values())
    assert found >= 14, "nine of ten planted errors"
    left = served.review.left()
    assert left.low <= 16 - found <= left.high
    assert "drawn at random" in served.get().text
    served.review.close()


def test_the_corrected_table_is_audited_beside_the_first(served):
    for place in np.flatnonzero(served.wrong).tolist():
        served.decide(place, "correct", served.true[place])
    cells = re.findall(r"<th scope=\"row\">(.*?)</th><td>(.*?)</td><td>(.*?)</td>", served.get("/again").text)
    looks = {what: (before, after) for what, before, after in cells}
    before, after = map(int, looks["rows more likely wrong than right"])
    assert after < before / 2


def test_a_form_that_is_too_long_changes_nothing(served):
    answer = served.decide(3, "keep", why="x" * 2_000_000)
    assert answer.status_code == 409
    assert served.review.store.history == []


def test_when_all_rows_are_decided_on_it_says_so(served):
    served.decide(list(range(160)), "keep", bulk=1)
    assert "Every row was decided on" in served.get().text
    assert served.review.left().rows == 0


def test_a_number_that_no_decision_has_is_refused(served):
    for seen in ("9" * 30, "9" * 5000, "x"):
        assert served.decide(0, seen=seen).status_code == 409
    assert served.review.store.last == 0
