"""Bytes of strangers, damaged or made to mean much: what reads them has limits, and their faults are not the service's.

MUTATIONS=100 damages each file as often.
"""

import gzip
import io
import lzma
import os
import resource

import numpy as np
import pyarrow
import pytest
import zstandard
from pyarrow import ipc, orc, parquet

from tests.api.app import Service, check_problem
from tests.raw_models import table_model

MUTATIONS = int(os.environ.get("MUTATIONS", "2"))
MOST_KIB = 400 << 10  # that bodies may take of this process, which is the service's
KINDS = ("parquet", "orc", "new_file", "new_stream")


def table(kind: str, rows: int, letters: int) -> bytes:
    """Columns for `table_model` with a long word, which is stored once."""
    numbers, file = np.arange(rows), io.BytesIO()
    word = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * letters])
    word = word.cast(pyarrow.string()) if kind == "orc" else word
    made = pyarrow.table({"label": numbers % 2, "size": numbers * 0.5, "proto": word, "flag": word})
    if kind == "parquet":
        parquet.write_table(made, file, compression="zstd")
    elif kind == "orc":
        orc.write_table(made, file, compression="zstd", dictionary_key_size_threshold=1.0)
    else:
        with getattr(ipc, kind)(file, made.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(made)
    return file.getvalue()


def npz() -> bytes:
    k = np.arange(9)
    np.savez(file := io.BytesIO(), data=k + 0.5, indices=k % 3, indptr=np.arange(10), shape=[9, 3], y=k % 2)
    return file.getvalue()


CSV = b"label,size,proto,flag\n" + b"".join(b"%d,%d.5,udp,S0\n" % (k % 2, k) for k in range(40))
FILES = {kind: table(kind, 40, 5) for kind in KINDS} | {"npz": npz(), "csv": CSV}
FILES |= {"gzip": gzip.compress(CSV), "zstd": zstandard.compress(CSV), "xz": lzma.compress(CSV)}
FILES["libsvm"] = b"".join(b"%d 1:%d.5 3:1\n" % (k % 2, k) for k in range(40))
FILES["json"] = b"".join(b'{"label":%d,"size":%d,"proto":"udp","flag":null}\n' % (k % 2, k) for k in range(40))
KEYS = b"".join(b'{"k%d":1,"label":0,"size":1,"proto":"","flag":""}\n' % k for k in range(12_000))


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with some of them changed to others, cut off, left out or repeated."""
    begin, end = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    some, at = rng.bytes(int(rng.integers(1, 9))), int(rng.integers(len(data)))
    ways = data[:at] + some + data[at + len(some) :], data[:end], data[:begin] + data[end:], data[:end] + data[begin:]
    return ways[rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]


@pytest.fixture(scope="module")
def send(tmp_path_factory):
    """Upload and predict a body; the status and the code of each answer."""
    service = Service(tmp_path_factory.mktemp("service"))
    model = service.add_model(service.add_dataset("data"), table_model())

    def both(body: bytes, query: str = "categorical=all"):
        for answer in (
            service.request("PUT", f"/v1/datasets/new?{query}", content=body),
            service.request("POST", f"/v1/models/{model}/predict", content=body),
        ):
            yield answer.status_code, "" if answer.is_success else check_problem(answer, answer.json()["code"])["code"]
        service.request("DELETE", "/v1/datasets/new")

    return both


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_read_or_refused(send, name):
    rng = np.random.default_rng([MUTATIONS, len(name)])
    for _ in range(MUTATIONS):
        body = damaged(FILES[name], rng)
        assert max(send(body, "" if name in ("libsvm", "npz") else "categorical=all"))[0] < 500, body


@pytest.mark.parametrize("kind", [*KINDS, "keys"])
def test_few_bytes_that_mean_gigabytes_are_read_as_few_or_refused(send, kind):
    body = KEYS if kind == "keys" else table(kind, *((1 << 16, 3_000) if kind == "orc" else (1 << 15, 30_000)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert {status for status, _ in send(body)} <= ({413, 422} if kind in ("orc", "keys") else {200, 201})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIB


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    return Service(tmp_path_factory.mktemp("named"), host="10.0.0.5", allowed_hosts=("svm.example.org", "API"))


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]", "LocalHost"])
def test_loopback_names(filled, host):
    assert filled.request("GET", "/v1/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["10.0.0.5:8000", "svm.example.org", "SVM.example.org:443", "api:8000", "localhost"])
def test_names_it_was_given(named, host):
    check_problem(named.request("GET", "/v1/jobs", headers={"Host": host}), "token_missing", 401)


FOREIGN = [
    "evil.example", "evil.example:8000", "localhost.evil.example", "evil.localhost", "127.0.0.1.evil.example",
    "svm.example.org.evil.example", "localhost@evil.example", "localhost:", ":8000", "localhost:80:80", "127.0.0.2",
    "::1", "",
]  # fmt: skip


@pytest.mark.parametrize("host", FOREIGN)
def test_foreign_names(filled, named, host):
    for asked in (filled, named):
        for url in ("/v1/jobs", "/v2/health/live", "/nowhere", "/login"):
            check_problem(asked.request("GET", url, headers={"Host": host}), "host_not_allowed", 421)
