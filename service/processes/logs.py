"""Logs for machines: each message is a line of JSON, with the id of the request or the job that it is about."""

import json
import logging
from collections.abc import MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

# Id of the request that is being answered; empty outside of a request.
request_id: ContextVar[str] = ContextVar("request_id", default="")


class JsonFormatter(logging.Formatter):
    """Formats a message as JSON: at, level, logger, message; any request_id, `fields` and traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if request_id.get():
            line["request_id"] = request_id.get()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class JobLog(logging.LoggerAdapter):
    """A logger whose messages say which job or prediction they are about."""

    def __init__(self, logger: logging.Logger, key: str, kind: str = "job") -> None:
        super().__init__(logger, {f"{kind}_id": key})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {"fields": self.extra}}


class OnceASecond(logging.Filter):
    """Lets a message pass unless it repeats the last message within a second.

    Where no descriptor is left for a connection, asyncio logs that two thousand times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last, self._until = "", 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log this message."""
        message = record.getMessage()
        if message == self._last and record.created < self._until:
            return False
        self._last, self._until = message, record.created + 1.0
        return True


def log_as_json() -> None:
    """Send all messages of this process to standard error, as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("asyncio").addFilter(OnceASecond())
