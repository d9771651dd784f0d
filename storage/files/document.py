"""Small records as JSON with a format version and a checksum, never read otherwise than written."""

import json
import zlib
from typing import Any

from streamsvm.storage.errors import CorruptData, UnknownVersion


def pack(content: dict[str, Any], version: int) -> bytes:
    """The document that holds `content`, which JSON must be able to say."""
    document = {"version": version, "checksum": _checksum(content), "content": content}
    return json.dumps(document, indent=1).encode()


def unpack(data: bytes, version: int, what: str, hint: str, oldest: int | None = None) -> dict[str, Any]:
    """The content back; CorruptData or UnknownVersion, about `what`, with `hint`. oldest: version that is read, too."""
    try:
        document = json.loads(data)
        found, checksum, content = document["version"], document["checksum"], document["content"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"the {what} is not one", hint) from error
    if found not in range(version if oldest is None else oldest, version + 1):
        raise UnknownVersion(f"the {what} has format version {found}, this program reads {version}")
    if _checksum(content) != checksum:
        raise CorruptData(f"the {what} has a wrong checksum", hint)
    return content


def _checksum(content: Any) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
