"""What holds the numbers of the claims pages: the commands of their rows, and a record of the lines as last kept.

A number in a verdict is *held* if the claim quotes it, if it is one of the row's figures as rounded there, or if it
stands in the code that its commands run: the tests that are selected, the experiment, the page, or the code and the
kept tables of their program. That it stands there is all that is asked. ``docs/claims/kept.json`` has, besides, a
digest of each line with a digit, and of each row of the tables that the pages show, so that none of them changes
unseen; a digest does not say that a line is true.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

KEPT = Path("claims", "kept.json")  # in the folder of pages
NUMBER = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?|\.\d+)(?:e-?\d+)?")
# of the source's own parts, which are names
REFERENCE = re.compile(r"(?:eqs?\.|equations?|lemmas?|theorems?|definitions?|tables?|figures?|sections?|algorithms?)"
                       r" [\d.]+(?:(?:,| and| to) \d+)*|\(\d+\)", flags=re.I)
SHOWN = re.compile(r"^```\{measured\} (\S+)$", flags=re.M)


def digests(text: str) -> list[str]:
    """Return a digest of each line that has a digit."""
    return [hashlib.sha256(line.encode()).hexdigest()[:12] for line in text.splitlines() if re.search(r"\d", line)]


def record(docs: Path) -> dict[str, list[str]]:
    """Return the digests of the claims pages and of the tables that they show, by name of file."""
    pages = sorted((docs / "claims").glob("*.md"))
    results = docs.parent / "benchmarks" / "results"
    shown = [results / f"{name}.json" for page in pages for name in SHOWN.findall(page.read_text(encoding="utf-8"))]
    return {file.name: digests(file.read_text(encoding="utf-8")) for file in (*pages, *shown)}


def changed(docs: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each file that is not as kept, and how many of its lines are new."""
    file = docs / KEPT
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    now = record(docs)
    for name in sorted(kept.keys() | now.keys()):
        new = len(set(now.get(name, ())) - set(kept.get(name, ())))
        if now.get(name) != kept.get(name):
            yield name, (f"{new} of its lines with digits are not as they were kept: rerun their commands, then "
                         "python -m reproduce.check --keep")


def keep(docs: Path) -> None:
    """Keep the digests of the pages as they are now."""
    (docs / KEPT).write_text(json.dumps(record(docs), indent=1) + "\n", encoding="utf-8")


def unheld(claim: str, verdict: str, figures: dict[str, tuple[float, float]], commands: list[str],
           root: Path) -> list[str]:
    """Return the numbers of a verdict that neither its claim, nor its figures, nor the code of its commands has."""
    quoted = {value(text) for text in NUMBER.findall(claim)}
    texts = [re.sub(r"(?<=\d)_(?=\d)", "", source(command, root)) for command in commands]
    code = {value(number) for text in texts for number in NUMBER.findall(text)}
    known = quoted | code | {100 * number for number in code}
    stated = [number for figure in figures.values() for number in figure]
    return [text for text in NUMBER.findall(REFERENCE.sub("", verdict))
            if value(text) not in known and not any(rounds_to(number, text) for number in stated)]


def value(text: str) -> float:
    """Return a number as written, without the commas of its thousands."""
    return float(text.replace(",", ""))


def rounds_to(number: float, text: str) -> bool:
    """Say whether a figure, or the same in per cent, is what is written, to the last digit that is written."""
    mantissa, _, power = text.replace(",", "").partition("e")
    last = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    return any(abs(abs(number) * scale - value(text)) <= last / 2 * (1 + 1e-9) for scale in (1, 100))


def source(command: str, root: Path) -> str:
    """Return the text that a command runs, as far as it can state a number."""
    words = command.split()
    if " -m reproduce.verdicts " in command:
        room, name = words[3].split(".")
        file = "trimming_bounds" if room == "bounds" else room
        return functions(root / "reproduce" / "verdicts" / f"{file}.py", [name])
    if words[0] == "pytest":
        parts = re.findall(r"\w+", command.partition(" -k ")[2].replace(" or ", " "))
        files = [root / word for word in words if word.endswith((".py", ".md"))]
        return "\n".join(functions(file, parts) if file.suffix == ".py" else file.read_text(encoding="utf-8")
                         for file in files)
    module = root / words[2].replace(".", "/") if words[1] == "-m" else root / words[1]
    files = sorted(module.glob("*.py")) or [module if module.suffix else module.with_suffix(".py")]
    program = " ".join(words[:3] if words[1] == "-m" else words[:2])
    return "\n".join([command, *kept_of(program, root), *(file.read_text(encoding="utf-8") for file in files)])


def kept_of(program: str, root: Path) -> Iterator[str]:
    """Yield the rows of the tables that a program printed and that are kept."""
    for file in sorted((root / "benchmarks" / "results").glob("*.json")):
        table = json.loads(file.read_text(encoding="utf-8"))
        if table["command"].startswith(program):
            yield from (" ".join(row) for row in (table["columns"], *table["rows"]))


def functions(file: Path, parts: list[str]) -> str:
    """Return the functions of a file whose names contain one of the parts, and all in it that is no other test."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    public = [part for node in ast.parse(text).body if ast.unparse(node).startswith("__all__")
              for part in re.findall(r"'(\w+)'", ast.unparse(node))]
    chosen = []
    for node in ast.parse(text).body:
        name = getattr(node, "name", "")
        if any(part in name for part in parts) or not (name.startswith("test_") or name in public):
            first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
            chosen += lines[first - 1 : node.end_lineno]
    return "\n".join(chosen)
