"""Ids and times that the service gives to its records."""

import secrets
import time
from datetime import UTC, datetime

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(kind: str) -> str:
    """Make an id such as job_01J9Z3...: a ULID (48 bits of milliseconds, 80 random ones), so that ids sort by time."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{kind}_" + "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


def now() -> str:
    """The current time, as `rfc3339`."""
    return rfc3339(datetime.now(UTC))


def rfc3339(moment: datetime) -> str:
    """Write a time in UTC as RFC 3339 does, with milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
