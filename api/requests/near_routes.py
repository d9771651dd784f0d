"""Names the routes that a request with a wrong path, or a wrong method, may have meant."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any

from fastapi.routing import APIRoute

from streamsvm.service.gone import gone_route

_MOST_LETTERS = 200  # of a path that is compared
_LEAST_RATIO = 0.6  # of two segments that may be meant to be the same
# How curl sends a body by a method; the other methods need no hint.
_SENDERS = {"PUT": "curl -X PUT, or -T FILE,", "POST": "curl --data-binary @FILE, or --json,"}


def hint_of_route(routes: Iterable[Any], path: str, method: str) -> str:
    """A hint for a path that no route has, or not with this method; "" if no route is near."""
    if told := gone_route(path):
        return told
    known = [route for route in routes if isinstance(route, APIRoute) and route.include_in_schema]
    methods = sorted({each for route in known if route.path_regex.match(path) for each in route.methods or ()})
    if methods:
        senders = [each for each in methods if each in _SENDERS] if method in (*_SENDERS, "PATCH") else []
        how = "; ".join(f"{_SENDERS[each]} sends {each}" for each in senders)
        return f"This path takes {', '.join(methods)}{': ' if how else ''}{how}."
    if len(path) > _MOST_LETTERS:
        return ""
    near = max(known, key=lambda route: _nearness(route.path, path), default=None)
    if near is None or _nearness(near.path, path) < _LEAST_RATIO:
        return ""
    shown = near.path.replace(":path}", "}")
    return f"Did you mean {shown}? All routes are at /reference, for people, and /openapi.json."


def _nearness(template: str, path: str) -> float:
    """How alike the least alike segments are, 0 to 1; a parameter is like any segment."""
    wanted, given = template.strip("/").split("/"), path.strip("/").split("/")
    if len(wanted) != len(given):
        return 0
    pairs = [(one, other) for one, other in zip(wanted, given, strict=True) if not one.startswith("{")]
    return min((SequenceMatcher(None, one, other).ratio() for one, other in pairs), default=0)
