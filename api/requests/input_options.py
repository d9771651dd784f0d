"""The query parameters of a request whose body, or file, is data."""

from typing import Annotated, Literal

from fastapi import Depends, Query

from streamsvm.reader.options import InputOptions
from streamsvm.reader.options import index_base as as_index_base
from streamsvm.reader.parsers import READERS


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
