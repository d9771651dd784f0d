"""A spin lock on w: a thread holds it while it adds a row, so that no addition of another thread is lost."""

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

_SPINS = 2000  # looks at a taken lock before the thread offers its core to others: the holder may be without one

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time

    def acquire(lock: Any) -> None:
        """Nothing to do: in plain Python there is one thread."""

    def release(lock: Any) -> None:
        """Nothing to do."""

else:

    @intrinsic
    def acquire(_typing_context: Any, lock: Any) -> Any:
        """Wait until lock[0] (int64) is 0, and make it 1: no other thread gets past before `release`."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            word = ir.IntType(64)
            looks = cgutils.alloca_once_value(builder, word(0))
            names = ("try", "wait", "again", "offer", "have")
            attempt, wait, again, offer, have = (builder.append_basic_block(f"lock.{name}") for name in names)
            builder.branch(attempt)

            builder.position_at_end(attempt)
            was = builder.atomic_rmw("xchg", pointer, word(1), "acquire")
            builder.cbranch(builder.icmp_signed("==", was, word(0)), have, wait)

            # Reading alone leaves the line with its holder.
            builder.position_at_end(wait)
            is_free = builder.icmp_signed("==", builder.load_atomic(pointer, "monotonic", 8), word(0))
            builder.cbranch(is_free, attempt, again)

            builder.position_at_end(again)
            count = builder.add(builder.load(looks), word(1))
            builder.store(count, looks)
            builder.cbranch(builder.icmp_signed("==", builder.srem(count, word(_SPINS)), word(0)), offer, wait)

            builder.position_at_end(offer)
            yields = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, yields, "sched_yield"), [])
            builder.branch(wait)

            builder.position_at_end(have)
            return context.get_dummy_value()

        return types.void(lock), generate

    @intrinsic
    def release(_typing_context: Any, lock: Any) -> Any:
        """Free the lock: the thread that gets it next sees everything written under it."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            builder.store_atomic(ir.IntType(64)(0), pointer, "release", 8)
            return context.get_dummy_value()

        return types.void(lock), generate
