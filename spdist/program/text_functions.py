"""Functions of one text: computed once for each text that comes, outside of the loop, which looks them up by number.

So whatever Python computes of a text and constants has a typed form. The function is the operators' own, with its
nulls and errors. Where an error is met by a query that only filters and projects what comes, the event is lost in the
loop. Elsewhere, and where a value is not of its type, a program cannot go on: the operators take the events then
(`spdist.program.running.running.Running.process_columns`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.functions.forms import Code
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Reference, Scope
from spdist.language.types import Type
from spdist.mapping.read_rows import PYTHON
from spdist.operators.expressions.codegen import Bindings, Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.expressions.readers import RowReader
from spdist.program.expressions import NotTyped, fits

__all__ = ["FAILED", "KNOWN", "MISTYPED", "NULL", "UNKNOWN", "TextFunction", "argument_of", "text_function"]

#: What is known of a text: nothing yet; that it has a value, or null; that the function fails on it, or
#: gives what is not of its type.
UNKNOWN, KNOWN, NULL, FAILED, MISTYPED = range(5)


class _TextReader(RowReader):
    """Reads a text, whatever attribute is asked for."""

    def read(self, reference: Reference) -> Code:
        """Return the code of the text."""
        return Code("text", Type.STRING, atom=True)

    def timestamp(self) -> str:
        """Refuse what differs from event to event."""
        raise NotTyped("the time of an event in a function of a text")


class _TextWriter(ExpressionWriter):
    """Writes functions that look at no clock."""

    def clock(self) -> str:
        """Refuse what differs from time to time."""
        raise NotTyped("the clock in a function of a text")


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
        try:
            value = self.compute(text)
        except Exception:
            return FAILED, None
        if value is None:
            return NULL, None
        typed = value.__class__ is PYTHON[self.type] and fits(value, self.type)
        return (KNOWN, value) if typed else (MISTYPED, None)


def argument_of(call: ast.FunctionCall) -> ast.Variable | None:
    """Return the attribute whose function a call is; None where it looks at none, or at several."""
    found = {node for node in call.walk() if isinstance(node, ast.Variable)}
    plain = all(
        isinstance(node, ast.Variable | ast.Literal | ast.TimeLiteral | ast.FunctionCall) for node in call.walk()
    )
    return next(iter(found)) if plain and len(found) == 1 else None


def text_function(name: str, call: ast.FunctionCall, scope: Scope) -> TextFunction:
    """Return the function that a call is of its attribute; raises NotTyped where it also is one of something else."""
    known, frame, bindings = catalog(False), Frame(), Bindings()
    try:
        code = _TextWriter(_TextReader(scope, known, frame), frame, bindings).write(call)
        type = type_of(call, scope, known)
    except SiddhiAppError:  # it calls a function that the app defines
        raise NotTyped(f"the function {call.id}()", call.span) from None
    body = ["def compute(text):", *indent([*frame.assignments(), f"return {code.text}"])]
    compute = build(f"{call.id} of a text", body, bindings.names)["compute"]
    return TextFunction(name, call.id, compute, type, set(), set())
