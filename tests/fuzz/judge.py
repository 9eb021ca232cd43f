"""One file against the promises: refused with a ModelFileError or a model that a file can hold, in bounds."""

import os
import resource
import sys
import time
import warnings
from contextlib import suppress

import numpy as np

from buttress import ModelFileError, load, save

MOST_SECONDS = 5.0
MOST_BYTES = 200_000_000  # beside four times the length of the file
_STATM = os.open("/proc/self/statm", os.O_RDONLY) if os.path.exists("/proc/self/statm") else None
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class Broken(Exception):
    """A promise that a file broke."""


def judge(content, path, rows=None, *, measured=True):
    """Load a file of these bytes; returns "refused" or "equal", raises Broken for anything else."""
    path.write_bytes(content)
    began, before, peak = time.process_time(), _resident(), _peak()
    try:
        model = load(path)
    except ModelFileError:
        model = None
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {error}") from error
    seconds = time.process_time() - began
    if measured and seconds > MOST_SECONDS:
        raise Broken(f"{seconds:.1f} s")
    taken = _peak() - before if _peak() > peak else 0
    if measured and taken > 4 * len(content) + MOST_BYTES:
        raise Broken(f"{taken:,} bytes of memory for a file of {len(content):,}")
    if model is None:
        return "refused"
    _hold(model, path.with_name(f"{path.name}.again"))  # as it was read: what it is asked may leave something in it
    _ask(model, rows)
    return "equal"


def _ask(model, rows):
    """Predict: errors are allowed, a crash is seen by whoever started this process."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for method in ("predict", "transform", "decision_function", "predict_proba", "predict_set", "predict_interval"):
            with suppress(Exception):
                getattr(model, method)(rows)


def _hold(model, path):
    """Refuse a model that was read from a file and that no file can hold."""
    try:
        save(model, path)
        load(path)
    except ModelFileError as error:
        if "not fitted" not in str(error) and "Only estimators" not in str(error):
            raise Broken(f"loaded, but cannot be saved: {error}") from error


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def _resident():
    """Return the bytes in use now; where the system does not say, the most so far."""
    return _peak() if _STATM is None else int(os.pread(_STATM, 100, 0).split()[1]) * resource.getpagesize()
