"""The time."""

from datetime import UTC, datetime


def now() -> str:
    """The time, as shown to users."""
    return shown(datetime.now(UTC))


def shown(time: datetime) -> str:
    """A time of UTC as RFC 3339 has it."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
