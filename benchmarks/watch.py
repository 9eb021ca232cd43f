"""Two commits side by side: which rows became slower.

    python -m benchmarks --compare OLD NEW [--only TEXT ...] [--turns 5] [--data-dir DIR]

Each row is made by both commits in turns, in fresh processes of one thread, after one of each that is not counted and
compiles. Its time is the least of their processor seconds. Rows by which NEW seems a tenth slower are measured again,
and judged by all turns. Exits with 1 if a row is a tenth slower. Rows that need MNIST are left out without
``--data-dir``, and rows that a commit does not know are said.
"""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from exact import CACHE, PROBLEMS, TOL, synthetic, text
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import scale

ROOT = Path(__file__).parents[1]
SLOWER = 1.1  # times the seconds of OLD
SHORT = 5.0  # seconds: a row that takes less the first time, when compiled code is loaded, is repeated
REPEATED = 0.5  # seconds for which it is
Row = tuple[Callable[[str | None], Any], Callable[[Any, Any], object]]


def exact(options: dict[str, Any], X: Any, y: Any) -> object:
    from buttress import SVC

    return SVC(tol=TOL, cache_size=CACHE, **options).fit(X, y)


def target(X: Any) -> Any:
    return np.sin(X[:, 0]) + X[:, 1] + 0.1 * np.random.default_rng(0).normal(size=len(X))


def tube(X: Any, y: Any) -> Any:
    from buttress import SVR

    return SVR(C=1.0, epsilon=0.1).fit(X, target(X))


def intervals(X: Any, y: Any) -> object:
    return tube(X, y).predict_interval(X[:1000])


def ten(X: Any, y: Any) -> object:
    from buttress import svc_path

    return svc_path(X, y, np.logspace(-1, 2, 10))


def linear(loss: str, X: Any, y: Any) -> object:
    from buttress import LinearSVC

    return LinearSVC(loss=loss).fit(X, y)


def line(X: Any, y: Any) -> object:
    from buttress import RobustLinearRegressor

    return RobustLinearRegressor(random_state=0).fit(X, target(X))


def labels(X: Any, y: Any) -> object:
    from buttress import RobustKernelClassifier

    return RobustKernelClassifier(random_state=0).fit(X, y)


def ball(X: Any, y: Any) -> object:
    from buttress import SVDD

    return SVDD().fit(X)


def of_dtype(data: Callable[[str | None], Any], folder: str | None) -> Any:
    X, y = data(folder)
    return X.astype(np.float32), y


def bundled(load: Callable[..., Any], _: str | None) -> Any:
    X, y = load(return_X_y=True)
    return scale(X), y


ROWS: dict[str, Row] = {name: (partial(of_dtype, data), partial(exact, options))
                        for name, (data, options) in PROBLEMS.items()}
SMALL = {"iris": partial(bundled, load_iris), "wine": partial(bundled, load_wine),
         "1,200 rows": lambda _: synthetic(1200, 20, 0.1)}
ROWS |= {f"{name}, C={C}": (data, partial(exact, {"C": C})) for C in (1, 100) for name, data in SMALL.items()}
ROWS |= {
    "SVR 5k x 10": (lambda _: synthetic(5000, 10), tube),
    "intervals of SVR, 2k x 10": (lambda _: synthetic(2000, 10), intervals),
    "ten C, 3k x 30": (lambda _: synthetic(3000, 30), ten),
    "LinearSVC, text 20k x 100k": (lambda _: text(20_000), partial(linear, "hinge")),
    "LinearSVC, squared hinge, text 20k x 100k": (lambda _: text(20_000), partial(linear, "squared_hinge")),
    "LinearSVC 100k x 100": (lambda _: synthetic(100_000, 100), partial(linear, "hinge")),
    "a robust line, 100k x 20": (lambda _: synthetic(100_000, 20), line),
    "robust labels, 1k x 20": (lambda _: synthetic(1000, 20, 0.2), labels),
    "SVDD 5k x 20": (lambda _: synthetic(5000, 20), ball),
}


def once(name: str, folder: str | None) -> float:
    """Return the processor seconds of a row in this process: the least of repeated ones, where it is short."""
    data, work = ROWS[name]
    X, y = data(folder)

    def timed() -> float:
        began = time.process_time()
        work(X, y)
        return time.process_time() - began

    first = timed()
    if first > SHORT:
        return first
    found = [timed()]
    while sum(found) < REPEATED:
        found.append(timed())
    return min(found)


def seconds(source: Path, name: str, folder: str | None) -> float:
    """Return :func:`once` by the package in ``source``, in a process of its own; infinity where it fails."""
    pools = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    done = subprocess.run([sys.executable, __file__, name, *([folder] if folder else [])], capture_output=True,
                          text=True, env={**os.environ, **pools, "PYTHONPATH": str(source)}, check=False)
    return float(done.stdout) if done.returncode == 0 else np.inf


def exported(commit: str, folder: Path) -> Path:
    """Return a folder with the package as of the commit."""
    folder.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


def compare(commits: tuple[str, str], turns: int, only: list[str], folder: str | None) -> int:
    """Print a table of the rows, and return how many are slower."""
    there = [name for name in ROWS if folder or "MNIST" not in name]
    names = [name for name in there if not only or any(text in name for text in only)]
    slower = 0
    print(f"| | {commits[0]}, s | {commits[1]}, s | ratio |\n| --- | --- | --- | --- |", flush=True)
    with TemporaryDirectory() as work:
        sources = [exported(commit, Path(work) / str(k)) for k, commit in enumerate(commits)]
        for name in names:
            found = in_turns(sources, name, folder, turns)
            told = [f"{one:.3g}" if np.isfinite(one) else "unknown" for one in found]
            known = np.isfinite(found).all()
            ratio = f"{found[1] / found[0]:.2f}" if known else ""
            slower += bool(known and found[1] > SLOWER * found[0])
            print(f"| {name} | {' | '.join(told)} | {ratio} |", flush=True)
    return slower


def in_turns(sources: list[Path], name: str, folder: str | None, turns: int) -> np.ndarray:
    """Return the least seconds of each of two sources; twice the turns where the second looks slower."""
    least = np.array([seconds(source, name, folder) for source in sources])  # compiles
    if not np.isfinite(least).all():
        return least
    least[:] = np.inf
    for turn in range(2 * turns):
        if turn == turns and least[1] <= SLOWER * least[0]:
            break
        for k in (0, 1) if turn % 2 else (1, 0):
            least[k] = min(least[k], seconds(sources[k], name, folder))
    return least


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(once(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
