"""Small records as JSON with a format version and a checksum: damage is noticed when a record is read."""

import json
import zlib
from typing import Any

from streamsvm.storage.errors import CorruptData, UnknownVersion


def pack(content: dict[str, Any], version: int) -> bytes:
    """The document that holds `content`, which must be valid JSON."""
    document = {"version": version, "checksum": _checksum(content), "content": content}
    return json.dumps(document, indent=1).encode()


def unpack(data: bytes, version: int, what: str, hint: str, oldest: int | None = None) -> dict[str, Any]:
    """The content of a document, checked.

    Accepts the format versions `oldest` to `version`; oldest None: `version` only. Raises CorruptData or
    UnknownVersion, whose text says `what` the document is; CorruptData carries the `hint`.
    """
    try:
        document = json.loads(data)
        stated, checksum, content = document["version"], document["checksum"], document["content"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"the {what} is not a document of this program", hint) from error
    if stated not in range(version if oldest is None else oldest, version + 1):
        raise UnknownVersion(f"the {what} has format version {stated}, this program reads {version}")
    if _checksum(content) != checksum:
        raise CorruptData(f"the {what} has a wrong checksum", hint)
    return content


def _checksum(content: Any) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
