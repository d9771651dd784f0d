"""Whether a key is one that a pattern stands for, without trying again what has been tried: in the time of a search.

`*` and `[...]` stand for what is within a folder, `**` alone between two slashes for any folders.
"""

import fnmatch
import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\*+|\[(!?)(\]?[^\]]*)\]|.", re.DOTALL)
_FOLDERS = "**"
_TRANSLATED = re.compile(r"\(\?s:(.*)\)\\[Zz]", re.DOTALL)


@dataclass(frozen=True)
class _Piece:
    """The text between two stars: so many characters, one after the other."""

    text: re.Pattern[str]
    length: int


class Pattern:
    """A pattern of keys, such as `bucket/day=*/part-[0-9].svm`."""

    def __init__(self, text: str) -> None:
        self._parts = [None if part == _FOLDERS else _Part(part) for part in text.split("/")]

    def matches(self, path: str) -> bool:
        """Whether it stands for this path."""
        names, parts = path.split("/"), self._parts
        name = part = 0
        folders, resumed = -1, 0  # the last ** so far, and the name after those that it stands for
        while name < len(names):
            if part < len(parts) and (found := parts[part]) is None:
                folders, resumed, part = part, name, part + 1
            elif part < len(parts) and found is not None and found.matches(names[name]):
                name, part = name + 1, part + 1
            elif folders >= 0:
                # It stands for one more; an earlier ** can do no better.
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
            # The first place is the best: it leaves most to those that follow.
            found = piece.text.search(name, place)
            if found is None:
                return False
            place = found.end()
        return place <= len(name) - last.length and last.text.match(name, len(name) - last.length) is not None


def _characters(token: re.Match[str]) -> list[str]:
    """Each as a regular expression; what stands in brackets as the standard library reads it."""
    if not token[2]:
        return [re.escape(character) for character in token[0]]
    kind = _TRANSLATED.fullmatch(fnmatch.translate(token[0]))
    assert kind is not None
    return [kind[1]]
