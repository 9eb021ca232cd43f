"""Pages carry what they use: no rules for classes that no page has, no icons that none shows.

The theme brings all of Bootstrap and of Font Awesome to every page. After the build, its style sheets lose the rules
for classes that stand in no page and no script, its icon font the glyphs that nothing shows, thumbnails most of their
colours, and pages the scripts that only the page of the search needs. A page that is still heavy is a warning.
"""

import io
import logging as python_logging
import re
from collections.abc import Iterator
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from PIL import Image
from sphinx.application import Sphinx
from sphinx.util import logging

SHEETS = ("styles/pydata-sphinx-theme.css", "sphinx-design.min.css")
FONT = "vendor/fontawesome/webfonts/fa-solid-900.woff2"
SCRIPTS = ("scripts/pydata-sphinx-theme.js", "copybutton.js", "doctools.js", "sphinx_highlight.js", "searchtools.js")
# classes that Bootstrap's script sets for tooltips, menus and what folds
SET_BY_BOOTSTRAP = {"bs-tooltip-auto", "bs-tooltip-bottom", "bs-tooltip-end", "bs-tooltip-start", "bs-tooltip-top",
                    "collapse", "collapsed", "collapsing", "fade", "show", "tooltip", "tooltip-arrow", "tooltip-inner"}
ONLY_TO_SEARCH = re.compile(r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>')
# the same icons as a font come with the style sheet
ICONS_AS_SCRIPT = re.compile(r'\s*<script defer src="[^"]*scripts/fontawesome\.js[^"]*"></script>')
CLASSES = re.compile(r'class="([^"]*)"')
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
LOADED = re.compile(r'<(?:script|img|link(?=[^>]*\bstylesheet))[^>]*?\b(?:src|href)="([^":?]+)')
# for code, tabs and examples, of which the page of the search has none
NOT_TO_SEARCH = re.compile(r'\s*<(?:script|link)[^>]*(?:clipboard\.min|copybutton|design-tabs|sg-tags|sg_gallery[\w-]*|'
                           r'sphinx-design\.min)\.(?:js|css)[^>]*?(?:></script>|/>)')
COLOURS = 32  # of a thumbnail
MANY_COLOURS = 128  # of a picture larger than the next
LARGE_PICTURE = 100_000  # bytes
MOST_BYTES = 565_000  # of a page with all that it loads, not compressed; for that of the search, the index too
log = logging.getLogger(__name__)
python_logging.getLogger("fontTools").setLevel(python_logging.WARNING)  # it tells each table it cuts


def rules(css: str) -> Iterator[tuple[str, str | None]]:
    """Yield the rules of one level as (what stands before the braces, what stands in them or None)."""
    start, depth, opened, quote = 0, 0, 0, ""
    for i, sign in enumerate(css):
        if quote:
            quote = "" if sign == quote and css[i - 1] != "\\" else quote
        elif sign in "\"'":
            quote = sign
        elif sign == "{":
            opened = opened if depth else i
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield css[start:opened], css[opened + 1 : i]
                start = i + 1
        elif sign == ";" and depth == 0:
            yield css[start : i + 1], None
            start = i + 1


def purged(css: str, used: set[str]) -> str:
    """Return the style sheet without the selectors that need a class which is not ``used``."""
    kept = []
    for before, inside in rules(re.sub(r"/\*.*?\*/", "", css, flags=re.S)):
        head = before.strip()
        if inside is None:
            kept.append(head)
        elif head.startswith(("@media", "@supports", "@layer")):
            inner = purged(inside, used)
            kept += [f"{head}{{{inner}}}"] * bool(inner)
        elif head.startswith("@"):
            kept.append(f"{head}{{{inside}}}")
        else:
            selectors = [selector for selector in split(head) if needed(selector) <= used]
            kept += [f"{','.join(selectors)}{{{inside}}}"] * bool(selectors)
    return "".join(kept)


def split(selectors: str) -> list[str]:
    """Split a list of selectors at the commas outside of brackets."""
    return re.split(r",(?![^(]*\))(?![^\[]*\])", selectors)


def needed(selector: str) -> set[str]:
    """Return the classes without which a selector matches nothing; those in brackets are alternatives or negations."""
    if "\\" in selector:
        return set()
    while "(" in selector:
        shorter = re.sub(r"\([^()]*\)", "", selector)
        if shorter == selector:
            return set()
        selector = shorter
    return set(CLASS.findall(re.sub(r"\[[^\]]*\]", "", selector)))


def glyphs(css: str) -> set[int]:
    """Return the code points that a style sheet shows: of named icons and of its own variables."""
    escaped = re.findall(r'(?:--fa|content):"\\([0-9a-f]+)"', css)
    return {int(code, 16) for code in escaped} | {ord(sign) for sign in css if "\ue000" <= sign <= "\uf8ff"}


def with_few_icons(path: Path, codes: set[int]) -> None:
    """Leave only some glyphs in a font."""
    font = TTFont(io.BytesIO(path.read_bytes()))
    options = subset.Options(flavor="woff2", layout_features=[])
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=codes)
    cutter.subset(font)
    font.flavor = "woff2"
    font.save(path)


def with_few_colours(path: Path, colours: int) -> None:
    """Write a picture again with a palette."""
    with Image.open(path) as picture:
        flat = Image.new("RGB", picture.size, "white")
        flat.paste(picture, mask=picture.getchannel("A") if picture.mode == "RGBA" else None)
    flat.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)


def heavy(out: Path) -> Iterator[str]:
    """Yield a line for each page that weighs more than ``MOST_BYTES`` with its scripts, styles and pictures."""
    everywhere = sum((out / "_static" / name).stat().st_size for name in (FONT, "basic.css"))
    for page in out.rglob("*.html"):
        links = {(page.parent / link).resolve() for link in LOADED.findall(page.read_text(encoding="utf-8"))}
        weight = page.stat().st_size + everywhere + sum(link.stat().st_size for link in links if link.is_file())
        if weight > MOST_BYTES:
            yield f"{page} weighs {weight / 1000:.0f} kB with all that it loads, more than {MOST_BYTES / 1000:.0f}"


def lighten(app: Sphinx, error: Exception | None) -> None:
    """Take from the finished pages and files what no page uses."""
    if error is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    used = set(SET_BY_BOOTSTRAP)
    for page in out.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        lean = ICONS_AS_SCRIPT.sub("", (NOT_TO_SEARCH if page.name == "search.html" else ONLY_TO_SEARCH).sub("", text))
        if lean != text:
            page.write_text(lean, encoding="utf-8")
        used.update(name for names in CLASSES.findall(lean) for name in names.split())
    for script in SCRIPTS:
        used.update(re.findall(r"[\w-]+", (static / script).read_text(encoding="utf-8")))
    shown: set[int] = set()
    for name in SHEETS:
        sheet = static / name
        lean = purged(sheet.read_text(encoding="utf-8"), used)
        sheet.write_text(lean, encoding="utf-8")
        shown |= glyphs(lean)
    with_few_icons(static / FONT, shown)
    for picture in (out / "_images").glob("*.png"):
        if picture.stem.endswith("_thumb"):
            with_few_colours(picture, COLOURS)
        elif picture.stat().st_size > LARGE_PICTURE:
            with_few_colours(picture, MANY_COLOURS)
    for complaint in heavy(out):
        log.warning(complaint)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", lighten, priority=800)
    return {"parallel_read_safe": True}
