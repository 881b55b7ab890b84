"""JSON as Gson reads it leniently: numbers are doubles, bare words end at a blank or a mark, nothing is left over."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from spdist.java.json.escapes import joined_halves, unit_of

__all__ = ["parse_gson"]

_GAP = re.compile(r"(?:[ \t\r\n]|/\*.*?\*/|//[^\r\n]*|#[^\r\n]*)*", re.DOTALL)
_WORD = re.compile(r"[^/\\;#={}\[\]:, \t\f\r\n]+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_WORDS = {"null": None, "true": True, "false": False}
_ESCAPES = {"t": "\t", "n": "\n", "f": "\f", "b": "\b", "r": "\r"} | {mark: mark for mark in "\n'\"\\/"}


def parse_gson(text: str) -> Any:
    """Return what Gson reads; None for an empty text.

    Raises
    ------
    ValueError
        The text cannot be read, or not to its end.
    """
    reader = _GsonReader(text)
    if not reader.peek():
        return None
    value = reader.value()
    # Gson's JsonParser asks for the end of the text only where the value is not null
    if value is not None and reader.peek():
        reader.refuse()
    return value


class _GsonReader:
    """One text being read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def refuse(self) -> NoReturn:
        """Raise the error for what stands here."""
        raise ValueError(f"no JSON at {self.at}: {self.text[:80]!r}")

    def peek(self) -> str:
        """Pass over blanks and comments and return the next character; an empty text at the end."""
        gap = _GAP.match(self.text, self.at)
        self.at = self.at if gap is None else gap.end()
        return self.text[self.at : self.at + 1]

    def value(self) -> Any:
        """Read a value."""
        first = self.peek()
        if first == "[":
            return self._array()
        if first == "{":
            return self._object()
        if first and first in "'\"":
            return self._string(first)
        word = self._word()
        # Gson compares the words null, true and false in any case
        if word.lower() in _WORDS:
            return _WORDS[word.lower()]
        return float(word) if _NUMBER.fullmatch(word) else word

    def _word(self) -> str:
        found = _WORD.match(self.text, self.at)
        if found is None:
            self.refuse()
        self.at = found.end()
        return found.group()

    def _string(self, quote: str) -> str:
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            if character == quote:
                return joined_halves("".join(parts))
            if character == "\\":
                character = self._escape()
            parts.append(character)
        self.refuse()

    def _escape(self) -> str:
        escaped = self.text[self.at : self.at + 1]
        self.at += 1
        if escaped == "u":
            self.at += 4
            return unit_of(self.text[self.at - 4 : self.at])
        if escaped not in _ESCAPES:
            self.refuse()
        return _ESCAPES[escaped]

    def _array(self) -> list[Any]:
        members: list[Any] = []
        self.at += 1
        if self.peek() == "]":
            self.at += 1
            return members
        while True:
            # Nothing between two commas is null.
            members.append(None if self.peek() in (",", ";", "]") else self.value())
            mark = self.peek()
            self.at += 1
            if mark == "]":
                return members
            if mark not in (",", ";"):
                self.refuse()

    def _object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.at += 1
        if self.peek() == "}":
            self.at += 1
            return members
        while True:
            first = self.peek()
            key = self._string(first) if first and first in "'\"" else self._word()
            mark = self.peek()
            self.at += 1
            # Lenient Gson takes name:value, name=value and name=>value
            if mark == "=" and self.text[self.at : self.at + 1] == ">":
                self.at += 1
            elif mark not in (":", "="):
                self.refuse()
            members[key] = self.value()
            mark = self.peek()
            self.at += 1
            if mark == "}":
                return members
            if mark not in (",", ";"):
                self.refuse()
