"""Docstrings on the site: formulas in plain text are no markup, and what scikit-learn documents is left out."""

import re

from sphinx.application import Sphinx

OURS = "buttress"
LITERAL = re.compile(r"(``[^`]*``|:[a-z]+:`[^`]*`|`[^`]*`)")  # across lines too
NAME = re.compile(r"(?<![\w`\\])(\w+_)(?=[\s,.;:)]|$)")  # coef_ in a sentence, which docutils takes for a link
PARAMETER = re.compile(r"^\s*\w+(, \w+)*( :.*|)$")
ANY_LENGTH = re.compile(r"(?<=[( ])\*(?=[,)])")  # in a shape, which docutils takes for emphasis


def skip(app: Sphinx, kind: str, name: str, member: object, skipped: bool, options: object) -> bool | None:
    """Return True for members that other packages define, None to leave the decision to Sphinx."""
    if kind != "class":
        return None
    function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
    home = getattr(function, "__module__", None)
    return True if home is not None and not str(home).startswith(OURS) else None


def plain(line: str) -> str:
    """Return a line, or a piece of one, in which | and names that end in _ stand for themselves."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    line = ANY_LENGTH.sub(r"\*", line)
    if PARAMETER.match(line):
        return line
    return NAME.sub(lambda name: name[1][:-1] + r"\_", line.replace("|", r"\|"))


def escape(app: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Take formulas for text, before numpydoc reads the sections."""
    if name.startswith(OURS):
        pieces = LITERAL.split("\n".join(lines))
        plain_text = ["\n".join(map(plain, piece.split("\n"))) for piece in pieces[::2]]
        pieces[::2] = plain_text
        lines[:] = "".join(pieces).split("\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", escape, priority=100)
    return {"parallel_read_safe": True}
