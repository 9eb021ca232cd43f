"""Run commands in forks of one process that has imported what they need: each is a process of its own, started at once.

Half the time of a command that runs a few tests goes into importing the package. ``python -m reproduce.forks``
imports all of it, then reads one command a line of its standard input and answers each with a line, both JSON.
"""

import importlib
import json
import os
import pkgutil
import runpy
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from reproduce.imported import PACKAGES

# what tests and pytest's plugins import besides the package itself
TESTS_IMPORT = ("pytest", "hypothesis", "hypothesis.internal.observability", "cvxpy", "duckdb", "pandas")


@dataclass
class Ran:
    """A command's exit status, what it wrote, and its seconds of processor time."""

    status: int
    output: str
    seconds: float


class Forks:
    """A context in which commands are run in forks of one process; it is started with the first command."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Path], Ran] = {}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.__exit__(kind, error, trace)

    def run(self, command: str, root: Path) -> Ran:
        """Run a command in a folder: ``pytest ...``, ``python ...`` or anything of the shell; each is run once."""
        if (command, root) not in self._kept:
            self._kept[command, root] = self._answer(command, root)
        return self._kept[command, root]

    def _answer(self, command: str, root: Path) -> Ran:
        if self._process is None:
            line = [sys.executable, "-m", "reproduce.forks"]
            self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, str(root.resolve())]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The process that runs commands ended at {command!r}. What it wrote stands above.")
        return Ran(*json.loads(answer))

    @property
    def count(self) -> int:
        """Commands so far."""
        return len(self._kept)

    @property
    def seconds(self) -> float:
        """Processor time of all commands so far."""
        return sum(ran.seconds for ran in self._kept.values())


def forked(command: str, root: str) -> Ran:
    """Run a command in a fork of this process."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        child = os.fork()
        if child == 0:
            _become(command, root, output.fileno())
        _, status, used = os.wait4(child, 0)
        output.seek(0)
        return Ran(os.waitstatus_to_exitcode(status), output.read(), used.ru_utime + used.ru_stime)


def _become(command: str, root: str, output: int) -> NoReturn:
    """Be the process that runs the command, and end."""
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = open(1, "w", closefd=False)  # noqa: SIM115 closed with the process
        os.chdir(root)
        status = _called(command)
    except BaseException as error:  # whatever it is, the status tells
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        os._exit(status)


def _called(command: str) -> int:
    """Run the command in this process, which ``python`` and ``pytest`` need not start anew."""
    first, *rest = shlex.split(command)
    if first == "pytest":
        import pytest

        os.environ.pop("PYTEST_ADDOPTS", None)  # as -n, which would start processes
        imported = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins, before the fork
        return int(pytest.main(["-q", "-p", "no:cacheprovider", *imported, *rest]))
    if first != "python":
        os.execvp("bash", ["bash", "-c", command])
    sys.argv = rest[1:] if rest[0] == "-m" else rest
    sys.path[0] = os.getcwd() if rest[0] == "-m" else os.path.dirname(rest[0])
    try:
        if rest[0] == "-m":
            runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(rest[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _import_all() -> None:
    """Import every module of the packages that can be, and what the tests import."""
    packages = [importlib.import_module(name) for name in PACKAGES]
    inside = [found.name for package in packages
              for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in (*inside, *TESTS_IMPORT):
        if not name.endswith("__main__") and name != __spec__.name:
            try:
                importlib.import_module(name)
            except ImportError:  # an optional module
                continue


def main() -> None:
    """Answer commands until the input ends."""
    _import_all()
    for line in sys.stdin:
        ran = forked(*json.loads(line))
        sys.stdout.write(json.dumps([ran.status, ran.output, ran.seconds]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
