"""What argparse cannot be told of LIBLINEAR's options. Apart from the others: it is asked about every command line."""

import re

_WEIGHT_OPTION = re.compile(r"-w([+-]?\d+(?:\.\d+)?)")


def spell_out(arguments: list[str]) -> list[str]:
    """`-w1 10` as `--class-weight 1=10`: the name of the option has the label in it."""
    words, rest = [], iter(arguments)
    for word in rest:
        label = _WEIGHT_OPTION.fullmatch(word)
        words += [f"--class-weight={label[1]}={next(rest, '')}"] if label else [word]
    return words
