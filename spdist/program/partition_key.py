"""Keys of partitions that are computed, or are ranges: an event may have one, several, or none.

A run of events of one key is a chunk for the queries of the partition, as in `spdist.operators.partitions.partition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spdist.language import ast
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.types import Schema, Type
from spdist.program.expressions import NotTyped, TypedWriter, Value
from spdist.program.functions.computed import Computed, arguments_of, computed
from spdist.program.functions.forms import CLOCKS
from spdist.program.key_text import key_word

__all__ = ["computed_type", "key_writer", "most_keys", "pairs", "partition_word"]


def partition_word(value: Value) -> str:
    """Return source of a value, which is not null, as the key of a partition."""
    # Java writes the key of a float as a float, so doubles that round to one float are one key
    return key_word(replace(value, text=f"f32({value.text})") if value.type is Type.FLOAT else value)


def key_writer(
    schema: Schema,
    read: Callable[[int], Value],
    timestamp: str,
    name: Callable[[], str],
    number: Callable[[str], int],
    given: Callable[[Computed], Value | None],
) -> TypedWriter:
    """Return a writer of keys over the events of a stream: for them the clock stands still, so it has no form.

    Parameters
    ----------
    schema : Schema
        The attributes of the stream.
    read : callable
        From an attribute's place to its value.
    timestamp, name, number
        As for `TypedWriter`.
    given : callable
        From a function that is computed before the loop to its value, None where it cannot be.
    """

    def variable(named: ast.Variable) -> Value:
        place = schema.index(named.name)
        assert place is not None
        return read(place)

    def clock(call: ast.FunctionCall) -> None:
        if call.id in CLOCKS:
            raise NotTyped("the clock in the key of a partition", call.span)

    def function(call: ast.FunctionCall) -> Value | None:
        places = arguments_of(call, lambda named: schema.index(named.name))
        return None if places is None else given(computed(call, scope, places, len(schema)))

    scope = Scope((AttributeSource("", "", schema),))
    return TypedWriter(variable, timestamp, name, number, clock, text_function=function)


def computed_type(key: ast.PartitionKey, schema: Schema) -> Type:
    """Return the type of the keys of a stream; raises NotTyped."""
    if key.value is None:
        if len({part.label for part in key.ranges}) < len(key.ranges):
            raise NotTyped("a partition with two ranges of one name", key.span)
        return Type.STRING
    read = [Value("0", "", type) for type in schema.types]

    def given(function: Computed) -> Value:
        return Value("0", "", function.type)

    return key_writer(schema, read.__getitem__, "0", lambda: "t", lambda text: 0, given).write(key.value).type


def most_keys(key: ast.PartitionKey) -> int:
    """Return how many keys an event may have."""
    return len(key.ranges) or 1


def pairs(writer: TypedWriter, key: ast.PartitionKey, event: str, words: str, events: str, count: str) -> list[str]:
    """Return what writes each key of an event, and the event.

    Parameters
    ----------
    writer : TypedWriter
        Of expressions over the event.
    key : PartitionKey
        Where its keys come from.
    event : str
        Source of its place.
    words, events, count : str
        The arrays of keys and of events, and the name of how many there are.
    """

    def stored(word: str) -> list[str]:
        return [f"{words}[{count}] = {word}", f"{events}[{count}] = {event}", f"{count} += 1"]

    def where(test: str, lines: list[str]) -> list[str]:
        return [f"if {test}:", *(f"    {line}" for line in lines)] if test else lines

    if key.value is not None:
        value = writer.write(key.value)
        return [*writer.lines, *where(f"not ({value.null})" if value.null else "", stored(partition_word(value)))]
    for part in key.ranges:
        test = writer.condition(part.condition)
        label = writer.write(ast.Literal(part.label, Type.STRING))
        writer.lines += where(test, stored(label.text))
    return writer.lines
