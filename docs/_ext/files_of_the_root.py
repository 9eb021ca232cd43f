"""Markdown as the forge reads it becomes pages of the site.

Pages beside ``docs/`` are pages of the site too, and links to them stay within it; a public name in backticks leads to
its page of the reference.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

import buttress

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"(?<!`)`([A-Za-z_]+)`(?!`)")
APART = re.compile(r"(^```.*?^```|^#.*?$|\[[^\]]*\]\([^)]*\))", flags=re.M | re.S)  # code, headings and links
# doctest wants a blank line at the end of an example, readers do not
TRAILING = re.compile(r"^(```python\n>>> (?:(?!^```).)*?\n)\n(```)$", flags=re.M | re.S)
PAGES = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md"}


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Fill the pages of the root, and turn links out of ``docs/`` into links between pages."""
    up = "../" * docname.count("/")
    if docname in PAGES:
        text = (ROOT / PAGES[docname]).read_text(encoding="utf-8").replace("](docs/", "](")
        source[0] = text
        app.env.note_dependency(str(ROOT / PAGES[docname]))
    for page, file in PAGES.items():
        outside = file if docname in PAGES else f"{up}../{file}"
        source[0] = source[0].replace(f"]({outside}", f"]({up}{page}.md")


def link(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn public names into links, and drop the blank line at the end of an example."""
    if docname.startswith(("reference/generated/", "gallery/")):
        return
    pieces = APART.split(TRAILING.sub(r"\1\2", source[0]))
    pieces[::2] = [NAME.sub(_role, piece) for piece in pieces[::2]]
    source[0] = "".join(pieces)


def _role(found: re.Match[str]) -> str:
    name = found[1]
    public = name in buttress.__all__ and not isinstance(getattr(buttress, name), type(re))
    return f"{{py:obj}}`{name} <buttress.{name}>`" if public else found[0]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", read)
    app.connect("source-read", link, priority=600)
    return {"parallel_read_safe": True}
