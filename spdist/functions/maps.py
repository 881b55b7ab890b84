"""The ``map:`` functions of siddhi-execution-map.

A function that changes a map changes the one that it was given, and gives it back. Maps that are made here are
`spdist.java.objects.HashMap`: they tell an Integer 1 from a Long 1 and iterate in Java's order. What is no map
fails the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import ANY, aggregator, function, signature, stream_function
from spdist.functions.forms import AggregatorForm, Code, Site
from spdist.functions.lists import boxer_of, register, tokenizing
from spdist.functions.maps_xml import map_of_xml, xml_of_map
from spdist.java.bounds import check_entries
from spdist.java.json.parse import parse_org
from spdist.java.json.text import org_text
from spdist.java.objects import HashMap, entries, same
from spdist.language import ast
from spdist.language.types import Type

__all__ = ["map_of"]

Types = tuple[Type, ...]
Expressions = tuple[ast.Expression, ...]
Map = dict[Any, Any]

_OBJECT, _STRING, _BASIC = Type.OBJECT, Type.STRING, ANY - {Type.OBJECT}


def map_of(value: Any) -> Map:
    """Return a value that is a map; raises TypeError for anything else."""
    if not isinstance(value, dict):
        raise TypeError(f"this is no map: {value!r}")
    return value


# Maps of JSON keep the order of the text and have text for keys: they are plain dictionaries until they take another.


def _put_into(known: Map, key: Any, value: Any) -> None:
    check_entries(len(known) + 1)
    if isinstance(known, HashMap):
        known.put(key, value)
    else:
        known[key] = value


def _found(known: Map, key: Any, missing: Any = None) -> Any:
    if isinstance(known, HashMap):
        return known.find(key, missing)
    return next((value for mine, value in known.items() if same(mine, key)), missing)


_MISSING = object()


def _has(known: Map, key: Any) -> bool:
    return _found(known, key, _MISSING) is not _MISSING


def _take_from(known: Map, key: Any) -> None:
    if isinstance(known, HashMap):
        known.take(key)
    elif _has(known, key):
        del known[key]


# --- making and changing -----------------------------------------------------------------------------------------


def _resolve_create(types: Types, *_: Any) -> Type:
    if len(types) % 2:
        raise SiddhiTypeError("'map:create' takes keys and values in turn", hint="write map:create('key', value, …)")
    return _OBJECT


def _create(*parts: Any) -> HashMap:
    return HashMap(zip(parts[::2], parts[1::2], strict=True))


def _clear(known: Any) -> Map:
    map_of(known).clear()
    return map_of(known)


def _combine_by_key(*maps: Any) -> HashMap:
    return HashMap(_combined(maps))


def _combined(maps: tuple[Any, ...]) -> Iterator[tuple[Any, list[Any]]]:
    known = [map_of(each) for each in maps]
    keys = HashMap((key, None) for each in known for key, _ in entries(each))
    for key, _ in entries(keys):
        yield key, [_found(each, key) for each in known]


def _put(known: Any, key: Any, value: Any) -> Map:
    _put_into(map_of(known), key, value)
    return map_of(known)


def _put_all(known: Any, more: Any) -> Map:
    target = map_of(known)
    check_entries(len(target) + len(map_of(more)))
    if isinstance(target, HashMap):
        target.put_all(more)
    else:
        target.update(entries(more))
    return target


def _put_if_absent(known: Any, key: Any, value: Any) -> Map:
    # A null value counts as absent.
    if _found(map_of(known), key) is None:
        _put_into(map_of(known), key, value)
    return map_of(known)


def _remove(known: Any, key: Any) -> Map:
    _take_from(map_of(known), key)
    return map_of(known)


def _replace(known: Any, key: Any, value: Any) -> Map:
    if _has(map_of(known), key):
        _put_into(map_of(known), key, value)
    return map_of(known)


def _replace_all(known: Any, more: Any) -> Map:
    target = map_of(known)
    for key, value in entries(map_of(more)):
        _replace(target, key, value)
    return target


_CHANGING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "clear": (_clear, (_OBJECT,)),
    "clone": (lambda known: HashMap.copy_of(map_of(known)), (_OBJECT,)),
    "put": (_put, (_OBJECT, ANY, ANY)),
    "putAll": (_put_all, (_OBJECT, _OBJECT)),
    "putIfAbsent": (_put_if_absent, (_OBJECT, _BASIC, _BASIC)),
    "remove": (_remove, (_OBJECT, ANY)),
    "replace": (_replace, (_OBJECT, _BASIC, _BASIC)),
    "replaceAll": (_replace_all, (_OBJECT, _OBJECT)),
}

register("map:create", _create, _resolve_create)
register("map:combineByKey", _combine_by_key, signature("map:combineByKey", ((_OBJECT, _OBJECT), _OBJECT), repeat=True))
for _name, (_compute, _types) in _CHANGING.items():
    register(f"map:{_name}", _compute, signature(f"map:{_name}", (_types, _OBJECT)))


# --- asking ------------------------------------------------------------------------------------------------------


def _get(known: Any, key: Any, *missing: Any) -> Any:
    return _found(map_of(known), key, *missing)


_ASKING: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Type]] = {
    "containsKey": (lambda known, key: _has(map_of(known), key), (_OBJECT, _BASIC), Type.BOOL),
    "containsValue": (
        lambda known, value: any(same(value, each) for _, each in entries(map_of(known))),
        (_OBJECT, _BASIC),
        Type.BOOL,
    ),
    "isEmpty": (lambda known: not map_of(known), (_OBJECT,), Type.BOOL),
    "isMap": (lambda value: isinstance(value, dict), (ANY,), Type.BOOL),
    "keys": (lambda known: [key for key, _ in entries(map_of(known))], (_OBJECT,), _OBJECT),
    "size": (lambda known: len(map_of(known)), (_OBJECT,), Type.INT),
    "values": (lambda known: [value for _, value in entries(map_of(known))], (_OBJECT,), _OBJECT),
}

register("map:get", _get, signature("map:get", ((_OBJECT, _BASIC), _OBJECT), ((_OBJECT, _BASIC, ANY), _OBJECT)))
for _name, (_compute, _types, _result) in _ASKING.items():
    register(f"map:{_name}", _compute, signature(f"map:{_name}", (_types, _result)))


# --- other forms -------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("null is no text")
    return value


register(
    "map:createFromJSON", lambda text: parse_org(_text(text)), signature("map:createFromJSON", ((_STRING,), _OBJECT))
)
register(
    "map:createFromXML", lambda text: map_of_xml(_text(text)), signature("map:createFromXML", ((_STRING,), _OBJECT))
)
register("map:toJSON", lambda known: org_text(map_of(known)), signature("map:toJSON", ((_OBJECT,), _STRING)))

_resolve_to_xml_types = signature(
    "map:toXML", ((_OBJECT,), _STRING), ((_OBJECT, frozenset({_OBJECT, _STRING})), _STRING)
)


def _resolve_to_xml(types: Types, expressions: Expressions = ()) -> Type:
    result = _resolve_to_xml_types(types, expressions)
    if len(expressions) == 2 and any(isinstance(node, ast.Variable) for node in expressions[1].walk()):
        raise SiddhiTypeError("the root element of 'map:toXML' must be a constant", hint="write map:toXML(map, 'root')")
    return result


@function("map:toXML", _resolve_to_xml, inline=True)
def to_xml(site: Site, arguments: tuple[Code, ...]) -> Code:
    """Write a map as elements, without any escapes; with a constant name inside an element of that name."""

    def written(known: Any, root: str | None = None) -> str:
        elements = xml_of_map(map_of(known))
        return elements if root is None else f"<{root}>{elements}</{root}>"

    return Code(f"{site.bind(written, 'to_xml')}({', '.join(a.text for a in arguments)})", _STRING, nullable=False)


# --- aggregators -------------------------------------------------------------------------------------------------


def _map_collect(known: HashMap, key: Any, value: Any) -> None:
    known.put(key, value)


def _map_drop(known: HashMap, key: Any) -> None:
    known.take(key)


def _map_merge(known: HashMap, more: Any) -> None:
    known.put_all(map_of(more))


def _map_drop_all(known: HashMap, gone: Any) -> None:
    for key, _ in entries(map_of(gone)):
        known.take(key)


def _form(add: str, remove: str, *names: Callable[..., Any]) -> AggregatorForm:
    return AggregatorForm(
        ("HashMap()",),
        (add,),
        (remove,),
        # A copy: what was put out must not change with the group.
        "HashMap.copy_of({0})",
        "not {0}",
        skips_null=False,
        nullable=False,
        after_reset="HashMap()",
        names={"HashMap": HashMap} | {call.__name__.strip("_"): call for call in names},
    )


@aggregator("map:collect", signature("map:collect", ((_BASIC, ANY), _OBJECT)))
def collect(types: Types, _leaving: bool) -> AggregatorForm:
    """Collect keys and values into a map; an event that leaves takes its key away, whoever set it last.

    State
    -----
    The map: O(different keys).

    Notes
    -----
    Source: io.siddhi.extension.execution.map.CollectAggregateFunction.
    """
    boxers = [boxer_of(type) for type in types]
    key, value = (
        f"{{v}}[{place}]" if boxer is None else f"{boxer.__name__}({{v}}[{place}])"
        for place, boxer in enumerate(boxers)
    )
    known = [boxer for boxer in boxers if boxer is not None]
    return _form(f"map_collect({{0}}, {key}, {value})", f"map_drop({{0}}, {key})", _map_collect, _map_drop, *known)


@aggregator("map:merge", signature("map:merge", ((_OBJECT,), _OBJECT)))
def merge(_types: Types, _leaving: bool) -> AggregatorForm:
    """Put the entries of maps into one map; a map that leaves takes its keys away.

    State
    -----
    The map: O(different keys).

    Notes
    -----
    Source: io.siddhi.extension.execution.map.MergeAggregateFunction.
    """
    return _form("map_merge({0}, {v})", "map_drop_all({0}, {v})", _map_merge, _map_drop_all)


# --- a map as events ---------------------------------------------------------------------------------------------


@stream_function("map:tokenize", tokenizing("map:tokenize", [("key", _OBJECT), ("value", _OBJECT)]))
def tokenize(*maps: Any) -> Iterator[tuple[Any, Any]]:
    """Give an event for each key; with several maps the value is the list of what they have under it."""
    for key, values in _combined(maps):
        yield key, values[0] if len(maps) == 1 else values
