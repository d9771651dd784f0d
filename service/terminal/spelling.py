"""Rewrites words that argparse cannot parse (`-w1 10`, `datasets`), and names of fields in hints as options.

Every command imports this module, so the module imports little.
"""

import re

from streamsvm.reader.options import OPTIONS

# Names of the REST interface for commands.
_ALIASES = {"dataset": "data", "datasets": "data", "jobs": "job", "models": "model", "tokens": "token"}
# Fields of a job with another name here, and all others that hints name: their descriptions are slow to import.
_OTHER_FLAGS = {"cache_bytes": "--cache", "memory_bytes": "--memory", "solver_options": "--solver-option"}
_FIELDS = ("class_weight", "max_passes", "max_seconds", "relative_gap", "warm_start", *_OTHER_FLAGS)
_WITH_UNDERSCORE = "|".join(name for name in (*OPTIONS, *_FIELDS) if "_" in name)
_FIELD = re.compile(r'"(\w+)": "?(\w+(?:\.\d+)?)"?')
_LIST_OF_ONE = re.compile(r'"(\w+)": \["(\w+)"\]')
_WEIGHT_OPTION = re.compile(r"-w([+-]?\d+(?:\.\d+)?)")


def spell_out(arguments: list[str]) -> list[str]:
    """Replace `-w1 10`, an option with a label in its name, by `--class-weight=1=10`, and `datasets` by `data`."""
    words, rest = [], iter([_ALIASES.get(word, word) for word in arguments[:1]] + arguments[1:])
    for word in rest:
        label = _WEIGHT_OPTION.fullmatch(word)
        words += [f"--class-weight={label[1]}={next(rest, '')}"] if label else [word]
    return words


def in_dashes(hint: str) -> str:
    """Rewrite a hint about fields of JSON for the command line: `label_type=string` becomes `--label-type string`.

    `"pace": "adaptive"` becomes `--pace adaptive`, and a list of one word, as `"features": ["scale"]`, alike.
    """
    hint = _FIELD.sub(lambda field: f"--{field[1].replace('_', '-')} {field[2]}", _LIST_OF_ONE.sub(r"--\1 \2", hint))
    # A name without a value is only replaced if it is no English word.
    return re.sub(rf"(?<!['?&/])\b(?:({'|'.join(OPTIONS)})=(\w+)|({_WITH_UNDERSCORE})\b)", _option, hint)


def _option(field: re.Match[str]) -> str:
    name = field[1] or field[3]
    flag = _OTHER_FLAGS.get(name, f"--{name.replace('_', '-')}")
    return f"{flag} {field[2]}" if field[2] else flag
