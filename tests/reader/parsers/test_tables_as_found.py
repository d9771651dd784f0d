"""Tables of text as people have them: blanks, remarks before the names, decimal commas, Windows-1252, zip archives."""

import io
import zipfile

import numpy as np
import pytest

from streamsvm import StreamSVC
from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.decompress import decompressed
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions, options_from
from streamsvm.reader.parsers.sniff import recognise
from streamsvm.reader.parsers.tables.csv import CsvParser
from tests.contracts.problems import joined
from tests.refusals import refused

PLAIN = "label,a,b\n0,1.5,-2\n1,0.25,3e2\n"
EXPECTED = [[1.5, -2.0], [0.25, 300.0]]
WAYS = {
    "blanks": ("  label   a  b\n 0   1.5  -2\n1  0.25 \t 3e2  \n", {}),
    "blanks said": ("label a b\n0  1.5 -2\n1 0.25   3e2\n", {"delimiter": "space"}),
    "separator": ("sep=;\r\nlabel;a;b\r\n0;1.5;-2\r\n1;0.25;3e2\r\n", {}),
    "remarks": ("# exported 2021\n# by a program, with commas, many\nlabel,a,b\n0,1.5,-2\n1,0.25,3e2\n", {}),
    "decimal comma": ("label;a;b\n0;1,5;-2\n1;0,25;3,0e2\n", {"decimal": "comma"}),
    "in quotes": ('label,a,b\n0,"1,5","-2"\n1,"0,25","3,0e2"\n', {"decimal": "comma"}),
}


def parsed(data: bytes, pieces: int, **options):
    parser = CsvParser(InputOptions("csv", **options), InputLimits())
    chunks = [data[k : k + pieces] for k in range(0, len(data), pieces)]
    return parser, joined(list(parser.parse_chunks(chunks)))


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_rows_are_those_of_the_plain_table(way, pieces):
    text, options = way
    parser, rows = parsed(text.encode(), pieces, **options)
    assert rows.label.tolist() == [0, 1] and rows.values.reshape(2, 2).tolist() == EXPECTED
    assert parser.input["columns"] == ["a", "b"] and recognise(text.encode()) == "csv"


def test_names_in_Windows_1252_are_told_apart():
    data = "label,Größe,Grüße\n0,1,2\n1,3,4\n".encode("cp1252")
    parser, _ = parsed(data, 1000, encoding="windows-1252")
    assert parser.input["columns"] == ["Größe", "Grüße"]
    with pytest.raises(InputError) as caught:
        parsed(data, 1000)
    assert caught.value.code == "not_utf8" and "encoding=windows-1252" in caught.value.hint


def test_a_line_of_names_may_begin_with_a_hash():
    parser, rows = parsed(b"#id,label,a\n7,0,1\n8,1,2\n", 1000)
    assert parser.input["columns"] == ["#id", "a"] and len(rows) == 2


def archive(files: dict[str, str], method=zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as written:
        for name, text in files.items():
            written.writestr(name, text)
    return file.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize("pieces", [1, 100, 1 << 20])
def test_the_file_of_an_archive_is_read(pieces, method):
    data = archive({"folder/train.csv": PLAIN * 1000}, method)
    chunks = [data[k : k + pieces] for k in range(0, len(data), pieces)]
    assert b"".join(decompressed(chunks, InputLimits())) == (PLAIN * 1000).encode()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (archive({"a.csv": PLAIN}, zipfile.ZIP_LZMA), "compressed_corrupt"),
        (archive({"a.csv": PLAIN})[:-90], "compressed_truncated"),
        (archive({"a.csv": PLAIN}).replace(b"PK\x01\x02", b"PK\x01\x03"), "compressed_corrupt"),
    ],
    ids=["LZMA", "cut", "no directory"],  # archives have the time in them
)
def test_other_archives_say_what_they_are(data, code):
    with refused(InputError, code):
        list(decompressed([data], InputLimits()))


def test_npz_is_no_archive_of_a_table():
    file = io.BytesIO()
    np.savez(file, shape=np.array([1, 2]))
    assert b"".join(decompressed([file.getvalue()], InputLimits())) == file.getvalue()


def test_estimators_predict_files_written_as_those_of_training(tmp_path):
    text = "label;größe;b\n" + "".join(f"{k % 2};{k % 2},5;-{k},25\n" for k in range(20))
    (tmp_path / "t.csv").write_bytes(text.encode("cp1252"))
    options = {"decimal": "comma", "encoding": "windows-1252", "columns": ["größe"]}
    model = StreamSVC(C=10, input_options=options).fit(tmp_path / "t.csv", "label")
    assert model.feature_names_in_.tolist() == ["größe"] and model.score(tmp_path / "t.csv") == 1.0


@pytest.mark.parametrize("name", ["latin1", "Latin-1", "ISO-8859-1", "cp1252", "ansi", "windows-1252"])
def test_an_encoding_has_many_names(name):
    assert InputOptions("csv", encoding=name).encoding == "windows-1252"
    assert options_from({"encoding": name}).encoding == "windows-1252"


def test_other_encodings_are_refused_by_name():
    assert options_from({"encoding": "UTF8"}).encoding == "utf-8"
    with pytest.raises(InputError) as caught:
        options_from({"encoding": "shift_jis"})
    assert caught.value.code == "option_range" and "'shift_jis'" in caught.value.message
