"""The text of a JsonPath made into a `spdist.java.json.path.JsonPath`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from spdist.java.json.filter import compile_filter
from spdist.java.json.parse import parse_smart
from spdist.java.json.path import (
    Function,
    Indexes,
    InvalidPathError,
    JsonPath,
    PathStep,
    Properties,
    Scan,
    Slice,
    Where,
    Wildcard,
    closing,
    unescaped,
)

__all__ = ["compile_path"]

_NAMES = re.compile(
    r"""\[ *(?P<q>['"])(?:(?!(?P=q))[^\\]|\\.)*(?P=q)(?: *, *(?P=q)(?:(?!(?P=q))[^\\]|\\.)*(?P=q))* *\]"""
)
_NAME = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.DOTALL) for quote in "'\""}
_STAR = re.compile(r"\[ *\* *\]")
_NUMBERS = re.compile(r"\[( *[-:0-9][-:,0-9 ]*)\]")
_QUESTION = re.compile(r"\[ *\? *\(")


@lru_cache(maxsize=1024)
def compile_path(text: str) -> JsonPath:
    """Return the path that `text` is; ``$.`` may be left out.

    Raises
    ------
    InvalidPathError
        It is none.
    """
    written = text.strip(" ")
    if not written:
        raise InvalidPathError("an empty text is no path")
    if written[0] not in "$@":
        written = f"$.{text}".strip(" ")
    if written.endswith("."):
        raise InvalidPathError("a path does not end with '.'")
    try:
        return _PathReader(written).path()
    except (IndexError, ValueError) as error:
        # The reader looks ahead without asking for the end: a text that stops too early is an IndexError
        raise error if isinstance(error, InvalidPathError) else InvalidPathError(str(error)) from error


class _PathReader:
    """One path being read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 1
        self.steps: list[PathStep] = []

    def path(self) -> JsonPath:
        """Return the whole path."""
        # A single character that is left over is not looked at.
        if len(self.text) > 1:
            if self.text[1] not in ".[":
                self._refuse()
            self._step()
            while self.at < len(self.text) - 1:
                self._step()
        return JsonPath(self.steps, self.text[0] == "$")

    def _refuse(self) -> None:
        raise InvalidPathError(f"'{self.text}' is no path: see position {self.at}")

    def _step(self) -> None:
        character = self.text[self.at]
        if character == ".":
            if self.text.startswith("..", self.at):
                self.steps.append(Scan())
                self.at += 1
            self.at += 1
            # Two dots are a scan, three are nothing
            if self.text[self.at] == ".":
                self._refuse()
            character = self.text[self.at]
        if character == "[":
            self._bracket()
        elif character == "*":
            self.at += 1
            self.steps.append(Wildcard())
        elif character == " ":
            self._refuse()
        else:
            self._property()

    def _property(self) -> None:
        found = re.compile(r"[^.\[( ]*").match(self.text, self.at)
        name = found.group() if found is not None else ""
        end = self.at + len(name)
        following = self.text[end : end + 1]
        if following == " " or not name:
            self._refuse()
        if following == "(":
            self.at = end + 1
            self.steps.append(Function(name, self._parameters()))
        else:
            self.at = end
            self.steps.append(Properties([name]))

    def _bracket(self) -> None:
        if (names := _NAMES.match(self.text, self.at)) is not None:
            texts = _NAME[names.group("q")].findall(names.group())
            self.steps.append(Properties([unescaped(name) for name in texts]))
            self.at = names.end()
        elif (numbers := _NUMBERS.match(self.text, self.at)) is not None:
            self.steps.append(_elements(numbers.group(1).strip()))
            self.at = numbers.end()
        elif (star := _STAR.match(self.text, self.at)) is not None:
            self.steps.append(Wildcard())
            self.at = star.end()
        elif (question := _QUESTION.match(self.text, self.at)) is not None:
            self._filter(question.end())
        else:
            self._refuse()

    def _filter(self, inside: int) -> None:
        end = closing(self.text, inside - 1, "()", True)
        behind = re.compile(r" *\]").match(self.text, end + 1)
        if behind is None:
            self._refuse()
            return
        self.steps.append(Where(compile_filter(self.text[inside - 1 : end + 1], compile_path)))
        self.at = behind.end()

    def _parameters(self) -> list[Callable[[Any], Any]]:
        start = self.at
        end = closing(self.text, start - 1, "()", False)
        self.at = end + 1
        inside = self.text[start:end]
        # A single character between the parentheses is not looked at.
        return [p for p in map(_parameter, _separated(inside)) if p is not None] if len(inside) > 1 else []


def _separated(text: str) -> list[str]:
    parts, depth, quoted, start = [], 0, False, 0
    for at, character in enumerate(text):
        if character == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth and not quoted:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _parameter(text: str) -> Callable[[Any], Any] | None:
    begins = re.search(r'[{0-9"$@]', text)
    if begins is None:
        return None
    written = text[begins.start() :]
    if written[0] in "$@":
        path = compile_path(written)
        return lambda root: path.read(root, root)
    value = parse_smart(written)
    return lambda _root: value


def _elements(text: str) -> PathStep:
    if ":" not in text:
        return Indexes([_integer(part.strip()) for part in text.split(",")])
    if "," in text or " " in text:
        raise InvalidPathError(f"'{text}' is no slice")
    ends = [_integer(part) if part else None for part in text.split(":")[:2]]
    if ends == [None, None]:
        raise InvalidPathError(f"'{text}' is no slice")
    return Slice(*ends)


def _integer(text: str) -> int:
    if not re.fullmatch(r"-?\d+", text, re.ASCII):
        raise InvalidPathError(f"'{text}' is no number of an element")
    return int(text)
