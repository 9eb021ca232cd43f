"""The grammar of mutants: each is one small error in one expression of a file.

    sign        a + b becomes a - b, and back; -a becomes a
    strictness  < becomes <=, > becomes >=, and back
    factor      a number times 2, and divided by 10
    extremum    min becomes max, and back, as functions, methods and of numpy; argmin and argmax too
    end         a whole number in an index or a range moves by 1
    direction   inf becomes -inf

Messages of errors, annotations, defaults and docstrings are left alone: nothing that is promised rests on them.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

EXTREMA = {"min": "max", "minimum": "maximum", "fmin": "fmax", "argmin": "argmax", "amin": "amax"}
SWAPPED = EXTREMA | {other: one for one, other in EXTREMA.items()}
STRICTNESS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True)
class Mutant:
    """An error: the file, the line, its kind, and the text with which the expression there is replaced."""

    file: str
    line: int
    kind: str
    start: int  # characters of the file
    end: int
    text: str

    def applied(self, source: str) -> str:
        return f"{source[:self.start]}{self.text}{source[self.end:]}"


def mutants(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = source.splitlines()
    found = []
    for node, indexed in _expressions(ast.parse(source)):
        for kind, changed in _errors(node, indexed):
            ends = [(node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)]
            start, end = (starts[row - 1] + len(lines[row - 1].encode()[:column].decode()) for row, column in ends)
            found.append(Mutant(file, node.lineno, kind, start, end, f"({ast.unparse(changed)})"))
    return sorted(set(found), key=lambda one: (one.start, one.end, one.kind, one.text))


def _expressions(tree: ast.Module) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the expressions of function bodies and constants, and whether they stand in an index or a range."""
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in tree.body]
    while stack:
        node, indexed = stack.pop()
        if isinstance(node, ast.expr):
            yield node, indexed
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            inside = indexed or name == "slice" or (isinstance(node, ast.Call) and _called(node) == "range")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise | ast.Assert):
                    stack.append((child, inside))


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _errors(node: ast.expr, indexed: bool) -> Iterator[tuple[str, ast.expr]]:
    """Yield the kinds of error that an expression can have, and the expression with each."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.BinOp) and type(changed.op) in SIGNS:
        changed.op = SIGNS[type(changed.op)]()
        yield "sign", changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.USub):
        yield "sign", changed.operand
    elif isinstance(changed, ast.Compare) and len(changed.ops) == 1 and type(changed.ops[0]) in STRICTNESS:
        changed.ops = [STRICTNESS[type(changed.ops[0])]()]
        yield "strictness", changed
    elif isinstance(changed, ast.Constant) and type(changed.value) in (int, float):
        yield from _numbers(changed, indexed)
    elif isinstance(changed, ast.Name) and changed.id in SWAPPED:
        yield "extremum", ast.Name(SWAPPED[changed.id])
    elif isinstance(changed, ast.Attribute) and changed.attr in SWAPPED:
        yield "extremum", ast.Attribute(changed.value, SWAPPED[changed.attr])
    elif isinstance(changed, ast.Attribute) and changed.attr == "inf":
        yield "direction", ast.UnaryOp(ast.USub(), changed)


def _numbers(node: ast.Constant, indexed: bool) -> Iterator[tuple[str, ast.expr]]:
    value = node.value
    if indexed and isinstance(value, int):
        yield "end", ast.Constant(value + 1)
        yield "end", ast.Constant(value - 1)
    elif value:
        yield "factor", ast.Constant(2 * value)
        yield "factor", ast.Constant(value / 10)
