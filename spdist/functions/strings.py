"""The ``str:`` functions of siddhi-execution-string.

Positions and lengths count UTF-16 units, as Java does: a character beyond U+FFFF is two, and half of one is shown as
``?``. A null or a position that Java cannot work with costs the event, as it does there. Regular expressions are Java's
(`spdist.java.regex.pattern`). A text that would be longer than ten million characters costs the event as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from spdist.errors import SiddhiTypeError
from spdist.extension import ANY, aggregator, function, signature, stream_function
from spdist.functions.forms import Code, Site
from spdist.functions.regexes import checking, read_constant
from spdist.java.bounds import check_length
from spdist.java.numbers import text_of, text_of_float32
from spdist.java.regex.matching import java_replaced, java_split
from spdist.java.regex.pattern import java_pattern
from spdist.language import ast
from spdist.language.types import Schema, Type

__all__ = ["GroupConcat"]

_STRING = frozenset({Type.STRING})
_BASIC = ANY - {Type.OBJECT}
_ONE: tuple[frozenset[Type], ...] = (_STRING,)

Types = tuple[Type, ...]
Expressions = tuple[ast.Expression, ...]
Value = TypeVar("Value")


def _of(value: Value | None, id: str) -> Value:
    if value is None:
        raise ValueError(f"'{id}' takes no null")
    return value


# --- positions as Java counts them -------------------------------------------------------------------------------


def _units(text: str) -> str:
    """Return a text as UTF-16 units, each a character."""
    # Such a text is its UTF-16 units already.
    if text.isascii():
        return text
    packed = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(packed[i] | packed[i + 1] << 8) for i in range(0, len(packed), 2))


def _joined_units(units: str) -> str:
    """Return the text of UTF-16 units; half of a character becomes ``?``, as where Java writes it."""
    if units.isascii():
        return units
    whole = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _HALF.sub("?", whole)


_HALF = re.compile("[\ud800-\udfff]")

# --- one text ----------------------------------------------------------------------------------------------------


def _hex(text: str) -> str:
    check_length(2 * len(text))
    return "".join(f"{ord(unit):x}" for unit in _units(text))


_BYTE = re.compile(r"[0-9A-Fa-f]{2}|\+[0-9A-Fa-f]|-0")


def _unhex(text: str) -> str:
    if len(text) % 2:
        raise ValueError(f"'{text}' has an odd number of digits")
    parts = [text[i : i + 2] for i in range(0, len(text), 2)]
    if not all(map(_BYTE.fullmatch, parts)):
        raise ValueError(f"'{text}' is not hexadecimal")
    return "".join(chr(int(part, 16)) for part in parts)


# Java's blanks are all up to U+0020.
_BLANKS = "".join(map(chr, range(0x21)))

_OF_ONE: dict[str, tuple[Callable[[str], Any], Type]] = {
    "hex": (_hex, Type.STRING),
    "length": (lambda text: len(_units(text)), Type.INT),
    "lower": (str.lower, Type.STRING),
    "reverse": (lambda text: text[::-1], Type.STRING),
    "trim": (lambda text: text.strip(_BLANKS), Type.STRING),
    "unhex": (_unhex, Type.STRING),
    "upper": (str.upper, Type.STRING),
}


def _of_one(id: str, compute: Callable[[str], Any], type: Type) -> None:
    @function(id, signature(id, (_ONE, type)))
    def computed(text: str | None) -> Any:
        return compute(_of(text, id))


for _name, (_compute, _type) in _OF_ONE.items():
    _of_one(f"str:{_name}", _compute, _type)


# --- parts and comparisons ---------------------------------------------------------------------------------------


def _part(units: str, begin: int, end: int) -> str:
    if not 0 <= begin <= end <= len(units):
        raise IndexError(f"there is no part from {begin} to {end}")
    return _joined_units(units[begin:end])


@function("str:charAt", signature("str:charAt", ((_STRING, Type.INT), Type.STRING)))
def char_at(text: str | None, index: int | None) -> str:
    """Give the character at a position from 0; one outside fails the event. Source: CharAtFunctionExtension."""
    at = _of(index, "str:charAt")
    return _part(_units(_of(text, "str:charAt")), at, at + 1)


@function("str:charFrequency", signature("str:charFrequency", ((_STRING, _STRING), Type.LONG)))
def char_frequency(text: str | None, character: str | None) -> int:
    """Count a character. Source: CharFrequencyFunctionExtension."""
    counted = _units(_of(character, "str:charFrequency"))
    if len(counted) != 1:
        raise ValueError("'str:charFrequency' counts one character")
    return _of(text, "str:charFrequency").count(counted)


@function("str:contains", signature("str:contains", ((_STRING, _STRING), Type.BOOL)))
def contains(text: str | None, part: str | None) -> bool:
    """Tell whether a text has a part; false where the text is null. Source: ContainsFunctionExtension."""
    return _of(part, "str:contains") in text if text is not None else False


@function("str:equalsIgnoreCase", signature("str:equalsIgnoreCase", ((_STRING, _STRING), Type.BOOL)))
def equals_ignore_case(left: str | None, right: str | None) -> bool:
    """Tell whether texts are the same but for case, that of single characters: ``ß`` and ``SS`` differ.

    Nothing is the same as null. Source: EqualsIgnoreCaseFunctionExtension.
    """
    one = _of(left, "str:equalsIgnoreCase")
    if right is None or len(one) != len(right):
        return False
    return one == right or all(map(_same_letter, one, right))


def _same_letter(one: str, other: str) -> bool:
    if one == other:
        return True
    upper, its = _single(one.upper(), one), _single(other.upper(), other)
    return upper == its or _single(upper.lower(), upper) == _single(its.lower(), its)


def _single(changed: str, character: str) -> str:
    return changed if len(changed) == 1 else character


@function(
    "str:locate",
    signature("str:locate", ((_STRING, _STRING), Type.INT), ((_STRING, _STRING, Type.INT), Type.INT)),
)
def locate(part: str | None, text: str | None, start: int | None = 0) -> int:
    """Give the first position of `part` from `start` on, counted from 0; one before `start` where there is none.

    Source: LocateFunctionExtension.
    """
    wanted, whole, at = _units(_of(part, "str:locate")), _units(_of(text, "str:locate")), _of(start, "str:locate")
    if not 0 <= at <= len(whole):
        raise IndexError(f"there is no position {at}")
    return whole[at:].find(wanted) + at


_resolve_times = signature("str:repeat", ((_STRING, Type.INT), Type.STRING))


def _resolve_repeat(types: Types, expressions: Expressions = ()) -> Type:
    result = _resolve_times(types, expressions)
    length = _constant_length(ast.FunctionCall("repeat", expressions, "str"))
    if length is not None:
        try:
            check_length(length)
        except ValueError as error:
            raise SiddhiTypeError(str(error)) from error
    return result


def _constant_length(expression: ast.Expression) -> int | None:
    """Return the length of a text that the app itself writes out, repeated perhaps; None for what events decide."""
    match expression:
        case ast.Literal(value=str() as text):
            return len(text)
        case ast.FunctionCall(id="str:repeat", args=(text, ast.Literal(value=int() as times))):
            length = _constant_length(text)
            return None if length is None else length * max(0, times)
    return None


@function("str:repeat", _resolve_repeat)
def repeat(text: str | None, times: int | None) -> str:
    """Give the text several times; none where that is below 1. Source: RepeatFunctionExtension."""
    whole, often = _of(text, "str:repeat"), _of(times, "str:repeat")
    # Before the text is made, which could take all memory.
    check_length(len(whole) * often)
    return whole * often


@function("str:strcmp", signature("str:strcmp", ((_STRING, _STRING), Type.INT)))
def strcmp(left: str | None, right: str | None) -> int:
    """Give the distance of the first characters that differ, or of the lengths; 0 for equal texts.

    Source: StrcmpFunctionExtension.
    """
    one, other = _units(_of(left, "str:strcmp")), _units(_of(right, "str:strcmp"))
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            return ord(mine) - ord(its)
    return len(one) - len(other)


# --- regular expressions -----------------------------------------------------------------------------------------


@function("str:regexp", checking("str:regexp", 1, ((_STRING, _STRING), Type.BOOL)))
def regexp(text: str | None, regex: str | None) -> bool:
    """Tell whether a regular expression fits the whole text. Source: RegexpFunctionExtension."""
    whole, pattern = _of(text, "str:regexp"), java_pattern(_of(regex, "str:regexp"))
    return pattern.fullmatch(whole) is not None


def _replace(id: str, count: int) -> None:
    @function(id, checking(id, 1, ((_STRING, _STRING, _STRING), Type.STRING), lenient=True))
    def replaced(text: str | None, regex: str | None, replacement: str | None) -> str:
        return java_replaced(_of(text, id), _of(regex, id), _of(replacement, id), count)


_replace("str:replaceAll", 0)
_replace("str:replaceFirst", 1)


@function("str:split", checking("str:split", 1, ((_STRING, _STRING, Type.INT), Type.STRING), lenient=True))
def split(text: str | None, regex: str | None, group: int | None) -> str:
    """Give one part of a text that is split, counted from 0; a part that is not there fails the event.

    Source: SplitFunctionExtension.
    """
    number = _of(group, "str:split")
    if number < 0:
        raise IndexError(f"there is no part {number}")
    return java_split(_of(text, "str:split"), _of(regex, "str:split"))[number]


_SUBSTR = (
    ((_STRING, Type.INT), Type.STRING),
    ((_STRING, Type.INT, Type.INT), Type.STRING),
    ((_STRING, _STRING), Type.STRING),
    ((_STRING, _STRING, Type.INT), Type.STRING),
)


@function("str:substr", checking("str:substr", 1, *_SUBSTR))
def substr(text: str | None, begin: int | str | None, *more: int | None) -> str | None:
    """Give a part of a text: from a position, so long; or what a regular expression, or a group of it, finds.

    Where the expression finds nothing the part is empty; a group that took no part in it is null. Source:
    SubstrFunctionExtension.
    """
    whole, first = _of(text, "str:substr"), _of(begin, "str:substr")
    last = _of(more[0], "str:substr") if more else None
    if isinstance(first, int):
        units = _units(whole)
        return _part(units, first, len(units) if last is None else first + last)
    found = java_pattern(first).search(whole)
    if found is None:
        return ""
    if last is not None and last < 0:
        raise IndexError(f"there is no group {last}")
    part: str | None = found.group(last or 0)
    return part


# --- several values ----------------------------------------------------------------------------------------------


def _texts(site: Site, values: tuple[Code, ...]) -> str:
    """Return source of the values as texts, null staying null."""
    written = []
    for value in values:
        convert = text_of_float32 if value.type is Type.FLOAT else text_of
        text = value.text
        if value.type is not Type.STRING or not value.exact:
            name = site.temporary()
            text = f"(None if ({name} := {text}) is None else {site.bind(convert, convert.__name__)}({name}))"
        written.append(text)
    return f"({', '.join(written)},)"


def _joined(values: tuple[str | None, ...]) -> str:
    known = [value for value in values if value is not None]
    check_length(sum(map(len, known)))
    return "".join(known)


_resolve_parts = signature("str:concat", ((_BASIC, _BASIC), Type.STRING), repeat=True)


@function("str:concat", _resolve_parts, inline=True)
def concat(site: Site, arguments: tuple[Code, ...]) -> Code:
    """Join values of any type but object, leaving out null. Source: ConcatFunctionExtension."""
    return Code(f"{site.bind(_joined, 'joined')}({_texts(site, arguments)})", Type.STRING, nullable=False)


def _resolve_coalesce(types: Types, *_: Any) -> Type:
    if not types or Type.OBJECT in types or len(set(types)) > 1:
        raise SiddhiTypeError("the arguments of 'str:coalesce' must be of one type", hint="write str:coalesce(a, b, …)")
    return types[0]


@function("str:coalesce", _resolve_coalesce)
def coalesce(*values: Any) -> Any:
    """Give the first argument that is not null. Source: CoalesceFunctionExtension.

    A single argument is given as it is; Siddhi makes null of it.
    """
    return next((value for value in values if value is not None), None)


_BRACES = r"\{\{|}}"
_PLACE = re.compile(r"[+-]?[0-9]+")


def _filled(template: str | None, values: tuple[str | None, ...]) -> str:
    # Siddhi cuts the text at braces and takes every other piece for a place, whether its braces match or not.
    pieces = java_split(_of(template, "str:fillTemplate"), _BRACES)
    for at in range(1, len(pieces), 2):
        place = pieces[at].strip(_BLANKS)
        if _PLACE.fullmatch(place) is None or not 0 <= int(place) <= len(values):
            raise IndexError(f"the template has no value for '{place}'")
        # Place 0 is the template itself; the number of a value that is null stays as it is.
        found = values[int(place) - 1] if int(place) else template
        pieces[at] = pieces[at] if found is None else found
    check_length(sum(map(len, pieces)))
    return "".join(pieces)


def _filled_by_name(template: str | None, values: Any) -> str:
    pieces = java_split(_of(template, "str:fillTemplate"), _BRACES)
    if not isinstance(values, Mapping):
        raise TypeError("'str:fillTemplate' takes texts and numbers, or one map")
    for at in range(1, len(pieces), 2):
        found = values.get(pieces[at].strip(_BLANKS))
        pieces[at] = pieces[at] if found is None else text_of(found)
    check_length(sum(map(len, pieces)))
    return "".join(pieces)


_resolve_positions = signature("str:fillTemplate", ((_STRING, _BASIC), Type.STRING), repeat=True)


def _resolve_template(types: Types, expressions: Expressions = ()) -> Type:
    return Type.STRING if types == (Type.STRING, Type.OBJECT) else _resolve_positions(types, expressions)


@function("str:fillTemplate", _resolve_template, inline=True)
def fill_template(site: Site, arguments: tuple[Code, ...]) -> Code:
    """Put values into ``{{1}}``, ``{{2}}``…, or those of a map into ``{{name}}``.

    What is null leaves its place's number or name; a number without value fails the event. Source:
    FillTemplateFunctionExtension.
    """
    template, *values = arguments
    if values[0].type is Type.OBJECT:
        call = f"{site.bind(_filled_by_name, 'filled_by_name')}({template.text}, {values[0].text})"
    else:
        call = f"{site.bind(_filled, 'filled')}({template.text}, {_texts(site, tuple(values))})"
    return Code(call, Type.STRING, nullable=False)


# --- many texts in one, one text in many -------------------------------------------------------------------------

_CONCAT_OPTIONS: tuple[tuple[Any, ...], ...] = (
    (_STRING,),
    (_STRING, _STRING),
    (_STRING, _STRING, Type.BOOL),
    (_STRING, _STRING, Type.BOOL, _STRING),
)


_resolve_options = signature("str:groupConcat", *((options, Type.STRING) for options in _CONCAT_OPTIONS))


def _resolve_concat(types: Types, expressions: Expressions = ()) -> Type:
    result = _resolve_options(types, expressions)
    if not all(isinstance(option, ast.Literal) for option in expressions[2:]):
        raise SiddhiTypeError("'str:groupConcat' takes constants for distinct and order")
    order = expressions[3] if len(expressions) > 3 else None
    if isinstance(order, ast.Literal) and str(order.value).upper() not in ("ASC", "DESC"):
        raise SiddhiTypeError(f"'str:groupConcat' orders by 'ASC' or 'DESC', not by '{order.value}'")
    return result


@aggregator("str:groupConcat", _resolve_concat)
class GroupConcat:
    """Join the texts of the events that have not left: ``str:groupConcat(key[, separator[, distinct[, order]]])``.

    State
    -----
    Separator, distinct, order, and how often each text is there, in the order in which they came: O(different texts).

    Notes
    -----
    Source: io.siddhi.extension.execution.string.GroupConcatFunctionExtension. As there, null is left out where only the
    key is given, and else written; the separator is that of the last event; and where only the key is given an event
    that leaves fails, with the events of its chunk.
    """

    @staticmethod
    def initial() -> list[Any]:
        """Return a state without texts."""
        return [",", False, None, {}]

    @staticmethod
    def add(state: list[Any], value: Any) -> list[Any]:
        """Take in a text."""
        text = _noted(state, value)
        if text is not None:
            state[3][text] = state[3].get(text, 0) + 1
        return state

    @staticmethod
    def remove(state: list[Any], value: Any) -> list[Any]:
        """Take out a text."""
        if not isinstance(value, tuple):
            raise ValueError("'str:groupConcat' without a separator cannot let events leave")
        counts, text = state[3], _noted(state, value)
        if counts[text] > 1:
            counts[text] -= 1
        else:
            del counts[text]
        return state

    @staticmethod
    def result(state: list[Any]) -> str:
        """Return the joined texts."""
        separator, distinct, order, counts = state
        texts: list[str] = list(counts)
        if order is not None:
            texts.sort(reverse=order.upper() == "DESC")
        often = [1 if distinct else counts[text] for text in texts]
        # Before the text is made, which could take all memory.
        check_length(sum(len(text) * n for text, n in zip(texts, often, strict=True)) + len(separator) * sum(often))
        return str(separator).join(text for text, n in zip(texts, often, strict=True) for _ in range(n))


def _noted(state: list[Any], value: Any) -> str | None:
    """Note an event's options in a state, and return its text; null where there is none."""
    if not isinstance(value, tuple):
        return None if value is None else text_of(value)
    # What the call leaves out has its default: not distinct, and no order.
    state[:3] = (*value[1:], *(False, None)[len(value) - 2 :])
    return text_of(value[0])


def _resolve_tokenize(_schema: Schema, types: Types, expressions: Expressions) -> Schema:
    constants = all(isinstance(expression, ast.Literal) for expression in expressions[1:])
    if constants and len(expressions) > 1:
        read_constant(str(getattr(expressions[1], "value", "")))
    if types not in ((Type.STRING, Type.STRING), (Type.STRING, Type.STRING, Type.BOOL)) or not constants:
        raise SiddhiTypeError(
            "'str:tokenize' takes a string and a constant regular expression",
            hint="write #str:tokenize(text, ','[, true])",
        )
    return Schema.of([("token", Type.STRING)])


@stream_function("str:tokenize", _resolve_tokenize)
def tokenize(text: str | None, regex: str, distinct: bool = False) -> Iterator[tuple[str]]:
    """Give an event for each part of a text, appended as ``token``; with `distinct` for each different one."""
    parts = java_split(_of(text, "str:tokenize"), regex)
    return ((part,) for part in (dict.fromkeys(parts) if distinct else parts))
