"""The documentation site is whole: its build, in CI, turns warnings into errors; these checks are quick."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

import buttress

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MADE = {"gallery", "generated", "uses"}  # folders that the build writes
MOST_WORDS = 1500  # of a page; those of the claims are read by their check

if not (DOCS / "conf.py").exists():
    pytest.skip("the site is built from a checkout", allow_module_level=True)


def pages():
    return [path for path in DOCS.rglob("*.md") if not MADE & set(path.relative_to(DOCS).parts)]


def resolved(name):
    """The object of a dotted name: the longest part that is a module is imported."""
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found


def public_objects():
    """Every public class and function by its name, of the package and of its modules."""
    for name in buttress.__all__:
        thing = getattr(buttress, name)
        if inspect.ismodule(thing):
            own = [key for key, value in vars(thing).items() if getattr(value, "__module__", None) == thing.__name__]
            names = getattr(thing, "__all__", [key for key in own if not key.startswith("_")])
            found = {f"{name}.{inner}": getattr(thing, inner) for inner in names}
        else:
            found = {name: thing}
        for full, value in found.items():
            if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("buttress"):
                yield full, value


def entries():
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    return re.findall(r"^   (buttress\.[\w.]+)$", text, flags=re.M)


def test_every_public_name_has_an_entry_in_the_reference():
    listed = {id(resolved(entry)) for entry in entries()}
    assert [name for name, value in public_objects() if id(value) not in listed] == []


def test_no_name_is_listed_twice():
    assert len(entries()) == len(set(entries()))


def test_every_page_is_in_a_list_of_pages():
    listed = {DOCS / "index.md"}
    for page in pages():
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
            for line in block.splitlines():
                target = re.sub(r".*<(.*)>", r"\1", line.strip())
                if target and not target.startswith(":"):
                    listed.add((page.parent / f"{target}.md").resolve())
    assert [str(page) for page in pages() if page not in listed] == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_asks_a_question_and_links_to_its_pages(path):
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    title = text.splitlines()[1]
    assert title.endswith("?"), title
    assert len(text.splitlines()) <= 60
    for page in re.findall(r":doc:`/([\w/-]+)`", text):
        assert (DOCS / f"{page}.md").exists(), page
    assert ":doc:`/" in text


def test_there_are_examples_enough():
    assert len(EXAMPLES) >= 24


def test_the_archive_of_sources_has_the_files_of_the_root():
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    packed = packed["sdist"]["include"]
    assert {path.name for pattern in ("*.md", "*.cff", "LICENSE") for path in ROOT.glob(pattern)} <= set(packed)
    assert all((ROOT / name).exists() for name in packed)


def test_the_readme_compares_in_the_words_of_the_page():
    page = (DOCS / "start" / "why-not.md").read_text(encoding="utf-8")
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Why not ...?")[2].partition("[More")[0]
    rows = [row.removesuffix("|") for row in table.strip().splitlines()[2:]]
    assert len(rows) >= 5
    assert [row for row in rows if row not in page] == []


def test_links_of_the_readme_are_absolute_in_the_package_and_lead_to_files():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook, home = settings["tool"]["hatch"]["metadata"]["hooks"], settings["project"]["urls"]["Repository"]
    built = (ROOT / "README.md").read_text(encoding="utf-8")
    for rule in hook["fancy-pypi-readme"]["substitutions"]:
        built = re.sub(rule["pattern"], rule["replacement"], built)
    links = re.findall(r"\]\(([^)]+)\)", built)
    assert len(links) > 20
    for link in links:
        kind, path, place = re.fullmatch(rf"{re.escape(home)}/(raw|blob)/main/([^#]*)#?(.*)", link).groups()
        assert (kind == "raw") == path.endswith(".png")
        assert (ROOT / path).exists(), link
        assert not place or place in places(ROOT / path), link


def places(page):
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


# what strangers ask, the page that answers, and the words of the answer
QUESTIONS = [
    ("How do I install it?", "start/install.md", "pip install"),
    ("What changed?", "changelog.md", "# Changes"),
    ("Does it use a GPU?", "svm.md", 'device="cuda"'),
    ("What is eps?", "notation.md", "| `eps` |"),
    ("Which of my labels are wrong?", "suspicious-rows.md", "wrong labels"),
    ("Which estimator do I take?", "start/which-estimator.md", "what you have"),
    ("How do I fail a job of CI?", "audit.md", "--fail-on"),
    ("Does it write ONNX?", "models.md", "to_onnx"),
    ("How do I get intervals?", "intervals.md", "predict_interval"),
    ("What may I rely on in the next release?", "stability.md", "FutureWarning"),
]


@pytest.mark.parametrize(("question", "answer", "words"), QUESTIONS)
def test_a_question_is_answered_two_clicks_from_the_first_page(question, answer, words):
    home = (DOCS / "index.md").read_text(encoding="utf-8")
    first = {DOCS / f"{card}.md" for card in re.findall(r"^:link: (\S+)$", home, flags=re.M)}
    second = {(page.parent / link).resolve() for page in first if page.exists()
              for link in re.findall(r"\]\(([^)#]+\.md)", page.read_text(encoding="utf-8"))}
    assert DOCS / answer in second
    assert words in (DOCS / answer).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in pages() if "claims" not in page.parts], ids=lambda page: page.stem)
def test_a_page_is_for_a_reader(page):
    words = len(page.read_text(encoding="utf-8").split())
    assert words <= MOST_WORDS, f"{words} words, tables too: split the page by its purposes, or cut it"
