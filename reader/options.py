"""The options of an input, each described once: for the command line, queries, the form, the README, and Python."""

import argparse
import codecs
import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from streamsvm.reader.errors import InputError
from streamsvm.storage.options import Option, default_words, option, options_of, plain, without_null

# Equal to the keys of parsers.READERS, a module that is slow to import.
FORMATS = ("libsvm", "csv", "tsv", "jsonl", "parquet", "arrow", "orc", "npz", "batches", "fasta", "dna", "text")
# Formats of tables that pyarrow reads, and not from front to back.
STORED_TABLES = ("parquet", "arrow", "orc")
TABLES = ("csv", "tsv", "jsonl", *STORED_TABLES)
OF_FRAMES = "frames"  # the format, streams of Arrow, in which programs on this machine (the Python package) pass rows
OTHER_NAMES = {"dna": "fasta"}
IndexBase = Literal["auto", 0, 1]
LabelType = Literal["auto", "number", "string"]
_ENCODINGS = {
    "utf-8": "utf-8", "utf-8-sig": "utf-8", "ascii": "utf-8", "cp1252": "windows-1252", "iso8859-1": "windows-1252",
    "ansi": "windows-1252",
}  # fmt: skip
_YesOrNo = Literal["yes", "no"]
_COLUMN: dict[str, Any] = {"min_length": 1, "max_length": 1000}
_COLUMNS: dict[str, Any] = {"min_length": 1, "max_length": 10_000}


def index_base(word: str) -> IndexBase:
    """Turn "0" and "1" of a command line or a query into the numbers 0 and 1; return any other word unchanged."""
    bases: dict[str, Any] = {"0": 0, "1": 1}
    return bases.get(word, word)


def yes_or_no(given: Any) -> Any:
    """Turn true, 1 and True into "yes", and false, 0 and False into "no"; return any other value unchanged."""
    return {"true": "yes", "1": "yes", "false": "no", "0": "no"}.get(str(given).lower(), given)


def encoding(given: Any) -> Any:
    """Return the option's value for any name of an encoding, such as cp1252 or utf8; return unknown names unchanged.

    ISO-8859-1 becomes Windows-1252, as in browsers: the two differ only in bytes that texts do not have.
    """
    try:
        return _ENCODINGS.get(codecs.lookup(str(given)).name, given)
    except LookupError:
        return _ENCODINGS.get(str(given).lower(), given)


@dataclass(frozen=True)
class InputOptions:
    """The options that say how to read an input. `columns`, `drop_columns` and `categorical` may be lists in Python.

    like     set by the program: the `Manifest.input` of a dataset or model that the rows must fit; {} if this dataset
             or model has numbered features, None if rows need not fit one
    trained  set by the program: the `input` of a model that is evaluated on the rows, which make a dataset; else None
    """

    format: Literal[("auto", *FORMATS)] = option("auto", "the format; auto: by content")  # type: ignore[valid-type]
    index_base: IndexBase = option(
        "auto", "number of the first feature, 0 or 1; auto, of LIBSVM text: 0 if an index 0 occurs",
        read=index_base, label="First feature is number",
    )  # fmt: skip
    n_features: int | None = option(
        None, "the number of features; more are refused; documents are hashed to this number, else to 2^20; "
        "null: as many as come", label="Features", ge=1,
    )  # fmt: skip
    label_column: str | None = option(
        None, "of tables: the column of labels, by name or number: 1 is the first, -1 the last; else `label`, "
        "`y`, `target` or `class`, or the first if names are numbers or there are none; null: found out",
        **_COLUMN,
    )  # fmt: skip
    label_type: LabelType = option(
        "auto", "of tables: `number` or `string`; auto: as the first label is", label="Labels are"
    )
    weight_column: str | None = option(None, "of tables: the column of weights; null: none", **_COLUMN)
    group_column: str | None = option(None, "of tables: the column of groups; null: none", **_COLUMN)
    string_column: str | None = option(
        None, "of tables: the column of strings of bases; it alone makes features; null: none",
        label="Column of strings of bases", **_COLUMN,
    )  # fmt: skip
    columns: str | None = option(
        None, "of tables: columns that make features, between commas; null: all others",
        label="Columns that make features", **_COLUMNS,
    )  # fmt: skip
    drop_columns: str | None = option(
        None, "of tables: columns that make no features, between commas; null: none",
        label="Columns left out", **_COLUMNS,
    )  # fmt: skip
    categorical: str | None = option(
        None, "of tables: columns of categories, between commas; `all`: all that have a word; null: those whose first "
        "rows have words for the most part",
        label="Columns of categories (or all)", **_COLUMNS,
    )  # fmt: skip
    categories: Literal["dictionary", "hashed"] = option(
        "dictionary", "`dictionary`: each `column=value` is a feature; `hashed`: it is hashed to one of `n_features`, "
        "else of 2^20", label="Categories are",
    )  # fmt: skip
    missing: Literal["error", "zero", "indicator"] = option(
        "error", "of tables: a missing number is refused; `zero`: it is 0; `indicator`: it is 0, and 1 in an "
        "indicator feature", label="Missing values are",
    )  # fmt: skip
    delimiter: str | None = option(
        None, "of CSV: a character, or `tab`, `comma`, `semicolon`, `pipe`, `space` (one or more blanks); null: found "
        "out",
        min_length=1, max_length=9,
    )  # fmt: skip
    decimal: Literal["point", "comma"] = option(
        "point", "of CSV: `comma`: numbers are written as 1,5", label="Numbers have a decimal",
    )  # fmt: skip
    encoding: Literal["utf-8", "windows-1252"] = option(
        "utf-8", "of CSV: how characters are written; `windows-1252` is also called `latin1` or `cp1252`",
        label="Characters are written in", read=encoding,
    )  # fmt: skip
    header: Literal["auto", "yes", "no"] = option(
        "auto",
        "`yes` or `no`: whether the first line of CSV names the columns",
        label="First line names columns",
        read=yes_or_no,
    )
    normalize: Literal["none", "row_l2"] = option(
        "none", "`row_l2`: every row is divided by its norm; divide rows that you predict, too", label="Rows"
    )
    on_bad_row: Literal["fail", "skip"] = option(
        "fail", "`skip`: rows that cannot be read are left out; `rejected_rows` counts them, `rejected` shows the "
        "first few", label="Rows that cannot be read",
    )  # fmt: skip
    shuffle: _YesOrNo = option(
        "yes", "`no`: rows stay in the order of the input; if it is sorted, training is slow",
        label="Shuffle rows", read=yes_or_no,
    )  # fmt: skip
    text_column: str | None = option(
        None, "of tables: the column of documents; it alone makes features; null: none",
        label="Column of documents", **_COLUMN,
    )  # fmt: skip
    analyzer: Literal["word", "char", "char_wb"] | None = option(
        None, "of documents: n-grams of `word`s, of `char`acters, or of those of each word, `char_wb`; null: word",
        label="N-grams of",
    )  # fmt: skip
    ngram_range: str | None = option(
        None, "of documents: the least and the most n of n-grams, up to 16; null: 1,1", label="Least, most n",
        pattern=r"^\d{1,2},\d{1,2}$",
    )  # fmt: skip
    alternate_sign: _YesOrNo | None = option(
        None, "of documents: half of the n-grams count -1, so that n-grams of one feature cancel on average; "
        "null: yes", label="Half of them count -1", read=yes_or_no,
    )  # fmt: skip
    lowercase: _YesOrNo | None = option(
        None, "of documents: `no` reads them as they are; null: yes", label="In lower case", read=yes_or_no
    )
    on_bad_text: Literal["error", "replace"] = option(
        "error", "of documents: `replace`: bytes that are not UTF-8 become U+FFFD", label="What is no UTF-8"
    )
    like: dict[str, Any] | None = field(default=None, hash=False)
    trained: dict[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        """Replace lists of columns by text, words such as true by yes or no, and names of encodings by the option's."""
        for name in ("header", "shuffle", "alternate_sign", "lowercase"):
            object.__setattr__(self, name, yes_or_no(getattr(self, name)))
        object.__setattr__(self, "encoding", encoding(self.encoding))
        for name in ("columns", "drop_columns", "categorical"):
            if isinstance(names := getattr(self, name), list | tuple):
                text = io.StringIO()
                csv.writer(text, lineterminator="").writerow(names)
                object.__setattr__(self, name, text.getvalue())

    @property
    def given(self) -> set[str]:
        """Names of the options whose values are not the defaults."""
        return {name for name, each in OPTIONS.items() if getattr(self, name) != each.default}

    def arguments(self) -> list[str]:
        """Return the options that differ from their defaults as command-line arguments (see `add_input_options`)."""
        return [f"{_flag(name)}={getattr(self, name)}" for name in sorted(self.given)]


OPTIONS: dict[str, Option] = options_of(InputOptions)


def options_from(given: Mapping[str, Any] | None) -> InputOptions:
    """Make options from the values in `given`, by name. Raises InputError unknown_option, option_range."""
    read = {}
    for name, value in (given or {}).items():
        if name not in OPTIONS:
            near = get_close_matches(name, OPTIONS, 1)
            raise InputError("unknown_option", f"an input has no option {name!r}", hint=_did_you_mean(near) or None)
        known = OPTIONS[name]
        read[name] = known.read(str(value)) if known.read and isinstance(value, str | bool) else value
        of_programs = (OF_FRAMES,) if name == "format" else ()
        if known.choices and read[name] not in (*known.choices, *of_programs, known.default):
            near = get_close_matches(str(value), map(str, known.choices), 1)
            choices = ", ".join(map(repr, known.choices))
            raise InputError("option_range", f"{name} is one of {choices}, not {value!r}", hint=_did_you_mean(near))
    return InputOptions(**read)


def _did_you_mean(near: list[str]) -> str:
    return f"did you mean {near[0]!r}?" if near else ""


def add_input_options(parser: argparse.ArgumentParser, formats: tuple[str, ...] = ()) -> None:
    """Add the options of an input to a command's parser. formats: formats that it reads besides those of the option."""
    group = parser.add_argument_group("input")
    for name, each in OPTIONS.items():
        meaning = f"{plain(without_null(each), 'none')} (default: {default_words(each)})"
        kind, choices = each.read or each.kind, each.choices + (formats if name == "format" else ())
        group.add_argument(_flag(name), type=kind, choices=choices or None, default=each.default, help=meaning)


def input_options(given: argparse.Namespace) -> InputOptions:
    """Return the options of an input that a command line has set."""
    return InputOptions(**{name: getattr(given, name) for name in OPTIONS})


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
