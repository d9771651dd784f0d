"""A field of a job in words, for the tables of the READMEs, the command line's help, the form and the docstrings.

`python -m streamsvm.service.jobs.fields.texts` writes the tables into service/README.md and trainer/README.md.
"""

import json
import re
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from streamsvm.service.jobs.fields.descriptions import FIELDS, GENERAL
from streamsvm.storage.options import Option
from streamsvm.trainer.solvers import OPTIONS

_ROOT = Path(__file__).resolve().parents[3]
_NUMBERS = {int: "whole number", float: "number", str: "text"}
_BAR = r"\|"  # as a cell has it
_EDGES = {"gt": "above", "ge": "at least", "lt": "below", "le": "up to"}


def plain(text: str, null: str) -> str:
    """A meaning without Markdown, null called as it is called where the text is read."""
    return re.sub(r"\bnull\b", null, text.replace("`", ""))


def null_words(option: Option) -> str:
    """The words after "null: " in the option's meaning, which say what null stands for; else "none"."""
    said = re.search(r"\bnull: ([^;.(]*)", option.meaning)
    return plain(said[1], "none").strip() if said else "none"


def needed(option: Option) -> str:
    """The fields that the option needs, as Markdown: "" or "solver `bsca`, `bsgd`"."""
    return "; ".join(
        f"{name} {', '.join(f'`{value}`' for value in values)}" if values else f"`{name}`"
        for name, values in option.needs.items()
    )


def values(option: Option) -> str:
    """The values that the option may have, as Markdown."""
    if option.values:
        return option.values
    if option.choices:
        words = ", ".join(f"`{json.dumps(choice)}`" for choice in option.choices)
    elif option.kind is bool:
        words = "true, false"
    else:
        edges = [f"{_EDGES[edge]} {_number(limit)}" for edge, limit in option.limits.items()]
        words = " ".join([_NUMBERS[option.kind], *edges])
    return f"{words}, or null" if option.is_nullable else words


def default(option: Option) -> str:
    """The default, as Markdown."""
    if option.default is MISSING:
        return ""
    text = json.dumps(option.default)
    return f"`{text}`" if isinstance(option.default, str) else text


def parameter(option: Option, default: Any) -> tuple[str, str]:
    """(name, type and default; meaning) of a parameter of an estimator, in the form of numpydoc."""
    kind = _python_type(Literal[option.choices] if option.choices else option.kind)
    needs = [f"{name} {' or '.join(json.dumps(value) for value in values)}" for name, values in option.needs.items()]
    meaning = plain(option.meaning, "None")
    text = f"With {', '.join(needs)}: {meaning}" if needs else f"{meaning[0].upper()}{meaning[1:]}"
    return f"{option.name} : {kind}{' or None' * option.is_nullable}, default={_python(default)}", f"{text}."


def _python_type(kind: Any) -> str:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _python_type(inside[0])
    if origin is Literal:
        words = ", ".join(map(json.dumps, inside))
        return words if len(inside) == 1 else f"{{{words}}}"
    if origin is list:
        return f"list of {_python_type(inside[0])}"
    return " or ".join(map(_python_type, inside)) if inside else kind.__name__


def _python(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def general_table() -> str:
    """The table of service/README.md: the fields that every job has."""
    return _table(GENERAL, "field")


def option_table() -> str:
    """The table of trainer/README.md: the options of solvers."""
    return _table({name: FIELDS[name] for name in OPTIONS}, "option")


def _number(limit: float) -> str:
    if not isinstance(limit, int):
        return f"{limit:g}"
    is_power = limit > 1 << 20 and limit.bit_count() == 1
    return f"2^{limit.bit_length() - 1}" if is_power else f"{limit:,}"


def _table(options: dict[str, Option], title: str) -> str:
    lines = [f"| {title} | for | may be | default | meaning |", "| --- | --- | --- | --- | --- |"]
    for name, option in options.items():
        cells = [f"`{name}`", needed(option), values(option), default(option), option.meaning]
        lines.append(f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |")
    return "\n".join(lines)


def _write(page: str, table: str) -> None:
    """Put a table in the place of the one that begins like it."""
    path, head = _ROOT / page, re.escape(table.split(" for ", maxsplit=1)[0])
    text, n_tables = re.subn(rf"^{head}.*\n(\|.*\n)+", lambda _: f"{table}\n", path.read_text(), flags=re.MULTILINE)
    assert n_tables == 1, f"{page} has {n_tables} such tables"
    path.write_text(text)


if __name__ == "__main__":
    _write("service/README.md", general_table())
    _write("trainer/README.md", option_table())
