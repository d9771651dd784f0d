"""Files of a source as one input: each row is in one share, and errors name the file and the place in it."""

import gzip
import io
import json
from collections import Counter

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows
from streamsvm.reader.ingest.ranges import SourceInput, first_line
from streamsvm.reader.ingest.reading import Reading
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.sources.fetch import Share
from streamsvm.reader.sources.files import list_files
from streamsvm.storage.blocks.manifest import read_manifest
from tests.reader.ingest.test_run import run_command
from tests.refusals import refused

SVM = b"".join(b"%d 1:%d 3:0.5\n" % (k % 2, k + 1) for k in range(200))


def parts(folder, share=None, pattern="*"):
    return SourceInput(list_files([f"{folder}/{pattern}"]), InputLimits(), share or Share())


def rows_of(source, scratch, **options) -> Counter:
    reading = Reading(source, InputOptions(**options), InputLimits(), 1, scratch)
    found: Counter = Counter()
    try:
        for rows in reading.rows():
            texts = reading.names.names
            for k, (a, b) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
                label = texts[int(rows.label[k])] if texts else float(rows.label[k])
                weight = None if rows.weight is None else float(rows.weight[k])
                found[label, weight, rows.indices[a:b].tobytes(), rows.values[a:b].tobytes()] += 1
    except InputError as error:
        if error.code != "no_rows":
            raise
    return found


def of_shares(folder, scratch, of, stripe_bytes, **options) -> Counter:
    return sum((rows_of(parts(folder, Share(k, of, stripe_bytes)), scratch, **options) for k in range(of)), Counter())


def fill(folder, *texts):
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number, text in enumerate(texts):
        (folder / f"part-{number}").write_bytes(text)
    return folder


END = st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\n#c\n"])
LINE = st.tuples(st.integers(0, 1), st.lists(st.integers(1, 99), max_size=4, unique=True)).map(
    lambda row: b"%d" % row[0] + b"".join(b" %d:%d" % (k, k) for k in sorted(row[1]))
)
FILE = st.tuples(st.lists(st.tuples(LINE, END), max_size=8), st.booleans()).map(
    lambda file: b"".join(line + end for line, end in file[0]).rstrip(b"\r\n" if file[1] else b"")
)
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(st.lists(FILE, min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 60))
def test_shares_of_libsvm_text_are_the_whole(tmp_path, texts, of, stripe_bytes):
    folder = fill(tmp_path / "in", *texts)
    joined = b"".join(text + b"\n" for text in texts)
    whole = rows_of([joined], tmp_path, format="libsvm")
    assert rows_of(parts(folder), tmp_path, format="libsvm") == whole
    assert of_shares(folder, tmp_path, of, stripe_bytes, format="libsvm") == whole


@quick
@given(st.lists(st.lists(st.tuples(st.sampled_from(["a", "1", "bb"]), st.integers(0, 999)), max_size=6), min_size=1,
                max_size=4),
       st.booleans(), st.booleans(), st.integers(1, 4), st.integers(1, 40))  # fmt: skip
def test_shares_of_a_table_are_the_whole(tmp_path, tables, has_names, crlf, of, stripe_bytes):
    end = "\r\n" if crlf else "\n"
    head = f"\ufeffkind,x,y{end}" if has_names else ""
    bodies = ["".join(f"{kind},{number},{number % 7}{end}" for kind, number in rows) for rows in tables]
    folder = fill(tmp_path / "in", *((head + body).encode() for body in bodies))
    options = {"format": "csv", "label_column": "1", "label_type": "string", "header": "auto" if has_names else "no"}
    whole = rows_of([(head + "".join(bodies)).encode()], tmp_path, **options)
    assert rows_of(parts(folder), tmp_path, **options) == whole
    assert of_shares(folder, tmp_path, of, stripe_bytes, **options) == whole


def test_what_the_first_rows_say_holds_for_all_shares(tmp_path):
    """Rows with weights, and labels that are strings although some look like numbers."""
    weighted = b"1:2 1:1\n" + b"-1 2:1\n1:3 3:1\n" * 30
    folder = fill(tmp_path / "in", weighted)
    assert of_shares(folder, tmp_path, 3, 16) == rows_of([weighted], tmp_path)
    table = b"x,class\n1,ham\n" + b"2,12\n3,13\n" * 30
    folder = fill(tmp_path / "in", table)
    assert of_shares(folder, tmp_path, 3, 16) == rows_of([table], tmp_path)
    documents = b"ham\tsome good words\n" + b"7\tmore words of it\n8\twords and words\n" * 30
    folder = fill(tmp_path / "in", documents)
    assert of_shares(folder, tmp_path, 3, 32) == rows_of([documents], tmp_path)


def test_compressed_files_are_read_whole(tmp_path):
    folder = fill(tmp_path / "in", gzip.compress(SVM), SVM, gzip.compress(SVM.rstrip()))
    whole = rows_of([SVM * 3], tmp_path)
    assert rows_of(parts(folder), tmp_path) == whole == of_shares(folder, tmp_path, 2, 64)


def test_strings_and_records_over_several_lines_are_not_cut(tmp_path):
    fasta = b">a label=1\nACGT\nACGT\n>b label=-1\nAC\nGTACGT\n"
    folder = fill(tmp_path / "in", fasta.rstrip(), fasta)
    assert of_shares(folder, tmp_path, 3, 8) == rows_of([fasta * 2], tmp_path)
    table = b'label,text\n1,"two\nlines, of text"\n-1,one\n'
    folder = fill(tmp_path / "in", table, table)
    whole = rows_of([table + table.partition(b"\n")[2]], tmp_path, text_column="text")
    assert of_shares(folder, tmp_path, 3, 8, text_column="text") == whole


def npz(X, y):
    file = io.BytesIO()
    np.savez(file, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    return file.getvalue()


def parquet(**columns):
    file = io.BytesIO()
    pandas.DataFrame(columns).to_parquet(file)
    return file.getvalue()


def test_npz_and_parquet(tmp_path):
    X = sparse.random(30, 9, 0.4, "csr", np.float32, random_state=0)
    y = np.arange(30.0) % 2
    folder = fill(tmp_path / "in", npz(X[:10], y[:10]), npz(X[10:], y[10:]))
    whole = rows_of([npz(X, y)], tmp_path)
    assert rows_of(parts(folder), tmp_path) == whole == of_shares(folder, tmp_path, 2, 64)
    none = {"label": np.zeros(0), "a": np.zeros(0)}
    folder = fill(tmp_path / "in", parquet(label=[1, 0], a=[1.5, 2]), parquet(**none), parquet(label=[1], a=[3]))
    assert rows_of(parts(folder), tmp_path) == rows_of([parquet(label=[1, 0, 1], a=[1.5, 2, 3])], tmp_path)
    assert of_shares(folder, tmp_path, 2, 64) == rows_of(parts(folder), tmp_path)


def test_categories_of_parquet_go_on_from_file_to_file(tmp_path):
    tables = [{"label": [1, 0], "c": ["x", "y"]}, {"label": [1, 1], "c": ["z", "x"]}]
    folder = fill(tmp_path / "in", *(parquet(**table) for table in tables))
    one = parquet(label=[1, 0, 1, 1], c=["x", "y", "z", "x"])
    manifest = ingest(parts(folder), tmp_path / "several", InputOptions(categorical="all"))
    alone = ingest([one], tmp_path / "one", InputOptions(categorical="all"))
    assert (manifest.n_rows, manifest.n_features, manifest.input) == (4, 3, alone.input)
    assert manifest.labels == alone.labels and manifest.counters == alone.counters


@pytest.mark.parametrize("texts", [(b"1 1:1 2:1\n\n", b"-1 3:1\n\n"), (b"label,a\n1,1\n\n", b"label,a\n-1,2\n\n")])
def test_what_is_counted_is_counted_over_all_files(tmp_path, texts):
    counted = ingest(parts(fill(tmp_path / "in", *texts)), tmp_path / "data").counters
    assert counted == {"explicit_zeros": 0, "empty_rows": 0, "blank_lines": 2, "comment_lines": 0}


def test_a_dataset_is_made_of_all_files(tmp_path):
    folder = fill(tmp_path / "in", SVM, SVM, b"")
    manifest = ingest(parts(folder), tmp_path / "data")
    assert (manifest.n_rows, manifest.input_bytes, manifest.n_features) == (400, 2 * len(SVM), 3)
    manifest = append_rows(parts(folder, pattern="part-0"), tmp_path / "data", InputOptions(), InputLimits(), 1)
    assert manifest.n_rows == 600 and manifest == read_manifest(tmp_path / "data")


@pytest.mark.parametrize(
    ("texts", "share", "place"),
    [
        ([SVM, b"1 1:1\n\n1 2:x\n"], Share(), ("part-1", 3, 3, 9)),
        ([SVM, gzip.compress(b"1 1:1\nspam\n")], Share(), ("part-1", 2, 1, 6)),
        ([b"1 1:1\nspam\n", SVM], Share(), ("part-0", 2, 1, 6)),
        ([SVM, SVM + b"1 2:x\n"], Share(0, 1), ("part-1", 201, 3, len(SVM) + 2)),
        ([SVM + b"spam\n" + SVM], Share(1, 2, len(SVM) - 20), ("part-0", None, 1, len(SVM))),
        ([b"label,a\n1,2\n", b"label,a\n1,2\n1,x\n"], Share(), ("part-1", 3, 3, 14)),
        ([b"label,a\n1,2\n", b"\nlabel,b\n1,2\n"], Share(), ("part-1", 2, None, None)),
    ],
)
def test_a_fault_has_its_place_in_its_file(tmp_path, texts, share, place):
    folder = fill(tmp_path / "in", *texts)
    for options in ({}, {"on_bad_row": "skip"}):
        reading = Reading(parts(folder, share), InputOptions(**options), InputLimits(), 2, tmp_path)
        try:
            list(reading.rows())
            (at,) = [fault.problem()["at"] for fault in reading.rejected.first]
        except InputError as error:
            at = error.problem()["at"]
            assert str(error).startswith(f"{folder}/{place[0]}")
        assert at.pop("file") == str(folder / place[0])
        assert (at.get("line"), at.get("column"), at.get("byte")) == place[1:]


def test_faults_of_other_kinds_name_the_file(tmp_path):
    for texts, code in (
        ([SVM, gzip.compress(SVM)[:-9]], "compressed_truncated"),
        ([parquet(label=[1], a=[1]), parquet(label=[1], b=[1])], "columns_differ"),
        ([parquet(label=[1], a=[1]), SVM], "bad_parquet"),
        ([b"label,a\n1,2\n", b"label,c\n1,2\n"], "columns_differ"),
    ):
        folder = fill(tmp_path / "in", *texts)
        with pytest.raises(InputError) as caught:
            rows_of(parts(folder), tmp_path)
        assert (caught.value.code, caught.value.file) == (code, str(folder / "part-1"))


def test_a_file_that_changed_is_the_fault_of_what_was_read_of_it(tmp_path):
    folder = fill(tmp_path / "in", SVM, b"spam\n")
    found = parts(folder)
    (folder / "part-1").write_bytes(b"spax\n")
    with refused(InputError, "source_changed"):
        rows_of(found, tmp_path)


def test_all_together_are_held_to_the_limits(tmp_path):
    folder = fill(tmp_path / "in", SVM, SVM)
    limits = InputLimits(max_bytes=len(SVM) + 10)
    with refused(InputError, "decompressed_too_large"):
        ingest(SourceInput(list_files([f"{folder}/*"]), limits), tmp_path / "data", limits=limits)
    assert not (tmp_path / "data").exists()


def test_the_command(tmp_path):
    folder = fill(tmp_path / "in", SVM, SVM)
    sources = ("--source", f"{folder}/part-0", "--source", f"file://{folder}/part-1")
    done = run_command(tmp_path / "data", b"", *sources)
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (0, 400)
    done = run_command(tmp_path / "other", b"", "--source", f"{folder}/none*")
    problem = json.loads(done.stdout)["problem"]
    assert (done.returncode, problem["code"]) == (1, "source_empty") and problem["hint"]


@pytest.mark.parametrize(
    ("pieces", "line"),
    [
        ([b"\n\n", b"\n a,b\n1,2\n"], b" a,b\n"),
        ([b"\xef\xbb\xbf\nx"], b"x"),
        ([b"", b"\n"], b""),
        ([b"ab", b"c\n"], b"abc\n"),
    ],
)
def test_the_first_line_may_come_after_pieces_of_blank_ones(pieces, line):
    assert first_line(iter(pieces), 100) == line
