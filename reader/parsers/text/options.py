"""The options of documents, their defaults, and their form in Manifest.input."""

from dataclasses import replace
from typing import Any

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import TABLES, InputOptions
from streamsvm.reader.parsers.text.grams_kernel import CHARS, CHARS_OF_WORDS, WORDS, Grams

ANALYZERS = {"word": WORDS, "char": CHARS, "char_wb": CHARS_OF_WORDS}
N_FEATURES = 1 << 20
MOST_GRAMS = 16
# Options that only documents have.
OF_TEXT = frozenset({"analyzer", "ngram_range", "alternate_sign", "lowercase", "on_bad_text"})


def input_of(options: InputOptions) -> dict[str, Any]:
    """Return Manifest.input of a dataset of documents. Raises InputError bad_ngram_range, too_many_features."""
    n_features = options.n_features or N_FEATURES
    if n_features >= 1 << 31:
        raise InputError("too_many_features", "documents are hashed to fewer than 2147483648 features")
    columns = {name: each for name in ("text_column", "label_column") if (each := getattr(options, name)) is not None}
    return {
        "format": "text",
        "n_features": n_features,
        "analyzer": options.analyzer or "word",
        "ngram_range": list(_ngram_range("1,1" if options.ngram_range is None else options.ngram_range)),
        "alternate_sign": options.alternate_sign != "no",
        "lowercase": options.lowercase != "no",
        **columns,
    }


def grams_of(input_: dict[str, Any]) -> Grams:
    """Return the kernel's parameters for a dataset with this `input`."""
    least, most = input_["ngram_range"]
    analyzer = ANALYZERS[input_["analyzer"]]
    return Grams(analyzer, least, most, input_["n_features"], input_["alternate_sign"], input_["lowercase"])


def as_input(options: InputOptions, input_: dict[str, Any]) -> InputOptions:
    """Return the options for documents that must fit a dataset with this `input`. Raises InputError option_unused."""
    settled: dict[str, Any] = {
        "n_features": input_["n_features"],
        "analyzer": input_["analyzer"],
        "ngram_range": ",".join(map(str, input_["ngram_range"])),
        "alternate_sign": "yes" if input_["alternate_sign"] else "no",
        "lowercase": "yes" if input_["lowercase"] else "no",
    }
    for name, value in settled.items():
        option = getattr(options, name)
        if name == "ngram_range" and option is not None:
            option = ",".join(map(str, _ngram_range(option)))
        if option not in (None, value):
            raise InputError("option_unused", f"{name} is {value} for all documents of this dataset")
    if options.format not in ("auto", "text", *TABLES):
        raise InputError("option_unused", f"this dataset is of documents, {options.format} has none")
    return replace(options, **settled)


def _ngram_range(text: str) -> tuple[int, int]:
    numbers = [number.strip() for number in text.split(",")]
    if len(numbers) == 2 and all(number.isdecimal() and number.isascii() and len(number) < 3 for number in numbers):
        least, most = map(int, numbers)
        if 1 <= least <= most <= MOST_GRAMS:
            return least, most
    raise InputError("bad_ngram_range", f"ngram_range must be two integers from 1 to {MOST_GRAMS}, not {text[:20]!r}")
