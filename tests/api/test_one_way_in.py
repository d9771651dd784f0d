"""An input is the same by every way in: archives and compressions are read, files of other programs refused by name."""

import gzip
import io
import json
import pickle
import re
import sqlite3
import struct
import subprocess
import tarfile
import zipfile
import zlib

import numpy as np
import pandas
import pytest
import scipy.io
import sklearn.datasets

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.predictions.file_rows import predictions_of_files
from tests.api.app import Service, some_model
from tests.api.test_imports import wait_for_state

TEXT = b"1 1:0.5 3:1\n-1 2:1\n1 4:2\n"
HALF = TEXT[:15], TEXT[15:]
BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")


class Pipe(io.BytesIO):
    """Zip archives are written to it with descriptors behind the data."""

    def seek(self, *_):
        raise OSError


def archive(names, method=zipfile.ZIP_DEFLATED, file_of=io.BytesIO):
    """A zip archive that has TEXT in files that end with .svm."""
    with zipfile.ZipFile(file := file_of(), "w", method) as written:
        for name in names:
            written.writestr(name, TEXT if name.endswith(".svm") else b"" if name.endswith("/") else bytes(90))
    return file.getvalue()


def bgzf(data):
    packed = zlib.compressobj(wbits=-15)
    packed = packed.compress(data) + packed.flush()
    head = struct.pack("<BBBBIBBHBBHH", 31, 139, 8, 4, 0, 0, 255, 6, 66, 67, 2, len(packed) + 25)
    return head + packed + struct.pack("<II", zlib.crc32(data), len(data))


MAC = ["data/", "data/a.svm", "__MACOSX/", "__MACOSX/data/", "__MACOSX/data/._a.svm"]
READ = {
    "zip of macOS": archive(MAC),
    "zip of Windows": archive(["Thumbs.db", "x/a.svm", "x/Desktop.ini"], zipfile.ZIP_STORED),
    "zip through a pipe": archive([".DS_Store", "._a.svm", "x/", "x/a.svm", "x/.DS_Store"], file_of=Pipe),
    "bgzip": BGZF_END.join([*map(bgzf, HALF), b""]),
}


MEMBER, ARRAY = tarfile.TarInfo("a.svm"), io.BytesIO()
MEMBER.size = len(TEXT)
TAR = MEMBER.tobuf() + TEXT + bytes(1536 - len(TEXT))
ARFF = b"% a comment\n\n@RELATION t\n@attribute label {0,1}\n@attribute a numeric\n@data\n1,2.5\n0,3\n"
RECORDS = [{"label": 1, "a": 0.5}, {"label": 0, "a": 2}]
FRAME = pandas.DataFrame(RECORDS)
np.save(ARRAY, FRAME.to_numpy())
# The file, the code, a word of the message, and the beginning of the line that converts it.
REFUSED = {
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS", "git lfs pull"),
    "ARFF": (ARFF, "ARFF", "pandas."),
    "Matrix Market": (b"%%MatrixMarket matrix array real general\n2 2\n1\n0\n0\n1\n", "Matrix Market", "sklearn."),
    "tar": (TAR, "tar", "tar -xf"),
    "tar.gz": (gzip.compress(TAR), "tar", "tar -xf"),
    "SQLite": (b"SQLite format 3\0" + bytes(100), "SQLite", "pandas."),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5", "pandas."),
    "Excel": (archive(["[Content_Types].xml", "xl/workbook.xml"]), "workbook", "pandas."),
    "pickle": (pickle.dumps(FRAME), "pickle", "pandas."),
    "old pickle": (pickle.dumps(FRAME, 2), "pickle", "pandas."),
    "NumPy": (ARRAY.getvalue(), "numpy", "numpy."),
    "records": (json.dumps(RECORDS).encode(), "array of records", "python -c"),
    "pretty records": (json.dumps(RECORDS, indent=1).encode(), "array of records", "python -c"),
    "pretty JSON": (json.dumps(RECORDS[0], indent=1).encode(), "JSON", "jq"),
    "fastText": (b"__label__a some words here\n__label__b and, of more\n", "fastText", "sed"),
    "Vowpal Wabbit": (b"1 | price:.23 age:.4\n-1 |f price:.1\n", "Vowpal Wabbit", "make LIBSVM text"),
    "NaN": (b'{"label": 1, "a": NaN}\n{"label": 0, "a": 1}\n', "no JSON", "sed -E"),
    "UTF-16": (TEXT.decode().encode("utf-16"), "UTF-16", "iconv"),
    "two files": (archive(["a.svm", "b.svm"]), "'a.svm' and 'b.svm'", "unzip FILE"),
    "no file": (archive([]), "without a file", "zip FILE"),
    "folders": (archive(["a/", "a/.DS_Store"]), "without a file", "zip FILE"),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with a directory to import from, and a model."""
    directory = tmp_path_factory.mktemp("ways")
    for name in ("import", "data"):
        (directory / name).mkdir()
    service = Service(directory / "data", import_dir=directory / "import")
    service.url = f"/v1/models/{service.add_model(service.add_dataset('data'), some_model())}/predict"
    return service


@pytest.fixture
def inputs(service):
    """The service, and the file that it imports; what a test makes of it goes with the test."""
    yield service, service.settings.import_dir / "input.svm"
    for name in ("d", "e"):
        service.request("DELETE", f"/v1/datasets/{name}")


@pytest.mark.parametrize("data", READ.values(), ids=READ)
def test_what_is_packed_is_read_by_every_way_in(inputs, data):
    service, file = inputs
    file.write_bytes(data)
    uploaded = service.request("PUT", "/v1/datasets/d", content=data).json()
    service.request("PUT", "/v1/datasets/e?import=input.svm")
    for shown in (uploaded, wait_for_state(service, "e", "ready")):
        assert (shown["rows"], shown["non_zeros"], shown["label_counts"]) == (3, 4, {"1": 2, "-1": 1})
    expected = service.request("POST", service.url, content=TEXT).json()
    assert service.request("POST", service.url, content=data).json() == expected
    (found,) = predictions_of_files(Predictor(some_model()), [str(file)], InputOptions())
    assert found.decision_values.tolist() == [each["decision_value"] for each in expected["predictions"]]
    for size in (1, 50):
        assert b"".join(decompressed([data[k : k + size] for k in range(0, len(data), size)], InputLimits())) == TEXT


@pytest.mark.parametrize(("data", "word", "line"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_read_is_refused_by_its_name_by_every_way_in(inputs, data, word, line):
    service, file = inputs
    file.write_bytes(data)
    problems = [service.request("PUT", "/v1/datasets/d", content=data).json()]
    if data[:2] != b"{\n":  # a body of JSON has rows of its own
        problems.append(service.request("POST", service.url, content=data).json())
    service.request("PUT", "/v1/datasets/e?import=input.svm")
    problems.append(wait_for_state(service, "e", "failed")["failure"])
    with pytest.raises(InputError) as caught:
        list(predictions_of_files(Predictor(some_model()), [str(file)], InputOptions()))
    problems.append(caught.value.problem())
    for problem in problems:
        assert word in problem["detail"] and line in problem["hint"], problem


def test_the_line_of_a_hint_converts_the_file(tmp_path):
    names = {"pandas": pandas, "numpy": np, "scipy": scipy, "sklearn": sklearn, "sqlite3": sqlite3, "y": [1, -1]}
    with sqlite3.connect(tmp_path / "SQLite") as base:
        FRAME.to_sql("t", base, index=False)
    base.close()
    for name in ("ARFF", "Matrix Market", "SQLite", "pickle", "NumPy", "records", "fastText", "NaN", "UTF-16", "tar"):
        file = tmp_path / name.replace(" ", "")
        if name != "SQLite":
            file.write_bytes(REFUSED[name][0])
        with pytest.raises(InputError) as caught:
            ingest([file.read_bytes()], tmp_path / "refused")
        line = re.search(rf"{REFUSED[name][2]}.*?(?=; or|$)", caught.value.hint)[0].replace("FILE", str(file))
        if line.startswith(("pandas", "numpy", "sklearn")):
            exec(line, dict(names))
        else:
            subprocess.run(line, shell=True, check=True, cwd=tmp_path)
        made = tmp_path / "a.svm" if name == "tar" else next(tmp_path.glob(f"{file.name}.*"))
        found = ingest(
            [made.read_bytes()], tmp_path / f"{file.name}-data", InputOptions(missing="zero") if name == "NaN" else None
        )
        assert found.n_rows == (3 if name in ("UTF-16", "tar") else 2)
