"""JSON as the libraries of Siddhi's extensions read it: json-smart (permissive) and org.json.

All of them take more than JSON: bare words, single quotes, useless commas. They differ in what they make of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from spdist.java.json.escapes import joined_halves, unit_of
from spdist.java.json.text import org_array
from spdist.java.numbers import LONG_MAX, LONG_MIN
from spdist.java.objects import Float, HashMap, JSONArray, JSONObject, Opaque, box_long

__all__ = ["parse_org", "parse_simple", "parse_smart", "parse_smart_objects"]

Maker = Callable[[list[tuple[str, Any]]], Any]


def _refuse(text: str, at: int) -> NoReturn:
    raise ValueError(f"no JSON at {at}: {text[:80]!r}")


# --- json-smart --------------------------------------------------------------------------------------------------


def _fraction(text: str) -> float | Decimal:
    # json-smart keeps the digits of a long fraction.
    return Decimal(text) if len(text) > 18 and Decimal(text) != Decimal(repr(float(text))) else float(text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"'{name}' is no JSON")


def parse_smart(text: str) -> Any:
    """Return what json-smart reads in its permissive mode, with maps in the order of the text.

    Raises
    ------
    ValueError
        The text cannot be read.
    """
    return _parsed(text, dict)


def parse_smart_objects(text: str) -> Any:
    """Return what json-smart reads as its own ``JSONObject`` and ``JSONArray``; raises ValueError as `parse_smart`."""
    return _parsed(text, JSONObject)


def parse_simple(text: str) -> Any:
    """Return what json-smart reads in its simple mode: only true JSON, of which what follows is left; ints are Longs.

    Raises
    ------
    ValueError
        The text cannot be read.
    """
    decoder = json.JSONDecoder(
        parse_int=lambda digits: box_long(int(digits)),
        parse_float=_fraction,
        parse_constant=_no_constant,
        object_pairs_hook=lambda pairs: JSONObject(pairs),
    )
    return _with_arrays(decoder.raw_decode(text.lstrip(_BLANK))[0])


def _parsed(text: str, make: Maker) -> Any:
    try:
        found = json.loads(
            text, parse_float=_fraction, parse_constant=_no_constant, object_pairs_hook=lambda pairs: make(pairs)
        )
    except ValueError:
        # Only for what is no strict JSON: the reader in Python is far slower than that of `json`
        return _Smart(text, make).parse()
    return _with_arrays(found)


def _with_arrays(value: Any) -> Any:
    if type(value) is list:
        return JSONArray(map(_with_arrays, value))
    if isinstance(value, dict):
        # By the methods of dict: those of HashMap put the keys into Java's order for each call
        for key in list(dict.keys(value)):
            part = dict.__getitem__(value, key)
            if isinstance(part, list | dict):
                dict.__setitem__(value, key, _with_arrays(part))
    return value


_BLANK = " \t\r\n"
_ESCAPES = {"t": "\t", "n": "\n", "f": "\f", "b": "\b", "r": "\r"}
_NUMBER = re.compile(r"-?\d*(\.\d*)?([eE][-+]?\d*)?\Z", re.ASCII)
_WORDS = {"null": None, "true": True, "false": False, "NaN": Float("nan")}


class _Smart:
    """One text being read permissively."""

    def __init__(self, text: str, make: Maker) -> None:
        self.text = text
        self.make = make
        self.at = 0

    def parse(self) -> Any:
        """Return the first value; what follows it is not read."""
        # Without stops a bare word takes all of the text
        return self._value("")

    def _skip(self) -> str:
        text = self.text
        while self.at < len(text) and text[self.at] in _BLANK:
            self.at += 1
        return text[self.at] if self.at < len(text) else ""

    def _value(self, stops: str) -> Any:
        first = self._skip()
        if first == "{":
            return self._object()
        if first == "[":
            return self._array()
        if first and first in "\"'":
            return self._string(first)
        if first and first in ":}]":
            _refuse(self.text, self.at)
        return self._word(self._bare(stops))

    def _bare(self, stops: str) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in stops:
            self.at += 1
        return self.text[start : self.at].strip(_BLANK)

    def _word(self, word: str) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        if not word or word[0] not in "-0123456789" or not _NUMBER.match(word):
            return word
        if word.lstrip("-").isdecimal() or word == "-":
            # json-smart's parseNumber adds up the digits behind the sign: without any the sum is 0
            return int(word) if word != "-" else 0
        if word[-1] in "eE":
            return word
        try:
            return _fraction(word)
        except ValueError:
            # Java fails here in another way than with text that it cannot read.
            raise ArithmeticError(f"'{word}' is no number") from None

    def _string(self, quote: str) -> str:
        parts: list[str] = []
        text, end = self.text, len(self.text)
        self.at += 1
        while self.at < end:
            character = text[self.at]
            self.at += 1
            if character == quote:
                return joined_halves("".join(parts))
            if character == "\\" and self.at < end:
                parts.append(self._escape())
            elif character >= " " or character in _BLANK:
                # Other control characters are left out: the permissive mode ignores them
                parts.append(character)
        _refuse(text, self.at)

    def _escape(self) -> str:
        escaped = self.text[self.at]
        self.at += 1
        if escaped in "ux":
            digits = self.text[self.at : self.at + (4 if escaped == "u" else 2)]
            self.at += len(digits)
            return unit_of(digits)
        # An escape that json-smart does not know leaves nothing behind
        return escaped if escaped in "\"'\\/" else _ESCAPES.get(escaped, "")

    def _object(self) -> Any:
        members: list[tuple[str, Any]] = []
        self.at += 1
        while True:
            first = self._skip()
            if first == "}":
                self.at += 1
                return self.make(members)
            if first == ",":
                self.at += 1
                continue
            if not first or first in ":][{":
                _refuse(self.text, self.at)
            key = self._string(first) if first in "\"'" else self._bare(":")
            if self._skip() != ":":
                _refuse(self.text, self.at)
            self.at += 1
            if not self._skip():
                _refuse(self.text, self.at)
            members.append((key, self._value(",}")))
            if self._skip() not in (",", "}"):
                _refuse(self.text, self.at)

    def _array(self) -> Any:
        members = JSONArray()
        self.at += 1
        while True:
            first = self._skip()
            if first == "]":
                self.at += 1
                return members
            if first == ",":
                self.at += 1
                continue
            if not first or first in ":}":
                _refuse(self.text, self.at)
            members.append(self._value(",]"))


# --- org.json ----------------------------------------------------------------------------------------------------

_NULL = Opaque("org.json.JSONObject$Null", "null")
_ORG_ESCAPES = _ESCAPES | {character: character for character in "\"'\\/"}


class _Org:
    """One text being read by org.json."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def _clean(self) -> str:
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            if character > " ":
                return character
        # Beyond the end too: whoever only looks at a character takes one step back
        self.at += 1
        return ""

    def object(self) -> HashMap:
        """Return the object that starts here."""
        if self._clean() != "{":
            _refuse(self.text, self.at)
        members = HashMap()
        while True:
            first = self._clean()
            if first == "}":
                return members
            if not first:
                _refuse(self.text, self.at)
            self.at -= 1
            key = _org_name(self._value())
            if self._clean() != ":":
                _refuse(self.text, self.at)
            # org.json's putOnce refuses what Gson and json-smart overwrite
            if members.has(key):
                raise ValueError(f"the key '{key}' occurs twice")
            members.put(key, self._value())
            if self._ends("}"):
                return members

    def _ends(self, closing: str) -> bool:
        mark = self._clean()
        if mark == closing:
            return True
        if not mark or mark not in ",;":
            _refuse(self.text, self.at)
        # A mark in front of the closing bracket adds nothing
        if self._clean() == closing:
            return True
        self.at -= 1
        return False

    def _array(self) -> list[Any]:
        self.at += 1
        members: list[Any] = []
        if self._clean() == "]":
            return members
        self.at -= 1
        while True:
            # In org.json nothing in front of a comma is null
            empty = self._clean() == ","
            self.at -= 1
            members.append(_NULL if empty else self._value(True))
            if self._ends("]"):
                return members

    def _value(self, inside: bool = False) -> Any:
        first = self._clean()
        if first and first in "\"'":
            return self._string(first)
        self.at -= 1
        if first == "{":
            return self.object()
        if first == "[":
            array = self._array()
            # An array within an array is written as a part of it; only the outer one is an object that an app passes on
            return array if inside else org_array(array)
        start = self.at
        while self.at < len(self.text) and self.text[self.at] >= " " and self.text[self.at] not in ',:]}/\\"[{;=#':
            self.at += 1
        return _org_word(self.text[start : self.at].strip(), self)

    def _string(self, quote: str) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            if character == quote:
                return joined_halves("".join(parts))
            if character in "\r\n":
                break
            if character == "\\":
                escaped = self.text[self.at : self.at + 1]
                self.at += 1
                if escaped == "u":
                    character = unit_of(self.text[self.at : self.at + 4], as_number=True)
                    self.at += 4
                elif escaped in _ORG_ESCAPES:
                    character = _ORG_ESCAPES[escaped]
                else:
                    break
            parts.append(character)
        _refuse(self.text, self.at)


def _org_name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _org_word(word: str, reader: _Org) -> Any:
    if not word:
        _refuse(reader.text, reader.at)
    known = {"true": True, "false": False, "null": _NULL}.get(word.lower())
    if known is not None:
        return known
    if word[0] in "-0123456789":
        try:
            if any(mark in word for mark in ".eE"):
                # Java's Double.valueOf takes the f and d of its literals
                number = float(word[:-1] if word[-1] in "fFdD" else word)
                return number if abs(number) != float("inf") else word
            whole = int(word)
            # A whole number counts as one only as Java writes it: 007 and -0 stay texts
            if str(whole) == word and LONG_MIN <= whole <= LONG_MAX:
                return whole
        except ValueError:
            pass
    return word


def parse_org(text: str) -> HashMap:
    """Return the object that org.json reads; its arrays are opaque. Raises ValueError where it cannot be read."""
    return _Org(text).object()
