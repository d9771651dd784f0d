"""The view of a dataset: the dict that the API returns as JSON, documented in api/README.md."""

from pathlib import Path
from typing import Any

from streamsvm.storage.blocks.block import BlockInfo
from streamsvm.storage.blocks.manifest import Manifest, Profile, read_profile

MOST_NAMES = 1000  # names of columns in a view


def dataset_view(
    record: dict[str, Any],
    manifest: Manifest | None,
    progress: dict[str, Any] | None = None,
    profile: Profile | None = None,
) -> dict[str, Any]:
    """Describe a dataset; without a manifest, only its record and the progress of its ingest."""
    source = record["source"] or {}
    shown = {
        **{key: record[key] for key in ("name", "state", "created_at", "failure")},
        "import": source.get("import"),
        "progress": progress and {"total_bytes": source.get("bytes"), **progress},
    }
    if manifest is None:
        return shown
    weights, (least, total, largest) = manifest.weights, manifest.Qii_spread
    return {
        **shown,
        "uid": manifest.uid,
        "rows": manifest.n_rows,
        "features": manifest.n_features,
        "non_zeros": manifest.nnz,
        **_labels(manifest),
        "weights": weights
        and {"sum": weights.total, "min": weights.least, "max": weights.largest, "zero_rows": weights.zeros},
        "has_groups": manifest.has_groups,
        "index_base": manifest.index_base,
        "longest_row": manifest.longest_row,
        "blocks": len(manifest.blocks),
        "machines": len(manifest.parts) or None,
        "input_bytes": manifest.input_bytes,
        "decoded_bytes": manifest.decoded_bytes,
        "stored_bytes": manifest.stored_bytes,
        "compression_ratio": manifest.decoded_bytes / manifest.stored_bytes,
        "input": manifest.input and input_view(manifest.input),
        "normalize": manifest.normalize,
        "shuffle": manifest.shuffle,
        "squared_norms": {"min": least, "mean": total / manifest.n_rows, "max": largest},
        "rejected_rows": manifest.rejected_rows,
        "rejected": list(manifest.rejected),
        "profile": profile and profile_view(profile, manifest),
        "warnings": list(profile.warnings) if profile else [],
        **manifest.counters,
    }


def input_view(input: dict[str, Any]) -> dict[str, Any]:
    """Describe a manifest's `input`, with at most MOST_NAMES columns, and counts in place of the categories."""
    shown = {name: value for name, value in input.items() if name != "dictionary"}
    for name in ("columns", "places", "dropped"):
        if name in shown:
            shown[name] = shown[name][:MOST_NAMES]
    if "has_names" in input:
        shown["header"] = "yes" if input["has_names"] else "no"
    if "dictionary" in input:
        shown["category_counts"] = {column: len(words) for column, words in input["dictionary"].items()}
    return shown


_GRAMS = {"word": "words", "char": "characters", "char_wb": "characters of a word"}


def input_words(input: dict[str, Any]) -> str:
    """Say in words what rows were made of, from an `input` as `input_view` returns it."""
    if input.get("length"):
        return f"strings of {input['length']:,} bases"
    labels = f", labels in {_column(label)}" if (label := input.get("label_column")) else ""
    if "columns" in input:
        names = "with" if input["has_names"] else "without"
        hashed = ", hashed" if input.get("n_features") else ""
        words = f", {len(input['categorical']):,} of categories{hashed}"
        return f"a table of {input['n_columns']:,} columns {names} names{words}{labels}"
    if "ngram_range" not in input:
        return str(input["format"])
    (low, high), kind = input["ngram_range"], _GRAMS[input["analyzer"]]
    grams = f"single {kind}" if high == 1 else f"{low} to {high} {kind} an n-gram"
    column = f" in {_column(text)}" if (text := input.get("text_column")) else ""
    case = ", in lower case" if input["lowercase"] else ""
    return f"documents{column}, {grams}{case}{labels}"


def _column(name: str) -> str:
    return f"column {name}" if name.lstrip("-").isdecimal() else repr(name)


def columns_view(manifest: Manifest, directory: Path) -> dict[str, Any]:
    """Return the fields of `dataset_view` about columns, and rows that were left out, of the dataset in a directory."""
    profile = read_profile(directory)
    return {
        "rejected_rows": manifest.rejected_rows,
        "input": manifest.input and input_view(manifest.input),
        "warnings": list(profile.warnings) if profile else [],
    }


def _far_scales(profile: Profile, manifest: Manifest) -> list[dict[str, Any]]:
    """Describe the features of largest and smallest size, with their names, if any; [] if all have similar scales."""
    if not profile.scales:
        return []
    # Imported here because it is slow, and few commands need it.
    from streamsvm.reader.parsers.tables.mixed import feature_names  # noqa: PLC0415

    numbers = {feature for feature, _ in profile.scales}
    names = feature_names(manifest.input, numbers, manifest.index_base) if manifest.input else {}
    return [{"feature": feature, "name": names.get(feature), "size": size} for feature, size in profile.scales]


def profile_view(profile: Profile, manifest: Manifest) -> dict[str, Any]:
    """Describe the rows: a histogram of their non-zeros, the longest rows, and the most frequent features."""
    bounds = [(1 << k >> 1, max(0, (1 << k) - 1)) for k in range(len(profile.lengths))]
    return {
        "rows": profile.rows,
        "lengths": [
            {"from": low, "to": high, "rows": rows} for (low, high), rows in zip(bounds, profile.lengths, strict=True)
        ],
        "longest": [{"row": row, "non_zeros": length} for row, length in profile.longest],
        "frequent_features": [{"feature": feature, "rows": rows} for feature, rows in profile.frequent],
        "counted_rows": profile.counted_rows,
        "far_scales": _far_scales(profile, manifest),
    }


def _labels(manifest: Manifest) -> dict[str, Any]:
    """Describe the labels: texts in alphabetical order, numbers in the order in which they first occurred."""
    counts = {manifest.label_text(label): rows for label, rows in manifest.labels.items()}
    if manifest.label_names:
        return {"label_type": "string", "label_range": None, "label_counts": dict(sorted(counts.items()))}
    return {"label_type": "number", "label_range": manifest.label_range, "label_counts": counts}


def block_view(block: BlockInfo) -> dict[str, int]:
    """Describe a block of a dataset."""
    return {"block": block.number, "rows": block.rows, "non_zeros": block.nnz, "stored_bytes": block.bytes}
