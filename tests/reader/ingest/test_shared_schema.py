"""Shards that are read in side by side number rows alike, and together equal what one process reads in."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.ranges import SourceInput
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.ingest.shared_schema import agreed_schema, merged_manifest, schema_of_first_rows
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables.mixed import feature_names
from streamsvm.reader.sources.fetch import Share
from streamsvm.reader.sources.files import list_files
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.rows.csr import LARGE_W

OF = 3
KINDS = "red", "blue", "green", "black", "white", "grey", "pink", "brown"


def unknown(schema):
    """Forget all labels but the first, and all categories: a single batch has all rows of a small text."""
    input_ = schema.input and {**schema.input, "dictionary": {"kind": {}}}
    return replace(schema, names=schema.names[:1], input=input_)


def rows_of(directory: Path, manifest) -> Counter:
    """Count the rows, by the name of the label and by names or input numbers of features."""
    own = Dataset(directory)
    # A machine has the manifest of all shards, with its own blocks.
    own.manifest = replace(manifest, blocks=own.manifest.blocks, parts=())
    numbers = own.numbers if manifest.renumbered or manifest.listed else None
    words = feature_names(manifest.input, set(range(manifest.width)), manifest.index_base)
    rows: Counter = Counter()
    for block in range(len(own.manifest.blocks)):
        for location in own.pieces(block):
            piece = own.piece(location).rows
            for k, (a, b) in enumerate(zip(piece.indptr[:-1], piece.indptr[1:], strict=True)):
                indices = piece.indices[a:b] if numbers is None else numbers[piece.indices[a:b]]
                shown = sorted(
                    (words.get(i, str(i)), v) for i, v in zip(indices.tolist(), piece.values[a:b].tolist(), strict=True)
                )
                rows[manifest.label_text(piece.label[k]), tuple(shown)] += 1
    return rows


def read_in_shards(tmp_path, text: bytes, stripe_bytes=512, again=0, forget=lambda schema: schema, **given):
    """Read a text in as the shards of three machines: the manifest of all, and the directories of the shards."""
    file = tmp_path / "input"
    file.write_bytes(text)
    files, options, limits = list_files([str(file)]), InputOptions(**given), InputLimits()
    schema = forget(schema_of_first_rows(files, options, limits, 1, tmp_path))
    shards, directories, missing = [None] * OF, [tmp_path / f"part{k}" for k in range(OF)], range(OF)
    rounds = 0
    while missing:
        for k in missing:
            directory = directories[k] = tmp_path / f"part{k}-{rounds}"
            share = SourceInput(files, limits, Share(k, OF, stripe_bytes))
            shards[k] = ingest(share, directory, options, limits, threads=1, schema=schema.for_shard(k))
        listed = [
            Dataset(own).listed() if part.listed else np.zeros(0, np.int32)
            for own, part in zip(directories, shards, strict=True)
        ]
        schema, missing = agreed_schema(schema, shards, listed)
        rounds += 1
    assert rounds == 1 + again
    return merged_manifest(schema, shards, options.n_features), directories


def check_against_one(tmp_path, text: bytes, **given):
    further = {name: given.pop(name) for name in ("stripe_bytes", "again", "forget") if name in given}
    one = ingest([text], tmp_path / "one", InputOptions(**given), threads=1)
    found, directories = read_in_shards(tmp_path, text, **further, **given)
    same = "index_base", "n_features", "n_rows", "nnz", "longest_row", "normalize", "has_groups", "label_range"
    if not one.label_names:
        assert [getattr(found, name) for name in same] == [getattr(one, name) for name in same]
    assert {found.label_text(label): n for label, n in found.labels.items()} == {
        one.label_text(label): n for label, n in one.labels.items()
    }
    assert len({block.number for block in found.blocks}) == len(found.blocks)
    assert found.block_bound > max(block.number for block in found.blocks)
    wanted = rows_of(tmp_path / "one", one)
    assert sum((rows_of(directory, found) for directory in directories), Counter()) == wanted
    return found


def test_numbered_features_are_renumbered_alike(tmp_path):
    rng = random.Random(0)
    lines = [f"{rng.choice((-1, 1))} {' '.join(f'{i}:1' for i in sorted(rng.sample(range(1, LARGE_W * 2), 9)))}"
             for _ in range(300)]  # fmt: skip
    found = check_against_one(tmp_path, "\n".join(lines).encode())
    assert found.renumbered


def test_names_met_by_several_machines_are_numbered_anew(tmp_path):
    """The input is sorted by class: each machine reads names that the first rows do not have."""
    lines = [f"{name},{k},{k % 7}" for name in ("a", "b", "c", "d", "e", "f") for k in range(60)]
    found = check_against_one(tmp_path, "\n".join(lines).encode(), again=1, forget=unknown, format="csv",
                              label_type="string", label_column="1", stripe_bytes=256)  # fmt: skip
    assert set(found.label_names) == set("abcdef")


def test_categories_met_by_several_machines_are_numbered_anew(tmp_path):
    lines = ["y,kind,x", *(f"{k % 2},{kind},{k}.5" for kind in KINDS for k in range(20))]
    found = check_against_one(tmp_path, "\n".join(lines).encode(), again=1, forget=unknown, format="csv",
                              label_column="y", categorical="kind", stripe_bytes=256)  # fmt: skip
    assert set(found.input["dictionary"]["kind"]) == set(KINDS)


def test_an_index_0_that_one_machine_meets_is_known_to_all(tmp_path):
    lines = ["1 1:1 9:2"] + [f"{k % 2} 1:1 8:2" for k in range(300)] + ["1 0:3 8:1"]
    assert check_against_one(tmp_path, "\n".join(lines).encode()).index_base == 0
    for path in tmp_path.iterdir():
        path.rename(path.with_name(f"old-{path.name}"))
    with pytest.raises(InputError, match="index 0"):
        read_in_shards(tmp_path, "\n".join(lines).encode(), n_features=9)


def test_documents(tmp_path):
    lines = [f"{('ham', 'spam')[k % 2]}\twords of {k} and more {k % 13}" for k in range(200)]
    check_against_one(tmp_path, "\n".join(lines).encode(), format="text")


def test_strings_have_one_length(tmp_path):
    lines = ["y,dna", *(f"{k % 2},{'ACGT' * 5}" for k in range(100))]
    check_against_one(tmp_path, "\n".join(lines).encode(), format="csv", string_column="dna", label_column="y")
    for path in tmp_path.iterdir():
        path.rename(path.with_name(f"old-{path.name}"))
    lines[-1] = "1,ACGT"
    with pytest.raises(InputError, match="20"):
        read_in_shards(tmp_path, "\n".join(lines).encode(), format="csv", string_column="dna", label_column="y")


def test_weights(tmp_path):
    lines = [f"{k % 2}:{1 + k % 3} 1:1 {2 + k % 5}:2" for k in range(200)]
    found = check_against_one(tmp_path, "\n".join(lines).encode())
    assert found.weights.largest == 3.0
    assert found.weights.total == sum(1 + k % 3 for k in range(200))


def test_a_part_read_twice_is_the_same_to_the_byte(tmp_path):
    file = tmp_path / "input"
    file.write_bytes("\n".join(f"{k % 2} {1 + k % 9}:1 20:2" for k in range(500)).encode())
    files = list_files([str(file)])
    schema = schema_of_first_rows(files, InputOptions(), InputLimits(), 1, tmp_path).for_shard(1)
    for name, threads in (("a", 1), ("b", 2)):
        share = SourceInput(files, InputLimits(), Share(1, 2, 512))
        ingest(share, tmp_path / name, InputOptions(), threads=threads, schema=schema)
    blocks = [sorted((tmp_path / name / "blocks").iterdir()) for name in "ab"]
    assert [block.name for block in blocks[0]] == [block.name for block in blocks[1]] != []
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*blocks, strict=True))
    assert Dataset(tmp_path / "a").manifest == Dataset(tmp_path / "b").manifest


def test_features_far_apart_are_listed_alike(tmp_path):
    """Shards have far features that the first rows lack; a shard that listed them differently is read again."""
    rng = random.Random(0)
    far = [rng.randrange(1, 1 << 27) for _ in range(60)]
    lines = [f"{rng.choice((-1, 1))} {' '.join(f'{i}:1' for i in sorted(rng.sample(far, 4)))}" for _ in range(300)]

    def forget(schema):
        return replace(schema, features=replace(schema.features, listed=schema.features.listed[:20]))

    found = check_against_one(tmp_path, "\n".join(lines).encode(), again=1, forget=forget)
    assert found.listed == found.width == len(set(far))
