"""Which files of a checkout a command imports: those of the package and of the scripts beside it.

``files_of`` starts a process, for what a command imports shows only where nothing else has been imported.
"""

import ast
import importlib
import json
import os
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PACKAGES = ("buttress", "reproduce")


def files_of(command: str, root: Path) -> frozenset[str] | str:
    """Return the files under ``root`` that ``python SCRIPT ...`` or ``python -m MODULE ...`` imports, relative to it.

    Imports inside functions are among them, as those of a compiled variant; the script itself too. Text says why they
    cannot be told.
    """
    first, *rest = shlex.split(command)
    if first != "python" or not rest:
        return f"only commands of python are followed, and this begins with {first}"
    program = rest[:2] if rest[0] == "-m" else rest[:1]
    root = root.resolve()
    path = os.pathsep.join(filter(None, [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]))
    line = [sys.executable, "-P", __file__, *program]  # -P: the files beside this one are no modules of their own
    done = subprocess.run(line, cwd=root, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed without a word"])[-1]
    files = [Path(name) for name in json.loads(done.stdout.splitlines()[-1])]
    return frozenset(str(file.relative_to(root)) for file in files if file.is_relative_to(root))


def _import(program: list[str]) -> None:
    """Import what a program imports, without running it."""
    if program[0] == "-m":
        module = importlib.import_module(program[1])
        if hasattr(module, "__path__"):
            importlib.import_module(f"{program[1]}.__main__")
        return
    sys.path.insert(0, str(Path(program[0]).parent))
    runpy.run_path(program[0], run_name="imported")


def _loaded() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items()
            if name.partition(".")[0] in PACKAGES and getattr(module, "__file__", None)}


def _import_inside_functions() -> None:
    """Import what the loaded modules of the package import inside functions, until nothing is added."""
    seen: set[str] = set()
    while new := _loaded().keys() - seen:
        for name in sorted(new):
            for module, names in _inner(ast.parse(Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8"))):
                _import_names(module, names)
        seen |= new


def _inner(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules of the packages, with names, that functions import."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            yield str(node.module), [alias.name for alias in node.names]


def _import_names(module: str, names: list[str]) -> None:
    try:
        found = importlib.import_module(module)
    except ImportError:  # of an optional package
        return
    for name in names:
        getattr(found, name, None)  # which loads what the package loads by name


def main() -> None:
    """Print the files that the program in the arguments imports, as a JSON list."""
    _import(sys.argv[1:])
    _import_inside_functions()
    files = [str(module.__file__) for name, module in sys.modules.items()
             if name != "__main__" and getattr(module, "__file__", None)]
    scripts = [] if sys.argv[1] == "-m" else [sys.argv[1]]
    sys.stdout.write(f"\n{json.dumps([str(Path(file).resolve()) for file in [*files, *scripts]])}\n")


if __name__ == "__main__":
    main()
