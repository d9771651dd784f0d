"""What the parts of a dataset have in common, which several machines read in side by side.

The first rows settle it: how features are numbered in blocks, the names of labels, the categories. A machine that meets
further names or categories numbers them for itself. Where two machines have numbered one in different ways it is
settled anew with all that were met, and who has them otherwise reads its part once more.
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
from streamsvm.reader.ingest.manifests import joined
from streamsvm.reader.ingest.numbering.renumber import Numbering, Renumbering
from streamsvm.reader.ingest.ranges import Parts
from streamsvm.reader.ingest.reading import Reading
from streamsvm.reader.ingest.shuffling.shuffle import BUCKETS
from streamsvm.reader.limits import Limits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.files import SourceFile
from streamsvm.storage.blocks.manifest import Manifest
from streamsvm.storage.rows.csr import Array

_LOOK_BYTES = 64 << 20


@dataclass(frozen=True)
class Settled:
    """
    uid       of the dataset
    names     of labels that are strings: a label's number is its place
    input     of categories and strings, as `Manifest.input` has it; None: features need nothing of it
    features  how they are numbered in blocks; None: that shows as they come
    warnings  of columns, see Profile
    first_block  of a part: blocks have numbers from here on
    """

    uid: str
    names: tuple[str, ...]
    input: dict[str, Any] | None
    features: Numbering | None
    warnings: tuple[dict[str, str], ...] = ()
    first_block: int = 0

    def of_part(self, number: int) -> "Settled":
        """The same for a part, whose blocks have numbers of their own."""
        return replace(self, first_block=number * BUCKETS)


def settle(files: Sequence[SourceFile], options: InputOptions, limits: Limits, threads: int, scratch: Path) -> Settled:
    """By the first 64 MiB. InputError for what is wrong with them."""
    reading = Reading(Parts(files, limits), options, limits, threads, scratch)
    features = Renumbering()
    with closing(reading.rows()) as batches:  # type: ignore[type-var]
        for rows in batches:
            if reading.holds_strings:
                features.leave()
                break
            features.observe(rows.indices, len(rows))
            if reading.input.taken >= _LOOK_BYTES:
                break
    if not features.is_settled:
        features.settle()
    told, input_ = reading.warnings, like_of(reading.parser.input)
    return Settled(uuid.uuid4().hex, reading.names.known, input_, features.numbering, told)


def like_of(input_: dict[str, Any] | None) -> dict[str, Any] | None:
    """What of a dataset's `input` its parts need; how documents are hashed, the options say."""
    return None if input_ is None or input_["format"] == "text" else input_


def agreed(settled: Settled, parts: Sequence[Manifest], listed: Sequence[Array]) -> tuple[Settled, list[int]]:
    """Settle what holds for all of these parts; return it, and the numbers of the parts that were read in otherwise.

    listed  features (m,) that each part has listed
    """
    names, input_ = list(settled.names), settled.input
    for part in parts:
        names += [name for name in part.label_names if name not in names]
        input_ = _with_categories(input_, part.input)
    after = replace(settled, names=tuple(names), input=input_, features=_with_listed(settled.features, listed))
    of_parts = zip(parts, listed, strict=True)
    return after, [number for number, (part, own) in enumerate(of_parts) if not _is_as(after, part, own)]


def _with_listed(known: Numbering | None, listed: Sequence[Array]) -> Numbering | None:
    """The known numbering, with the features that parts have listed besides, in the order of the parts."""
    if known is None:
        return None
    all_ = known.listed
    for own in listed:
        all_ = np.concatenate((all_, own[~np.isin(own, all_)]))
    return replace(known, listed=all_)


def whole(settled: Settled, parts: Sequence[Manifest], n_features: int | None) -> Manifest:
    """Of all parts, which are as settled. n_features: that there are to be. InputError index_zero."""
    base = min(part.index_base for part in parts)
    if n_features is None:
        n_features = max(part.n_features + part.index_base for part in parts) - base
    elif base != max(part.index_base for part in parts):
        raise InputError("index_zero", "some rows have the index 0, and others as many features as there are to be")
    found = reduce(joined, parts)
    input_ = found.input if settled.input is None else settled.input
    all_ = replace(found, index_base=base, n_features=n_features, label_names=settled.names, input=input_)
    listed = len(settled.features.listed) if settled.features else 0
    own_width = settled.features.bound + listed if settled.features and listed else _own_width(parts)
    return replace(all_, own_width=own_width, listed=listed)


def _own_width(parts: Sequence[Manifest]) -> int:
    """The `own_width` of parts that list no features: the largest width, 0 if none has an `own_width`."""
    return max(part.width for part in parts) if any(part.own_width for part in parts) else 0


def _with_categories(known: dict[str, Any] | None, found: dict[str, Any] | None) -> dict[str, Any] | None:
    if known is None or found is None or "dictionary" not in known:
        return known
    dictionary = {column: dict(numbers) for column, numbers in known["dictionary"].items()}
    following = 1 + max((max(numbers.values(), default=-1) for numbers in dictionary.values()), default=-1)
    for column, numbers in found["dictionary"].items():
        for word in sorted(numbers.keys() - dictionary[column].keys(), key=numbers.__getitem__):
            dictionary[column][word] = following
            following += 1
    return {**known, "dictionary": dictionary}


def _is_as(settled: Settled, part: Manifest, listed: Array) -> bool:
    if settled.features is not None and not np.array_equal(settled.features.listed[: len(listed)], listed):
        return False
    dictionary = (settled.input or {}).get("dictionary", {})
    found = (part.input or {}).get("dictionary", {})
    return settled.names[: len(part.label_names)] == part.label_names and all(
        dictionary[column][word] == number for column, numbers in found.items() for word, number in numbers.items()
    )
