"""The schema that all shards of a dataset share, when several machines read one shard each at the same time.

The first rows of the input give the schema: how features are numbered in blocks, the names of labels, the categories. A
machine that meets a new name or category chooses a number for it. If two machines choose different numbers, a new
schema holds all names and categories, and machines whose numbers differ from the new schema read their shard again.
"""

import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import joined
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.reading import Reading
from streamsvm.reader.ingest.renumber import Numbering, Renumbering
from streamsvm.reader.ingest.shuffle import BUCKETS
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.values import LabelNames, value_of
from streamsvm.reader.sources.files import SourceFile
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.rows.csr import Array

_LOOK_BYTES = 64 << 20


@dataclass(frozen=True)
class SharedSchema:
    """How every shard of a dataset numbers features, labels and categories.

    uid          uid of the dataset's manifest
    names        names of labels that are strings: the label names[k] is stored as the number k
    input        the `Manifest.input` of tables and strings; None for numbered features and documents
    features     the numbers of features in blocks; None: the shard's first rows decide them
    warnings     warnings about columns, see `Profile`
    first_block  number of the shard's first block
    """

    uid: str
    names: tuple[str, ...]
    input: dict[str, Any] | None
    features: Numbering | None
    warnings: tuple[dict[str, str], ...] = ()
    first_block: int = 0

    def for_shard(self, number: int) -> "SharedSchema":
        """Return the schema for shard `number`, with block numbers that no other shard uses."""
        return replace(self, first_block=number * BUCKETS)


def schema_of_first_rows(
    files: Sequence[SourceFile], options: InputOptions, limits: InputLimits, threads: int, scratch: Path
) -> SharedSchema:
    """Make the schema from the first 64 MiB of the files. Raises InputError if these cannot be read."""
    reading = Reading(SourceInput(files, limits), options, limits, threads, scratch)
    features = Renumbering()
    with closing(reading.rows()) as batches:  # type: ignore[type-var]
        for rows in batches:
            if reading.holds_strings:
                features.leave()
                break
            features.in_rows = reading.parser.feature_places
            features.observe(rows.indices, len(rows))
            if reading.input.taken >= _LOOK_BYTES:
                break
    if not features.is_settled:
        features.settle()
    input_ = input_of_shards(reading.described)
    return SharedSchema(uuid.uuid4().hex, reading.names.names, input_, features.numbering, reading.warnings)


def input_of_shards(input_: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the `Manifest.input` that shards need: None for documents, since options decide how they are hashed."""
    return None if input_ is None or input_["format"] == "text" else input_


def agreed_schema(
    schema: SharedSchema, shards: Sequence[Manifest], listed: Sequence[Array]
) -> tuple[SharedSchema, list[int]]:
    """Return the schema with all shards' names, categories and listed features, and the shards that do not fit it.

    listed  for each shard, the features (m,) that it has listed, see `Numbering`
    Raises InputError labels_alike, see `LabelNames.numbers`.
    """
    known, input_ = LabelNames("string", schema.names), schema.input
    for shard in shards:
        for name in shard.label_names:
            known.numbers([name])
        input_ = _with_categories(input_, shard.input)
    numbering = schema.features
    if numbering is not None:
        all_ = numbering.listed
        for features in listed:
            all_ = np.concatenate((all_, features[~np.isin(features, all_)]))
        numbering = replace(numbering, listed=all_)
    agreed = replace(schema, names=known.names, input=input_, features=numbering)
    pairs = enumerate(zip(shards, listed, strict=True))
    return agreed, [number for number, (shard, features) in pairs if not _fits(agreed, shard, features)]


def merged_manifest(schema: SharedSchema, shards: Sequence[Manifest], n_features: int | None) -> Manifest:
    """Join the manifests of shards that fit the schema. n_features: the input option. Raises InputError index_zero."""
    base = min(shard.index_base for shard in shards)
    if n_features is None:
        n_features = max(shard.n_features + shard.index_base for shard in shards) - base
    elif base != max(shard.index_base for shard in shards):
        raise InputError("index_zero", "some rows have the index 0, in other ranges of the input indices start at 1")
    manifest = reduce(joined, shards)
    listed = len(schema.features.listed) if schema.features else 0
    own_width = max(shard.width for shard in shards) if any(shard.own_width for shard in shards) else 0
    if schema.features and listed:
        own_width = schema.features.bound + listed
    return replace(
        manifest,
        index_base=base,
        n_features=n_features,
        label_names=schema.names,
        input=manifest.input if schema.input is None else schema.input,
        own_width=own_width,
        listed=listed,
    )


def _with_categories(input_: dict[str, Any] | None, of_shard: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the schema's `input` with a shard's new categories, numbered after all categories of the schema."""
    if input_ is None or of_shard is None or "dictionary" not in input_:
        return input_
    dictionary = {column: dict(numbers) for column, numbers in input_["dictionary"].items()}
    following = 1 + max((max(numbers.values(), default=-1) for numbers in dictionary.values()), default=-1)
    for column, numbers in of_shard["dictionary"].items():
        values = set(map(value_of, dictionary[column]))
        for word in sorted(numbers.keys() - dictionary[column].keys(), key=numbers.__getitem__):
            if value_of(word) not in values:
                dictionary[column][word] = following
                following += 1
    return {**input_, "dictionary": dictionary}


def _fits(schema: SharedSchema, shard: Manifest, listed: Array) -> bool:
    """Whether the shard's labels, categories and listed features have the same numbers as in the schema."""
    if schema.features is not None and not np.array_equal(schema.features.listed[: len(listed)], listed):
        return False
    dictionary = (schema.input or {}).get("dictionary", {})
    of_shard = (shard.input or {}).get("dictionary", {})
    return schema.names[: len(shard.label_names)] == shard.label_names and all(
        dictionary[column].get(word) == number
        for column, numbers in of_shard.items()
        for word, number in numbers.items()
    )
