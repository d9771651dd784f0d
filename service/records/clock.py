"""The time."""

from datetime import UTC, datetime


def now() -> str:
    """The time, as shown to users: RFC 3339, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
