"""A flipped bit or a lost tail of any file: the named error, or what was written."""

import os
from contextlib import contextmanager

import numpy as np
import pytest

import streamsvm.reader.ingest.shuffle
from streamsvm.storage.blocks.dataset import Dataset
from streamsvm.storage.errors import CorruptData, DatasetCorrupt, UnknownVersion
from streamsvm.storage.models.model_file import Model, read_model, write_model
from streamsvm.storage.run.checkpoint import read_checkpoint, write_checkpoint
from tests.contracts.problems import make_dataset, random_problem
from tests.faults.scale import count

FLIPS = count(150, 20_000)  # of each format
TAILS = count(100, 2_000)


def rows_of(directory):
    """All that training sees of a dataset, as bytes; DatasetCorrupt names the block of any fault there."""
    dataset = Dataset(directory)
    seen = [repr(dataset.manifest).encode()]
    for number in range(len(dataset.manifest.blocks)):
        for location in dataset.pieces(number):
            piece = dataset.piece(location)
            rows = piece.rows
            seen += [piece.Qii.tobytes(), *(a.tobytes() for a in (rows.label, rows.indptr, rows.indices, rows.values))]
    if dataset.manifest.renumbered:
        seen.append(dataset.places().tobytes())
    return b"".join(seen)


def checkpoint_of(path):
    """All that training takes from a checkpoint."""
    found = read_checkpoint(path)
    return sorted(found.about.items()), {name: array.tobytes() for name, array in found.arrays().items()}


def model_of(path):
    found = read_model(path)
    return found.w.tobytes(), found.labels, found.index_base, found.bias, found.w_bias, found.about


def make_checkpoint(path):
    rng = np.random.default_rng(0)
    arrays = {"alpha": rng.random(200), "w": rng.random(90), "visited": rng.integers(0, 9, 200).astype(np.uint8)}
    write_checkpoint(path, {"number": 3, "pass": 2, "control": {"updates": 7}}, arrays)
    return path


def make_model(path):
    write_model(path, Model(np.random.default_rng(0).standard_normal(90), (1.0, -1.0), 1, 1.0, 0.5, {"C": 1.0}))
    return path


def make_a_dataset(path):
    """Of several blocks of many pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamsvm.reader.ingest.shuffle, "PIECE_WORDS", 4096)
        return make_dataset(path, *random_problem(600, 300))


# what makes it, what reads it, the files that are damaged, what may be raised
KINDS = {
    "block": (make_a_dataset, rows_of, "blocks/*.blk", DatasetCorrupt),
    "manifest": (make_a_dataset, rows_of, "manifest.json", (DatasetCorrupt, UnknownVersion)),
    "checkpoint": (make_checkpoint, checkpoint_of, "", (CorruptData, UnknownVersion)),
    "model": (make_model, model_of, "*", (CorruptData, UnknownVersion)),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def written(kind, tmp_path):
    """(a file, what reads all, what that gives, what may be raised) of each file of the kind."""
    make, read, pattern, errors = KINDS[kind]
    root = make(tmp_path / "it")
    files = sorted(root.glob(pattern)) if pattern else [root]
    return [(path, lambda: read(root), read(root), errors) for path in files]


def is_noticed(path, read, whole, errors):
    """Whether a damage in the file is noticed; if not it has to make no difference."""
    try:
        assert read() == whole, f"{path.name} is read otherwise than written"
    except errors as error:
        if "blocks" in str(path):
            assert str(error).startswith(f"block {int(path.stem)}: "), error
        return True
    return False


@contextmanager
def flipped(path, rng):
    """One bit of the file, while this lasts. In place: a file written anew would be waited for."""
    with path.open("r+b", buffering=0) as file:
        place, bit = int(rng.integers(path.stat().st_size)), 1 << int(rng.integers(8))
        sound = os.pread(file.fileno(), 1, place)
        os.pwrite(file.fileno(), bytes([sound[0] ^ bit]), place)
        yield
        os.pwrite(file.fileno(), sound, place)


@pytest.mark.filterwarnings("ignore")  # of numpy, about a damaged header
def test_flipped_bits(kind, written, rng):
    noticed = 0
    for k in range(FLIPS):
        path, *how = written[k % len(written)]
        with flipped(path, rng):
            noticed += is_noticed(path, *how)
    print(f"{noticed} of {FLIPS} noticed, the others made no difference")
    # A checkpoint is an archive that repeats itself, and holds a time of day.
    assert noticed >= FLIPS * (0.5 if kind == "checkpoint" else 0.9)


@pytest.mark.filterwarnings("ignore")
def test_lost_tails(written, rng):
    for k in range(TAILS):
        path, *how = written[k % len(written)]
        sound = path.read_bytes()
        # The last bytes every time: there are indices and checksums.
        length = len(sound) - 1 - k if k < len(sound) and k % 2 else int(rng.integers(len(sound)))
        path.write_bytes(sound[:length])
        # Of JSON, white space may be lost.
        assert is_noticed(path, *how) or not sound[length:].strip()
        path.write_bytes(sound)
