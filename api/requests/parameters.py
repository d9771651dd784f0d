"""Query parameters a route does not have are refused, never ignored: a typing error would go unnoticed."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant

from streamsvm.service.errors import ServiceError


async def refuse_unknown(request: Request) -> None:
    """Raises ServiceError: unknown_parameter, duplicate_parameter."""
    known = set(_query_names(request.scope["route"].dependant))
    given = [name for name, _ in request.query_params.multi_items()]
    if not known.issuperset(given):
        hint = f"It has: {', '.join(sorted(known))}." if known else "It has none."
        raise ServiceError("unknown_parameter", "the route has no such query parameter", hint)
    if len(set(given)) < len(given):
        raise ServiceError("duplicate_parameter", "a query parameter is given twice")


def _query_names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)
