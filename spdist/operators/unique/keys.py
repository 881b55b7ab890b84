"""What the windows of the family ``unique:`` share: the key that makes an event unique, and their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from spdist.errors import SiddhiTypeError
from spdist.java.numbers import text_of
from spdist.java.objects import box_float
from spdist.language.ast import Expression, FunctionCall
from spdist.language.catalog import Catalog, WindowResolver
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.operators.base import Row, VirtualClock, WindowSetting
from spdist.operators.core.arguments import Arguments, MakeArguments, compile_arguments
from spdist.operators.core.parameters import Parameter

__all__ = ["KEY", "KeyOf", "boxed_key", "key_arguments", "key_of", "key_only", "keys_of", "object_of"]

_TYPES = frozenset(Type) - {Type.OBJECT}
#: The first parameter of most windows of the family.
KEY = Parameter("unique.key", _TYPES, "either")

#: From an event to its key.
KeyOf: TypeAlias = Callable[[int, Row], Any]


def keys_of(window: str) -> WindowResolver:
    """Return the resolver of a window that takes any number of keys, and nothing else."""

    def resolve(types: tuple[Type, ...], expressions: tuple[Expression, ...]) -> None:
        if not types or not set(types) <= _TYPES:
            hint = f"it is written as {window}(key[, key, …])"
            raise SiddhiTypeError("it takes keys of any type but object", hint=hint)

    return resolve


def key_only(title: str, call: FunctionCall, scope: Scope, catalog: Catalog) -> MakeArguments:
    """Compile the first argument; see `spdist.operators.base.Window.prepare`."""
    return compile_arguments(f"{title} {call.id}", call.args[:1], scope, catalog)


def boxed_key(title: str, call: FunctionCall, scope: Scope, catalog: Catalog) -> MakeArguments:
    """Compile the first argument, a float as Java's object: its text and its hash code are not those of a double."""
    make = key_only(title, call, scope, catalog)
    if type_of(call.args[0], scope, catalog) is not Type.FLOAT:
        return make

    def boxing(clock: VirtualClock) -> Arguments:
        arguments = make(clock)
        return lambda timestamp, row: (box_float(arguments(timestamp, row)[0]),)

    return boxing


def key_arguments(title: str, call: FunctionCall, scope: Scope, catalog: Catalog) -> MakeArguments:
    """Compile all arguments; see `spdist.operators.base.Window.prepare`."""
    return compile_arguments(f"{title} {call.id}", call.args, scope, catalog)


def key_of(setting: WindowSetting) -> KeyOf:
    """Return what computes the key of an event: the texts of the arguments, one after the other."""
    arguments = setting.prepared(setting.clock)
    return lambda timestamp, row: "".join([text_of(value) for value in arguments(timestamp, row)])


def object_of(setting: WindowSetting) -> KeyOf:
    """Return what computes the key of an event: the value of the only argument."""
    arguments = setting.prepared(setting.clock)
    return lambda timestamp, row: arguments(timestamp, row)[0]
