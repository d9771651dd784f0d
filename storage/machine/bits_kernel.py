"""Bytes of an array as one number, and the places of bits, as the processor has them: numba has no words for these."""

from typing import Any

from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time

    def four_bytes(array: Any, index: int) -> int:
        """array[index:index + 4] (uint8) as a number, the first byte the lowest."""
        return int.from_bytes(array[index : index + 4].tobytes(), "little")

    def lowest_bit(bits: Any) -> int:
        """The place of the lowest bit that is set, of a number that is not 0."""
        return (int(bits) & -int(bits)).bit_length() - 1

else:

    @intrinsic
    def four_bytes(_typing_context: Any, array: Any, index: Any) -> Any:
        """array[index:index + 4] (uint8) as a number (uint64), the first byte the lowest; all four have to be there."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array_type, index_type = signature.args
            data = context.make_array(array_type)(context, builder, arguments[0])
            position = context.cast(builder, arguments[1], index_type, types.intp)
            pointer = builder.bitcast(builder.gep(data.data, [position]), cgutils.int32_t.as_pointer())
            return builder.zext(builder.load(pointer, align=1), context.get_value_type(types.uint64))

        return types.uint64(array, index), generate

    @intrinsic
    def lowest_bit(_typing_context: Any, bits: Any) -> Any:
        """The place of the lowest bit that is set, of a number (uint64) that is not 0."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = context.cast(builder, arguments[0], signature.args[0], types.uint64)
            return builder.cttz(number, cgutils.true_bit)

        return types.int64(bits), generate
