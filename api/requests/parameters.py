"""Query parameters: the options of input data, and the refusal of parameters that a route does not have."""

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import Depends, Query, Request
from fastapi.dependencies.models import Dependant

from streamsvm.reader.options import InputOptions
from streamsvm.reader.options import index_base as as_index_base
from streamsvm.reader.parsers import READERS
from streamsvm.service.errors import ServiceError


async def refuse_unknown(request: Request) -> None:
    """Raise ServiceError unknown_parameter or duplicate_parameter: an ignored typing error would go unnoticed."""
    allowed = set(_query_names(request.scope["route"].dependant))
    names = [name for name, _ in request.query_params.multi_items()]
    if not allowed.issuperset(names):
        hint = f"It has: {', '.join(sorted(allowed))}." if allowed else "It has none."
        raise ServiceError("unknown_parameter", "the route has no such query parameter", hint)
    if len(set(names)) < len(names):
        raise ServiceError("duplicate_parameter", "a query parameter is given twice")


def _query_names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def _input_options(
    format: Literal[("auto", *READERS)] = "auto",  # type: ignore[valid-type]
    index_base: Literal["auto", "0", "1"] = "auto",
    n_features: Annotated[int | None, Query(ge=1)] = None,
    label_column: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    label_type: Literal["auto", "number", "string"] = "auto",
    weight_column: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    group_column: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    string_column: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    columns: Annotated[str | None, Query(min_length=1, max_length=10000)] = None,
    drop_columns: Annotated[str | None, Query(min_length=1, max_length=10000)] = None,
    categorical: Annotated[str | None, Query(min_length=1, max_length=10000)] = None,
    categories: Literal["dictionary", "hashed"] = "dictionary",
    missing: Literal["error", "zero", "indicator"] = "error",
    delimiter: Annotated[str | None, Query(min_length=1, max_length=9)] = None,
    header: Literal["auto", "yes", "no"] = "auto",
    normalize: Literal["none", "row_l2"] = "none",
    on_bad_row: Literal["fail", "skip"] = "fail",
    shuffle: Literal["yes", "no"] = "yes",
    text_column: Annotated[str | None, Query(min_length=1, max_length=1000)] = None,
    analyzer: Literal["word", "char", "char_wb"] | None = None,
    ngram_range: Annotated[str | None, Query(pattern=r"^\d{1,2},\d{1,2}$")] = None,
    alternate_sign: Literal["yes", "no"] | None = None,
    lowercase: Literal["yes", "no"] | None = None,
    on_bad_text: Literal["error", "replace"] = "error",
) -> InputOptions:
    return InputOptions(
        format=format,
        index_base=as_index_base(index_base),
        n_features=n_features,
        label_column=label_column,
        label_type=label_type,
        weight_column=weight_column,
        group_column=group_column,
        string_column=string_column,
        columns=columns,
        drop_columns=drop_columns,
        categorical=categorical,
        categories=categories,
        missing=missing,
        delimiter=delimiter,
        header=header,
        normalize=normalize,
        on_bad_row=on_bad_row,
        shuffle=shuffle,
        text_column=text_column,
        analyzer=analyzer,
        ngram_range=ngram_range,
        alternate_sign=alternate_sign,
        lowercase=lowercase,
        on_bad_text=on_bad_text,
    )


InputQuery = Annotated[InputOptions, Depends(_input_options)]
