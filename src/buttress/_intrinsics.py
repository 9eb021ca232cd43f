"""Processor instructions that numba has no name for: minima and maxima that vectorise, and prefetching."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


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
