"""Reads decimal numbers in ASCII text, and rounds them correctly or leaves them to the caller."""

from typing import Any

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.machine.intrinsics_kernel import four_bytes, lowest_bit
from streamsvm.storage.rows.csr import Array

PLUS, MINUS, POINT, ZERO, COLON, LOWER_E, UPPER_E = 43, 45, 46, 48, 58, 101, 69

EXACT_MANTISSA = 2**53
EXACT_POWER = 22
LARGEST_POWER = 64
FULL_MANTISSA = 10**17  # from here on a further digit could overflow an int64
FLOAT32_MAX = 3.4028234e38
SLACK = 2.0**-50
POWERS = np.array([float(f"1e{k}") for k in range(LARGEST_POWER + 1)])
TENS = 10 ** np.arange(9)

_ZEROS, _LOW, _TO_HIGH, _HIGH = (np.uint64(0x0101010101010101 * byte) for byte in (0x30, 0x7F, 0x76, 0x80))
_PAIRS, _FOURS, _EIGHT, _TOP = map(np.uint64, (0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF, 0xFFFFFFFF, 1 << 63))
_10, _100, _10000, _8, _16, _32, _64 = map(np.uint64, (10, 100, 10000, 8, 16, 32, 64))

# number = [+-]? (digits [. digits*] | . digits) ([eE] [+-]? digits)?
#
# A decimal m * 10^e with m < 2^53 and |e| <= 22 takes one exact operation (Clinger, How to read floating point numbers
# accurately, 1990). Any other value is estimated in double from its first 18 digits within 2^-50; if both ends of that
# interval round to the same float32, so does the double nearest to the token. The caller reads all other numbers.


@njit(cache=True, nogil=True)
def leading_digits(text: Array, begin: int) -> tuple[Any, Any]:
    """Return (number, count) of the digits at `begin`, at most 8. There is no loop whose end could be mispredicted."""
    word = (four_bytes(text, begin) | four_bytes(text, begin + 4) << _32) ^ _ZEROS  # digits become 0 to 9
    others = (((word & _LOW) + _TO_HIGH) | word) & _HIGH  # the highest bit of each byte above 9
    count = (lowest_bit(others | _TOP) + (others == 0)) >> 3
    if count == 0:
        return 0, 0
    word <<= _64 - _8 * np.uint64(count)  # zeros before the digits
    word = (word * _10 + (word >> _8)) & _PAIRS
    word = (word * _100 + (word >> _16)) & _FOURS
    return np.int64((word * _10000 + (word >> _32)) & _EIGHT), count


@njit(cache=True, nogil=True)
def scan_number(text: Array, begin: int) -> tuple[int, int, int, bool]:
    """Return (end, mantissa, exponent, exact) of the number at `begin`, without its sign.

    end: offset behind the number, or -1. exact: it is mantissa * 10^exponent; else digits other than 0 were cut off.
    """
    p = begin
    mantissa: Any = np.int64(0)
    exponent: Any = np.int64(0)
    exact = True
    if text[p] == PLUS or text[p] == MINUS:
        p += 1
    digits = 0
    after_point = False
    while True:
        c = np.int64(text[p])
        if ZERO <= c < COLON:
            digits += 1
            if mantissa < FULL_MANTISSA:
                mantissa = mantissa * 10 + (c - ZERO)
                exponent -= after_point
            else:
                exponent += not after_point
                exact = exact and c == ZERO
        elif c == POINT and not after_point:
            after_point = True
        else:
            break
        p += 1
    if digits == 0:
        return -1, mantissa, exponent, exact
    if text[p] == LOWER_E or text[p] == UPPER_E:
        p += 1
        negative = text[p] == MINUS
        if text[p] == PLUS or text[p] == MINUS:
            p += 1
        first = p
        power = np.int64(0)
        while ZERO <= text[p] < COLON:
            # The cap is far above the digits of any line: no zeros of the mantissa can make up for such a power.
            if power < 10**12:
                power = power * 10 + (np.int64(text[p]) - ZERO)
            p += 1
        if p == first:
            return -1, mantissa, exponent, exact
        exponent += -power if negative else power
    return p, mantissa, exponent, exact


@njit(cache=True, nogil=True)
def scale(mantissa: int, exponent: int) -> float:
    """Return mantissa * 10^exponent, |exponent| <= LARGEST_POWER: exact if both are small, else to 2^-51 relative."""
    if exponent < 0:
        return np.float64(mantissa) / POWERS[-exponent]
    return np.float64(mantissa) * POWERS[exponent]


@njit(cache=True, nogil=True)
def round_value(mantissa: int, exponent: int, exact: bool) -> tuple[Any, bool]:
    """Return a float32 magnitude, and whether it is certainly the float32 nearest to the number without its sign."""
    if mantissa == 0 or exponent < -LARGEST_POWER:
        return np.float32(0.0), True  # below 10^18 * 10^-65, nearer to 0 than to the least float32
    if exponent > LARGEST_POWER:
        return np.float32(0.0), False
    estimate = scale(mantissa, exponent)
    if estimate > FLOAT32_MAX:
        return np.float32(0.0), False
    if exact and mantissa < EXACT_MANTISSA and -EXACT_POWER <= exponent <= EXACT_POWER:
        return np.float32(estimate), True
    low = np.float32(estimate * (1.0 - SLACK))
    return low, low == np.float32(estimate * (1.0 + SLACK))


@njit(cache=True, nogil=True)
def exact_double(mantissa: int, exponent: int, exact: bool) -> tuple[Any, bool]:
    """Return a float64 magnitude, and whether it is certainly the float64 nearest to the number without its sign."""
    if mantissa == 0:
        return 0.0, True
    if exact and mantissa < EXACT_MANTISSA and -EXACT_POWER <= exponent <= EXACT_POWER:
        return scale(mantissa, exponent), True
    return 0.0, False
