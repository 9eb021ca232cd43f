"""The page in a real browser, headless Chromium: its layout at two widths, and entries that contain script."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

import buttress
from buttress.audit.writing.report import html

from audit_problems import only

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
PROBE = """<script>addEventListener("load", () => { const root = document.documentElement;
  document.querySelector("table.sortable th:nth-child(2) button").click();
  const cells = [...document.querySelectorAll("table.sortable tbody tr")].map((row) => row.cells[1].dataset.value);
  root.setAttribute("data-probe", JSON.stringify({wide: root.scrollWidth, shown: root.clientWidth, hit: window.hit ?? 0,
    sorted: cells.map(Number)})); });</script>"""


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"<img src=x onerror='window.hit=1'>": rng.normal(size=120), "b": rng.normal(size=120),
                          "c": rng.choice(["<script>window.hit=1</script>", "plain"], 120)})
    y = np.where(frame["b"] > 0, "</script><script>window.hit=1</script>", "no")
    y[:6] = np.where(y[:6] == "no", "</script><script>window.hit=1</script>", "no")
    with only("plain SVC", "robust, contamination unknown"):
        return html(buttress.audit(None, frame, y, rows=50, target_name="<b onclick=hit>"))


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_have_the_contrast_of_wcag_aa(page):
    """Relative luminance and contrast as WCAG 2.1 defines them; 4.5 is asked of text, 3 of lines in a figure."""
    for block in re.findall(r":root \{(.*?)\}", page, flags=re.S):
        colours = {name: value if len(value) == 7 else "#" + "".join(2 * digit for digit in value[1:])
                   for name, value in re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", block)}
        for ground in ("page", "card", "best"):
            for ink in ("ink", "soft", "link", "error", "warning", "note"):
                light, dark = sorted((luminance(colours[ground]), luminance(colours[ink])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ground, ink)
        for k in range(8):
            light, dark = sorted((luminance(colours["page"]), luminance(colours[f"c{k}"])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, k


def test_every_link_of_the_page_leads_to_a_paragraph_on_it(page):
    assert set(re.findall(r'href="#([\w-]+)"', page)) <= set(re.findall(r'id="([\w-]+)"', page))
    assert re.findall(r"https?://", page) == []
    assert len(re.findall(r'<svg role="img" aria-label="[^"]{40,}"', page)) == 3


@needs_browser
@pytest.mark.parametrize("width", [500, 1200])
def test_a_browser_shows_it_without_scrolling_sideways_and_runs_nothing_from_the_data(page, tmp_path, width):
    """500 is as narrow as headless Chromium makes a window; the frame below is 400."""
    (tmp_path / "audit.html").write_text(page.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    found = probe(tmp_path / "audit.html", width)
    assert found["wide"] <= found["shown"]
    assert found["hit"] == 0
    assert found["sorted"] == sorted(found["sorted"], reverse=True)


@needs_browser
def test_a_phone_shows_it_without_scrolling_sideways(page, tmp_path):
    (tmp_path / "audit.html").write_text(page, encoding="utf-8")
    (tmp_path / "phone.html").write_text("""<iframe id="phone" src="audit.html" width="400" height="800"></iframe>
<script>addEventListener("load", () => { const root = document.getElementById("phone").contentDocument.documentElement;
  const found = {wide: root.scrollWidth, shown: root.clientWidth};
  document.documentElement.setAttribute("data-probe", JSON.stringify(found));
});</script>""", encoding="utf-8")
    found = probe(tmp_path / "phone.html", 600, "--allow-file-access-from-files")
    assert 380 <= found["shown"] <= 400
    assert found["wide"] <= found["shown"]


def probe(path, width, *options):
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", *options,
               "--dump-dom", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(re.search(r'data-probe="([^"]*)"', shown).group(1).replace("&quot;", '"'))
