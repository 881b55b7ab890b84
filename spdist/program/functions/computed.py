"""Functions that Python computes outside of the loop, in front of it.

Those of one text are computed once for each text that comes, and looked up by its number. Others, of several
attributes or of one that is no text, are computed for each event of a source, once for each tuple of values that comes:
what they give is one more attribute of it, which windows keep like the others.

So whatever Python computes of attributes and constants has a typed form. The function is the operators' own, with its
nulls and errors. Where an error is met by a query that only filters and projects what comes, the event is lost in the
loop. Elsewhere, and where a value is not of its type, a program cannot go on: the operators take the events then
(`spdist.program.running.running.Running.process_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.functions.forms import Code
from spdist.java.numbers import text_of
from spdist.java.objects import box_float
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import RowReader
from spdist.operators.selection.selector import is_aggregator
from spdist.program.expressions import NotTyped, is_typed
from spdist.program.windows.kinds import JOINED

__all__ = ["CHANGING", "FAILED", "KNOWN", "MAKING", "MISTYPED", "NULL", "OPERATIONS", "UNKNOWN"]
__all__ += ["Computed", "ComputedAttribute", "Guard", "TextFunction"]
__all__ += ["argument_writer", "arguments_of", "computed", "guard_of", "known", "text_function"]

#: What is known of a text: nothing yet; that it has a value, or null; that the function fails on it, or
#: gives what is not of its type.
UNKNOWN, KNOWN, NULL, FAILED, MISTYPED = range(5)
#: Functions that change their first argument, and give it.
CHANGING = frozenset(
    {
        *("list:add", "list:addAll", "list:clear", "list:remove", "list:removeAll", "list:removeByIndex"),
        *("list:retainAll", "list:setValue", "list:sort"),
        *("map:clear", "map:put", "map:putAll", "map:putIfAbsent", "map:remove", "map:replace", "map:replaceAll"),
    }
)
#: Functions that give an object that nobody else has. What built-in aggregators give is so, too.
MAKING = frozenset(
    {
        *("createSet", "list:clone", "list:create"),
        *("json:getObject", "json:setElement", "json:toObject"),
        *("map:clone", "map:combineByKey", "map:create", "map:createFromJSON", "map:createFromXML"),
        *("map:keys", "map:values"),
    }
)
#: Parts of expressions without functions, which are computed in a few steps.
OPERATIONS = (ast.Variable, ast.Literal, ast.TimeLiteral, ast.Binary, ast.Not, ast.IsNull)
#: What a function that is computed outside of the loop consists of.
_PLAIN = (*OPERATIONS, ast.FunctionCall)


class _ArgumentReader(RowReader):
    """Reads attributes as arguments, for which `argument` has the source."""

    argument: Callable[[ast.Variable], str]

    def variable(self, variable: ast.Variable) -> Code:
        """Return the code of an attribute."""
        return Code(self.argument(variable), self.scope.resolve(variable).type, atom=True)

    def timestamp(self) -> str:
        """Refuse what differs from event to event."""
        raise NotTyped("the time of an event in a function that is computed before")


class _ArgumentWriter(ExpressionWriter):
    """Writes functions that look at no clock."""

    def clock(self) -> str:
        """Refuse what differs from time to time."""
        raise NotTyped("the clock in a function that is computed before")

    def write(self, expression: ast.Expression) -> Code:
        """Return the code of an expression, also of the text of a window's keys (`spdist.operators.unique.keys`)."""
        if not isinstance(expression, ast.FunctionCall) or expression.id != JOINED:
            return super().write(expression)
        # In a comprehension `super()` without arguments does not know the instance before Python 3.12
        keys = [super(_ArgumentWriter, self).write(one) for one in expression.args]
        # Alone a float is boxed, as in the operator: Java writes a Float otherwise than a Double
        alone = len(keys) == 1 and keys[0].type is Type.FLOAT
        texts = [f"box({keys[0].text})"] if alone else [one.text for one in keys]
        self.bindings.require("box", box_float)
        self.bindings.require("text_of", text_of)
        return Code(f"''.join(map(text_of, ({', '.join(texts)},)))", Type.STRING, nullable=False)


@dataclass(frozen=True, slots=True)
class TextFunction:
    """A function of one text.

    Parameters
    ----------
    name : str
        The prefix of its arrays: of values, and of what is known of each text. They have a place for each text behind
        that of null.
    id : str
        The function's name, for people.
    compute : callable
        From a text or None to its value.
    type : Type
        Of its values.
    origins : set of (str, int)
        The attributes of sources whose texts it is computed for.
    strict : set of (str, int)
        Those of them whose events a program cannot take where the function fails.
    held : set of (str, int)
        The prefixes of queries whose windows hold such texts, and the attributes that have them.
    """

    name: str
    id: str
    compute: Callable[[str | None], Any]
    type: Type
    origins: set[tuple[str, int]]
    strict: set[tuple[str, int]]
    held: set[tuple[str, int]] = field(default_factory=set)

    def known(self, text: str | None) -> tuple[int, Any]:
        """Return what is known of a text once it was computed, and its value."""
        return known(self.compute, self.type, (text,))


@dataclass(frozen=True, slots=True)
class Computed:
    """A function of attributes of what a query reads.

    Parameters
    ----------
    call : FunctionCall
        The call.
    arguments : tuple of int
        The places of the attributes, in order.
    compute : callable
        From their values to the function's.
    type : Type
        Of that.
    place : int
        Its own place, behind the attributes.
    """

    call: ast.FunctionCall
    arguments: tuple[int, ...]
    compute: Callable[..., Any]
    type: Type
    place: int


@dataclass(frozen=True, slots=True)
class Guard:
    """Conditions that an event of a source meets before a function is looked at.

    Parameters
    ----------
    arguments : tuple of int
        The places of the attributes that they name.
    holds : callable
        From the values of these to whether they hold.
    conditions : tuple of Expression
        The conditions.
    """

    arguments: tuple[int, ...]
    # Built anew for each writing of the text, so guards are compared by their conditions
    holds: Callable[..., bool] = field(compare=False)
    conditions: tuple[ast.Expression, ...]


@dataclass(slots=True)
class ComputedAttribute:
    """What a function gives for the events of a source.

    Parameters
    ----------
    name : str
        Of the array of its values; ``_n`` behind it has what is known of each: 0, `NULL` or `FAILED`.
    stream : str
        The source.
    arguments : tuple of int
        The places of the attributes.
    types : tuple of Type
        Of these.
    function : Computed
        What computes it.
    strict : bool
        Whether a program cannot take events that the function fails on.
    guards : list of Guard, optional
        What an event must meet to be looked at, one of these; None where each event may be.
    """

    name: str
    stream: str
    arguments: tuple[int, ...]
    types: tuple[Type, ...]
    function: Computed
    strict: bool = False
    guards: list[Guard] | None = field(default_factory=list)

    def looked_at(self, guard: Guard | None) -> None:
        """Take note that it is looked at where events meet conditions; None: wherever."""
        if guard is None:
            self.guards = None
        elif self.guards is not None and guard not in self.guards:
            self.guards.append(guard)


def known(compute: Callable[..., Any], type: Type, arguments: tuple[Any, ...]) -> tuple[int, Any]:
    """Return what is known of a function's value, and the value."""
    try:
        value = compute(*arguments)
    # Functions of users may raise anything; the operators meet it again, and say what it was
    except Exception:
        return FAILED, None
    if value is None:
        return NULL, None
    return (KNOWN, value) if is_typed(value, type) else (MISTYPED, None)


def arguments_of(
    call: ast.FunctionCall, place_of: Callable[[ast.Variable], int | None]
) -> dict[ast.Variable, int] | None:
    """Return the attributes whose function a call is, and their places; None where it is one of something else.

    An object that is made of constants is one of the first attribute, whatever that is: each event gets its own.
    """
    found: dict[ast.Variable, int] = {}
    for node in call.walk():
        place = place_of(node) if isinstance(node, ast.Variable) else 0
        if not isinstance(node, _PLAIN) or is_aggregator(node) or place is None:
            return None
        if isinstance(node, ast.Variable):
            found[node] = place
    made = all(node.id in CHANGING | MAKING for node in call.walk() if isinstance(node, ast.FunctionCall))
    return found or ({ast.Variable(""): 0} if made else None)


def computed(call: ast.FunctionCall, scope: Scope, places: Mapping[ast.Variable, int], place: int) -> Computed:
    """Return the function that a call is of its attributes; raises NotTyped where it also is one of something else.

    Parameters
    ----------
    call : FunctionCall
        The call.
    scope : Scope
        What its names mean.
    places : mapping of Variable to int
        See `arguments_of`.
    place : int
        The function's own.
    """
    functions, frame, bindings = catalog(False), Frame(), Bindings()
    writer = argument_writer(scope, lambda variable: f"a{places[variable]}", frame, bindings)
    try:
        code = writer.write(call)
        type = Type.STRING if call.id == JOINED else type_of(call, scope, functions)
    except SiddhiAppError:  # it calls a function that the app defines
        raise NotTyped(f"the function {call.id}()", call.span) from None
    except NotTyped as found:
        raise NotTyped(found.reason, call.span) from None
    if code.foreign is not None:  # its values are of another type than it says
        raise NotTyped(f"the function {call.id}()", call.span)
    arguments = tuple(sorted(set(places.values())))
    named = ", ".join(f"a{argument}" for argument in arguments)
    body = [f"def compute({named}):", *indent([*frame.assignments(), f"return {code.text}"])]
    compute = build(f"{call.id} of attributes", body, bindings.names)["compute"]
    return Computed(call, arguments, compute, type, place)


def guard_of(handlers: Sequence[ast.Expression | ast.StreamFunction], scope: Scope) -> Guard | None:
    """Return the conditions that stand in front of everything that has functions; None where there are none."""
    first: list[ast.Expression] = []
    for one in handlers:
        # What stands behind a function is only known once that is computed
        if isinstance(one, ast.StreamFunction) or not all(isinstance(node, OPERATIONS) for node in one.walk()):
            break
        first.append(one)
    if not first:
        return None
    asked, bindings = set[int](), Bindings()

    def argument(variable: ast.Variable) -> str:
        asked.add(scope.resolve(variable).attribute)
        return f"a{scope.resolve(variable).attribute}"

    writer = argument_writer(scope, argument, Frame(), bindings)
    test = " and ".join(writer.condition(one) for one in first)
    head = f"def holds({', '.join(f'a{place}' for place in sorted(asked))}):"
    holds = build("conditions before a function", [head, f"    return {test}"], bindings.names)["holds"]
    return Guard(tuple(sorted(asked)), holds, tuple(first)) if asked else None


def argument_writer(
    scope: Scope, argument: Callable[[ast.Variable], str], frame: Frame, bindings: Bindings
) -> ExpressionWriter:
    """Return a writer of what is computed in front of the loop.

    Parameters
    ----------
    scope : Scope
        What names mean.
    argument : callable
        From an attribute to source of its value.
    frame, bindings
        As for `ExpressionWriter`.
    """
    reader = _ArgumentReader(scope, catalog(False), frame)
    reader.argument = argument
    return _ArgumentWriter(reader, frame, bindings)


def text_function(name: str, made: Computed) -> TextFunction:
    """Return a function of one attribute, a text, as one whose values are looked up by the text's number."""
    return TextFunction(name, made.call.id, made.compute, made.type, set(), set())
