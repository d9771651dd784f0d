"""Query parameters: makes those of input options, and refuses parameters that a route does not have."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant
from pydantic import BeforeValidator

from streamsvm.reader.options import OPTIONS, InputOptions, encoding, yes_or_no
from streamsvm.service.errors import ServiceError
from streamsvm.service.hints import meant, shown
from streamsvm.storage.options import Option


async def refuse_unknown(request: Request) -> None:
    """Raise ServiceError unknown_parameter or duplicate_parameter: if ignored, a mistyped name would go unnoticed."""
    allowed = set(_query_names(request.scope["route"].dependant))
    names = [name for name, _ in request.query_params.multi_items()]
    if unknown := next((name for name in names if name not in allowed), None):
        has_body = request.method in ("POST", "PUT", "PATCH")
        none = "It has none: fields go into the body, as JSON." if has_body else "It has none."
        hint = f"{meant(unknown, allowed)}It has: {', '.join(sorted(allowed))}." if allowed else none
        raise ServiceError("unknown_parameter", f"the route has no query parameter {shown(unknown)}", hint)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ServiceError("duplicate_parameter", f"the query parameter {twice} is given twice")


def _query_names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def parameter_of(option: Option) -> inspect.Parameter:
    """Make the query parameter of an input option, for the signature that FastAPI reads."""
    kind: Any = Literal[tuple(map(str, option.choices))] if option.choices else option.kind
    kind = Annotated[kind, BeforeValidator(option.read)] if option.read in (yes_or_no, encoding) else kind
    kind = kind | None if option.is_nullable else kind
    annotation = Annotated[kind, Query(**option.limits)] if option.limits else kind
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation)


def _options(names: Iterable[str]) -> Callable[..., InputOptions]:
    """Make a function that FastAPI calls with the query parameters of these options, and that returns InputOptions."""

    def options(**given: Any) -> InputOptions:
        reads = {name: OPTIONS[name].read for name in given}
        return InputOptions(**{name: read(given[name]) if read else given[name] for name, read in reads.items()})

    options.__signature__ = inspect.Signature([parameter_of(OPTIONS[name]) for name in names])  # type: ignore[attr-defined]
    return options


_OF_ROWS = "label_column", "text_column", "index_base", "header", "delimiter", "decimal", "encoding"
InputQuery = Annotated[InputOptions, Depends(_options(OPTIONS))]
RowsQuery = Annotated[InputOptions, Depends(_options(_OF_ROWS))]  # of rows to predict
