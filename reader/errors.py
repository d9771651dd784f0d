"""The exception for inputs that cannot be read: it has a stable code and a hint (HINTS). `Rejected` counts bad rows."""

from collections.abc import Callable
from typing import Any

EXCERPT = 40
_BYTES_A_CHARACTER = 4  # most bytes of a character in UTF-8
MOST_SHOWN = 10  # most rejected rows whose faults are kept

HINTS = {
    "bad_arrow": "write the file again, close its writer, and compare checksums after the transfer",
    "bad_batch": "write shape, y, indptr, indices, data and weight of each batch with numpy.save, in this order",
    "bad_byte": "the text must be ASCII; lines end with LF or CRLF",
    "bad_delimiter": "set delimiter to a character, or to tab, comma, semicolon, pipe or space",
    "bad_index": "a feature index is written with digits only",
    "bad_label": "every line starts with a finite number, the label",
    "bad_ngram_range": "write two numbers, such as 1,2: the least and the most words of an n-gram",
    "bad_npz": "write data, indices, indptr and shape of a CSR matrix of scipy, and the labels as y, by numpy.savez",
    "bad_number": "write plain decimal numbers, such as -1.5 or 2e-3",
    "bad_orc": "write the file again, and compare checksums after the transfer",
    "bad_pair": "after the label come index:value pairs, without blanks around the colon",
    "bad_parquet": "write the file again, and compare checksums after the transfer",
    "bad_quote": "quote whole fields, on one line, and write a quote inside them twice; only a column of documents, "
    "text_column, may have quotes and lines of its own",
    "bad_weight": "begin rows with label:weight, a weight that is finite and not below 0",
    "batch_too_large": "write batches of some 100,000 rows, or without compression",
    "categorical_missing": "set categorical to names or numbers of columns between commas, or to all",
    "columns_differ": "give all tables of a dataset the same columns, in any order, or leave others out: drop_columns",
    "columns_missing": "set columns to names or numbers of columns between commas",
    "column_ambiguous": "count the column from the end: -1 is the last",
    "column_count": "every line must have as many columns as the first",
    "column_missing": "give every column that the model, or the dataset, was made of",
    "column_type": "change the type of the column, or name another one: labels are numbers or strings, weights numbers",
    "compressed_corrupt": "compress the data again and compare checksums after the transfer",
    "compressed_truncated": "the transfer or the compressor was cut short: send the whole file",
    "decompressed_too_large": "split the data, or raise the limit of the service",
    "delimiter_mismatch": "set delimiter to the character between the columns",
    "drop_columns_missing": "set drop_columns to names or numbers of columns between commas",
    "duplicate_column": "say header=no if the first line is a row, not names, and label_column=-1 if its "
    "last column has the label; else give every column a name of its own",
    "empty_sequence": "give every record a sequence, or remove it",
    "group_column_missing": "set group_column to a name, or a number: 1 is the first column, -1 the last",
    "header_differs": "columns are matched by name: give all tables a line of names, or none of them",
    "header_unclear": "say header=yes if the first line names the columns, header=no if it is a row",
    "index_duplicate": "give each feature once a row",
    "index_order": "sort the features of each row by index",
    "index_too_large": "feature indices are below 2147483648",
    "index_zero": "indices start at 0 in this file: set index_base=0",
    "input_mismatch": "add rows of the dataset's kind, or make a dataset of their own",
    "keep_missing": "name columns of the input in keep; 1 is the first column, -1 the last",
    "keep_no_columns": "keep columns of tables; other formats have no columns with names",
    "keep_type": "give a column that is kept one type in all files",
    "labels_alike": "write labels in one way in all files, or change the type of the column",
    "label_column_missing": (
        "set label_column to a name, or a number: 1 is the first column, -1 the last; header=no if the first line is a "
        "row, not names"
    ),
    "label_missing": "begin a document's line with its label and a tab; a FASTA header has its label as in the README",
    "label_not_exact": "numbers have 53 bits: set label_type=string for classes, or write a target as 1.7e18",
    "label_too_long": "labels that are strings have up to 256 characters: encode them",
    "label_type": "add rows whose labels are of the type of the dataset's, or make a dataset of their own",
    "late_key": "give one of the first objects all keys, null where a value is missing",
    "line_too_long": "one row is one line; check that the file has line feeds",
    "missing_value": (
        "fill in missing values, or leave the rows out; when data are read in, missing=zero, missing=indicator or "
        "on_bad_row=skip do that"
    ),
    "multilabel": "give one label a row; multi-label data is not supported",
    "negative_weight": "a weight is finite and not below 0; 0 leaves a row out of training",
    "nested_value": "give each key a number, a string, true, false or null",
    "no_documents": "give rows of the kind that the model was trained on; only a model of documents takes texts",
    "no_rows": "check that this is the right file, and that it has a line for each row",
    "no_header": "begin each record with a line that begins with >",
    "not_a_base": "strings have the letters A, C, G and T, and N and its like where a base is not known",
    "not_json": "write an object a line, in UTF-8; JSON has no NaN: write null, "
    r"sed -E 's/: *-?(NaN|Infinity)\b/: null/g' FILE > FILE.jsonl",
    "not_numeric": "write plain decimal numbers, such as -1.5 or 2e-3",
    "not_text": "write text in UTF-8, or set on_bad_text=replace",
    "not_utf8": "write text in UTF-8, or set encoding=windows-1252 if an older program of Western Europe wrote it",
    "option_range": "the README lists the options of an input",
    "option_unused": "leave the option out, or set format",
    "qid_unsupported": "ranking data is not supported: remove the qid column",
    "row_overflow": "values are kept as float32: scale the feature down",
    "same_column": "name different columns for labels, weights and groups",
    "several_files": "predict several files into a file of columns: -o out.csv, .ndjson or .parquet",
    "source_changed": "read the file in again when no program writes to it any more",
    "source_credentials": "set credentials in the environment, such as AWS_ACCESS_KEY_ID; write scheme://bucket/key",
    "source_denied": "set credentials that may read the file, in the environment of the program that reads it: "
    "AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_CONNECTION_STRING",
    "source_empty": "check the pattern: * matches any characters within a folder, ** matches folders, too",
    "source_invalid": "write scheme://bucket/key, without the steps . and .., or file:///folder/file",
    "source_is_folder": "name a file, or the files of a folder by a pattern: folder/*",
    "source_not_found": "check the bucket and the key, and where the store is (of S3: AWS_ENDPOINT_URL)",
    "source_scheme": "there are s3://, gs://, az:// and file://; what HTTP gives: curl -L URL | streamsvm train -",
    "source_unavailable": "check the network and where the store is (of S3: AWS_ENDPOINT_URL), and try again",
    "string_column_missing": "set string_column to a name, or a number: 1 is the first column, -1 the last",
    "string_length": "cut all strings to the same length around the site of interest",
    "too_large_to_read": "write smaller batches and shorter values, or less data; rows of few values as LIBSVM text",
    "too_many_categories": "leave out columns that identify rows, such as ids, or set categories=hashed",
    "text_column_missing": "set text_column to a name, or a number: 1 is the first column, -1 the last",
    "too_many_columns": "write rows as LIBSVM text, which lists only values that are not 0",
    "too_many_features": "hash the features to fewer, or raise the limit of the service",
    "too_many_labels": "set label_column to the column with the classes; for numbers, label_type=number",
    "trailing_data": "remove what stands behind the compressed data",
    "unknown_option": "the README lists the options of an input",
    "unknown_format": "send LIBSVM text, CSV, JSON lines, Parquet, Arrow, ORC, npz or FASTA, plain or compressed with "
    "gzip, bzip2, xz, lzma or zstd",
    "no_weight": "give at least one row a weight above 0",
    "weight_column_missing": "set weight_column to a name, or a number: 1 is the first column, -1 the last",
    "value_not_finite": "leave out missing values, or replace them by a number",
}


class InputError(Exception):
    """The input cannot be read.

    line, column  position of the fault, counted from 1; None: unknown
    byte          offset of the fault in the decompressed text; None: unknown
    file          URL or path of the file with the fault; `line` is None if the file was not read from its beginning
    hint          advice to the user; by default the code's entry in HINTS
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
        byte: int | None = None,
        file: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = HINTS.get(code, "") if hint is None else hint
        self.line = line
        self.column = column
        self.byte = byte
        self.file = file

    @property
    def where(self) -> str:
        """The file and line of the fault, with a colon, to begin a message: "FILE, line 3: "; "" if unknown."""
        if self.line is not None:
            place = f"line {self.line}"
        else:
            place = f"byte {self.byte}" if self.file is not None and self.byte is not None else ""
        where = ", ".join(filter(None, (self.file, place)))
        return f"{where}: " if where else ""

    def __str__(self) -> str:
        return f"{self.where}{self.message} [{self.code}]"

    def problem(self) -> dict[str, Any]:
        """Return the error as a JSON object: code, detail, hint, and `at` with line, column, byte and file if known."""
        places = {"line": self.line, "column": self.column, "byte": self.byte, "file": self.file}
        at = {name: place for name, place in places.items() if place is not None}
        return {"code": self.code, "detail": self.message, "hint": self.hint, "at": at}

    @classmethod
    def of(cls, problem: dict[str, Any]) -> "InputError":
        """Return the error that `problem` has turned into a JSON object, in another process."""
        return cls(problem["code"], problem["detail"], hint=problem["hint"], **problem["at"])


class Rejected:
    """Raises the fault of a row that cannot be read, or with `skip` counts the row, which is then left out.

    rows   number of rows left out so far
    first  faults of the first MOST_SHOWN rows left out, in the order of the input
    """

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.rows = 0
        self.first: list[InputError] = []

    def add(self, fault: Callable[[], InputError]) -> None:
        """Reject a row. `fault` makes the row's error; it is slow, and called only if the error is raised or shown."""
        if not self.skip:
            raise fault()
        self.rows += 1
        if len(self.first) < MOST_SHOWN:
            self.first.append(fault())

    def join(self, following: "Rejected", placed: Callable[[InputError], InputError] = lambda fault: fault) -> None:
        """Add the rejected rows of what follows in the input; `placed` changes the place of a fault."""
        self.rows += following.rows
        self.first += map(placed, following.first[: MOST_SHOWN - len(self.first)])

    def no_rows(self, message: str) -> InputError:
        """The error of an input without a row that can be read."""
        return InputError("no_rows", message + " that can be read" * bool(self.rows))


def excerpt(data: bytes | bytearray) -> str:
    """Return at most 40 characters of `data`, in quotes, for a message; ? replaces bytes that UTF-8 cannot print."""
    text = bytes(data[: _BYTES_A_CHARACTER * EXCERPT]).decode(errors="replace")
    text = "".join(letter if letter.isprintable() and letter != "\ufffd" else "?" for letter in text)
    is_whole = len(text) <= EXCERPT and len(data) <= _BYTES_A_CHARACTER * EXCERPT
    return f"'{text}'" if is_whole else f"'{text[: EXCERPT - 3]}...'"


def too_large_to_read(most_bytes: int) -> InputError:
    """Return the error for an input that would need more than `most_bytes`, the memory that its process may have."""
    return InputError("too_large_to_read", f"reading the input takes more than {most_bytes >> 20} MiB of memory")
