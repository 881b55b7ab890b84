"""Conditions of JsonPath: ``[?(@.price > 1 && @.kind in ['a', 'b'])]``.

Source: com.jayway.jsonpath.internal.filter 2.4. As there, what is missing equals nothing (so ``!=`` holds for it), a
text and a number are compared as what the left one is, and ``all``, ``type`` and ``matches`` never hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from spdist.java.json.parse import parse_smart
from spdist.java.json.path import InvalidPathError, JsonPath, PathError, PathNotFoundError, closing, unescaped
from spdist.java.json.text import text_of_object
from spdist.java.objects import same

__all__ = ["compile_filter"]

#: From an element and the document to whether the condition holds.
Condition = Callable[[Any, Any], bool]
#: From an element and the document to a value to compare; see `_Missing`, `_Pattern`.
Operand = Callable[[Any, Any], Any]


class _Missing:
    """What a path that names nothing gives: it equals nothing, not even itself."""


class _Unparsed(str):
    """JSON in the text of a condition, which equals what it says only from the right side."""


_MISSING = _Missing()
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


# --- comparing ---------------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, Decimal)


def _is_json(value: Any) -> bool:
    return isinstance(value, list | dict | _Unparsed)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, _Unparsed)


def _decimal(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, _Missing) or isinstance(right, _Missing):
        return False
    if _is_json(left) and _is_json(right):
        if isinstance(left, _Unparsed):
            return isinstance(right, _Unparsed) and left is right
        return same(left, parse_smart(right) if isinstance(right, _Unparsed) else right)
    if _is_number(left):
        other = right if _is_number(right) else _decimal(right) if _is_text(right) else None
        return other is not None and bool(left == other)
    if _is_text(left):
        return bool(left == (str(right) if _is_number(right) else right if _is_text(right) else None))
    # By type first: in Python True equals 1
    return type(left) is type(right) and bool(left == right)


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        comparable = (_is_number(left) and _is_number(right)) or (_is_text(left) and _is_text(right))
        return comparable and holds(left, right)

    return compare


def _members(value: Any) -> list[Any] | None:
    """Return the elements of JSON as operands, or None for what is no array."""
    if not _is_json(value):
        raise InvalidPathError("a list is needed here")
    parsed = parse_smart(value) if isinstance(value, _Unparsed) else value
    if not isinstance(parsed, list):
        return None
    if any(isinstance(part, list | dict) for part in parsed):
        raise PathError("lists of lists cannot be compared")
    return [_operand_of(part) for part in parsed]


def _in(left: Any, right: Any) -> bool:
    members = _members(right)
    return members is not None and any(_equal(left, part) for part in members)


def _contains(left: Any, right: Any) -> bool:
    if _is_text(left) and _is_text(right):
        return right in left
    return _is_json(left) and _in(right, left)


def _subset(left: Any, right: Any) -> bool:
    outer = _members(right)
    inner = None if outer is None else _members(left)
    return inner is not None and all(any(_equal(part, other) for other in outer or ()) for part in inner)


def _has_size(left: Any, right: Any) -> bool:
    if not _is_number(right):
        return False
    if _is_text(left):
        return len(left) == int(right)
    if not _is_json(left):
        return False
    parsed = parse_smart(left) if isinstance(left, _Unparsed) else left
    return (len(parsed) if isinstance(parsed, list) else -1) == int(right)


def _is_empty(left: Any, right: Any) -> bool:
    if not (_is_text(left) or _is_json(left)):
        return False
    if not isinstance(right, bool):
        raise InvalidPathError("'empty' needs true or false")
    parsed = parse_smart(left) if isinstance(left, _Unparsed) else left
    return (not parsed) is right


def _fits(left: Any, right: Any) -> bool:
    if isinstance(left, re.Pattern) is isinstance(right, re.Pattern):
        return False
    pattern, value = (left, right) if isinstance(left, re.Pattern) else (right, left)
    text = "" if value is None or isinstance(value, _Missing) or _is_json(value) else text_of_object(value)
    return pattern.fullmatch(text) is not None


def _never(_left: Any, _right: Any) -> bool:
    return False


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "===": lambda left, right: _kind(left) is _kind(right) and _equal(left, right),
    "!==": lambda left, right: not (_kind(left) is _kind(right) and _equal(left, right)),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "=~": _fits,
    "IN": _in,
    "NIN": lambda left, right: not _in(left, right),
    "CONTAINS": _contains,
    "SUBSETOF": _subset,
    "SIZE": _has_size,
    "EMPTY": _is_empty,
    "ALL": _never,
    "TYPE": _never,
    "MATCHES": _never,
}


def _kind(value: Any) -> type:
    return list if _is_json(value) else type(value)


def _operand_of(value: Any) -> Any:
    """Return a value of a document as it is compared."""
    if isinstance(value, bool) or value is None or isinstance(value, list | dict | Decimal):
        return value
    if isinstance(value, str):
        # Texts that look like quoted ones are taken for such.
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        return value[1:-1] if quoted else value
    try:
        return Decimal(text_of_object(value))
    except InvalidOperation as error:
        raise ValueError(f"{value} cannot be compared") from error


# --- reading conditions ------------------------------------------------------------------------------------------

_OPERATOR = re.compile(r" *(?:([<>=~!]+)|([^ ]+))")
_NUMBER = re.compile(r"[-.\d]+", re.ASCII)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_REGULAR = re.compile(r"/((?:[^/\\]|\\.)*)/(i?)", re.DOTALL)


def compile_filter(text: str, compile_path: Callable[[str], JsonPath]) -> Condition:
    """Return the condition that a text in parentheses is.

    Raises
    ------
    InvalidPathError
        It is none.
    """
    reader = _ConditionReader(text, compile_path)
    condition = reader.any_of()
    if reader.skip():
        raise InvalidPathError(f"'{text}' is no condition: see position {reader.at}")
    return condition


class _ConditionReader:
    """One condition being read."""

    def __init__(self, text: str, compile_path: Callable[[str], JsonPath]) -> None:
        self.text = text
        self.at = 0
        self.compile_path = compile_path

    def skip(self) -> str:
        """Pass over blanks and return the next character, or an empty text at the end."""
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _take(self, mark: str) -> bool:
        self.skip()
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def any_of(self) -> Condition:
        """Read conditions with ``||`` between them."""
        parts = [self._all_of()]
        while self._take("||"):
            parts.append(self._all_of())
        return parts[0] if len(parts) == 1 else lambda item, root: any(part(item, root) for part in parts)

    def _all_of(self) -> Condition:
        parts = [self._single()]
        while self._take("&&"):
            parts.append(self._single())
        return parts[0] if len(parts) == 1 else lambda item, root: all(part(item, root) for part in parts)

    def _single(self) -> Condition:
        if self.skip() == "!":
            behind = self.text[self.at + 1 :].lstrip(" ")[:1]
            # In front of a path it asks whether that is missing, which `_comparison` reads
            if behind not in ("$", "@"):
                self.at += 1
                inner = self._single()
                return lambda item, root: not inner(item, root)
        if self._take("("):
            inside = self.any_of()
            if not self._take(")"):
                raise InvalidPathError(f"a parenthesis is not closed in '{self.text}'")
            return inside
        return self._comparison()

    def _comparison(self) -> Condition:
        negated = self._take("!")
        self.skip()
        path = self._path() if self.text[self.at : self.at + 1] in ("$", "@") else None
        left = self._literal() if path is None else _value_of(path)
        mark = self.at
        try:
            operator = self._operator()
            right = self._operand()
        except InvalidPathError:
            # No comparison follows: the path alone asks whether it exists
            self.at = mark
            if path is None:
                raise
            return _exists(path, not negated)
        return lambda item, root: operator(left(item, root), right(item, root))

    def _operator(self) -> Callable[[Any, Any], bool]:
        found = _OPERATOR.match(self.text, self.at)
        known = None if found is None else _OPERATORS.get((found.group(1) or found.group(2)).upper())
        if found is None or known is None:
            raise InvalidPathError(f"there is no operator at {self.at} in '{self.text}'")
        self.at = found.end()
        return known

    def _operand(self) -> Operand:
        self._take("!")
        return _value_of(self._path()) if self.skip() in ("$", "@") else self._literal()

    def _path(self) -> JsonPath:
        start = self.at
        self.at += 1
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                self.at = closing(self.text, self.at, "[]", False) + 1
            character = self.text[self.at : self.at + 1]
            if not character or character in "<>=~! " or (character == ")" and not self._closes_call(start)):
                break
            self.at += 1
        return self.compile_path(self.text[start : self.at])

    def _closes_call(self, start: int) -> bool:
        before = self.text[: self.at].rstrip(" ")
        return before.endswith("(") and "." in before[start + 1 :]

    def _literal(self) -> Operand:
        first = self.skip()
        if (found := _QUOTED.match(self.text, self.at)) is not None:
            return self._constant(unescaped(found.group()[1:-1]), found.end())
        for word, value in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(word, self.at):
                return self._constant(value, self.at + len(word))
        if first and first in "[{":
            end = closing(self.text, self.at, "[]" if first == "[" else "{}", False) + 1
            return self._constant(_Unparsed(self.text[self.at : end]), end)
        if (regular := _REGULAR.match(self.text, self.at)) is not None:
            try:
                pattern = re.compile(regular.group(1), re.IGNORECASE if regular.group(2) else 0)
            except re.error as error:
                raise InvalidPathError(str(error)) from error
            return self._constant(pattern, regular.end())
        digits = _NUMBER.match(self.text, self.at)
        number = None if digits is None else _decimal(digits.group())
        if digits is None or number is None:
            raise InvalidPathError(f"there is no value at {self.at} in '{self.text}'")
        return self._constant(number, digits.end())

    def _constant(self, value: Any, end: int) -> Operand:
        self.at = end
        return lambda _item, _root: value


def _value_of(path: JsonPath) -> Operand:
    def value(item: Any, root: Any) -> Any:
        try:
            return _operand_of(path.read(root if path.of_root else item, root))
        except PathNotFoundError:
            return _MISSING

    return value


def _exists(path: JsonPath, wanted: bool) -> Condition:
    def holds(item: Any, root: Any) -> bool:
        try:
            path.read(item, root, required=True)
        except PathNotFoundError:
            return not wanted
        return wanted

    return holds
