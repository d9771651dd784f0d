"""Prints what every kernel and parser makes of small inputs: `python -m tests.contracts.digests`, by any Python."""

import hashlib

import numpy as np

from streamsvm.reader.errors import InputError
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.base import Parser
from streamsvm.reader.parsers.fasta import FastaParser
from streamsvm.reader.parsers.libsvm import LibsvmParser
from streamsvm.reader.parsers.tables.csv import CsvParser
from streamsvm.reader.parsers.text.parser import TextParser
from tests.contracts.kernels import compute
from tests.reader.parsers.test_libsvm import FAULTS, ODDITIES, near_ties
from tests.reader.parsers.test_text import ODD

TABLE = b'label,proto,x,seq\n1,tcp,0.1,ACGTN\n-1,"u,dp",1e-3,ttttt\n1,,,GGGGG\n2,"a""b",123456789.123456789,AC\n'
TABLES = (
    {"categorical": "proto,seq", "missing": "indicator"},
    {"categorical": "proto,seq", "missing": "zero", "categories": "hashed", "n_features": 7},
    {"categorical": "proto,seq"},
    {"string_column": "seq"},
    {"categorical": "all", "on_bad_row": "skip"},
)
FASTA = (
    b">a label=1\nACGTNACGTacgtnRYac\n\n>label=0.1\nACGTNACGTacgt\nnRYat\n>label=x\nA\n>label=2\nACX\nA\n",
    b"ACG\nNNT\nAC\n",
)
DOCUMENTS = "".join(f"{k}\t{ODD[k:]} plain words, and some more {ODD[:k]}\n" for k in range(0, 30, 3)).replace("\0", "")


def told(parser: Parser, text: bytes) -> bytes:
    """All rows, and what is said of them; or the error."""
    found = []
    try:
        for rows in parser.parse_chunks([text]):
            found += [rows.label, rows.indptr, rows.indices, rows.values]
    except InputError as error:
        return repr(error.problem()).encode()
    words = parser.words and parser.words.in_order().words
    said = parser.counters, parser.index_base, parser.max_index, parser.input, words
    faults = [fault.problem() for fault in parser.rejected.first]
    return b"".join(array.tobytes() for array in found) + repr((said, faults)).encode()


def of_parsers() -> dict[str, bytes]:
    """What the parsers with kernels of their own make of texts."""
    rng, limits, found = np.random.default_rng(3), InputLimits(), {}
    numbers = [[f"{3 * i}:{x:.{i}g}" for i, x in enumerate(rng.lognormal(0, 20, 20), 1)] for _ in range(20)]
    lines = [" ".join([repr(float(rng.standard_normal())), *pairs]) for pairs in numbers]
    lines += [f"1 1:{token}" for token in near_ties(20, 2) if float(token) < 3e38]
    lines += ["# comment", "", "2 1:0 7:123456789012345678901e-3 8:1e-70"]
    for text in ("\n".join(lines).encode(), *(text for text, *_ in (*ODDITIES, *FAULTS))):
        found[f"LIBSVM {text[:60]!r}"] = told(LibsvmParser(InputOptions(), limits, window_bytes=256), text)
    for given in TABLES:
        table = CsvParser(InputOptions("csv", **given), limits)
        table.window_bytes = 64
        found[f"table {given}"] = told(table, TABLE)
    for skip in ("skip", "fail"):
        for text in FASTA:
            fasta = FastaParser(InputOptions("fasta", on_bad_row=skip), limits, labelled=text.startswith(b">"))
            fasta.window_bytes = 64
            found[f"FASTA {skip} {text[:9]!r}"] = told(fasta, text)
    for analyzer in ("word", "char", "char_wb"):
        for n_features in (13, 1 << 20):
            options = InputOptions("text", analyzer=analyzer, ngram_range="1,3", n_features=n_features)
            found[f"documents {analyzer} {n_features}"] = told(TextParser(options, limits), DOCUMENTS.encode())
    return found


def digests() -> dict[str, str]:
    """A short name for what each kernel and parser makes."""
    return {name: hashlib.sha256(data).hexdigest()[:16] for name, data in (compute() | of_parsers()).items()}


if __name__ == "__main__":
    for name, digest in digests().items():
        print(digest, name)
