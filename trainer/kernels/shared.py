"""Adding to an array that other threads add to at the same time: no addition is lost."""

from typing import Any

from numba import config, njit, types
from numba.extending import intrinsic

from storage.csr import Array

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time

    def atomic_add(array: Any, index: int, value: float) -> None:
        """array[index] += value; in plain Python there is one thread."""
        array[index] += value

else:

    @intrinsic
    def atomic_add(_typing_context: Any, array: Any, index: Any, value: Any) -> Any:
        """array[index] += value of float64, as one operation (LLVM's atomicrmw fadd)."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array_type, index_type, value_type = signature.args
            data = context.make_array(array_type)(context, builder, arguments[0])
            position = context.cast(builder, arguments[1], index_type, types.intp)
            pointer = builder.gep(data.data, [position])
            number = context.cast(builder, arguments[2], value_type, types.float64)
            # Only the sum has to be whole; nobody infers anything else from it.
            builder.atomic_rmw("fadd", pointer, number, "monotonic")
            return context.get_dummy_value()

        return types.void(array, index, value), generate


# add_row_atomically(start, end, indices, values, step, w, lane, lanes): w[:, lane] += step x of the row at start:end,
# in place; w (d * lanes,) float64.


@njit(cache=True, nogil=True)
def add_row_atomically(
    start: int, end: int, indices: Array, values: Array, step: float, w: Array, lane: int, lanes: int
) -> None:
    for j in range(start, end):
        atomic_add(w, int(indices[j]) * lanes + lane, step * float(values[j]))
