"""How inner loops are compiled.

A new machine waits for each of them, so they are scalar: an array expression, an assignment to a slice or `+=` on one
takes seconds to compile, an array that is made in them a tenth of a second (``makes_arrays`` says so), and what is
called once a fit is numpy's. ``min``, ``max``, ``x.shape[1]`` and ``x.view`` would be compiled first, each by itself.

Each signature of a function is compiled when it is first called for, so that a process waits for no loop that it does
not run. numba keeps the result in its cache directory (``NUMBA_CACHE_DIR``, else beside the package, else the user's
cache); where no directory can be written it is compiled anew in each process.

At the end are instructions that numba has no short name for: minima and maxima that vectorise, and prefetching.
"""

import gc
from collections.abc import Callable
from functools import cached_property, update_wrapper
from threading import Lock
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.sigutils import normalize_signature
from numba.cpython.unsafe import numbers
from numba.extending import intrinsic, typeof_impl

_COMPILING = Lock()
_numba: Any = numba  # its types do not know all of its options


class Compiled:
    """A function with fixed signatures, each compiled at the first call with its types; TypeError for other types.

    A numba function each, which other threads see once it is compiled and takes no other types.
    """

    def __init__(self, function: Callable[..., Any], signatures: list[str], fastmath: bool | set[str],
                 makes_arrays: bool = False):
        update_wrapper(self, function)
        self.function = function
        self.fastmath = fastmath
        self.makes_arrays = makes_arrays
        self._left = list(signatures)
        self._done: set[tuple[Any, ...]] = set()
        self._ready: tuple[Any, ...] = ()  # numba's functions, the one called last first

    def __call__(self, *arguments: Any) -> Any:
        for made in self._ready:
            try:
                found = made(*arguments)
            except TypeError:  # of other types
                continue
            if made is not self._ready[0]:
                self._ready = (made, *(other for other in self._ready if other is not made))
            return found
        if not self._left:
            raise TypeError(f"No matching definition of {self.function.__name__} for "
                            f"{tuple(map(numba.typeof, arguments))}.")
        with _COMPILING:
            collecting = gc.isenabled()
            gc.disable()  # numba makes millions of small objects, and looking through them takes a tenth of the time
            try:
                self._compile_for(tuple(map(numba.typeof, arguments)))
            finally:
                if collecting:
                    gc.enable()
        return self(*arguments)

    def _compile_for(self, types: tuple[Any, ...]) -> None:
        """Compile the signature of these types, or all that are left if none is exactly theirs."""
        if types in self._done:  # another thread was first
            return
        for signature in [one for one in self._left if _types(one) == types] or list(self._left):
            made = self._made()
            made.compile(signature)
            made.disable_compile()
            self._ready = (*self._ready, made)
            self._done.add(_types(signature))
            self._left.remove(signature)

    @cached_property
    def within(self) -> Any:
        """numba's function as compiled functions call it."""
        return self._made()

    def _made(self) -> Any:
        """Return numba's function, not yet compiled; it is cached on disk where that is possible."""
        def made(cache: bool) -> Any:
            return _numba.njit(cache=cache, error_model="numpy", nogil=True, no_cfunc_wrapper=True, no_rewrites=True,
                               _nrt=self.makes_arrays, fastmath=self.fastmath)(self.function)

        try:
            return made(cache=True)
        except RuntimeError:  # no cache directory can be written
            return made(cache=False)


def _types(signature: str) -> tuple[Any, ...]:
    """Return numba's types of the arguments."""
    read: Any = normalize_signature
    arguments: tuple[Any, ...] = read(signature)[0]
    return arguments


@typeof_impl.register(Compiled)
def _typed(compiled: Compiled, context: Any) -> Any:
    """Let compiled functions call it as one of numba's."""
    return numba.types.Dispatcher(compiled.within)


def compile_kernel(
    signature: str | list[str], fastmath: bool | set[str] = False, makes_arrays: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function for its signatures, cached on disk where that is possible."""
    signatures = [signature] if isinstance(signature, str) else signature
    return lambda function: (function if _numba.config.DISABLE_JIT else
                             Compiled(function, signatures, fastmath, makes_arrays))


def compile_inner(fastmath: bool | set[str] = False) -> Any:
    """Return a decorator for functions that only compiled ones call: they get no wrapper for Python or C.

    They may not allocate, and an integer written in a call is a type of its own, for which they are compiled again.
    """
    return _numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, no_rewrites=True,
                       _nrt=False, fastmath=fastmath)


def _reduction(name: str) -> Any:
    """Return a two-argument intrinsic that LLVM recognises as a reduction, which numba's min and max are not."""

    @intrinsic
    def apply(context, a, b):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kind = args[0].type
            function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(function, args, fastmath=("fast",))

        return a(a, a), generate

    return apply


minimum = _reduction("llvm.minnum")
maximum = _reduction("llvm.maxnum")


def _prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Start loading the cache line of array[index] for reading, without waiting for it; ``index`` is a tuple."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        made = context.make_array(kind)(context, builder, arguments[0])
        point: Any = cgutils.get_item_pointer
        unpacked: Any = cgutils.unpack_tuple
        place = unpacked(builder, arguments[1])
        entry = point(context, builder, kind, made, place, wraparound=False)
        address, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        declared = ir.FunctionType(ir.VoidType(), [address, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address], declared)
        read_keep_data = [ir.Constant(number, value) for value in (0, 3, 1)]
        builder.call(prefetch, [builder.bitcast(entry, address), *read_keep_data])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)
viewer: Any = numbers.viewer  # the bits of a number as a number of another type
zero: Any = np.int64(0)  # where a counter starts: a written 0 is a type of its own, and all types are inferred again
