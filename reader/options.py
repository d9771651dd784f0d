"""The options of an input, for the command line, the query of a request, and Python."""

import argparse
import csv
import io
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

# The keys of parsers.READERS, which is slow to import.
FORMATS = ("libsvm", "csv", "tsv", "parquet", "npz", "batches", "fasta", "dna", "text")
OTHER_NAMES = {"dna": "fasta"}
IndexBase = Literal["auto", 0, 1]
LabelType = Literal["auto", "number", "string"]
Analyzer = Literal["word", "char", "char_wb"]


@dataclass(frozen=True)
class InputOptions:
    """
    format        one of FORMATS, or "auto": recognised by the content
    index_base    number of the first feature; "auto": the text or the format decides
    n_features    number of features, more are refused; None: as many as the input has. Documents are hashed to it
    label_column  name of the column with the labels, or its number: 1 is the first, -1 the last
    label_type    "number", "string", or "auto": the type of the first row's label
    weight_column name or number of the column with the weights of rows; None: there are none
    group_column  name or number of the column that says which rows belong together; None: there is none
    string_column name or number of the column with strings of bases; None: columns are features
    columns       names or numbers of the columns that make features, between commas, as in CSV; None: all columns that
                  no other option names
    drop_columns  names or numbers of columns that make no features; in Python the two, and categorical, may be lists
    categorical   names or numbers of columns that hold categories, between commas, or "all": all that are not numbers
    categories    "dictionary": each category is a feature; "hashed": it is hashed to one of n_features
    missing       a missing number is an "error", is "zero", or with "indicator" zero and 1 in a feature of its own
    delimiter     between columns: a character or a name in DELIMITERS; None: the first line decides
    header        "yes", "no" or "auto": whether the first line names the columns
    text_column   name or number of the column with documents, which alone makes features; None: there is none
    analyzer      features of documents are n-grams of "word"s, of "char"acters, or of the characters of each word,
                  "char_wb"; None: "word"
    ngram_range   "least,most" n of the n-grams of documents; None: "1,1"
    alternate_sign  "yes" or "no": whether half of the n-grams of documents count -1; None: "yes"
    lowercase     "yes" or "no": whether documents are read in lower case; None: "yes"
    on_bad_text   "error", or "replace": bytes of a document that are not UTF-8 become U+FFFD
    normalize     "none", or "row_l2": every row is divided by its norm
    shuffle       "yes", or "no": rows are stored in the order of the input; if that is sorted, training is slow
    on_bad_row    "fail", or "skip": rows that cannot be read are left out and counted
    like          set by the program: the `input` of the dataset or model that the rows must fit; {} if it has numbered
                  features, None if there is no dataset or model
    """

    format: str = "auto"
    index_base: IndexBase = "auto"
    n_features: int | None = None
    label_column: str | None = None
    label_type: LabelType = "auto"
    weight_column: str | None = None
    group_column: str | None = None
    string_column: str | None = None
    categorical: str | None = None
    categories: Literal["dictionary", "hashed"] = "dictionary"
    missing: Literal["error", "zero", "indicator"] = "error"
    delimiter: str | None = None
    header: Literal["auto", "yes", "no"] = "auto"
    normalize: Literal["none", "row_l2"] = "none"
    on_bad_row: Literal["fail", "skip"] = "fail"
    shuffle: Literal["yes", "no"] = "yes"
    text_column: str | None = None
    analyzer: Analyzer | None = None
    ngram_range: str | None = None
    alternate_sign: Literal["yes", "no"] | None = None
    lowercase: Literal["yes", "no"] | None = None
    on_bad_text: Literal["error", "replace"] = "error"
    columns: str | None = None
    drop_columns: str | None = None
    like: dict[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        """Replace lists of columns by text."""
        for name in ("columns", "drop_columns", "categorical"):
            if isinstance(names := getattr(self, name), list | tuple):
                text = io.StringIO()
                csv.writer(text, lineterminator="").writerow(names)
                object.__setattr__(self, name, text.getvalue())

    @property
    def given(self) -> set[str]:
        """Names of the options that are not at their default."""
        defaults = InputOptions()
        return {name for name in OPTIONS if getattr(self, name) != getattr(defaults, name)}

    def arguments(self) -> list[str]:
        """The options that are not at their default, as arguments for `add_input_options`."""
        return [f"--{name.replace('_', '-')}={getattr(self, name)}" for name in sorted(self.given)]


OPTIONS = tuple(each.name for each in fields(InputOptions) if each.name != "like")


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an input to a command."""
    group = parser.add_argument_group("input")
    group.add_argument("--format", choices=("auto", *FORMATS), default="auto", help="of the file (default: by content)")
    group.add_argument("--index-base", choices=("auto", "0", "1"), default="auto", help="number of the first feature")
    group.add_argument("--n-features", type=int, help="how many there are (default: as many as come)")
    group.add_argument("--label-column", help="name, or number: 1 is the first, -1 the last")
    group.add_argument(
        "--label-type", choices=("auto", "number", "string"), default="auto", help="(default: as the first is)"
    )
    group.add_argument("--weight-column", help="name or number of the column with the weights of rows")
    group.add_argument("--group-column", help="name or number of the column that says which rows belong together")
    group.add_argument("--string-column", help="name or number of the column with strings of bases (A, C, G, T)")
    group.add_argument("--columns", help="columns that make features, between commas (default: all)")
    group.add_argument("--drop-columns", help="columns that make no features, between commas")
    group.add_argument("--categorical", help="columns of categories, between commas, or all: all that are not numbers")
    group.add_argument(
        "--categories", choices=("dictionary", "hashed"), default="dictionary", help="how they become features"
    )
    group.add_argument(
        "--missing", choices=("error", "zero", "indicator"), default="error", help="how missing values are read"
    )
    group.add_argument("--delimiter", help="of CSV: a character, or tab, comma, semicolon, pipe, space")
    group.add_argument("--header", choices=("auto", "yes", "no"), default="auto", help="whether CSV names its columns")
    group.add_argument("--text-column", help="name or number of the column with documents, which are hashed")
    group.add_argument("--analyzer", choices=get_args(Analyzer), help="of documents (default: word)")
    group.add_argument("--ngram-range", help="of documents: least and most n (default: 1,1)")
    group.add_argument("--alternate-sign", choices=("yes", "no"), help="of documents: half count -1 (default: yes)")
    group.add_argument("--lowercase", choices=("yes", "no"), help="of documents (default: yes)")
    group.add_argument(
        "--on-bad-text", choices=("error", "replace"), default="error", help="how bytes that are not UTF-8 are read"
    )
    group.add_argument("--normalize", choices=("none", "row_l2"), default="none", help="row_l2: every row to length 1")
    group.add_argument("--on-bad-row", choices=("fail", "skip"), default="fail", help="skip: leave it out")
    group.add_argument("--shuffle", choices=("yes", "no"), default="yes", help="no: store rows in the input's order")


def input_options(given: argparse.Namespace) -> InputOptions:
    """The options that a command line names."""
    chosen = {name: getattr(given, name) for name in OPTIONS}
    return InputOptions(**{**chosen, "index_base": index_base(chosen["index_base"])})


def index_base(word: str) -> IndexBase:
    """The base that a command line or a query names: "auto", 0 or 1."""
    return {"0": 0, "1": 1}.get(word, "auto")  # type: ignore[return-value]
