"""What each process of the fuzzer does: make files, judge them, count, and keep those that broke a promise."""

import tempfile
import time
from pathlib import Path

import numpy as np

from buttress import save

from .bombs import bombs
from .forgeries import forged
from .judge import Broken, judge
from .mutations import mutated
from .seeds import fitted

MAKERS = {"mutations": mutated, "forgeries": forged}


def hunt(kind, seconds, seed, keep, counts):
    """Make files and judge them until the time is up; counts: judged, refused, equal, broken.

    The file that is judged stands in ``keep``, where it is found after a crash.
    """
    rng = np.random.default_rng(seed)
    folder = Path(tempfile.mkdtemp())
    seeds = []
    for model, rows in fitted():
        save(model, folder / "seed")
        seeds.append(((folder / "seed").read_bytes(), rows))
    began = time.process_time()
    while time.process_time() - began < seconds:
        good, rows = seeds[rng.integers(len(seeds))]
        content = MAKERS[kind](good, rng)
        _count(content, keep / f"{kind}.last", rows, keep / f"{kind}-{seed}-{counts[0]}", counts)


def explode(megabytes, keep, counts):
    """Judge the bombs."""
    folder = Path(tempfile.mkdtemp())
    for name, content in bombs(megabytes):
        print(f"  {name}: {len(content):,} bytes", flush=True)
        _count(content, folder / "model", None, keep / name.replace(" ", "-"), counts)


def _count(content, path, rows, kept, counts):
    try:
        verdict = judge(content, path, rows)
    except Broken as error:
        verdict = "broken"
        kept.write_bytes(content)
        print(f"  {kept}: {error}", flush=True)
    counts[0] += 1
    counts[("refused", "equal", "broken").index(verdict) + 1] += 1
