"""Options of an input, and what its content decides."""

import argparse
import gzip
from dataclasses import replace

import numpy as np
import pytest

from streamsvm.reader.errors import HINTS, InputError
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions, add_input_options, input_options
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.reader.parsers.sniff import recognise
from tests.contracts.problems import joined, stored_rows
from tests.refusals import refused


@pytest.mark.parametrize(
    ("head", "format_"),
    [
        (b"1 1:0.5 3:1\n", "libsvm"), (b"# 1,2\n\n1\t1:1\n", "libsvm"), (b"1\n-1\n", "libsvm"),
        (b"1,2 1:1,5\n", "libsvm"), (b"1 qid:3 1:1,1\n-7.5:0.5 3:x # weighted\n2\n", "libsvm"),
        (b"1 1:\x00\n-1 1:\x01\n", "libsvm"), (b"meet at 10:30\n", "csv"),
        (b"1 meet at 10:30\n1 1:2\nratio 3:4 today\n", "csv"), (b"2020-01-01 10:30,5\n", "csv"),
        (b"spam\n", "libsvm"), (b"", "libsvm"), (b"\xef\xbb\xbf1,2,3\n", "csv"), (b"a;b;c\r\n", "csv"),
        (b"1\t2\n", "csv"), (b"time,12:30,label\n", "csv"), (b"ORC,label\n1,2\n", "csv"),
        (b'{"a":1}\n{"a":2}', "jsonl"), (b'\xef\xbb\xbf\n {"a":1}\r\n', "jsonl"),
        (b'{"a":"' + b"x" * 65_530, "jsonl"), (b"{1}", "libsvm"), (b'[{"a":1}]', "libsvm"),
        (b"good 1:2 3:4\nbad 2:1\n", "libsvm"), (b">50K,1,2\n<=50K,3,4\n", "csv"), (b"<=50K,1,2\n", "csv"),
        (b"> a label=1\nACGT\n> b\nAC-X\n", "fasta"), (b"1 | 10:30 | a\n", "csv"), (b"<p>a, b</p>\n", "libsvm"),
        (b"PAR1\x15\x04", "parquet"), (b"PK\x03\x04\x14", "npz"),
    ],
)  # fmt: skip
def test_formats_are_told_by_their_content(head, format_):
    assert recognise(head) == format_


@pytest.mark.parametrize("text", ["1,2,3\n4,5,6\n".encode("utf-16"), bytes(range(256)) * 2], ids=["utf-16", "binary"])
def test_what_is_no_text_is_not_read_as_some(text):
    with refused(InputError, "unknown_format", match="no text"):
        recognise(text)


def test_options_survive_the_command_line():
    options = InputOptions("csv", 0, 7, "-1", "string", "w", "3", "s")
    options = replace(options, categorical="a,b", categories="hashed", missing="zero", delimiter="|", header="no")
    options = replace(options, normalize="row_l2", on_bad_row="skip", shuffle="no", text_column="2")
    options = replace(options, analyzer="char", ngram_range="1,3", alternate_sign="no", lowercase="no")
    options = replace(options, on_bad_text="replace", columns="1,a", drop_columns="-2")
    parser = argparse.ArgumentParser()
    add_input_options(parser)
    assert input_options(parser.parse_args(options.arguments())) == options
    assert input_options(parser.parse_args([])) == InputOptions()
    assert InputOptions().arguments() == []


@pytest.mark.parametrize("text", [b"label,a,b\n1,2,0\n-1,0,4\n", gzip.compress(b"1\t2\t0\n-1\t0\t4\n", mtime=0)])
def test_csv_becomes_a_dataset(tmp_path, text):
    manifest = ingest([text], tmp_path / "data")
    rows, _ = stored_rows(tmp_path / "data")
    assert sorted(zip(rows.label.tolist(), rows.indices.tolist(), rows.values.tolist(), strict=True)) == [
        (-1.0, 2, 4.0), (1.0, 1, 2.0),
    ]  # fmt: skip
    assert (manifest.n_features, manifest.index_base, manifest.n_rows, manifest.nnz) == (2, 1, 2, 2)


UNUSED = {
    "libsvm": (b"1 1:1\n", ["delimiter", "label_column", "label_type", "weight_column", "header", "columns",
                            "drop_columns", "ngram_range"]),
    "fasta": (b">x label=1\nACGT\n", ["index_base", "n_features", "normalize", "header", "columns", "drop_columns"]),
    "text": (b"1\tsome words\n", ["columns", "drop_columns"]),
    "csv": (b"1,2\n", ["analyzer"]),
}  # fmt: skip
VALUES = {
    "delimiter": ",", "label_type": "string", "header": "no", "ngram_range": "1,2", "n_features": 7, "index_base": 1,
    "normalize": "row_l2", "analyzer": "char",
}  # fmt: skip


@pytest.mark.parametrize(("format_", "option"), [(name, option) for name in UNUSED for option in UNUSED[name][1]])
def test_an_option_the_format_does_not_have(tmp_path, format_, option):
    options = InputOptions("auto" if format_ == "libsvm" else format_, **{option: VALUES.get(option, "1")})
    with refused(InputError, "option_unused") as caught:
        ingest([UNUSED[format_][0]], tmp_path / "data", options)
    assert caught.value.hint == HINTS["option_unused"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "base", "n_features"),
    [(b"1 1:1 5:1\n", "auto", 5), (b"1 1:1 5:1\n", 1, 5), (b"1 0:1 5:1\n", "auto", 6), (b"1 0:1 5:1\n", 0, 6),
     (b"1,2,3\n", "auto", 2), (b"1,2,3\n", 0, 2)],
)  # fmt: skip
def test_the_number_of_features_can_be_told(tmp_path, text, base, n_features):
    for wanted in (n_features, n_features + 3):
        told = ingest([text], tmp_path / f"{wanted}", InputOptions(index_base=base, n_features=wanted))
        assert told.n_features == wanted
    with refused(InputError, "too_many_features"):
        ingest([text], tmp_path / "less", InputOptions(index_base=base, n_features=n_features - 1))
    with pytest.raises(InputError):
        ingest([text], tmp_path / "beyond", InputOptions(n_features=10), InputLimits(max_features=9))


def test_rows_are_normalised_and_norms_told(tmp_path):
    text = b"1 1:3 2:4\n-1\n1 7:1\n"
    plain = ingest([text], tmp_path / "plain")
    assert (plain.normalize, plain.Qii_spread) == ("none", (0.0, 26.0, 25.0))
    unit = ingest([text], tmp_path / "unit", InputOptions(normalize="row_l2"))
    assert unit.normalize == "row_l2"
    assert unit.Qii_spread == pytest.approx((0.0, 2.0, 1.0))
    rows, _ = stored_rows(tmp_path / "unit")
    assert np.sort(rows.values).tolist() == [np.float32(0.6), np.float32(0.8), 1.0]


BAD = [
    (b"1 1:x\n", "bad_number"),
    (b"spam\n", "bad_label"),
    (b"1 2:1 1:1\n", "index_order"),
    (b"1 1:1e39\n", "row_overflow"),
    (b"1 1:1 2:1e400 3:1\n", "value_not_finite"),
    (b"1e999999\n", "bad_label"),
    (b"1 1:1e400 2:x\n", "value_not_finite"),
    (b"1 1:\xff\n", "bad_byte"),
]


@pytest.mark.parametrize("threads", [1, 3])
def test_bad_rows_of_libsvm_text_are_left_out_and_counted(threads):
    """Each bad row stands between good rows, some with numbers that the kernel cannot round."""
    good = b"2 1:0.1234567890123456789012 9:1e-60\n"
    text = b"".join(bad + good for bad, _ in BAD) + b"1 :1\n"
    for window_bytes in (64, 1 << 12):
        parser = LibsvmParser(
            InputOptions(on_bad_row="skip"), InputLimits(), threads, window_bytes=window_bytes, range_bytes=1
        )
        rows = joined(list(parser.parse_chunks([text])))
        assert rows.label.tolist() == [2.0] * len(BAD)
        assert rows.indices.tolist() == [1] * len(BAD)
        assert rows.values.tolist() == [np.float32(0.1234567890123456789012)] * len(BAD)
        assert (parser.rows, parser.nnz, parser.rejected.rows) == (len(BAD), len(BAD), len(BAD) + 1)
        expected = [(code, 2 * k + 1) for k, (_, code) in enumerate(BAD)]
        assert [(found.code, found.line) for found in parser.rejected.first][: len(BAD)] == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_with_bad_weights_are_left_out_with_their_weights(threads):
    bad = [b"1:-1", b"1:nan", b"1:1e999", b"1:", b"x:1", b"1:1e39"]
    text = b"".join(b"2:%d 1:1\n%s 1:1\n" % (k, token) for k, token in enumerate(bad))
    parser = LibsvmParser(InputOptions(on_bad_row="skip"), InputLimits(), threads, window_bytes=64, range_bytes=1)
    assert joined(list(parser.parse_chunks([text]))).weight.tolist() == [0, 1, 2, 3, 4, 5]
    assert [fault.line for fault in parser.rejected.first] == [2, 4, 6, 8, 10, 12]


def test_a_line_of_many_bad_numbers_is_left_out_once():
    text = b"1 " + b" ".join(b"%d:1e400" % k for k in range(5000)) + b"\n1 1:1\n"
    parser = LibsvmParser(InputOptions(on_bad_row="skip"), InputLimits())
    assert len(joined(list(parser.parse_chunks([text])))) == 1
    assert parser.rejected.rows == 1


def test_rejected_rows_are_in_the_manifest(tmp_path):
    manifest = ingest([b"1 1:1\n1 x\n-1 2:1\n"], tmp_path / "data", InputOptions(on_bad_row="skip"))
    assert (manifest.n_rows, manifest.rejected_rows) == (2, 1)
    assert manifest.rejected[0]["code"] == "bad_pair"
    assert manifest.rejected[0]["at"]["line"] == 2


def test_nothing_but_bad_rows(tmp_path):
    for text in (b"x\ny\n", b"1,inf\n1,y\n"):
        with refused(InputError, "no_rows"):
            ingest([text], tmp_path / "data", InputOptions(on_bad_row="skip"))
    assert list(tmp_path.iterdir()) == []
