"""Asking the processor for a cache line before it is needed."""

from typing import Any

from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time

    def prefetch(array: Any, index: int) -> None:
        """Nothing to do in plain Python."""

else:

    @intrinsic
    def prefetch(_typing_context: Any, array: Any, index: Any) -> Any:
        """Load the line of `array[index]` for reading, into all levels of cache (llvm.prefetch)."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array_type, index_type = signature.args
            data = context.make_array(array_type)(context, builder, arguments[0])
            position = context.cast(builder, arguments[1], index_type, types.intp)
            pointer = builder.gep(data.data, [position])
            pointer = builder.bitcast(pointer, cgutils.voidptr_t)
            number = cgutils.int32_t
            function_type = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [cgutils.voidptr_t, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", (cgutils.voidptr_t,), function_type)
            # read, keep in all levels, data cache
            builder.call(function, [pointer, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, index), generate
