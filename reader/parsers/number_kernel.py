"""Reads decimal numbers in ASCII text, and rounds them correctly or leaves them to the caller."""

from typing import Any

import numpy as np

from streamsvm.storage.machine.compiled import njit
from streamsvm.storage.rows.csr import Array

PLUS, MINUS, POINT, ZERO, COLON, LOWER_E, UPPER_E = 43, 45, 46, 48, 58, 101, 69

EXACT_MANTISSA = 2**53
EXACT_POWER = 22
LARGEST_POWER = 64
FULL_MANTISSA = 10**17  # from here on a further digit could overflow an int64
FLOAT32_MAX = 3.4028234e38
SLACK = 2.0**-50
POWERS = np.array([float(f"1e{k}") for k in range(LARGEST_POWER + 1)])

# number = [+-]? (digits [. digits*] | . digits) ([eE] [+-]? digits)?
#
# A decimal m * 10^e with m < 2^53 and |e| <= 22 takes one exact operation (Clinger, How to read floating point numbers
# accurately, 1990). Any other value is estimated in double from its first 18 digits within 2^-50; if both ends of that
# interval round to the same float32, so does the double nearest to the token. The caller reads all other numbers.


@njit(cache=True, nogil=True)
def scan_number(text: Array, begin: int) -> tuple[int, int, int, bool]:
    """(end or -1, mantissa, exponent, exact) of the number at `begin`, without its sign.

    exact: mantissa * 10^exponent is the number; otherwise digits other than 0 were cut off.
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
    """mantissa * 10^exponent, |exponent| <= LARGEST_POWER: exact for small numbers, otherwise within 2^-51 relative."""
    if exponent < 0:
        return np.float64(mantissa) / POWERS[-exponent]
    return np.float64(mantissa) * POWERS[exponent]


@njit(cache=True, nogil=True)
def round_value(mantissa: int, exponent: int, exact: bool) -> tuple[Any, bool]:
    """(float32 magnitude, whether it is the float32 nearest to the number)."""
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
    """(float64 magnitude, whether it is the double nearest to the number)."""
    if mantissa == 0:
        return 0.0, True
    if exact and mantissa < EXACT_MANTISSA and -EXACT_POWER <= exponent <= EXACT_POWER:
        return scale(mantissa, exponent), True
    return 0.0, False
