"""The short version of ``python -m tests.fuzz``: changed and forged files are refused, or load to sound models."""

import numpy as np
import pytest

pytest.importorskip("resource", reason="memory is measured on POSIX systems only")

from fuzz.bombs import bombs
from fuzz.forgeries import forged
from fuzz.judge import judge
from fuzz.mutations import mutated
from fuzz.seeds import fitted

from buttress import save


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    path = tmp_path_factory.mktemp("seeds") / "seed"
    found = []
    for model, rows in fitted():
        save(model, path)
        found.append((path.read_bytes(), rows))
    return found


def test_changed_files_are_refused(seeds, tmp_path):
    rng = np.random.default_rng(1)
    for _ in range(500):
        good, _ = seeds[rng.integers(len(seeds))]
        content = mutated(good, rng)
        assert judge(content, tmp_path / "model", measured=False) == "refused" or content == good


def test_forged_files_are_refused_or_hold_a_model(seeds, tmp_path):
    rng = np.random.default_rng(2)
    verdicts = []
    for _ in range(200):
        good, rows = seeds[rng.integers(len(seeds))]
        verdicts.append(judge(forged(good, rng), tmp_path / "model", rows, measured=False))
    assert set(verdicts) == {"refused", "equal"}


def test_bombs_do_not_go_off(tmp_path):
    for name, content in bombs(1):
        assert judge(content, tmp_path / "model") == "refused", name
