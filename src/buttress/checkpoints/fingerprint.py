"""What two fits must have in common to end in the same bits: parameters, data, and where they are computed."""

import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from llvmlite.binding import get_host_cpu_name
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_info

from buttress.checkpoints.digest import digest

OPERATIONAL = ("checkpoint", "resume", "max_time", "progress")  # parameters that do not change where a fit ends
PACKAGES = ("buttress", "numpy", "scipy", "scikit-learn", "numba")
OF_LIBRARY = ("internal_api", "version", "architecture", "threading_layer", "num_threads")

Fingerprint = dict[str, dict[str, str]]


def fingerprint(model: BaseEstimator, data: Mapping[str, object]) -> Callable[[], Fingerprint]:
    """Return a function that returns the fingerprint of a fit to ``data`` (arguments of ``fit`` by name).

    It holds texts by name in three parts. What the fit may change is taken now; the data are read when it is called.
    """
    given = model.get_params(deep=True)
    parameters = {name: _text(value) for name, value in given.items() if name.split("__")[-1] not in OPERATIONAL}
    here = environment()

    @cache
    def taken() -> Fingerprint:
        return {
            "parameters": {"estimator": type(model).__name__, **parameters},
            "data": {name: digest(value) for name, value in data.items()},
            "environment": here,
        }

    return taken


def environment() -> dict[str, str]:
    """Return versions, processor, threads and BLAS: what rounding depends on."""
    found = dict(versions())
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    for library in threadpool_info():
        if library["user_api"] == "blas":
            name = f"{library['user_api']} of {library.get('prefix', '')}"
            known = " ".join(str(library[key]) for key in OF_LIBRARY if key in library)
            found[name] = f"{found[name]}, {known}" if name in found else known
    return found


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return what does not change in a process: the processor and the versions of packages."""
    found = [("Python", platform.python_version()), ("processor", f"{platform.machine()} {get_host_cpu_name()}")]
    for package in PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            found.append((package, "not installed"))
    return tuple(found)


def differences(now: Fingerprint, then: Fingerprint, part: str) -> list[str]:
    """Return what of a part differs, in words."""
    found = []
    for name in sorted(now[part].keys() | then[part].keys()):
        old = then[part].get(name, "missing")
        new = now[part].get(name, "missing")
        if old != new:
            found.append(f"{name} differs" if part == "data" else f"{name} was {old}, now {new}")
    return found


def _text(value: object) -> str:
    """Return a parameter as text that is equal for equal parameters, and readable where it can be."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return repr(value)
    return f"{type(value).__name__} {digest(value)[:12]}"
