"""Signs notifications as Standard Webhooks 1.0 says (https://www.standardwebhooks.com): whose libraries verify them."""

import base64
import binascii
import hashlib
import hmac

from streamsvm.service.errors import ServiceError

_PREFIX = "whsec_"
_LEAST_BYTES = 24


def key_of(secret: str) -> bytes:
    """The key of STREAMSVM_NOTIFY_SECRET: base64 after `whsec_`, else the text itself, of at least 24 bytes.

    Raises ServiceError notify_secret_invalid.
    """
    try:
        key = base64.b64decode(secret[len(_PREFIX) :], validate=True) if secret.startswith(_PREFIX) else secret.encode()
    except binascii.Error:
        key = b""
    if len(key) < _LEAST_BYTES:
        hint = "Make one: echo whsec_$(openssl rand -base64 32)"
        raise ServiceError("notify_secret_invalid", "STREAMSVM_NOTIFY_SECRET is no secret of 24 bytes or more", hint)
    return key


def signed_headers(key: bytes, event_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of a body that is sent at this time, in seconds since 1970."""
    digest = hmac.new(key, f"{event_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
