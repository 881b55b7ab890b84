"""The ``list:`` functions of siddhi-execution-list.

A function that changes a list changes the one that it was given, and gives it back: whoever holds it sees the change,
as in Siddhi. Values keep their Java classes (`spdist.java.objects`), so a Long 1 is not found as an Integer 1.
What is no list fails the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spdist.errors import SiddhiTypeError
from spdist.extension import ANY, aggregator, function, signature, stream_function
from spdist.functions.forms import AggregatorForm, Code, Site
from spdist.java.bounds import check_entries
from spdist.java.objects import box_float, box_long, is_integer, is_long, same
from spdist.language import ast
from spdist.language.types import Schema, Type

__all__ = ["boxed", "boxer_of", "list_of", "register", "tokenizing"]

Types = tuple[Type, ...]
Expressions = tuple[ast.Expression, ...]

_BOXERS: dict[Type, Callable[[Any], Any]] = {Type.LONG: box_long, Type.FLOAT: box_float}
_OBJECT = Type.OBJECT


def boxer_of(type: Type) -> Callable[[Any], Any] | None:
    """Return what makes an object of a value of a static type; None where the value is one already."""
    return _BOXERS.get(type)


def boxed(site: Site, argument: Code) -> str:
    """Return source of an argument as an object."""
    boxer = boxer_of(argument.type)
    return argument.text if boxer is None else f"{site.bind(boxer, boxer.__name__)}({argument.text})"


def register(id: str, compute: Callable[..., Any], resolve: Callable[..., Type]) -> None:
    """Register a function that is called with objects."""

    @function(id, resolve, inline=True)
    def form(site: Site, arguments: tuple[Code, ...]) -> Code:
        call = f"{site.bind(compute, compute.__name__)}({', '.join(boxed(site, a) for a in arguments)})"
        types = tuple(a.type for a in arguments)
        return Code(call, resolve(types, ()))


def list_of(value: Any) -> list[Any]:
    """Return a value that is a list; raises TypeError for anything else."""
    if not isinstance(value, list):
        raise TypeError(f"this is no list: {value!r}")
    return value


def _within(values: list[Any], value: Any) -> int:
    for index, each in enumerate(values):
        if same(value, each):
            return index
    return -1


# --- making and changing -----------------------------------------------------------------------------------------


def _resolve_create(types: Types, *_: Any) -> Type:
    return _OBJECT


def _create(*values: Any) -> list[Any]:
    # Siddhi gives one value to a method of its own, which makes nothing of null.
    return [] if values == (None,) else list(values)


def _add(values: Any, value: Any, *index: int) -> list[Any]:
    made = list_of(values)
    check_entries(len(made) + 1)
    if not index:
        made.append(value)
    elif index[0] is not None and 0 <= index[0] <= len(made):
        made.insert(index[0], value)
    else:
        raise IndexError(f"there is no place {index[0]} in a list of {len(made)}")
    return made


def _add_all(values: Any, more: Any, *distinct: bool) -> list[Any]:
    made, added = list_of(values), list_of(more)
    if any(_flag(flag) for flag in distinct):
        for value in added:
            if _within(made, value) < 0:
                check_entries(len(made) + 1)
                made.append(value)
    else:
        check_entries(len(made) + len(added))
        made.extend(added)
    return made


def _flag(flag: Any) -> bool:
    if not isinstance(flag, bool):
        raise TypeError("null is neither true nor false")
    return flag


def _clear(values: Any) -> list[Any]:
    list_of(values).clear()
    return list_of(values)


def _clone(values: Any) -> list[Any]:
    return list(list_of(values))


def _remove(values: Any, value: Any) -> list[Any]:
    made = list_of(values)
    index = _within(made, value)
    if index >= 0:
        del made[index]
    return made


def _remove_all(values: Any, gone: Any) -> list[Any]:
    made, taken = list_of(values), list_of(gone)
    made[:] = [value for value in made if _within(taken, value) < 0]
    return made


def _retain_all(values: Any, kept: Any) -> list[Any]:
    made, stays = list_of(values), list_of(kept)
    made[:] = [value for value in made if _within(stays, value) >= 0]
    return made


def _place(values: list[Any], index: Any) -> int:
    if index is None or not 0 <= index < len(values):
        raise IndexError(f"there is no place {index} in a list of {len(values)}")
    return int(index)


def _remove_by_index(values: Any, index: int) -> list[Any]:
    made = list_of(values)
    del made[_place(made, index)]
    return made


def _set_value(values: Any, index: int, value: Any) -> list[Any]:
    made = list_of(values)
    made[_place(made, index)] = value
    return made


_VALUE = ANY
_LIST_TO_LIST: dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = {
    "add": (_add, ((_OBJECT, _VALUE), (_OBJECT, _VALUE, Type.INT))),
    "addAll": (_add_all, ((_OBJECT, _OBJECT), (_OBJECT, _OBJECT, Type.BOOL))),
    "clear": (_clear, ((_OBJECT,),)),
    "clone": (_clone, ((_OBJECT,),)),
    "remove": (_remove, ((_OBJECT, _VALUE),)),
    "removeAll": (_remove_all, ((_OBJECT, _OBJECT),)),
    "removeByIndex": (_remove_by_index, ((_OBJECT, Type.INT),)),
    "retainAll": (_retain_all, ((_OBJECT, _OBJECT),)),
    "setValue": (_set_value, ((_OBJECT, Type.INT, _VALUE),)),
}

register("list:create", _create, _resolve_create)
for _name, (_compute, _overloads) in _LIST_TO_LIST.items():
    register(f"list:{_name}", _compute, signature(f"list:{_name}", *((types, _OBJECT) for types in _overloads)))


# --- asking ------------------------------------------------------------------------------------------------------


def _contains(values: Any, value: Any) -> bool:
    return _within(list_of(values), value) >= 0


def _contains_all(values: Any, asked: Any) -> bool:
    return (
        all(_within(list_of(values), value) >= 0 for value in list_of(asked)) if list_of(values) else not list_of(asked)
    )


def _contains_any(values: Any, asked: Any) -> bool:
    known = list_of(values)
    return any(_within(known, value) >= 0 for value in list_of(asked))


def _get(values: Any, index: Any) -> Any:
    known = list_of(values)
    if index is None:
        raise TypeError("null is no place in a list")
    return known[index] if 0 <= index < len(known) else None


def _index_of(values: Any, value: Any) -> int:
    return _within(list_of(values), value)


def _last_index_of(values: Any, value: Any) -> int:
    known = list_of(values)
    index = _within(known[::-1], value)
    return index if index < 0 else len(known) - 1 - index


_ASKING: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Type]] = {
    "contains": (_contains, (_OBJECT, _VALUE), Type.BOOL),
    "containsAll": (_contains_all, (_OBJECT, _OBJECT), Type.BOOL),
    "containsAny": (_contains_any, (_OBJECT, _OBJECT), Type.BOOL),
    "get": (_get, (_OBJECT, Type.INT), _OBJECT),
    "indexOf": (_index_of, (_OBJECT, _VALUE), Type.INT),
    "isEmpty": (lambda values: not list_of(values), (_OBJECT,), Type.BOOL),
    "isList": (lambda value: isinstance(value, list), (_VALUE,), Type.BOOL),
    "lastIndexOf": (_last_index_of, (_OBJECT, _VALUE), Type.INT),
    "size": (lambda values: len(list_of(values)), (_OBJECT,), Type.INT),
}

for _name, (_compute, _types, _result) in _ASKING.items():
    register(f"list:{_name}", _compute, signature(f"list:{_name}", (_types, _result)))


# --- sorting -----------------------------------------------------------------------------------------------------


def _folded(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"a list of texts holds {text!r}")
    return text.upper().lower()


def _class_of(value: Any) -> str:
    if is_integer(value):
        return "Integer"
    return "Long" if is_long(value) else type(value).__name__


def _ascending(values: list[Any]) -> None:
    if not values:
        return
    first = values[0]
    if isinstance(first, str):
        if len(values) > 1:
            values.sort(key=_folded)
        return
    if isinstance(first, bool) or not isinstance(first, int | float):
        raise TypeError(f"a list of {type(first).__name__} cannot be sorted")
    if len({_class_of(value) for value in values}) > 1:
        raise TypeError("a list of different classes cannot be sorted")
    # NaN is greater than all, and -0.0 is less than 0.0.
    values.sort(key=lambda v: (v != v, 0.0 if v != v else v, str(v)[:1] != "-"))


def _sort(values: Any, order: str) -> list[Any]:
    made = list_of(values)
    if order != "REV":
        _ascending(made)
    if order != "ASC":
        made.reverse()
    return made


def _resolve_sort(types: Types, expressions: Expressions = ()) -> Type:
    result = signature("list:sort", ((_OBJECT,), _OBJECT), ((_OBJECT, Type.STRING), _OBJECT))(types, expressions)
    if len(expressions) == 2:
        order = expressions[1]
        if not isinstance(order, ast.Literal) or str(order.value).upper() not in ("ASC", "DESC", "REV"):
            raise SiddhiTypeError("the order of 'list:sort' is one of the constants 'ASC', 'DESC' and 'REV'")
    return result


@function("list:sort", _resolve_sort, inline=True)
def sort(site: Site, arguments: tuple[Code, ...]) -> Code:
    """Sort a list of texts (whatever their case) or of numbers; without an order it is only reversed, as in Siddhi."""
    order = str(arguments[1].literal).upper() if len(arguments) == 2 else "REV"
    return Code(f"{site.bind(_sort, 'sort')}({arguments[0].text}, {order!r})", _OBJECT, nullable=False)


# --- aggregators -------------------------------------------------------------------------------------------------


def _collect(values: list[Any], value: Any, distinct: Any = False) -> None:
    if not _flag(distinct) or _within(values, value) < 0:
        values.append(value)


def _merge(values: list[Any], more: Any, distinct: Any = False) -> None:
    _add_all(values, more, distinct)


def _form(types: Types, add: Callable[..., None], remove: Callable[..., Any]) -> AggregatorForm:
    boxer = boxer_of(types[0])
    value = "{v}" if len(types) == 1 else "{v}[0]"
    if boxer is not None:
        value = f"{boxer.__name__}({value})"
    rest = ", {v}[1]" if len(types) == 2 else ""
    names = {f"list_{call.__name__.strip('_')}": call for call in (add, remove)}
    added, removed = names
    return AggregatorForm(
        ("[]",),
        (f"{added}({{0}}, {value}{rest})",),
        (f"{removed}({{0}}, {value})",),
        # A copy: what was put out must not change with the group.
        "{0}[:]",
        "not {0}",
        skips_null=False,
        nullable=False,
        after_reset="[]",
        names=names | ({boxer.__name__: boxer} if boxer is not None else {}),
    )


@aggregator("list:collect", signature("list:collect", ((_VALUE,), _OBJECT), ((_VALUE, Type.BOOL), _OBJECT)))
def collect(types: Types, _leaving: bool) -> AggregatorForm:
    """Collect values into a list; with ``true`` each different one once, so one event that leaves takes it away.

    State
    -----
    The list: O(values).

    Notes
    -----
    Source: io.siddhi.extension.execution.list.CollectAggregateFunction.
    """
    return _form(types, _collect, _remove)


@aggregator("list:merge", signature("list:merge", ((_OBJECT,), _OBJECT), ((_OBJECT, Type.BOOL), _OBJECT)))
def merge(types: Types, _leaving: bool) -> AggregatorForm:
    """Append lists to one list; a list that leaves takes away every value that equals one of its own.

    State
    -----
    The list: O(values).

    Notes
    -----
    Source: io.siddhi.extension.execution.list.MergeAggregateFunction.
    """
    return _form(types, _merge, _remove_all)


# --- a list as events --------------------------------------------------------------------------------------------


def tokenizing(id: str, attributes: list[tuple[str, Type]]) -> Callable[..., Schema]:
    """Return the resolver of a stream function that takes objects and appends `attributes`."""

    def resolve(_schema: Schema, types: Types, _expressions: Expressions) -> Schema:
        if not types or set(types) != {_OBJECT}:
            raise SiddhiTypeError(f"'{id}' takes one or more objects", hint=f"write #{id}(attribute)")
        return Schema.of(attributes)

    return resolve


@stream_function("list:tokenize", tokenizing("list:tokenize", [("index", Type.INT), ("value", _OBJECT)]))
def tokenize(*lists: Any) -> Iterator[tuple[int, Any]]:
    """Give an event for each value of a list; of several lists for each place, with what they have there as a list."""
    columns = [list_of(values) for values in lists]
    for index in range(max(map(len, columns))):
        row = [column[index] if index < len(column) else None for column in columns]
        yield index, row[0] if len(columns) == 1 else row
