"""Processor instructions that numba has no functions for: prefetching, unaligned loads, counting trailing zeros."""

from typing import Any

from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time

    def prefetch(array: Any, index: int) -> None:
        """Do nothing: plain Python cannot prefetch."""

    def four_bytes(array: Any, index: int) -> int:
        """Return array[index:index + 4] (uint8) as a little-endian number."""
        return int.from_bytes(array[index : index + 4].tobytes(), "little")

    def lowest_bit(bits: Any) -> int:
        """Return the position of the lowest bit that is set in `bits`, which must not be 0."""
        return (int(bits) & -int(bits)).bit_length() - 1

else:

    def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """Emit the address of array[index]; `arguments` are the intrinsic's: array, index."""
        array_type, index_type = signature.args
        data = context.make_array(array_type)(context, builder, arguments[0])
        return builder.gep(data.data, [context.cast(builder, arguments[1], index_type, types.intp)])

    @intrinsic
    def prefetch(_typing_context: Any, array: Any, index: Any) -> Any:
        """Load the cache line of `array[index]` for reading, into all levels of cache (llvm.prefetch)."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.bitcast(_pointer(context, builder, signature, arguments), cgutils.voidptr_t)
            number = cgutils.int32_t
            function_type = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [cgutils.voidptr_t, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", (cgutils.voidptr_t,), function_type)
            # read, keep in all levels, data cache
            builder.call(function, [pointer, number(0), number(3), number(1)])
            return context.get_dummy_value()

        return types.void(array, index), generate

    @intrinsic
    def four_bytes(_typing_context: Any, array: Any, index: Any) -> Any:
        """Return array[index:index + 4] (uint8) as a little-endian uint64; no bounds check, at any alignment."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature, arguments)
            word = builder.load(builder.bitcast(pointer, cgutils.int32_t.as_pointer()), align=1)
            return builder.zext(word, context.get_value_type(types.uint64))

        return types.uint64(array, index), generate

    @intrinsic
    def lowest_bit(_typing_context: Any, bits: Any) -> Any:
        """Return the position of the lowest bit that is set in `bits` (uint64), which must not be 0."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = context.cast(builder, arguments[0], signature.args[0], types.uint64)
            return builder.cttz(number, cgutils.true_bit)

        return types.int64(bits), generate
