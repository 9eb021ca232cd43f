"""A review in a real browser, headless Chromium: every key, at two widths, light and dark, and entries with scripts."""

import os
import shutil

import pytest

from buttress.review.call import Reviewing
from buttress.review.course import Review
from buttress.review.store import Action

from review_cases import SCRIPT, audited

pytest.importorskip("starlette", reason="the extra review is not installed")
pytest.importorskip("uvicorn", reason="the extra review is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None and "BUTTRESS_REQUIRE_ENGINES" not in os.environ,
                                reason="Chromium is not installed")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        opened = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def served(tmp_path):
    result, *_ = audited()
    made = Reviewing(Review(result, tmp_path / "data.review", "ann", seed=0), 0)
    yield made
    made.stop()


def opened(browser, served, width=1200, scheme="light"):
    page = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme).new_page()
    page.asked = []
    page.complaints = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(served.address)
    return page


def press(page, key):
    with page.expect_navigation():
        page.keyboard.press(key)


def actions(served):
    served.review.store.read()
    return [one.action for one in served.review.store.history]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_every_key_decides_and_no_script_of_the_data_runs(browser, served, width, scheme):
    page = opened(browser, served, width, scheme)
    rows = [page.locator("h1").inner_text()]
    for key in "kdu":
        press(page, key)
        rows.append(page.locator("h1").inner_text())
    assert len(set(rows)) == 4
    page.keyboard.press("c")
    assert page.evaluate("document.activeElement.id") == "value"
    page.select_option("#value", "yes")
    press(page, "Enter")
    assert actions(served) == [Action.keep, Action.drop, Action.unsure, Action.correct]
    assert served.review.store.history[-1].value == "yes"
    press(page, "z")
    assert page.locator("h1").inner_text() == rows[3]
    assert actions(served)[-1] == Action.undo
    page.reload()
    assert page.locator("h1").inner_text() == rows[3]
    assert page.evaluate("window.hit") is None
    assert SCRIPT in page.inner_text("body")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert all(url.startswith((served.address, "data:")) for url in page.asked)
    assert page.complaints == []
    page.context.close()


def test_letters_typed_into_a_reason_decide_nothing(browser, served):
    page = opened(browser, served)
    page.fill("#why", "")
    page.type("#why", "kduz a mistake")
    page.keyboard.press("Enter")
    page.wait_for_timeout(100)
    assert actions(served) == []
    page.keyboard.press("Escape")
    press(page, "k")
    assert served.review.store.history[-1].why == "kduz a mistake"
    page.context.close()


def test_the_table_by_keyboard_alone(browser, served):
    page = opened(browser, served, 400, "dark")
    page.goto(served.address + "rows")
    page.keyboard.press("a")
    press(page, "k")
    assert len(served.review.store.current) == 100
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.evaluate("window.hit") is None
    page.context.close()


def test_a_key_pressed_many_times_decides_once(browser, served):
    page = opened(browser, served)
    with page.expect_navigation():
        page.evaluate("for (let i = 0; i < 5; i++) document.body.dispatchEvent(new KeyboardEvent("
                      "'keydown', {key: 'k', bubbles: true}))")
    assert actions(served) == [Action.keep]
    page.context.close()


def test_two_browsers_at_once(browser, served):
    one, other = opened(browser, served), opened(browser, served)
    press(one, "d")
    press(other, "k")
    assert "decided on it meanwhile" in other.locator("[role=alert]").inner_text()
    assert actions(served) == [Action.drop]
    for page in (one, other):
        page.context.close()


@pytest.mark.parametrize("path", ["", "rows", "row/0", "again"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_a_screen_reader_meets_names_headings_and_contrasts(browser, served, path, scheme, width):
    """By axe-core, whose rules are those of WCAG and the best practices beside them."""
    page = opened(browser, served, width, scheme)
    page.goto(served.address + path)
    found = axe.Axe().run(page).response
    assert [(one["id"], node["html"]) for one in found["violations"] for node in one["nodes"]] == []
    assert len(found["passes"]) > 10
    page.context.close()
