"""Rules of the house that no linter holds: types that say something, and files a reader can take in."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MOST_ANY = 0.05  # share of the annotated parameters
LONGEST_FUNCTION = 40  # lines of code without the docstring; __init__ has two lines a parameter, as scikit-learn asks
LONGEST_FILE = 400
MOST_FILES = 14  # modules in one folder; docs/architecture.md gives the reason for each folder with more
PACKED = 4  # values assigned in one statement


def nodes(path: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds))


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


def test_folders_of_more_files_have_a_reason():
    folders = {path.parent for path in SOURCES}
    crowded = [folder for folder in folders if len(list(folder.glob("*.py"))) > MOST_FILES]
    reasons = (ROOT / "docs" / "architecture.md").read_text()
    unexplained = [name(folder) for folder in crowded if f"`{folder.name}/` has more than {MOST_FILES}" not in reasons]
    assert unexplained == []
