"""Every link within the site leads somewhere, and no page asks another host for anything. Checked without a network."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
log = logging.getLogger(__name__)


class Page(HTMLParser):
    """The places, the links and the loaded files of one page."""

    def __init__(self, text: str):
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names and where it leads."""
        given = dict(attrs)
        self.places.update(value for key in ("id", "name") if (value := given.get(key)))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") not in ("canonical",):
            self.loaded.append(str(given[LOADED[tag]]))


def broken(pages: dict[Path, Page]) -> list[str]:
    """Return a line for each link to a missing page or place, and for each file loaded from another host."""
    complaints = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    complaints.append(f"{path}: loads {link} from another host")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                complaints.append(f"{path}: {link} leads to no file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                complaints.append(f"{path}: {link} leads to no place on its page")
    return complaints


def check(app: Sphinx, error: Exception | None) -> None:
    """Warn of every broken link; with -W the build fails."""
    if error is not None or app.builder.format != "html":
        return
    root = Path(app.outdir).resolve()
    paths = [root / app.builder.get_target_uri(docname) for docname in app.env.found_docs]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    for complaint in broken(pages):
        log.warning(complaint)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True}
