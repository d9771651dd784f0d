"""Names the server makes up, sortable by time (ULID: 48 bits of milliseconds, 80 of chance, Crockford's base 32)."""

import secrets
import time

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(kind: str) -> str:
    """For example job_01J9Z3..."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{kind}_" + "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))
