"""Datasets of strings: never renumbered, and extended only by strings of their length."""

import numpy as np
import pytest

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.fasta import letters_of
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.blocks.manifest import read_manifest, read_profile
from tests.refusals import refused

LENGTH = 200


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def fasta(rng, n_rows: int, length: int = LENGTH, letters: str = "ACGT") -> tuple[dict[str, float], bytes]:
    """Different strings, their labels, and the FASTA text of them."""
    strings = {"".join(rng.choice(list(letters), length)): float(rng.choice([1, -1])) for _ in range(n_rows)}
    return strings, "".join(f"> label={label:g}\n{string}\n" for string, label in strings.items()).encode()


def stored(directory, length: int = LENGTH) -> dict[str, float]:
    dataset, found = Dataset(directory), {}
    for number in range(len(dataset.manifest.blocks)):
        for location in dataset.pieces(number):
            assert location["increasing"] == 0
            rows = dataset.piece(location).rows
            for k, label in enumerate(rows.label.tolist()):
                row = slice(rows.indptr[k], rows.indptr[k + 1])
                found[letters_of(rows.indices[row], rows.values[row], length)] = label
    return found


@pytest.mark.parametrize("format_", ["auto", "fasta", "dna"])
def test_strings_come_back(tmp_path, rng, format_):
    strings, text = fasta(rng, 300, letters="ACGTN")
    manifest = ingest([text], tmp_path / "data", InputOptions(format_))
    assert stored(tmp_path / "data") == strings
    assert manifest.input == {"format": "fasta", "length": LENGTH, "alphabet": "ACGT"}
    assert (manifest.renumbered, manifest.index_base, manifest.n_features) == (0, 0, 13)
    assert read_manifest(tmp_path / "data") == manifest


def test_bits_are_not_taken_for_features(tmp_path, rng):
    manifest = ingest([fasta(rng, 2000)[1]], tmp_path / "data")
    profile = read_profile(tmp_path / "data")
    assert profile is not None and profile.frequent == ()
    assert manifest.Qii_spread == (0, 0, 0)


def test_a_base_takes_two_bits(tmp_path, rng):
    n_rows = 5000
    manifest = ingest([fasta(rng, n_rows)[1]], tmp_path / "data")
    assert manifest.stored_bytes < 0.28 * n_rows * LENGTH


def test_strings_are_added(tmp_path, rng):
    first, text = fasta(rng, 50)
    second, more = fasta(rng, 70)
    ingest([text], tmp_path / "data")
    after = append_rows([more], tmp_path / "data", InputOptions(), InputLimits(), threads=2)
    assert stored(tmp_path / "data") == first | second
    assert after.n_rows == 120 and after.Qii_spread == (0, 0, 0)


FURTHER = [
    (b">label=1\nACGT\n", {}, "string_length"),
    (b"1 1:1\n", {}, "input_mismatch"),
    (b">label=1\nACGT\n", {"normalize": "row_l2"}, "option_unused"),
]


@pytest.mark.parametrize(("text", "options", "code"), FURTHER)
def test_what_cannot_be_added(tmp_path, rng, text, options, code):
    _strings, first = fasta(rng, 5)
    before = ingest([first], tmp_path / "data")
    with refused(InputError, code):
        append_rows([text], tmp_path / "data", InputOptions(**options), InputLimits(), threads=1)
    assert read_manifest(tmp_path / "data") == before


def test_strings_are_not_added_to_numbers(tmp_path, rng):
    ingest([b"1 1:1\n-1 2:1\n"], tmp_path / "data")
    with pytest.raises(InputError, match="are strings"):
        append_rows([fasta(rng, 5)[1]], tmp_path / "data", InputOptions(), InputLimits(), threads=1)
