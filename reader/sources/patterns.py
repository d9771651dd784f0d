"""Matches keys with patterns, in time proportional to the product of their lengths at most: no choice is tried twice.

`*` and `[...]` match within a folder; `**` alone between two slashes matches any folders.
"""

import fnmatch
import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\*+|\[(!?)(\]?[^\]]*)\]|.", re.DOTALL)
_FOLDERS = "**"
_TRANSLATED = re.compile(r"\(\?s:(.*)\)\\[Zz]", re.DOTALL)


@dataclass(frozen=True)
class _Piece:
    """The text between two stars: a regular expression for `length` characters."""

    text: re.Pattern[str]
    length: int


class Pattern:
    """A pattern of keys, such as `bucket/day=*/part-[0-9].svm`."""

    def __init__(self, text: str) -> None:
        self._parts = [None if part == _FOLDERS else _Part(part) for part in text.split("/")]

    def matches(self, path: str) -> bool:
        """Whether the pattern matches this path."""
        names, parts = path.split("/"), self._parts
        name = part = 0
        folders, resumed = -1, 0  # the last ** so far, and the first name that it does not match
        while name < len(names):
            if part < len(parts) and (pattern := parts[part]) is None:
                folders, resumed, part = part, name, part + 1
            elif part < len(parts) and pattern is not None and pattern.matches(names[name]):
                name, part = name + 1, part + 1
            elif folders >= 0:
                # The last ** matches one folder more; an earlier ** can do no better.
                resumed += 1
                name, part = resumed, folders + 1
            else:
                return False
        return all(rest is None for rest in parts[part:])


class _Part:
    """The part of a pattern between two slashes."""

    def __init__(self, text: str) -> None:
        pieces: list[list[str]] = [[]]
        for token in _TOKEN.finditer(text):
            if token[0].startswith("*"):
                pieces.append([])
            else:
                pieces[-1].extend(_characters(token))
        self._least = 1 if len(text) else 0
        self._first, *self._others = [_Piece(re.compile("".join(piece), re.DOTALL), len(piece)) for piece in pieces]

    def matches(self, name: str) -> bool:
        if len(name) < self._least or not self._first.text.match(name):
            return False
        place = self._first.length
        if not self._others:
            return place == len(name)
        *within, last = self._others
        for piece in within:
            # The first match is the best: it leaves most of the name to the pieces that follow.
            match = piece.text.search(name, place)
            if match is None:
                return False
            place = match.end()
        return place <= len(name) - last.length and last.text.match(name, len(name) - last.length) is not None


def _characters(token: re.Match[str]) -> list[str]:
    """A regular expression for each character; the standard library translates brackets."""
    if not token[2]:
        return [re.escape(character) for character in token[0]]
    kind = _TRANSLATED.fullmatch(fnmatch.translate(token[0]))
    assert kind is not None
    return [kind[1]]
