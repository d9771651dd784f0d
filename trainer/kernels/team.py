"""Threads inside a kernel that wait for each other many thousand times a second, and a clock they can read."""

import time
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

_SPINS = 2000  # looks before the thread offers its core to others: the thread that it waits for may be without one
_MONOTONIC = 1  # of clock_gettime

if getattr(config, "DISABLE_JIT"):  # noqa: B009 - numba sets its options at run time

    def claim(word: Any) -> int:
        """In plain Python there is one thread, which counts all the same."""
        word[0] += 1
        return int(word[0]) - 1

    def mark(words: Any, place: int, number: int) -> None:
        """Put a number at a place: there is no other thread to see it."""
        words[place] = number

    def marked(words: Any, place: int) -> int:
        """The number that `mark` has put there."""
        return int(words[place])

    def wait_for(word: Any, least: int) -> None:
        """Nothing to do: there is no other thread to wait for."""

    def seconds() -> float:
        """The seconds of a clock that never goes back."""
        return time.monotonic()

else:

    @intrinsic
    def claim(_typing_context: Any, word: Any) -> Any:
        """Return word[0] (int64) and add 1 to it, atomically: no two callers get the same number."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.atomic_rmw("add", pointer, ir.IntType(64)(1), "acq_rel")

        return types.int64(word), generate

    @intrinsic
    def mark(_typing_context: Any, words: Any, place: Any, number: Any) -> Any:
        """words[place] = number (int64): a thread that sees it also sees everything written before."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            builder.store_atomic(arguments[2], builder.gep(pointer, [arguments[1]]), "release", 8)
            return context.get_dummy_value()

        return types.void(words, types.int64, types.int64), generate

    @intrinsic
    def marked(_typing_context: Any, words: Any, place: Any) -> Any:
        """words[place] (int64), as another thread has marked it last."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            return builder.load_atomic(builder.gep(pointer, [arguments[1]]), "acquire", 8)

        return types.int64(words, types.int64), generate

    @intrinsic
    def wait_for(_typing_context: Any, word: Any, least: Any) -> Any:
        """Wait until word[0] (int64) is `least` or more."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            number = ir.IntType(64)
            looks = cgutils.alloca_once_value(builder, number(0))
            look, again, offer, there = (
                builder.append_basic_block(f"team.{at}") for at in ("look", "again", "offer", "there")
            )
            builder.branch(look)

            builder.position_at_end(look)
            found = builder.load_atomic(pointer, "acquire", 8)
            builder.cbranch(builder.icmp_signed(">=", found, arguments[1]), there, again)

            builder.position_at_end(again)
            count = builder.add(builder.load(looks), number(1))
            builder.store(count, looks)
            builder.cbranch(builder.icmp_signed("==", builder.srem(count, number(_SPINS)), number(0)), offer, look)

            builder.position_at_end(offer)
            yields = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, yields, "sched_yield"), [])
            builder.branch(look)

            builder.position_at_end(there)
            return context.get_dummy_value()

        return types.void(word, types.int64), generate

    @intrinsic
    def seconds(_typing_context: Any) -> Any:
        """The seconds of a clock that never goes back."""

        def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
            number = ir.IntType(64)
            spec = cgutils.alloca_once(builder, ir.ArrayType(number, 2))
            reads = ir.FunctionType(ir.IntType(32), [ir.IntType(32), spec.type])
            builder.call(
                cgutils.get_or_insert_function(builder.module, reads, "clock_gettime"),
                [ir.IntType(32)(_MONOTONIC), spec],
            )
            whole, rest = (builder.extract_value(builder.load(spec), place) for place in (0, 1))
            real = ir.DoubleType()
            nano = builder.fmul(builder.sitofp(rest, real), real(1e-9))
            return builder.fadd(builder.sitofp(whole, real), nano)

        return types.float64(), generate
