"""Compressed input: round trips, every truncation, flipped bits, trailing bytes and bombs."""

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zstandard

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import MAGIC_BYTES, STEP_BYTES, decompressed
from streamsvm.reader.limits import InputLimits

ROOT = Path(__file__).resolve().parents[3]
SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\x00\x00\x00hello"
LIMITS = InputLimits()


def zstd(data):
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)


def zstd_streamed(data):
    """Without the content size in the header."""
    compressor = zstandard.ZstdCompressor(level=1, write_checksum=True).compressobj()
    return compressor.compress(data) + compressor.flush()


COMPRESSORS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=2),
    "zstd": zstd,
    "zstd_streamed": zstd_streamed,
}
each_format = pytest.mark.parametrize("compress", COMPRESSORS.values(), ids=COMPRESSORS.keys())


def text(size, seed=0):
    rng = np.random.default_rng(seed)
    words = " ".join(f"{i}:{x:.4f}" for i, x in enumerate(rng.random(size // 8 + 2)))
    return words.encode()[:size]


def unpack(data, size=1 << 20, limits=LIMITS):
    pieces = list(decompressed((data[i : i + size] for i in range(0, len(data), size)), limits))
    assert all(0 < len(piece) <= STEP_BYTES for piece in pieces)
    return b"".join(pieces)


def code_of(data, size=1 << 20, limits=LIMITS):
    with pytest.raises(InputError) as caught:
        unpack(data, size, limits)
    assert caught.value.hint
    return caught.value.code


def test_plain_data_passes():
    for data in (b"", b"1", b"1 1:1\n", text(300_000)):
        for size in (1, 7, 1 << 20):
            assert unpack(data, size) == data


@each_format
def test_round_trips(compress):
    for data in (b"", b"x", text(1000), text(3_000_000), bytes(5_000_000)):
        assert unpack(compress(data)) == data
    small = text(2000)
    for size in (1, 7, 100):
        assert unpack(compress(small), size) == small


@each_format
def test_several_members(compress):
    members = [text(1000, 1), b"", text(200_000, 2), text(70, 3)]
    data = b"".join(map(compress, members))
    assert unpack(data) == unpack(data, 11) == b"".join(members)


def test_zstd_skippable_frames():
    data = SKIPPABLE + zstd(b"one") + SKIPPABLE + zstd(b"two") + SKIPPABLE
    assert unpack(data) == unpack(data, 1) == b"onetwo"
    assert code_of(data[:-1]) == "compressed_truncated"


def test_only_one_layer_is_taken_off():
    inner = gzip.compress(b"1 1:1\n")
    assert unpack(zstd(inner)) == inner


@each_format
def test_every_truncation_is_told(compress):
    data = compress(text(150))
    for end in range(1, len(data)):
        assert code_of(data[:end]) == "compressed_truncated"
        assert code_of(data[:end], 1) == "compressed_truncated"
        assert code_of(data + data[:end]) == "compressed_truncated"


@each_format
def test_a_flipped_bit_never_gives_other_data(compress):
    plain = text(150)
    data = compress(plain)
    codes = set()
    # Without its magic number it is another format, which is passed on as it is.
    for bit in range(8 * MAGIC_BYTES, 8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            assert unpack(bytes(damaged)) == plain
        except InputError as error:
            codes.add(error.code)
    assert codes - {"compressed_truncated", "trailing_data"} == {"compressed_corrupt"}


def alone(data):
    return lzma.compress(data, lzma.FORMAT_ALONE)


@pytest.mark.parametrize("compress", [*COMPRESSORS.values(), alone])
def test_trailing_data_is_refused(compress):
    data = compress(text(1000))
    zeros = () if compress is gzip.compress else (b"\x00", b"\x00" * 1001)
    for tail in (b"\n", b"1 1:1\n", b"\xff" * 5, b"\0\0\0\0\n", *zeros):
        assert code_of(data + tail) == code_of(data + tail, 1) == "trailing_data"


@pytest.mark.parametrize("zeros", [4, 512, 200_000])
@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_zeros_between_members_and_behind_them_are_passed_over(compress, zeros):
    data = compress(b"one") + bytes(zeros) + compress(b"two") + bytes(zeros)
    assert unpack(data) == unpack(data, 7) == b"onetwo"


def test_an_old_lzma_file_is_read_in_bounded_memory():
    data = alone(text(3000))
    assert unpack(data) == unpack(data, 1) == text(3000)
    for end in range(1, len(data), 7):
        assert code_of(data[:end]) == "compressed_truncated"
    assert code_of(data + data) == "trailing_data"
    large = lzma.compress(b"1", lzma.FORMAT_ALONE, filters=[{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 16}])
    assert code_of(large[:1] + (1 << 30).to_bytes(4, "little") + large[5:]) == "compressed_corrupt"


def test_members_of_another_format_are_trailing_data():
    assert code_of(gzip.compress(b"1") + bz2.compress(b"2")) == "trailing_data"


@each_format
def test_too_large(compress):
    data = compress(text(100_000))
    assert len(unpack(data, limits=InputLimits(max_bytes=100_000))) == 100_000
    assert code_of(data, limits=InputLimits(max_bytes=99_999)) == "decompressed_too_large"


def test_too_high_a_ratio_counts_from_64_mib_on():
    assert len(unpack(zstd(bytes(60 << 20)))) == 60 << 20
    assert code_of(zstd(bytes(70 << 20))) == "decompressed_too_large"


def test_a_window_too_large_is_refused():
    large = zstandard.ZstdCompressionParameters(window_log=28)
    compressor = zstandard.ZstdCompressor(compression_params=large).compressobj()
    assert code_of(compressor.compress(b"1 1:1\n") + compressor.flush()) == "compressed_corrupt"


def rle_bomb(blocks):
    """A zstd frame of RLE blocks: four bytes for each 128 KiB."""
    header = b"\x28\xb5\x2f\xfd\x00\x70"  # a window of 16 MiB, no checksum
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"0"
    return header + block * blocks + b"\x01\x00\x00"


def test_run_length_blocks():
    assert unpack(rle_bomb(100)) == unpack(rle_bomb(100), 1) == b"0" * (100 * (128 << 10))
    assert code_of(rle_bomb(8192)) == "decompressed_too_large"


# A slow compressor makes a smaller one, still far above the bound on memory.
BOMB_MEBIBYTES = {"gzip": 1024, "zstd": 1024, "rle": 1024, "bzip2": 150, "xz": 150, "lzma": 150}


def bomb(kind):
    """Many zeros, compressed in little memory."""
    if kind == "rle":
        return rle_bomb(8192)
    makers = {
        "gzip": lambda: zlib.compressobj(9, wbits=31),
        "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
        "bzip2": bz2.BZ2Compressor,
        "xz": lambda: lzma.LZMACompressor(preset=2),
        "lzma": lambda: lzma.LZMACompressor(lzma.FORMAT_ALONE, preset=2),
    }
    compressor = makers[kind]()
    return b"".join(compressor.compress(bytes(1 << 20)) for _ in range(BOMB_MEBIBYTES[kind])) + compressor.flush()


# VmHWM and not ru_maxrss, which a child inherits from the process that started it.
SCRIPT = """
import re, sys
from pathlib import Path
from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
data = sys.stdin.buffer.read()
limits = InputLimits(max_bytes=int(sys.argv[1]), max_ratio=float("inf"))
before = peak()
try:
    print(sum(len(piece) for piece in decompressed([data], limits)))
except InputError as error:
    print(error.code)
print(peak() - before)
"""


@pytest.mark.parametrize("kind", BOMB_MEBIBYTES)
def test_a_bomb_stays_small(kind):
    data = bomb(kind)
    for max_bytes, answer in ((100 << 20, "decompressed_too_large"), (1 << 40, str(BOMB_MEBIBYTES[kind] << 20))):
        command = [sys.executable, "-c", SCRIPT, str(max_bytes)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, input=data, env=environment, capture_output=True, check=True)
        told, growth = done.stdout.decode().split()
        assert told == answer
        assert int(growth) < 64 << 10
