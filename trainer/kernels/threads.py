"""How threads inside kernels wait for each other, many thousand times a second: a lock, counters, and a clock.

A thread holds the lock while it adds a row to w, so that no addition of another thread is lost. Threads that share the
rows of a kernel machine claim rows, and mark those that are ready.
"""

import time
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

_SPINS = 2000  # tests before a waiting thread offers its core to others: the thread that it waits for may have none
_MONOTONIC = 1  # CLOCK_MONOTONIC of clock_gettime

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time
    # In plain Python there is one thread, which never has to wait.

    def acquire(lock: Any) -> None: ...

    def release(lock: Any) -> None: ...

    def claim(word: Any) -> int:
        word[0] += 1
        return int(word[0]) - 1

    def mark(words: Any, place: int, number: int) -> None:
        words[place] = number

    def marked(words: Any, place: int) -> int:
        return int(words[place])

    def wait_for(word: Any, least: int) -> None: ...

    def seconds() -> float:
        return time.monotonic()

else:
    _WORD, _INT = ir.IntType(64), ir.IntType(32)

    def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        """The address of the first argument's data, an array of int64."""
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    def _spin(builder: Any, is_done: Callable[[], Any]) -> None:
        """Emit a loop that ends when the test that `is_done` emits holds; every _SPINS tests it offers its core."""
        tests = cgutils.alloca_once_value(builder, _WORD(0))
        test, again, offer, end = (
            builder.append_basic_block(f"spin.{name}") for name in ("test", "again", "offer", "end")
        )
        builder.branch(test)

        builder.position_at_end(test)
        builder.cbranch(is_done(), end, again)

        builder.position_at_end(again)
        count = builder.add(builder.load(tests), _WORD(1))
        builder.store(count, tests)
        builder.cbranch(builder.icmp_signed("==", builder.srem(count, _WORD(_SPINS)), _WORD(0)), offer, test)

        builder.position_at_end(offer)
        yields = ir.FunctionType(_INT, [])
        builder.call(cgutils.get_or_insert_function(builder.module, yields, "sched_yield"), [])
        builder.branch(test)

        builder.position_at_end(end)

    @intrinsic
    def acquire(_typing_context: Any, lock: Any) -> Any:
        """Wait until lock[0] (int64) is 0, and make it 1: no other thread does so before `release`."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature, arguments)
            attempt, wait, have = (builder.append_basic_block(f"lock.{name}") for name in ("attempt", "wait", "have"))
            builder.branch(attempt)

            builder.position_at_end(attempt)
            before = builder.atomic_rmw("xchg", pointer, _WORD(1), "acquire")
            builder.cbranch(builder.icmp_signed("==", before, _WORD(0)), have, wait)

            # A thread that only reads leaves the cache line with the lock's holder.
            builder.position_at_end(wait)
            _spin(builder, lambda: builder.icmp_signed("==", builder.load_atomic(pointer, "monotonic", 8), _WORD(0)))
            builder.branch(attempt)

            builder.position_at_end(have)
            return context.get_dummy_value()

        return types.void(lock), generate

    @intrinsic
    def release(_typing_context: Any, lock: Any) -> Any:
        """Set lock[0] to 0: the next thread that acquires the lock sees what was written under it."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store_atomic(_WORD(0), _pointer(context, builder, signature, arguments), "release", 8)
            return context.get_dummy_value()

        return types.void(lock), generate

    @intrinsic
    def claim(_typing_context: Any, word: Any) -> Any:
        """Return word[0] (int64) and add 1 to it: no two threads get the same number."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.atomic_rmw("add", _pointer(context, builder, signature, arguments), _WORD(1), "acq_rel")

        return types.int64(word), generate

    @intrinsic
    def mark(_typing_context: Any, words: Any, place: Any, number: Any) -> Any:
        """Set words[place] to `number` (int64): a thread that reads it also sees what was written before."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature, arguments)
            builder.store_atomic(arguments[2], builder.gep(pointer, [arguments[1]]), "release", 8)
            return context.get_dummy_value()

        return types.void(words, types.int64, types.int64), generate

    @intrinsic
    def marked(_typing_context: Any, words: Any, place: Any) -> Any:
        """Return words[place] (int64), as a thread has marked it last."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature, arguments)
            return builder.load_atomic(builder.gep(pointer, [arguments[1]]), "acquire", 8)

        return types.int64(words, types.int64), generate

    @intrinsic
    def wait_for(_typing_context: Any, word: Any, least: Any) -> Any:
        """Wait until word[0] (int64) is `least` or more."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature, arguments)
            _spin(builder, lambda: builder.icmp_signed(">=", builder.load_atomic(pointer, "acquire", 8), arguments[1]))
            return context.get_dummy_value()

        return types.void(word, types.int64), generate

    @intrinsic
    def seconds(_typing_context: Any) -> Any:
        """Return the seconds of a clock that never goes back."""

        def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
            spec = cgutils.alloca_once(builder, ir.ArrayType(_WORD, 2))
            reads = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_INT, [_INT, spec.type]), "clock_gettime"
            )
            builder.call(reads, [_INT(_MONOTONIC), spec])
            whole, rest = (builder.extract_value(builder.load(spec), place) for place in (0, 1))
            nano = builder.fmul(builder.sitofp(rest, ir.DoubleType()), ir.DoubleType()(1e-9))
            return builder.fadd(builder.sitofp(whole, ir.DoubleType()), nano)

        return types.float64(), generate
