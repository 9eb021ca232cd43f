"""That an audit is a function of the table, the seed and the version, and how long one takes.

    python benchmarks/audit_plan.py same [--data breast_cancer] [--seed 0]
    python benchmarks/audit_plan.py seconds [--data breast_cancer]

``same`` runs the command on one core and two, with one thread or two for libraries, from cold caches of compiled code
and warm ones, beside two busy processes and without, and compares the files byte by byte; exit code 1 where any
differ. ``seconds`` prints the CPU seconds of each measurement beyond imports, warm, beside what was planned.
"""

import argparse
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

FILES = ("audit.json", "audit.html", "suspicious.csv")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
BESIDE = 2  # processes that keep the machine busy


@dataclass(frozen=True)
class Condition:
    """How a run is made: on so many cores, with so many threads, from empty caches, on a busy machine."""

    cores: int
    threads: int
    cold: bool
    busy: bool


CONDITIONS = (Condition(1, 1, False, False), Condition(2, 2, False, False), Condition(2, 1, False, True),
              Condition(2, 2, True, False), Condition(1, 2, True, True))


@contextlib.contextmanager
def company(busy):
    """Keep the machine busy meanwhile, or not."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"]) for _ in range(BESIDE * busy)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run(condition, data, seed, folder):
    """Run the audit under a condition; return the digests of its files and the CPU seconds it took."""
    folder.mkdir()
    env = dict(os.environ) | dict.fromkeys(THREADS, str(condition.threads))
    if condition.cold:
        env["NUMBA_CACHE_DIR"] = str(folder / "cache")
    cores = set(sorted(os.sched_getaffinity(0))[: condition.cores])
    before = os.times()
    with company(condition.busy):
        command = [sys.executable, "-m", "buttress.cli", "audit", data, "--seed", str(seed), "--output", str(folder)]
        subprocess.run(command,
                       env=env, check=True, stdout=subprocess.DEVNULL,
                       preexec_fn=lambda: os.sched_setaffinity(0, cores))
        after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest()[:12] for name in FILES}, spent


def same(data, seed):
    found = []
    print("| cores | threads | caches | machine | " + " | ".join(FILES) + " | CPU s |")
    print("|---" * (5 + len(FILES)) + "|")
    with tempfile.TemporaryDirectory() as scratch:
        for k, condition in enumerate(CONDITIONS):
            digests, spent = run(condition, data, seed, Path(scratch) / str(k))
            found.append(digests)
            print(f"| {condition.cores} | {condition.threads} | {'cold' if condition.cold else 'warm'} | "
                  f"{'busy' if condition.busy else 'as it was'} | {' | '.join(digests[name] for name in FILES)} | "
                  f"{spent:.0f} |", flush=True)
    different = [name for name in FILES if len({digests[name] for digests in found}) > 1]
    print(f"Different: {', '.join(different)}." if different else "All files are the same, byte by byte.")
    return 1 if different else 0


def seconds(data):
    from buttress.audit.baselines import baselines
    from buttress.audit.contenders import contenders
    from buttress.audit.measurements import MEASUREMENTS
    from buttress.audit.measuring.measurement import Measured, measure
    from buttress.audit.measuring.split_table import split_table
    from buttress.audit.options import Options
    from buttress.audit.reading.source import load
    from buttress.audit.reading.table import make_table

    table = make_table(*load(data, None, None), "auto")
    split = split_table(table, contenders(table.task, 0.25, 0) | baselines(table, 0), Options())
    measure(MEASUREMENTS, split, lambda *_: None, lambda line: None)  # compiles, and fills the caches
    measured, whole = Measured(), 0.0
    print("| measurement | CPU s | planned s |\n|---|---|---|")
    for one in MEASUREMENTS:
        if not one.applies(split):
            continue
        started = time.process_time()
        course = one.take(split, measured)
        with contextlib.suppress(StopIteration):
            while True:
                try:
                    next(course)
                except StopIteration as end:
                    measured.add(end.value)
                    raise
        spent = time.process_time() - started
        whole += spent
        print(f"| {one.name} | {spent:.1f} | {one.cost.of(split):.1f} |", flush=True)
    print(f"| all | {whole:.1f} | {sum(one.cost.of(split) for one in MEASUREMENTS if one.applies(split)):.1f} |")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("same", "seconds"))
    parser.add_argument("--data", default="breast_cancer")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(same(given.data, given.seed) if given.what == "same" else seconds(given.data))
