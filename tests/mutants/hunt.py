"""Runs the tests against mutants, in a clone of the checkout: which tests ran which line, and who notices an error.

Tests run in forks of a process that has imported the libraries, and not the package. Lines of compiled loops are not
followed: their mutants, and those of the heads of files, meet the tests that run any line of their file.
"""

import importlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .grammar import Mutant

LIBRARIES = ("numpy", "scipy.optimize", "scipy.stats", "sklearn.ensemble", "sklearn.svm", "numba", "pandas",
             "pytest", "hypothesis", "cvxpy", "coverage")
QUIETLY = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout")
SECONDS = 120  # of processor time for one mutant: an endless loop is noticed
ASKED = 50  # seconds of tests that meet one mutant, followed line by line

Where = dict[str, dict[int, list[str]]]  # file -> line -> tests, those first that run the fewest lines


@dataclass(frozen=True)
class Fate:
    """A mutant, whether a test failed on it, and how many tests met it."""

    mutant: Mutant
    died: bool
    tests: int


@contextmanager
def clone(root: Path) -> Iterator[Path]:
    """A copy of the working tree's tracked files, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=True, text=True)
        for file in filter(None, listed.stdout.split("\0")):
            if (root / file).exists():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / file, folder / file)
        yield folder


def followed(folder: Path, files: Sequence[str], tests: Sequence[str]) -> Where:
    """Return which tests run which lines of the files."""
    settings = folder / ".coveragerc"
    sources = "\n    ".join(files)
    settings.write_text(f"[run]\ndynamic_context = test_function\ninclude =\n    {sources}\ncore = ctrace\n")
    data = folder / "followed.coverage"
    if _in_fork(folder, _follow, tests, str(settings), str(data), seconds=3600):
        raise RuntimeError(f"Without a mutant these must pass, and did not: {' '.join(tests)}")
    coverage = importlib.import_module("coverage")
    read = coverage.CoverageData(basename=str(data))
    read.read()
    seconds = _seconds(folder / "durations.txt")
    met = {file: {line: set(contexts) & seconds.keys()
                  for line, contexts in read.contexts_by_lineno(str(folder / file)).items()} for file in files}
    run = Counter(test for lines in met.values() for tests in lines.values() for test in tests)
    found: Where = {}
    for file, lines in met.items():
        lines[0] = set().union(*lines.values())
        found[file] = {line: asked(tests, run, seconds) for line, tests in lines.items()}
    return found


def asked(tests: Collection[str], run: Mapping[str, int], seconds: Mapping[str, float]) -> list[str]:
    """Return the tests that run the fewest lines, for they are about these, and as many as time allows."""
    near = sorted(tests, key=lambda test: (run[test], seconds[test]))
    left = np.cumsum([seconds[test] for test in near])
    return [test for test, spent in zip(near, left) if spent <= ASKED] or near[:1]


def _seconds(file: Path) -> dict[str, float]:
    return {name: float(took) for took, name in (line.split(" ", 1) for line in file.read_text().splitlines())}


def _follow(tests: Sequence[str], settings: str, data: str) -> int:
    import coverage
    import pytest

    meter = coverage.Coverage(config_file=settings, data_file=data)
    timed = _Timed()
    meter.start()
    status = pytest.main([*QUIETLY, *tests], plugins=[timed])
    meter.stop()
    meter.save()
    Path("durations.txt").write_text("".join(f"{took} {name}\n" for name, took in timed.took.items()))
    return int(status)


class _Timed:
    """A plugin of pytest that notes the seconds of each test function, by the name that coverage gives it."""

    def __init__(self) -> None:
        self.took: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" and report.passed:
            file, _, name = report.nodeid.partition("::")
            self.took[f"{file.removesuffix('.py').replace('/', '.')}.{name.partition('[')[0]}"] += report.duration


def fate(folder: Path, mutant: Mutant, where: Where) -> Fate:
    """Run the tests of a mutant's line against it."""
    lines = where[mutant.file]
    tests = lines.get(mutant.line) or lines[0]
    if not tests:
        return Fate(mutant, died=False, tests=0)
    path = folder / mutant.file
    source = path.read_text(encoding="utf-8")
    try:
        path.write_text(mutant.applied(source), encoding="utf-8")
        status = _in_fork(folder, _tested, [_selector(test) for test in tests], seconds=SECONDS)
    finally:
        path.write_text(source, encoding="utf-8")
    return Fate(mutant, status != 0, len(tests))


def _selector(test: str) -> str:
    module, _, name = test.rpartition(".")
    return f"{module.replace('.', '/')}.py::{name}"


def _tested(tests: Sequence[str]) -> int:
    import pytest

    return int(pytest.main([*QUIETLY, "-x", *tests]))


def _in_fork(folder: Path, work, *arguments, seconds: int) -> int:
    """Run ``work`` in a fork, in the folder and with its source; returns its status, not 0 if it was ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        os.chdir(folder)
        sys.path.insert(0, str(folder / "src"))
        sys.path.insert(0, str(folder))
        os.environ["PYTHONPATH"] = str(folder / "src")
        os.environ.pop("PYTEST_ADDOPTS", None)
        sys.dont_write_bytecode = True
        status = work(*arguments)
    finally:
        os._exit(status)


def import_libraries() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)


def hunted(folder: Path, drawn: Sequence[Mutant], where: Where, minutes: float | None = None) -> Iterator[Fate]:
    """Yield the fate of each mutant; ``minutes`` end the hunt early."""
    begun = time.monotonic()
    for mutant in drawn:
        if minutes is not None and time.monotonic() - begun > 60 * minutes:
            return
        yield fate(folder, mutant, where)
