"""The ``json:`` functions of siddhi-execution-json: reading by JsonPath, changing, writing, grouping.

JSON is text, or an object that lists and maps make. What is no JSON fails the event; what a path does not find is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import ANY, aggregator, signature, stream_function
from spdist.functions.core import parse_double, parse_int, parse_long
from spdist.functions.forms import AggregatorForm
from spdist.functions.lists import register
from spdist.java.json.parse import parse_simple, parse_smart, parse_smart_objects
from spdist.java.json.path import JsonPath, PathNotFoundError
from spdist.java.json.path_text import compile_path
from spdist.java.json.text import gson_text, smart_text, text_of_object
from spdist.java.json.update import set_element
from spdist.java.numbers import float32
from spdist.java.objects import JSONArray, JSONObject
from spdist.language import ast
from spdist.language.types import Schema, Type

__all__: list[str] = []

Types = tuple[Type, ...]
Expressions = tuple[ast.Expression, ...]

_JSON = frozenset({Type.STRING, Type.OBJECT})
_READS = (_JSON, Type.STRING)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else gson_text(value)
    if not text:
        raise ValueError("an empty text is no JSON")
    return text


# Several functions usually read the same text; what they return does not let anyone change the document.
_document = lru_cache(maxsize=32)(parse_smart)


def _path(value: Any) -> JsonPath:
    if value is None:
        raise TypeError("null is no path")
    return compile_path(value)


def _read(value: Any, written: Any, shared: bool = True) -> Any:
    """Return what a path finds, None where it names nothing."""
    path = _path(written)
    text = _text(value)
    document = _document(text) if shared and not path.changes else parse_smart(text)
    try:
        return path.read(document, document)
    except PathNotFoundError:
        return None


# --- one value ---------------------------------------------------------------------------------------------------


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _float(text: str) -> float | None:
    number = parse_double(text)
    return None if number is None else float32(number)


_SCALARS: dict[str, tuple[Callable[[str], Any], Type]] = {
    "getBool": (_boolean, Type.BOOL),
    "getDouble": (parse_double, Type.DOUBLE),
    "getFloat": (_float, Type.FLOAT),
    "getInt": (parse_int, Type.INT),
    "getLong": (parse_long, Type.LONG),
}


def _scalar(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def get(value: Any, path: Any) -> Any:
        found = _read(value, path)
        if isinstance(found, list):
            found = found[0] if len(found) == 1 else None
        return None if found is None else parse(text_of_object(found))

    return get


for _name, (_parse, _type) in _SCALARS.items():
    register(f"json:{_name}", _scalar(_parse), signature(f"json:{_name}", (_READS, _type)))


def _get_string(value: Any, path: Any) -> str | None:
    found = _read(value, path)
    return found if found is None or isinstance(found, str) else gson_text(found)


def _get_object(value: Any, path: Any) -> Any:
    # What goes out may be changed, so it comes from a document of its own.
    found = _read(value, path, shared=False)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _is_exists(value: Any, written: Any) -> bool:
    path, document = _path(written), parse_smart(_text(value))
    try:
        path.read(document, document)
    except PathNotFoundError:
        return False
    return True


register("json:getString", _get_string, signature("json:getString", (_READS, Type.STRING)))
register("json:getObject", _get_object, signature("json:getObject", (_READS, Type.OBJECT)))
register("json:isExists", _is_exists, signature("json:isExists", (_READS, Type.BOOL)))


# --- changing and writing ----------------------------------------------------------------------------------------


def _set_element(value: Any, path: Any, element: Any, *key: str | None) -> Any:
    if path is None or None in key:
        raise TypeError("null is neither a path nor a key")
    return set_element(_text(value), path, element, *(key or (None,)))


def _to_object(text: Any) -> Any:
    if text is None:
        raise TypeError("null is no JSON")
    try:
        return parse_smart_objects(text)
    except ValueError:
        return None


def _to_string(value: Any, *escaped: bool | None) -> str:
    if escaped and (value is None or escaped[0] is None):
        raise TypeError("null cannot be written here")
    return gson_text(gson_text(value)) if any(escaped) else gson_text(value)


register(
    "json:setElement",
    _set_element,
    signature(
        "json:setElement", ((*_READS, ANY), Type.OBJECT), ((*_READS, ANY, frozenset({Type.STRING})), Type.OBJECT)
    ),
)
register("json:toObject", _to_object, signature("json:toObject", ((Type.STRING,), Type.OBJECT)))
register(
    "json:toString", _to_string, signature("json:toString", ((_JSON,), Type.STRING), ((_JSON, Type.BOOL), Type.STRING))
)


# --- many objects in one -----------------------------------------------------------------------------------------

Group = list[Any]


def _member(value: Any) -> JSONObject | None:
    if value is None or isinstance(value, JSONObject):
        return value
    parsed = parse_simple(gson_text(value) if isinstance(value, dict) else text_of_object(value))
    if not isinstance(parsed, JSONObject):
        raise TypeError("only JSON objects can be grouped")
    return parsed


def _same_text(value: Any) -> str:
    """Return a text that two JSON objects share if they are equal."""
    return json.dumps(value, sort_keys=True, default=lambda other: f"{type(other).__name__} {other}")


def _options(group: Group, options: tuple[Any, ...]) -> None:
    group[1:] = [None, False]
    for option in options:
        if option is None:
            raise TypeError("null is no option of a group")
        group[2 if isinstance(option, bool) else 1] = option


def _group_add(group: Group, value: Any, *options: Any) -> None:
    made = _member(value)
    group[0].setdefault(_same_text(made), [made, 0])[1] += 1
    _options(group, options)


def _group_remove(group: Group, value: Any, *options: Any) -> None:
    text = _same_text(_member(value))
    group[0][text][1] -= 1
    if not group[0][text][1]:
        del group[0][text]
    _options(group, options)


def _grouped(group: Group) -> Any:
    counted, enclosing, distinct = group
    members = JSONArray(made for made, count in counted.values() for _ in range(1 if distinct else count))
    return members if enclosing is None else JSONObject([(enclosing, members)])


def _grouped_text(group: Group) -> str:
    return smart_text(_grouped(group))


def _group_form(types: Types, result: Callable[[Group], Any]) -> AggregatorForm:
    arguments = "{v}" if len(types) == 1 else "*{v}"
    return AggregatorForm(
        ("[{{}}, None, False]",),
        (f"group_add({{0}}, {arguments})",),
        (f"group_remove({{0}}, {arguments})",),
        f"{result.__name__.strip('_')}({{0}})",
        "not {0}[0]",
        skips_null=False,
        names={call.__name__.strip("_"): call for call in (_group_add, _group_remove, result)},
    )


_GROUPS = ((_JSON,), (_JSON, Type.BOOL), (_JSON, Type.STRING), (_JSON, Type.STRING, Type.BOOL))


@aggregator("json:group", signature("json:group", *((types, Type.STRING) for types in _GROUPS)))
def group(types: Types, _leaving: bool) -> AggregatorForm:
    """Gather JSON objects into the text of an array: ``json:group(json[, enclosing.element][, distinct])``.

    State
    -----
    Each different object and how often it is there, in the order in which they came: O(different objects).

    Notes
    -----
    Source: io.siddhi.extension.execution.json.GroupAggregatorFunctionExtension. Equal objects stand together.
    """
    return _group_form(types, _grouped_text)


@aggregator("json:groupAsObject", signature("json:groupAsObject", *((types, Type.OBJECT) for types in _GROUPS)))
def group_as_object(types: Types, _leaving: bool) -> AggregatorForm:
    """Gather JSON objects into an array that is an object; see `group`.

    State
    -----
    As `group`.

    Notes
    -----
    Source: io.siddhi.extension.execution.json.GroupAsObjectAggregatorFunctionExtension, which mixes the groups of
    ``group by`` and of partitions into one: here each has its own.
    """
    return _group_form(types, _grouped)


# --- one object as many events -----------------------------------------------------------------------------------


def _resolve_tokenize(id: str, type: Type) -> Callable[..., Schema]:
    resolve = signature(id, ((_JSON, Type.STRING), type), ((_JSON, Type.STRING, Type.BOOL), type))

    def resolved(_schema: Schema, types: Types, expressions: Expressions) -> Schema:
        resolve(types, expressions)
        if len(expressions) == 3 and not isinstance(expressions[2], ast.Literal):
            raise SiddhiTypeError(f"'fail.on.missing.attribute' of '{id}' must be a constant")
        return Schema.of([("jsonElement", type)])

    return resolved


def _tokens(document: Any, written: Any, failing: bool, form: Callable[[Any], Any]) -> Iterator[tuple[Any]]:
    path = _path(written)
    try:
        found = path.read(document, document)
    except PathNotFoundError:
        found = None
    if isinstance(found, list) and (found or failing):
        for part in found:
            yield (form(part),)
    elif isinstance(found, list) or found is None:
        if not failing:
            yield (None,)
    elif isinstance(found, dict | str):
        # A number or a boolean gives no event.
        yield (form(found) if isinstance(found, dict) else found,)


@stream_function("json:tokenize", _resolve_tokenize("json:tokenize", Type.STRING))
def tokenize(value: Any, path: Any, failing: bool = True) -> Iterator[tuple[Any]]:
    """Give an event for each element found by a path, appended as text; without any no event, or one with null."""
    document = parse_smart(_text(value)) if isinstance(value, str) else value
    return _tokens(document, path, failing, gson_text)


@stream_function("json:tokenizeAsObject", _resolve_tokenize("json:tokenizeAsObject", Type.OBJECT))
def tokenize_as_object(value: Any, path: Any, failing: bool = True) -> Iterator[tuple[Any]]:
    """Give an event for each element that a path finds, appended as an object; see `tokenize`."""
    return _tokens(parse_smart(_text(value)), path, failing, lambda part: part)
