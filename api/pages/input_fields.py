"""The fields of the form to upload: what may be said of an input, and of which formats."""

from dataclasses import dataclass

from reader.parsers import READERS

_OF_SOME = frozenset().union(*(reader.options for reader in READERS.values()))


@dataclass(frozen=True)
class InputField:
    """A field: `choices` of (value, text), the first the default; or a text, of a column if `is_column`."""

    name: str
    title: str
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""
    is_column: bool = False

    @property
    def formats(self) -> str:
        """Those that have the option, with blanks between them; empty: all."""
        if self.name not in _OF_SOME:
            return ""
        return " ".join(name for name, reader in READERS.items() if self.name in reader.options)


# Options that are not at their defaults are sent; "" stands for the default.
INPUT_FIELDS = (
    InputField("label_column", "Label column", placeholder="found out", is_column=True),
    InputField("label_type", "Labels are", (("", "as the first one"), ("number", "numbers"), ("string", "strings"))),
    InputField("weight_column", "Weight column", placeholder="none", is_column=True),
    InputField("group_column", "Group column", placeholder="none", is_column=True),
    InputField("string_column", "Column of strings of bases", placeholder="none", is_column=True),
    InputField("categorical", "Columns of categories", placeholder="none; names, or all"),
    InputField("categories", "Categories are", (("", "a feature each"), ("hashed", "hashed"))),
    InputField(
        "missing",
        "Missing values are",
        (("", "refused"), ("zero", "zero"), ("indicator", "zero, and a feature of their own")),
    ),
    InputField("index_base", "First feature is number", (("", "found out"), ("0", "0"), ("1", "1"))),
    InputField("on_bad_row", "Rows that cannot be read", (("", "refuse the file"), ("skip", "leave out"))),
)
