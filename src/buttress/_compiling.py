"""How inner loops are compiled.

numba compiles them once and keeps the result in its cache directory (``NUMBA_CACHE_DIR``, else beside the package,
else the user's cache); where no directory can be written they are compiled anew in each process.
"""

from collections.abc import Callable
from typing import Any

import numba


def compile_kernel(
    signature: str | list[str], fastmath: bool | set[str] = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function for its signatures, cached on disk where that is possible."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": fastmath}
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except RuntimeError:  # no cache directory can be written
            return numba.njit(signature, **options)(function)

    return decorate
