"""Rules of the house that no linter holds: its size, types that say something, and files a reader can take in.

The sizes are a ratchet: a change that needs more raises a number here, with its reason in the commit.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MOST_ANY = 0.05  # share of the annotated parameters
LONGEST_FUNCTION = 40  # lines of code without the docstring; __init__ has two lines a parameter, as scikit-learn asks
LONGEST_FILE = 400
MOST_FILES = 14  # modules in one folder, beside __init__.py; the package's own may have more
PACKED = 4  # values assigned in one statement
MOST = {
    "statements": 31_062,  # without imports and docstrings
    "lines": 64_141,
    "functions": 4_070,
    "files": 362,
    "untyped dicts": 16,  # dict[str, Any] and dict[str, object]
    "names of constants": 477,  # in upper case, at the head of a file; one that several files have counts once
    "words of docs": 35_061,  # outside tables
}


@cache
def every_node(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def nodes(path: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in every_node(path) if isinstance(node, kinds))


def functions(path: Path) -> Iterator[ast.AST]:
    return nodes(path, ast.FunctionDef, ast.AsyncFunctionDef)


def annotations(function: ast.AST) -> Iterator[str]:
    taken = function.args
    for parameter in [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]:
        if parameter is not None and parameter.annotation is not None:
            yield ast.unparse(parameter.annotation)


def lines(function: ast.AST) -> int:
    documented = ast.get_docstring(function) is not None
    first = function.body[0]
    return function.end_lineno - function.lineno + 1 - documented * (first.end_lineno - first.lineno + 1)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_few_parameters_are_any():
    stated = [text for path in SOURCES for function in functions(path) for text in annotations(function)]
    vague = sum(text.startswith("Any") for text in stated)
    assert vague <= MOST_ANY * len(stated), f"{vague} of {len(stated)} annotated parameters are Any"


def test_functions_are_short():
    long = {f"{name(path)}: {function.name}": lines(function)
            for path in SOURCES for function in functions(path)
            if function.name != "__init__" and lines(function) > LONGEST_FUNCTION}
    assert long == {}


def test_files_are_short():
    lengths = {name(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_one_statement_a_line():
    packed = [f"{name(path)}:{node.lineno}" for path in SOURCES for node in nodes(path, ast.Assign)
              for target in node.targets if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
              and len(target.elts) >= PACKED]
    assert packed == []


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_counted(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom) and not is_docstring(node)


def constants(path: Path) -> Iterator[str]:
    for node in every_node(path)[0].body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]+", target.id):
            yield target.id


def words_outside_tables() -> int:
    lines = (line for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.parts
             for line in page.read_text().splitlines())
    return sum(len(line.split()) for line in lines if not line.lstrip().startswith("|"))


def sizes() -> dict[str, int]:
    texts = [path.read_text() for path in SOURCES]
    return {
        "statements": sum(is_counted(node) for path in SOURCES for node in nodes(path, ast.stmt)),
        "lines": sum(len(text.splitlines()) for text in texts),
        "functions": sum(1 for path in SOURCES for _ in functions(path)),
        "files": len(SOURCES),
        "untyped dicts": sum(len(re.findall(r"dict\[str, (?:Any|object)\]", text)) for text in texts),
        "names of constants": len({constant for path in SOURCES for constant in constants(path)}),
        "words of docs": words_outside_tables(),
    }


def test_the_house_is_no_larger_than_it_was():
    assert {what: size for what, size in sizes().items() if size > MOST[what]} == {}


def test_every_number_has_a_reason():
    assert [name(path) for path in SOURCES if "not recorded" in path.read_text()] == []


def test_a_folder_is_taken_in_at_a_glance():
    folders = {path.parent for path in SOURCES} - {ROOT / "src" / "buttress"}
    counts = {name(folder): sum(file.name != "__init__.py" for file in folder.glob("*.py")) for folder in folders}
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def imports_between_files() -> dict[str, set[str]]:
    """The modules of the package that each module imports anywhere, in functions and for types too."""
    modules = {".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
               for path in SOURCES}
    found: dict[str, set[str]] = {module: set() for module in modules}
    for module, path in modules.items():
        for node in nodes(path, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found[module] |= (whole & modules.keys()) or ({node.module} & modules.keys())
        for node in nodes(path, ast.Import):
            found[module] |= {alias.name for alias in node.names} & modules.keys()
        found[module].discard(module)
    return found


def test_no_import_circles():
    left = imports_between_files()
    while free := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in free}
    assert sorted(left) == [], "these import each other, or what does"


if __name__ == "__main__":
    for what, size in sizes().items():
        sys.stdout.write(f"{what:20}{size:8,}  at most {MOST[what]:,}\n")
